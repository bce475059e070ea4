"""One load on a file or device, once: what the options mean, and whether it may write.

The same write gate as for experiments: a device is written to only with a consent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError, nearest
from schedlab.host import devices, scratch
from schedlab.host.consent import Consent, writable_path
from schedlab.host.control import Control
from schedlab.host.facts import free_pages_reported
from schedlab.kinds.engine import device_timings, run_groups
from schedlab.kinds.file_test import TESTS

__all__ = ["device_timings", "run_load", "timing_lines"]

# Names that other tools use, beside IOzone's.
ALIASES = {
    "randread": "random-read", "randwrite": "random-write", "randrw": "mixed", "reread": "re-read",
    "reverse": "reverse-read", "stride": "stride-read",
}  # fmt: skip


def run_load(typed: Mapping[str, Any], consents: tuple[Consent, ...]) -> dict[str, Any]:
    """The engine's whole result of the load that the options mean."""
    group = group_of(typed)
    writes = group["workload"]["direction"]["kind"] != "read"
    make_or_check_file(typed["path"], typed["size"], writes and not typed["overwrite"])
    window = (typed["seconds"], typed["ramp"] or 0.0)
    if not writes:
        return run_groups([group], *window)
    group["path"] = writable_path(typed["path"], consents)
    if not (consent := next((each for each in consents if each.covers(typed["path"])), None)):
        return run_groups([group], *window)
    with Control() as control:  # so that what is left on the device counts as ours next time
        group["path"] = control.write_to(consent)
        return run_groups([group], *window)


def group_of(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's description of the load; SpecError for what does not fit together."""
    name = ALIASES.get(typed["test_name"], typed["test_name"])
    if name not in TESTS:
        raise SpecError(f"--test {name}: is not known", nearest(name, TESTS))
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
    if typed["batch"] > 1 and engine != "io_uring":
        raise SpecError(f"--batch would change nothing with {engine}", "add --engine io_uring")
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
        "batch": typed["batch"],
        "iopoll": typed["iopoll"],
        "sqpoll": typed["sqpoll"],
    }


def span_of(path: Path, size: int | None) -> int:
    """Bytes to use: as typed, else all that the file or device has."""
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
    if not (size or have):
        raise SpecError(f"{path}: is empty", "name a new file, and add --size SIZE to make it")
    return size or have


def make_or_check_file(path: Path, size: int | None, keep: bool) -> None:
    """Make the file when it is missing; refuse one that is too small, or to be kept as it is."""
    if path.is_block_device():
        return
    if not path.exists():
        assert size is not None  # span_of refused it otherwise
        scratch.check_space(path.parent, size)
        scratch.fill(path, size)
    elif keep:
        raise SpecError(
            f"{path}: exists, and this test writes to it",
            "add --overwrite, or name a new file with --size",
        )
    elif size and path.stat().st_size < size:
        raise SpecError(f"{path}: has only {path.stat().st_size} bytes", "name a new file")


def timing_lines(device: Path, timings: Mapping[str, Mapping[str, int]], direct: bool) -> list[str]:
    """Both timings of a device in hdparm's form; MB are 2^20 bytes, as there."""
    kind = "O_DIRECT " if direct else ""
    titles = {"cached": f"{kind}cached reads", "device": f"{kind or 'buffered '}disk reads"}
    lines = [f"\n{device}:"]
    for name, title in titles.items():
        seconds = timings[name]["elapsed_ns"] / 1e9
        megabytes = timings[name]["bytes"] / (1 << 20)
        rate, unit = megabytes / seconds, "MB/sec"
        if rate < 1:
            rate, unit = rate * 1024, "kB/sec"
        read = f"{megabytes:.0f} MB in {seconds:5.2f} seconds"
        lines.append(f"{f' Timing {title}:':<31s}{read} = {rate:6.2f} {unit}")
    if not direct and free_pages_reported():
        lines.append(" (free memory goes back to the hypervisor; its page faults can slow this)")
    return lines
