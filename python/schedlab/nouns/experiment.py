"""The question and its plan: candidates, workloads, target, stopping rule, experiment, plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from schedlab.nouns.metrics import Metric, metric_named

SCHEMA_VERSION = 1
ATTEMPTS_MAX = 3
AA_SUFFIX = " (A/A)"

Kind = Literal["io", "cpu", "sim", "import"]
Objective = Literal["throughput", "latency", "fairness", "responsiveness"]


@dataclass(frozen=True)
class Candidate:
    """One of the things compared: a scheduler with tunables, a quantum, a simulated policy.

    `settings` are applied in order, as text or numbers: for I/O `scheduler` first, then
    tunables (files under `queue/iosched/` or `queue/`); for CPU `policy`, `slice_ms`; for
    simulations `policy`, `alpha`, …. `workload.KEY` changes that parameter of every workload; a
    further dot goes into a table (`workload.device_set.buffer.size`).
    `aa_of` names the baseline where this is the A/A arm.
    """

    label: str
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    aa_of: str | None = None


@dataclass(frozen=True)
class Workload:
    """The measured work: `kind` names a workload kind (`schedlab.kinds`).

    `parameters` belong to that kind (sizes in bytes, times with their unit in the name);
    `metric` is the primary one, frozen before the first run; `secondary` are reported as well.
    `chosen` names the parameters that belong to the candidates, not to the work, and the value of
    each at which the answer speaks of the workload (`policy_set.alpha`, `buffer_bytes`). At other
    values it is a point of a table and a curve.
    """

    label: str
    kind: str
    metric: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    secondary: tuple[str, ...] = ()
    weight: float = 1.0
    negative_control: bool = False
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_chosen(self) -> bool:
        """Whether every parameter of the candidates has the chosen value."""
        return all(self.parameter(key) == value for key, value in self.chosen.items())

    def parameter(self, key: str) -> Any:
        """The value of a parameter, also of one inside a table (`policy_set.alpha`), or `None`."""
        if key in self.parameters:
            return self.parameters[key]
        table, _, inner = key.partition(".")
        inside = self.parameters.get(table)
        return inside.get(inner) if isinstance(inside, Mapping) else None


@dataclass(frozen=True)
class Target:
    """Where the work goes: a temporary loop device, an emulated one, a device, or a directory.

    `path` is the device, the directory, or the directory of a scratch file. `destroy_data` asks
    for writes to a device; the user must confirm it (`host.consent`). `switch` names the request
    queues below a directory that are switched. `rotational` is the value that the device reports
    while it is measured. `filesystem` is made on a scratch or emulated device (empty: ext4 where a
    workload needs files, else none). `model`, `queue_depth` (0: the model's own) and `dilate` (the
    factor by which modelled time is slowed) describe an emulated device.
    """

    kind: Literal["scratch", "device", "directory", "emulated", "none"]
    path: str = ""
    size_bytes: int = 0
    destroy_data: bool = False
    switch: tuple[str, ...] = ()
    rotational: Literal["", "0", "1", "as-is"] = ""
    filesystem: Literal["", "none", "ext4", "xfs", "btrfs"] = ""
    model: str = ""
    queue_depth: int = 0
    dilate: float = 1.0


@dataclass(frozen=True)
class Stopping:
    """When to stop: after a fixed number of blocks, when decided, or when precise enough.

    `blocks` is the largest number. With `budget_s` the first block is a pilot, from which the
    length of the runs, the workloads and the number of blocks are planned to fit that time.
    `may_extend` announces a second analysis at that many blocks. `sessions` divides the blocks
    into that many parts, each with a freshly made target (a new file layout).
    """

    mode: Literal["fixed", "until-decided", "precision"] = "fixed"
    blocks: int = 6
    precision: float = 0.0
    budget_s: float = 0.0
    may_extend: int = 0
    sessions: int = 1


@dataclass(frozen=True)
class Require:
    """A hard requirement: `metric` of `workload` below `limit` (or above it), in its unit."""

    workload: str
    metric: str
    limit: float
    below: bool = True


@dataclass(frozen=True)
class PublishedMean:
    """A mean that was published with the rows of an import: of a candidate over `workloads`.

    `mean` is as printed, in `unit`, which is `factor` of the metric's own; `last_digit` is the
    value of one unit of its last printed digit.
    """

    candidate: str
    group: str
    workloads: tuple[str, ...]
    mean: float
    unit: str = ""
    factor: float = 1.0
    last_digit: float = 0.0


@dataclass(frozen=True)
class Statement:
    """A published figure of a study, to be compared with the same figure of these runs.

    The figure is the mean of `metric` over the blocks, for each of `workloads` under each of
    `candidates`, divided by that on the `over_workloads` (of the same place, or the one; empty: the
    same workload) and under `over` (empty: the same candidate), or less that if it `is_difference`;
    without both it is the mean itself. Of several figures the `take`n one counts. It comes out if
    it is between `least` and `most`, and if it is that of the workload `at`, where these are given;
    without them it is only shown. `published` is the study's figure or word.
    """

    says: str
    metric: str
    workloads: tuple[str, ...]
    candidates: tuple[str, ...]
    over: str = ""
    over_workloads: tuple[str, ...] = ()
    is_difference: bool = False
    take: Literal["largest", "smallest"] = "largest"
    at: str = ""
    published: str = ""
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Experiment:
    """Everything that is fixed before the first run; `experiment.toml` of a result folder.

    `explain` asks for explanatory runs of all workloads, not only of those with a difference.
    `shares` make one of the workloads: all alike, or by their `weight`; else the answer speaks of
    the largest loss on any of them. Candidates that miss what is required are not taken.
    `statements` are what a study published of the same. `omitted` are workloads for which a budget
    has no time by estimate. `digests` are the SHA-256 of the user's files that its runs start or
    read, by path: it is resumed with the same ones.
    """

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
    omitted: tuple[str, ...] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    published: tuple[PublishedMean, ...] = ()
    explain: bool = False
    shares: Literal["", "equal", "weights"] = ""
    requires: tuple[Require, ...] = ()
    statements: tuple[Statement, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION

    @property
    def resumed_by(self) -> str:
        """The command whose `--resume` continues it."""
        if any(work.kind == "live-load" for work in self.workloads):
            return "live"
        return "compare" if self.kind == "io" else "run"

    @property
    def has_shares(self) -> bool:
        """Whether the workloads are one mix: asked for, or by weights that differ."""
        return bool(self.shares) or len({work.weight for work in self._counted}) > 1

    @property
    def _counted(self) -> tuple[Workload, ...]:
        return tuple(w for w in self.workloads if w.is_chosen and not w.negative_control)

    def metric(self, workload: Workload) -> Metric:
        """The primary metric of a workload; SpecError when it is unknown."""
        return self.metric_named(workload.metric)

    def metric_named(self, name: str) -> Metric:
        """A metric of this experiment (imports may bring their own), else of `METRICS`."""
        return self.metrics[name] if name in self.metrics else metric_named(name)


@dataclass(frozen=True)
class Cell:
    """One run of the plan: this candidate on this workload in this block, at this position.

    `seconds` is the length of the run, `ramp_seconds` that of its ramp, where a pilot chose them;
    0: the workload's own.
    """

    block: int
    position: int
    workload: str
    candidate: str
    seed: int
    seconds: float = 0.0
    ramp_seconds: float = 0.0

    @property
    def key(self) -> tuple[int, str, str]:
        """The identity of the cell, independent of its position."""
        return (self.block, self.workload, self.candidate)


@dataclass(frozen=True)
class Plan:
    """Every run in its order, written before the first one.

    `ends` are the numbers of blocks that were announced before the runs they call for: the plan
    (or the blocks that its budget allowed), then each extension. `None`: none (a folder that is
    older than they are).
    """

    cells: tuple[Cell, ...]
    ends: tuple[int, ...] | None = None

    @property
    def blocks(self) -> int:
        """How many blocks its cells go through."""
        return max((cell.block for cell in self.cells), default=-1) + 1


@dataclass(frozen=True)
class Planning:
    """The plan after the first block, or after the extension of a finished experiment.

    `run_s` is the measured time of a run for each workload kept. `ramp_s` is the ramp where the
    first block needed a longer one than the workload has. `omitted` is the reason (a code) for each
    omitted workload. `bound` is how far behind the best (a share) what is taken was foreseen to be
    at most, `target_s` the time that a bound of 10 % would need. `fits` is False where the budget
    is too short for four blocks of one workload.
    """

    blocks: int
    run_s: Mapping[str, float] = field(default_factory=dict)
    ramp_s: Mapping[str, float] = field(default_factory=dict)
    omitted: Mapping[str, str] = field(default_factory=dict)
    seconds_per_block: float = 0.0
    bound: float | None = None
    target_s: float | None = None
    fits: bool = True
    schema: int = SCHEMA_VERSION
