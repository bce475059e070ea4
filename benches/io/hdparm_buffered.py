"""A job's cold buffered reads beside `hdparm -t`: `hdparm_buffered.py DEVICE [ROUNDS]`.

Both read 2 MiB at a time from the start of the device for 3 s or to its end, in turns.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

from schedlab import _core

MIB = 1 << 20


def ours_mib_s(device: str) -> float:
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
    said = subprocess.run(["hdparm", "-t", device], capture_output=True, text=True, check=True)
    found = re.search(r"= *([\d.]+) MB/sec", said.stdout)
    if not found:
        raise SystemExit(said.stdout)
    return float(found[1])


def main() -> None:
    device, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    pairs = [(ours_mib_s(device), hdparm_mib_s(device)) for _ in range(rounds)]
    ratios = [ours / theirs for ours, theirs in pairs]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    low, high = min(ratios), max(ratios)
    ratio = statistics.median(ratios)
    print(f"ours {ours:.0f} MiB/s, hdparm {theirs:.0f}, ratio {ratio:.3f} ({low:.3f}–{high:.3f})")


if __name__ == "__main__":
    main()
