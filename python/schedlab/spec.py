"""The nouns of schedlab: what is asked, planned, measured and concluded.

Frozen, plain data; imports nothing of ours but the errors. Everything here survives a round trip
through JSON by `to_json` and `from_json`, which the files of a result folder are made of.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

from schedlab.errors import SpecError

SCHEMA_VERSION = 1
ATTEMPTS_MAX = 3
AA_SUFFIX = " (A/A)"

T = TypeVar("T")
Kind = Literal["io", "cpu", "sim", "import"]
Objective = Literal["throughput", "latency", "fairness", "responsiveness"]
PairVerdict = Literal["better", "worse", "equivalent", "undecided"]
RunStatus = Literal["ok", "discarded"]


@dataclass(frozen=True)
class Metric:
    """A measured quantity; its unit and direction belong to it and are typed nowhere else."""

    name: str
    unit: str
    higher_is_better: bool
    title: str = ""


def _metric_table() -> dict[str, Metric]:
    higher = (
        ("throughput_bytes_per_s", "B/s", "throughput"),
        ("read_bytes_per_s", "B/s", "read throughput"),
        ("write_bytes_per_s", "B/s", "write throughput"),
        ("iops", "1/s", "I/O operations per second"),
        ("fairness_jain", "", "fairness (Jain index)"),
        ("calculations_per_cpu_s", "1/s", "calculations per CPU second"),
        ("calculations_per_cpu_s_raw", "1/s", "calculations per CPU second, as counted"),
        ("calculations", "", "calculations"),
    )
    lower = (
        ("elapsed_s", "s", "elapsed time"),
        ("cpu_s", "s", "CPU time"),
        ("user_s", "s", "user time"),
        ("system_s", "s", "system time"),
        ("startup_s", "s", "start-up time"),
        *(
            (f"{group}latency_ns_{q}", "ns", f"{title} {q}".strip())
            for group, title in (("", "latency"), ("reader_", "reader latency"))
            for q in ("mean", "p50", "p90", "p99", "p99_9", "p99_99", "max")
        ),
        *(
            (f"{which}_{direction}{at}_ms", "ms", f"{which} {direction} response{words}")
            for which in ("mean", "max")
            for direction in ("read", "write")
            for at, words in (("", ""), ("_ncq", " from NCQ entry"))
        ),
    )
    table = {name: Metric(name, unit, True, title) for name, unit, title in higher}
    return table | {name: Metric(name, unit, False, title) for name, unit, title in lower}


METRICS: Mapping[str, Metric] = types.MappingProxyType(_metric_table())


@dataclass(frozen=True)
class Candidate:
    """One of the things compared: a scheduler with tunables, a quantum, a simulated policy.

    `settings` are what is applied, as text or numbers, in order: for I/O `scheduler` first, then
    tunables (files under `queue/iosched/` or `queue/`); for CPU `policy`, `slice_ms`; for
    simulations `policy`, `alpha`, …. `aa_of` names the baseline when this is its second name.
    """

    label: str
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    aa_of: str | None = None


@dataclass(frozen=True)
class Workload:
    """Work whose outcome is measured: `kind` names a file of `run/workloads/`.

    `parameters` belong to that kind (sizes in bytes, times with their unit in the name);
    `metric` is the primary one, frozen before the first run; `secondary` are reported beside it.
    """

    label: str
    kind: str
    metric: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    secondary: tuple[str, ...] = ()
    weight: float = 1.0
    negative_control: bool = False


@dataclass(frozen=True)
class Target:
    """Where the work goes: an own scratch device, a named device, or a directory."""

    kind: Literal["scratch", "device", "directory", "none"]
    path: str = ""
    size_bytes: int = 0
    destroy_data: bool = False


@dataclass(frozen=True)
class Stopping:
    """When to stop: after a fixed number of blocks, when decided, or when precise enough."""

    mode: Literal["fixed", "until-decided", "precision"] = "fixed"
    blocks: int = 5
    precision: float = 0.0
    budget_s: float = 0.0


@dataclass(frozen=True)
class PublishedMean:
    """A mean that was printed beside the rows of an import: of a candidate over `workloads`.

    `mean` is as printed, in `unit`, which is `factor` of the metric's own; `last_digit` is what
    its last printed digit counts.
    """

    candidate: str
    group: str
    workloads: tuple[str, ...]
    mean: float
    unit: str = ""
    factor: float = 1.0
    last_digit: float = 0.0


@dataclass(frozen=True)
class Experiment:
    """All that is fixed before the first run; `experiment.toml` of a result folder."""

    title: str
    kind: Kind
    target: Target
    candidates: tuple[Candidate, ...]
    workloads: tuple[Workload, ...]
    baseline: str
    seed: int
    stopping: Stopping = Stopping()
    margin: float = 0.02
    aa_arm: bool = True
    blocked: bool = True
    objective: Objective = "throughput"
    notes: tuple[str, ...] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    published: tuple[PublishedMean, ...] = ()
    schema: int = SCHEMA_VERSION

    def metric(self, workload: Workload) -> Metric:
        """The primary metric of a workload; SpecError when nobody knows it."""
        return self.metric_named(workload.metric)

    def metric_named(self, name: str) -> Metric:
        """A metric of this experiment (imports may bring their own), else of `METRICS`."""
        return self.metrics[name] if name in self.metrics else metric_named(name)


@dataclass(frozen=True)
class Cell:
    """One run of the plan: this candidate on this workload in this block, at this position."""

    block: int
    position: int
    workload: str
    candidate: str
    seed: int

    @property
    def key(self) -> tuple[int, str, str]:
        """What identifies the cell whatever its position."""
        return (self.block, self.workload, self.candidate)


@dataclass(frozen=True)
class Plan:
    """Every run in its order, written before the first one."""

    cells: tuple[Cell, ...]


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
    `blocks[i]`, in the order of running. What `analyse/` takes.

    `cpu_share[i]` is the workload's own CPU time over its wall time, where known (else NaN).
    """

    workload: str
    metric: Metric
    candidates: tuple[str, ...]
    blocks: tuple[int, ...]
    values: tuple[float, ...]
    cpu_share: tuple[float, ...] = ()
    weight: float = 1.0
    negative_control: bool = False


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


@dataclass(frozen=True)
class Flag:
    """Something that a careful reader must know before believing a figure.

    `text` is the English sentence; `kind` and `values` are what a translation is made of.
    """

    kind: str
    text: str
    workload: str = ""
    candidates: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """a compared with b: "a is `verdict` than b".

    `ratio` is the metric of a over that of b (geometric mean of the blocks), [`low`, `high`] its
    simultaneous 95 % interval; `None` where no interval can be given (single runs).
    `hodges_lehmann` is the robust estimate of the same ratio, `standard_error` that of
    log(ratio). `blocks_needed` is the range of further blocks that would separate an undecided
    pair.
    """

    a: str
    b: str
    ratio: float
    low: float | None
    high: float | None
    verdict: PairVerdict
    hodges_lehmann: float | None = None
    fragile: bool = False
    blocks_needed: tuple[int, int] | None = None
    standard_error: float | None = None


@dataclass(frozen=True)
class CandidateSummary:
    """A candidate on one workload, beside the baseline (`ratio` etc. are `None` for itself)."""

    candidate: str
    runs: int
    mean: float
    geometric_mean: float
    low: float | None
    high: float | None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    verdict: PairVerdict | None = None


Reason = Literal["winner", "tied", "not-separated", "cannot-separate", "no-interval", ""]


@dataclass(frozen=True)
class Segment:
    """The blocks between two change points, analysed by themselves."""

    first_block: int
    last_block: int
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class WorkloadVerdict:
    """What one workload says: every pair, the best set, and a sentence.

    `reason` is the code behind the sentence. `change_points` are the first blocks of a new level;
    `segments` the parts between them.
    """

    workload: str
    metric: Metric
    blocks: int
    candidates: tuple[CandidateSummary, ...]
    pairs: tuple[Pair, ...]
    best_set: tuple[str, ...]
    statement: str
    noise_floor: float | None = None
    margin: float = 0.02
    flags: tuple[Flag, ...] = ()
    change_points: tuple[int, ...] = ()
    reason: Reason = ""
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class Overall:
    """What all workloads say together (weighted mean of log ratios inside each block).

    With metrics of both directions a ratio is one of performance (above 1 is better, and
    `higher_is_better` holds); else it is one of the metrics themselves.
    """

    candidates: tuple[CandidateSummary, ...]
    pairs: tuple[Pair, ...]
    best_set: tuple[str, ...]
    statement: str
    best_everywhere: tuple[str, ...] = ()
    reason: Reason = ""
    higher_is_better: bool = True
    margin: float = 0.02
    noise_floor: float | None = None


@dataclass(frozen=True)
class ParetoPoint:
    """Throughput and p99 latency of a candidate on one workload, in the units of the metrics.

    Geometric means of the runs' figures (of each run's own p99, which the verdicts compare) with
    their 95 % intervals. `dominated_by`: better on one of the two, and not worse on the other.
    """

    candidate: str
    throughput: float
    throughput_low: float | None
    throughput_high: float | None
    latency: float
    latency_low: float | None
    latency_high: float | None
    throughput_metric: str
    latency_metric: str
    dominated_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class KneeFigure:
    """Where the metric of a candidate bends over an ordered size of its workloads.

    `size` is the parameter that is ordered, its unit in its name. `reason` says why there is no
    knee (see `analyse.knee.Knee`); the knee lies inside [`low`, `high`] with 95 % confidence, and
    the metric grows as the size to the power of the slopes before and after it.
    """

    family: str
    size: str
    candidate: str
    metric: Metric
    reason: Literal["knee", "too few values", "straight", "edge"]
    statement: str
    knee: float | None = None
    low: float | None = None
    high: float | None = None
    slope_before: float | None = None
    slope_after: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The answer of an experiment: `verdict.json`, and what `schedlab analyse --json` prints."""

    statement: str
    baseline: str
    design: Literal["blocked", "unblocked"]
    stopping: str
    confidence: float
    workloads: Mapping[str, WorkloadVerdict]
    overall: Overall
    secondary: Mapping[str, tuple[WorkloadVerdict, ...]] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    decided: bool = False
    pareto: Mapping[str, tuple[ParetoPoint, ...]] = field(default_factory=dict)
    goal: Objective | None = None
    knees: tuple[KneeFigure, ...] = ()
    schema: int = SCHEMA_VERSION


def metric_named(name: str) -> Metric:
    """The metric of that name, or SpecError with the known ones."""
    if name in METRICS:
        return METRICS[name]
    raise SpecError(f"metric {name!r} is not known", f"use one of: {', '.join(sorted(METRICS))}")


def to_json(value: Any) -> Any:
    """Plain JSON types for any value of this module; NaN and infinities become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_json(cls: type[T], data: Any, where: str = "") -> T:
    """A `cls` from plain JSON types; SpecError naming `where` and the key otherwise."""
    return typing.cast("T", _build(cls, data, where or cls.__name__))


def _build(kind: Any, data: Any, where: str) -> Any:
    """`data` as the annotated type `kind`; recursion over dataclasses, mappings and tuples."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(typing.cast("type[Any]", kind), data, where)
    if origin is Literal:
        if data in arguments:
            return data
        raise SpecError(f"{where} = {data!r}", f"expected one of {', '.join(map(repr, arguments))}")
    if origin is types.UnionType or origin is typing.Union:
        if data is None and type(None) in arguments:
            return None
        return _build_union([a for a in arguments if a is not type(None)], data, where)
    if origin is tuple:
        return _build_tuple(arguments, data, where)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise SpecError(f"{where} = {data!r}", "expected a table")
        return {key: _build(arguments[1], item, f"{where}.{key}") for key, item in data.items()}
    return _build_scalar(kind, data, where)


def _build_union(kinds: list[Any], data: Any, where: str) -> Any:
    """The first of `kinds` that fits exactly, then the first that can be made to fit."""
    for kind in kinds:
        if isinstance(kind, type) and type(data) is kind:
            return data
    error: SpecError | None = None
    for kind in kinds:
        try:
            return _build(kind, data, where)
        except SpecError as failed:
            error = failed
    raise error or SpecError(f"{where} = {data!r}")


def _build_tuple(arguments: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise SpecError(f"{where} = {data!r}", "expected a list")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_build(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if len(arguments) != len(data):
        raise SpecError(f"{where} has {len(data)} items", f"expected {len(arguments)}")
    pairs = enumerate(zip(arguments, data, strict=True))
    return tuple(_build(kind, item, f"{where}[{i}]") for i, (kind, item) in pairs)


def _build_scalar(kind: Any, data: Any, where: str) -> Any:
    if kind is float and data is None:
        return float("nan")
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise SpecError(f"{where} = {data!r}", f"expected {getattr(kind, '__name__', kind)}")
    return data


def _build_dataclass(cls: type[Any], data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise SpecError(f"{where} = {data!r}", "expected a table")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    if unknown := sorted(set(data) - set(fields)):
        raise SpecError(f"{where}: unknown key {unknown[0]!r}", f"known keys: {', '.join(fields)}")
    hints = typing.get_type_hints(cls)
    given = {key: _build(hints[key], item, f"{where}.{key}") for key, item in data.items()}
    required = (
        name
        for name, f in fields.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    )
    if missing := [name for name in required if name not in given]:
        raise SpecError(f"{where}: key {missing[0]!r} is missing", f"add {missing[0]!r}")
    return cls(**given)
