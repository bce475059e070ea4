"""Run a group of counting workers and print their epochs as they end."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlab.cpu.crew import Quantum, Settings, ended, held_crew, last_cpu, needs_control
from schedlab.cpu.policy import CpuPolicy
from schedlab.nouns.quantities import is_bare, parse_time_ns

if TYPE_CHECKING:
    from schedlab._core import CpuCrew
    from schedlab.cpu.epoch_lines import Printer
    from schedlab.nouns.load_result import TaskResult

Report = Callable[[str], None]
POLL_S = 0.02


def count_typed(
    typed: Mapping[str, Any], as_json: bool, write: Callable[[str], None], report: Report
) -> bool:
    """Count by the options of `schedlab cpu run`, a line per `write`; whether Ctrl-C ended it.

    A bare number is milliseconds under `--compat spec`, seconds under `sample`.
    """
    from schedlab.cpu.epoch_lines import PRINTERS, JsonLines

    settings = settings_of(typed, report)
    lines = PRINTERS[typed["compat"]]
    printer = JsonLines(write, typed["policy"]) if as_json else lines(write)
    calibrate(settings.kernel, report)
    with contextlib.ExitStack() as stack:
        control = None
        if needs_control(settings):
            from schedlab.host.safety.control import Control

            control = stack.enter_context(Control(report=report))
        crew, quantum = stack.enter_context(held_crew(settings, control))
        return count(crew, printer, quantum, report)


def settings_of(typed: Mapping[str, Any], report: Report) -> Settings:
    """The options as settings; reports how a bare number was read."""
    time, compat = typed["time"], typed["compat"]
    duration_ns = parse_time_ns(time, "ms" if compat == "spec" else "s")
    if is_bare(time):
        meaning = "milliseconds" if compat == "spec" else "seconds"
        report(f"TIME {time} is read as {meaning} (--compat {compat})")
    policy = CpuPolicy(typed["policy"], typed["priority"], slice_ms=typed["slice_ms"])
    same = ("processes", "cpuset")
    return Settings(
        duration_ns=duration_ns,
        policy=policy,
        cpus=typed["cpus"] or ((last_cpu(),) if typed["cpuset"] else ()),
        epoch_grid=compat == "sample",
        kernel=typed["calculation"],
        **{name: typed[name] for name in same},
    )


def calibrate(kernel: str, report: Report) -> None:
    """Report how long one calculation takes."""
    from schedlab._core import calibrate_cpu_kernel

    times = json.loads(calibrate_cpu_kernel(kernel, 101))
    report(
        f"{kernel}: {times['ns_p50']} ns per calculation "
        f"(p10 {times['ns_p10']}, p90 {times['ns_p90']})"
    )


def count(crew: CpuCrew, printer: Printer, quantum: Quantum, report: Report) -> bool:
    """Start, print as epochs end, print every final line; whether Ctrl-C ended it."""
    report(quantum.sentence())
    with _noticed_interrupts() as interrupts:
        printer.created(len(crew.pids()))
        crew.start()
        while not crew.wait(POLL_S) and not interrupts:
            printer.epochs(crew.take_epochs())
        rows = ended(crew).groups[0].tasks
        printer.epochs(crew.take_epochs())
        printer.finished(rows, quantum)
    if lost := crew.lost_events():
        report(f"warning: {lost} epochs were not printed: this process was delayed")
    _account(rows, report)
    return bool(interrupts)


@contextlib.contextmanager
def _noticed_interrupts() -> Iterator[list[int]]:
    """Ctrl-C and TERM are only noted down, so that no line is torn."""
    noticed: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(n, lambda number, _frame: noticed.append(number)) for n in numbers]
    try:
        yield noticed
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _account(rows: Sequence[TaskResult], report: Report) -> None:
    """CPU time, rate and switches of each worker, for the reader."""
    for number, row in enumerate(rows):
        cpu_ns = row.calculation_cpu_ns
        rate = row.count / (cpu_ns / 1e9) if cpu_ns else 0.0
        report(
            f"process {number}: {row.cpu_ns / 1e6:.1f} ms CPU, {rate:.2f} calculations per "
            f"CPU second, {row.voluntary_switches} voluntary and "
            f"{row.involuntary_switches} involuntary switches"
        )
