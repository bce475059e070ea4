"""Text of hdparm -tT.

MB are 2^20 bytes; stray lines may lie between.

` Timing buffered disk reads: 604 MB in  3.00 seconds = 201.10 MB/sec`, also with `O_DIRECT` and
`(offset N GB)`. A line `/dev/sdx:` or the command names the disk of
those below it, and a line about the scheduler theirs (context.py). Repeated runs of one disk
in one file are repetitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from schedlab.store.importers.context import ContextSeen
from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.tables import last_digit
from schedlab.store.importers.text import bad, number_at, unquoted_lines

_UNITS = {"MB/sec": float(1 << 20), "kB/sec": 1024.0}
_BYTES = {"MB": float(1 << 20), "kB": 1024.0}
_DISK = re.compile(r"(?:/dev/)?(?P<disk>[^\s:]+):\s*")
# $ sudo hdparm -t --direct /dev/sdx
_COMMAND = re.compile(r"(?:.*[\s#$`])?hdparm\s+(?:-\S+\s+)+/dev/(?P<disk>[^\s`]+)[\s`]*")
_LINE = re.compile(
    r"\s*Timing (?P<what>(?:O_DIRECT )?(?:cached|buffer-cache|buffered disk|disk) reads)"
    r"(?: \(offset (?P<offset>\d+) GB\))?:\s*(?P<size>[\d.]+) (?P<in>[kM]B) in\s*"
    r"(?P<s>[\d.]+) seconds\s*=\s*(?P<rate>[\d.]+) (?P<unit>[kM]B/sec)\s*"
)
# It never reaches the device, so it cannot depend on a scheduler.
CONTROL = "cached reads"


def read(files: Sequence[tuple[str, Path]], options: Options) -> Imported:
    """The import of (candidate, file) pairs; SpecError naming file and line."""
    notes: list[str] = []
    readings = [r for candidate, file in files for r in _readings(candidate, file, notes)]
    options = options.noted(notes)
    if CONTROL not in options.controls and any(r.workload == CONTROL for r in readings):
        options = replace(options, controls=(*options.controls, CONTROL))
    return assemble(readings, options, {"format": "hdparm", "file": str(files[0][1])})


def _readings(candidate: str, file: Path, notes: list[str]) -> Iterator[Reading]:
    any_reading, disk = False, ""
    scheduler = ContextSeen(candidate, notes)
    for place, line in unquoted_lines(file):
        scheduler.line(line)
        if named := _DISK.fullmatch(line) or _COMMAND.fullmatch(line[:4096]):
            disk = named["disk"]
        if not line.lstrip().startswith("Timing "):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise bad(place, "Timing … reads: N MB in S seconds = R MB/sec", line)
        any_reading = True
        what = match["what"].replace("buffer-cache", "cached")  # its name before hdparm 5
        if what != CONTROL:
            scheduler.measured(place)
        rate = number_at(place, "MB/sec", match["rate"]) * _UNITS[match["unit"]]
        step = last_digit(match["rate"]) * _UNITS[match["unit"]]
        seconds = number_at(place, "seconds", match["s"])
        if not (rate > 0 and seconds > 0):
            raise bad(place, "a time and a rate above 0", line)
        _check(place, match, rate, seconds, notes)
        offset = f" at {match['offset']} GB" if match["offset"] else ""
        yield Reading(
            place,
            candidate,
            what + offset,
            {"throughput_bytes_per_s": rate},
            settings={"scheduler": candidate},
            parameters={"test": what},
            properties={"window_s": seconds, "steps": {"throughput_bytes_per_s": step}},
            # Cached reads are of memory, whatever disk they were called for.
            subject="" if what == CONTROL else disk,
        )
    if not any_reading:
        raise bad(str(file), "lines `Timing … reads:` of hdparm -tT", "none")


def _check(place: str, match: re.Match[str], rate: float, seconds: float, notes: list[str]) -> None:
    """Note a rate that its own line contradicts; size and time are rounded to 1 and 0.01."""
    size, unit = number_at(place, "size", match["size"]), _BYTES[match["in"]]
    low, high = (size - 1) * unit / (seconds + 0.01), (size + 1) * unit / max(seconds - 0.01, 1e-3)
    if not low <= rate <= high:
        figures = f"{match['size']} {match['in']} in {match['s']} s"
        derived = f"{size * unit / seconds / _UNITS['MB/sec']:.2f} MB/s"
        notes.append(f"{place}: {figures} are {derived}, not {match['rate']} {match['unit']}")
