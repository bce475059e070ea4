"""Processes that only calculate, under one CPU policy and quantum per candidate.

Run by `run/cpu/cpu.py`: candidates set `policy` and `slice_ms`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from schedlab.kinds.base import WorkloadKind
from schedlab.nouns import Kind


class Calculation(WorkloadKind, frozen=True):
    """`processes` workers; with `flip` one group runs on while its quantum changes."""

    kind: ClassVar[str] = "calculation"
    family: ClassVar[Kind] = "cpu"
    metrics: ClassVar[tuple[str, ...]] = (
        "calculations_per_cpu_s", "calculations_per_cpu_s_raw", "calculations", "cpu_s",
        "fairness_jain",
    )  # fmt: skip

    processes: Annotated[int, Meta(ge=1, le=1000)] = 2
    kernel: Literal["elementwise", "matmul"] = "elementwise"
    cpus: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    priority: Annotated[int, Meta(ge=0, le=99)] = 10
    seconds: Annotated[float, Meta(gt=0, le=86_400)] | None = None
    flip: bool = False

    def estimate_s(self) -> float:
        """The length of one run; a flip is short."""
        return self.seconds or 0.1 * self.processes
