"""Sizes, times and shares as people write them: `64k`, `1.5s`, `2%`; and back as text."""

from __future__ import annotations

import re

from schedlab.errors import SpecError

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIMES = {
    "": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
}
# Units of metrics that are times, and how many are a second.
_LIMITS = {"s": 1.0, "ms": 1e3, "ns": 1e9}


def parse_size(text: str) -> int:
    """Bytes of `64k`, `1G` or `4KiB`, in powers of 1024; SpecError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not match or float(match[1]) <= 0:
        raise SpecError(f"{text!r} is not a size", "write for example 64k, 16M or 1G")
    return round(float(match[1]) * _SIZES[match[2]])


def parse_duration(text: str) -> float:
    """Seconds of `500ms`, `30s`, `10m` or `1h`; a bare number is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not match or match[2] not in _TIMES or float(match[1]) <= 0:
        raise SpecError(f"{text!r} is not a duration", "write for example 500ms, 30s or 10m")
    return float(match[1]) * _TIMES[match[2]]


def parse_time_ns(text: str, bare_unit: str = "s") -> int:
    """Nanoseconds of `30s`, `3000ms`, or a bare number of `bare_unit`; SpecError otherwise."""
    time_ns = round(parse_duration(text.strip() + bare_unit * is_bare(text)) * 1e9)
    if not 0 < time_ns < 2**62:
        raise SpecError(f"time {text!r} is out of range", "choose more than 0 and less than a year")
    return time_ns


def is_bare(text: str) -> bool:
    """Whether it is a number without a unit."""
    return text.strip().replace(".", "", 1).isdigit()


def parse_share(text: str) -> float:
    """The fraction of `2%` or `0.02`, above 0 and below 1."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    fraction = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < fraction < 1:
        raise SpecError(f"{text!r} is not a share", "write for example 2%")
    return fraction


def parse_limit(text: str, unit: str) -> float:
    """A limit above 0 in the unit of its metric: `10ms`, `100M`, `100M/s`, `5%`, or a number; of a
    latency a number alone would be nanoseconds, and is a SpecError.
    """
    text = text.strip()
    if unit in _LIMITS:
        if unit != "s" and is_bare(text):
            raise SpecError(f"{text} has no unit", "write 5ms or 300us")
        return parse_duration(text) * _LIMITS[unit]
    if unit in ("B", "B/s"):
        return float(parse_size(text.removesuffix("/s")))
    if not re.fullmatch(r"\d+(\.\d+)?%?", text) or float(text.rstrip("%")) <= 0:
        what = f" in {unit}" if unit else ""
        raise SpecError(f"{text!r} is no limit{what}", "write a number above 0")
    return float(text.rstrip("%")) / (100 if text.endswith("%") else 1)


def parse_quantity(key: str, value: object) -> object:
    """A value of a file whose key ends in its unit, text turned into a number.

    `size_bytes = "256M"` and `seconds = "1.5s"` are read as people write them; everything else is
    returned as it is.
    """
    if isinstance(value, list) and key.endswith("_bytes"):
        return [parse_quantity(key, item) for item in value]
    if not isinstance(value, str):
        return value
    if key.endswith("_bytes"):
        return parse_size(value)
    if key.endswith("_ms"):
        return parse_duration(value) * 1e3
    if key == "seconds" or key.endswith(("_s", "_seconds")):
        return parse_duration(value)
    return value


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers of `0`, `0,2` or `0-3`; SpecError otherwise."""
    cpus: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not numbers:
            raise SpecError(f"CPU list {text!r} is not understood", "write 0, 0,2 or 0-3")
        cpus += numbers
    return tuple(dict.fromkeys(cpus))


def parse_slices(text: str) -> tuple[float, ...]:
    """Quanta in ms of `1,10,100`; SpecError otherwise."""
    try:
        slices = tuple(float(part.strip().removesuffix("ms")) for part in text.split(","))
    except ValueError:
        slices = ()
    if not slices or any(not 0 < value <= 1e6 for value in slices):
        raise SpecError(f"slices {text!r} are not understood", "write milliseconds: 1,10,100")
    return tuple(dict.fromkeys(slices))


def size_text(size_bytes: float, digits: int = 0) -> str:
    """4096 as `4 KiB`: the largest unit that divides it, or one decimal instead of many figures;
    with `digits` so many significant figures of the largest unit.
    """
    units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")]
    units = [one for one in units if size_bytes >= one[0]] or units[-1:]
    if digits:
        return f"{size_bytes / units[0][0]:.{digits}g} {units[0][1]}"
    size, unit = next(one for one in units if size_bytes % one[0] == 0)
    if size_bytes / size < 10_000_000:
        return f"{size_bytes // size} {unit}"
    return f"{size_bytes / units[0][0]:.1f} {units[0][1]}"


def counted(count: int, noun: str) -> str:
    """`1 process`, `3 processes`: a number with its noun; for text that is English only."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{'' if count == 1 else ending}"


def duration_text(seconds: float) -> str:
    """`45 s`, `12 min`, `2 h 5 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def milliseconds_text(time_ns: float | None) -> str:
    """The milliseconds of `time_ns` with at most three decimals; `-` for a time that is none."""
    return "-" if time_ns is None else f"{time_ns / 1e6:.3f}".rstrip("0").rstrip(".")
