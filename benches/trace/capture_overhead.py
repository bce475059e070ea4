"""What burst capture costs per context switch, beside no capture and beside perf record.

The load is `hand_over.c` on one CPU: two real-time processes that do nothing but sched_yield to
each other, so that every call is a switch and the rate is the highest there is. The arms are
alternated in random order; medians of the differences to the uncaptured run of the same round are
printed as Markdown. Needs cc and root; perf and tracefs for the arm with perf record.

    python benches/trace/capture_overhead.py [ROUNDS]
"""

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from schedlab._core import BurstCapture, Launched

HAND_OVERS = 1_000_000
CPU = max(os.sched_getaffinity(0))
RECORDS_KEPT = 100
SOURCE = Path(__file__).with_name("hand_over.c")


def bench_command(out):
    return f"exec taskset -c {CPU} chrt -f 10 {Path(out).parent}/hand_over {HAND_OVERS} > {out}"


def ns_per_switch(out):
    seconds = float(re.search(r"[\d.]+", Path(out).read_text())[0])
    return seconds * 1e9 / (2 * HAND_OVERS)


def bare(folder):
    out = f"{folder}/out"
    subprocess.run(["sh", "-c", bench_command(out)], check=True)
    return ns_per_switch(out), 0


def captured(method):
    def arm(folder):
        out = f"{folder}/out"
        environment = [f"{name}={value}" for name, value in os.environ.items()]
        argv = ["sh", "-c", bench_command(out)]
        order = {"program": shutil.which("sh"), "argv": argv, "environment": environment,
                 "directory": ".", "held": True, "same_session": True}  # fmt: skip
        held = Launched(json.dumps(order))
        options = {"method": method, "ring_bytes": 64 << 20, "records_max": RECORDS_KEPT}
        capture = BurstCapture([held.pid()], json.dumps(options))
        held.release()
        while held.wait(1.0) is None:
            pass
        data = json.loads(capture.finish()[0])
        counted = sum(task["bursts"] for task in data["tasks"])
        assert counted > 1.9 * HAND_OVERS, counted
        # Records beyond the few kept ones count as lost too: take them out again.
        return ns_per_switch(out), max(0, data["lost"] - max(0, counted - RECORDS_KEPT))

    return arm


def perf_record(folder):
    out = f"{folder}/out"
    command = ["perf", "record", "-q", "-e", "sched:sched_switch", "-m", "4096"]
    command += ["-o", f"{folder}/data", "sh", "-c", bench_command(out)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    lost = re.search(r"lost (\d+)", result.stderr)
    return ns_per_switch(out), int(lost[1]) if lost else 0


def main():
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {CPU} or {CPU})
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    arms = {"none": bare, "BPF": captured("bpf"), "perf fallback": captured("perf")}
    if Path("/sys/kernel/tracing/events").exists():
        arms["perf record -e sched:sched_switch"] = perf_record
    times = {name: [] for name in arms}
    lost = dict.fromkeys(arms, 0)
    with tempfile.TemporaryDirectory() as work:
        program = f"{work}/hand_over"
        subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True)
        for _ in range(rounds):
            for name in random.sample(list(arms), len(arms)):
                with tempfile.TemporaryDirectory() as folder:
                    shutil.copy(program, folder)
                    ns, missing = arms[name](folder)
                times[name].append(ns)
                lost[name] += missing
    show(rounds, times, lost)


def show(rounds, times, lost):
    base = statistics.median(times["none"])
    print(f"{rounds} rounds, {2 * HAND_OVERS} switches each, {1e3 / base:.2f} M switches/s\n")
    print("| capture | ns per switch, median | range | over none | lost |\n|---|---|---|---|---|")
    for name, each in times.items():
        median = statistics.median(each)
        spread = f"{min(each):.0f} to {max(each):.0f}"
        over = statistics.median(a - b for a, b in zip(each, times["none"], strict=True))
        print(f"| {name} | {median:.0f} | {spread} | {over:+.0f} | {lost[name]} |")


main()
