"""Small CPU workloads on the running kernel, held to its own account: CPU time, bytes, switches."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from schedlab.app.admit import admit
from schedlab.app.measure.measure import SILENT, opened
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import Candidate, Cell, Experiment, Stopping, Target, Workload
from schedlab.run.admitted import Permission

pytestmark = [
    pytest.mark.alone,  # its figures are CPU time
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: cpu cgroups"),
]
LAST = max(os.sched_getaffinity(0))
SHOWS = "import os; print('cpus', sum(1 << c for c in os.sched_getaffinity(0)), os.getcwd())"
# What is measured: small enough for a second each, many enough to count.
WORK: dict[str, tuple[str, dict[str, Any]]] = {
    "wakeup": ("wakeup", {"messengers": 2, "workers": 3, "rate": 150.0, "work_us": 500.0,
                          "seconds": 1.5, "load": 0}),
    "mixed": ("mixed", {"tasks": 2, "period_us": 4000.0, "work_us": 200.0, "seconds": 1.0,
                        "ramp_seconds": 0.1, "load": 2}),
    "behind": ("mixed", {"period_us": 10_000.0, "work_us": 15_000.0, "seconds": 1.0, "load": 3,
                         "ramp_seconds": 0.1, "cpus": [LAST]}),
    "pipes": ("messaging", {"pairs": 3, "rounds": 500, "message_bytes": 200, "load": 0}),
    "sockets": ("messaging", {"pairs": 2, "rounds": 900, "message_bytes": 700, "sockets": True,
                              "load": 0}),
    "pipe": ("pipe", {"rounds": 20_000, "load": 0, "cpus": [LAST]}),
    "endless": ("pipe", {"rounds": 10**9, "seconds": 0.3, "load": 2}),
    "forks": ("fork-storm", {"slots": 3, "children": 20, "work_us": 10_000.0, "load": 0}),
    "programs": ("fork-storm", {"slots": 2, "children": 20, "work_us": 1.0, "load": 0,
                                "exec": True}),
    "groups": ("groups", {"weights": [100, 700], "seconds": 1.0, "cpus": [LAST],
                          "period_us": 5000.0}),
    "command": ("cpu-command", {"argv": [sys.executable, "-S", "-c", SHOWS], "cpus": [LAST],
                                "directory": "/usr/bin", "load": 2,
                                "extract": ["cpus::higher=stdout~cpus (.*) /usr/bin"]}),
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What the kernel says of the processes of one run, all of which were awaited by this one."""

    seconds: float
    cpu_s: float
    switches: int
    written_bytes: int


def account() -> Seen:
    """The same of all processes so far; what a process wrote is added to the one that awaits it."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = dict(row.split(": ") for row in Path("/proc/self/io").read_text().splitlines())
    cpu_s = usage.ru_utime + usage.ru_stime
    switches = usage.ru_nvcsw + usage.ru_nivcsw
    return Seen(time.monotonic(), cpu_s, switches, int(rows["wchar"]))


class Bench:
    """The session of all workloads under the usual policy."""

    def __init__(self, session: Any, experiment: Experiment) -> None:
        self.session = session
        self.works = {each.label: each for each in experiment.workloads}
        self.candidate = experiment.candidates[0]

    def measure(self, name: str) -> tuple[Outcome, Seen]:
        """One run, and what the kernel saw meanwhile."""
        cell = Cell(0, 0, name, self.candidate.label, seed=7)
        before = account()
        outcome = self.session.measure(cell, self.works[name], self.candidate)
        after = account()
        change = (getattr(after, key) - getattr(before, key) for key in Seen.__annotations__)
        assert isinstance(outcome, Outcome)
        return outcome, Seen(*change)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        experiment = Experiment(
            title="small work", kind="cpu", target=Target("none"),
            candidates=(Candidate("other", {"policy": "other"}),), baseline="other", seed=1,
            workloads=tuple(
                Workload(name, kind, "cpu_s", parameters)
                for name, (kind, parameters) in WORK.items()
            ),
            stopping=Stopping("fixed", 1), aa_arm=False,
        )  # fmt: skip
        with opened(admit(experiment, Permission()), SILENT) as session:
            yield Bench(session, experiment)


def requests(outcome: Outcome, name: str = "latency_ns") -> int:
    return sum(row[2] for row in outcome.histograms[name])


@pytest.mark.machine
@pytest.mark.parametrize(
    "name", ["wakeup", "pipes", "sockets", "pipe", "forks", "programs", "groups"]
)
def test_cpu_time_is_what_the_kernel_charged(bench: Bench, name: str) -> None:
    outcome, kernel = bench.measure(name)
    # Whole microseconds of each process.
    assert outcome.metrics["cpu_s"] == pytest.approx(kernel.cpu_s, abs=1e-4)
    assert outcome.metrics["cpu_s"] > 0.002
    assert "load_work_per_s" not in outcome.metrics
    if "elapsed_s" in outcome.metrics:
        assert 0 < outcome.metrics["elapsed_s"] < kernel.seconds
        assert outcome.bounds == {}
        assert "limit" not in {gate.gate for gate in outcome.gates}


@pytest.mark.machine
def test_requests_come_at_the_rate_that_is_asked(bench: Bench) -> None:
    outcome, kernel = bench.measure("wakeup")
    planned = requests(outcome)
    # 6 workers, 150 a second, 1.5 s, Poisson: 1350 with a deviation of 37.
    assert 1130 < planned < 1570
    served = planned - outcome.properties["unfinished"]
    assert outcome.metrics["requests_per_s"] * 1.5 == pytest.approx(served)
    assert 0 < requests(outcome, "wakeup_ns") <= served
    # Half a millisecond each, also in the ramp of 0.3 s.
    assert 0.4 < kernel.cpu_s / (1.2 * served * 0.0005) < 2.5
    assert 1.8 < kernel.seconds < 8


@pytest.mark.machine
def test_pieces_of_work_are_planned_by_the_clock(bench: Bench) -> None:
    outcome, kernel = bench.measure("mixed")
    # 250 periods of 4 ms in the second, of each of two tasks.
    assert requests(outcome) == 500
    metrics = outcome.metrics
    assert metrics["response_ns_max"] - metrics["lateness_ns_max"] == pytest.approx(200_000)
    assert metrics["response_ns_p50"] > 80_000
    # The rest of the CPU time is the load's, in pieces of 100 µs.
    load_s = metrics["load_work_per_s"] * 100e-6
    assert metrics["cpu_s"] < kernel.cpu_s
    assert 0.4 < load_s / (kernel.cpu_s - metrics["cpu_s"]) < 2.5


@pytest.mark.machine
def test_pieces_that_never_came_are_waited_for(bench: Bench) -> None:
    outcome, _ = bench.measure("behind")
    # 100 pieces of 15 ms are planned in the second, beside hogs that want it all.
    assert requests(outcome) == 100
    assert outcome.properties["unfinished"] > 50
    assert {"lateness_ns_p50", "response_ns_mean", "response_ns_max"} <= set(outcome.bounds)
    assert outcome.metrics["response_ns_max"] > 500e6


@pytest.mark.parametrize(("name", "size"), [("pipes", 9 * 500 * 200), ("sockets", 4 * 900 * 700)])
def test_every_message_is_written(bench: Bench, name: str, size: int) -> None:
    _, kernel = bench.measure(name)
    assert size <= kernel.written_bytes < 1.05 * size


@pytest.mark.machine
def test_a_pair_takes_turns(bench: Bench) -> None:
    outcome, kernel = bench.measure("pipe")
    # A byte in both directions; on one CPU each read of it waits for the other task.
    assert 40_000 <= kernel.written_bytes < 42_000
    assert 20_000 <= kernel.switches < 90_000
    rate, elapsed_s = (outcome.metrics[name] for name in ("rounds_per_s", "elapsed_s"))
    assert rate * elapsed_s == pytest.approx(20_000)


@pytest.mark.machine
def test_children_are_born_and_work(bench: Bench) -> None:
    before = forked()
    outcome, kernel = bench.measure("forks")
    assert forked() - before >= 3 + 60
    rate, elapsed_s = (outcome.metrics[name] for name in ("children_per_s", "elapsed_s"))
    assert rate * elapsed_s == pytest.approx(60)
    # 60 of 10 ms, each with what a fork costs.
    assert 0.4 < kernel.cpu_s / 0.6 < 3


def forked() -> int:
    """Processes since the start of the machine."""
    rows = Path("/proc/stat").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("processes "))


def test_programs_are_executed(bench: Bench) -> None:
    """A program costs page faults, a child that only ends has few."""
    faults = []
    for name in ("programs", "forks"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        bench.measure(name)
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        faults.append((after - before) / {"programs": 40, "forks": 60}[name])
    assert faults[0] > 30 + faults[1]


@pytest.mark.machine
def test_work_without_an_end_counts_with_its_limit(bench: Bench) -> None:
    outcome, kernel = bench.measure("endless")
    assert outcome.metrics["elapsed_s"] == 0.3
    assert "cpu_s" not in outcome.metrics
    assert outcome.bounds == {"elapsed_s": "at-least"}
    assert outcome.properties["censored"] is True
    (gate,) = (each for each in outcome.gates if each.gate == "limit")
    assert gate.detail == "it was still running after 0.3 s and counts with that time"
    assert not gate.fatal
    assert 0.3 < kernel.seconds < 5
    # Two hogs beside it: at most 0.6 s in pieces of 100 µs, and some.
    assert 0 < outcome.metrics["load_work_per_s"] < 2 * 1e4 * len(os.sched_getaffinity(0))


@pytest.mark.machine
def test_groups_share_by_their_weights(bench: Bench) -> None:
    outcome, kernel = bench.measure("groups")
    assert outcome.properties["asked"] == [0.125, 0.875]
    small, large = outcome.properties["shares"]
    assert small + large == pytest.approx(1)
    assert large > 2 * small
    worst = max(abs(small / 0.125 - 1), abs(large / 0.875 - 1), 1e-6)
    assert outcome.metrics["share_error"] == pytest.approx(worst)
    # 200 periods of 5 ms in the second, of the sleeper of each group.
    assert requests(outcome) == 400
    # One CPU, for the window and the ramp of 0.3 s.
    assert 0.3 < kernel.cpu_s < 2.6


def test_a_command_is_where_it_was_told_to_be(bench: Bench) -> None:
    outcome, _ = bench.measure("command")
    assert outcome.metrics["cpus"] == 1 << LAST
    assert outcome.metrics["load_work_per_s"] > 0
