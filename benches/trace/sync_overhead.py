"""What a capture of fsync costs: ns of CPU time per system call, with and without it.

    python benches/trace/sync_overhead.py [ROUNDS]

Calls on a file in memory (/dev/shm), which do nothing but enter the kernel and return; so are those
of a program beside, which makes none that is captured. Rounds with and without a capture alternate;
medians and ranges are printed as Markdown. Needs root.
"""

import json
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

from schedlab import _core

CALLS = 100_000
FILE = Path("/dev/shm/schedlab-sync-overhead")


def cost_ns(call, *arguments):
    began = time.process_time_ns()
    for _ in range(CALLS):
        call(*arguments)
    return (time.process_time_ns() - began) / CALLS


def main(rounds):
    plain = os.open(FILE, os.O_CREAT | os.O_RDWR)
    synced = os.open(FILE, os.O_RDWR | os.O_DSYNC)
    loops = {
        "fsync": (os.fsync, plain),
        "write through O_DSYNC": (os.pwrite, synced, b"x", 0),
        "other write": (os.pwrite, plain, b"x", 0),
        "another call (getppid)": (os.getppid,),
    }
    costs = defaultdict(list)
    for _ in range(rounds):
        for is_captured in random.sample((False, True), 2):
            options = {"follows": [[os.getpid(), "itself"]]}
            capture = _core.SyncCapture(json.dumps(options)) if is_captured else None
            for name, loop in loops.items():
                costs[name, is_captured].append(cost_ns(*loop))
            if capture:
                assert json.loads(capture.finish())["accounting"]["lost"] == 0
    FILE.unlink()
    print("| call | without, ns | with, ns | more, median | range |\n|---|---|---|---|---|")
    for name in loops:
        without, captured = costs[name, False], costs[name, True]
        more = [b - a for a, b in zip(without, captured, strict=True)]
        middle = [statistics.median(each) for each in (without, captured, more)]
        print(f"| {name} | {middle[0]:.0f} | {middle[1]:.0f} | {middle[2]:+.0f} "
              f"| {min(more):+.0f} to {max(more):+.0f} |")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
