"""Metrics that a command prints: how they are written, and units with their prefixes.

NAME[:UNIT][:higher|lower]=SOURCE[!TAKE]
SOURCE := (stdout|stderr|file:PATH)~REGEX | (stdout|file:PATH)@JSONPATH
TAKE   := last (default) | first | only | sum | mean | min | max

Of a live load SOURCE may also be http://ADDRESS, a text page of this machine such as Prometheus
reads, and TAKE may be rate: how much a counter grows per second of a period; or p50, p90, p99,
p99_9 of the histogram there whose name REGEX is, over a period.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from schedlab.errors import SpecError
from schedlab.nouns.latency import QUANTILES
from schedlab.nouns.metrics import Metric

TAKES = ("last", "first", "only", "sum", "mean", "min", "max")
RATE, PAGE = "rate", "http"
_OF_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
# What every command is measured by, under the names that people type.
BUILT_IN = {
    "elapsed": "elapsed_s",
    "elapsed-synced": "elapsed_synced_s",
    "cpu": "cpu_s",
    "rss": "rss_bytes",
}
_HINT = "write NAME:UNIT=stdout~REGEX, e.g. 'tps:1/s=stdout~^tps = ([0-9.]+)'"
_SPEC = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_.-]*)(?::(?P<unit>[^:=]*?))?(?::(?P<direction>higher|lower))?"
    r"=(?P<from>stdout|stderr|file:[^~@]+|http://[^~@]+)(?P<method>[~@])(?P<pattern>.+)",
    re.DOTALL,
)
_TAKE = re.compile(rf"!({'|'.join((*TAKES, RATE, *QUANTILES))})\Z")
_DECIMAL = {"": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3,
            "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}  # fmt: skip
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SYNONYMS = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "min", "nsec": "ns",
             "usec": "us", "msec": "ms", "ops/s": "1/s", "op/s": "1/s", "/s": "1/s", "bytes": "B",
             "byte": "B", "iops": "1/s"}  # fmt: skip
_LOWER_IS_BETTER = ("s", "J")
_HIGHER_IS_BETTER = ("1/s", "B/s", "bit/s")


@dataclass(frozen=True)
class OutputMetric:
    """Where a number is in the output of a command; `path` is of a file or a page, else empty."""

    name: str
    unit: str
    higher_is_better: bool
    source: str
    path: str
    is_json: bool
    pattern: str
    take: str

    def metric(self) -> Metric:
        """The metric that it is."""
        return Metric(self.name, self.unit, self.higher_is_better, self.name)


def parse_output_metric(text: str, of_live_load: bool = False) -> OutputMetric:
    """The metric of a specification; SpecError naming an error in it."""
    body, take = text, "last"
    if source := _TAKE.search(text):
        body, take = text[: source.start()], source[1]
    match = _SPEC.fullmatch(body)
    if match is None:
        raise SpecError(f"metric {text!r} is not understood", _HINT)
    unit = match["unit"] or ""
    if unit in ("higher", "lower") and not match["direction"]:
        direction, unit = unit, ""
    else:
        direction = match["direction"] or direction_of(unit)
    if not direction:
        raise SpecError(
            f"metric {match['name']}: {f'unit {unit!r}' if unit else 'it'} does not define whether "
            "higher or lower is better",
            f"write {match['name']}:{unit + ':' if unit else ''}higher=… or :lower=…",
        )
    where, _, path = match["from"].partition(":")
    if where == PAGE:
        path = match["from"]
        if urlsplit(path).hostname not in _OF_THIS_MACHINE:
            raise SpecError(
                f"metric {match['name']}: {path} is not a page of this machine",
                "http://localhost:9187/metrics",
            )
    if not of_live_load and (where == PAGE or take not in TAKES):
        what = "a page" if take in TAKES else f"!{take}"
        raise SpecError(f"metric {match['name']}: {what} is of a live load", "schedlab live …")
    is_json = match["method"] == "@"
    if is_json and where == "stderr":
        raise SpecError(f"metric {match['name']}: JSON is read from stdout or a file", _HINT)
    return OutputMetric(
        match["name"], unit, direction == "higher", where, path, is_json, match["pattern"], take
    )


def direction_of(unit: str) -> str:
    """`higher` or `lower` where the unit implies it, else nothing."""
    base = dimension(unit)
    if base is None:
        return ""
    if base[0] in _LOWER_IS_BETTER:
        return "lower"
    return "higher" if base[0] in _HIGHER_IS_BETTER else ""


def dimension(unit: str) -> tuple[str, float] | None:
    """(base unit, factor): `ms` is ("s", 0.001), `KiB/s` is ("B/s", 1024.0); None if unknown."""
    word = _SYNONYMS.get(unit.strip(), unit.strip())
    if word == "min":
        return "s", 60.0
    if word == "1/s":
        return "1/s", 1.0
    match = re.fullmatch(r"([nuµmkKMGT]|[KMGT]i)?(s|B|J|b|bit)(/s|ps)?", word)
    if match is None:
        return None
    prefix, base, per = match[1] or "", match[2], "/s" if match[3] else ""
    if base == "s" and per:
        return None
    factor = _BINARY.get(prefix) or _DECIMAL[prefix]
    return f"{'bit' if base == 'b' else base}{per}", factor


def converted(value: float, unit: str, wanted: str) -> float | None:
    """`value` in `unit` as a number of `wanted`; None when they do not fit together."""
    if unit == wanted:
        return value
    source, target = dimension(unit), dimension(wanted)
    if source is None or target is None or source[0] != target[0]:
        return None
    return value * source[1] / target[1]
