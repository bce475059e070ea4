"""`schedlab io sweep`: block size × open mode; same bytes or same calls; where the knee is."""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.types import Names, Size, Sizes

if TYPE_CHECKING:
    from schedlab.run.sweep import Point

SIZES = "512,1k,2k,4k,8k,16k,32k,64k,128k,256k,512k,1M"
MODES = "buffered,buffered+fsync,sync,dsync,direct,direct+dsync,mmap,mmap+msync"


@click.command()
@click.option("--scratch", type=Size(), help="An own loop device of this size (default: 256M).")
@click.option(
    "--scratch-directory",
    type=click.Path(path_type=Path),
    default=Path("/var/tmp"),
    show_default=True,
    help="Where the scratch file lies.",
)
@click.option("--device", type=click.Path(path_type=Path), help="This block device; reads only.")
@click.option("--destroy-data", type=click.Path(path_type=Path), metavar="DEVICE")
@click.option("--directory", type=click.Path(path_type=Path), help="A file in this directory.")
@click.option("--size", type=Size(), default="256M", show_default=True, help="Size of that file.")
@click.option("--block-sizes", type=Sizes(), default=SIZES, show_default=True)
@click.option(
    "--modes", type=Names(tuple(MODES.split(","))), default="sync,direct,mmap+msync",
    show_default=True, help=f"Some of {MODES}.",
)  # fmt: skip
@click.option("--bytes", "same_bytes", type=Size(), help="The same bytes at every size, e.g. 5M.")
@click.option("--calls", type=click.IntRange(min=1), help="The same number of calls at every size.")
@click.option("--direction", type=click.Choice(["read", "write"]), default="write")
@click.option("--repeat", type=click.IntRange(1, 1000), default=5, show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder (default: results/DATE-sweep)."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def sweep(out: Path | None, as_json: bool, **typed: Any) -> None:
    """Measure what one call costs by block size and open mode, and find the knee.

    With --bytes small blocks mean many calls; with --calls large blocks mean many bytes. Together
    they tell whether the time goes with the calls or with the bytes.
    """
    from schedlab.cli.compare import default_folder
    from schedlab.report.sweep_chart import write_page, write_workbook
    from schedlab.store.files import write_atomic

    points = measured(typed)
    found = {mode: conclusion(mode, points) for mode in typed["modes"]}
    data = {
        "schema": 1,
        "target": next(str(typed[k]) for k in ("device", "directory", "scratch") if typed[k]),
        "modes": found,
        "points": [dataclasses.asdict(point) for point in points],
    }
    folder = out or default_folder("sweep")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "sweep.json", json.dumps(data, indent=1) + "\n")
    page, book = folder / "report.html", folder / "report.xlsx"
    write_page(data, page)
    write_workbook(data, book)
    if as_json:
        files = {"folder": str(folder), "html": str(page), "xlsx": str(book)}
        click.echo(json.dumps({**data, "files": files}))
        return
    show(points, found)
    click.echo(f"\nreport:   {page}\nworkbook: {book}\ndata:     {folder / 'sweep.json'}")


def measured(typed: dict[str, Any]) -> list[Point]:
    """All runs, under host control; the target is removed or closed afterwards."""
    from schedlab.cli.conduct import say, signals_interrupt
    from schedlab.cli.target import target_of
    from schedlab.errors import SpecError
    from schedlab.host.control import Control
    from schedlab.run.backends.io import make_place
    from schedlab.run.sweep import sweep as carry_out

    if typed["same_bytes"] and typed["calls"]:
        raise SpecError("--bytes and --calls exclude each other", "give one of them")
    same_bytes, calls = typed["same_bytes"] or 5 << 20, typed["calls"]
    total: Callable[[int], int] = (lambda block: calls) if calls else lambda b: same_bytes // b
    if not (typed["scratch"] or typed["device"] or typed["directory"]):
        typed["scratch"] = 256 << 20
    device, destroy_data = typed["device"], typed["destroy_data"]
    reads = device is not None and typed["direction"] == "read" and not destroy_data
    target = target_of(
        typed["scratch"], typed["scratch_directory"], device, destroy_data,
        typed["directory"], typed["size"], reads,
    )  # fmt: skip
    if target.kind == "device" and typed["direction"] == "write" and not target.destroy_data:
        raise SpecError(
            f"{target.path}: writing was not allowed",
            f"add --destroy-data {target.path}, or --direction read",
        )
    live = sys.stderr.isatty()

    def tell(done: int, of: int) -> None:
        if live:
            click.echo(f"\r\033[Krun {done + 1}/{of}", nl=False, err=True)

    with signals_interrupt(), Control(report=say) as control:
        place = make_place(target, control, say, files=False)
        points = carry_out(
            place, typed["modes"], typed["block_sizes"], total, typed["direction"],
            typed["repeat"], typed["seed"], tell,
        )  # fmt: skip
    if live:
        click.echo("\r\033[K", nl=False, err=True)
    return points


def conclusion(mode: str, points: list[Point]) -> dict[str, Any]:
    """The fit of seconds over calls, and the knee of seconds per call over block size."""
    from schedlab.analyse import find_knee
    from schedlab.analyse.call_cost import fit_call_cost

    mine = [point for point in points if point.mode == mode]
    knee = find_knee(
        [point.block_bytes for point in mine],
        [point.seconds_per_call for point in mine],
        "block size",
    )
    cost = fit_call_cost([point.calls for point in mine], [point.elapsed_s for point in mine])
    return {"knee": dataclasses.asdict(knee), "cost": dataclasses.asdict(cost) if cost else None}


def show(points: list[Point], found: dict[str, dict[str, Any]]) -> None:
    """A table per mode: medians over the repetitions."""
    from schedlab.design.io_experiment import size_text
    from schedlab.report.sweep_chart import sentences

    for mode, what in found.items():
        click.echo(f"\n{mode}")
        click.echo(
            f"{'block':>10s} {'calls':>8s} {'seconds':>10s} {'µs/call':>10s} "
            f"{'calls/s':>10s} {'MB/s':>9s}"
        )
        sizes = sorted({p.block_bytes for p in points})
        for block in sizes:
            runs = [p for p in points if (p.mode, p.block_bytes) == (mode, block)]
            seconds, calls = statistics.median(p.elapsed_s for p in runs), runs[0].calls
            click.echo(
                f"{size_text(block):>10s} {calls:8,d} {seconds:10.4f} "
                f"{seconds / calls * 1e6:10.1f} "
                f"{calls / seconds:10,.0f} {calls * block / seconds / 1e6:9.1f}"
            )
        for text in sentences(what):
            click.echo(f"  {text}")
