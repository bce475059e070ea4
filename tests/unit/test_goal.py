"""Goals: what `compare --goal` freezes, and what `analyse --goal` asks of runs that are there."""

import re

import pytest
import report_simulation as simulation

from schedlab import load
from schedlab.analyse import answer
from schedlab.analyse.objectives import DECIDING, choose
from schedlab.design.io_families import FAMILIES, Load, workloads
from schedlab.kinds import KINDS
from schedlab.nouns import METRICS, Samples
from schedlab.store.folder import Folder


@pytest.mark.parametrize("goal", ["latency", "fairness", "responsiveness"])
def test_what_is_frozen_for_a_goal_decides(goal):
    load_ = Load(("read",), (4096,), 1 << 20, 1.0)
    primary, secondary = [], []
    for work in workloads(tuple(FAMILIES), load_, goal):
        row = (("none",), (0,), (1.0,))
        primary.append(Samples(work.label, METRICS[work.metric], *row))
        secondary += [Samples(work.label, METRICS[name], *row) for name in work.secondary]
    chosen, _, flags = choose(primary, secondary, goal, frozen=True)
    assert chosen == primary
    lacking = {flag.workload for flag in flags if flag.kind == "goal-not-measured"}
    assert len(lacking) == len(flags) < len(primary)
    assert "reader beside writers" not in lacking
    again, _, _ = choose(primary, secondary, goal, frozen=False)
    assert {s.metric.name for s in again if s.workload in lacking} & {"elapsed_s"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    record = simulation.io_record(sizes=1, blocks=6)
    stored = Folder.create(
        tmp_path_factory.mktemp("goal") / "result", record.experiment, record.plan, record.host
    )
    for run in record.runs:
        stored.append(run)
    return stored.path


def test_a_goal_chooses_the_metrics(folder):
    plain, asked = load(folder).answer, load(folder, goal="latency").answer
    assert plain.goal is None and asked.goal == "latency"
    metrics = {row.metric.name for row in asked.rows if row.role == "primary"}
    assert metrics == {"latency_ns_p99", "reader_latency_ns_mean"}
    assert {flag.kind for flag in asked.flags} >= {"goal"}
    changed = next(flag for flag in asked.flags if flag.kind == "goal")
    assert changed.values["metric"] in metrics
    assert changed.values["frozen_metric"] not in metrics


def test_what_decides_and_what_kinds_report_are_metrics():
    assert {name for names in DECIDING.values() for name in names} <= set(METRICS)
    for name, kind in KINDS.items():
        assert set(kind.metrics) <= set(METRICS), name


def test_a_mean_that_decides_in_the_place_of_a_quantile_is_of_its_goal():
    for names in DECIDING.values():
        assert {re.sub("_p99?(_9)?$", "_mean", name) for name in names if "_ns_p9" in name} <= set(
            names
        )


def test_what_does_not_measure_the_goal_is_judged_apart():
    """Throughput separates the two, latency does not: for latency nothing else may count."""
    blocks = tuple(block for block in range(12) for _ in "ab")
    names = ("none", "bfq") * 12
    noise = [1 + 0.004 * ((7 * i) % 5 - 2) for i in range(24)]
    fast = tuple(n * (1.3 if name == "bfq" else 1.0) for n, name in zip(noise, names, strict=True))
    same = tuple(1e6 * n for n in reversed(noise))
    primary = [
        Samples("copy", METRICS["elapsed_s"], names, blocks, fast),
        Samples("read", METRICS["latency_ns_p99"], names, blocks, same),
    ]
    result = answer(primary, baseline="none", goal="latency", ends=(12,))
    assert result.counted == ("read",) and result.row("copy").why == "other-goal"
    (flag,) = result.flags
    assert flag.kind == "goal-not-measured" and flag.values["apart"]
    nowhere = answer(primary, baseline="none", goal="fairness", ends=(12,))
    assert nowhere.counted == ("copy", "read")
    assert not any(flag.values["apart"] for flag in nowhere.flags)
