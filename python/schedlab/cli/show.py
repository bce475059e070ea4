"""What commands print: messages, progress, the verdict, a preview."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from schedlab.cli.options import typed_options
from schedlab.spec import SCHEMA_VERSION
from schedlab.spec.quantities import duration_text

if TYPE_CHECKING:
    from schedlab.app.measure import Observer
    from schedlab.app.preview import Preview
    from schedlab.result import Result
    from schedlab.run.admitted import Permission
    from schedlab.run.executor import Progress
    from schedlab.spec import Experiment


def print_message(text: str) -> None:
    """Print a message on stderr."""
    click.echo(text, err=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout; those that begin with `note: ` or `warning: ` on stderr."""
    for line in lines:
        click.echo(line, err=line.startswith(("note: ", "warning: ")))


def print_json(document: Mapping[str, Any]) -> None:
    """Print a JSON document on stdout, with the version of its schema."""
    click.echo(json.dumps({"schema": SCHEMA_VERSION, **document}, indent=1))


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """TERM and HUP end the work as Ctrl-C does, so that everything is restored."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def progress() -> Iterator[Callable[[Progress], None]]:
    """Print progress on stderr between cells: one line that is rewritten, or ten lines in all.

    Nothing runs in the background, so nothing is drawn inside a measured window.
    """
    live = sys.stderr.isatty()
    tenths = 0

    def watch(now: Progress) -> None:
        nonlocal tenths
        if now.last is not None and now.last.status == "discarded":
            why = "; ".join(f"{gate.gate}: {gate.detail}" for gate in now.last.gates if gate.fatal)
            end = "\r\033[K" if live else ""
            print_message(f"{end}repeated: {now.last.candidate} on {now.last.workload}: {why}")
        line = f"block {now.block}/{now.blocks}, run {now.done}/{now.total}"
        if now.last is not None:  # before the first run the time left is unknown
            line += f", {duration_text(now.eta_s)} left"
        if live:
            click.echo(f"\r\033[K{line}", nl=False, err=True)
        elif now.last is None or now.done * 10 // max(now.total, 1) > tenths:
            tenths = now.done * 10 // max(now.total, 1)
            print_message(line)

    try:
        yield watch
    finally:
        if live:
            click.echo("\r\033[K", nl=False, err=True)


@contextmanager
def measuring() -> Iterator[Observer]:
    """An observer that prints messages and progress; TERM and HUP interrupt the measurement."""
    from schedlab.app.measure import Observer

    with signals_interrupt(), progress() as watch:
        yield Observer(watch, print_message)


Shown: TypeAlias = "Callable[[Result, bool], None]"


def run_and_present(
    experiment: Experiment,
    permission: Permission,
    name: str,
    typed: Mapping[str, Any],
    shown_by: Shown | None = None,
) -> Result | None:
    """Admit an experiment, then show what it would do, rehearse it, or measure it and show that.

    `typed` holds `out` and `as_json`, and may ask for `dry_run` or `rehearse`.
    """
    from schedlab.app import measure
    from schedlab.app.admit import admit
    from schedlab.app.own_work import rehearse
    from schedlab.app.preview import preview

    admitted = admit(experiment, permission)
    if typed.get("dry_run"):
        show_preview(preview(admitted), typed)
        return None
    if typed.get("rehearse"):
        with measuring() as observer:
            rehearse(admitted, observer)
        return None
    for note in (*experiment.notes, *admitted.notes):
        print_message(f"note: {note}")
    folder = measure.create(admitted, typed["out"] or measure.default_folder(name))
    with measuring() as observer:
        result = measure.measure(admitted, folder, observer=observer)
    (shown_by or present)(result, typed["as_json"])
    return result


def resume_and_present(
    typed: Mapping[str, Any], permission: Permission, shown_by: Shown | None = None
) -> None:
    """Measure the rest of the folder `resume`, extended by `blocks` or `budget` where the command
    has them; show it."""
    from schedlab.app.measure import preview_of_rest, resume
    from schedlab.app.options import check_resumed

    check_resumed(typed_options(click.get_current_context()), extends="blocks" in typed)
    more = {"blocks": typed.get("blocks"), "budget_s": typed.get("budget")}
    if typed.get("dry_run"):
        show_preview(preview_of_rest(typed["resume"], **more, permission=permission), typed)
        return
    with measuring() as observer:
        result = resume(typed["resume"], **more, permission=permission, observer=observer)
    (shown_by or present)(result, typed["as_json"])


def present(result: Result, as_json: bool) -> None:
    """Write verdict and reports into the folder, and print the verdict."""
    files = result.write_reports()
    if as_json:
        click.echo(json.dumps({**result.as_json(), "files": files}))
        return
    width, colour = terminal()
    paths = [("Report", files["html"]), ("Workbook", files["xlsx"])]
    click.echo(result.text(width=width, colour=colour, reports=paths))


def show_preview(preview: Preview, typed: Mapping[str, Any]) -> None:
    """Print what would be measured, written, run and set, and how long it takes."""
    click.echo(json.dumps(preview.as_json()) if typed["as_json"] else "\n".join(preview.lines()))


def terminal() -> tuple[int, bool]:
    """Width of the output in columns, and whether it may have colour."""
    live = sys.stdout.isatty()
    colour = live and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return (shutil.get_terminal_size().columns if live else 80), colour
