"""fio's JSON and json+ output: its reports between any other text, their jobs and figures.

The one reader of it: for `compare --fio` and for `import fio`. Old reports (before fio 3) have
latencies in µs and rates in KiB/s.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.nouns import latency
from schedlab.store.importers.text import bad

DIRECTIONS = ("read", "write", "trim")
#: All directions together: instead of them with `unified_rw_reporting=mixed`, else beside them.
MIXED = "mixed"
#: Calls of fsync, fdatasync and sync_file_range: they have latencies only.
SYNC = "sync"
_PERCENTILES = {name: f"{100 * q:.6f}" for name, q in latency.QUANTILES.items()}
_SUB_BITS = 6
#: Each error takes the time of the whole text: it has the number of the line.
_BROKEN_MAX = 1000
_OBJECT = re.compile(r'\{\s*["}]')
# Keys that only a report has.
_REPORT = re.compile(r'"(?:fio version|jobs|client_stats)"\s*:')
# A report that is itself a text of JSON.
_AS_TEXT = re.compile(r'\\"fio version\\"\s*:')

Part = Mapping[str, Any]


def reports(place: str, text: str) -> list[dict[str, object]]:
    """The reports of an output, each a JSON object with a list `jobs`: alone, in an array, in other
    objects, behind other text on their line; SpecError for one that cannot be read, and for none.
    """
    found: list[dict[str, object]] = []
    spans: list[tuple[int, int]] = []
    errors: list[tuple[int, json.JSONDecodeError]] = []
    decoder, at = json.JSONDecoder(), 0
    while start := _OBJECT.search(text, at):
        at = start.start() + 1
        try:
            value, end = decoder.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            errors.append((start.start(), error))
            if len(errors) > _BROKEN_MAX:
                expected = "fio's JSON among less other text in braces"
                raise bad(f"{place}, line {error.lineno}", expected, error.msg) from None
            continue
        except (RecursionError, ValueError) as error:
            raise bad(place, "JSON of reasonable depth and numbers", str(error)) from None
        if isinstance(value.get("jobs"), list):
            found.append(value)
            spans.append((start.start(), end))
            at = end
        elif not _REPORT.search(text, start.start(), end):
            at = end
    _check_unread(place, text, spans, errors)
    if not found:
        raise bad(place, "fio's JSON output (--output-format=json or json+)", "none")
    return found


def _check_unread(
    place: str,
    text: str,
    spans: Sequence[tuple[int, int]],
    errors: Sequence[tuple[int, json.JSONDecodeError]],
) -> None:
    """SpecError for what looks like a report outside of those that were read."""
    for begin, end in zip([0, *(e for _, e in spans)], [*(s for s, _ in spans), len(text)],
                          strict=True):  # fmt: skip
        if _AS_TEXT.search(text, begin, end):
            hint = "write that text alone into a file: jq -r .KEY FILE > NEW"
            raise bad(place, "fio's JSON", "a report inside of a text of JSON", hint)
        unread = _REPORT.search(text, begin, end)
        if unread is None:
            continue
        if text.find('"client_stats"', begin, end) >= 0:
            hint = "import the JSON that fio writes where it runs without --client"
            raise bad(place, "a list `jobs`", "the output of fio --client (client_stats)", hint)
        broken = [e for at, e in errors if begin <= at < unread.start()]
        if not broken:
            line_at = text.rfind("\n", 0, unread.start()) + 1
            before = text[line_at : unread.start()].rstrip(" \t{")
            hint = f"remove what is before each line: cut -c{len(before) + 1}- FILE > NEW"
            found = text[line_at if before else unread.start() :][:40]
            raise bad(place, "an object with a list `jobs`", found, hint if before else "")
        error = broken[-1]
        shown = text[max(0, error.pos - 20) :][:40]
        raise bad(f"{place}, line {error.lineno}", f"JSON ({error.msg})", shown)


@dataclass(frozen=True)
class Figures:
    """Figures of one direction of a job: `bw_bytes` (B/s), `iops`, `lat_ns_mean`, `lat_ns_p99` and
    so on; those of `least` are lower bounds; `rows` are the bins (low, high, count) of latencies.
    """

    values: Mapping[str, float]
    least: tuple[str, ...] = ()
    rows: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class ReportedJob:
    """The processes of a job that ran together, and what they were started with."""

    place: str
    name: str
    parts: tuple[Part, ...]
    options: Mapping[str, str]

    def directions(self) -> dict[str, Figures]:
        """The figures of each direction that moved data, and of `sync` where fio timed it."""
        figures: dict[str, Figures] = {}
        for direction in (*DIRECTIONS, MIXED, SYNC):
            place = f"{self.place}.{direction}"
            sides = [p[direction] for p in self.parts if isinstance(p.get(direction), dict)]
            if direction == SYNC:
                timed = [side for side in sides if side.get("lat_ns", {}).get("N")]
                values, least, rows = _latencies(place, timed)
                if values:
                    figures[SYNC] = Figures(values, least, rows)
            elif active := [side for side in sides if is_active(place, side)]:
                values, least, rows = _latencies(place, active)
                rates = {
                    "bw_bytes": math.fsum(_rate(place, side) for side in active),
                    "iops": math.fsum(number(place, side, "iops") for side in active),
                }
                figures[direction] = Figures(rates | values, least, rows)
        return figures

    def largest(self, key: str) -> float:
        """The largest figure of any process and direction."""
        return max(number(self.place, side, key, 0.0) for side in self._sides())

    def loses_percentiles(self) -> bool:
        """Whether several processes have percentiles, which say nothing of all, and no bins."""
        blocks = [side.get("lat_ns", {}) for side in self._sides() if side.get("total_ios")]
        return len(self.parts) > 1 and any("percentile" in b and "bins" not in b for b in blocks)

    def _sides(self) -> Iterator[Part]:
        for part in self.parts:
            yield from (part[d] for d in (*DIRECTIONS, MIXED) if isinstance(part.get(d), dict))


def jobs(place: str, report: Mapping[str, Any]) -> list[ReportedJob]:
    """The jobs of a report in its order: processes of one name, options and group are one job.

    SpecError for a job without a name, and for one that failed.
    """
    common = _texts(report.get("global options"))
    groups: dict[Any, ReportedJob] = {}
    for number_, part in enumerate(report["jobs"]):
        where = f"{place}, job {number_}"
        if not isinstance(part, dict) or not isinstance(part.get("jobname"), str):
            raise bad(where, "an object with a `jobname`", str(part))
        name = part["jobname"]
        where = f"{where} ({name})"
        if part.get("error"):
            raise bad(where, "a job without errors", f"error {part['error']}")
        options = common | _texts(part.get("job options"))
        key = (name, str(part.get("groupid")), *sorted(options.items()))
        parts = groups[key].parts if key in groups else ()
        where = groups[key].place if key in groups else where
        groups[key] = ReportedJob(where, name, (*parts, part), options)
    return list(groups.values())


def measured(
    place: str, report: Mapping[str, Any], *, needs_io: bool = True
) -> list[tuple[ReportedJob, dict[str, Figures]]]:
    """The jobs of a report with their figures, which are empty for one that did no I/O.

    SpecError for a job that failed, and where none of them did I/O though one has to.
    """
    all_ = [(job, job.directions()) for job in jobs(place, report)]
    # A call of fsync is none that moves data, but it is measured.
    found = [
        (job, figures if SYNC in figures or any(f.values["iops"] for f in figures.values()) else {})
        for job, figures in all_
    ]
    if needs_io and not any(figures for _, figures in found):
        raise bad(place, "a job with reads, writes or trims", ", ".join(j.name for j, _ in found))
    return found


def numbered(keys: Sequence[Sequence[str]]) -> list[str]:
    """A label for each key, its first word: `one`, and `one#2` for the second time of a key."""
    labels: list[str] = []
    times: Counter[tuple[str, ...]] = Counter()
    for key in map(tuple, keys):
        times[key] += 1
        labels.append(key[0] if times[key] == 1 else f"{key[0]}#{times[key]}")
    return labels


def moved_bytes(report: Mapping[str, Any]) -> float:
    """The bytes that a report says were read and written."""
    ways = [("read", "write") if "read" in job else (MIXED,) for job in report["jobs"]]
    pairs = zip(report["jobs"], ways, strict=True)
    return float(sum(job.get(way, {}).get("io_bytes", 0) for job, both in pairs for way in both))


def is_active(place: str, side: Part) -> bool:
    """Whether data was moved in a direction."""
    return bool(number(place, side, "total_ios", 0.0) or number(place, side, "iops", 0.0))


def number(place: str, part: Part, key: str, default: float | None = None) -> float:
    """A finite figure from 0; SpecError with the place."""
    value = part.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        raise bad(place, f"a number `{key}`", str(value)[:40])
    if not math.isfinite(value) or value < 0:
        raise bad(place, f"a number `{key}` from 0", str(value))
    return float(value)


def _texts(options: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in options.items()} if isinstance(options, dict) else {}


def _rate(place: str, part: Part) -> float:
    """Bytes per second; before fio 3 there is only `bw` in KiB/s."""
    return number(place, part, "bw_bytes") if "bw_bytes" in part \
        else number(place, part, "bw") * 1024  # fmt: skip


def _latencies(
    place: str, sides: Sequence[Part]
) -> tuple[dict[str, float], tuple[str, ...], list[list[int]]]:
    """(mean, maximum and quantiles in ns, which of them are lower bounds, the bins) of processes.

    Total latency where fio has it, else that of the completion. A quantile is that of the bins,
    and a bound where too few requests support it; of a process without bins what fio says.
    """
    values: dict[str, float] = {}
    least: list[str] = []
    rows: list[list[int]] = []
    named: list[list[int]] = []  # the same bins as the values that fio calls them by
    for name in ("lat", "clat"):
        for key, factor in ((f"{name}_ns", 1.0), (name, 1e3)):
            blocks = [side[key] for side in sides if isinstance(side.get(key), dict)]
            where = f"{place}.{key}"
            counts = [number(where, b, "N", 1.0 if b.get("max") else 0.0) for b in blocks]
            if total := sum(counts):
                means = (n * number(where, b, "mean") for b, n in zip(blocks, counts, strict=True)
                         if n)  # fmt: skip
                values.setdefault("lat_ns_mean", math.fsum(means) / total * factor)
                top = max(number(where, b, "max", 0.0) for b in blocks)
                values.setdefault("lat_ns_max", top * factor)
            binned = [b["bins"] for b in blocks if isinstance(b.get("bins"), dict) and b["bins"]]
            if len(binned) == len(sides) and sides and not rows:
                each = [_bin(f"{where}.bins", *item) for bins in binned for item in bins.items()]
                named = latency.merge([[[middle, middle, n] for middle, n in each]])
                rows = latency.merge([[[*_limits(middle), n] for middle, n in each]])
            elif len(sides) == 1 and blocks and not rows:
                texts = blocks[0].get("percentile")
                for word, text in _PERCENTILES.items():
                    if isinstance(texts, dict) and text in texts:
                        value = number(f"{where}.percentile", texts, text) * factor
                        values.setdefault(f"lat_ns_{word}", value)
    if rows:
        for word, q in latency.QUANTILES.items():
            exact = latency.quantile(named, q)
            if exact is None:
                least.append(f"lat_ns_{word}")
            values[f"lat_ns_{word}"] = exact or latency.bound(named, q) or 0.0
    return {key: value for key, value in values.items() if value > 0}, tuple(least), rows


def _bin(place: str, key: str, count: Any) -> tuple[int, int]:
    """A bin of json+, called by its middle, and its count."""
    whole = key.isascii() and key.isdigit() and len(key) < 20 and type(count) is int
    if not whole or not 0 <= count < 1 << 63:
        raise bad(place, "nanoseconds and a count", f"{key}: {count}")
    return int(key), count


def _limits(middle: int) -> tuple[int, int]:
    """The least and the largest value of a bin."""
    shift = middle.bit_length() - 1 - _SUB_BITS
    low = middle if shift < 1 else middle >> shift << shift
    return low, low if shift < 1 else low + (1 << shift) - 1
