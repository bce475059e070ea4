"""Groups of processes with weights: the share that each reaches, and how late its sleepers are."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.errors import SpecError
from schedlab.kinds.base import Offer
from schedlab.kinds.cpu_mix import (
    Micros,
    Period,
    PeriodicKind,
    Seconds,
    TaskGroup,
    quantile_names,
    quantiles,
)
from schedlab.kinds.readers_together import jain
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import latency
from schedlab.nouns.load_result import CrewResult

Weight = Annotated[int, Meta(ge=1, le=10_000)]


class Groups(PeriodicKind, frozen=True):
    """One cpu cgroup per weight, with hogs (as many as CPUs) and a sleeper in each."""

    kind: ClassVar[str] = "groups"
    metrics: ClassVar[tuple[str, ...]] = (
        "weighted_jain", "share_error", *quantile_names("response"), "cpu_s",
    )  # fmt: skip
    offer: ClassVar[Offer | None] = Offer(
        "groups", "groups", ("weighted_jain", "share_error", "response_ns_p99")
    )

    weights: tuple[Weight, ...] = (100, 300)
    period_us: Period = 5_000.0
    work_us: Micros = 200.0
    seconds: Seconds = 4.0
    load: Annotated[int, Meta(ge=0, le=1000)] | None = 0

    def check(self, label: str) -> None:
        """There are groups to compare."""
        if len(self.weights) < 2:
            raise SpecError(f"{label}: weights need two or more groups", "weights = [100, 300]")

    def work(self, cpu_count: int) -> list[TaskGroup]:
        """Hogs and a sleeper of each group."""
        hog = {"kind": "hog", "work_ns": 100_000}
        groups = []
        for number, weight in enumerate(self.weights):
            place = {"weight": weight, "cgroup": f"group{number}"}
            groups.append(TaskGroup(f"hogs {number}", hog, cpu_count, **place))  # type: ignore[arg-type]
            groups.append(TaskGroup(f"sleepers {number}", self.periodic(), 1, **place))  # type: ignore[arg-type]
        return groups

    def outcome(self, mixed: CrewResult) -> Outcome:
        """Shares of the CPU time that was used, and the sleepers' response time."""
        used = [
            float(sum(mixed.of(f"{what} {n}").cpu_ns for what in ("hogs", "sleepers")))
            for n in range(len(self.weights))
        ]
        shares = [each / sum(used) for each in used]
        requested = [weight / sum(self.weights) for weight in self.weights]
        relative = [share / wanted for share, wanted in zip(shares, requested, strict=True)]
        sleepers = [mixed.of(f"sleepers {n}") for n in range(len(self.weights))]
        rows = latency.merge(each.response for each in sleepers)
        unfinished = sum(each.unfinished for each in sleepers)
        response, bounds = quantiles(rows, "response", unfinished)
        error = max(abs(r - 1) for r in relative)
        return Outcome(
            {**response, "weighted_jain": jain(relative), "share_error": max(error, 1e-6),
             "cpu_s": sum(used) / 1e9},
            {"shares": shares, "asked": requested, "unfinished": unfinished},
            histograms={"latency_ns": rows},
            bounds=bounds,
        )  # fmt: skip
