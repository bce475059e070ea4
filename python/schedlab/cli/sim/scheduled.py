"""`--scheduler` of the simulating commands: the kernel's queue above the device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_COUNT, _OF = click.IntRange(min=1), "With --scheduler: "
_OPTIONS: dict[str, tuple[Any, str]] = {
    "--scheduler": (str, "The kernel's I/O schedulers above the device: none;bfq:slice_idle=0;cfq"),
    "--processes": (str, f"{_OF}presets or files, comma-separated."),
    "--tags": (_COUNT, f"{_OF}commands that the driver lets into the device.  [32]"),
    "--nr-requests": (_COUNT, f"{_OF}requests that may be allocated."),
    "--window": (_COUNT, f"{_OF}commands that the device holds and orders."),
    "--size": (str, f"{_OF}scale the device to so many bytes."),
    "--seconds": (float, f"{_OF}simulated time.  [20]"),
    "--gantt": (click.Path(path_type=Path), f"{_OF}requests and the head as FILE.svg."),
}


def scheduler_options(verdict: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Add the options; with `--scheduler` the kernel's queue is simulated instead."""

    def add(command: Callable[..., None]) -> Any:
        @functools.wraps(command)
        def chosen(**typed: Any) -> None:
            own = {name: typed.pop(name[2:].replace("-", "_")) for name in _OPTIONS}
            if own["--scheduler"] is None:
                command(**typed)
                return
            from schedlab.cli.show import run_and_present
            from schedlab.run.admitted import Permission
            from schedlab.sim.host_runs import wish_of

            wish = wish_of(own, typed)
            if typed.get("out") is None and not verdict:
                click.echo(wish.text(typed["as_json"]))
                return
            run_and_present(wish.experiment(), Permission(), "sim-host", typed)

        for name, (kind, words) in reversed(_OPTIONS.items()):
            both = (name, "--schedulers") if name == "--scheduler" else (name,)
            chosen = click.option(*both, type=kind, help=words)(chosen)
        return chosen

    return add
