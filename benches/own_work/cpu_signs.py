"""Differences between CPU policies whose sign the kernel's rules fix: how soon are they decided?

    sudo python benches/own_work/cpu_signs.py [BLOCKS]

Prints for each the verdict, the ratio with its interval, and the time, all measurement included.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from schedlab.app.compare.cpu_comparison import CpuLoad, policy_comparison
from schedlab.app.measure.measure import run
from schedlab.spec import Stopping

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
            verdict = run(replace(asked, workloads=works), Path(place) / "out").verdict
        seconds = time.monotonic() - began
        (decided,) = verdict.workloads.values()
        pair = next(each for each in decided.pairs if expected in (each.a, each.b))
        better = pair.verdict == ("better" if pair.a == expected else "worse")
        outcome = "right" if better else f"NOT DECIDED ({pair.verdict})"
        low, high = (f"{end:.3g}" if end else "open" for end in (pair.low, pair.high))
        print(
            f"{name}: {expected} better: {outcome}; {pair.a} : {pair.b} of {metric} = "
            f"{pair.ratio:.3g} ({low} to {high}); {decided.blocks} blocks, {seconds:.0f} s"
        )


if __name__ == "__main__":
    main()
