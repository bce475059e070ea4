"""A small disk whose services are worked out by hand, and traces of measured responses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# One sector is 512 bytes, a turn is 8 ms, and 8 sectors are a track.
DISK = """
model = "disk"
sector = "512"
rpm = 7500
heads = 2
zones = [{first = 0, last = 3, sectors_per_track = 8, track_skew = 0, cylinder_skew = 0}]
seek = [[1, "1ms"], [3, "3ms"]]
head_switch = "0.5ms"
queue_depth = 4
bus = {sector = "0.1ms"}
overheads = {read_hit = "0.2ms", read_miss = "0.3ms", write_hit = "0.4ms", write_miss = "0.5ms"}
cache = {segments = 1, segment = "2KiB", read_ahead = 0}
"""


def small_disk(folder: Path, more: str = "") -> str:
    """A device file with the disk and with more of its keys."""
    path = folder / "small.toml"
    path.write_text(DISK + more)
    return str(path)


def measured_trace(folder: Path, lines: Sequence[str]) -> str:
    """A trace of DiskSim's form with these lines, as it is typed."""
    path = folder / "t.validate"
    path.write_text("".join(f"{line}\n" for line in lines))
    return f"{path}:disksim-validate"
