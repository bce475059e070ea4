"""What burst capture costs per context switch, beside no capture and beside perf record.

Two processes hand a byte to and fro through pipes on one CPU: every hand-over is a switch. The arms
are alternated in random order; medians and their differences are printed as Markdown.

    python benches/trace/capture_overhead.py [ROUNDS]
"""

import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from schedlab._core import BurstCapture

SWITCHES = 400_000
CPU = max(os.sched_getaffinity(0))


def player(read, write, first, go):
    os.sched_setaffinity(0, {CPU})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    os.read(go, 1)
    if first:
        os.write(write, b"t")
    for _ in range(SWITCHES // 2):
        if os.read(read, 1) != b"t":
            break
        os.write(write, b"t")
    os._exit(0)


def ping_pong(capture):
    """ns per switch while `capture(pids)` (a context manager) is active."""
    there, back, go = os.pipe(), os.pipe(), os.pipe()
    pids = []
    for first in (True, False):
        read, write = (back[0], there[1]) if first else (there[0], back[1])
        pid = os.fork()
        if pid == 0:
            player(read, write, first, go[0])
        pids.append(pid)
    with capture(pids) as told:
        began = time.perf_counter_ns()
        os.write(go[1], b"gg")
        for pid in pids:
            os.waitpid(pid, 0)
        elapsed = time.perf_counter_ns() - began
    for descriptor in (*there, *back, *go):
        os.close(descriptor)
    return elapsed / SWITCHES, told


@contextlib.contextmanager
def nothing(pids):
    yield {}


def captured(method):
    @contextlib.contextmanager
    def arm(pids):
        told = {}
        options = {"method": method, "ring_bytes": 64 << 20, "records_max": 100}
        capture = BurstCapture(pids, json.dumps(options))
        yield told
        data = json.loads(capture.finish()[0])
        counted = sum(task["bursts"] for task in data["tasks"])
        # Records beyond the few kept ones are counted as lost too: take them out again.
        told["lost"] = max(0, data["lost"] - max(0, counted - 100))

    return arm


@contextlib.contextmanager
def perf_record(pids):
    with tempfile.TemporaryDirectory() as folder:
        command = ["perf", "record", "-q", "-e", "sched:sched_switch", "-m", "4096"]
        command += ["-o", str(Path(folder) / "data"), "-p", ",".join(map(str, pids))]
        recorder = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(0.7)  # perf tells nobody when it has attached
        yield {}
        recorder.wait()


def main():
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {CPU} or {CPU})
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    arms = {"none": nothing, "BPF": captured("bpf"), "perf fallback": captured("perf")}
    if shutil.which("perf") and Path("/sys/kernel/tracing/events").exists():
        arms["perf record -e sched:sched_switch"] = perf_record
    times = {name: [] for name in arms}
    lost = dict.fromkeys(arms, 0)
    for _ in range(rounds):
        for name in random.sample(list(arms), len(arms)):
            ns, told = ping_pong(arms[name])
            times[name].append(ns)
            lost[name] += told.get("lost", 0)
    base = statistics.median(times["none"])
    print(f"{rounds} rounds, {SWITCHES} switches each, {1e9 / base / 1e6:.2f} M switches/s")
    print("\n| capture | ns per switch, median | range | over none | lost |\n|---|---|---|---|---|")
    for name, each in times.items():
        median = statistics.median(each)
        spread = f"{min(each):.0f} to {max(each):.0f}"
        print(f"| {name} | {median:.0f} | {spread} | {median - base:+.0f} | {lost[name]} |")


main()
