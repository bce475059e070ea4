"""The progress of a live experiment: one screen on a terminal, else a line a period."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from schedlab.cli.show import measuring, print_message

if TYPE_CHECKING:
    from schedlab.app.measure.measure import Observer
    from schedlab.run.executor import Progress
    from schedlab.run.live.live import Second


@contextmanager
def watching() -> Iterator[Observer]:
    """An observer that draws the screen; without a terminal it prints a line after each period."""
    with measuring() as observer:
        if not sys.stderr.isatty():
            yield replace(observer, watch=_print_period)
            return
        from rich.console import Console
        from rich.live import Live

        from schedlab.app.live.screen import LiveScreen

        screen = LiveScreen()
        with Live(console=Console(stderr=True), auto_refresh=False) as drawn:

            def see(second: Second) -> None:
                screen.see(second)
                drawn.update(screen.text(), refresh=True)

            yield replace(observer, watch=screen.watch, report=drawn.console.print, see=see)


def _print_period(now: Progress) -> None:
    if now.repeated:
        print_message(now.repeated)
    elif now.last is not None:
        from schedlab.app.live.screen import figures_of

        print_message(f"{now.text}: {now.last.candidate}: {figures_of(now.last)}")
