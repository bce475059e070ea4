"""`schedlab io run`: one load, once, with everything that the engine knows about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from schedlab.cli.types import Duration, Size
from schedlab.errors import SpecError

# Names that other tools use, beside IOzone's.
ALIASES = {
    "randread": "random-read", "randwrite": "random-write", "randrw": "mixed", "reread": "re-read",
    "reverse": "reverse-read", "stride": "stride-read",
}  # fmt: skip


@click.command()
@click.option(
    "--test", "test_name", required=True, help="read, randread, randwrite, stride-read, …"
)
@click.option(
    "--file", "path", type=click.Path(path_type=Path), required=True, help="File or device."
)
@click.option("--size", type=Size(), help="Bytes used from its start; a new file gets this size.")
@click.option("--record", type=Size(), default="4k", show_default=True, help="Bytes per request.")
@click.option("--depth", type=click.IntRange(1, 32767), default=1, show_default=True)
@click.option("--workers", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option(
    "--engine", type=click.Choice(["psync", "io_uring", "mmap"]), help="Default: by depth."
)
@click.option("--batch", type=click.IntRange(1, 32767), default=1, help="Requests per submission.")
@click.option("--direct/--buffered", default=False, help="O_DIRECT, or the page cache.")
@click.option(
    "--sync", type=click.Choice(["none", "dsync", "sync"]), default="none", help="O_DSYNC, O_SYNC."
)
@click.option("--fsync", "fsync_at_end", is_flag=True, help="Count a final fsync.")
@click.option("--seconds", type=Duration(), help="Measured window (default: one pass).")
@click.option("--ramp", type=Duration(), default=None, help="Load before the window.")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Open loop: requests/s per worker."
)
@click.option(
    "--arrivals", type=click.Choice(["poisson", "constant"]), default="poisson", show_default=True
)
@click.option("--read-percent", type=click.IntRange(0, 100), default=50, help="Of a mixed load.")
@click.option("--with-replacement", is_flag=True, help="Random records may repeat in a pass.")
@click.option("--verify", is_flag=True, help="Mark every written record, check every one read.")
@click.option("--iopoll", is_flag=True, help="io_uring: poll for completions (needs --direct).")
@click.option("--sqpoll", is_flag=True, help="io_uring: a kernel thread submits.")
@click.option("--allow-fallback", is_flag=True, help="psync where the kernel refuses io_uring.")
@click.option("--overwrite", is_flag=True, help="Write to a file that exists.")
@click.option(
    "--destroy-data",
    type=click.Path(path_type=Path),
    metavar="DEVICE",
    help="Write to this device.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def run(as_json: bool, **typed: Any) -> None:
    """Put one load on a file or device, and tell throughput, latency and CPU time.

    For example: schedlab io run --test randread --record 4k --depth 32 --direct --file F
    --size 1g --seconds 5
    """
    from schedlab.kinds.engine import run_groups
    from schedlab.kinds.worker_lines import as_iozone, worker_lines

    group = group_of(typed)
    allow_writing(typed, writes=group["workload"]["direction"]["kind"] != "read")
    result = run_groups([group], typed["seconds"], typed["ramp"] or 0.0)
    done = result["groups"][0]
    lines = worker_lines(done)
    if as_json:
        click.echo(json.dumps({"schema": 1, **result, "iozone": lines}))
    else:
        show(done, typed["record"])
        if typed["workers"] > 1:
            click.echo(as_iozone(lines, group["name"], typed["workers"]))
    failed = done["reads"]["errors"] + done["writes"]["errors"] + done["mismatches"]
    click.get_current_context().exit(1 if failed else 0)


def group_of(typed: dict[str, Any]) -> dict[str, Any]:
    """The engine's description of the load; SpecError for what does not fit together."""
    from schedlab.kinds.file_test import TESTS

    name = ALIASES.get(typed["test_name"], typed["test_name"])
    if name not in TESTS:
        raise SpecError(f"--test {name}: is not known", f"use one of: {', '.join(TESTS)}")
    order, direction, _ = TESTS[name]
    if order["kind"] == "random":
        order = {**order, "replacement": typed["with_replacement"]}
    if direction["kind"] == "mixed":
        direction = {**direction, "read_percent": typed["read_percent"]}
    depth, rate = typed["depth"], typed["rate"]
    arrivals = {"kind": "closed", "depth": depth}
    if rate:
        arrivals = {"kind": typed["arrivals"], "rate_per_s": rate}
    engine = typed["engine"] or ("io_uring" if depth > 1 or rate else "psync")
    return {
        "name": name,
        "path": str(typed["path"]),
        "workers": typed["workers"],
        "engine": engine,
        "workload": {
            "pattern": order,
            "direction": direction,
            "record": typed["record"],
            "span": span_of(typed["path"], typed["size"]),
            "arrivals": arrivals,
            "seed": typed["seed"],
        },
        "direct": typed["direct"],
        "sync": typed["sync"],
        "fsync_at_end": typed["fsync_at_end"],
        "verify": typed["verify"],
        "allow_fallback": typed["allow_fallback"],
        "batch": min(typed["batch"], depth),
        "iopoll": typed["iopoll"],
        "sqpoll": typed["sqpoll"],
    }


def span_of(path: Path, size: int | None) -> int:
    """Bytes to use: as typed, else all that the file or device has."""
    from schedlab.host import devices

    if path.is_block_device():
        have = devices.size_bytes(path)
    elif path.exists():
        have = path.stat().st_size
    elif size:
        return size
    else:
        raise SpecError(f"{path}: does not exist", "add --size SIZE to make it")
    if size and size > have and path.is_block_device():
        raise SpecError(f"--size: {path} has only {have} bytes", f"--size {have}")
    return size or have


def allow_writing(typed: dict[str, Any], writes: bool) -> None:
    """Make the file when it is missing; refuse to write over what is somebody's."""
    from schedlab.host import devices, scratch

    path: Path = typed["path"]
    if path.is_block_device():
        if writes:
            devices.require_destroyable(str(path), typed["destroy_data"] == path)
        return
    if not path.exists():
        scratch.check_space(path.parent, typed["size"])
        scratch.fill(path, typed["size"])
    elif writes and not typed["overwrite"]:
        raise SpecError(
            f"{path}: exists, and this test writes to it",
            "add --overwrite, or name a new file with --size",
        )
    elif typed["size"] and path.stat().st_size < typed["size"]:
        raise SpecError(f"{path}: has only {path.stat().st_size} bytes", "name a new file")


def show(done: dict[str, Any], record_bytes: int) -> None:
    """Two lines of what matters, and what a careful reader must know."""
    from schedlab.kinds import latency

    seconds = done["elapsed_ns"] / 1e9
    closed = done["arrivals"] == "closed"
    for word in ("reads", "writes"):
        side = done[word]
        if not side["operations"] and not side["errors"]:
            continue
        rate, speed = side["operations"] / seconds, side["bytes"] / seconds / 1e6
        click.echo(f"{word + ':':8s}{rate:12,.0f} /s {speed:11,.1f} MB/s  in {seconds:.2f} s")
        found = latency.metrics(side["latency"]["bins"])
        parts = [f"mean {side['latency']['mean'] / 1e3:,.1f}"]
        parts += [f"{k.removeprefix('latency_ns_')} {v / 1e3:,.1f}" for k, v in found.items()]
        kind = "closed loop" if closed else "from the intended start"
        click.echo(f"        latency in µs ({kind}): {', '.join(parts)}")
    operations = done["reads"]["operations"] + done["writes"]["operations"]
    if operations:
        user, system = (done[k] / operations / 1e3 for k in ("cpu_user_ns", "cpu_system_ns"))
        click.echo(
            f"CPU:    {user:.2f} µs user, {system:.2f} µs system per request ({done['engine']})"
        )
    notes = {
        "closed loop: while the device stalls nothing arrives, so that the percentiles cannot show "
        "it; --rate can": closed,
        "the load generator is the bottleneck, not the device": done["load_generator_bottleneck"],
        f"another engine was used: {done['fallback']}": done["fallback"],
        f"{done['unissued']} requests were due and never issued": done["unissued"],
        f"failed requests: {done['error_counts']}": done["error_counts"],
        f"first error: {done['first_error']}": done["first_error"],
        f"{done['mismatches']} records were not what was written: {done['first_mismatch']}": done[
            "mismatches"
        ],
    }
    for text, holds in notes.items():
        if holds:
            click.echo(f"note: {text}", err=True)
