"""`schedlab live`: compare settings under the load that a device has anyway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import (
    PATH,
    candidate_option,
    command,
    command_argument,
    margin_option,
    measured_options,
    resume_rest_options,
    switch_option,
    typed_options,
)
from schedlab.cli.sections import heeded
from schedlab.cli.types import Duration, Listed, Words
from schedlab.errors import SpecError


@command(context_settings={"ignore_unknown_options": True})
@click.argument("path", type=PATH, required=False)
@click.option(
    "--schedulers", type=Listed(), help="Candidates, the first is the baseline: none,bfq."
)
@candidate_option
@switch_option
@click.option("--every", type=Duration(), default="60s", show_default=True, help="A period.")
@click.option("--for", "for_s", type=Duration(), default="1h", show_default=True, help="All.")
@click.option("--wash-out", type=Duration(), help="Not measured after a switch (default: a pilot).")
@click.option("--guard", "guards", multiple=True, help="End it: 'read p99 > 50ms for 5s'.")
@click.option("--groups", type=Words(), help="Control groups to count apart: a.slice/db.service.")
@click.option("--metric", help="Yours, of COMMAND, a file or a page: NAME:UNIT=stdout~…")
@heeded("--metric", "--unconfined", is_flag=True, help="Do not confine COMMAND.")
@click.option("--deciding", help="The metric that decides (default: the mean latency).")
@click.option("--yes", is_flag=True, help="Switch a device in use without asking.")
@margin_option
@resume_rest_options
@click.option("--blocks", type=click.IntRange(1, 10_000), help="With --resume: so many in all.")
@measured_options
@command_argument
def live(path: Path | None, command: tuple[str, ...], **typed: Any) -> None:
    """Compare settings under the load that PATH has (a device in use, or a directory on it).

    Nothing is started: the scheduler is switched back and forth under the work that runs, and its
    requests are counted. The setting from before returns at the end, after Ctrl-C and kill -9, and
    at once when a guard trips. Ctrl-C keeps a valid result; --resume DIR continues it.
    """
    from schedlab.app.live import live as app
    from schedlab.app.measure.measure import default_folder
    from schedlab.app.options import check_heeded, permission
    from schedlab.cli.live_screen import watching
    from schedlab.cli.show import (
        answer_so_far,
        print_message,
        resume_and_present,
        run_and_present,
    )

    if (path is None) == (typed["resume"] is None):
        raise SpecError("name either PATH or --resume DIR", "schedlab live /dev/sdb --yes")
    allowed = permission(None, trust=True, in_use=True)
    if path is None:
        with answer_so_far(typed["resume"], typed["as_json"]):
            resume_and_present(typed, allowed, watched_by=watching)
        return
    if typed["blocks"]:
        raise SpecError("--blocks extends what --resume names", "--for says how long, else")
    named = typed_options(click.get_current_context())
    check_heeded(named, set(named))
    question = app.question(path, command, typed)
    for line in app.what_it_does(question):
        print_message(line)
    if typed["dry_run"]:
        return
    if not typed["yes"] and not click.confirm("Switch it?", err=True):
        raise SpecError("not switched", "--yes")
    experiment = app.prepared(question, print_message)
    out = typed["out"] or default_folder("live")
    with answer_so_far(out, typed["as_json"]):
        run_and_present(experiment, allowed, "live", {**typed, "out": out}, watched_by=watching)
