"""Does the simulator predict what round robin costs on this machine?

Alternates real runs of the CPU lab at a long and a short quantum. The time of a calculation and the
switch cost go into the simulator, which predicts the counts at the short quantum; the ratio of
measured to predicted counts is given with its 95 % interval over the pairs.

    sudo python benches/sim/predict_rr.py --pairs 10 --time 3s --switch-cost 4us
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys

from scipy.special import stdtrit


def measure(processes: int, time: str, slice_ms: float, cpu: int) -> dict:
    """One run of the lab: counts, CPU time and the quantum that tasks really got."""
    command = [sys.executable, "-m", "schedlab", "cpu", str(processes), time, "--policy", "rr"]
    command += ["--slice", str(slice_ms), "--cpu", str(cpu), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    totals = [row for row in rows if row["event"] == "total"]
    quantum = next(row for row in rows if row["event"] == "quantum")
    return {
        "count": sum(row["count"] for row in totals),
        "cpu_ns": sum(row["cpu_ns"] for row in totals),
        "switches": sum(row["involuntary_switches"] for row in totals),
        "quantum_ms": quantum["effective_ms"],
    }


def predict(processes: int, run: dict, quantum_ms: float, cost: str, calculation_ns: float) -> dict:
    """The simulated counts in as much CPU time as the real processes got."""
    from schedlab._core import parse_time_ns, run_cpu_simulation

    # The kernel charges the switch to the processes; the simulator charges it to nobody.
    settings = {
        "policy": "rr",
        "quantum": round(quantum_ms * 1e6),
        "switch_cost": parse_time_ns(cost),
        "until": run["cpu_ns"],
        "calculation_ns": calculation_ns,
        "max_segments": 0,
    }
    tasks = [{"name": f"P{i}", "bursts": [run["cpu_ns"]]} for i in range(processes)]
    result = json.loads(run_cpu_simulation(json.dumps({"tasks": tasks, "settings": settings})))
    return {
        "count": sum(task["calculations"] for task in result["tasks"]),
        "switches": result["summary"]["switches"],
    }


def interval(values: list[float]) -> tuple[float, float, float]:
    """Geometric mean and its 95 % t interval."""
    logs = [math.log(value) for value in values]
    mean = statistics.mean(logs)
    half = stdtrit(len(logs) - 1, 0.975) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> None:
    """Measure in pairs, predict, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--time", default="3s")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--short", type=float, default=4)
    parser.add_argument("--long", type=float, default=100)
    parser.add_argument("--switch-cost", default="4us")
    options = parser.parse_args()
    counts, switches = [], []
    for pair in range(options.pairs):
        runs = {}
        order = (options.short, options.long) if pair % 2 else (options.long, options.short)
        for slice_ms in order:
            runs[slice_ms] = measure(options.processes, options.time, slice_ms, options.cpu)
        short, long = runs[options.short], runs[options.long]
        calculation_ns = long["cpu_ns"] / long["count"]
        predicted = predict(
            options.processes, short, short["quantum_ms"], options.switch_cost, calculation_ns
        )
        counts.append(short["count"] / predicted["count"])
        switches.append(short["switches"] / predicted["switches"])
        print(
            f"quantum {short['quantum_ms']} ms: {short['count']} counted, {predicted['count']} "
            f"predicted; {short['switches']} switches, {predicted['switches']} predicted",
            file=sys.stderr,
        )
    for name, values in (("counts", counts), ("switches", switches)):
        mean, low, high = interval(values)
        holds = "inside" if low <= 1 <= high else "outside"
        print(f"{name}: measured / predicted {mean:.4f} [{low:.4f}, {high:.4f}], 1 is {holds}")


if __name__ == "__main__":
    main()
