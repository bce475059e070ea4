"""IOzone's figures for N processes (`-t N`): those of children and parent, and their spread.

Children: the sum of every worker's own bytes over its own time. Parent: all bytes over the time
from the common start to the end of the slowest. Unlike IOzone's, our workers do not stop when the
first one has finished a pass, so that the minimum is not cut short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KIB = 1024.0
# test -> what IOzone calls its processes
NAMES = {
    "write": "initial writers",
    "rewrite": "rewriters",
    "read": "readers",
    "re-read": "re-readers",
    "random-read": "random readers",
    "random-write": "random writers",
    "reverse-read": "reverse readers",
    "record-rewrite": "record rewriters",
    "stride-read": "stride readers",
    "mixed": "mixed workload",
}


def worker_lines(group: Mapping[str, Any]) -> dict[str, float]:
    """The six figures of a finished group of the engine, in kB/s and kB of 1024 bytes.

    `group` is a group of crates/load/src/io/result.rs.
    """
    workers = group["workers"]
    rates = [w["bytes"] / KIB / w["elapsed_ns"] * 1e9 if w["elapsed_ns"] else 0.0 for w in workers]
    moved = sum(w["bytes"] for w in workers)
    elapsed_ns = group["elapsed_ns"]
    return {
        "children_kib_per_s": sum(rates),
        "parent_kib_per_s": moved / KIB / elapsed_ns * 1e9 if elapsed_ns else 0.0,
        "min_kib_per_s": min(rates),
        "max_kib_per_s": max(rates),
        "avg_kib_per_s": sum(rates) / len(rates),
        "min_xfer_kib": min(w["bytes"] for w in workers) / KIB,
    }


def as_iozone(lines: Mapping[str, float], test: str, workers: int) -> str:
    """The figures in IOzone's layout."""
    who = f"{workers:2d} {NAMES[test]}"
    rows = (
        (f"Children see throughput for {who}", "children_kib_per_s", "kB/sec"),
        (f"Parent sees throughput for {who}", "parent_kib_per_s", "kB/sec"),
        ("Min throughput per process", "min_kib_per_s", "kB/sec"),
        ("Max throughput per process", "max_kib_per_s", "kB/sec"),
        ("Avg throughput per process", "avg_kib_per_s", "kB/sec"),
        ("Min xfer", "min_xfer_kib", "kB"),
    )
    return "\n".join(f"\t{title} \t= {lines[key]:11.2f} {unit}" for title, key, unit in rows)
