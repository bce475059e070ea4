"""Carry out an experiment in front of a person: progress, Ctrl-C, the verdict, the files."""

from __future__ import annotations

import functools
import importlib
import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from schedlab.errors import HostError, Interrupted, SpecError
from schedlab.spec import Kind, to_json

if TYPE_CHECKING:
    from schedlab.result import Result
    from schedlab.run.executor import Progress
    from schedlab.store.folder import Folder

# kind of experiment -> (its backend, whether host settings are changed, the command that resumes)
BACKENDS: dict[Kind, tuple[str, bool, str]] = {
    "io": ("schedlab.run.backends.io", True, "schedlab compare"),
    "cpu": ("schedlab.run.backends.cpu", True, "schedlab cpu sweep"),
    "sim": ("schedlab.run.backends.sim", False, "schedlab compare"),
}


def say(text: str) -> None:
    """A line for the person, on stderr."""
    click.echo(text, err=True)


def conduct(folder: Folder, resumed: bool = False) -> Result:
    """Carry out what is left of a folder's plan and give the result.

    Interrupted after Ctrl-C, TERM or HUP, with the command that goes on; every host setting is
    back then. A new folder goes when the machine cannot carry out even its first run.
    """
    from schedlab.result import Result
    from schedlab.run.executor import Executor

    backend, changes_host, command = BACKENDS[folder.experiment.kind]
    executor = Executor(folder, stop_rule(folder))
    if reason := executor.over():
        say(f"nothing is left to measure: {reason}")
        return Result(folder)
    try:
        with signals_interrupt(), ExitStack() as stack:
            control = None
            if changes_host:
                from schedlab.host.control import Control

                control = stack.enter_context(
                    Control(named_devices=named_devices(folder), report=say)
                )
            module = importlib.import_module(backend)
            session = stack.enter_context(module.open_session(folder.experiment, control, say))
            watch = stack.enter_context(progress())
            reason = executor.carry_out(session, watch)
    except (HostError, SpecError):
        if not resumed and not folder.runs():
            shutil.rmtree(folder.path)
        raise
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(
            "interrupted; every setting is as before, and what was measured is kept",
            f"{command} --resume {folder.path}",
        ) from error
    say(f"measured: {reason}")
    return Result(folder)


def named_devices(folder: Folder) -> tuple[str, ...]:
    """The device that the user typed, if any: only then a disk that holds / is touched."""
    target = folder.experiment.target
    return (target.path,) if target.kind == "device" else ()


def stop_rule(folder: Folder) -> Callable[[int], str | None]:
    """When to stop before the plan ends: decided, or precise enough, looked at after a block."""
    stopping = folder.experiment.stopping
    if stopping.mode == "fixed":
        return lambda blocks: None

    @functools.cache  # a resumed experiment is asked before and after its session is opened
    def look(blocks: int) -> str | None:
        from schedlab.result import Result

        decision = Result(folder).decision()
        return f"{decision.reason} after {blocks} blocks" if decision.stop else None

    return look


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """TERM and HUP end the work as Ctrl-C does, so that everything is put back."""

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
    """Tell progress on stderr between cells: one line that is rewritten, or a line per block.

    Nothing runs in the background, so nothing is drawn inside a measured window.
    """
    live = sys.stderr.isatty()
    told = 0

    def watch(now: Progress) -> None:
        nonlocal told
        discarded = now.last is not None and now.last.status == "discarded"
        if discarded and now.last is not None:
            why = "; ".join(f"{gate.gate}: {gate.detail}" for gate in now.last.gates if gate.fatal)
            end = "\r\033[K" if live else ""
            say(f"{end}discarded: {now.last.candidate} on {now.last.workload}: {why}")
        line = f"block {now.block}/{now.blocks}, run {now.done}/{now.total}"
        if now.last is not None:  # before the first run nothing is known of the time
            line += f", {duration_text(now.eta_s)} left"
        if live:
            click.echo(f"\r\033[K{line}", nl=False, err=True)
        elif now.last is None or now.done * 10 // max(now.total, 1) > told:
            told = now.done * 10 // max(now.total, 1)
            say(line)

    try:
        yield watch
    finally:
        if live:
            click.echo("\r\033[K", nl=False, err=True)


def duration_text(seconds: float) -> str:
    """`45 s`, `12 min`, `2 h 5 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def present(result: Result, as_json: bool) -> None:
    """Write verdict and reports into the folder, and print the verdict."""
    from schedlab import report

    folder: Path = result.folder.path
    result.save_verdict()
    html, xlsx = folder / "report.html", folder / "report.xlsx"
    report.write_html(result.record, result.verdict, html)
    report.write_xlsx(result.record, result.verdict, xlsx)
    if as_json:
        paths = {"folder": str(folder), "html": str(html), "xlsx": str(xlsx)}
        click.echo(json.dumps({**to_json(result.verdict), "files": paths}))
        return
    width, colour = terminal()
    files = [("Report", str(html)), ("Workbook", str(xlsx))]
    click.echo(
        report.text(
            result.record, result.verdict, width=width, colour=colour, folder=folder, reports=files
        )
    )


def terminal() -> tuple[int, bool]:
    """Width of the output in columns, and whether it may have colour."""
    import os

    live = sys.stdout.isatty()
    colour = live and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return (shutil.get_terminal_size().columns if live else 100), colour
