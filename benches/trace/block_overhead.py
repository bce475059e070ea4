"""What the block capture costs per request, by BPF run-time statistics, without their own cost.

    python benches/trace/block_overhead.py DEVICE [ROUNDS]

DEVICE is only read. The kernel reads a clock before and after each run of a program; that time is
measured on requests of which the programs see at once that they are none of theirs (a capture of
OTHER, a loop device that this makes, while DEVICE is read), and taken off. Rounds alternate between
schedulers; medians are printed as Markdown.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from schedlab import _core

EVENTS = ("on_queue", "on_submit", "on_getrq", "on_insert", "on_issue", "on_complete")


def load(device, seconds=1.0):
    workload = {
        "pattern": {"kind": "random"},
        "direction": {"kind": "read"},
        "record": 4096,
        "span": 8 << 20,
        "arrivals": {"kind": "closed", "depth": 16},
        "seed": 1,
    }
    group = {"name": "r", "path": device, "engine": "io_uring", "direct": True}
    job = {"seconds": seconds, "process": True, "groups": [group | {"workload": workload}]}
    result = json.loads(_core.run_io_job(json.dumps(job)))
    return result["groups"][0]["reads"]["operations"]


def captured(watched, used):
    """(requests, ns and runs of each program) of a second of reads from `used`."""
    options = {"device": watched, "find_classes": True, "measure_cost": True}
    capture = _core.BlockCapture(json.dumps(options))
    requests = load(used)
    result = json.loads(capture.finish())
    return requests, {n: (runs, ns) for n, runs, ns in result["cost"]["programs"]}, result["lost"]


def main(device, rounds):
    scheduler = Path(f"/sys/block/{Path(device).name}/queue/scheduler")
    before = scheduler.read_text().split("[")[1].split("]")[0]
    rows, empty = defaultdict(list), []
    with tempfile.NamedTemporaryFile(suffix=".img") as file:
        file.truncate(16 << 20)
        other = subprocess.check_output(["losetup", "-f", "--show", file.name], text=True).strip()
        try:
            for _ in range(rounds):
                for name in ("none", "mq-deadline", "bfq"):
                    scheduler.write_text(name)
                    _, idle, _ = captured(other, device)
                    runs = sum(idle[n][0] for n in EVENTS if n in idle)
                    empty.append(sum(idle[n][1] for n in EVENTS if n in idle) / runs)
                    requests, costs, lost = captured(device, device)
                    rows[name].append((requests, costs, lost))
        finally:
            scheduler.write_text(before)
            subprocess.run(["losetup", "-d", other], check=True)
    floor = statistics.median(empty)
    print(f"the statistics' own time: {floor:.0f} ns per event ({rounds} rounds)\n")
    names = [n for n in EVENTS if n in rows["none"][0][1]]
    print(f"| scheduler | requests/s | {' | '.join(names)} | per request, ns | lost |")
    print("|---" * (len(names) + 4) + "|")
    for name, of in rows.items():
        cells, total = [], []
        for event in names:
            values = [max(0.0, c[event][1] - floor * c[event][0]) / n for n, c, _ in of]
            cells.append(statistics.median(values))
        for n, c, _ in of:
            total.append(sum(ns - floor * runs for runs, ns in c.values()) / n)
        rate = statistics.median(n for n, _, _ in of)
        lost = sum(sum(each.values()) for _, _, each in of)
        shown = " | ".join(f"{cell:.0f}" for cell in cells)
        print(f"| {name} | {rate:,.0f} | {shown} | {statistics.median(total):.0f} | {lost} |")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
