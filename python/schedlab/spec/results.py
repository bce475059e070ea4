"""What was measured: runs, samples of one metric, and the record of a result folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from schedlab.spec.experiment import ATTEMPTS_MAX, SCHEMA_VERSION, Experiment, Plan
from schedlab.spec.metrics import Metric

RunStatus = Literal["ok", "discarded"]
Bound = Literal["", "at-most", "at-least"]


@dataclass(frozen=True)
class GateFinding:
    """A condition that did not hold in a run, and what was seen."""

    gate: str
    detail: str
    fatal: bool = True


@dataclass(frozen=True)
class Run:
    """What one attempt at a cell gave: a line of `runs.jsonl`.

    `metrics` are numbers by metric name (units in the names). `properties` are stated facts such
    as the engine, the effective quantum or the dispatching context. `raw` names files under
    `raw/`. A run with status `discarded` failed a gate and was repeated; it is kept, not analysed.
    """

    block: int
    position: int
    workload: str
    candidate: str
    seed: int
    attempt: int
    status: RunStatus
    started_at: str
    elapsed_s: float
    metrics: Mapping[str, float]
    gates: tuple[GateFinding, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION

    @property
    def key(self) -> tuple[int, str, str]:
        """The cell that this run belongs to."""
        return (self.block, self.workload, self.candidate)


@dataclass(frozen=True)
class Samples:
    """One metric of one workload in long form: row i is `values[i]` of `candidates[i]` in
    `blocks[i]`, in the order of running. What `analyse/` takes. A NaN is a missing cell.

    `bounds[i]` says that the run starved and its value is only a bound on the truth: "at-most"
    (a throughput with no more than one operation) or "at-least" (a latency, a time). `sessions`
    name the boot and set of files of each run, `layouts` its set of files. `cpu_share[i]` is the
    workload's own CPU time over its wall time, where known (else NaN). `step` is the resolution
    of a value (clock tick, one operation over the time, last printed digit) in its unit.
    `repeated[candidate]` counts the runs that failed a gate, `kept[candidate]` those that passed.
    `time_s` is the measured time of a run. `actor` is whose figure it is where a run has several
    at work ("writers", "readers"). Empty columns: not known, or none.
    """

    workload: str
    metric: Metric
    candidates: tuple[str, ...]
    blocks: tuple[int, ...]
    values: tuple[float, ...]
    cpu_share: tuple[float, ...] = ()
    weight: float = 1.0
    negative_control: bool = False
    bounds: tuple[Bound, ...] = ()
    sessions: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    step: float = 0.0
    time_s: float = 0.0
    actor: str = ""
    nothing_to_order: bool = False
    repeated: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """A result folder in memory: what was asked, planned, measured, and on what machine.

    `histograms[workload, candidate]` is the merged latency histogram of all analysed runs as
    rows (low_ns, high_ns, count); `notices` are sentences about the folder itself, such as runs
    that are missing. `host` is the content of `host.json`. `figures` are SVG files of the folder.
    """

    experiment: Experiment
    plan: Plan
    runs: tuple[Run, ...]
    host: Mapping[str, Any] = field(default_factory=dict)
    histograms: Mapping[tuple[str, str], tuple[tuple[int, int, int], ...]] = field(
        default_factory=dict
    )
    notices: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    @cached_property
    def dropped_blocks(self) -> tuple[int, ...]:
        """Blocks left out for all candidates, because a cell of theirs failed three times."""
        passed = {run.key for run in self.runs if run.status == "ok"}
        failed = Counter(run.key for run in self.runs if run.status == "discarded")
        found = {k[0] for k, n in failed.items() if n >= ATTEMPTS_MAX and k not in passed}
        return tuple(sorted(found))

    @cached_property
    def analysed_runs(self) -> tuple[Run, ...]:
        """The runs that count: those that passed, in blocks that were not dropped."""
        dropped = set(self.dropped_blocks)
        return tuple(r for r in self.runs if r.status == "ok" and r.block not in dropped)

    def number_of(self, block: int) -> int:
        """The number that people know a block by: the first is 1."""
        return block + 1 - self._first_block

    @cached_property
    def _first_block(self) -> int:
        return min((run.block for run in self.runs), default=0)
