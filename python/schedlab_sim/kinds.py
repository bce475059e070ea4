"""Simulated devices: the workload is simulated, candidates are policies of its command queue.

Run by `schedlab_sim/session.py`; the parameters are the fields of `schedlab.sim.Simulation`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from schedlab.errors import SpecError
from schedlab.kinds.base import WorkloadKind
from schedlab.nouns import Kind

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

    def knows_its_time(self) -> bool:
        """How many requests a trace has is known when it has been read."""
        return getattr(self, "trace", None) is None or getattr(self, "requests", None) is not None


class SimulatedSsd(Simulated, frozen=True):
    """An SSD with a command queue. A `trace` (a file) takes the place of the `workload`, and is one
    sample: it has one block. `policy_set` are parameters of every policy.
    """

    kind: ClassVar[str] = "ssd"
    metrics: ClassVar[tuple[str, ...]] = (*DIRECTIONS, "iops", "throughput_bytes_per_s")

    device: str = "ncq2014"
    service: Literal["serial", "parallel"] | None = None
    requests: Annotated[int, Meta(ge=1)] | None = None
    workload: str = "A"
    trace: str | None = None
    buffer_bytes: Annotated[int, Meta(ge=1)] | None = None
    device_set: dict[str, Any] = field(default_factory=dict)
    policy_set: dict[str, Any] = field(default_factory=dict)
    workload_set: dict[str, Any] = field(default_factory=dict)
    warm_up: str = "none"

    def check(self, label: str) -> None:
        """SpecError for a parameter that would change nothing beside the others."""
        if self.trace is not None:
            _refuse_idle(self, label, "workload", beside="trace")
        if "name" in self.workload_set:
            raise SpecError(f"{label}: workload_set.name would change nothing", "workload = NAME")
        if self.buffer_bytes is not None and "buffer.size" in self.device_set:
            message = f"{label}: buffer_bytes would change nothing beside device_set.buffer.size"
            raise SpecError(message, "omit one of them")


class SimulatedDisk(Simulated, frozen=True):
    """A disk with heads: a named `workload` at `depth` (closed loop) or `rate` (Poisson)."""

    kind: ClassVar[str] = "disk"
    metrics: ClassVar[tuple[str, ...]] = ("iops", "throughput_bytes_per_s", *LATENCIES)

    device: str = "disk7200"
    workload: str = "random4k"
    record: str | None = None
    span: str = "0"
    depth: Annotated[int, Meta(ge=1)] | None = None
    rate: Annotated[float, Meta(gt=0)] | None = None
    requests: Annotated[int, Meta(ge=1)] | None = None
    device_set: dict[str, Any] = field(default_factory=dict)


class SimulatedHost(Simulated, frozen=True):
    """Processes above a device: candidates are the kernel's I/O schedulers. `processes` is a
    preset, a file or the keys of one process, `process` the one whose figures count; empty: all
    together. A `trace` (a file) takes their place, is fitted to the device by `trace_set`, and has
    one block.
    """

    kind: ClassVar[str] = "host-queue"
    metrics: ClassVar[tuple[str, ...]] = ("throughput_bytes_per_s", "iops", *LATENCIES)

    device: str = "disk7200"
    processes: str | dict[str, Any] = "random32"
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
    trace: str | None = None
    format: str | None = None
    requests: Annotated[int, Meta(ge=1)] | None = None
    trace_set: dict[str, Any] = field(default_factory=dict)

    def check(self, label: str) -> None:
        """SpecError for a parameter that would change nothing beside the others."""
        if self.trace is None:
            _refuse_idle(self, label, "format", "requests", "trace_set", beside="no trace")
        else:
            _refuse_idle(self, label, "processes", "seconds", beside="a trace")


def _refuse_idle(kind: Simulated, label: str, *names: str, beside: str) -> None:
    """SpecError for the first of these parameters that has not its default."""
    usual = type(kind)()
    for name in names:
        if getattr(kind, name) != getattr(usual, name):
            raise SpecError(f"{label}: {name} would change nothing beside {beside}", "omit it")
