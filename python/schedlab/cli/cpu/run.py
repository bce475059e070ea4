"""`schedlab cpu N TIME`: worker processes that count calculations, printed epoch by epoch."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from schedlab.cpu.settings import (
    EPOCH_MS,
    KERNELS,
    POLICIES,
    PRIORITY_DEFAULT,
    Compat,
    Settings,
    parse_cpus,
    parse_time_ns,
)

if TYPE_CHECKING:
    from schedlab._core import CpuCrew
    from schedlab.cpu.crew import Quantum

POLL_S = 0.02
STOP_PATIENCE_S = 2.0


@click.command()
@click.argument("processes", type=int, metavar="N")
@click.argument("time", metavar="TIME")
@click.option("--policy", type=click.Choice(POLICIES), default="other", show_default=True)
@click.option(
    "--priority",
    type=int,
    default=PRIORITY_DEFAULT,
    show_default=True,
    help="Static priority for fifo and rr, 1-99.",
)
@click.option("--slice", "slice_ms", type=float, help="Quantum in ms (rr: for the whole host).")
@click.option("--cpu", "cpus", help="Pin the workers to these CPUs: 0, 0,2 or 0-3.")
@click.option(
    "--cpuset", is_flag=True, help="Pin by a cpuset cgroup instead of by affinity (last CPU)."
)
@click.option(
    "--compat",
    type=click.Choice(["spec", "sample"]),
    default="spec",
    show_default=True,
    help="Form of the lines; a bare TIME is ms under spec, seconds under sample.",
)
@click.option("--kernel", type=click.Choice(KERNELS), default="elementwise", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_context
def run(
    ctx: click.Context,
    processes: int,
    time: str,
    policy: str,
    priority: int,
    slice_ms: float | None,
    cpus: str | None,
    cpuset: bool,
    compat: Compat,
    kernel: str,
    as_json: bool,
) -> None:
    """Run N worker processes for TIME (30s, 3000ms); each repeats one fixed calculation.

    The kernel's own account of CPU time and switches follows on stderr.
    """
    from schedlab.cpu.crew import held_crew, last_cpu, needs_control

    bare_unit = "ms" if compat == "spec" else "s"
    duration_ns = parse_time_ns(time, bare_unit)
    if time.strip().replace(".", "", 1).isdigit():
        meaning = "milliseconds" if compat == "spec" else "seconds"
        click.echo(f"TIME {time} is read as {meaning} (--compat {compat})", err=True)
    pinned = parse_cpus(cpus) if cpus else (last_cpu(),) if cpuset else ()
    settings = Settings(
        processes=processes,
        duration_ns=duration_ns,
        policy=policy,
        priority=priority,
        slice_ms=slice_ms,
        cpus=pinned,
        cpuset=cpuset,
        kernel=kernel,
        epoch_grid=compat == "sample",
    )
    printer = JsonLines(settings) if as_json else PRINTERS[compat]()
    _calibrate(kernel)
    with contextlib.ExitStack() as stack:
        control = None
        if needs_control(settings):
            from schedlab.host.control import Control

            control = stack.enter_context(Control(report=lambda line: click.echo(line, err=True)))
        crew, quantum = stack.enter_context(held_crew(settings, control))
        interrupted = _carry_out(crew, printer, quantum)
    if interrupted:
        ctx.exit(130)


def _calibrate(kernel: str) -> None:
    from schedlab._core import calibrate_cpu_kernel

    times = json.loads(calibrate_cpu_kernel(kernel, 101))
    click.echo(
        f"{kernel}: {times['ns_p50']} ns per calculation "
        f"(p10 {times['ns_p10']}, p90 {times['ns_p90']})",
        err=True,
    )


def _carry_out(crew: CpuCrew, printer: Printer, quantum: Quantum) -> bool:
    """Start, print as epochs end, print every final line; whether Ctrl-C ended it."""
    from schedlab.cpu.crew import totals

    click.echo(quantum.sentence(), err=True)
    with _noticed_interrupts() as interrupts:
        printer.created(crew.pids())
        crew.start()
        stopping = False
        while not crew.wait(STOP_PATIENCE_S if stopping else POLL_S):
            printer.epochs(crew.take_epochs())
            if stopping:
                crew.kill()  # a worker that gets no CPU cannot stop by itself
            elif interrupts:
                stopping = True
                crew.stop()
        printer.epochs(crew.take_epochs())
        rows = totals(crew)
        printer.finished(rows, quantum)
    if lost := crew.lost_events():
        click.echo(f"warning: {lost} epochs were not printed: this process was held up", err=True)
    _account(rows)
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


def _account(rows: list[Mapping[str, Any]]) -> None:
    """CPU time, rate and switches of each worker, for the reader."""
    for number, row in enumerate(rows):
        cpu_ns = row["calculation_cpu_ns"]
        rate = row["count"] / (cpu_ns / 1e9) if cpu_ns else 0.0
        click.echo(
            f"process {number}: {row['cpu_ns'] / 1e6:.1f} ms CPU, {rate:.2f} calculations per "
            f"CPU second, {row['voluntary_switches']} voluntary and "
            f"{row['involuntary_switches']} involuntary switches",
            err=True,
        )


class Printer:
    """The lines of `--compat spec`."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[int, int]] = {}

    def created(self, pids: list[int]) -> None:
        """All workers wait at the barrier."""

    def epochs(self, rows: list[tuple[int, int, int, int]]) -> None:
        """Rows (process, ns since start, count since start, epochs ended)."""
        for process, at_ns, count, epochs in rows:
            since_ns, counted = self.before.get(process, (0, 0))
            self.before[process] = (at_ns, count)
            self.epoch(process, count, epochs, count - counted, (at_ns - since_ns) // 1_000_000)
        sys.stdout.flush()

    def epoch(self, process: int, count: int, epochs: int, in_epoch: int, time_ms: int) -> None:
        """One completed epoch."""
        click.echo(f"PROCESS #{process} count = {in_epoch} time = {time_ms}")

    def finished(self, rows: list[Mapping[str, Any]], quantum: Quantum) -> None:
        """All workers have ended."""
        for number, row in enumerate(rows):
            time_ms = row["elapsed_ns"] // 1_000_000
            click.echo(f"PROCESS #{number} totalCount = {row['count']} time = {time_ms}")


class SamplePrinter(Printer):
    """The lines of `--compat sample`."""

    def created(self, pids: list[int]) -> None:
        """One line per worker."""
        for number in range(len(pids)):
            click.echo(f"Creating Process: #{number}")

    def epoch(self, process: int, count: int, epochs: int, in_epoch: int, time_ms: int) -> None:
        """A line for the completed epoch and one for each that was missed before."""
        for _ in range(epochs):
            click.echo(f"PROCESS #{process:02d} count = {count} {EPOCH_MS}")

    def finished(self, rows: list[Mapping[str, Any]], quantum: Quantum) -> None:
        """The final lines."""
        for number, row in enumerate(rows):
            time_ms = row["elapsed_ns"] // 1_000_000
            click.echo(f"DONE!! PROCESS #{number:02d} : {row['count']:06d} {time_ms}")


class JsonLines(Printer):
    """One JSON object per event."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def epoch(self, process: int, count: int, epochs: int, in_epoch: int, time_ms: int) -> None:
        """`{"event": "epoch", …}`."""
        self._line("epoch", process=process, count=in_epoch, time_ms=time_ms, total_count=count)

    def finished(self, rows: list[Mapping[str, Any]], quantum: Quantum) -> None:
        """`{"event": "total", …}` per worker, then `{"event": "quantum", …}`."""
        for number, row in enumerate(rows):
            self._line("total", process=number, **row)
        self._line(
            "quantum",
            policy=self.settings.policy,
            requested_ms=quantum.requested_ms,
            effective_ms=quantum.effective_ms,
        )

    def _line(self, event: str, **fields: Any) -> None:
        click.echo(json.dumps({"schema": 1, "event": event, **fields}))


PRINTERS: Mapping[str, type[Printer]] = {"spec": Printer, "sample": SamplePrinter}
