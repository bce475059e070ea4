"""`schedlab tune`: search the settings of I/O schedulers, then measure the best ones again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.command_options import file_options, started_options
from schedlab.cli.options import (
    GOALS,
    command,
    command_argument,
    load_options,
    margin_option,
    measured_options,
    resume_rest_options,
    target_options,
    typed_options,
)
from schedlab.cli.sections import section
from schedlab.cli.types import Duration, Listed, Words

if TYPE_CHECKING:
    from schedlab.app.tune.tune import State

_search_options = section(
    "Search",
    click.option("--scheduler", type=Listed(), default="all", show_default=True,
                 metavar="NAMES|all", help="Schedulers to tune: bfq,kyber."),
    click.option("--goal", type=GOALS, default="throughput", show_default=True,
                 help="What the primary metrics are."),
    click.option("--maximise", metavar="METRIC", help="Maximise this, instead of --goal."),
    click.option("--minimise", metavar="METRIC", help="Minimise this, instead of --goal."),
    click.option("--subject-to", "constraints", multiple=True, metavar="METRIC<VALUE",
                 help="A constraint, such as 'latency_ns_p99<5ms'."),
    click.option("--budget", type=Duration(), default="30m", show_default=True,
                 help="Time for the search and the final measurement."),
    click.option("--space", "ranges", multiple=True, metavar="NAME=LOW..HIGH",
                 help="Range of a tunable, also of one outside the built-in table."),
    click.option("--tunables", type=Words(), help="Search only these tunables."),
    margin_option,
    usual="--scheduler --goal --budget --minimise --subject-to",
)  # fmt: skip


@command()
@_search_options
@target_options
@load_options
@started_options
@file_options
@measured_options
@resume_rest_options
@click.option("--kernel", hidden=True)
@command_argument
def tune(command: tuple[str, ...], as_json: bool, **typed: Any) -> None:
    """Search the settings of I/O schedulers for this work, and show whether any is worth setting.

    Every setting is measured in one block with the best one so far, starting with the kernel's
    default. At the end the best three and the default are measured again; only that decides.
    """  # fmt: skip
    from schedlab.app import options
    from schedlab.app.admit import admit
    from schedlab.app.compare.own_work import rehearse
    from schedlab.app.measure import measure
    from schedlab.app.tune import question as tune_question
    from schedlab.app.tune import tune as tuning_of
    from schedlab.app.tune import view as tune_view
    from schedlab.cli.show import measuring, print_message
    from schedlab.nouns import to_json

    place, names = options.place_of(typed), typed_options(click.get_current_context())
    if not typed["resume"]:
        options.check_work(names, command, typed)
    permission = options.permission_of(place)
    if typed["resume"]:
        options.check_resumed(names, extends=False)
        permission = replace(permission, trust=typed["trust"])
        tuning, admitted = tuning_of.load(typed["resume"], permission)
        permission, base, question = admitted.permission, tuning.base, tuning.question
    else:
        base, question = tune_question.typed_question(place, command, typed, print_message)
    if typed["dry_run"]:
        lines = tune_question.preview_lines(base, question, permission)
        document = {"schema": 1, "experiment": to_json(base), "asked": to_json(question)}
        click.echo(json.dumps(document) if as_json else "\n".join(lines))
        return
    if typed["rehearse"]:
        with measuring() as observer:
            rehearse(admit(base, permission), observer)
        return
    if not typed["resume"]:
        folder = typed["out"] or measure.default_folder("tune")
        tuning, admitted = tuning_of.start(base, question, folder, permission)
    with measuring() as observer:
        tuning_of.run(tuning, admitted, tuning_of.Watcher(watch, observer))
    shown = tune_view.view(tuning)
    files = tune_view.write_reports(tuning, shown)
    if as_json:
        click.echo(json.dumps(tune_view.as_json(tuning, shown, files)))
    else:
        click.echo(tune_view.text(shown, Path(files["tune"])))


def watch(state: State) -> None:
    """One line that is rewritten; without a terminal every tenth block."""
    from schedlab.app.tune.view import state_line
    from schedlab.cli.show import LiveLine

    LiveLine().show(state_line(state), is_due=state.block % 10 == 1)
