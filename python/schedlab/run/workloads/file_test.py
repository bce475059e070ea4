"""IOzone's file tests on a device or a file, under IOzone's names.

Parameters: `test`, `record_bytes`, `span_bytes` (from the start of the place), `seconds` (0: one
pass over the span), `engine`, `depth`, `workers`, `direct`, `sync`.

`rewrite` and `re-read` repeat what was just done: the same records are written or read once
unmeasured, directly before.
"""

from __future__ import annotations

from typing import Any

from schedlab.errors import SpecError
from schedlab.run import latency
from schedlab.run.outcome import Outcome
from schedlab.run.place import Place, claimed_bytes, group, run_job
from schedlab.spec import Workload

SEQUENTIAL: dict[str, Any] = {"kind": "sequential"}
RANDOM: dict[str, Any] = {"kind": "random", "replacement": False}
READ: dict[str, Any] = {"kind": "read"}
WRITE: dict[str, Any] = {"kind": "write"}
# test -> (order, direction, whether the same is done once before)
TESTS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "write": (SEQUENTIAL, WRITE, False),
    "rewrite": (SEQUENTIAL, WRITE, True),
    "read": (SEQUENTIAL, READ, False),
    "re-read": (SEQUENTIAL, READ, True),
    "random-read": (RANDOM, READ, False),
    "random-write": (RANDOM, WRITE, False),
    "reverse-read": ({"kind": "reverse"}, READ, False),
    "record-rewrite": ({"kind": "same"}, WRITE, False),
    "stride-read": ({"kind": "stride", "records": 17}, READ, False),
    "mixed": (RANDOM, {"kind": "mixed", "read_percent": 50}, False),
}
IOZONE_SEVEN = (
    "write", "rewrite", "read", "re-read", "reverse-read", "random-read", "random-write",
)  # fmt: skip


def writes(workload: Workload) -> bool:
    """Whether the workload changes data."""
    return bool(test_of(workload)[1]["kind"] != "read")


def seconds(workload: Workload) -> float:
    """Estimated time of one run."""
    once = float(workload.parameters.get("seconds", 0)) or 2.0
    return once * (2 if test_of(workload)[2] else 1)


def test_of(workload: Workload) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Order, direction, and whether it is primed; SpecError naming an unknown test."""
    name = workload.parameters.get("test")
    if name not in TESTS:
        raise SpecError(f"test {name!r} is not known", f"use one of: {', '.join(TESTS)}")
    return TESTS[str(name)]


def measure(place: Place, workload: Workload, seed: int) -> Outcome:
    """Throughput, I/O operations per second, latency percentiles and CPU seconds of one run."""
    order, direction, primed = test_of(workload)
    given = workload.parameters
    direct = bool(given.get("direct", True))
    job = group(
        workload.label,
        place,
        {
            "pattern": order,
            "direction": direction,
            "record": int(given["record_bytes"]),
            "span": min(int(given.get("span_bytes", place.size_bytes)), place.size_bytes),
            "arrivals": {"kind": "closed", "depth": int(given.get("depth", 1))},
            "seed": seed,
        },
        workers=int(given.get("workers", 1)),
        engine=str(given.get("engine", "psync")),
        direct=direct,
        sync=str(given.get("sync", "none")),
    )
    limit = float(given.get("seconds", 0)) or None
    before = claimed_bytes(run_job([job], limit)) if primed else (0, 0)
    groups = run_job([job], limit)
    claimed = claimed_bytes(groups)
    return outcome_of(
        groups[workload.label], (claimed[0] + before[0], claimed[1] + before[1]), direct
    )


def outcome_of(done: dict[str, Any], claimed: tuple[int, int], direct: bool) -> Outcome:
    """The metrics of one finished group of the engine; no rates where nothing completed."""
    both = (done["reads"], done["writes"])
    elapsed_s = done["elapsed_ns"] / 1e9
    rows = latency.merge(side["latency"]["bins"] for side in both)
    cpu_s = (done["cpu_user_ns"] + done["cpu_system_ns"]) / 1e9
    operations = sum(side["operations"] for side in both)
    rates = {}
    if operations:
        rates["throughput_bytes_per_s"] = sum(side["bytes"] for side in both) / elapsed_s
        rates["iops"] = operations / elapsed_s
    return Outcome(
        metrics={**rates, "cpu_s": cpu_s, "elapsed_s": elapsed_s, **latency.metrics(rows)},
        properties={
            "engine": done["engine"],
            "errors": sum(side["errors"] for side in both),
            "short": sum(side["short"] for side in both),
            "cpu_share": cpu_s / elapsed_s if elapsed_s else None,
            "claimed_bytes": list(claimed) if direct else None,
        },
        histograms={"latency_ns": rows},
    )
