"""`schedlab compare`: the main job. Which I/O scheduler, with which settings, for this work?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.command_options import file_options, started_options, work_of
from schedlab.cli.options import (
    PATH,
    dry_run_option,
    json_option,
    out_option,
    permission_of,
    place_of,
    seed_option,
    target_options,
    together,
)
from schedlab.cli.types import Duration, Percent, Size, Sizes, Words

load_options = together(
    click.option("--workloads", type=Words(), help="What is measured (see docs/reference)."),
    click.option("--tests", type=Words(), help="File tests instead: read,random-write,…"),
    click.option("--records", type=Sizes(), help="Record sizes of the file tests: 8k,64k,1M."),
    click.option("--depth", type=click.IntRange(1, 4096), default=1, show_default=True,
                 help="Queue depth of the file tests."),
    click.option("--workers", type=click.IntRange(1, 1024), default=1, show_default=True,
                 help="Workers of the file tests."),
    click.option("--buffered", is_flag=True, help="Through the page cache instead of O_DIRECT."),
    click.option("--engine", type=click.Choice(["own", "fio"]), default="own", show_default=True,
                 help="The file tests by our engine, or by an installed fio."),
    click.option("--seconds", type=Duration(),
                 help="Measured window of a run (default: what each workload needs)."),
    click.option("--archive", type=click.Path(path_type=Path, exists=True, dir_okay=False),
                 help="Archive to extract (default: a generated one)."),
    click.option("--archive-size", type=Size(), default="64M", show_default=True,
                 help="Size of the generated archive."),
    click.option("--decompressor", type=click.Choice(["none", "gzip", "xz", "zstd"]),
                 default="none", show_default=True, help="How it is compressed."),
    click.option("--program", metavar="COMMAND", help="Whose start-up is timed."),
)  # fmt: skip
design_options = together(
    click.option("--blocks", type=click.IntRange(1, 10_000),
                 help="Number of blocks (each runs every candidate once on every workload)."),
    click.option("--budget", type=Duration(), help="Plan what fits into this time, e.g. 10m."),
    click.option("--quick", is_flag=True, help="A budget of 110 s."),
    click.option("--until-decided", is_flag=True, help="Stop as soon as it is decided."),
    click.option("--precision", type=Percent(), help="Stop at intervals of ±1%."),
    click.option("--may-extend", type=click.IntRange(2), metavar="BLOCKS",
                 help="Announce a second analysis at so many blocks."),
    click.option("--margin", type=Percent(), default="2%", show_default=True,
                 help="Smaller differences are treated as equivalent."),
    click.option("--aa/--no-aa", default=True, help="Measure the baseline twice in every block."),
    click.option("--goal", type=click.Choice(["throughput", "latency", "fairness",
                 "responsiveness"]), default="throughput", show_default=True,
                 help="What the primary metrics are."),
    click.option("--explain", is_flag=True,
                 help="Show where requests wait also where no difference is found."),
)  # fmt: skip


@click.command()
@target_options
@click.option("--schedulers", help="Candidates: none,mq-deadline:fifo_batch=32 (default: all).")
@click.option("--labels", help="Names for the candidates: before,after.")
@load_options
@design_options
@started_options
@file_options
@seed_option
@out_option
@dry_run_option
@json_option
@click.option("--resume", type=PATH, metavar="DIR", help="Resume, or extend by --blocks, --budget.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def compare(
    out: Path | None,
    dry_run: bool,
    as_json: bool,
    resume: Path | None,
    rehearse: bool,
    command: tuple[str, ...],
    **typed: Any,
) -> None:
    """Compare I/O schedulers on this machine, and say which is better for what, at what price.

    Your disks are never written to unless you name one: by default the work goes to a temporary
    loop device. All settings are restored, also after Ctrl-C and kill -9.

    With `-- COMMAND ARG…` your own program is the work, started in the target's directory.
    """
    from dataclasses import replace

    from schedlab.app import measure
    from schedlab.cli.show import measuring, present, run_and_present

    place = place_of(typed)
    permission = permission_of(place)
    if resume:
        blocks, budget_s = typed["blocks"], typed["budget"]
        with measuring() as observer:
            result = measure.resume(
                resume, blocks=blocks, budget_s=budget_s, permission=permission, observer=observer
            )
        present(result, as_json)
        return
    work = work_of(command, typed)
    experiment = experiment_of(place, typed) if work is None else own_work(place, work, typed)
    experiment = replace(experiment, explain=typed["explain"])
    if rehearse:
        show_rehearsal(experiment, permission)
        return
    how: Any = {"out": out, "name": "compare", "dry_run": dry_run, "as_json": as_json}
    run_and_present(experiment, permission, **how)


def experiment_of(place: Any, typed: dict[str, Any]) -> Any:
    """The experiment that the options mean."""
    from schedlab.app.comparison import Load, comparison

    load = Load(
        tests=typed["tests"],
        record_bytes=typed["records"] or (65536,),
        seconds=typed["seconds"] or 0.0,
        depth=typed["depth"],
        workers=typed["workers"],
        direct=not typed["buffered"],
        archive=str(typed["archive"].resolve()) if typed["archive"] else "",
        archive_bytes=typed["archive_size"],
        decompressor=typed["decompressor"],
        timing_seconds=typed["seconds"],
        program=typed["program"] or "",
        by_fio=typed["engine"] == "fio",
    )
    return comparison(place, load, families=typed["workloads"], **design_of(typed))


def own_work(place: Any, work: Any, typed: dict[str, Any]) -> Any:
    """The experiment of a command."""
    from schedlab.app.own_work import comparison_of
    from schedlab.errors import SpecError

    if typed["workloads"] or typed["tests"]:
        raise SpecError(
            "--workloads and --tests exclude a COMMAND", "write both into an experiment file"
        )
    return comparison_of(place, work, **design_of(typed))


def design_of(typed: dict[str, Any]) -> dict[str, Any]:
    """Candidates, blocks and the rest of the design."""
    from schedlab.app.comparison import stopping_of

    stopping = stopping_of(
        blocks=typed["blocks"],
        budget_s=typed["budget"],
        until_decided=typed["until_decided"],
        precision=typed["precision"],
        may_extend=typed["may_extend"],
        quick=typed["quick"],
    )
    named = {key: typed[key] for key in ("schedulers", "labels", "margin", "goal", "seed")}
    return {**named, "stopping": stopping, "aa_arm": typed["aa"]}


def show_rehearsal(experiment: Any, permission: Any) -> None:
    """Run the command once and stop."""
    from schedlab.app.admit import admit
    from schedlab.app.own_work import rehearse
    from schedlab.cli.show import measuring

    with measuring() as observer:
        rehearse(admit(experiment, permission), observer)
