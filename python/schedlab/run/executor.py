"""Run a plan: cell by cell, every attempt stored before the next one starts."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from schedlab.design.plan import arms, blocks_of
from schedlab.errors import GateError
from schedlab.kinds import Outcome
from schedlab.nouns import ATTEMPTS_MAX, Candidate, Cell, GateFinding, Plan, Run, Workload
from schedlab.nouns.quantities import counted, duration_text
from schedlab.run.admitted import Admitted
from schedlab.run.session import Session
from schedlab.store.folder import Folder

# Gates that mean that other programs used the machine, and how many repeats they may cost.
BUSY_GATES = frozenset({"others", "steal", "frequency", "foreign-io"})
BUSY_REPEATS_LEAST = 3
BUSY_REPEATS_SHARE = 0.1
# A budget may be exceeded by this much rather than stop before a block that was planned.
BUDGET_SLACK = 1.05


@dataclass(frozen=True)
class Progress:
    """Where the experiment is, reported between two cells and never inside one."""

    done: int
    total: int
    block: int
    blocks: int
    eta_s: float
    last: Run | None

    @property
    def text(self) -> str:
        """It on one line; before the first run the time left is unknown."""
        line = f"block {self.block}/{self.blocks}, run {self.done}/{self.total}"
        return line if self.last is None else f"{line}, {duration_text(self.eta_s)} left"

    @property
    def repeated(self) -> str:
        """Which run is repeated, and why; empty where none is."""
        if self.last is None or self.last.status != "discarded":
            return ""
        why = "; ".join(f"{gate.gate}: {gate.detail}" for gate in self.last.gates if gate.fatal)
        return f"repeated: {self.last.candidate} on {self.last.workload}: {why}"


@dataclass(frozen=True)
class Rules:
    """The question between blocks.

    `stop(blocks done)` gives a reason to end before the next block, or None. `workloads(blocks
    done)` are those that still get runs; None: no change. While
    `plan_is_complete()` does not hold, the plan is its pilot block, and `plan_rest()` is called
    after it: it appends to the plan.
    """

    stop: Callable[[int], str | None] = lambda blocks: None
    workloads: Callable[[int], Collection[str] | None] = lambda blocks: None
    plan_is_complete: Callable[[], bool] = lambda: True
    plan_rest: Callable[[], None] = lambda: None


class Executor:
    """Runs the remaining cells of a folder's plan."""

    def __init__(
        self,
        admitted: Admitted,
        folder: Folder,
        rules: Rules,
        session: str = "",
        budget_s: float | None = None,
    ) -> None:
        """`session` identifies this boot and set of files in every run.

        `budget_s` limits the time from now instead of the experiment's budget; 0: no limit.
        """
        self.folder = folder
        self.rules = rules
        self.session_id = session
        self.experiment = admitted.experiment
        self.budget_s = self.experiment.stopping.budget_s if budget_s is None else budget_s
        self.candidates = {arm.label: arm for arm in arms(self.experiment)}
        self.workloads = {workload.label: workload for workload in self.experiment.workloads}
        self.attempts: dict[tuple[int, str, str], int] = defaultdict(int)
        self.finished: set[tuple[int, str, str]] = set()
        # Of each workload: how many runs there were, how long they took in all, and cells left.
        self.runs_of: Counter[str] = Counter()
        self.took_s: dict[str, float] = defaultdict(float)
        self.left_of: Counter[str] = Counter()
        self.busy_repeats = 0
        # Into how many parts the blocks are divided, each with a freshly made target.
        self.parts = self.experiment.stopping.sessions
        self.spent_s = 0.0
        # Workloads that are decided, and the first block that does without them.
        self.ended: dict[str, int] = {}
        self._read_plan()
        runs = folder.runs()
        for run in runs:
            self._note(run)
        if self.experiment.stopping.mode == "until-decided":
            self._find_ended(runs)

    @property
    def next_block(self) -> int:
        """The first block that is not over; their number when all are."""
        return self._next()

    @property
    def left(self) -> tuple[Cell, ...]:
        """The cells that are not over, in their order."""
        return tuple(cell for cell in self.cells if not self._is_over(cell))

    def session_end(self, number: int) -> float:
        """The block after the last one of part `number`, once the plan is complete."""
        share = (number + 1) / self.parts
        return math.inf if self._must_plan() else math.ceil(len(self.blocks) * share)

    def over(self) -> str | None:
        """Why nothing is left to do, in words; None while something is."""
        number = self._next()
        if number == len(self.blocks) and not self._must_plan():
            return f"all {number} blocks are done" if number > 1 else "the only block is done"
        return self.rules.stop(number) if number else None

    def run(self, session: Session, watch: Callable[[Progress], None], number: int = 0) -> str:
        """Run the remaining cells of part `number` in an open session, reporting each to `watch`;
        why it ended. The budget is that of each session, and of all layouts together.
        """
        self.session, self.watch = session, watch
        is_layout = self.experiment.stopping.sessions == 1
        began = time.monotonic() - (self.spent_s if is_layout else 0.0)
        budget_s = self.budget_s
        self._count_left()
        self._report(min(self._next(), len(self.blocks) - 1), None)
        while not (reason := self.over()):
            self.spent_s = time.monotonic() - began
            if self._must_plan() and self._next() == len(self.blocks):
                self.rules.plan_rest()
                self._read_plan()
                continue
            block = self._next()
            if block >= self.session_end(number):
                return f"{counted(block, 'block')} done"
            self._end_decided(block)
            next_s = self._estimate_s(Counter(cell.workload for cell in self.blocks[block]))
            if budget_s and block and self.spent_s + next_s > budget_s * BUDGET_SLACK:
                if number == self.parts - 1 and block > 1:
                    self._end_before(block)
                return f"the budget of {budget_s:g} s is used up after {block} blocks"
            self._run_block(self.blocks[block], block)
        return reason

    def _end_before(self, block: int) -> None:
        """A plan of the blocks so far, and their number in the place of the announced one: the
        clock ended the experiment, as was announced, and not a look at its results.
        """
        plan, following = self.folder.plan, self.blocks[block]
        begun = any(self.attempts.get(cell.key) for cell in following)
        if self.experiment.stopping.mode != "fixed" or not plan.ends or begun:
            return
        cells = tuple(cell for cell in plan.cells if cell.block < following[0].block)
        ends = (*(end for end in plan.ends if end < block), block)
        self.folder.write_plan(Plan(cells, ends))
        self._read_plan()

    def _read_plan(self) -> None:
        plan = self.folder.plan
        self.cells = plan.cells
        self.blocks = blocks_of(plan)

    def _must_plan(self) -> bool:
        """Whether the plan holds only its pilot block so far."""
        return not self.rules.plan_is_complete()

    def _next(self) -> int:
        """The first block that is not over; their number when all are."""
        left = (n for n, cells in enumerate(self.blocks) if not all(map(self._is_over, cells)))
        return next(left, len(self.blocks))

    def _is_over(self, cell: Cell) -> bool:
        """Whether a cell has its value, failed so often that it stays missing, or needs no run."""
        if cell.block >= self.ended.get(cell.workload, cell.block + 1):
            return True
        return cell.key in self.finished or self.attempts[cell.key] >= ATTEMPTS_MAX

    def _end_decided(self, number: int) -> None:
        """From block `number` on, no runs of workloads that are decided."""
        left = self.rules.workloads(number) if number else None
        if left is None:
            return
        block = self.blocks[number][0].block
        for label in self.workloads:
            if label not in left:
                self.ended.setdefault(label, block)

    def _find_ended(self, runs: Sequence[Run]) -> None:
        """The workloads that had ended before an experiment is resumed.

        The last block may have been cut short, so only a block that others followed counts.
        """
        started = sorted({run.block for run in runs})
        there = {(run.block, run.workload) for run in runs}
        for block in started[:-1]:
            for label in self.workloads:
                if (block, label) not in there:
                    self.ended.setdefault(label, block)

    def _run_block(self, cells: Sequence[Cell], number: int) -> None:
        self._count_left()
        for cell in cells:
            while not self._is_over(cell):
                run, outcome = self._attempt(cell)
                series = {f"series {name}": rows for name, rows in outcome.series.items()}
                is_simulated = self.experiment.kind == "sim"
                latencies = {f"latencies {n}": rows for n, rows in outcome.latencies.items()}
                bulk = {**outcome.histograms, **series, **latencies}
                self.folder.append(run, bulk, is_repeatable=is_simulated)
                self.folder.keep_output(run, outcome.output)
                self._note(run)
                self.left_of[cell.workload] -= self._is_over(cell)
                self._report(number, run)

    def _attempt(self, cell: Cell) -> tuple[Run, Outcome]:
        workload: Workload = self.workloads[cell.workload]
        candidate: Candidate = self.candidates[cell.candidate]
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        began = time.monotonic()
        try:
            outcome = self.session.measure(cell, workload, candidate)
        except GateError as error:
            outcome = Outcome({}, gates=(GateFinding(error.gate, str(error)),))
        gates = self._softened(cell, outcome.gates)
        run = Run(
            block=cell.block,
            position=cell.position,
            workload=cell.workload,
            candidate=cell.candidate,
            seed=cell.seed,
            attempt=self.attempts[cell.key] + 1,
            status="discarded" if any(f.fatal for f in gates) else "ok",
            started_at=started,
            elapsed_s=time.monotonic() - began,
            metrics=outcome.metrics,
            gates=gates,
            properties=outcome.properties,
            bounds=outcome.bounds,
            session=self.session_id,
        )
        return run, outcome

    def _softened(self, cell: Cell, gates: tuple[GateFinding, ...]) -> tuple[GateFinding, ...]:
        """Load by others repeats a run once; on a machine that is always busy it is only noted.

        Without that, an experiment on a busy machine would have no runs at all. The outcome is
        not looked at.
        """
        fatal = {finding.gate for finding in gates if finding.fatal}
        if not fatal or not fatal <= BUSY_GATES:
            return gates
        allowed = BUSY_REPEATS_LEAST + BUSY_REPEATS_SHARE * len(self.finished)
        if self.attempts[cell.key] == 0 and self.busy_repeats < allowed:
            return gates
        return tuple(replace(finding, fatal=False) for finding in gates)

    def _note(self, run: Run) -> None:
        self.attempts[run.key] += 1
        self.runs_of[run.workload] += 1
        self.took_s[run.workload] += run.elapsed_s
        fatal = {finding.gate for finding in run.gates if finding.fatal}
        if run.status == "ok":
            self.finished.add(run.key)
            # A repeat that was disturbed as well counts, too: the machine stays busy.
            is_busy = any(finding.gate in BUSY_GATES for finding in run.gates)
            self.busy_repeats += is_busy and run.attempt > 1
        elif fatal and fatal <= BUSY_GATES:
            self.busy_repeats += 1

    def _count_left(self) -> None:
        """Once for a block: of ten thousand cells not after each run."""
        self.left_of = Counter(cell.workload for cell in self.left)

    def _report(self, number: int, last: Run | None) -> None:
        finished, eta_s = len(self.cells) - self.left_of.total(), self._estimate_s(self.left_of)
        self.watch(Progress(finished, len(self.cells), number + 1, len(self.blocks), eta_s, last))

    def _estimate_s(self, cells: Mapping[str, int]) -> float:
        """Time of so many cells of each workload, from what its runs took so far."""
        usual_s = sum(self.took_s.values()) / max(self.runs_of.total(), 1)
        known = {work: self.took_s[work] / runs for work, runs in self.runs_of.items()}
        return sum(known.get(work, usual_s) * number for work, number in cells.items())
