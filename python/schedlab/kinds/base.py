"""The base of workload kinds: typed parameters, needs, what a kind writes, and how it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

import msgspec

from schedlab.kinds.resolved import IoGroup, Outcome, ResolvedTarget
from schedlab.nouns import Kind, Metric


@dataclass(frozen=True)
class Offer:
    """A kind as one word after `--workloads`: the label of its workload, and the metrics that are
    shown. The first decides, unless `deciding` has another one for the goal.
    """

    word: str
    label: str
    metrics: tuple[str, ...]
    deciding: Mapping[str, str] = field(default_factory=dict)
    is_control: bool = False


class WorkloadKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of workload; its fields are the parameters, with their defaults.

    A kind of the family `io` is run by `measure`; the other families are run by their backend
    (run/), which reads the same typed parameters.
    """

    kind: ClassVar[str]
    family: ClassVar[Kind] = "io"
    # The metrics that a run can give; the first is the usual one.
    metrics: ClassVar[tuple[str, ...]]
    # How commands offer it; without one it is only in files, or a family of design/io_families.py.
    offer: ClassVar[Offer | None] = None
    # Metrics that are the figures of another actor of the run, such as its writers.
    actors: ClassVar[Mapping[str, str]] = MappingProxyType({})
    # Uses the page cache unless its parameters say `direct`.
    is_buffered: ClassVar[bool] = False
    # One stream of requests, unless its parameters say otherwise.
    is_one_stream: ClassVar[bool] = False
    needs_files: ClassVar[bool] = False
    # Works on its own files below the target's directory: nothing is filled for it.
    brings_files: ClassVar[bool] = False
    # Only direct I/O: on a bare device no page cache takes part, warm or cold.
    bypasses_cache: ClassVar[bool] = False
    # A budget measures no run for a shorter time than this.
    shortest_s: ClassVar[float] = 0.4

    def writes(self) -> bool:
        """Whether a run changes data on its target, which other families than `io` have not."""
        return self.family == "io"

    def guarantee(self) -> str:
        """The guarantee for written data: `call` (on the device when a call returns), `end`
        (when the run ends), `device` (in its cache), `memory`; "" where it does not matter.
        """
        return ""

    def programs(self) -> tuple[str, ...]:
        """Command lines and files from outside schedlab that a run executes or unpacks."""
        return ()

    def brought(self) -> tuple[str, ...]:
        """Files and directories of the user that a run starts or reads; another content makes it
        another measurement.
        """
        return ()

    def groups(self) -> tuple[IoGroup, ...]:
        """The control groups that a run needs."""
        return ()

    def used_bytes(self, target_bytes: int) -> int:
        """Bytes used from the start of the target: its `span_bytes`, where it has some."""
        if self.family != "io":
            return 0
        span_bytes: int = getattr(self, "span_bytes", 0)
        return min(span_bytes or target_bytes, target_bytes)

    def device_commands(self) -> int:
        """Commands that the emulated device holds meanwhile; 0: the target's queue depth."""
        return 0

    def own_metrics(self) -> Mapping[str, Metric]:
        """Metrics that its parameters define, beside those of its kind."""
        return {}

    def check(self, label: str) -> None:
        """SpecError or HostError for parameters that do not fit together, or programs missing."""

    def notes(self, label: str) -> tuple[str, ...]:
        """Notes for the user before the first run: a program that is not the one measured first."""
        return ()

    def estimate_s(self) -> float:
        """Estimated time of one run: the window and the ramp of those that have them, else 1 s."""
        if self.family == "sim":
            return 1.0
        window_s: float = getattr(self, "seconds", 1.0)
        return window_s + getattr(self, "ramp_seconds", 0.0)

    def knows_its_time(self) -> bool:
        """Whether the estimate is the time of a run; if not, it is the least that one takes."""
        return True

    def prepare(self, target: ResolvedTarget, label: str) -> None:
        """Put the files of the runs onto the target, once."""

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """One run."""
        raise NotImplementedError(self.kind)
