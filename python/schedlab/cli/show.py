"""Output of commands: messages, progress, the verdict, a preview."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from schedlab.cli.options import typed_options
from schedlab.errors import Interrupted, SchedlabError, SpecError
from schedlab.nouns import SCHEMA_VERSION
from schedlab.nouns.printable import printable

if TYPE_CHECKING:
    from schedlab.app.measure.measure import Observer
    from schedlab.app.preview import Preview
    from schedlab.nouns import Experiment
    from schedlab.result import Result
    from schedlab.run.admitted import Permission
    from schedlab.run.executor import Progress

# How long nothing is printed where there is no terminal, unless one run takes longer.
SILENCE_S = 10.0


def print_message(text: str) -> None:
    """Print a message on stderr, without what a stranger's text would do to the terminal."""
    click.echo(printable(text), err=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout; those that begin with `note: ` or `warning: ` on stderr."""
    for line in lines:
        click.echo(printable(line), err=line.startswith(("note: ", "warning: ")))


def print_json(document: Mapping[str, Any]) -> None:
    """Print a JSON document on stdout, with the version of its schema."""
    click.echo(json.dumps({"schema": SCHEMA_VERSION, **document}, indent=1))


def print_result(as_json: bool, document: Mapping[str, Any], lines: Iterable[str]) -> None:
    """Print a result as a JSON document, or as lines for people."""
    if as_json:
        print_json(document)
    else:
        print_lines(lines)


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


class LiveLine:
    """A line on stderr that is rewritten on a terminal; elsewhere some of its texts are printed.

    Nothing runs in the background, so nothing is drawn inside a measured window.
    """

    _CLEAR = "\r\033[K"

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty()

    def show(self, text: str, is_due: bool) -> None:
        """Replace the line, cut to one row; without a terminal print `text` if it `is_due`."""
        if self._is_live:
            from rich.cells import cell_len, set_cell_size

            room = (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1
            text = printable(text)
            text = set_cell_size(text, min(room, cell_len(text)))
            click.echo(f"{self._CLEAR}{text}", nl=False, err=True)
        elif is_due:
            print_message(text)

    def say(self, text: str) -> None:
        """Print a message in place of the line."""
        if self._is_live:
            click.echo(self._CLEAR, nl=False, err=True)
        print_message(text)


@contextmanager
def live_line() -> Iterator[LiveLine]:
    """A live line that is removed at the end."""
    line = LiveLine()
    try:
        yield line
    finally:
        line.show("", is_due=False)


def progress(
    line: LiveLine, clock: Callable[[], float] = time.monotonic
) -> Callable[[Progress], None]:
    """Show progress on `line` between runs; without a terminal at every tenth of them, and after
    the first run that ends `SILENCE_S` after the last line."""
    tenths, printed_at_s = 0, clock()

    def watch(now: Progress) -> None:
        nonlocal tenths, printed_at_s
        if now.repeated:
            line.say(now.repeated)
        reached = now.done * 10 // max(now.total, 1)
        is_silent = clock() - printed_at_s >= SILENCE_S
        is_due = now.last is None or reached > tenths or is_silent
        if is_due:
            tenths, printed_at_s = reached, clock()
        line.show(now.text, is_due)

    return watch


@contextmanager
def measuring() -> Iterator[Observer]:
    """An observer that prints messages and progress; TERM and HUP interrupt the measurement."""
    from schedlab.app.measure.measure import Observer

    with signals_interrupt(), live_line() as line:
        yield Observer(progress(line), line.say)


Shown: TypeAlias = "Callable[[Result, bool], None]"


def run_and_present(
    experiment: Experiment,
    permission: Permission,
    name: str,
    typed: Mapping[str, Any],
    shown_by: Shown | None = None,
    watched_by: Callable[[], AbstractContextManager[Observer]] | None = None,
) -> None:
    """Admit an experiment, then show what it would do, rehearse it, or measure it and show that.

    `typed` holds `out` and `as_json`, and may ask for `dry_run` or `rehearse`.
    """
    from schedlab.app.admit import admit
    from schedlab.app.compare.own_work import rehearse
    from schedlab.app.measure import measure
    from schedlab.app.preview import preview

    if typed.get("kernel"):
        _run_in_guest(experiment, name, typed, shown_by or present)
        return
    admitted = admit(experiment, permission)
    measure.check_dask(experiment, typed.get("dask"))
    if typed.get("dry_run"):
        show_preview(preview(admitted), typed)
        return
    if typed.get("rehearse"):
        with measuring() as observer:
            rehearse(admitted, observer)
        return
    for note in (*admitted.experiment.notes, *admitted.notes):
        print_message(f"note: {note}")
    folder = measure.create(admitted, typed["out"] or measure.default_folder(name))
    with (watched_by or measuring)() as observer:
        result = measure.measure(admitted, folder, observer=observer, dask=typed.get("dask"))
    _finish(result, typed, shown_by or present)


def _run_in_guest(
    experiment: Experiment, name: str, typed: Mapping[str, Any], shown_by: Shown
) -> None:
    """Measure an experiment under the kernel `kernel` in virtual time, and show it."""
    from schedlab.app.measure import virtual
    from schedlab.app.measure.measure import default_folder

    if typed.get("dry_run") or typed.get("rehearse"):
        raise SpecError("--dry-run and --rehearse work on this machine only", "omit --kernel")
    out = Path(typed["out"] or default_folder(name))
    with measuring() as observer:
        result = virtual.measure(experiment, typed["kernel"], out, observer)
    _finish(result, typed, shown_by)


def _finish(result: Result, typed: Mapping[str, Any], shown_by: Shown) -> None:
    """Show what was measured; exit code 1 where no run of some candidate or workload counts."""
    shown_by(result, typed["as_json"])
    if any(not unfit.runs for unfit in result.answer.unfit):
        click.get_current_context().exit(1)


def resume_and_present(
    typed: Mapping[str, Any],
    permission: Permission,
    shown_by: Shown | None = None,
    watched_by: Callable[[], AbstractContextManager[Observer]] | None = None,
) -> None:
    """Measure the rest of the folder `resume`, extended by `blocks` or `budget` where the command
    has them; show it. One from elsewhere needs `trust`."""
    from schedlab.app.measure.measure import preview_of_rest, resume
    from schedlab.app.options import check_resumed

    check_resumed(typed_options(click.get_current_context()), extends="blocks" in typed)
    more = {"blocks": typed.get("blocks"), "budget_s": typed.get("budget")}
    dask, permission = typed.get("dask"), replace(permission, trust=typed["trust"])
    if typed.get("dry_run"):
        show_preview(preview_of_rest(typed["resume"], **more, permission=permission), typed)
        return
    with (watched_by or measuring)() as observer:
        result = resume(
            typed["resume"], **more, permission=permission, observer=observer, dask=dask
        )
    _finish(result, typed, shown_by or present)


@contextmanager
def answer_so_far(folder: str | Path, as_json: bool) -> Iterator[None]:
    """Where the work is interrupted, or a guard ends it, show what its finished blocks say."""
    from schedlab.result import Result
    from schedlab.store.folder import Folder

    try:
        yield
    except SchedlabError as error:
        if error.exit_code in (1, Interrupted.exit_code):
            with suppress(SchedlabError):  # no block was finished
                present(Result(Folder.open(Path(folder))), as_json)
        raise


def present(result: Result, as_json: bool) -> None:
    """Write verdict and reports into the folder, and print the verdict."""
    files = result.write_reports()
    if as_json:
        click.echo(json.dumps({**result.as_json(), "files": files}))
        return
    width, colour = terminal()
    names = {"html": "Report", "timeline": "Timeline", "xlsx": "Workbook"}
    paths = [(name, files[key]) for key, name in names.items() if key in files]
    click.echo(result.text(width=width, colour=colour, reports=paths))


def show_preview(preview: Preview, typed: Mapping[str, Any]) -> None:
    """Print what would be measured, written, run and set, and how long it takes."""
    click.echo(json.dumps(preview.as_json()) if typed["as_json"] else "\n".join(preview.lines()))


def terminal() -> tuple[int, bool]:
    """Width of the output in columns, and whether it may have colour."""
    live = sys.stdout.isatty()
    colour = live and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return (shutil.get_terminal_size().columns if live else 80), colour
