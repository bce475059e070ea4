"""What watching a live load costs: per request, and of a CPU for the program that watches.

    python benches/trace/live_overhead.py DEVICE [PAIRS]

DEVICE, a loop device, is only read: 4 KiB at depth 16 by another process, as fast as it goes.
Slices of half a second with and without the BPF programs alternate in random order. A request costs
the CPU time of the process that sends it and of the kernel's workers that serve it, so that other
programs on the machine count little. Then the watcher looks once a second, as in a period of 30 s,
and its own CPU time is taken. Needs root.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from schedlab import _core
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs
from schedlab.run.live.live import Devices

SLICE_S, PERIOD_S, REQUESTS_LEAST = 0.5, 30, 5000
READ = """
import json, sys
from schedlab import _core
workload = {"pattern": {"kind": "random"}, "direction": {"kind": "read"}, "record": 4096,
            "span": 8 << 20, "arrivals": {"kind": "closed", "depth": 16}, "seed": 1}
group = {"name": "r", "path": sys.argv[1], "engine": "io_uring", "direct": True,
         "workload": workload}
_core.run_io_job(json.dumps({"seconds": float(sys.argv[2]), "groups": [group]}))
"""


def exec_ns(process):
    """CPU time of all threads of a process and of all kernel workers."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/comm"):
        task = status.parent
        try:
            if task.name == str(process):
                threads = task.glob("task/*/schedstat")
            elif status.read_text().startswith("kworker"):
                threads = [task / "schedstat"]
            else:
                continue
            total += sum(int(each.read_text().split()[0]) for each in threads)
        except OSError:
            continue
    return total


def requests(device):
    return int((knobs.SYS_BLOCK / Path(device).name / "stat").read_text().split()[0])


def slice_ns(device, process, is_watched):
    """(ns of CPU per request, requests per second) of a slice."""
    options = json.dumps({"device": device, "find_classes": True})
    capture = _core.BlockCapture(options) if is_watched else None
    time.sleep(0.05)
    first, cpu, began = requests(device), exec_ns(process), time.monotonic()
    time.sleep(SLICE_S)
    count, cpu = requests(device) - first, exec_ns(process) - cpu
    seconds = time.monotonic() - began
    if capture:
        capture.finish()
    if count < REQUESTS_LEAST:  # other programs had the CPUs
        return slice_ns(device, process, is_watched)
    return cpu / count, count / seconds


def main(device, pairs):
    load = subprocess.Popen([sys.executable, "-c", READ, device, "3600"])
    try:
        first = requests(device)
        while requests(device) < first + 1000:
            time.sleep(0.05)
        costs, rates, over = {True: [], False: []}, {True: [], False: []}, []
        for _ in range(pairs):
            for is_watched in random.sample((True, False), 2):
                cost, rate = slice_ns(device, load.pid, is_watched)
                costs[is_watched].append(cost)
                rates[is_watched].append(rate)
            over.append(costs[True][-1] - costs[False][-1])
        for is_watched, name in ((False, "without"), (True, "with")):
            cost, rate = statistics.median(costs[is_watched]), statistics.median(rates[is_watched])
            print(f"{name:8s} {cost:8.0f} ns of CPU per request, {rate:8,.0f} requests/s")
        low, _, high = statistics.quantiles(over, n=4)
        ratio = statistics.median(a / b for a, b in zip(costs[True], costs[False], strict=True))
        print(f"over     {statistics.median(over):8.0f} ns (quartiles {low:.0f} to {high:.0f}), "
              f"ratio {ratio:.3f}, {pairs} pairs")  # fmt: skip
        shares = []
        with (
            Control() as control,
            Devices(control, [Path(device).name], []).captured(PERIOD_S) as captured,
        ):
            for _ in range(PERIOD_S):
                cpu, began = time.process_time(), time.monotonic()
                time.sleep(1)
                captured.look()
                shares.append((time.process_time() - cpu) / (time.monotonic() - began))
            cpu = time.process_time()
            captured.series()
            cpu = time.process_time() - cpu
        print(f"watcher  {statistics.median(shares):.2%} of a CPU (median second), "
              f"{max(shares):.2%} at most; series once a period {1e3 * cpu:.1f} ms")  # fmt: skip
    finally:
        load.kill()
        load.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60)
