"""The screen of a live experiment as text: the last seconds of every group, all latencies over
time, and how far it is.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedlab.kinds.live_load import OPERATIONS
from schedlab.nouns.quantities import duration_text
from schedlab.report.heat import level
from schedlab.report.texts import UnitScale
from schedlab.run.live.live_figures import Flow

if TYPE_CHECKING:
    from schedlab.nouns import Run
    from schedlab.run.executor import Progress
    from schedlab.run.live.live import Second
    from schedlab.run.live.live_figures import Look

BARS = "▁▂▃▄▅▆▇█"
# What fits into 80 columns.
SECONDS_SHOWN, NAME_SHOWN = 29, 20
# Of the heat map: its seconds, and what a cell looks like, by the log of its requests.
HEAT_SECONDS, SHADES = 68, " ·░▒▓█"


class LiveScreen:
    """The last seconds of every group as sparklines, the period, and how far the guards are."""

    def __init__(self) -> None:
        self._p99: dict[tuple[str, str], deque[float]] = {}
        self._p50: dict[tuple[str, str], float] = {}
        self._seconds: deque[tuple[str, Counter[int]]] = deque(maxlen=HEAT_SECONDS)
        self._period = self._head = self._guard = ""

    def watch(self, now: Progress) -> None:
        """Between two periods."""
        self._head = now.text

    def see(self, second: Second) -> None:
        """One second more."""
        left_s = second.period_s - second.passed_s
        part = "wash-out" if second.in_wash_out else "measured"
        self._period = f"{second.candidate}: {part}, {duration_text(max(left_s, 0))} left of it"
        if second.guard_share is not None:
            self._guard = f"nearest guard: at {100 * second.guard_share:.0f} % of its limit"
        self._seconds.append((second.candidate, bands(second.figures)))
        for key in second.figures.flows:
            self._p99.setdefault(key, deque(maxlen=SECONDS_SHOWN))
        for key, values in self._p99.items():
            flow, (group, operation) = second.figures.flows.get(key, Flow()), key
            p99_ns = second.figures.latency_ns("p99", operation, group)
            values.append((p99_ns or 0.0) / 1e6)
            self._p50[key] = (flow.quantile_ns(0.5, 0) or 0.0) / 1e6

    def text(self) -> str:
        """The screen."""
        lines = [self._head, self._period]
        for key, values in sorted(self._p99.items()):
            name = " ".join(key)[:NAME_SHOWN]
            figures = f"p50 {self._p50[key]:7.3g}  p99 {values[-1]:7.3g} ms"
            lines.append(f"{name:{NAME_SHOWN}s} {figures}  {sparkline(values)}")
        return "\n".join((*lines, *heat_map(self._seconds), self._guard))


def bands(figures: Look) -> Counter[int]:
    """How many requests took about 4^n ns, by n."""
    counts: Counter[int] = Counter()
    for flow in figures.flows.values():
        for (low, high), count in flow.bins.items():
            counts[round(math.log(max(low, 1) * max(high, 1), 16))] += count
    return counts


def heat_map(seconds: Sequence[tuple[str, Counter[int]]]) -> list[str]:
    """A row for each band of latencies, the slowest first, a column for each second, and below
    them the candidate; a second without a completion is empty.
    """
    every = {band: max(counts[band] for _, counts in seconds) for _, of in seconds for band in of}
    if not every:
        return []
    most = max(every.values())
    lines = []
    for band in range(max(every), min(every) - 1, -1):
        cells = "".join(SHADES[level(counts[band], most)] for _, counts in seconds)
        about = UnitScale.fitting([4.0**band], "ns")
        lines.append(f"{f'{4.0**band / about.factor:.2g} {about.unit}':>11} {cells}")
    runs = [(name, len(list(run))) for name, run in itertools.groupby(name for name, _ in seconds)]
    return [*lines, " " * 12 + "".join(name[: n - 1].ljust(n, "─") for name, n in runs)]


def figures_of(run: Run) -> str:
    """A period in a few words: mean latencies and the rate."""
    means = [
        f"{operation} {mean_ns / 1e6:.3g} ms"
        for operation in OPERATIONS
        if (mean_ns := run.metrics.get(f"{operation}_latency_ns_mean"))
    ]
    return f"{', '.join(means)} on average, {run.metrics.get('requests_per_s', 0):,.0f}/s"


def sparkline(values: deque[float]) -> str:
    """One bar a value, from 0 to the largest."""
    most = max(values, default=0.0)
    if not most:
        return ""
    return "".join(BARS[min(int(value / most * len(BARS)), len(BARS) - 1)] for value in values)
