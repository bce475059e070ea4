"""The NCQ study again: the points to simulate, and the paper's statements beside the results."""

from __future__ import annotations

import itertools
import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.sim.sweep import Point, Sweep
from schedlab.spec.intervals import half_width

POLICIES = ("fcfs", "s", "sb", "ts", "tsb")
WORKLOADS = ("A", "B", "C", "D")
BUFFERS_MIB = (8, 16, 32, 64, 128)
ALPHAS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
USUAL_ALPHA = 0.9
# A longest write so many times that at the usual α is starvation.
STARVED = 2


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper with its number, and the number of this model.

    `published` is empty where the paper says it in words only; `comes_out` is None where there is
    nothing to compare with.
    """

    result: str
    published: str
    model_value: float
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

    def runs(
        self,
        workload: str,
        policy: str,
        buffer_mib: int,
        alpha: float = USUAL_ALPHA,
        service: str = "serial",
    ) -> list[Mapping[str, float]]:
        """The figures of a cell, one run per seed."""
        return self.metrics[workload, policy, buffer_mib, alpha, service]

    def mean(self, metric: str, *cell: Any, **more: Any) -> float:
        """Mean over the seeds of a cell, given as to `runs`."""
        return _mean([run[metric] for run in self.runs(*cell, **more)])

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
        reference = self.mean(metric, workload, "fcfs", buffer_mib, service=service)
        own = self.mean(metric, workload, policy, buffer_mib, alpha, service)
        # Both are zero where everything fits into the buffer of a parallel device.
        return 1.0 if own == reference else own / reference

    def is_overloaded(
        self, workload: str, policy: str, buffer_mib: int, service: str = "serial"
    ) -> bool:
        """Whether some seed of a cell is."""
        return any(
            r["overloaded"] for r in self.runs(workload, policy, buffer_mib, service=service)
        )

    def gains(self, metric: str, workload: str, buffer_mib: int, relative: bool) -> list[float]:
        """What TSB gains over FCFS at each seed: as a share, or in ms."""
        fcfs, tsb = (self.runs(workload, policy, buffer_mib) for policy in ("fcfs", "tsb"))
        return [
            (one[metric] - other[metric]) / (one[metric] if relative else 1.0)
            for one, other in zip(fcfs, tsb, strict=True)
        ]

    def best_buffer(
        self, metric: str, workload: str, relative: bool
    ) -> tuple[int | None, str, tuple[int, ...]]:
        """The buffer at which TSB gains most, a sentence about it, and the omitted buffers.

        It must beat the next one by the half-width of the 95 % interval of their paired
        difference over the seeds, else it is too close to call. From arrival, overloaded cells
        are omitted: their means grow with the length of the run.
        """
        left_out = tuple(
            buffer
            for buffer in BUFFERS_MIB
            if "ncq" not in metric
            and any(self.is_overloaded(workload, p, buffer) for p in ("fcfs", "tsb"))
        )
        gains = {
            buffer: self.gains(metric, workload, buffer, relative)
            for buffer in BUFFERS_MIB
            if buffer not in left_out
        }
        if not gains:
            return None, "every buffer is overloaded", left_out
        ranked = sorted(gains, key=lambda buffer: -_mean(gains[buffer]))
        best = ranked[0]
        shown = f"{_mean(gains[best]):.0%}" if relative else f"{_mean(gains[best]):.2f} ms"
        if len(ranked) > 1:
            differences = [a - b for a, b in zip(gains[best], gains[ranked[1]], strict=True)]
            if not _mean(differences) > half_width(differences):
                text = f"too close to call: {best} and {ranked[1]} MiB, about {shown}"
                return None, text, left_out
        return best, f"{best} MiB, {shown}", left_out

    def statements(self) -> Sequence[Statement]:
        """The statements of the paper, one by one, beside the results of this model."""
        return [
            *self._reads_of_a(),
            *self._others(),
            *self._in_words(),
            *self._best_buffers(),
            *self._small_buffers(),
        ]

    def _in_words(self) -> list[Statement]:
        """What the paper says of all buffers, workloads or weights of aging, without a number."""
        reads = "mean_read_ms"
        cells = list(itertools.product(WORKLOADS, BUFFERS_MIB))
        growth = {
            (workload, policy): max(
                self.mean(reads, workload, policy, larger)
                / self.mean(reads, workload, policy, smaller)
                for smaller, larger in itertools.pairwise(BUFFERS_MIB)
            )
            for workload, policy in itertools.product(WORKLOADS, POLICIES)
        }
        largest = max(growth, key=lambda cell: growth[cell])
        tsb = {cell: self.ratio(reads, cell[0], "tsb", cell[1]) for cell in cells}
        worst = max(tsb, key=lambda cell: tsb[cell])
        at_64 = max(tsb[workload, 64] for workload in WORKLOADS)
        by_alpha = {alpha: self.mean(reads, "A", "tsb", 32, alpha) for alpha in ALPHAS}
        usual_ms = self.mean("max_write_ms", "A", "tsb", 32)
        fair = [
            alpha
            for alpha in ALPHAS
            if self.mean("max_write_ms", "A", "tsb", 32, alpha) <= STARVED * usual_ms
        ]
        best = min(fair, key=lambda alpha: by_alpha[alpha])
        fcfs = self.ratio(reads, "A", "tsb", 32, ALPHAS[0])
        writes = {
            (workload, policy): self.ratio("mean_write_ncq_ms", workload, policy, BUFFERS_MIB[0])
            for workload, policy in itertools.product(WORKLOADS, POLICIES[1:])
        }
        worse = [f"{p.upper()} on {w}" for (w, p), ratio in writes.items() if ratio > 1]
        return [
            Statement(
                "Mean read of every policy falls with the buffer: its largest step up or down",
                "falls", growth[largest], growth[largest] < 1,
                f"largest under {largest[1].upper()} on {largest[0]}",
            ),
            Statement(
                "Mean read of TSB, share of FCFS: the largest of all buffers and workloads",
                "below 1", tsb[worst], tsb[worst] < 1, f"at {worst[1]} MiB on {worst[0]}",
            ),
            Statement(
                "64 MiB, mean read of TSB, share of FCFS: the largest of the four workloads",
                "below 1", at_64, at_64 < 1,
            ),
            Statement(
                "A, 32 MiB, TSB: mean read at α = 0.9 over the best without starvation",
                "α = 0.9 is best", by_alpha[USUAL_ALPHA] / by_alpha[best], best == USUAL_ALPHA,
                f"best at α = {best}; starvation: longest write above {STARVED} × that at 0.9",
            ),
            _near(
                f"A, 32 MiB, mean read of TSB at α = {ALPHAS[0]} (to 0), share of FCFS",
                1.0, fcfs, 0.05, "with dispatch-overtake aging",
            ),
            Statement(
                f"{BUFFERS_MIB[0]} MiB, mean write from NCQ entry, share of FCFS: the largest",
                "worse", max(writes.values()), bool(worse), f"worse: {', '.join(worse) or 'none'}",
            ),
        ]  # fmt: skip

    def _reads_of_a(self) -> list[Statement]:
        statements = []
        for policy, published in (("s", 0.41), ("ts", 0.27), ("tsb", 0.22)):
            for alpha in (0.9, 0.95):
                ratio = self.ratio("mean_read_ms", "A", policy, 64, alpha)
                title = f"A, 64 MiB, mean read of {policy.upper()}, share of FCFS, α = {alpha}"
                statements.append(_near(title, published, ratio, 0.04))
        return statements

    def _others(self) -> list[Statement]:
        reads = "mean_read_ms"
        statements = []
        grows = self.mean("max_write_ms", "A", "tsb", 32, 1.0) / self.mean(
            "max_write_ms", "A", "tsb", 32
        )
        title = "A, 32 MiB, TSB: longest write at α = 1 over that at 0.9"
        statements.append(Statement(title, "“clearly grows”", grows, grows >= 2))
        for buffer in (32, 128):
            ratio = self.ratio(reads, "B", "tsb", buffer)
            title = f"B, {buffer} MiB, mean read of TSB, share of FCFS"
            remark = "the paper does not name the buffer"
            statements.append(_near(title, 0.35, ratio, 0.06, remark))
        writes = self.ratio("mean_write_ncq_ms", "D", "tsb", 32)
        title = "D, 32 MiB, mean write of TSB from NCQ entry, share of FCFS"
        statements.append(_near(title, 1.06, writes, 0.04))
        from_entry = [self.ratio("mean_read_ncq_ms", "D", policy, 32) for policy in ("tsb", "ts")]
        title = "D, 32 MiB, mean read from NCQ entry: TSB over TS"
        worse = from_entry[0] / from_entry[1]
        statements.append(Statement(title, "TSB is worse", worse, worse > 1))
        iops = self.ratio("iops", "A", "tsb", 64)
        title = "A, 64 MiB, IOPS of TSB, share of FCFS"
        statements.append(Statement(title, "“hardly changes”", iops, abs(iops - 1) <= 0.01))
        least = min(
            self.ratio(metric, workload, policy, 64, service="parallel")
            for metric in (reads, "mean_write_ms")
            for workload in ("A", "D")
            for policy in POLICIES
        )
        title = "64 dies in parallel: the smallest share of FCFS of any policy"
        busy = max(
            self.mean("utilisation", workload, "fcfs", 64, service="parallel")
            for workload in ("A", "D")
        )
        remark = f"the dies are busy for {busy:.1%} of the time at most"
        statements.append(Statement(title, "", least, None, remark))
        return statements

    def _best_buffers(self) -> list[Statement]:
        """Where TSB gains most, on both bases and from both points in time."""
        statements = []
        for workload in WORKLOADS:
            for direction in ("read", "write"):
                for at, since in (("", "arrival"), ("_ncq", "NCQ entry")):
                    for relative in (True, False):
                        basis = "relative" if relative else "absolute"
                        metric = f"mean_{direction}{at}_ms"
                        best, text, left_out = self.best_buffer(metric, workload, relative)
                        published = ""
                        comes_out = None
                        if (workload, direction, relative) == ("A", "read", True):
                            published = "64 MiB"
                            comes_out = None if best is None else best == 64
                        if (workload, direction, relative) == ("A", "read", False):
                            published = "32 MiB"
                            comes_out = None if best is None else best == 32
                        remark = text
                        if left_out:
                            sizes = ", ".join(map(str, left_out))
                            remark += f"; {len(left_out)} overloaded omitted: {sizes} MiB"
                        title = (
                            f"{workload}, {direction}s from {since}: buffer of the best {basis} "
                            "gain of TSB (MiB)"
                        )
                        value = float(best) if best is not None else float("nan")
                        statements.append(Statement(title, published, value, comes_out, remark))
        return statements

    def _small_buffers(self) -> list[Statement]:
        """Whether writes get worse than under FCFS, from NCQ entry."""
        statements = []
        for workload in WORKLOADS:
            for policy in ("ts", "tsb"):
                ratios = {
                    buffer: self.ratio("mean_write_ncq_ms", workload, policy, buffer)
                    for buffer in BUFFERS_MIB
                }
                worse = [str(buffer) for buffer, ratio in ratios.items() if ratio > 1]
                title = (
                    f"{workload}, {policy.upper()}: mean write from NCQ entry at "
                    f"{BUFFERS_MIB[0]} MiB, share of FCFS"
                )
                remark = f"worse than FCFS at {', '.join(worse) or 'no'} MiB"
                statements.append(Statement(title, "", ratios[BUFFERS_MIB[0]], None, remark))
        return statements

    def rows(self) -> list[dict[str, Any]]:
        """The statements as a table."""
        return [
            {
                "result": each.result,
                "paper": each.published,
                "model": "–" if math.isnan(each.model_value) else f"{each.model_value:.2f}",
                "comes out": {True: "yes", False: "no", None: ""}[each.comes_out],
                "remark": each.remark,
            }
            for each in self.statements()
        ]

    def cannot(self) -> Sequence[str]:
        """The statements that are not reproduced, with the figures of this run."""
        return [
            f"{each.result}: the paper has {each.published}, here it is {each.model_value:.2f}."
            for each in self.statements()
            if each.comes_out is False
        ]

    def lines(self, width: int = 80) -> list[str]:
        """The terminal output: the number of agreeing statements, each checked one, the others."""
        judged = [row for row in self.rows() if row["comes out"]]
        good = sum(row["comes out"] == "yes" for row in judged)
        lines = [f"Simulated: {good} of {len(judged)} statements of the paper are reproduced.", ""]
        wide = max(len(row["paper"]) for row in judged)
        lines.append(f"{'':5}{'paper':>{wide}} {'model':>6}  statement")
        for row in judged:
            start = f"{row['comes out']:5}{row['paper']:>{wide}} {row['model']:>6}  "
            indent = " " * len(start)
            lines += textwrap.wrap(
                row["result"], width, initial_indent=start, subsequent_indent=indent
            )
        others = len(self.rows()) - len(judged)
        return [*lines, f"{others} more figures without a number in the paper are on the page."]

    def basis(self, requests: int, seeds: int) -> str:
        """The basis of the figures, and the overloaded cells."""
        cells = [
            (workload, buffer)
            for workload in WORKLOADS
            for buffer in BUFFERS_MIB
            if any(self.is_overloaded(workload, policy, buffer) for policy in POLICIES)
        ]
        named = ", ".join(f"{workload} at {buffer} MiB" for workload, buffer in cells)
        overload = f" Overloaded under some policy: {named}." if cells else ""
        return (
            f"{seeds} seeds of {requests:,} requests, means over the seeds, serial service, α = "
            f"{USUAL_ALPHA} and dispatch-overtake aging unless stated otherwise. The charts show "
            f"what the paper's figures 3 to 8 are about; only the numbers in its text are "
            f"known.{overload}"
        )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _near(title: str, published: float, value: float, within: float, remark: str = "") -> Statement:
    return Statement(title, f"{published:.2f}", value, abs(value - published) <= within, remark)
