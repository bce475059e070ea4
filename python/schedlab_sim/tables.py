"""Results of simulations as tables that fit 80 columns and as JSON documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from schedlab.nouns import SCHEMA_VERSION, to_json
from schedlab.nouns.names import is_policy_file
from schedlab_sim.judge import verdict_of
from schedlab_sim.policy_file import policy_sha256

if TYPE_CHECKING:
    from schedlab_sim.results import DiskReport, HostReport, SimResult
    from schedlab_sim.simulation import Simulation

SSD_COLUMNS = {
    "mean_read_ms": "mean read ms",
    "mean_write_ms": "mean write ms",
    "p99_read_ms": "p99 read ms",
    "max_read_ms": "max read ms",
    "max_write_ms": "max write ms",
    "iops": "IOPS",
    "utilisation": "busy",
}
DISK_COLUMNS: dict[str, tuple[str, Callable[[DiskReport], float | None]]] = {
    "IOPS": (".1f", lambda run: run["iops"]),
    "mean ms": (".2f", lambda run: run["latency_ns_mean"] / 1e6),
    "p99 ms": (".1f", lambda run: run["latency_ns_p99"] and run["latency_ns_p99"] / 1e6),
    "max ms": (".1f", lambda run: run["latency_ns_max"] / 1e6),
    "seek ms": (".2f", lambda run: run["seek_ns_mean"] / 1e6),
    "rotation ms": (".2f", lambda run: run["rotation_ns_mean"] / 1e6),
    "busy": (".1%", lambda run: run["utilisation"]),
    "hits": (".1%", lambda run: run["hit_ratio"]),
}


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    ]


def ssd_table(labels: Sequence[str], results: Sequence[SimResult]) -> list[str]:
    """Two columns per policy: its means over the seeds, and their ratio to the first's."""
    by_policy: dict[str, list[Mapping[str, float]]] = {}
    for label, result in zip(labels, results, strict=True):
        by_policy.setdefault(label, []).append(result.metrics)
    means = {
        policy: {name: math.fsum(m[name] for m in runs) / len(runs) for name in SSD_COLUMNS}
        for policy, runs in by_policy.items()
    }
    first = next(iter(means.values()))
    lines: list[str] = []
    for shown in _side_by_side(means):
        head = ["", *(cell for label in shown for cell in (label, "ratio"))]
        rows = [head]
        for metric, title in SSD_COLUMNS.items():
            row = [title]
            for label in shown:
                value, base = means[label][metric], first[metric]
                ratio = f"{value / base:.2f}" if base and not math.isnan(value / base) else "-"
                row += ["-" if math.isnan(value) else f"{value:,.3f}", ratio]
            rows.append(row)
        lines += aligned(rows)
    return lines


def _side_by_side(labels: Iterable[str]) -> list[list[str]]:
    """The labels in groups whose columns fit 80, three of usual length or fewer of long ones."""
    groups: list[list[str]] = []
    room = 0
    for label in labels:
        width = max(12, len(label)) + 9  # with the ratio and the spaces
        if width > room:
            groups.append([])
            room = 80 - max(map(len, SSD_COLUMNS.values()))
        groups[-1].append(label)
        room -= width
    return groups


def ssd_document(
    simulations: Sequence[Simulation], results: Sequence[SimResult], name: str
) -> dict[str, object]:
    """The document of `sim run --json`."""
    first = simulations[0]
    runs = [
        {
            "policy": one.policy,
            "seed": one.seed,
            **one.policy_set,
            **to_json(result.metrics),
            "steady": verdict_of(result.report["steady"]),
            "stationarity": result.report["steady"],
            **({"policy_sha256": policy_sha256(one.policy)} if is_policy_file(one.policy) else {}),
        }
        for one, result in zip(simulations, results, strict=True)
    ]
    document = {
        "schema": SCHEMA_VERSION,
        "device": first.device,
        "set": dict(first.device_set),
        "workload": name,
        "service": results[0]["service"],
        "runs": runs,
    }
    if trace := results[0].report.get("trace"):
        document["trace"] = trace
    return document


def disk_table(runs: Sequence[DiskReport], seeds: int) -> list[str]:
    """A line per policy: means over the seeds, and IOPS as a ratio to the first policy's."""
    rows = [["policy", *DISK_COLUMNS, "ratio"]]
    first = 0.0
    for start in range(0, len(runs), seeds):
        same = runs[start : start + seeds]
        iops = math.fsum(run["iops"] for run in same) / seeds
        first = first or iops
        cells = [_mean(same, form, value) for form, value in DISK_COLUMNS.values()]
        rows.append([same[0]["policy"], *cells, f"{iops / first:.2f}"])
    return aligned(rows)


def _mean(
    runs: Sequence[DiskReport], form: str, value: Callable[[DiskReport], float | None]
) -> str:
    """The mean of a figure; `-` where a run has too few requests for it."""
    values = [value(run) for run in runs]
    known = [number for number in values if number is not None]
    return format(math.fsum(known) / len(known), form) if len(known) == len(values) else "-"


def host_table(runs: Sequence[HostReport]) -> list[str]:
    """Lines: what each process got under each scheduler, means over the seeds."""
    lines = [f"{'scheduler':<28}{'process':<16}{'MB/s':>9}{'1/s':>10}{'mean ms':>10}{'p99 ms':>10}"]
    schedulers = list(dict.fromkeys(run["scheduler"] for run in runs))
    for scheduler in schedulers:
        same = [run for run in runs if run["scheduler"] == scheduler]
        for index, process in enumerate((*same[0]["processes"], same[0]["total"])):
            each = [(*run["processes"], run["total"])[index] for run in same]
            p99s = [ns for one in each if (ns := one["latency_ns_p99"]) is not None]
            p99 = f"{fmean(p99s) / 1e6:.1f}" if len(p99s) == len(each) else "–"
            lines.append(
                f"{scheduler:<28}{process['name']:<16}"
                f"{fmean([one['throughput_bytes_per_s'] for one in each]) / 1e6:>9.2f}"
                f"{fmean([one['iops'] for one in each]):>10.1f}"
                f"{fmean([one['latency_ns_mean'] for one in each]) / 1e6:>10.2f}{p99:>10}"
            )
    return lines
