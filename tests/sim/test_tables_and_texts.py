"""Tables and sentences of the simulators, from figures that are known, and jobs from settings."""

import dataclasses
import json

import pytest

from schedlab.errors import SpecError
from schedlab.nouns import Stopping
from schedlab.nouns.convert import to_json
from schedlab_sim.experiments import (
    experiment_of,
    judged_by_rate,
    policy_candidates,
    simulation_of,
)
from schedlab_sim.judge import parse_warm_up, run_warm, verdict_of, warnings_of
from schedlab_sim.simulation import Simulation
from schedlab_sim.simulation_set import SimulationSet

KIB, MIB = 1 << 10, 1 << 20


def steady(**changes):
    no = dict.fromkeys(("is_overloaded", "is_steady", "is_too_short", "is_cold"), False)
    return {**no, "backlog": 0, "cold_requests": 0, "cut_share": 0.0, "cut_requests": 0, **changes}


def test_verdicts_on_a_run():
    every = {"is_overloaded": True, "is_steady": True, "is_too_short": True}
    assert verdict_of(steady(**every)) == "overloaded"
    assert verdict_of(steady(is_steady=True, is_too_short=True)) == "steady"
    assert verdict_of(steady(is_too_short=True)) == "too short"
    assert verdict_of(steady(is_cold=True, is_too_short=True)) == "cold"
    assert verdict_of(steady()) == "transient"


def test_warnings_about_a_run_have_its_figures(golden):
    report = {"iops": 1500.0, "requests": 4000}
    cases = [steady(is_overloaded=True, backlog=1000), steady(cut_share=0.35),
             steady(is_cold=True, cold_requests=3900)]  # fmt: skip
    texts = [text for case in cases for text in warnings_of("tsb", report | {"steady": case})]
    golden("sim-warnings.txt", "\n".join(texts))
    for quiet in (steady(is_steady=True), steady(is_too_short=True)):
        assert warnings_of("s", report | {"steady": quiet}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", None), ("none", {}), ("0", {"requests": 0}), ("250", {"requests": 250}),
        ("2s", {"time": "2s"}), ("15ms", {"time": "15ms"}),
    ],
)  # fmt: skip
def test_a_warm_up_is_a_word_a_number_or_a_time(text, expected):
    assert parse_warm_up(text) == expected


@pytest.mark.parametrize("text", ["", "a", "all", "later", "nothing", "s2", "zero", "-5"])
def test_another_warm_up_is_refused(text):
    with pytest.raises(SpecError, match=f"--warm-up {text}: expected none, auto"):
        parse_warm_up(text)


def test_an_automatic_warm_up_is_the_longest_of_all_runs():
    runs = [Simulation(policy=policy, requests=400, seed=3) for policy in ("fcfs", "s", "tsb")]
    cuts = [one.run().report["steady"]["cut_requests"] for one in runs]
    assert max(cuts) > min(cuts)
    warm = [result.report for result in run_warm(runs, "auto")]
    expected = {"requests": max(cuts)}
    assert warm == [dataclasses.replace(one, warm_up=expected).run().report for one in runs]
    assert [result.report for result in run_warm(runs, "none")] == [
        one.run().report for one in runs
    ]
    (counted,) = run_warm(runs[:1], "100")
    assert counted.report == dataclasses.replace(runs[0], warm_up={"requests": 100}).run().report


def ssd(workloads="AD", device_set=None, **changes):
    first = Simulation(service="serial", requests=300, device_set=device_set or {})
    candidates = policy_candidates("fcfs,tsb:alpha=0.95")
    return experiment_of(
        SimulationSet("ssd", first, candidates, tuple(workloads), range(5, 9), **changes)
    )


def test_experiments_on_policies_of_an_ssd_and_of_a_disk(golden):
    """What --metric names decides, and no goal beside it; a disk in a closed loop by its rate."""
    disk = Simulation(device="disk7200", requests=200, seed=3, device_set={"rpm": 5400})
    ones = {
        "ssd": ssd(device_set={"buffer.size": "32MiB"}),
        "ssd by rate": ssd(metric="iops"),
        "disk": disks(disk, "sptf,fcfs", range(3, 5)),
        "disk with a rate": disks(dataclasses.replace(disk, rate=40.0), "sptf,fcfs", range(3, 5)),
    }
    said = {n: {k: v for k, v in to_json(one).items() if v} for n, one in ones.items()}
    golden("sim-experiments.json", json.dumps(said, indent=1))
    with pytest.raises(SpecError, match="--metric speed is not known") as caught:
        ssd(metric="speed")
    assert "mean_read_ms" in caught.value.hint
    made = simulation_of(ones["ssd"].workloads[1], ones["ssd"].candidates[1], 9)
    assert made == Simulation(
        policy="tsb", policy_set={"alpha": "0.95"}, workload="D", requests=300, seed=9,
        service="serial", device_set={"buffer.size": "32MiB"},
    )  # fmt: skip
    (workload,) = ones["disk"].workloads
    assert simulation_of(workload, ones["disk"].candidates[1], 8) == dataclasses.replace(
        disk, policy="fcfs", workload="random4k", seed=8
    )


def test_an_experiment_after_its_warm_up():
    one = ssd(workloads=("D",), warm_up="100")
    (workload,) = one.workloads
    made = simulation_of(workload, one.candidates[0], 2)
    warm_up = {"requests": 100}
    assert made == Simulation(
        policy="fcfs", workload="D", requests=300, seed=2, warm_up=warm_up, service="serial"
    )
    assert "warm_up" not in ssd(warm_up="none").workloads[0].parameters
    for text, message in (("auto", "warm-up auto: the runs"), ("zero", "--warm-up zero")):
        with pytest.raises(SpecError, match=message):
            ssd(warm_up=text)
        unfit = dataclasses.replace(workload, parameters={**workload.parameters, "warm_up": text})
        with pytest.raises(SpecError, match=message):
            simulation_of(unfit, one.candidates[0], 2)


def test_policies_in_files_stay_where_they_were_typed():
    """The first is the baseline, be it a file or a name; a parameter follows its own policy."""
    several = policy_candidates(
        "mine.py:Second,row=3,name=a:b,tsb:alpha=0.95,aging=every-arrival, dir/mine.py:First,s,fcfs"
    )
    assert [dict(each.settings) for each in several] == [
        {"policy": "mine.py:Second,row=3,name=a:b"},
        {"policy": "tsb", "alpha": "0.95", "aging": "every-arrival"},
        {"policy": "dir/mine.py:First"},
        {"policy": "s"},
        {"policy": "fcfs"},
    ]
    labels = ["Second:row=3,name=a:b", "tsb:alpha=0.95,aging=every-arrival", "First", "s", "fcfs"]
    assert [each.label for each in several] == labels
    (alone,) = policy_candidates("mine.py:Only,")
    assert (alone.label, dict(alone.settings)) == ("Only", {"policy": "mine.py:Only"})
    assert [each.label for each in policy_candidates("tsb,tsb")] == ["tsb", "tsb#2"]
    # Two versions of one class are two policies.
    twice = policy_candidates("a.py:Mine,b.py:Mine")
    assert [each.label for each in twice] == ["Mine", "Mine#2"]
    for text in ("", "mine.py:Only,x y"):
        with pytest.raises(SpecError, match="is not understood"):
            policy_candidates(text)


def disks(first, policies, seeds):
    return experiment_of(
        SimulationSet("disk", first, policy_candidates(policies), ("random4k",), seeds)
    )


@pytest.mark.parametrize(
    ("policies", "seeds", "is_allowed"),
    [
        ("fcfs,sptf", 2, True),
        ("fcfs,sptf,scan", 3, True),
        ("fcfs,sptf", 1, False),
        ("fcfs", 2, False),
    ],
)
def test_a_verdict_on_a_disk_needs_different_policies_and_seeds(policies, seeds, is_allowed):
    if is_allowed:
        one = disks(Simulation(device="disk7200"), policies, range(seeds))
        assert len(one.candidates) == policies.count(",") + 1
        return
    with pytest.raises(SpecError, match="two different policies and two seeds"):
        disks(Simulation(device="disk7200"), policies, range(seeds))


def overloads(policy, seed, rate):
    one = Simulation(device="disk7200", policy=policy, rate=rate, requests=1000, seed=seed)
    return bool(one.run()["steady"]["is_overloaded"])


def test_a_workload_that_overloads_a_policy_at_some_seed_is_judged_by_its_rate():
    verdicts = [overloads("fcfs", seed, 81) for seed in range(1, 6)]
    # Two seeds of which only the second one is overloaded.
    start = next(at for at in range(1, 5) if verdicts[at - 1 : at + 1] == [False, True])
    first = Simulation(device="disk7200", rate=81.0, requests=1000, seed=start)
    seeds = range(start, start + 2)
    fine = disks(dataclasses.replace(first, rate=20.0), "fcfs,sptf", seeds)
    both = disks(first, "fcfs,sptf", seeds)
    label = dataclasses.replace(fine.workloads[0], label="slow")
    both = dataclasses.replace(both, workloads=(label, *both.workloads))
    judged, notes = judged_by_rate(both)
    assert notes == [
        "random4k: fcfs overloaded, sptf stable: no verdict on response times, which grow with "
        "the length of the run; compared by iops"
    ]
    assert judged.workloads[0] == label
    assert judged.workloads[1].metric == "iops"
    assert judged.workloads[1].secondary == ("throughput_bytes_per_s",)
    assert dataclasses.replace(judged, workloads=both.workloads) == both
    one = dataclasses.replace(both, stopping=Stopping("fixed", 1))
    assert judged_by_rate(one) == (one, [])
    hopeless = disks(dataclasses.replace(first, rate=900.0), "fcfs,sptf", seeds)
    assert "fcfs, sptf overloaded, none stable" in judged_by_rate(hopeless)[1][0]


def test_a_workload_of_a_disk_is_what_was_set():
    """Every field reaches the requests, as the log has them; a trace has its own."""
    one = Simulation(
        device="disk7200", workload="mixed4k", record="8192", span="1G", depth=3, requests=300,
        seed=7, log=True,
    )  # fmt: skip
    log = one.run().log
    assert len(log) == 300 and set(log["length_bytes"]) == {8192}
    assert set(log["operation"]) == {0, 1} and (1 << 29) < log["offset_bytes"].max() < 1 << 30
    came, done = log["arrival_ns"], log["completed_ns"]
    assert max(int(((came <= now) & (done > now)).sum()) for now in came) == 3
    whole = dataclasses.replace(one, span="0", record=None, depth=None, rate=40.0).run().log
    assert whole["offset_bytes"].max() > 1 << 38 and set(whole["length_bytes"]) == {4096}
    assert whole["arrival_ns"].max() == pytest.approx(300 / 40 * 1e9, rel=0.2)
    for name, operation, length in (
        ("random64k", 0, 65536), ("randwrite4k", 1, 4096), ("seqread", 0, 131072),
        ("seqwrite", 1, 131072),
    ):  # fmt: skip
        log = Simulation(device="disk7200", workload=name, requests=9, log=True).run().log
        assert (set(log["operation"]), set(log["length_bytes"])) == ({operation}, {length})
        assert (list(log["offset_bytes"]) == [*range(0, 9 * length, length)]) == ("seq" in name)


@pytest.mark.parametrize(
    "field",
    [{"record": "4k"}, {"span": "1G"}, {"depth": 2}, {"rate": 3.0}, {"workload": "random4k"},
     {"tags": 3}, {"processes": "readers3"}, {"policy_set": {"alpha": 0.5}}, {"size": "1G"}],
)  # fmt: skip
def test_a_field_that_would_change_nothing_is_refused(tmp_path, field):
    path = tmp_path / "t.csv"
    path.write_text("0,1,512,r,0\n0,9,512,r,1\n")
    one = Simulation(device="disk7200", trace=path, format="spc")
    assert one.run()["requests"] == 2
    with pytest.raises(SpecError, match=r"would change nothing|a trace fixes its own sizes"):
        dataclasses.replace(one, **field).run()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requests": 0}, "requests = 0: expected at least 1"),
        ({"depth": 0}, "depth = 0: expected at least 1"),
        ({"depth": 1, "rate": 1.0}, "workload: depth and rate cannot be used together"),
        ({"rate": float("inf")}, "rate_per_s = inf: expected a positive number"),
        ({"workload": "random9k"}, 'workload = "random9k" is not known: expected one of random4k'),
    ],
)
def test_a_job_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(SpecError) as caught:
        Simulation(device="disk7200", **changes).run()
    assert str(caught.value).startswith(message) and caught.value.hint
