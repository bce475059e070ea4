"""The planned time of simulations: measured on short ones, not a constant for each run."""

import dataclasses
import os
import time

import pytest

from schedlab.kinds.resolved import Outcome
from schedlab.nouns import Candidate, Experiment, Stopping, Target, Workload
from schedlab_sim import session as sim


def experiment(*works, blocks=8):
    candidates = (Candidate("fcfs", {"policy": "fcfs"}), Candidate("s", {"policy": "s"}))
    return Experiment("t", "sim", Target("none"), candidates, works, "fcfs", 1,
                      stopping=Stopping("fixed", blocks), aa_arm=False)  # fmt: skip


def ssd(label, **parameters):
    return Workload(label, "ssd", "iops", {"device": "ncq2014", **parameters})


@pytest.mark.parametrize(
    ("work", "cost_s"),
    [
        (ssd("few", requests=500), 0.25 + 500e-4),
        (ssd("usual"), 0.25 + 20_000e-4),
        (ssd("many", requests=300_000), 0.25 + 300_000e-4),
        (Workload("disk", "disk", "iops", {}), 0.25 + 10_000e-4),
        (Workload("host", "host-queue", "iops", {"seconds": 40.0}), 0.25 + 40 * 2.0),
    ],
)
def test_a_run_is_as_long_as_its_requests_and_what_comes_before_them(work, cost_s, monkeypatch):
    """On a clock of our own: each request takes 0.1 ms, a simulated second 2 s, the start 0.25."""
    now = [0.0]

    def simulated(pair, seed, stop=None):
        parameters = pair[0].parameters
        now[0] += 0.25 + 1e-4 * parameters.get("requests", 0) + 2 * parameters.get("seconds", 0)
        return Outcome({})

    monkeypatch.setattr(sim, "outcome_of", simulated)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    candidates = (Candidate("a", {}), Candidate("b", {}))
    asked = dataclasses.replace(experiment(work), candidates=candidates)
    fixed_s = 16 * sim.STORED_S + sim.REPORTED_S
    expected_s = 16 * cost_s / min(16, os.cpu_count() or 1) + fixed_s
    assert sim.seconds_of(asked, 16) == pytest.approx(expected_s, rel=0.01)


def test_many_short_simulations_are_not_planned_as_a_second_each():
    """1,134 runs of 1 ms were "about 21 min"."""
    works = [ssd(f"w{n}", requests=50) for n in range(60)]
    assert sim.seconds_of(experiment(*works), 1134) < 300


@pytest.mark.machine
@pytest.mark.parametrize("device", ["ncq2014", "nvme", "sata-ssd", "sd-card"])
def test_the_time_is_within_a_factor_of_two(device):
    asked = experiment(ssd("w", device=device, requests=100_000), blocks=4)
    start = time.perf_counter()
    for block in range(asked.stopping.blocks):
        for candidate in asked.candidates:
            sim.outcome_of((asked.workloads[0], candidate), block)
    took_s = (time.perf_counter() - start) / min(8, os.cpu_count() or 1)
    planned_s = sim.seconds_of(asked, 8) - 8 * sim.STORED_S - sim.REPORTED_S
    assert took_s / 2 < planned_s < took_s * 2
