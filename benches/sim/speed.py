"""How fast the CPU and the disk simulator are: medians per CPU second (one core), alternated.

python benches/sim/speed.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

from schedlab_sim._simulators import run_cpu_simulation, sim_names, simulate


def cpu_run(policy: str) -> Callable[[], float]:
    """Bursts per second of CPU time with 50 tasks that compute 1 ms and wait 20 ms, on 2 CPUs."""
    tasks = [
        {"name": f"T{i}", "arrival": 1000 * i, "bursts": [1_000_000, 20_000_000] * 400 + [1000]}
        for i in range(50)
    ]
    settings = {"policy": policy, "quantum": 300_000, "cpus": 2, "max_segments": 0}
    job = json.dumps({"tasks": tasks, "settings": settings})

    def run() -> float:
        started = time.process_time()
        result = json.loads(run_cpu_simulation(job))
        elapsed = time.process_time() - started
        return sum(task["bursts"] for task in result["tasks"]) / elapsed

    return run


def disk_run(policy: str, name: str, requests: int) -> Callable[[], float]:
    """Requests per second of 4 KiB reads at depth 32."""
    job = {
        "device": {"device": "disk7200"},
        "policy": {"name": policy},
        "requests": requests,
        "workload": {"name": name, "record": 4096, "depth": 32},
        "seed": 1,
    }
    text = json.dumps(job)

    def run() -> float:
        started = time.process_time()
        simulate(text)
        return requests / (time.process_time() - started)

    return run


def main() -> None:
    """Alternate all, then print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    subjects = {f"cpu {name}, bursts/s": cpu_run(name) for name, _ in sim_names("cpu policy")}
    for name, _ in sim_names("disk policy"):
        subjects[f"disk {name}, random, requests/s"] = disk_run(name, "random4k", 200_000)
    subjects["disk fcfs, sequential, requests/s"] = disk_run("fcfs", "seqread", 200_000)
    rates: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, run in subjects.items():
            rates[name].append(run())
    for name, values in rates.items():
        print(f"{name:<36} {statistics.median(values):>12,.0f}")


if __name__ == "__main__":
    main()
