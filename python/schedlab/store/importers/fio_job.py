"""fio job files: the subset that our load engine can honour, as its job.

Anything else is an error that names the option and the line, or a note where it cannot change the
result. The sections of a job file run together, as fio runs them without `stonewall`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.store.importers.text import bad, read_lines

_PATTERNS = {
    "read": ("sequential", "read"),
    "write": ("sequential", "write"),
    "rw": ("sequential", "mixed"),
    "readwrite": ("sequential", "mixed"),
    "randread": ("random", "read"),
    "randwrite": ("random", "write"),
    "randrw": ("random", "mixed"),
}
_ENGINES = {
    "psync": "psync",
    "sync": "psync",
    "pread": "psync",
    "io_uring": "io_uring",
    "libaio": "io_uring",
    "mmap": "mmap",
}
_SYNC = {"0": "none", "none": "none", "1": "sync", "sync": "sync", "dsync": "dsync"}
# Options that cannot change the measurement.
_HARMLESS = frozenset(
    {
        "group_reporting", "description", "thread", "write_lat_log", "write_bw_log",
        "write_iops_log", "log_avg_msec", "percentile_list", "clat_percentiles",
        "lat_percentiles", "unlink", "randrepeat",
    }
)  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|us)?", re.IGNORECASE)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


@dataclass
class _Section:
    name: str
    options: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineJob:
    """A job of our load engine, and the ignored options that cannot change the result."""

    job: Mapping[str, Any]
    notes: tuple[str, ...]


def read(path: Path) -> EngineJob:
    """The engine's job; SpecError naming file, line and option that cannot be honoured."""
    shared, sections = _Section("global"), list[_Section]()
    current: _Section | None = None
    for place, raw in read_lines(path):
        line = raw.strip()
        if not line or line[0] in ";#":
            continue
        if line.startswith("["):
            if not line.endswith("]") or len(line) < 3:
                raise bad(place, "[section]", line)
            name = line[1:-1]
            # fio compares the first six letters.
            shares = name.startswith("global")
            current = shared if shares else _Section(name, dict(shared.options))
            if current is not shared:
                sections.append(current)
            continue
        if current is None:
            raise bad(place, "a section such as [global] or [job]", line)
        key, equals, value = (part.strip() for part in line.partition("="))
        if (current, key) != (shared, "name"):  # fio ignores it there
            current.options[key] = (value if equals else "1", place)
    if not sections:
        raise bad(str(path), "at least one job section", "none")
    notes: list[str] = []
    groups, times = [], set()
    for section in sections:
        group, seconds, ramp = _group(path, section, notes)
        groups.append(group)
        times.add((seconds, ramp))
    if len(times) > 1:
        raise SpecError(f"{path}: the jobs have different runtimes", "import one section at a time")
    seconds, ramp = times.pop()
    return EngineJob(
        {"seconds": seconds, "ramp_seconds": ramp, "groups": groups}, tuple(dict.fromkeys(notes))
    )


def _group(path: Path, section: _Section, notes: list[str]) -> tuple[Any, float | None, float]:
    """One section as a group; options that remain afterwards are unsupported."""
    options = dict(section.options)

    def take(name: str, default: str) -> tuple[str, str]:
        return options.pop(name, (default, f"{path}, [{section.name}]"))

    pattern, direction = _choice(take("rw", "read"), _PATTERNS, "rw")
    engine_name = options.get("ioengine", ("psync", ""))[0]
    engine = _choice(take("ioengine", "psync"), _ENGINES, "ioengine")
    if engine_name == "libaio":
        notes.append("ioengine=libaio is carried out by io_uring")
    record, span = _size(take("bs", "4k"), "bs"), _size(take("size", ""), "size")
    mixed = _whole(take("rwmixread", "50"), "rwmixread", 100)
    norandommap = _whole(take("norandommap", "0"), "norandommap", 1)
    rate = _whole(take("rate_iops", "0"), "rate_iops", 10**9)
    process = take("rate_process", "linear")
    depth = _whole(take("iodepth", "1"), "iodepth", 1 << 16)
    if engine != "io_uring" and depth > 1:
        notes.append(f"ioengine={engine_name} has one request at a time: iodepth={depth} is 1")
        depth = 1
    workers = _whole(take("numjobs", "1"), "numjobs", 1 << 10)
    timed = _whole(take("time_based", "0"), "time_based", 1)
    runtime, ramp = (
        _time(take("runtime", "0"), "runtime"),
        _time(take("ramp_time", "0"), "ramp_time"),
    )
    arrivals: dict[str, Any] = {"kind": "closed", "depth": depth}
    if rate:
        kinds = {"linear": "constant", "poisson": "poisson"}
        arrivals = {"kind": _choice(process, kinds, "rate_process"), "rate_per_s": float(rate)}
    kind: dict[str, Any] = {"kind": pattern}
    if pattern == "random":
        kind["replacement"] = bool(norandommap)
    group = {
        "name": take("name", section.name)[0],
        "path": _place(take("filename", ""), take("directory", ""), section.name, workers),
        "workers": workers,
        "engine": engine,
        "direct": bool(_whole(take("direct", "0"), "direct", 1)),
        "sync": _choice(take("sync", "0"), _SYNC, "sync"),
        "fsync_at_end": bool(_whole(take("end_fsync", "0"), "end_fsync", 1)),
        "workload": {
            "pattern": kind,
            "direction": {"kind": direction}
            | ({"read_percent": mixed} if direction == "mixed" else {}),
            "record": record,
            "span": span,
            "arrivals": arrivals,
            "seed": _whole(take("randseed", "1"), "randseed", 2**32 - 1),
        },
    }
    if runtime and not timed:
        # It ends at the time or after the last record, whichever comes first.
        group["at_end"] = "stop"
    notes += _left_over(options)
    if timed and not runtime:
        raise SpecError(f"{path}, [{section.name}]: time_based without runtime", "add runtime=S")
    return group, runtime or None, ramp


def _left_over(options: Mapping[str, tuple[str, str]]) -> list[str]:
    """Notes about options that cannot change the result; SpecError for any other."""
    for name, (_, place) in options.items():
        if name not in _HARMLESS:
            raise SpecError(
                f"{place}: option {name!r} cannot be honoured by the load engine",
                "delete it, or run the file with fio and import its JSON",
            )
    return [f"{name} was passed over: it cannot change the result" for name in options]


def _choice(option: tuple[str, str], known: Mapping[str, Any], name: str) -> Any:
    value, place = option
    if value not in known:
        raise bad(place, f"{name} as one of {', '.join(known)}", value)
    return known[value]


def _size(option: tuple[str, str], name: str) -> int:
    value, place = option
    match = _SIZE.fullmatch(value)
    if match is None or len(value) > 20:
        raise bad(place, f"{name} as a size such as 4k", value or "nothing")
    size = round(float(match[1]) * float(1024) ** " kmgt".index(match[2].lower() or " "))
    if size < 1:
        raise bad(place, f"{name} of at least one byte", value)
    return size


def _time(option: tuple[str, str], name: str) -> float:
    value, place = option
    match = _TIME.fullmatch(value)
    if match is None or len(value) > 20:
        raise bad(place, f"{name} as a time such as 30s", value)
    return float(match[1]) * _SECONDS[(match[2] or "").lower()]


def _whole(option: tuple[str, str], name: str, most: int) -> int:
    value, place = option
    if not (value.isascii() and value.isdigit() and len(value) < 12 and int(value) <= most):
        raise bad(place, f"{name} as a whole number up to {most}", value)
    return int(value)


def _place(filename: tuple[str, str], directory: tuple[str, str], name: str, workers: int) -> str:
    """The file of a section: `filename`, or fio's own name in `directory`, one for each clone."""
    if not filename[0]:
        clone = "{worker}" if workers > 1 else "0"
        return str(Path(directory[0]) / f"{name}.{clone}.0")
    if ":" in filename[0]:
        raise bad(filename[1], "one file", filename[0])
    return str(Path(directory[0]) / filename[0])
