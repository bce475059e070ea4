"""Requests per second of the SSD simulator through the Python API; each case in an own process.

Run: python benches/sim/ssd_speed.py. Prints one line per case.
"""

import concurrent.futures
import json
import resource
import subprocess
import sys
import time

CASES = {
    "serial, 4 KiB, no FTL, FCFS": {
        "policy": "fcfs",
        "workload": "random4k",
        "requests": 1_000_000,
        "workload_set": {"inter_arrival_ms": 0.2},
    },
    "parallel, 4 KiB reads, FTL, no buffer": {
        "service": "parallel",
        "workload": "randread4k",
        "requests": 500_000,
        "workload_set": {"inter_arrival_ms": 0.01},
        "device_set": {"buffer.size": 0},
    },
    "parallel, 4 KiB writes, FTL and GC": {
        "service": "parallel",
        "workload": "randwrite4k",
        "requests": 1_000_000,
        "workload_set": {"inter_arrival_ms": 0.02, "first_file": "1GiB"},
        "device_set": {
            "buffer.size": 0,
            "flash.blocks_per_plane": 40,
            "ftl.over_provisioning": 0.24,
            "ftl.precondition": "formula",
        },
    },
    "serial, 32 pages a request, TSB": {
        "policy": "tsb",
        "workload": "A",
        "requests": 200_000,
        "workload_set": {"record_min": "128KiB", "record_max": "128KiB"},
    },
}


def simulate(arguments: dict, seed: int) -> int:
    from schedlab.sim import Simulation

    return int(Simulation(**arguments, seed=seed).run().metrics["requests"])


def one(name: str) -> None:
    """Measure one case: best of three alone, then two at once in threads."""
    arguments = CASES[name]
    simulate({**arguments, "requests": 1000}, 0)
    took, used = [], []
    for seed in (1, 2, 3):
        began, cpu = time.perf_counter(), time.process_time()
        simulate(arguments, seed)
        took.append(time.perf_counter() - began)
        used.append(time.process_time() - cpu)
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda seed: simulate(arguments, seed), (1, 2)))
    both = time.perf_counter() - began
    rate = arguments["requests"] / min(took)
    print(
        json.dumps(
            {
                "case": name,
                "requests_per_s": round(rate),
                "requests_per_cpu_s": round(arguments["requests"] / min(used)),
                "two_threads_requests_per_s": round(2 * arguments["requests"] / both),
                "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            }
        )
    )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        one(sys.argv[1])
    else:
        for each in CASES:
            subprocess.run([sys.executable, __file__, each], check=True)
