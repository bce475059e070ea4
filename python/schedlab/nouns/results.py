"""The measurements: runs, samples of one metric, and the record of a result folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypedDict

from schedlab.nouns.experiment import (
    ATTEMPTS_MAX,
    SCHEMA_VERSION,
    Experiment,
    Plan,
    Planning,
)
from schedlab.nouns.metrics import Metric

RunStatus = Literal["ok", "discarded"]
Bound = Literal["", "at-most", "at-least"]


FidelityRow = TypedDict(
    "FidelityRow", {"metric": str, "recorded": float, "replayed": float, "is_like": bool}
)
#: How like its recording a replay is; without rows where that is not known.
ReplayFidelity = TypedDict(
    "ReplayFidelity", {"device": str | None, "scheduler": str | None, "rows": list[FidelityRow]}
)
#: Types of the properties that analyses and reports work with; all others are only shown.
PROPERTIES: Mapping[str, Any] = {
    **dict.fromkeys(
        ("cpu_share?", "window_s?", "measured_from_s?", "usr_cpu?", "sys_cpu?", "share_asked?",
         "share_reached?", "switch_s?", "settled_s?", "wash_out_s?", "rehearsed_s?",
         "launch_cost_s?"),
        float,
    ),
    "left_behind?": [str],
    "halves?": [Mapping[str, float]],
    "workers?": [{"calculations?": float, "bursts?": float, "cpu_burst_s?": float}],
    "driver_tags?": int,
    "rotational?": Literal[0, 1],
    "emulated?": {"lateness": {"p50_ns": float, "p99_ns": float}, "late_share": float},
    "emulated_device?": Mapping[str, Any],
    "fidelity?": {
        "device?": str,
        "scheduler?": str,
        "rows": [{"metric": str, "recorded": float, "replayed": float, "is_like": bool}],
    },
    "rehearsal?": {"bytes": Mapping[str, int], "cpu_share": float},
    "steps?": Mapping[str, float],
    "confinement?": {"held?": str, "reason?": str},
    "durability?": {
        "calls": int, "data_s": float, "journal_s": float, "flush_s": float,
        "written": Mapping[str, int],
    },
}  # fmt: skip
#: Types of the facts of a host that analyses and reports work with.
FACTS: Mapping[str, Any] = {
    "devices?": Mapping[str, Mapping[str, Any]],
    "memory?": Mapping[str, Any],
    "boots?": Mapping[str, Mapping[str, Any]],
    "hosts?": Mapping[str, Any],
}
_DEVICE = {"name?": str, "model?": str, "firmware?": str}
#: The same of one of several hosts.
FACTS_OF_HOST: Mapping[str, Any] = {**FACTS, "measured_device?": _DEVICE}


@dataclass(frozen=True)
class GateFinding:
    """A failed condition of a run, and its details."""

    gate: str
    detail: str
    fatal: bool = True


def kernel_release(host: Mapping[str, Any]) -> str:
    """The kernel that a host had; empty where it is not known."""
    kernel = host.get("kernel")
    release = kernel.get("release") if isinstance(kernel, Mapping) else kernel
    return " ".join(str(release or "").split())


def boot_of(session: str) -> str:
    """The boot of a session; a name without a hyphen is a boot of its own."""
    return session.partition("-")[0]


@dataclass(frozen=True)
class Run:
    """The result of one attempt at a cell: a line of `runs.jsonl`.

    `metrics` are numbers by metric name (units in the names). `properties` are stated facts such
    as the engine, the effective quantum or the dispatching context. `raw` names files under
    `raw/`. `bounds` names metrics whose value is only a bound ("at-least", "at-most"): of runs in
    which a process was not served. `session` is one boot and one set of files, `BOOT-FILES`
    (`boot_of`); `host` names the machine where several were joined. A run with status `discarded`
    failed a gate and was repeated; it is kept, but not analysed.
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
    bounds: Mapping[str, str] = field(default_factory=dict)
    session: str = ""
    host: str = ""
    schema: int = SCHEMA_VERSION

    def number(self, name: str, default: float) -> float:
        """A property that is a number (`PROPERTIES`); `default` where it is missing."""
        value = self.properties.get(name)
        return default if value is None else float(value)

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
    name the boot and set of files of each run, `hosts` its machine.
    `cpu_share[i]` is the workload's own CPU time over its wall time, where known (else NaN).
    `step` is the resolution of a value (clock tick, one operation over the time, last printed
    digit) in its unit.
    `repeated[candidate]` counts the runs that failed a gate, `kept[candidate]` those that passed.
    `actor` is whose figure it is where a run has several at work ("writers", "readers").
    `before` names the candidate of the run just before each ("": none, or of other work).
    `of_parameter`: a parameter of the candidates has another value than the chosen one. Empty
    columns: not known, or none.
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
    hosts: tuple[str, ...] = ()
    step: float = 0.0
    actor: str = ""
    nothing_to_order: bool = False
    of_parameter: bool = False
    before: tuple[str, ...] = ()
    repeated: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)

    def of_blocks(self, blocks: Container[int]) -> Samples:
        """The runs of some blocks."""
        return self.of_lines([i for i, block in enumerate(self.blocks) if block in blocks])

    def of_candidates(self, labels: Container[str]) -> Samples:
        """The runs of some candidates."""
        return self.of_lines([i for i, label in enumerate(self.candidates) if label in labels])

    def by_boot(self) -> Samples:
        """The same with one session for each boot: those of a boot (an extension, another layout)
        are no units where nobody asked for them.
        """
        return replace(self, sessions=tuple(map(boot_of, self.sessions)))

    def of_lines(self, lines: Sequence[int]) -> Samples:
        """Some of the rows, by their numbers."""
        columns = (
            "candidates", "blocks", "values", "cpu_share", "bounds", "sessions", "hosts", "before",
        )  # fmt: skip
        some: dict[str, Any] = {name: tuple(column[i] for i in lines) for name in columns
                if (column := getattr(self, name))}  # fmt: skip
        return replace(self, **some)


@dataclass(frozen=True)
class StoredSession:
    """The session `name` of a stored `result` ("": the one that is asked about): on one workload
    the mean logarithm of each candidate.
    """

    name: str
    result: str
    means: Mapping[str, float]


@dataclass(frozen=True)
class RateSeries:
    """How fast one group of a run worked, in bins of equal length from the start of the run.

    `values[i]` is the rate in bin i, in `unit` ("1/s" or "B/s"); a NaN is a bin without a value.
    `measured_from_s` is where the ramp ends: what is before it is not in the figures of the run.
    """

    block: int
    group: str
    unit: str
    bin_s: float
    values: tuple[float, ...]
    measured_from_s: float = 0.0


@dataclass(frozen=True)
class LatencySeries:
    """Latencies of one group of a run over time: rows (t_ms, low_ns, high_ns, count) of what
    completed in the bin of time that begins at `t_ms`, from the start of the run.
    """

    block: int
    group: str
    rows: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class Explanation:
    """Where the requests of one group waited, in one more run with a block-layer capture.

    Means per request: `tag_s` from arrival to the driver's tag, `scheduler_s` from insert to
    issue, `device_s` from issue to completion; `outside_s` is the rest of the latency that the
    program saw, before and after (0 where its operations are not single requests, of which there
    are `requests_per_operation`; 0: not known). `device_depth` and `scheduler_depth` are the mean
    numbers of requests (of all groups) there. `requests` were seen, `lost` events were not.
    `depth_series` is the depth in the device in bins of `bin_s`. `plug_s` is from having a request
    until it leaves the plug of its process. `has_limits`: `tag_s` includes waiting for `io.max`.
    `raised_s` and `raised_bytes` say for how long, and for how much, bfq raised the group's weight
    by `raised` before it stopped (0: it did not). `gap_share` of what the device moved is not in
    the capture. Such a run is never scored.
    """

    group: str
    tag_s: float
    scheduler_s: float
    device_s: float
    device_depth: float = 0.0
    scheduler_depth: float = 0.0
    requests: int = 0
    lost: int = 0
    bin_s: float = 0.1
    depth_series: tuple[float, ...] = ()
    plug_s: float = 0.0
    has_limits: bool = False
    raised: float = 0.0
    raised_s: float = 0.0
    raised_bytes: float = 0.0
    outside_s: float = 0.0
    requests_per_operation: float = 0.0
    gap_share: float = 0.0

    @property
    def total_s(self) -> float:
        """Mean latency of an operation, where it is one request; of a request elsewhere."""
        return self.outside_s + self.tag_s + self.plug_s + self.scheduler_s + self.device_s


@dataclass(frozen=True)
class Recording:
    """The file with every request of an explanatory run, whose load began at `zero_ns` of its
    clock. `tasks` are the groups of its processes and threads by their number.
    """

    path: Path
    zero_ns: int
    tasks: Mapping[int, str]


@dataclass(frozen=True)
class Record:
    """A result folder in memory: the question, the plan, the measurements, and the machine.

    `histograms[workload, candidate]` is the merged latency histogram of all analysed runs as
    rows (low_ns, high_ns, count); `notices` are sentences about damaged files of the folder.
    `host` is the content of `host.json`. `figures` are SVG files of the folder.
    `series[workload, candidate]` are rates over time of the analysed runs, one per run and group;
    `latencies` those of the requests of one block over time, one per group;
    `explanations[workload, candidate]` say where requests waited, one per group, and
    `recordings` have every request of the same runs. `planning`
    is the planning after the first block. Labels of workloads by their kind: those whose pages go
    through the page cache (`buffered`), and those with one request at a time (`unordered`).
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
    series: Mapping[tuple[str, str], tuple[RateSeries, ...]] = field(default_factory=dict)
    latencies: Mapping[tuple[str, str], tuple[LatencySeries, ...]] = field(default_factory=dict)
    explanations: Mapping[tuple[str, str], tuple[Explanation, ...]] = field(default_factory=dict)
    recordings: Mapping[tuple[str, str], Recording] = field(default_factory=dict)
    planning: Planning | None = None
    buffered: frozenset[str] = frozenset()
    unordered: frozenset[str] = frozenset()

    @property
    def is_of_boots(self) -> bool:
        """Whether its candidates are kinds of boots, a round of which is a session."""
        return bool(self.host.get("boots"))

    @property
    def omitted(self) -> Mapping[str, str]:
        """The workloads that a budget omitted, each with the code of the reason."""
        planned = self.planning.omitted if self.planning else {}
        return {**planned, **dict.fromkeys(self.experiment.omitted, "estimate")}

    @cached_property
    def missing(self) -> tuple[int, int]:
        """(runs of the plan without a value, runs that a value is expected of).

        With a rule or a budget that may stop early, blocks that never started are not expected.
        Nor are the runs of a workload that was decided before the others.
        """
        stopping = self.experiment.stopping
        fixed = stopping.mode == "fixed" and not stopping.budget_s
        each = stopping.mode == "until-decided"
        started = {(run.block, run.workload if each else "") for run in self.runs}
        wanted = {
            cell.key
            for cell in self.plan.cells
            if fixed or not started.isdisjoint({(cell.block, cell.workload), (cell.block, "")})
        }
        return len(wanted - {run.key for run in self.runs if run.status == "ok"}), len(wanted)

    @cached_property
    def missing_cells(self) -> tuple[tuple[int, str, str], ...]:
        """Cells (block, workload, candidate) that failed a gate three times: they have no value."""
        passed = {run.key for run in self.runs if run.status == "ok"}
        failed = Counter(run.key for run in self.runs if run.status == "discarded")
        return tuple(sorted(k for k, n in failed.items() if n >= ATTEMPTS_MAX and k not in passed))

    @cached_property
    def before(self) -> Mapping[tuple[int, str, str], str]:
        """For each cell that has a result: the candidate of the attempt just before it, in the same
        session and on the same workload; "" elsewhere, and where nothing lasts (a simulation).
        """
        found = {run.key: "" for run in self.analysed_runs}
        lasts = self.experiment.kind in ("io", "cpu")
        for last, run in pairwise(self.runs if lasts else ()):
            same = (last.workload, last.session) == (run.workload, run.session)
            if same and run.status == "ok":
                found[run.key] = last.candidate
        return found

    @cached_property
    def analysed_runs(self) -> tuple[Run, ...]:
        """The runs that count: those that passed their gates."""
        return tuple(run for run in self.runs if run.status == "ok")

    def number_of(self, block: int) -> int:
        """The number that people know a block by: the first is 1."""
        return block + 1 - self._first_block

    @cached_property
    def _first_block(self) -> int:
        return min((run.block for run in self.runs), default=0)
