"""fio's JSON and json+ output, also with text around it and with old latencies in µs.

A file may hold several reports: those of separate runs are repetitions; those that
`--status-interval` prints on the way are replaced by the last one, which has all of their I/O.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedlab.spec.latency import merge
from schedlab.spec.reading import read_bytes
from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.text import WHOLE_HINT, bad, decoded

BYTES_MAX = 64 << 20
_PERCENTILES = {
    "50.000000": "p50",
    "90.000000": "p90",
    "99.000000": "p99",
    "99.900000": "p99_9",
    "99.990000": "p99_99",
}
_DIRECTIONS = ("read", "write")
# The directions together, which fio writes instead of each with `unified_rw_reporting`.
_MIXED = "mixed"
_SUB_BITS = 6
_SUBJECT = ("filename", "directory")
# Options that do not change the load: names, places, what is printed, the seed.
_NOT_LOAD = re.compile(
    r"name|description|filename|directory|filename_format|ioscheduler|randseed|group_reporting"
    r"|(write_)?\w*_log|log_\w+|\w*percentiles?(_list)?|status_interval|eta\w*|minimal|output\w*"
)


def read(files: Sequence[tuple[str, Path]], options: Options) -> Imported:
    """The import of (candidate, file) pairs: a workload per job; SpecError naming file and job."""
    notes: list[str] = []
    numbered = [each for candidate, file in files for each in readings(candidate, file, notes)]
    options = replace(options, notes=(*options.notes, *dict.fromkeys(notes)))
    return assemble(numbered, options, {"format": "fio", "file": str(files[0][1])})


def load(file: Path) -> list[dict[str, Any]]:
    """The reports of an output, each a JSON object with a list `jobs`, between any other text."""
    text = decoded(str(file), read_bytes(file, WHOLE_HINT, BYTES_MAX))
    start = text.find("{")
    if start < 0:
        raise bad(str(file), "fio's JSON output (--output-format=json or json+)", "no `{`")
    reports = []
    while start >= 0:
        report, end = _object(file, text, start)
        reports.append(report)
        # fio begins a report on a line of its own; other braces belong to what others print.
        following = text.find("\n{", end - 1)
        start = -1 if following < 0 else following + 1
    return reports


def _object(file: Path, text: str, start: int) -> tuple[dict[str, Any], int]:
    """The report that begins at `start`, and where it ends."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError as error:
        place = f"{file}, line {error.lineno}"
        raise bad(place, f"JSON ({error.msg})", text[max(0, error.pos - 20) :][:40]) from None
    except (RecursionError, ValueError) as error:
        raise bad(str(file), "JSON of reasonable depth and numbers", str(error)) from None
    if isinstance(value, dict) and "client_stats" in value:
        hint = "import the JSON that fio writes where it runs without --client"
        raise bad(str(file), "a list `jobs`", "the output of fio --client (client_stats)", hint)
    if not isinstance(value, dict) or not isinstance(value.get("jobs"), list):
        raise bad(str(file), "an object with a list `jobs`", "none")
    return value, end


def readings(candidate: str, file: Path, notes: list[str]) -> Iterator[Reading]:
    """The jobs of one output, in its order; SpecError naming file and job."""
    reports = load(file)
    last = [
        report
        for report, following in zip(reports, [*reports[1:], None], strict=True)
        if following is None or not _continues(report, following)
    ]
    if interim := len(reports) - len(last):
        notes.append(f"{file}: {interim} interim reports (--status-interval) were skipped")
    for number, report in enumerate(last, 1):
        which = f", report {number}" if len(last) > 1 else ""
        yield from _jobs(candidate, f"{file}{which}", report, notes)


def _continues(report: Mapping[str, Any], following: Mapping[str, Any]) -> bool:
    """Whether `following` is a later report of the same run: it has all I/O of `report`, and its
    process and its jobs had started when that was printed.
    """
    jobs, later = ([j for j in r["jobs"] if isinstance(j, dict)] for r in (report, following))
    if [j.get("jobname") for j in jobs] != [j.get("jobname") for j in later]:
        return False

    def figure(part: Any, name: str) -> float:
        value = part.get(name) if isinstance(part, dict) else None
        return float(value) if isinstance(value, int) and 0 <= value < 1 << 63 else 0.0

    def fell(before: Any, after: Any) -> bool:
        names = ("total_ios", "io_bytes", "io_kbytes", "runtime")
        return any(
            figure(after.get(d), name) < figure(before.get(d), name)
            for d in (*_DIRECTIONS, _MIXED)
            for name in names
        )

    if any(fell(before, after) for before, after in zip(jobs, later, strict=True)):
        return False

    def printed_s(r: Mapping[str, Any]) -> float:
        return figure(r, "timestamp_ms") / 1e3 or figure(r, "timestamp")

    def elapsed_s(each: Sequence[Any]) -> float:
        return max((figure(j, "elapsed") for j in each), default=0.0)

    run_s = max((figure(j, "job_runtime") for j in later), default=0.0) / 1e3
    between_s = printed_s(following) - printed_s(report)
    # `elapsed` is in whole seconds, rounded up.
    same_start = abs(between_s - (elapsed_s(later) - elapsed_s(jobs))) < 2
    return same_start and (not run_s or run_s > between_s)


def _jobs(
    candidate: str, place: str, report: Mapping[str, Any], notes: list[str]
) -> Iterator[Reading]:
    common = report.get("global options")
    seen: dict[Any, int] = {}
    for number, job in enumerate(report["jobs"]):
        where = f"{place}, job {number}"
        if not isinstance(job, dict) or not isinstance(job.get("jobname"), str):
            raise bad(where, "an object with a `jobname`", str(job))
        name = job["jobname"]
        where = f"{where} ({name})"
        if job.get("error"):
            raise bad(where, "a job without errors", f"error {job['error']}")
        parameters = {**_texts(common), **_texts(job.get("job options"))}
        options = {k: v for k, v in parameters.items() if not _NOT_LOAD.fullmatch(k)}
        scheduler = parameters.get("ioscheduler")
        if scheduler and scheduler not in candidate.split():
            notes.append(f"{place}: the file says ioscheduler={scheduler}, the label {candidate}")
        key = (name, *sorted(options.items()))
        seen[key] = seen.get(key, 0) + 1
        reading = _reading(where, candidate, job)
        yield replace(
            reading,
            workload=name if seen[key] == 1 else f"{name}#{seen[key]}",
            parameters=parameters,
            options=options,
            subject=next((parameters[k] for k in _SUBJECT if parameters.get(k)), ""),
        )


def _texts(options: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in options.items()} if isinstance(options, dict) else {}


def _reading(place: str, candidate: str, job: Mapping[str, Any]) -> Reading:
    ways = (_MIXED,) if _MIXED in job and "read" not in job else _DIRECTIONS
    active = {d: job[d] for d in ways if _number(place, _part(place, job, d), "iops") > 0}
    if not active:
        raise bad(place, "reads or writes", "neither")
    rates = {d: _rate(f"{place}.{d}", part) for d, part in active.items()}
    metrics = {"throughput_bytes_per_s": sum(rates.values())}
    metrics["iops"] = sum(_number(f"{place}.{d}", part, "iops") for d, part in active.items())
    metrics |= {f"{d}_bytes_per_s": rate for d, rate in rates.items() if d != _MIXED}
    for d, part in active.items():
        # The latency of one direction is not that of all.
        prefix = "" if len(active) == 1 else f"{d}_"
        latencies = _latencies(f"{place}.{d}", part)
        metrics |= {f"{prefix}{name}": value for name, value in latencies.items()}
    if isinstance(synced := job.get("sync"), dict):
        fsync = _latencies(f"{place}.sync", synced)
        metrics |= {f"fsync_{name}": value for name, value in fsync.items()}
    elapsed_s = max(_number(place, part, "runtime") for part in active.values()) / 1e3
    cpu = [_number(place, job, key, 0.0) for key in ("usr_cpu", "sys_cpu")]
    if elapsed_s > 0:
        metrics["elapsed_s"] = elapsed_s
    bins = {f"{d}_latency_ns": rows for d, p in active.items() if (rows := _bins(place, p))}
    histograms = {"latency_ns": merge(bins.values())} if len(bins) == len(active) else {}
    return Reading(
        place,
        candidate,
        "",
        metrics,
        settings={"scheduler": candidate},
        properties={"cpu_share": sum(cpu) / 100, "usr_cpu": cpu[0], "sys_cpu": cpu[1]},
        histograms={**histograms, **bins} if len(active) > 1 else histograms,
    )


def _part(place: str, job: Mapping[str, Any], direction: str) -> Mapping[str, Any]:
    part = job.get(direction)
    if not isinstance(part, dict):
        raise bad(place, f"an object `{direction}`", str(part))
    return part


def _number(place: str, part: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = part.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        raise bad(place, f"a number `{key}`", str(value)[:40])
    if not math.isfinite(value) or value < 0:
        raise bad(place, f"a number `{key}` from 0", str(value))
    return float(value)


def _rate(place: str, part: Mapping[str, Any]) -> float:
    """Bytes per second; before fio 3 there is only `bw` in KiB/s."""
    if "bw_bytes" in part:
        return _number(place, part, "bw_bytes")
    return _number(place, part, "bw") * 1024


def _latencies(place: str, part: Mapping[str, Any]) -> dict[str, float]:
    """Latency metrics in ns: `lat` where fio has it, percentiles from the block that has them."""
    metrics: dict[str, float] = {}
    for name in ("lat", "clat"):
        for key, factor in ((f"{name}_ns", 1.0), (name, 1e3)):
            block = part.get(key)
            if not isinstance(block, dict) or not block.get("N", block.get("max", 0)):
                continue
            for what in ("mean", "max"):
                value = _number(f"{place}.{key}", block, what) * factor
                metrics.setdefault(f"latency_ns_{what}", value)
            percentiles = block.get("percentile")
            for text, ours in _PERCENTILES.items():
                if isinstance(percentiles, dict) and text in percentiles:
                    value = _number(f"{place}.{key}.percentile", percentiles, text) * factor
                    metrics.setdefault(f"latency_ns_{ours}", value)
    return {key: value for key, value in metrics.items() if value > 0}


def _bins(place: str, part: Mapping[str, Any]) -> list[list[int]]:
    """json+ bins as rows low, high, count; fio names a bin by the middle of it."""
    for key in ("lat_ns", "clat_ns"):
        block = part.get(key)
        bins = block.get("bins") if isinstance(block, dict) else None
        if isinstance(bins, dict) and bins:
            return [_bin(f"{place}.{key}.bins", k, n) for k, n in bins.items()]
    return []


def _bin(place: str, key: str, count: Any) -> list[int]:
    whole = key.isascii() and key.isdigit() and len(key) < 20 and type(count) is int
    if not whole or not 0 <= count < 1 << 63:
        raise bad(place, "nanoseconds and a count", f"{key}: {count}")
    middle = int(key)
    shift = middle.bit_length() - 1 - _SUB_BITS
    low = middle if shift < 1 else middle >> shift << shift
    return [low, low if shift < 1 else low + (1 << shift) - 1, count]
