"""Goals: what `compare --goal` freezes, and what `analyse --goal` asks of runs that are there."""

import json

import pytest
import report_simulation as simulation
from click.testing import CliRunner
from schedlab.design.io_experiment import FAMILIES, Load, workloads

from schedlab import load, report
from schedlab.analyse import analyse, next_decision
from schedlab.analyse.objectives import choose
from schedlab.cli import cli
from schedlab.spec import METRICS, Samples, Stopping
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


def test_a_goal_chooses_the_metrics_and_opens_the_statement(folder):
    plain, asked = load(folder).verdict, load(folder, goal="latency").verdict
    assert plain.goal is None and not plain.statement.startswith("for ")
    assert asked.goal == "latency"
    assert asked.statement.startswith("for latency: over 8 workloads: ")
    metrics = {w.metric.name for w in asked.workloads.values()}
    assert metrics == {"latency_ns_p99", "reader_latency_ns_mean"}
    assert {flag.kind for flag in asked.flags} >= {"goal"}
    told = CliRunner().invoke(cli, ["analyse", str(folder), "--goal", "latency", "--json"])
    assert json.loads(told.stdout)["statement"] == asked.statement


@pytest.mark.parametrize(
    ("language", "start"),
    [("en", "For latency: "), ("ko", "지연 시간 기준"), ("ru", "Цель — задержка")],
)
def test_the_report_names_the_goal(folder, language, start):
    result = load(folder, goal="latency")
    assert report.text(result.record, result.verdict, lang=language).startswith(start)
    assert f"<h1>{start}" in report.html(result.record, result.verdict, lang=language)


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
    verdict = analyse(primary, baseline="none", goal="latency")
    assert verdict.workloads["copy"].best_set == ("none",)
    assert verdict.overall.best_set == ("none", "bfq")
    assert verdict.statement.startswith("for latency: on read: none and bfq are tied")
    (flag,) = verdict.flags
    assert flag.kind == "goal-not-measured" and "not part of the overall verdict" in flag.text
    asked = {"baseline": "none", "stopping": Stopping("until-decided", 40)}
    assert next_decision(primary, goal="latency", **asked).reason == "decided"
    nowhere = analyse(primary, baseline="none", goal="fairness")
    assert nowhere.statement.startswith("for fairness: over 2 workloads: ")
