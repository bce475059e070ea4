"""Carry out a plan: cell by cell, every attempt stored before the next one starts."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from schedlab.design.plan import arms, blocks_of
from schedlab.errors import GateError
from schedlab.run.outcome import Outcome, Session
from schedlab.spec import ATTEMPTS_MAX, Candidate, Cell, Experiment, GateFinding, Run, Workload
from schedlab.store.folder import Folder


@dataclass(frozen=True)
class Progress:
    """Where the experiment stands, told between two cells and never inside one."""

    done: int
    total: int
    block: int
    blocks: int
    eta_s: float
    last: Run | None


class Executor:
    """Runs what is left of a folder's plan."""

    def __init__(self, folder: Folder, stop: Callable[[int], str | None]) -> None:
        """`stop(blocks done)` gives a reason to end before the next block, or None."""
        self.folder = folder
        self.stop = stop
        self.experiment: Experiment = folder.experiment
        self.candidates = {arm.label: arm for arm in arms(self.experiment)}
        self.workloads = {workload.label: workload for workload in self.experiment.workloads}
        self.cells = folder.plan.cells
        self.blocks = blocks_of(folder.plan)
        self.attempts: dict[tuple[int, str, str], int] = defaultdict(int)
        self.finished: set[tuple[int, str, str]] = set()
        self.seconds: dict[str, list[float]] = defaultdict(list)
        for run in folder.runs():
            self._note(run)

    def over(self) -> str | None:
        """Why nothing is left to do, in words; None while something is."""
        number = self._next()
        if number == len(self.blocks):
            return f"all {number} blocks are done"
        return self.stop(number) if number else None

    def carry_out(self, session: Session, watch: Callable[[Progress], None]) -> str:
        """Run all that is left in an open session, telling `watch` each cell; why it ended."""
        self.session, self.watch = session, watch
        began, last_s = time.monotonic(), 0.0
        budget = self.experiment.stopping.budget_s
        self._tell(0, len(self.blocks), None)
        while not (reason := self.over()):
            number = self._next()
            spent = time.monotonic() - began
            if budget and last_s and spent + last_s > budget:
                return f"the budget of {budget:g} s is used up after {number} blocks"
            self._carry_out_block(self.blocks[number], number, len(self.blocks))
            last_s = time.monotonic() - began - spent
        return reason

    def _next(self) -> int:
        """The first block that is not over; their number when all are."""
        left = (n for n, cells in enumerate(self.blocks) if not self._is_over(cells))
        return next(left, len(self.blocks))

    def _is_over(self, cells: Sequence[Cell]) -> bool:
        """Whether a block is done, or dropped because one of its cells failed too often."""
        left = [cell for cell in cells if cell.key not in self.finished]
        return not left or any(self.attempts[cell.key] >= ATTEMPTS_MAX for cell in left)

    def _carry_out_block(self, cells: Sequence[Cell], number: int, of: int) -> None:
        for cell in cells:
            while cell.key not in self.finished:
                if self.attempts[cell.key] >= ATTEMPTS_MAX:
                    return  # The block is dropped for all candidates.
                run, outcome = self._attempt(cell)
                self.folder.append(run, outcome.histograms)
                self._note(run)
                self._tell(number, of, run)

    def _attempt(self, cell: Cell) -> tuple[Run, Outcome]:
        workload: Workload = self.workloads[cell.workload]
        candidate: Candidate = self.candidates[cell.candidate]
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        began = time.monotonic()
        try:
            outcome = self.session.measure(cell, workload, candidate)
        except GateError as error:
            outcome = Outcome({}, gates=(GateFinding(error.gate, str(error)),))
        if workload.metric not in outcome.metrics and not _fatal(outcome):
            finding = GateFinding("no-value", f"the run gave no {workload.metric}")
            outcome = dataclasses.replace(outcome, gates=(*outcome.gates, finding))
        run = Run(
            block=cell.block,
            position=cell.position,
            workload=cell.workload,
            candidate=cell.candidate,
            seed=cell.seed,
            attempt=self.attempts[cell.key] + 1,
            status="discarded" if _fatal(outcome) else "ok",
            started_at=started,
            elapsed_s=time.monotonic() - began,
            metrics=outcome.metrics,
            gates=outcome.gates,
            properties=outcome.properties,
        )
        return run, outcome

    def _note(self, run: Run) -> None:
        self.attempts[run.key] += 1
        self.seconds[run.workload].append(run.elapsed_s)
        if run.status == "ok":
            self.finished.add(run.key)

    def _tell(self, number: int, of: int, last: Run | None) -> None:
        left = [cell for cell in self.cells if cell.key not in self.finished]
        measured = [seconds for each in self.seconds.values() for seconds in each]
        usual = sum(measured) / len(measured) if measured else 0.0
        eta = sum(
            sum(known) / len(known) if (known := self.seconds.get(cell.workload)) else usual
            for cell in left
        )
        self.watch(
            Progress(len(self.cells) - len(left), len(self.cells), number + 1, of, eta, last)
        )


def _fatal(outcome: Outcome) -> bool:
    return any(finding.fatal for finding in outcome.gates)
