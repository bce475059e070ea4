"""The NCQ study again: the points to simulate, and what the paper says beside what comes out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.sim.sweep import Point, Sweep

POLICIES = ("fcfs", "s", "sb", "ts", "tsb")
WORKLOADS = ("A", "B", "C", "D")
BUFFERS_MIB = (8, 16, 32, 64, 128)
ALPHAS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
USUAL_ALPHA = 0.9


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper with its number, and the number that comes out here.

    `published` is empty where the paper says it in words only; `comes_out` is None where there is
    nothing to compare with.
    """

    result: str
    published: str
    found: float
    comes_out: bool | None
    remark: str = ""


def study_sweep(requests: int, seeds: int) -> Sweep:
    """Every simulation that the charts and statements need."""
    settings: list[dict[str, Any]] = [
        _settings(workload, policy, buffer, USUAL_ALPHA, "serial", requests)
        for workload in WORKLOADS
        for policy in POLICIES
        for buffer in BUFFERS_MIB
    ]
    settings += [
        _settings("A", "tsb", 32, alpha, "serial", requests)
        for alpha in ALPHAS
        if alpha != USUAL_ALPHA
    ]
    settings += [_settings("A", policy, 64, 0.95, "serial", requests) for policy in POLICIES[1:]]
    settings += [
        _settings(workload, policy, 64, USUAL_ALPHA, "parallel", requests)
        for workload in ("A", "D")
        for policy in POLICIES
    ]
    points = tuple(Point(each, seed) for each in settings for seed in range(1, seeds + 1))
    text = json.dumps({"study": "ncq", "requests": requests, "seeds": seeds})
    return Sweep(points, f"# made by schedlab sim ncq-study\nstudy = '{text}'\n")


def _settings(
    workload: str, policy: str, buffer_mib: int, alpha: float, service: str, requests: int
) -> dict[str, Any]:
    return {
        "workload": workload,
        "policy": policy,
        "device.buffer.size": f"{buffer_mib}MiB",
        "policy.alpha": alpha,
        "service": service,
        "requests": requests,
    }


class Study:
    """The rows of a finished sweep, as means over the seeds."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.metrics: dict[tuple[Any, ...], list[Mapping[str, float]]] = {}
        for row in rows:
            settings = row["settings"]
            key = (
                settings["workload"],
                settings["policy"],
                int(settings["device.buffer.size"].removesuffix("MiB")),
                settings["policy.alpha"],
                settings["service"],
            )
            self.metrics.setdefault(key, []).append(row["metrics"])

    def mean(
        self,
        metric: str,
        workload: str,
        policy: str,
        buffer_mib: int,
        alpha: float = USUAL_ALPHA,
        service: str = "serial",
    ) -> float:
        """Mean over the seeds."""
        runs = self.metrics[workload, policy, buffer_mib, alpha, service]
        return math.fsum(run[metric] for run in runs) / len(runs)

    def ratio(
        self,
        metric: str,
        workload: str,
        policy: str,
        buffer_mib: int,
        alpha: float = USUAL_ALPHA,
        service: str = "serial",
    ) -> float:
        """The mean over the seeds, as a share of that of FCFS."""
        reference = self.mean(metric, workload, "fcfs", buffer_mib, USUAL_ALPHA, service)
        own = self.mean(metric, workload, policy, buffer_mib, alpha, service)
        # Both are zero where everything fits into the buffer of a parallel device.
        return 1.0 if own == reference else own / reference

    def statements(self) -> Sequence[Statement]:
        """What the paper states, one by one, beside what this model gives."""
        reads = "mean_read_ms"
        found = []
        for policy, published in (("s", 0.41), ("ts", 0.27), ("tsb", 0.22)):
            for alpha in (0.9, 0.95):
                ratio = self.ratio(reads, "A", policy, 64, alpha)
                title = f"A, 64 MiB, mean read of {policy.upper()}, share of FCFS, α = {alpha}"
                found.append(_near(title, published, ratio, 0.04))
        grows = self.mean("max_write_ms", "A", "tsb", 32, 1.0) / self.mean(
            "max_write_ms", "A", "tsb", 32
        )
        title = "A, 32 MiB, TSB: longest write at α = 1 over that at 0.9"
        found.append(Statement(title, "“clearly grows”", grows, grows >= 2))
        for buffer in (32, 128):
            ratio = self.ratio(reads, "B", "tsb", buffer)
            title = f"B, {buffer} MiB, mean read of TSB, share of FCFS"
            remark = "the paper does not say which buffer"
            found.append(_near(title, 0.35, ratio, 0.06, remark))
        writes = self.ratio("mean_write_ncq_ms", "D", "tsb", 32)
        title = "D, 32 MiB, mean write of TSB from NCQ entry, share of FCFS"
        found.append(_near(title, 1.06, writes, 0.04))
        from_entry = [self.ratio("mean_read_ncq_ms", "D", policy, 32) for policy in ("tsb", "ts")]
        title = "D, 32 MiB, mean read from NCQ entry: TSB over TS"
        worse = from_entry[0] / from_entry[1]
        found.append(Statement(title, "TSB is worse", worse, worse > 1))
        iops = self.ratio("iops", "A", "tsb", 64)
        title = "A, 64 MiB, IOPS of TSB, share of FCFS"
        found.append(Statement(title, "“hardly changes”", iops, abs(iops - 1) <= 0.01))
        least = min(
            self.ratio(metric, workload, policy, 64, service="parallel")
            for metric in (reads, "mean_write_ms")
            for workload in ("A", "D")
            for policy in POLICIES
        )
        title = "64 dies in parallel: the smallest share of FCFS of any policy"
        remark = "the paper's gains need a device that serves one command at a time"
        found.append(Statement(title, "", least, None, remark))
        return found

    def cannot(self) -> Sequence[str]:
        """What does not come out, plainly, with the figures of this run."""
        s = self.ratio("mean_read_ms", "A", "s", 64)
        small, large = (self.ratio("mean_read_ms", "B", "tsb", buffer) for buffer in (32, 128))
        return (
            f"S = 0.41 on A at α = 0.9 is not reachable under any reading of the paper that was "
            f"tried; here it is {s:.2f}.",
            f"B = 0.35 at 32 MiB and D = +6 % are not reachable together: TSB on B is {small:.2f} "
            f"at 32 MiB and {large:.2f} at 128 MiB.",
            "With the 64 dies of the paper's own device table really in parallel, the device is "
            "almost idle and all policies tie.",
        )


def _near(title: str, published: float, found: float, within: float, remark: str = "") -> Statement:
    return Statement(title, f"{published:.2f}", found, abs(found - published) <= within, remark)
