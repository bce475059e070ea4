"""Cold buffered reads beside `hdparm -tT`: `hdparm_buffered.py DEVICE [ROUNDS]`.

All read 2 MiB at a time from the start of the device for 3 s or to its end, in turns: hdparm, ours,
hdparm, … Each of ours is divided by the mean of the two hdparm around it, which takes out what
grows or falls over the rounds (a host's cache, memory that a hypervisor has to hand out again).
hdparm divided by the hdparm before it is the noise.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

from schedlab import _core
from schedlab.host.facts import free_pages_reported

MIB = 1 << 20


def job_mib_s(device: str) -> float:
    size = int(Path(f"/sys/class/block/{Path(device).name}/size").read_text()) * 512
    workload = {
        "pattern": {"kind": "sequential"},
        "direction": {"kind": "read"},
        "record": 2 * MIB,
        "span": size // (2 * MIB) * 2 * MIB,
        "arrivals": {"kind": "closed", "depth": 1},
        "seed": 1,
    }
    group = {"name": "t", "path": device, "engine": "psync", "workload": workload}
    job = {"seconds": 3, "groups": [group | {"cold": True, "at_end": "stop"}]}
    result = json.loads(_core.run_io_job(json.dumps(job)))["groups"][0]
    return float(result["reads"]["bytes"] / MIB / (result["elapsed_ns"] / 1e9))


def hdparm_mib_s(device: str) -> float:
    result = subprocess.run(["hdparm", "-tT", device], capture_output=True, text=True, check=True)
    match = re.search(r"disk reads:.*= *([\d.]+) MB/sec", result.stdout)
    if not match:
        raise SystemExit(result.stdout)
    return float(match[1])


def main() -> None:
    device, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    if free_pages_reported():
        print("free memory goes back to the hypervisor: all of these can measure its page faults")
    ratios: dict[str, list[float]] = {"a cold job": [], "hdparm": []}
    rates: dict[str, list[float]] = {name: [] for name in ratios}
    before = hdparm_mib_s(device)
    for _ in range(rounds):
        rate, after = job_mib_s(device), hdparm_mib_s(device)
        ratios["a cold job"].append(2 * rate / (before + after))
        ratios["hdparm"].append(after / before)
        rates["a cold job"].append(rate)
        rates["hdparm"].append(after)
        before = after
    for name, values in ratios.items():
        print(
            f"{name:12s}{statistics.median(rates[name]):7.0f} MiB/s, "
            f"ratio {statistics.median(values):.3f} ({min(values):.3f}–{max(values):.3f})"
        )


if __name__ == "__main__":
    main()
