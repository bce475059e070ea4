"""`schedlab tune`: search the settings of I/O schedulers, then measure the best ones afresh."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.command_options import file_options, started_options, work_of
from schedlab.cli.compare import experiment_of, load_options, own_work
from schedlab.cli.options import (
    PATH,
    dry_run_option,
    json_option,
    out_option,
    permission_of,
    place_of,
    seed_option,
    target_options,
)
from schedlab.cli.types import Duration, Percent, Words

if TYPE_CHECKING:
    from schedlab.app.tune import State

USUAL = ("steady-reader", "readers")


@click.command()
@target_options
@click.option(
    "--scheduler",
    default="all",
    show_default=True,
    metavar="NAMES|all",
    help="Whose settings are searched: bfq,kyber.",
)
@click.option(
    "--goal",
    type=click.Choice(["throughput", "latency", "fairness", "responsiveness"]),
    default="throughput",
    show_default=True,
    help="What the primary metrics are.",
)
@click.option("--maximise", metavar="METRIC", help="This metric decides instead.")
@click.option("--minimise", metavar="METRIC", help="This metric decides instead.")
@click.option(
    "--subject-to",
    "constraints",
    multiple=True,
    metavar="METRIC<VALUE",
    help="A constraint, such as 'latency_ns_p99<5ms'.",
)
@click.option(
    "--budget",
    type=Duration(),
    default="30m",
    show_default=True,
    help="Time for the search and the fresh measurement.",
)
@click.option(
    "--space",
    "ranges",
    multiple=True,
    metavar="NAME=LOW..HIGH",
    help="Range of a tunable, also of one that is not in our table.",
)
@click.option("--tunables", type=Words(), help="Search only these tunables.")
@click.option(
    "--margin",
    type=Percent(),
    default="2%",
    show_default=True,
    help="Smaller differences are treated as equivalent.",
)
@load_options
@started_options
@file_options
@seed_option
@out_option
@dry_run_option
@json_option
@click.option("--resume", type=PATH, metavar="DIR", help="Resume a search.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def tune(
    out: Path | None,
    dry_run: bool,
    as_json: bool,
    resume: Path | None,
    rehearse: bool,
    command: tuple[str, ...],
    **typed: Any,
) -> None:
    """Search the settings of I/O schedulers for this work, and say whether any is worth setting.

    Every setting is measured in one block with the best one so far, beginning with the kernel's
    default. At the end the best three and the default are measured afresh; only that decides.
    """  # fmt: skip
    from schedlab.app import measure, tune_view
    from schedlab.app import tune as tuning_of
    from schedlab.cli.show import measuring

    place = place_of(typed)
    permission = permission_of(place)
    if resume:
        tuning, admitted = tuning_of.load(resume, permission)
    else:
        base, asked = question(place, command, typed)
        if dry_run:
            preview(base, asked, permission, as_json)
            return
        folder = out or measure.default_folder("tune")
        tuning, admitted = tuning_of.start(base, asked, folder, permission)
    with measuring() as observer:
        tuning_of.run(tuning, admitted, tuning_of.Watcher(watch, observer))
    shown = tune_view.view(tuning)
    files = tune_view.write_reports(tuning, shown)
    if as_json:
        click.echo(json.dumps(tune_view.as_json(tuning, shown, files)))
    else:
        click.echo(tune_view.text(shown, Path(files["tune"])))


def question(place: Any, command: tuple[str, ...], typed: dict[str, Any]) -> tuple[Any, Any]:
    """The experiment with the kernel's default, and what is searched."""
    from schedlab.app.tune_question import Options, question_of

    taken = {key: typed.pop(key) for key in ("maximise", "minimise", "constraints", "ranges")}
    budget_s, tunables, names = (typed.pop(key) for key in ("budget", "tunables", "scheduler"))
    design = {"labels": None, "aa": False, "blocks": 1, "budget": None, "until_decided": False}
    rest = {"precision": None, "may_extend": None, "quick": False, "schedulers": None}
    typed |= {**design, **rest}
    work = work_of(command, typed)
    if work is None and not (typed["workloads"] or typed["tests"]):
        typed["workloads"] = USUAL
    options = Options(
        schedulers=names,
        budget_s=budget_s,
        tunables=tunables or (),
        margin=typed["margin"],
        **taken,
    )

    def make(default: str) -> Any:
        typed["schedulers"] = default
        return experiment_of(place, typed) if work is None else own_work(place, work, typed)

    return question_of(place, make, options)


def preview(base: Any, asked: Any, permission: Any, as_json: bool) -> None:
    """What would be searched, and what the work writes; nothing is changed."""
    from schedlab.app.tune_question import preview_lines
    from schedlab.spec import to_json

    lines = preview_lines(base, asked, permission)
    if as_json:
        click.echo(json.dumps({"schema": 1, "experiment": to_json(base), "asked": to_json(asked)}))
    else:
        click.echo("\n".join(lines))


def watch(state: State) -> None:
    """One line that is rewritten; without a terminal every tenth block."""
    live = sys.stderr.isatty()
    if not live and state.block % 10 != 1:
        return
    from schedlab.spec.quantities import duration_text

    line = (
        f"block {state.block}: best {state.incumbent}{_range(state.incumbent_interval)}, "
        f"trying {state.challenger}{_range(state.challenger_interval)}, "
        f"{duration_text(state.left_s)} left"
    )
    click.echo(f"\r\033[K{line}" if live else line, nl=not live, err=True)


def _range(found: Any) -> str:
    """An interval of log ratios to the default, in percent."""
    if found is None:
        return ""
    mean = f" {math.expm1(found.mean):+.0%}"
    if not math.isfinite(found.high):
        return mean
    return f"{mean} ({math.expm1(found.low):+.0%} to {math.expm1(found.high):+.0%})"
