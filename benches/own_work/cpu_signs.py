"""Differences between CPU policies whose sign the kernel's rules fix: how soon are they decided?

    sudo python benches/own_work/cpu_signs.py [BLOCKS]

Prints for each the verdict, the ratio with its interval, and the time, all measurement included.
"""

import math
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from schedlab.app.compare.cpu_comparison import CpuLoad, policy_comparison
from schedlab.app.measure.measure import run
from schedlab.nouns import Stopping

# policies, on whose side, load, metric that decides, the candidate that must be better
QUESTIONS = {
    "slices of the load: 0.1 ms or 100 ms": (
        "other:slice=0.1ms,other:slice=100ms", "load", CpuLoad(["wakeup"], seconds=1.5),
        "response_ns_mean", "other:slice=100ms",
    ),
    # A batch task does not preempt when it wakes, so that its usual wake-up waits for a tick.
    "other or batch, beside hogs": (
        "other,batch", "work", CpuLoad(["wakeup"], seconds=1.5), "wakeup_ns_p50", "other",
    ),
    "other or fifo, beside hogs": (
        "other,fifo", "work", CpuLoad(["wakeup"], seconds=1.5), "response_ns_p99", "fifo",
    ),
}  # fmt: skip


def main():
    """Ask one after the other."""
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    for name, (policies, side, load, metric, expected) in QUESTIONS.items():
        asked = policy_comparison(
            load, policies=policies, apply_to=side, stopping=Stopping("until-decided", blocks),
            seed=1,
        )  # fmt: skip
        works = tuple(replace(work, metric=metric, secondary=()) for work in asked.workloads)
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            answer = run(replace(asked, workloads=works), Path(place) / "out").answer
        seconds = time.monotonic() - began
        row = next(each for each in answer.rows if each.role == "primary")
        label, other = next(each for each in answer.cells[row.name].items() if each[0] != expected)
        outcome = "right" if other.low > 0 else f"NOT DECIDED ({answer.code})"
        ends = [math.exp(end) if end is not None else math.inf for end in (other.low, other.up)]
        print(
            f"{name}: {expected} better: {outcome}; {label} : {expected} of {metric} = "
            f"{math.exp(other.loss):.3g} ({ends[0]:.3g} to {ends[1]:.3g}); {row.blocks} blocks, "
            f"{seconds:.0f} s"
        )


if __name__ == "__main__":
    main()
