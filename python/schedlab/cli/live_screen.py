"""What a live experiment shows while it runs: one screen on a terminal, else a line a period."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from schedlab.cli.show import measuring, print_message
from schedlab.run.live_figures import Flow
from schedlab.spec.quantities import duration_text

if TYPE_CHECKING:
    from schedlab.app.measure import Observer
    from schedlab.run.backends.live import Second
    from schedlab.run.executor import Progress

BARS = "▁▂▃▄▅▆▇█"
SECONDS_SHOWN = 50


@contextmanager
def watching() -> Iterator[Observer]:
    """An observer that draws the screen; without a terminal it prints a line after each period."""
    with measuring() as observer:
        if not sys.stderr.isatty():
            yield replace(observer, watch=_print_period)
            return
        from rich.console import Console
        from rich.live import Live

        screen = Screen()
        with Live(console=Console(stderr=True), auto_refresh=False) as drawn:

            def see(second: Second) -> None:
                screen.see(second)
                drawn.update(screen.text(), refresh=True)

            yield replace(observer, watch=screen.watch, report=drawn.console.print, see=see)


def _print_period(now: Progress) -> None:
    if now.repeated:
        print_message(now.repeated)
    elif now.last is not None:
        mean_ns = next((v for n, v in now.last.metrics.items() if n.endswith("_ns_mean")), 0.0)
        figures = f"mean {mean_ns / 1e6:.3g} ms, {now.last.metrics.get('requests_per_s', 0):,.0f}/s"
        print_message(f"{now.text}: {now.last.candidate}: {figures}")


class Screen:
    """The last seconds of every group as sparklines, the period, and how far the guards are."""

    def __init__(self) -> None:
        self._p99: dict[tuple[str, str], deque[float]] = {}
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
        for key in second.figures.flows:
            self._p99.setdefault(key, deque(maxlen=SECONDS_SHOWN))
        for key, values in self._p99.items():
            flow = second.figures.flows.get(key, Flow())
            values.append((flow.quantile_ns(0.99, 0) or 0.0) / 1e6)

    def text(self) -> str:
        """The screen."""
        lines = [self._head, self._period]
        for (group, operation), values in sorted(self._p99.items()):
            name = f"{group} {operation}"[:24]
            lines.append(f"{name:24s} p99 {values[-1]:8.3g} ms  {sparkline(values)}")
        return "\n".join((*lines, self._guard))


def sparkline(values: deque[float]) -> str:
    """One bar a value, from 0 to the largest."""
    most = max(values, default=0.0)
    if not most:
        return ""
    return "".join(BARS[min(int(value / most * len(BARS)), len(BARS) - 1)] for value in values)
