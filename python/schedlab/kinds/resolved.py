"""Where a workload's I/O goes once the target of an experiment exists, and the result of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab.nouns import GateFinding


@dataclass(frozen=True)
class IoGroup:
    """A control group that a workload puts processes into: its share, or its limit (0: none).

    `weight` is bfq's and iocost's, 1 to 1000 (the kernel's default is 100).
    """

    name: str
    weight: int = 0
    read_bytes_per_s: int = 0


@dataclass(frozen=True)
class ResolvedTarget:
    """A block device or a file of `size_bytes`; `device` is the kernel name of the disk below.

    `counts_alone`: nothing else uses that disk, so its counters belong to the workload.
    `directory` is where files may be made, if there is a file system. `raw_path` is the device
    itself, for reads; the same as `path` where the work goes to the bare device. `tags` is how
    many requests the driver takes at a time (0: unknown). `groups` are the directories of the
    control groups that the workload asked for, by name.
    """

    path: Path
    size_bytes: int
    device: str | None
    logical_block_bytes: int
    counts_alone: bool
    raw_path: Path
    raw_size_bytes: int
    directory: Path | None = None
    tags: int = 0
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """Numbers, stated facts, failed gates, and histograms (rows low, high, count).

    `bounds` names the metrics whose value is only a bound, with the side on which the true value
    is: `reader_latency_ns_p99: "at-least"` of a reader that was not served. `series` are rows of
    the rate over time by group (t_ms, completions, bytes, latency sum in ns), `latencies` those of
    what completed (t_ms, low_ns, high_ns, count). `output` is what a command printed, by the
    ending of its file ("out", "err").
    """

    metrics: Mapping[str, float]
    properties: Mapping[str, Any] = field(default_factory=dict)
    gates: tuple[GateFinding, ...] = ()
    histograms: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    bounds: Mapping[str, str] = field(default_factory=dict)
    series: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    latencies: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    output: Mapping[str, bytes] = field(default_factory=dict)
