"""Simulated devices: the workload is simulated, candidates are policies of its command queue.

Run by `run/backends/sim.py`; the parameters are the fields of `schedlab.sim.Simulation` and
`schedlab.sim.disk.DiskSimulation`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from schedlab.kinds.base import WorkloadKind
from schedlab.spec import Kind

DIRECTIONS = tuple(
    f"{which}_{direction}{at}_ms"
    for which in ("mean", "max")
    for direction in ("read", "write")
    for at in ("", "_ncq")
)
LATENCIES = tuple(f"latency_ns_{q}" for q in ("mean", "p50", "p90", "p99", "p99_9", "max"))


class Simulated(WorkloadKind, frozen=True):
    """Nothing on the host takes part."""

    family: ClassVar[Kind] = "sim"

    def writes(self) -> bool:
        """Nothing is written."""
        return False


class SimulatedSsd(Simulated, frozen=True):
    """An SSD with a command queue. A trace is one sample: it has no blocks to compare."""

    kind: ClassVar[str] = "ssd"
    metrics: ClassVar[tuple[str, ...]] = (*DIRECTIONS, "iops", "throughput_bytes_per_s")

    device: str = "ncq2014"
    service: Literal["serial", "parallel"] | None = None
    requests: Annotated[int, Meta(ge=1)] | None = None
    workload: str = "A"
    device_set: dict[str, Any] = field(default_factory=dict)
    workload_set: dict[str, Any] = field(default_factory=dict)
    warm_up: str = "none"


class SimulatedDisk(Simulated, frozen=True):
    """A disk with heads: a named `workload` at `depth` (closed loop) or `rate` (Poisson)."""

    kind: ClassVar[str] = "disk"
    metrics: ClassVar[tuple[str, ...]] = ("iops", *LATENCIES)

    device: str = "disk7200"
    workload: str = "random4k"
    record: str | None = None
    span: str = "0"
    depth: Annotated[int, Meta(ge=1)] | None = None
    rate: Annotated[float, Meta(gt=0)] | None = None
    requests: Annotated[int, Meta(ge=1)] | None = None
    device_set: dict[str, Any] = field(default_factory=dict)


class SimulatedHost(Simulated, frozen=True):
    """Processes above a device: candidates are the kernel's I/O schedulers. `processes` is a preset
    or a file, `process` the one whose figures count; empty: all together.
    """

    kind: ClassVar[str] = "host-queue"
    metrics: ClassVar[tuple[str, ...]] = ("throughput_bytes_per_s", "iops", *LATENCIES)

    device: str = "disk7200"
    processes: str = "random32"
    process: str = ""
    tags: Annotated[int, Meta(ge=1)] = 32
    nr_requests: Annotated[int, Meta(ge=1)] | None = None
    window: Annotated[int, Meta(ge=1)] | None = None
    policy: str | None = None
    service: Literal["serial", "parallel"] | None = None
    size: str | None = None
    seconds: Annotated[float, Meta(gt=0)] = 20.0
    warm_up_seconds: Annotated[float, Meta(ge=0)] = 0.0
    device_set: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
