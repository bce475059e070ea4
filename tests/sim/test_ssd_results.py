"""What the simulated SSD must show on the workloads of the NCQ paper: 8 seeds of 20,000 requests,
ratios to FCFS of the means over the seeds."""

import math
from functools import cache

import pytest

from schedlab_sim.pool import run_threads
from schedlab_sim.simulation import Simulation

SEEDS = range(1, 9)


@cache
def mean(workload: str, policy: str, buffer: str, metric: str, alpha: float, service: str) -> float:
    return math.fsum(
        metrics[metric] for metrics in runs(workload, policy, buffer, alpha, service)
    ) / len(SEEDS)


@cache
def runs(workload: str, policy: str, buffer: str, alpha: float, service: str) -> list[dict]:
    simulations = [
        Simulation(
            workload=workload,
            policy=policy,
            service=service,
            requests=20_000,
            seed=seed,
            device_set={"buffer.size": buffer},
            policy_set={"alpha": alpha},
        )
        for seed in SEEDS
    ]
    return [result.metrics for result in run_threads(simulations)]


def ratio(
    workload: str,
    policy: str,
    buffer: str,
    metric: str,
    alpha: float = 0.9,
    service: str = "serial",
) -> float:
    reference = mean(workload, "fcfs", buffer, metric, 0.9, service)
    return mean(workload, policy, buffer, metric, alpha, service) / reference


@pytest.mark.parametrize(
    ("policy", "low", "high", "at_095"),
    [("s", 0.53, 0.64, 0.50), ("ts", 0.30, 0.40, 0.25), ("tsb", 0.25, 0.33, 0.23)],
)
def test_reads_of_a_get_faster(policy: str, low: float, high: float, at_095: float) -> None:
    assert low <= ratio("A", policy, "64MiB", "mean_read_ms") <= high
    assert ratio("A", policy, "64MiB", "mean_read_ms", 0.95) == pytest.approx(at_095, abs=0.03)


def test_the_longest_write_grows_without_aging_and_the_knee_comes_after_09() -> None:
    longest = {
        alpha: mean("A", "tsb", "32MiB", "max_write_ms", alpha, "serial")
        for alpha in (0.5, 0.8, 0.9, 1.0)
    }
    assert longest[1.0] / longest[0.9] >= 2
    assert longest[0.9] == pytest.approx(388, rel=0.1)
    assert longest[1.0] == pytest.approx(1127, rel=0.1)
    assert longest[0.9] / longest[0.5] < 1.1


def test_reads_of_b_need_a_large_buffer_to_get_as_fast_as_published() -> None:
    assert ratio("B", "tsb", "32MiB", "mean_read_ms") == pytest.approx(0.77, abs=0.05)
    assert ratio("B", "tsb", "128MiB", "mean_read_ms") == pytest.approx(0.35, abs=0.06)


def test_on_d_tsb_costs_writes_little_and_is_no_better_for_reads_than_ts() -> None:
    assert 1.04 <= ratio("D", "tsb", "32MiB", "mean_write_ncq_ms") <= 1.10
    tsb, ts = (ratio("D", policy, "32MiB", "mean_read_ncq_ms") for policy in ("tsb", "ts"))
    assert tsb == pytest.approx(0.86, abs=0.03)
    assert ts == pytest.approx(0.76, abs=0.03)


def test_iops_hardly_change() -> None:
    assert ratio("A", "tsb", "64MiB", "iops") == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("workload", ["A", "D"])
def test_64_dies_in_parallel_leave_nothing_to_schedule(workload: str) -> None:
    for policy in ("ts", "tsb"):
        for metric in ("mean_read_ms", "mean_write_ms"):
            assert ratio(workload, policy, "64MiB", metric, service="parallel") >= 0.98


def test_shorter_arrival_inverts_to_longest_first_as_alpha_vanishes() -> None:
    def longest(aging: str, alpha: float, policy: str = "ts") -> float:
        result = Simulation(
            workload="A",
            policy=policy,
            device_set={"buffer.size": "64MiB"},
            policy_set={"alpha": alpha, "aging": aging},
        ).run()
        return max(result.metrics["max_read_ms"], result.metrics["max_write_ms"])

    fcfs = longest("dispatch-overtake", 0.9, "fcfs")
    assert longest("dispatch-overtake", 1e-6) / fcfs < 1.2
    assert longest("shorter-arrival", 1e-2) / fcfs > 4
    assert longest("every-arrival", 1e-6) == pytest.approx(fcfs)
