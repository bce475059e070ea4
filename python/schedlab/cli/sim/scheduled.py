"""`--scheduler` of the simulating commands: the kernel's queue above the device."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_OPTIONS = (
    click.option("--scheduler", "--schedulers", metavar="NAME[:TUNABLE=N,…][;…]",
                 help="The kernel's I/O schedulers above the device: none, noop, deadline, cfq, "
                      "mq-deadline, kyber, bfq."),
    click.option("--processes", help="With --scheduler: presets or files, with commas."),
    click.option("--tags", type=click.IntRange(min=1), help="With --scheduler: driver tags.  [32]"),
    click.option("--nr-requests", type=click.IntRange(min=1), help="With --scheduler: requests."),
    click.option("--window", type=click.IntRange(min=1),
                 help="With --scheduler: commands that the device holds and orders."),
    click.option("--size", help="With --scheduler: scale the device to so many bytes."),
    click.option("--seconds", type=float, help="With --scheduler: simulated time.  [20]"),
    click.option("--gantt", type=click.Path(path_type=Path),
                 help="With --scheduler: requests and the head as FILE.svg."),
)  # fmt: skip


def scheduler_options(verdict: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Add the options; with `--scheduler` the kernel's queue is simulated instead."""

    def add(command: Callable[..., None]) -> Any:
        @functools.wraps(command)
        def chosen(**typed: Any) -> None:
            own = {name: typed.pop(name) for name in NAMES}
            if own["scheduler"] is None:
                return command(**typed)
            return _scheduled(own, typed, verdict)

        for option in reversed(_OPTIONS):
            chosen = option(chosen)
        return chosen

    return add


NAMES = ("scheduler", "processes", "tags", "nr_requests", "window", "size", "seconds", "gantt")


def _scheduled(own: dict[str, Any], typed: dict[str, Any], verdict: bool) -> None:
    from schedlab.sim import host, host_runs
    from schedlab.spec import SCHEMA_VERSION

    wish = host_runs.wish_of(own, typed)
    if verdict or typed.get("out") is not None:
        from schedlab.cli.show import run_and_present
        from schedlab.run.admitted import Permission

        run_and_present(wish.experiment(), Permission(), "sim-host", typed)
        return
    runs = wish.run()
    if typed["as_json"]:
        click.echo(json.dumps({"schema": SCHEMA_VERSION, "runs": runs}))
        return
    for file, same in runs.items():
        click.echo("\n".join([f"{file}:", *host.table(same)]))
