"""CPU policies on the running kernel: effects whose sign the scheduler's rules fix."""

from __future__ import annotations

import json
import os
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from schedlab import _core
from schedlab.app.compare.cpu_comparison import CpuLoad, explain, policy_comparison
from schedlab.app.compare.own_work import OwnWork
from schedlab.app.measure.measure import run
from schedlab.cpu.policy import CpuPolicy
from schedlab.errors import HostError, SchedlabError, SpecError
from schedlab.host.safety import owned
from schedlab.host.safety.control import Control
from schedlab.host.settings import settings
from schedlab.nouns import Stopping
from schedlab.run.cpu.cpu_policies import CpuSettings, PolicyWatch
from schedlab.run.cpu.cpu_policy import parse_policies, policy_of

pytestmark = [
    pytest.mark.usefixtures("state"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: real-time policies, cpu cgroups"),
]


def runs_of(tmp_path: Path, load: CpuLoad, policies: str, *, blocks=4, few=None, **options):
    """The runs; `few` has parameters of workloads."""
    asked = policy_comparison(
        load, policies=policies, stopping=Stopping(blocks=blocks), aa_arm=False, seed=1, **options
    )
    works = [replace(work, parameters={**work.parameters, **(few or {}).get(work.kind, {})})
             for work in asked.workloads]  # fmt: skip
    result = run(replace(asked, workloads=tuple(works)), tmp_path / "out")
    return result.folder.runs()


def median(runs, candidate, metric):
    values = [r.metrics[metric] for r in runs if r.candidate == candidate and r.status == "ok"]
    assert values, [(run.candidate, run.gates) for run in runs]
    return statistics.median(values)


@pytest.mark.machine
@pytest.mark.alone
def test_fifo_wakes_at_least_ten_times_sooner_than_other_under_load(tmp_path):
    runs = runs_of(tmp_path, CpuLoad(["wakeup"], seconds=1.0), "other,fifo", blocks=3)
    # The 99th percentile of a second is that of a few requests: a host that takes the CPU away
    # for 10 ms decides it.
    other, fifo = (median(runs, each, "response_ns_p90") for each in ("other", "fifo"))
    assert fifo < other / 10
    served = [run.metrics["requests_per_s"] for run in runs if run.candidate == "fifo"]
    assert statistics.median(served) == pytest.approx(1600, rel=0.15)
    fifo_run = next(run for run in runs if run.candidate == "fifo")
    assert fifo_run.properties["effective"]["policy"] == 1
    assert fifo_run.properties["policy_share"] == 1.0
    assert "sched_rt_runtime_us" in fifo_run.properties["host"]


def test_a_candidate_without_a_setting_gets_the_one_that_was_found(state):
    """Else it would be measured under the setting of the candidate before it."""
    names = ("rr:20ms", "other:autogroup=off", "other")
    policies = [policy_of(each) for each in parse_policies(",".join(names))]
    names = ("sched_rr_timeslice_ms", "sched_autogroup_enabled")
    paths = [
        path for path in (settings.SYSCTL / "kernel" / name for name in names) if path.exists()
    ]
    found = [path.read_text() for path in paths]
    with Control() as control:
        host = CpuSettings(control, policies)
        for policy, expected in zip(policies, ({0: "20"}, {1: "0"}, {}), strict=True):
            host.apply(policy)
            now = [path.read_text().strip() for path in paths]
            assert now == [expected.get(i, text.strip()) for i, text in enumerate(found)]
    assert [path.read_text() for path in paths] == found


def test_a_real_time_load_on_every_cpu_is_refused_before_it_runs(tmp_path):
    """It would lock the machine: nothing else got a CPU until the run ended."""
    load = CpuLoad(["wakeup"], load=2, seconds=0.1)
    with pytest.raises(SpecError, match="locks the machine") as caught:
        runs_of(tmp_path, load, "other,fifo", blocks=1, apply_to="all")
    assert "keep a CPU free: --cpus" in caught.value.hint


@pytest.mark.machine
@pytest.mark.alone
def test_a_load_with_long_slices_is_preempted_sooner(tmp_path):
    load = CpuLoad(["wakeup"], seconds=1.5)
    policies = "other:slice=0.1ms,other:slice=100ms"
    runs = runs_of(tmp_path, load, policies, blocks=3, apply_to="load")
    short, long = (median(runs, f"other:slice={s}", "response_ns_mean") for s in ("0.1ms", "100ms"))
    assert long < short
    sliced = next(run for run in runs if run.candidate.endswith("100ms"))
    assert sliced.properties["effective"]["slice_ns"] == 100_000_000


@pytest.mark.machine
@pytest.mark.alone
def test_groups_reach_the_shares_of_their_weights(tmp_path):
    # One CPU: balancing among several moves hogs of both groups.
    load = CpuLoad(["groups"], seconds=2.0, cpus=(max(os.sched_getaffinity(0)),))
    runs = runs_of(tmp_path, load, "other", blocks=3)
    shares = [run.properties["shares"] for run in runs]
    assert statistics.median(first for first, _ in shares) == pytest.approx(0.25, abs=0.04)
    left = list(Path("/sys/fs/cgroup/cpu").glob(f"{owned.PREFIX}cpu-*"))
    assert left == []


@pytest.mark.machine
@pytest.mark.alone
def test_weight_and_idle_group_decide_who_waits(tmp_path):
    load = CpuLoad(["wakeup"], seconds=1.0)
    runs = runs_of(tmp_path, load, "other:weight=1000,other:weight=10", blocks=3)
    heavy, light = (median(runs, f"other:weight={w}", "response_ns_mean") for w in (1000, 10))
    assert heavy < light


def test_finite_workloads_end_and_count_everything(tmp_path):
    load = CpuLoad(["messaging", "pipe", "fork-storm", "mixed"], seconds=0.2, load=0)
    few = {"messaging": {"rounds": 10}, "pipe": {"rounds": 2000}, "fork-storm": {"children": 10}}
    runs = runs_of(tmp_path, load, "other,fifo", blocks=1, few=few)
    assert len(runs) == 8
    assert all(run.status == "ok" for run in runs)
    assert all(run.metrics["elapsed_s"] > 0 for run in runs if run.workload != "mixed")


@pytest.mark.machine
def test_a_command_runs_under_the_policy_that_it_is_given(tmp_path):
    program = (
        "import os, time; p = os.sched_getscheduler(0); "
        "time.sleep({0: 0.1, 1: 0.4, 3: 0.8}[p]); print('policy', p + 1)"
    )
    work = OwnWork([sys.executable, "-S", "-c", program],
                   metrics=["elapsed", "policy::lower=stdout~policy ([0-9]+)"])  # fmt: skip
    runs = runs_of(tmp_path, CpuLoad(work=work), "other,fifo,batch", blocks=3)
    printed = {run.candidate: run.metrics["policy"] for run in runs}
    assert printed == {"other": 1, "fifo": 2, "batch": 4}
    times = [median(runs, each, "elapsed_s") for each in ("other", "fifo", "batch")]
    assert times == sorted(times)


def test_a_command_that_sets_its_own_policy_is_found_out(tmp_path):
    program = (
        "import os, time; os.getpid(); "
        "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); time.sleep(2.5)"
    )
    work = OwnWork([sys.executable, "-S", "-c", program])
    runs = runs_of(tmp_path, CpuLoad(work=work), "batch", blocks=1)
    assert {g.gate for run in runs for g in run.gates if g.fatal} == {"policy-changed"}


def test_the_threads_of_a_command_are_looked_at_once_a_second_and_the_least_share_counts():
    own = SimpleNamespace(members=lambda: [(os.getpid(), "this")])
    watch = PolicyWatch(own, CpuPolicy(nice=os.nice(0)))
    shares = []
    for nice, is_due in ((0, True), (5, False), (5, True), (0, True)):
        watch._policy = CpuPolicy(nice=os.nice(0) + nice)
        watch._due = 0.0 if is_due else watch._due
        watch.look()
        shares.append(watch.share)
    assert shares == [1.0, 1.0, 0.0, 0.0]


def test_a_command_has_a_session_of_its_own_unless_asked_otherwise(tmp_path):
    program = "import os; print('leads', 1 + (os.getsid(0) == os.getpid()))"
    work = OwnWork([sys.executable, "-S", "-c", program],
                   metrics=["leads::lower=stdout~leads ([0-9]+)"])  # fmt: skip
    runs = runs_of(tmp_path, CpuLoad(work=work), "other,other:autogroup=shared", blocks=1)
    assert {run.candidate: run.metrics["leads"] for run in runs} == {
        "other": 2, "other:autogroup=shared": 1,
    }  # fmt: skip
    assert {run.properties["session"] for run in runs} == {"own", "shared"}


def test_a_command_that_fails_under_one_policy_ends_the_experiment(tmp_path):
    program = "import os, sys; sys.exit(3 * (os.sched_getscheduler(0) == os.SCHED_BATCH))"
    work = OwnWork([sys.executable, "-S", "-c", program])
    with pytest.raises(SchedlabError, match="status 3 3 times in a row under batch") as ended:
        runs_of(tmp_path, CpuLoad(work=work), "other,batch", blocks=3)
    assert ended.value.exit_code == 1


def test_warm_up_runs_every_policy_unmeasured(tmp_path):
    program = (
        f"import os; open({str(tmp_path / 'log')!r}, 'a').write(str(os.sched_getscheduler(0)))"
    )
    work = OwnWork([sys.executable, "-S", "-c", program], parameters={"warm_up": 2})
    runs_of(tmp_path, CpuLoad(work=work), "other,batch", blocks=1)
    seen = (tmp_path / "log").read_text()
    assert seen[:5] == "00033"  # the rehearsal, then the warm-up
    assert sorted(seen[5:]) == ["0", "3"]


def test_a_command_beside_hogs_reports_their_work(tmp_path):
    work = OwnWork(["/bin/sleep", "0.3"])
    runs = runs_of(tmp_path, CpuLoad(work=work, load=2), "other", blocks=1)
    assert runs[0].metrics["load_work_per_s"] > 0


def test_a_load_lasts_as_long_as_its_command_may(tmp_path, monkeypatch):
    jobs = []
    new_crew = _core.CpuCrew

    def noted(text):
        jobs.append(json.loads(text))
        return new_crew(text)

    monkeypatch.setattr(_core, "CpuCrew", noted)
    for limit_s, least_s in ((7200.0, 7200), (float("inf"), 10**8)):
        work = OwnWork(["/bin/sleep", "0.1"], parameters={"timeout_s": limit_s})
        where = tmp_path / f"{limit_s}"
        where.mkdir()
        runs_of(where, CpuLoad(work=work, load=1), "other", blocks=1)
        assert jobs.pop()["window_ns"] >= least_s * 10**9
    assert jobs == []


def test_a_load_that_the_kernel_refuses_is_an_error_with_a_hint(tmp_path, monkeypatch):
    def refused(text):
        raise PermissionError(1, "Operation not permitted", "policy")

    monkeypatch.setattr(_core, "CpuCrew", refused)
    load = CpuLoad(work=OwnWork(["true"]), load=1, cpus=(0,))
    with pytest.raises(HostError, match="the kernel refused policy fifo") as error:
        runs_of(tmp_path, load, "fifo", blocks=1, apply_to="all")
    assert error.value.hint


def test_every_run_has_its_number_and_its_phases_have_its_seed(tmp_path):
    phases = {name: f"echo {name} @run@ @seed@ >> {tmp_path}/log" for name in
              ("setup", "prepare_run", "conclude_run", "cleanup")}  # fmt: skip
    line = f"echo work $SCHEDLAB_RUN $SCHEDLAB_SEED >> {tmp_path}/log"
    work = OwnWork([line], True, parameters=phases)
    runs = runs_of(tmp_path, CpuLoad(work=work), "other,batch", blocks=1)
    rows = [each.split() for each in (tmp_path / "log").read_text().splitlines()]
    cycle = ["prepare_run", "work", "conclude_run"]
    assert [name for name, _, _ in rows] == ["setup", *cycle, *cycle, *cycle, "cleanup"]
    assert len({number for _, number, _ in rows}) == 5
    for i, seed in enumerate([0, *(each.seed for each in runs)]):
        of_run = rows[1 + 3 * i : 4 + 3 * i]
        assert {int(row[2]) for row in of_run} == {seed}
        assert len({row[1] for row in of_run}) == 1


@pytest.mark.alone
def test_the_quantum_of_rr_is_set_and_restored(tmp_path):
    knob = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
    before = knob.read_text()
    runs = runs_of(tmp_path, CpuLoad(["pipe"], load=0), "rr:20ms,other", blocks=1)
    assert knob.read_text() == before
    quantum = next(run for run in runs if run.candidate.startswith("rr"))
    assert quantum.properties["knobs"]["knob.sched_rr_timeslice_ms"] == "20"


def test_refusals_say_why(tmp_path):
    with pytest.raises(SpecError, match="locks the machine"):
        runs_of(tmp_path, CpuLoad(["wakeup"]), "other,fifo", apply_to="load")
    with pytest.raises(SpecError, match="lets no DEADLINE task fork"):
        runs_of(tmp_path, CpuLoad(["fork-storm"], load=0), "other,deadline")
    if not Path("/sys/kernel/sched_ext").exists():
        with pytest.raises(HostError, match="CONFIG_SCHED_CLASS_EXT"):
            runs_of(tmp_path, CpuLoad(["pipe"]), "other,ext:scx_lavd")


@pytest.mark.machine
def test_deadline_tasks_are_admitted_and_served(tmp_path):
    runs = runs_of(tmp_path, CpuLoad(["mixed"], seconds=1.5), "other,deadline:slice=3ms", blocks=1)
    assert all(run.status == "ok" for run in runs), [run.gates for run in runs]


@pytest.mark.machine
@pytest.mark.alone
def test_an_explanatory_run_says_how_long_tasks_waited_for_a_cpu(tmp_path):
    asked = policy_comparison(
        CpuLoad(["wakeup"], seconds=0.5), policies="other,fifo", stopping=Stopping(blocks=1),
        aa_arm=False, seed=1,
    )  # fmt: skip
    result = run(asked, tmp_path / "out")
    lines = explain(result)
    if lines and "the waiting times are unknown" in lines[0]:
        pytest.skip(lines[0])
    rows = json.loads((tmp_path / "out" / "raw" / "run-queue.json").read_text())
    waits = {(r["candidate"], r["side"], r["after"]): r for r in rows}
    fifo, other = (waits[name, "work", "wake-up"] for name in ("fifo", "other"))
    assert all(r["mean_ns"] <= 0.99 * r["p99_ns"] + 0.01 * r["max_ns"] + 1 for r in rows)
    assert fifo["waits"] > 100
    assert fifo["mean_ns"] < other["mean_ns"]
    assert waits["other", "load", "preemption"]["waits"] > 0


def test_the_command_of_a_candidate_runs_and_is_undone(tmp_path):
    """`run` and `undo` in turns, the second candidate's as the first one's, and none is left."""
    log = tmp_path / "log"
    candidates = [
        f"{name}=other run='echo {name} >>{log}' undo='echo no-{name} >>{log}'" for name in "ab"
    ]
    asked = policy_comparison(
        CpuLoad(["pipe"], seconds=0.05, load=0), policies=None, candidates=candidates,
        switch=("run",), stopping=Stopping(blocks=2), aa_arm=False, seed=1,
    )  # fmt: skip
    run(asked, tmp_path / "out")
    lines = log.read_text().split()
    assert lines[1::2] == [f"no-{name}" for name in lines[::2]]
    assert {*lines[::2]} == {"a", "b"} and len(lines) % 2 == 0
