"""The lines that `schedlab cpu N TIME` prints, in the forms of the course (cpu-lab guide)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from schedlab.cpu.crew import EPOCH_MS
from schedlab.nouns.load_result import TaskResult

if TYPE_CHECKING:
    from schedlab.cpu.crew import Quantum


class Printer:
    """The lines of `--compat spec`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write
        self.before: dict[int, tuple[int, int]] = {}

    def created(self, processes: int) -> None:
        """All workers wait at the barrier."""

    def epochs(self, rows: Iterable[tuple[int, Sequence[int]]]) -> None:
        """Rows (process, (ns since start, count since start, epochs ended))."""
        for process, (at_ns, count, epochs) in rows:
            since_ns, counted = self.before.get(process, (0, 0))
            self.before[process] = (at_ns, count)
            self.epoch(process, count, epochs, count - counted, (at_ns - since_ns) // 1_000_000)

    def epoch(self, process: int, count: int, epochs: int, in_epoch: int, time_ms: int) -> None:
        """One completed epoch."""
        self.write(f"PROCESS #{process} count = {in_epoch} time = {time_ms}")

    def finished(self, rows: Sequence[TaskResult], quantum: Quantum) -> None:
        """All workers have ended."""
        for number, row in enumerate(rows):
            time_ms = row.elapsed_ns // 1_000_000
            self.write(f"PROCESS #{number} totalCount = {row.count} time = {time_ms}")


class SamplePrinter(Printer):
    """The lines of `--compat sample`."""

    def created(self, processes: int) -> None:
        """One line per worker."""
        for number in range(processes):
            self.write(f"Creating Process: #{number}")

    def epoch(self, process: int, count: int, epochs: int, in_epoch: int, time_ms: int) -> None:
        """A line for the completed epoch and one for each that was missed before."""
        for _ in range(epochs):
            self.write(f"PROCESS #{process:02d} count = {count} {EPOCH_MS}")

    def finished(self, rows: Sequence[TaskResult], quantum: Quantum) -> None:
        """The final lines."""
        for number, row in enumerate(rows):
            time_ms = row.elapsed_ns // 1_000_000
            self.write(f"DONE!! PROCESS #{number:02d} : {row.count:06d} {time_ms}")


class JsonLines(Printer):
    """One JSON object per event."""

    def __init__(self, write: Callable[[str], None], policy: str) -> None:
        super().__init__(write)
        self.policy = policy

    def epoch(self, process: int, count: int, epochs: int, in_epoch: int, time_ms: int) -> None:
        """`{"event": "epoch", …}`."""
        self._line("epoch", process=process, count=in_epoch, time_ms=time_ms, total_count=count)

    def finished(self, rows: Sequence[TaskResult], quantum: Quantum) -> None:
        """`{"event": "total", …}` per worker, then `{"event": "quantum", …}`."""
        for number, row in enumerate(rows):
            self._line("total", process=number, **msgspec.structs.asdict(row))
        self._line(
            "quantum",
            policy=self.policy,
            requested_ms=quantum.requested_ms,
            effective_ms=quantum.effective_ms,
        )

    def _line(self, event: str, **fields: Any) -> None:
        self.write(json.dumps({"schema": 1, "event": event, **fields}))


PRINTERS: Mapping[str, type[Printer]] = {"spec": Printer, "sample": SamplePrinter}
