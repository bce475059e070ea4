"""hdparm's two timings of a disk, by its definitions.

Parameters: `timing`: `cached` (2 MiB at the start of the device, again and again for 2 s: the page
cache answers, so no scheduler takes part) or `buffered` (sequential 2 MiB reads of a cold device
through the page cache for 3 s); `direct` reads with O_DIRECT instead; `seconds` changes the window.
"""

from __future__ import annotations

from schedlab.errors import SpecError
from schedlab.run.outcome import Outcome
from schedlab.run.place import Place, claimed_bytes, group, run_job
from schedlab.run.workloads.file_test import READ, SEQUENTIAL, outcome_of
from schedlab.spec import Workload

RECORD_BYTES = 2 << 20
# timing -> (order of the records, seconds)
TIMINGS = {"cached": ({"kind": "same"}, 2.0), "buffered": (SEQUENTIAL, 3.0)}


def writes(workload: Workload) -> bool:
    """Only reads."""
    return False


def seconds(workload: Workload) -> float:
    """The window."""
    timing = str(workload.parameters.get("timing"))
    if timing not in TIMINGS:
        raise SpecError(f"timing {timing!r} is not known", f"use one of: {', '.join(TIMINGS)}")
    return float(workload.parameters.get("seconds", TIMINGS[timing][1]))


def measure(place: Place, workload: Workload, seed: int) -> Outcome:
    """Throughput of one timing; `cached` is a negative control."""
    window = seconds(workload)
    order, _ = TIMINGS[str(workload.parameters["timing"])]
    direct = bool(workload.parameters.get("direct", False))
    job = group(
        workload.label,
        place,
        {
            "pattern": order,
            "direction": READ,
            "record": RECORD_BYTES,
            "span": place.raw_size_bytes,
            "arrivals": {"kind": "closed", "depth": 1},
            "seed": seed,
        },
        engine="psync",
        direct=direct,
    )
    job["path"] = str(place.raw_path)
    groups = run_job([job], window)
    return outcome_of(groups[workload.label], claimed_bytes(groups), direct)
