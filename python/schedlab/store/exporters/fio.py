"""Our runs as fio's json+ with bins, under the names that fio-plot expects.

One file per candidate and workload: `CANDIDATE/<mode>-<depth>-<jobs>.json`, with the record size
as a folder between when workloads differ in it. Rates are means over the analysed runs; the
latency histogram is that of all of them together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import pstdev
from typing import Any

from schedlab.nouns import Record, Run, Workload
from schedlab.nouns.latency import bin_of
from schedlab.nouns.names import safe_name, safe_names
from schedlab.store.exporters import Parameters
from schedlab.store.files import make_beneath, make_directory, write_atomic

#: Our file tests and kinds that fio has, and its names for them.
MODES = {
    "write": "write",
    "rewrite": "write",
    "read": "read",
    "re-read": "read",
    "random-read": "randread",
    "random-write": "randwrite",
    "mixed": "randrw",
    "random-reads": "randread",
    "readers-together": "read",
}
_STEPS = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)
_QUANTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)


def write(record: Record, parameters: Parameters, out: Path) -> list[Path]:
    """Write every candidate and workload that has throughput, below `out`; the files written."""
    make_directory(out)
    workloads = {w.label: w for w in record.experiment.workloads}
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in record.analysed_runs:
        if "throughput_bytes_per_s" in run.metrics or "iops" in run.metrics:
            groups.setdefault((run.candidate, run.workload), []).append(run)
    folders = safe_names(candidate for candidate, _ in groups)
    written: list[Path] = []
    for (candidate, label), runs in groups.items():
        p = parameters[label, candidate]
        options = _options(workloads[label], p)
        rows = record.histograms.get((label, candidate), ())
        path = make_beneath(out, _folder(folders[candidate], options)) / _file(options)
        if path in written:
            path = path.with_name(f"{path.stem}_{safe_name(label)}_{len(written)}.json")
        text = json.dumps(_document(label, options, _reads(p), runs, rows), indent=1) + "\n"
        write_atomic(path, text, within=out)
        written.append(path)
    return written


def _options(workload: Workload, p: Mapping[str, Any]) -> dict[str, str]:
    """The options of fio that a workload with these parameters has."""
    usual = workload.kind if workload.kind in MODES else workload.label
    mode = str(p.get("rw") or p.get("test") or p.get("pattern") or usual)
    jobs = p.get("numjobs", p.get("workers", p.get("readers", 1)))
    return {
        "rw": MODES.get(mode, safe_name(mode).replace("-", "_")),
        "bs": str(p.get("record_bytes", p.get("bs", ""))),
        "iodepth": str(p.get("iodepth", p.get("depth", 1))),
        "numjobs": str(jobs),
    }


def _reads(p: Mapping[str, Any]) -> float | None:
    """The share of reads of a mixed test: ours has as many reads as writes."""
    text = "50" if p.get("test") == "mixed" else str(p.get("rwmixread", ""))
    return int(text) / 100 if text.isdecimal() else None


def _folder(candidate: str, options: Mapping[str, str]) -> str:
    return f"{candidate}/{safe_name(options['bs'])}" if options["bs"] else candidate


def _file(options: Mapping[str, str]) -> str:
    return f"{options['rw']}-{safe_name(options['iodepth'])}-{safe_name(options['numjobs'])}.json"


def _document(
    label: str,
    options: Mapping[str, str],
    reads: float | None,
    runs: Sequence[Run],
    rows: Sequence[Sequence[int]],
) -> Any:
    """A report with one job; `reads` is the share of reads that was asked for, if known."""

    def mean(name: str) -> float:
        values = [run.metrics[name] for run in runs if name in run.metrics]
        return sum(values) / len(values) if values else 0.0

    elapsed_s = mean("elapsed_s")
    idle = _direction(0.0, 0.0, 0.0, ())
    total = _direction(mean("throughput_bytes_per_s"), mean("iops"), elapsed_s, rows)
    total |= _spread("iops", [run.metrics.get("iops", 0.0) for run in runs])
    kib = [run.metrics.get("throughput_bytes_per_s", 0.0) / 1024 for run in runs]
    total |= _spread("bw", kib, "dev")
    sides = {"read": idle, "write": idle, "trim": idle}
    read, written = mean("read_bytes_per_s"), mean("write_bytes_per_s")
    facts: dict[str, object] = {"runs": len(runs), "rates": "means over the runs"}
    if options["rw"] == "randrw" or (read and written):
        options = {**options, "unified_rw_reporting": "both"}
        share = read / (read + written) if read and written else reads
        if share is not None:
            for way, part in (("read", share), ("write", 1 - share)):
                rate = mean("throughput_bytes_per_s") or read + written
                sides[way] = _direction(rate * part, mean("iops") * part, elapsed_s, ())
        if not (read and written) and share is not None:
            facts["directions"] = f"{share:.0%} are reads, as was asked for"
        if not total["bw_bytes"]:
            total |= _rates(read + written, elapsed_s)
        # Latencies are of both together.
        sides["mixed"] = total
    else:
        sides["write" if "write" in options["rw"] else "read"] = total
    job = {
        "jobname": label,
        "error": 0,
        "elapsed": round(elapsed_s),
        "job options": options,
        **sides,
        "job_runtime": round(elapsed_s * 1e3),
        **_distribution(rows),
        "usr_cpu": 100 * _property(runs, "usr_cpu"),
        "sys_cpu": 100 * _property(runs, "sys_cpu"),
    }
    top = {"fio version": "schedlab", "global options": options, "jobs": [job], "disk_util": []}
    return {**top, "schedlab": facts}


def _property(runs: Sequence[Run], name: str) -> float:
    values = [run.number(name, 0.0) / 100 for run in runs]
    return sum(values) / len(values)


def _direction(
    bytes_per_s: float, iops: float, elapsed_s: float, rows: Sequence[Sequence[int]]
) -> dict[str, object]:
    latency = _latency(rows)
    return {
        **_rates(bytes_per_s, elapsed_s),
        "iops": iops,
        **_spread("iops", [iops] if iops else []),
        **_spread("bw", [bytes_per_s / 1024] if iops else [], "dev"),
        "runtime": round(elapsed_s * 1e3),
        "total_ios": round(iops * elapsed_s),
        "slat_ns": _latency(()),
        "clat_ns": latency,
        "lat_ns": latency,
    }


def _rates(bytes_per_s: float, elapsed_s: float) -> dict[str, int]:
    return {
        "io_bytes": round(bytes_per_s * elapsed_s),
        "io_kbytes": round(bytes_per_s * elapsed_s / 1024),
        "bw_bytes": round(bytes_per_s),
        "bw": round(bytes_per_s / 1024),
    }


def _spread(name: str, values: Sequence[float], deviation: str = "stddev") -> dict[str, float]:
    """fio's figures over its samples; ours are over the runs."""
    return {
        f"{name}_min": min(values, default=0.0),
        f"{name}_max": max(values, default=0.0),
        f"{name}_mean": sum(values) / len(values) if values else 0.0,
        f"{name}_{deviation}": pstdev(values) if values else 0.0,
        f"{name}_samples": len(values),
    }


def _distribution(rows: Sequence[Sequence[int]]) -> dict[str, dict[str, float]]:
    """Shares of the latencies in % below each of fio's limits, by decade of the unit."""
    total = sum(count for _, _, count in rows) or 1
    limits: list[tuple[str, str, float]] = [
        (f"latency_{unit}", str(step), step * factor)
        for unit, factor in (("ns", 1), ("us", 1_000), ("ms", 1_000_000))
        for step in _STEPS
    ]
    limits += [("latency_ms", "2000", 2e9), ("latency_ms", ">=2000", math.inf)]
    shares: dict[str, dict[str, float]] = {}
    for name, step, _limit in limits:
        shares.setdefault(name, {})[step] = 0.0
    for low, high, count in rows:
        name, step, _ = next(each for each in limits if _middle(low, high) < each[2])
        shares[name][step] += 100 * count / total
    return shares


def _latency(rows: Sequence[Sequence[int]]) -> dict[str, object]:
    """fio's latency object from rows low, high, count (same bins as fio's: one to one)."""
    total = sum(count for _, _, count in rows)
    if not total:
        return {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    middles = [(_middle(low, high), count) for low, high, count in rows]
    mean = sum(m * n for m, n in middles) / total
    variance = sum(n * (m - mean) ** 2 for m, n in middles) / total
    return {
        "min": rows[0][0],
        "max": rows[-1][1],
        "mean": mean,
        "stddev": variance**0.5,
        "N": total,
        "percentile": {f"{q:.6f}": _middle(*bin_of(rows, total * q / 100)[:2]) for q in _QUANTILES},
        "bins": {str(m): n for m, n in middles},
    }


def _middle(low: int, high: int) -> int:
    return low if high <= low else low + (high - low + 1) // 2
