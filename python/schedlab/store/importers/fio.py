"""fio's JSON and json+ output, also with text before the `{` and with old latencies in µs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.text import bad, read_bytes

BYTES_MAX = 64 << 20
_PERCENTILES = {
    "50.000000": "p50",
    "90.000000": "p90",
    "99.000000": "p99",
    "99.900000": "p99_9",
    "99.990000": "p99_99",
}
_DIRECTIONS = ("read", "write")
_SUB_BITS = 6


def read(files: Sequence[tuple[str, Path]], options: Options) -> Imported:
    """The import of (candidate, file) pairs: a workload per job; SpecError naming file and job."""
    numbered = [reading for candidate, file in files for reading in readings(candidate, file)]
    return assemble(numbered, options, {"format": "fio", "file": str(files[0][1])})


def load(file: Path) -> dict[str, Any]:
    """The JSON object of an output, after any text before it."""
    data = read_bytes(file, BYTES_MAX)
    start = data.find(b"{")
    if start < 0:
        raise bad(str(file), "fio's JSON output (--output-format=json or json+)", "no `{`")
    try:
        text = data[start:].decode()
        value, _ = json.JSONDecoder().raw_decode(text)
    except UnicodeDecodeError as error:
        raise bad(f"{file}, byte {start + error.start}", "UTF-8 text", "another byte") from None
    except json.JSONDecodeError as error:
        line = data[:start].count(b"\n") + error.lineno
        raise bad(f"{file}, line {line}", f"JSON ({error.msg})", _around(text, error.pos)) from None
    except (RecursionError, ValueError) as error:
        raise bad(str(file), "JSON of reasonable depth and numbers", str(error)) from None
    if not isinstance(value, dict) or not isinstance(value.get("jobs"), list):
        raise bad(str(file), "an object with a list `jobs`", "none")
    return value


def _around(text: str, at: int) -> str:
    return text[max(0, at - 20) : at + 20]


def readings(candidate: str, file: Path) -> Iterator[Reading]:
    """The jobs of one output, in its order; SpecError naming file and job."""
    seen: dict[str, int] = {}
    for number, job in enumerate(load(file)["jobs"]):
        place = f"{file}, job {number}"
        if not isinstance(job, dict) or not isinstance(job.get("jobname"), str):
            raise bad(place, "an object with a `jobname`", str(job))
        name = job["jobname"]
        if job.get("error"):
            raise bad(f"{place} ({name})", "a job without errors", f"error {job['error']}")
        seen[name] = seen.get(name, 0) + 1
        label = name if seen[name] == 1 else f"{name}#{seen[name]}"
        yield _reading(f"{place} ({name})", candidate, label, job)


def _reading(place: str, candidate: str, label: str, job: Mapping[str, Any]) -> Reading:
    active = {d: job[d] for d in _DIRECTIONS if _number(place, _part(place, job, d), "iops") > 0}
    if not active:
        raise bad(place, "reads or writes", "neither")
    rates = {d: _rate(f"{place}.{d}", part) for d, part in active.items()}
    metrics = {"throughput_bytes_per_s": sum(rates.values())}
    metrics["iops"] = sum(_number(f"{place}.{d}", part, "iops") for d, part in active.items())
    metrics |= {f"{d}_bytes_per_s": rate for d, rate in rates.items()}
    first = next(iter(active))
    metrics |= _latencies(f"{place}.{first}", active[first])
    elapsed_s = max(_number(place, part, "runtime") for part in active.values()) / 1e3
    cpu = [_number(place, job, key, 0.0) for key in ("usr_cpu", "sys_cpu")]
    if elapsed_s > 0:
        metrics["elapsed_s"] = elapsed_s
    bins = {f"{d}_latency_ns": rows for d, p in active.items() if (rows := _bins(place, p))}
    histograms = {"latency_ns": bins[f"{first}_latency_ns"]} if bins else {}
    options = job.get("job options")
    parameters = {str(k): str(v) for k, v in options.items()} if isinstance(options, dict) else {}
    return Reading(
        place,
        candidate,
        label,
        metrics,
        settings={"scheduler": candidate},
        parameters=parameters,
        properties={"cpu_share": sum(cpu) / 100, "usr_cpu": cpu[0], "sys_cpu": cpu[1]},
        histograms={**histograms, **bins} if len(bins) > 1 else histograms,
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
    if not (key.isascii() and key.isdigit() and len(key) < 20) or type(count) is not int:
        raise bad(place, "nanoseconds and a count", f"{key}: {count}")
    middle = int(key)
    shift = middle.bit_length() - 1 - _SUB_BITS
    low = middle if shift < 1 else middle >> shift << shift
    return [low, low if shift < 1 else low + (1 << shift) - 1, count]
