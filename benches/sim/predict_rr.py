"""Does the simulator predict what round robin costs on this machine?

Alternates real runs of the CPU lab at a long and a short quantum. The time of a calculation and the
switch cost go into the simulator, which predicts the counts at the short quantum; the ratios of
measured to predicted counts and switches are given with their 95 % intervals over the pairs.

The machine's speed differs from run to run by more than a switch costs. So the time of a
calculation is that of the plain ones (near no switch and no tick) of the short run itself, times
what ticks add to it in the long run.

    sudo python benches/sim/predict_rr.py --pairs 10 --time 3s --switch-cost 4us
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys

from schedlab.analyse.quantiles import half_width
from schedlab.cpu.bursts import Capture
from schedlab.cpu.crew import Settings, ended, held_crew, pids_of
from schedlab.cpu.policy import CpuPolicy
from schedlab.host.safety.control import Control
from schedlab.nouns.quantities import parse_time_ns


def measure(control: Control, settings: Settings) -> dict:
    """One run of the lab: counts, CPU time, the quantum that tasks really got, and switches.

    A switch is from one of the processes to another. One that is interrupted by something else
    (the kernel's own threads, the share kept for ordinary tasks) and goes on is an interruption.
    """
    with held_crew(settings, control) as (crew, quantum):
        capture = Capture(pids_of(crew), records_max=10_000_000)
        crew.start()
        marks: dict[int, list[list[int]]] = {}
        while not crew.wait(0.1):
            for process, mark in crew.take_preemptions():
                marks.setdefault(process, []).append(mark)
        rows, bursts = ended(crew).groups[0].tasks, capture.finish()
    if not bursts.has_bursts or bursts.lost:
        raise SystemExit("every burst is needed: run as root, with the BPF or perf source")
    # Calculations and CPU time of all, then of the plain ones, from first to last preemption.
    ends = [(each[0], each[-1]) for each in marks.values()]
    sums = [sum(last[k] - first[k] for first, last in ends) for k in range(1, 5)]
    # The first and the last bursts are cut by the start and the end of the run.
    whole = bursts.records[settings.processes : -settings.processes]
    order = [task for _, _, task, *_ in whole]
    switches = sum(a != b for a, b in itertools.pairwise(order))
    return {
        "count": sum(row.count for row in rows),
        "cpu_ns": sum(row.cpu_ns for row in rows),
        "whole_bursts_ns": sum(duration for _, duration, *_ in whole),
        "switches": switches,
        "interruptions": len(order) - 1 - switches,
        "quantum_ms": quantum.effective_ms,
        "calculation_ns": sums[1] / sums[0],
        "plain_ns": sums[3] / sums[2],
    }


def predict(
    processes: int, cpu_ns: int, quantum_ms: float, cost: str, calculation_ns: float
) -> dict:
    """The simulated counts in as much CPU time as the real processes got."""
    from schedlab_sim._simulators import parse_time_ns, run_cpu_simulation

    # The kernel charges the switch to the processes, and a slice ends at a tick with the switch in
    # it; the simulator charges it to nobody and adds it to the quantum.
    switch_ns = parse_time_ns(cost)
    settings = {
        "policy": "rr",
        "quantum": round(quantum_ms * 1e6) - switch_ns,
        "switch_cost": switch_ns,
        "until": cpu_ns,
        "calculation_ns": calculation_ns,
        "max_segments": 0,
    }
    tasks = [{"name": f"P{i}", "bursts": [cpu_ns]} for i in range(processes)]
    result = json.loads(run_cpu_simulation(json.dumps({"tasks": tasks, "settings": settings})))
    return {
        "count": sum(task["calculations"] for task in result["tasks"]),
        "switches": result["summary"]["switches"],
    }


def interval(values: list[float]) -> tuple[float, float, float]:
    """Geometric mean and its 95 % t interval."""
    logs = [math.log(value) for value in values]
    mean, half = statistics.mean(logs), half_width(logs)
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
    settings = {
        slice_ms: Settings(
            options.processes,
            parse_time_ns(options.time),
            CpuPolicy("rr", slice_ms=slice_ms),
            (options.cpu,),
            tell_slices=True,
        )
        for slice_ms in (options.short, options.long)
    }
    counts, switches = [], []
    with Control(report=lambda line: print(line, file=sys.stderr)) as control:
        for pair in range(options.pairs):
            order = sorted(settings, reverse=pair % 4 in (0, 3))
            runs = {slice_ms: measure(control, settings[slice_ms]) for slice_ms in order}
            short, long = runs[options.short], runs[options.long]
            calculation_ns = short["plain_ns"] * long["calculation_ns"] / long["plain_ns"]
            predicted = {
                what: predict(
                    options.processes,
                    short[cpu_ns],
                    short["quantum_ms"],
                    options.switch_cost,
                    calculation_ns,
                )[what]
                for what, cpu_ns in (("count", "cpu_ns"), ("switches", "whole_bursts_ns"))
            }
            counts.append(short["count"] / predicted["count"])
            switches.append(short["switches"] / predicted["switches"])
            print(
                f"quantum {short['quantum_ms']} ms: {short['count']} counted, "
                f"{predicted['count']} predicted; {short['switches']} switches, "
                f"{predicted['switches']} predicted; {short['interruptions']} interruptions",
                file=sys.stderr,
            )
    for name, values in (("counts", counts), ("switches", switches)):
        mean, low, high = interval(values)
        holds = "inside" if low <= 1 <= high else "outside"
        print(f"{name}: measured / predicted {mean:.4f} [{low:.4f}, {high:.4f}], 1 is {holds}")


if __name__ == "__main__":
    main()
