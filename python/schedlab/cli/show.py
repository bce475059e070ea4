"""How commands talk to a person: messages, progress, the verdict, a preview."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from schedlab.spec.quantities import duration_text

if TYPE_CHECKING:
    from schedlab.app.measure import Observer
    from schedlab.result import Result
    from schedlab.run.admitted import Admitted, Permission
    from schedlab.run.executor import Progress
    from schedlab.spec import Experiment


def say(text: str) -> None:
    """A line for the person, on stderr."""
    click.echo(text, err=True)


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
            say(f"{end}repeated: {now.last.candidate} on {now.last.workload}: {why}")
        line = f"block {now.block}/{now.blocks}, run {now.done}/{now.total}"
        if now.last is not None:  # before the first run nothing is known of the time
            line += f", {duration_text(now.eta_s)} left"
        if live:
            click.echo(f"\r\033[K{line}", nl=False, err=True)
        elif now.last is None or now.done * 10 // max(now.total, 1) > tenths:
            tenths = now.done * 10 // max(now.total, 1)
            say(line)

    try:
        yield watch
    finally:
        if live:
            click.echo("\r\033[K", nl=False, err=True)


@contextmanager
def measuring() -> Iterator[Observer]:
    """Who is told of a measurement in front of a person; TERM and HUP interrupt it."""
    from schedlab.app.measure import Observer

    with signals_interrupt(), progress() as watch:
        yield Observer(watch, say)


def run_and_present(
    experiment: Experiment,
    permission: Permission,
    *,
    out: Path | None,
    name: str,
    dry_run: bool,
    as_json: bool,
    shown_by: Callable[[Result, bool], None] | None = None,
) -> Result | None:
    """Admit an experiment, then show what it would do, or measure it and print the verdict."""
    from schedlab.app import measure
    from schedlab.app.admit import admit

    admitted = admit(experiment, permission)
    if dry_run:
        show_preview(admitted, as_json)
        return None
    for note in (*experiment.notes, *admitted.notes):
        say(f"note: {note}")
    folder = measure.create(admitted, out or measure.default_folder(name))
    with measuring() as observer:
        result = measure.measure(admitted, folder, observer=observer)
    (shown_by or present)(result, as_json)
    return result


def present(result: Result, as_json: bool) -> None:
    """Write verdict and reports into the folder, and print the verdict."""
    files = result.write_reports()
    if as_json:
        click.echo(json.dumps({**result.as_json(), "files": files}))
        return
    width, colour = terminal()
    paths = [("Report", files["html"]), ("Workbook", files["xlsx"])]
    click.echo(result.text(width=width, colour=colour, reports=paths))


def show_preview(admitted: Admitted, as_json: bool) -> None:
    """What would be measured, written, run and set, and how long it takes."""
    from schedlab.app.preview import preview
    from schedlab.spec import to_json

    found = preview(admitted)
    if as_json:
        data = {
            "schema": 1,
            "experiment": to_json(admitted.experiment),
            "plan": to_json(found.plan)["cells"],
            "settings": [{"candidate": c, "writes": list(map(list, w))} for c, w in found.settings],
            "writes": admitted.writes,
            "programs": admitted.programs,
            "seconds": found.seconds,
        }
        click.echo(json.dumps(data))
        return
    click.echo("\n".join(found.lines()))


def terminal() -> tuple[int, bool]:
    """Width of the output in columns, and whether it may have colour."""
    live = sys.stdout.isatty()
    colour = live and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return (shutil.get_terminal_size().columns if live else 80), colour
