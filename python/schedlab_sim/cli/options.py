"""Options of the `schedlab sim` commands; those of a simulation are the same for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from schedlab.cli.options import COUNT, PATH, SEED, dry_run_option, json_option
from schedlab.cli.sections import section, together
from schedlab.cli.types import Listed
from schedlab.errors import SpecError
from schedlab_sim.cli.play import play_options, refuse_idle_language, show_plays

if TYPE_CHECKING:
    from schedlab_sim.simulation_set import Shown

F = TypeVar("F", bound=Callable[..., Any])
AT_LEAST_1 = click.IntRange(min=1)

set_option = click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a device key."
)
volumes_option = click.option(
    "--volumes", help="Of a trace: refuse (several), region, select=ID,….  [refuse]"
)
_device_options = section(
    "Device",
    click.option("--device", default="ncq2014", show_default=True,
                 help="A shipped device (disk7200, nvme, …) or the path of a device file."),
    set_option,
    click.option("--buffer", help="Of an SSD: size of the page buffer, such as 64MiB."),
    click.option("--service", type=click.Choice(["serial", "parallel"]),
                 help="Of an SSD: its model.  [that of its file]"),
    usual="--device --buffer",
)  # fmt: skip
_work_options = section(
    "Requests",
    click.option("--requests", type=COUNT, help="A trace: all.  [20000, of a disk 10000]"),
    click.option("--depth", type=COUNT, help="Of a disk: requests always outstanding.  [1]"),
    click.option("--rate", type=float,
                 help="Of a disk: Poisson arrivals per second; of a trace: stretch its times."),
    click.option("--record", help="Of a disk: size of the requests, not the workload's own."),
    click.option("--span", help="Of a disk: bytes used from its start.  [all]"),
    click.option("--warm-up", help="Not reported: none, auto, N requests, or a time.  [none]"),
    usual="--requests --depth",
)  # fmt: skip
_scheduler_options = section(
    "The kernel's scheduler above the device",
    click.option("--scheduler", "--schedulers", "scheduler", type=Listed(";"),
                 metavar="NAME[:KEY=VALUE];…", help="Such as none;bfq:slice_idle=0;cfq."),
    click.option("--processes", type=Listed(),
                 help="Presets or files, comma-separated, that issue the requests."),
    click.option("--tags", type=AT_LEAST_1,
                 help="Commands that the driver lets into the device.  [32]"),
    click.option("--nr-requests", type=AT_LEAST_1, help="Requests that may be allocated."),
    click.option("--window", type=AT_LEAST_1,
                 help="Commands that the device holds and orders."),
    click.option("--size", help="Scale the device to so many bytes."),
    click.option("--seconds", type=float, help="Simulated time.  [20]"),
    usual="--scheduler --processes",
)  # fmt: skip
_trace_options = section(
    "A trace instead of a workload",
    click.option("--trace", metavar="FILE[:FORMAT]", help="Replay it."),
    volumes_option,
    click.option("--fit", type=click.Choice(["refuse", "wrap", "compact", "scale"]),
                 help="What to do with addresses beyond the device.  [refuse]"),
    click.option("--time-scale", type=float, help="Divide its times by this."),
    click.option("--closed", type=AT_LEAST_1, is_flag=False, flag_value=1, metavar="[DEPTH]",
                 help="Requests always outstanding."),
    click.option("--skip-bad-lines", is_flag=True, help="Skip malformed lines and count them."),
    usual="--trace",
)  # fmt: skip
_result_options = section(
    "Result",
    click.option("--seeds", type=click.IntRange(1, 1000), help="A trace has none.  [8]"),
    click.option("--seed", type=SEED, help="The first seed.  [1]"),
    click.option("--out", type=PATH, help="Result folder with verdict, report."),
    dry_run_option,
    json_option,
    usual="--seeds --out",
)
_run_options = section(
    "Policies",
    click.option("--policy", "policies", type=Listed(), metavar="NAME[:KEY=VALUE],…",
                 help="Of the device's queue: fcfs,stb:read_limit=10ms,FILE.py:Class."),
    click.option("--workload", help="A, B, C, D, …; of a disk: random4k, seqread, …."),
    click.option("--alpha", type=float, help="Of an SSD: aging weight; 1: none.  [0.9]"),
    click.option("--aging",
                 type=click.Choice(["dispatch-overtake", "shorter-arrival", "every-arrival"]),
                 help="Of an SSD: what ages a waiting command.  [dispatch-overtake]"),
    usual="--policy --workload",
)  # fmt: skip
_log_options = section(
    "Result",
    click.option("--log", type=PATH, help="Every request to FILE.csv or FILE.arrow."),
    click.option("--gantt", type=PATH,
                 help="With --scheduler: requests over time as FILE.html or FILE.svg."),
    usual="--log",
)  # fmt: skip
_compare_options = section(
    "Policies",
    click.option("--policies", type=Listed(), metavar="NAME[:KEY=VALUE],…",
                 help="Baseline first; parameters after a colon: stb:read_limit=10ms."),
    click.option("--workloads", type=Listed(),
                 help="Names, comma-separated.  [A,B,C,D; of a disk random4k]"),
    click.option("--metric", help="The primary metric.  [mean_read_ms, of a disk iops]"),
    usual="--policies --workloads",
)  # fmt: skip


def simulation_options(*, verdict: bool = False) -> Callable[[F], F]:
    """All options of a simulation."""
    own = (_compare_options,) if verdict else (_run_options, play_options)
    return together(
        _device_options,
        *own,
        _work_options,
        _scheduler_options,
        _trace_options,
        _result_options if verdict else together(_log_options, _result_options),
    )


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr."""
    for text in warnings:
        click.echo(f"warning: {text}", err=True)


def show(shown: Shown, as_json: bool) -> None:
    """The table or the document on stdout, warnings on stderr."""
    from schedlab.cli.show import print_lines

    print_lines([json.dumps(shown.document)] if as_json else shown.lines)
    warn(shown.warnings)


def simulate(typed: dict[str, Any], *, verdict: bool = False) -> None:
    """Run what the options mean and print it; with `verdict` or `--out` as an experiment."""
    from schedlab_sim.simulation_set import plays_of, simulations_of

    refuse_idle_language(typed, is_page=False)
    if typed.get("play"):
        show_plays(plays_of(typed), typed["play"], typed["lang"])
        return
    asked = simulations_of(typed)
    if not (verdict or typed["out"] or typed["dry_run"]):
        show(asked.run(), typed["as_json"])
        return
    if idle := [f"--{name}" for name in ("log", "gantt") if typed.get(name)]:
        raise SpecError(
            f"{idle[0]} would change nothing here: an experiment keeps no requests",
            f"omit {idle[0]}, or omit --out and --dry-run",
        )
    from schedlab.cli.show import run_and_present
    from schedlab.run.admitted import Permission

    experiment, notes = asked.experiment()
    warn(notes)
    run_and_present(experiment, Permission(), "sim", typed)
