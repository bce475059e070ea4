"""A latency-sensitive reader beside writers: where I/O schedulers really differ.

Parameters: `seconds`, `ramp_seconds`, `reader_record_bytes`, `writers`, `writer_record_bytes`,
`writer_depth`, `span_bytes`. The reader works on the first half of the span, at depth 1, the
writers on all of it.
"""

from __future__ import annotations

from schedlab.run import latency
from schedlab.run.outcome import Outcome
from schedlab.run.place import Place, claimed_bytes, group, run_job
from schedlab.run.workloads.file_test import RANDOM, READ, WRITE
from schedlab.spec import Workload


def writes(workload: Workload) -> bool:
    """The neighbours write."""
    return True


def seconds(workload: Workload) -> float:
    """Estimated time of one run."""
    return float(workload.parameters["seconds"]) + float(workload.parameters.get("ramp_seconds", 0))


def measure(place: Place, workload: Workload, seed: int) -> Outcome:
    """The reader's latency and rate, the writers' throughput, in the same window."""
    given = workload.parameters
    span = min(int(given.get("span_bytes", place.size_bytes)), place.size_bytes)
    random = {"kind": "random", "replacement": True}
    reader = {
        "pattern": random,
        "direction": READ,
        "record": int(given.get("reader_record_bytes", 4096)),
        "span": span,
        "arrivals": {"kind": "closed", "depth": 1},
        "seed": seed,
    }
    writer = {
        "pattern": RANDOM,
        "direction": WRITE,
        "record": int(given.get("writer_record_bytes", 65536)),
        "span": span,
        "arrivals": {"kind": "closed", "depth": int(given.get("writer_depth", 64))},
        "seed": seed + 1,
    }
    options = {"engine": "io_uring", "direct": True, "allow_fallback": False}
    groups = run_job(
        [
            group("reader", place, reader, workers=1, **options),
            group("writers", place, writer, workers=int(given.get("writers", 2)), **options),
        ],
        float(given["seconds"]),
        float(given.get("ramp_seconds", 0.0)),
    )
    reads, written = groups["reader"]["reads"], groups["writers"]["writes"]
    metrics = latency.metrics(reads["latency"]["bins"], "reader_")
    # A group that got nothing done in the window has a rate of zero: that is an outcome. Requests
    # that began in the window are awaited, so a starved reader has a latency all the same.
    if reads["latency"]["count"]:
        metrics["reader_latency_ns_mean"] = float(reads["latency"]["mean"])
    for name, side, done in (("read", reads, "reader"), ("write", written, "writers")):
        elapsed_s = groups[done]["elapsed_ns"] / 1e9
        metrics[f"{name}_bytes_per_s"] = side["bytes"] / elapsed_s if elapsed_s else 0.0
    return Outcome(
        metrics=metrics,
        properties={
            "engine": groups["reader"]["engine"],
            "errors": reads["errors"] + written["errors"],
            "short": reads["short"] + written["short"],
            "claimed_bytes": list(claimed_bytes(groups)),
        },
        histograms={"latency_ns": reads["latency"]["bins"]},
    )
