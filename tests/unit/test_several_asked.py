"""Of several files, statements, queues, programs, quanta, notes or figures each counts: what is
asked, looked at and told by commands, without the devices."""

import contextlib
import dataclasses
import json
import os
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from calls import refused
from experiments import experiment
from test_recommend import observed

from schedlab.app import admit, preview, targets
from schedlab.app.compare import cpu_comparison, difference, quanta, requirements
from schedlab.app.live import live
from schedlab.app.live.recommend import Sender, _senders, lines
from schedlab.app.measure import in_guest, measure, published, switch_cost
from schedlab.app.trace import block_io, timeline
from schedlab.app.tune import tune, view
from schedlab.errors import HostError, SpecError
from schedlab.kinds import OVERRIDE
from schedlab.kinds.command import Command
from schedlab.nouns import Candidate, GateFinding, Stopping, Target, Workload
from schedlab.nouns.durability import OPERATIONS, metric
from schedlab.run import gates
from schedlab.run.command import launch, workplace
from schedlab.run.cpu import cpu_calculations
from schedlab.run.executor import BUSY_GATES, Executor
from schedlab.store.bursts import as_csv as bursts_as_csv
from schedlab_sim import session as sim
from schedlab_sim.predict import fit, in_kernel, predict

ORDERS = [1, -1]


def test_every_file_that_runs_start_or_read_has_its_digest(tmp_path):
    names = ("a.ext", "b.ext", "p.py", "q.py", "m.toml", "k1", "k2", "k3", "run", "undo")
    path = {name: str(tmp_path / name) for name in names}
    for name in names:
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o755)
    arms = (
        *(Candidate(n, {"ext": path[f"{n}.ext"]}) for n in "ab"),
        *(Candidate(n, {"policy": f"{path[f'{n}.py']}:F"}) for n in "pq"),
        Candidate("c", {"run": path["run"], "undo": path["undo"]}),
    )
    asked = experiment(candidates=arms, baseline="a", target=Target("none", model=path["m.toml"]))
    kinds = [SimpleNamespace(brought=lambda of=of: [path[each] for each in of])
             for of in (("k1", "k2"), ("k3",))]  # fmt: skip
    digests = admit._digests(asked, kinds)
    assert {Path(each).name for each in digests} == {*names}
    assert len({*digests.values()}) == len(names)
    before = dict.fromkeys(digests, "x") | {path["k1"]: digests[path["k1"]]}
    assert {*admit._changed(before, digests)} == {*map(path.get, names)} - {path["k1"]}
    for changed, told in (("a", "a:"), ("ab", "a and b:"), ("abc", "a, b and c:")):
        assert refused(admit.require_unchanged, SimpleNamespace(changed=[*changed]))[0].startswith(
            told
        )


@pytest.mark.parametrize(("check", "wrong"), [
    (admit._check_head, {"notes": ("right", "also right", "not\x1b right")}),
    (admit._typed_kinds, {"workloads": tuple(
        Workload(name, "file-test", "iops", {"test": "random-read"}, secondary=also)
        for name, also in (("v", ()), ("w", ("iops", "throughput_bytes_per_s", "not right"))))}),
    (admit._typed_kinds, {"candidates": (Candidate("none", {"scheduler": "none"}), Candidate(
        "b", {"scheduler": "bfq", "slice_idle": 1, "not right": 2}))}),
])  # fmt: skip
def test_each_note_metric_and_setting_is_checked(check, wrong):
    works = (Workload("w", "file-test", "iops", {"test": "random-read"}),)
    check(experiment(workloads=works))
    assert "right" in refused(check, experiment(**({"workloads": works} | wrong)))[0]


@pytest.mark.parametrize("wrong", [
    {"workloads": ("w", "x")}, {"over_workloads": ("w", "x"), "workloads": ("w", "v")},
    {"candidates": ("none", "x")}, {"over": "x"}, {"at": "x"},
])  # fmt: skip
def test_every_name_of_every_statement_is_looked_for(wrong):
    works = tuple(Workload(name, "file-test", "iops") for name in "vw")
    usual = {"metric": "iops", "workloads": ("w",), "over_workloads": (), "candidates": ("none",),
             "over": "", "at": ""}  # fmt: skip
    right, bad = (
        SimpleNamespace(says=says, **(usual | of)) for says, of in (("r", {}), ("b", wrong))
    )
    admit._check_statements(experiment(workloads=works, statements=(right, right)))
    for order in ORDERS:
        asked = experiment(workloads=works, statements=(right, bad)[::order])
        with pytest.raises(SpecError, match=r"statement 'b'.* 'x' is not in the experiment"):
            admit._check_statements(asked)


@pytest.mark.parametrize("order", ORDERS)
def test_every_chosen_parameter_of_every_workload_is_one(order):
    works = [Workload("v", "file-test", "iops", {"a": 1, "b": 2}, chosen={"a": 1, "b": 2}),
             Workload("w", "file-test", "iops", {"a": 1}, chosen={"a": 1, "c": 3})]  # fmt: skip
    with pytest.raises(SpecError, match="workload 'w': chosen c = 3"):
        admit._check_chosen(experiment(workloads=tuple(works[::order])))
    admit._check_chosen(experiment(workloads=(replace(works[0], chosen={"a": 9}), works[0])))
    with pytest.raises(SpecError, match="two workloads are labelled 'b'"):
        admit._check_labels("workload", ["a", "b", "c", "b"])


@pytest.mark.parametrize("unknown", [False, True])
def test_what_the_tasks_of_each_workload_waited_for_is_told_of_each_candidate(
    tmp_path, monkeypatch, unknown
):
    from schedlab.run.cpu import cpu_policies

    @dataclass
    class Wait:
        text: str

        def line(self):
            return self.text

    session = cpu_policies.PolicySession.__new__(cpu_policies.PolicySession)
    session.explain = lambda work, arm: (
        [Wait(f"{work.label} {arm.label} {n}") for n in range(2)],
        "no trace" if unknown and (work.label, arm.label) == ("w", "b") else "",
    )
    works = tuple(Workload(name, "x", "cpu_s") for name in "vw")
    asked = experiment(workloads=works, candidates=tuple(Candidate(n, {}) for n in "ab"))
    monkeypatch.setattr(cpu_comparison, "admit", lambda *_: None)
    monkeypatch.setattr(cpu_comparison, "opened", lambda *_: contextlib.nullcontext(session))
    (tmp_path / "raw").mkdir()
    result = SimpleNamespace(folder=SimpleNamespace(experiment=asked, path=tmp_path))
    told = cpu_comparison.explain(result)
    if unknown:
        assert told == ["the waiting times are unknown: no trace"]
        return
    cells = [(w, c, f"{w} {c} {n}") for w in "vw" for c in "ab" for n in range(2)]
    assert told == [f"{w} under {c}: {text}" for w, c, text in cells]
    rows = json.loads((tmp_path / "raw/run-queue.json").read_text())
    assert [(row["workload"], row["candidate"], row["text"]) for row in rows] == cells


def test_each_quantum_that_another_has_is_noted_with_its_first():
    arms, notes = quanta.merged_candidates(
        "rr", {1.0: 4.0, 2.0: 4.0, 3.0: 4.0, 8.0: 8.0, 8.5: 8.0, 9.0: None, 10.0: None}
    )
    assert [arm.settings["slice_ms"] for arm in arms] == [1.0, 8.0, 9.0]
    assert [note.partition(":")[0] for note in notes] == [
        "1 ms and 2 ms both become 4 ms", "1 ms and 3 ms both become 4 ms",
        "8 ms and 8.5 ms both become 8 ms", "10 ms",
    ]  # fmt: skip
    typed = SimpleNamespace(seconds=2.0, cpus=(0, 1), processes=4, precision=None)
    named = [Candidate(f"{ms}", {"effective_ms": ms}) for ms in (1, 100, 10)]
    (note,) = quanta._fairness_note(typed, named)
    assert note.startswith("one quantum of 100 ms is 10.0% of a worker's share: ")


@pytest.mark.parametrize("order", ORDERS)
def test_a_workload_that_is_called_fsync_is_meant_wherever_it_stands(order):
    works = [Workload(name, "file-test", "iops") for name in ("reader", "fsync")]
    asked = experiment(workloads=tuple(works[::order]))
    assert requirements.with_requirements(asked, ["fsync iops > 3"]).requires[0].workload == "fsync"


@pytest.mark.parametrize("order", ORDERS)
def test_every_group_and_every_guard_of_a_live_comparison_is_understood(order, tmp_path):
    typed = {"metric": None, "groups": ("/", "no such group")[::order], "switch": ()}
    with pytest.raises((SpecError, HostError), match="no such group"):
        live.question(tmp_path, (), typed)
    guards = ("read p99 > 50ms for 5s", "nonsense")[::order]
    arms = (Candidate("none", {}), Candidate("bfq", {}))
    with pytest.raises(SpecError, match="nonsense"):
        live.prepared(live.LiveRequest(tmp_path, arms, 60.0, 9e4, guards=guards), print)


@pytest.mark.parametrize(("every_s", "seconds"), [(2.0, 4.0), (10.0, 10.0), (60.0, 20.0)])
def test_a_pilot_takes_a_period_but_not_too_little_or_too_much(
    monkeypatch, tmp_path, every_s, seconds
):
    asked, held = [], nullcontext(SimpleNamespace(claim=lambda *_: None))
    monkeypatch.setattr(live, "queues_below", lambda path: SimpleNamespace(queues=("sda",)))
    monkeypatch.setattr(live, "Control", lambda **_: held)
    monkeypatch.setattr(live, "Devices", lambda *_: None)
    monkeypatch.setattr(live.live_pilot, "pilot", lambda *of: asked.append(of[2]) or [])
    arms = (Candidate("none", {}), Candidate("bfq", {}))
    with pytest.raises(SpecError, match="nothing used it"):
        live.prepared(live.LiveRequest(tmp_path, arms, every_s, 9e4), print)
    assert asked == [seconds]


def test_a_sender_is_counted_over_all_queues_with_the_most_processes_it_had():
    def document(requests, processes):
        classes = [{"name": "db", "process": 0, "processes": processes},
                   {"name": "cp", "process": 0, "processes": 1}]  # fmt: skip
        groups = [{"class": n, "operation": way, "requests": requests + n} for n in (0, 1)
                  for way in ("read", "write", "flush")]  # fmt: skip
        return {"classes": classes, "groups": groups}

    for order in ORDERS:
        found = [*_senders([document(10, 3), document(20, 2)][::order])]
        assert found == [Sender("db", 0, "", 60, 3), Sender("cp", 0, "", 64, 1)]
    who = "\n".join(lines(replace(observed(3, 9, db=60, cp=30), senders=tuple(found))))
    assert "4 processes send requests: cp, 3 × db." in who


def test_the_last_lines_of_an_error_in_a_guest_are_told(monkeypatch):
    told = []
    monkeypatch.setattr(in_guest, "tell", lambda **of: told.append(of["error"]["message"]))
    with in_guest._errors_told():
        exec(compile("raise ValueError('why')", "<job>", "exec"))
    assert told[0].startswith("in the machine: ") and told[0].endswith("ValueError: why")
    assert told[0] != "in the machine: ValueError: why"


def test_each_number_of_blocks_is_decided_once_and_all_of_a_plan_is_told(monkeypatch, tmp_path):
    looked, told = [], []

    class Result:
        def __init__(self, folder):
            pass

        def decision(self):
            looked.append(0)
            return SimpleNamespace(stop=len(looked) > 1, reason=f"look {len(looked)}")

    monkeypatch.setattr("schedlab.result.Result", Result)
    monkeypatch.setattr(measure.budget, "plan_rest", lambda folder: None)
    monkeypatch.setattr(measure, "planned_lines", lambda planning: ["a", "b"])
    asked = experiment(stopping=Stopping("sequential", 9, budget_s=60.0))
    rules = measure.rules_of(
        SimpleNamespace(experiment=asked), measure.Observer(report=told.append)
    )
    assert [rules.stop(blocks) for blocks in (3, 4, 3)] == [None, "look 2 after 4 blocks", None]
    assert len(looked) == 2
    rules.plan_rest()
    assert told == ["a", "b"]


def test_each_run_of_a_study_is_stated_beside_its_own_baseline(tmp_path, monkeypatch):
    rates = {("read", 4096): {"cfq": (100, 102), "as": (50, 52), "dl": (25, 27)},
             ("write", 8192): {"cfq": (10, 12), "as": (20, 22), "dl": (40, 42)},
             ("other", 4096): {"cfq": (1, 1), "as": (1, 1), "dl": (1, 1)}}  # fmt: skip
    rows = [f"{test},{size},{name},{value}" for (test, size), of in rates.items()
            for name, values in of.items() for value in values]  # fmt: skip
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs/x.csv").write_text(
        "\n".join(["test,record_bytes,scheduler,kib_per_s", *rows]))  # fmt: skip
    monkeypatch.setattr(published, "PACKAGE", tmp_path)
    table = {"file": "x.csv", "workload": "{test} {size}", "tests": {"write": "rewrite"},
             "schedulers": {"cfq": "bfq", "dl": "mq-deadline"}}  # fmt: skip
    first, *others = published.published(table, {"read 4 KiB", "rewrite 8 KiB"})
    assert first["workloads"] == ["read 4 KiB", "rewrite 8 KiB"]
    assert first["candidates"] == ["bfq", "as", "mq-deadline"] and first["least"] == 1024
    assert [(of["workloads"], of["candidates"], of["over"], "study" in of["says"],
             of["published"].partition(" ")[0]) for of in others] == [
        (["read 4 KiB"], ["as"], "bfq", False, "0.505"),
        (["read 4 KiB"], ["mq-deadline"], "bfq", True, "0.257"),
        (["rewrite 8 KiB"], ["as"], "bfq", False, "1.909"),
        (["rewrite 8 KiB"], ["mq-deadline"], "bfq", True, "3.727"),
    ]  # fmt: skip


def test_each_size_of_a_working_set_and_each_quantum_has_its_own_cost(monkeypatch):
    def period(kind, work, policy, cpu):
        return {"pipe": 1.0, "futex": 2.0}.get(kind) or work["bytes"] + 1000 / work["touches"]

    monkeypatch.setattr(switch_cost, "_period_ns", period)
    costs, _ = switch_cost.measure(0, 2, 10)
    assert costs["pipe"] == [1.0] * 2 and costs["futex"] == [2.0] * 2
    assert switch_cost.costs_of(0, 2, 10, [1.0], None).direct == {"pipe": (1, 0), "futex": (2, 0)}
    few = switch_cost.FEW
    wanted = {size: (size + 1000 - (size + 1000 / few) / few) / (1 - 1 / few)
              for size in switch_cost.WORKING_SETS}  # fmt: skip
    assert {size: costs[size][1] for size in wanted} == pytest.approx(wanted)
    assert len({*wanted.values()}) == len(wanted) > 1
    arms = tuple(Candidate(f"rr {ms}", {"policy": "rr", "slice_ms": ms, "effective_ms": ms})
                 for ms in (1.0, 10.0, 100.0))  # fmt: skip
    rows = [SimpleNamespace(name=name, role=role)
            for name, role in (("w", "primary"), ("v", "part"), ("u", "x"))]  # fmt: skip
    values = {"w": (4.0, 5.0, 6.0), "v": (1.0, 3.0, 2.0), "u": (1.0, 1.0, 1.0)}
    labels = [arm.label for arm in arms]
    cells = {
        name: {label: SimpleNamespace(value=value) for label, value in zip(labels, of, strict=True)}
        for name, of in values.items()
    }
    asked = experiment(candidates=arms, baseline="rr 1.0")
    result = SimpleNamespace(record=SimpleNamespace(experiment=asked),
                             answer=SimpleNamespace(rows=rows, cells=cells))  # fmt: skip
    found = switch_cost.beside_measured(result, 5000.0, 100.0)
    assert [(of["candidate"], of["measured"]) for of in found] == [
        ("rr 10.0", 0.25), ("rr 100.0", 0.5), ("rr 10.0", 2.0), ("rr 100.0", 1.0)
    ]  # fmt: skip
    assert all(of["predicted_low"] < of["predicted"] < of["predicted_high"] for of in found)
    assert found[0]["predicted"] == found[2]["predicted"] < found[1]["predicted"]


def test_all_users_of_a_device_that_is_busy_are_told(monkeypatch):
    looks = iter([[0] * 11, [5, 0, 0, 0, 7, 0, 0, 0, 0, 10**9, 0]])
    monkeypatch.setattr(fit, "_stat", lambda name: next(looks))
    monkeypatch.setattr(fit, "LOOK_S", 0.01)
    monkeypatch.setattr(fit.devices, "reasons_in_use", lambda entry: ["one", "two"])
    with pytest.raises(HostError, match="others, whose times a fit would measure: one; two"):
        fit._refuse_busy("sda", print)


def test_the_losses_of_all_draws_and_the_regret_of_the_best_count():
    draws = [{"a": 0.0, "b": 3.0}, {"a": 4.0, "b": 1.0}, {"a": 2.0, "b": 2.0}]
    spread = predict._spread(draws, None)
    assert {name: [*of] for name, of in spread.items()} == {"a": [0, 4, 2], "b": [3, 1, 2]}
    assert predict._regret(spread) == pytest.approx(1.0)
    for order in ORDERS:
        names = ["a", "b", "c"][::order]
        of = {"a": np.array([2.0, 2]), "b": np.array([1.0, 1]), "c": np.array([1.0, 3])}
        take, candidates = predict._judged(names, of, True)
        assert take == "b" and [each.name for each in candidates] == names


def test_the_newest_kernel_that_can_runs_the_model(monkeypatch):
    of = (("6.1-a", {"x": 1}, ()), ("6.12-b", {"x": 1}, ()), ("6.13-c", {"x": 1}, ("y",)),
          ("6.14-d", {}, ()))  # fmt: skip
    kernels = [SimpleNamespace(release=name, options=options, lacks=lacks)
               for name, options, lacks in of]  # fmt: skip
    monkeypatch.setattr(predict.kernels, "every", lambda: kernels)
    monkeypatch.setattr(predict, "needed_dilation", lambda emulation: 1.0)
    monkeypatch.setattr(predict, "_not_in_kernel", lambda load: "")
    load = SimpleNamespace(processes=1, option="--workloads", name="f", recording="")
    assert predict._on_model("disk7200", load, "a,b")[-1] == "6.12"


def test_figures_in_a_kernel_are_of_all_processes_and_both_ways():
    sides = {("a", "reads"): 1.0, ("a", "writes"): 2.0, ("b", "reads"): 4.0, ("b", "writes"): 8.0}
    actors = SimpleNamespace(
        side=lambda name, way: (name, way),
        rate=lambda names, way, operations: sum(sides[name, way] for name in names),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_kernel, "mean_ns", lambda of: sum(sides[each] for each in of))
        assert in_kernel._figures(actors, ["a", "b"]) == {"iops": 15.0, "latency_ns_mean": 15.0}


@pytest.mark.parametrize("kind", ["sim", "io"])
def test_all_settings_of_a_candidate_are_shown(kind, monkeypatch):
    monkeypatch.setattr(preview, "planned_writes", lambda candidate, places: (("/a", "1"),))
    monkeypatch.setattr(preview, "places_of", lambda *_: [])
    own = {f"{preview.OVERRIDE}x": 1, "b": 2, f"{preview.OVERRIDE}y": 3}
    admitted = SimpleNamespace(experiment=experiment(kind=kind), queues=(), kinds={})
    shown = preview.settings_of(admitted, Candidate("c", own))
    all_of = tuple((key, str(value)) for key, value in own.items())
    assert shown == (all_of if kind == "sim" else (("/a", "1"), all_of[0], all_of[2]))


def test_each_ask_of_a_search_has_its_own_settings():
    tuning = object.__new__(tune.Tuning)
    entries = [SimpleNamespace(number=n, settings={"scheduler": "bfq", "x": n}) for n in range(4)]
    tuning.base = experiment(candidates=(Candidate("none", {"scheduler": "none"}),))
    tuning.search = SimpleNamespace(entries=entries)
    asks = [SimpleNamespace(challenger=new, incumbent=old, has_aa=aa,
                            settings=entries[new].settings)
            for new, old, aa in ((1, 0, False), (2, 1, True), (3, 1, False))]  # fmt: skip
    labels = {ask.challenger: (f"#{ask.challenger}", f"#{ask.incumbent}", f"#{ask.incumbent} again")
              for ask in asks}  # fmt: skip
    tuning.labels = lambda ask: labels[ask.challenger]
    found = {each.label: each.settings.get("x") for each in tune.Tuning.candidates(tuning, asks)}
    assert found == {"none": None, "#1": 1, "#0": 0, "#2": 2, "#1 again": 1, "#3": 3}


@pytest.mark.parametrize("order", ORDERS)
def test_a_winner_with_a_setting_that_apply_has_not_has_no_command(order):
    tuning = SimpleNamespace(base=experiment(target=Target("device", "/dev/x")), path=Path("/t"))
    for keys, offered in (
        ("slice_idle=0,low_latency=1", True),
        (f"slice_idle=0,{view.OVERRIDE}x=1", False),
    ):
        words = ",".join(keys.split(",")[::order])
        assert bool(view._commands(tuning, f"bfq:{words}", False)) == offered
    (apply, undo) = view._commands(tuning, "bfq:slice_idle=0", False)
    assert (apply, undo) == ("apply: schedlab apply bfq:slice_idle=0 /dev/x",
                             "undo: schedlab undo /dev/x")  # fmt: skip


def test_each_process_and_each_call_that_waited_for_data_has_its_line():
    rows = [{"process": name, "operation": way, "calls": n, "latency_ns_mean": n * 1e6}
            for n, (name, way) in enumerate((("db", "fsync"), ("cp", "fdatasync")), 1)]  # fmt: skip
    values = {metric(way, word): (n + 1) * ms * 1e6 for n, way in enumerate(OPERATIONS[:2])
              for word, ms in (("p50", 2), ("p99", 9))}  # fmt: skip
    facts = {"chain": {"calls": 3, "data_s": 1.0, "journal_s": 1.0, "flush_s": 2.0, "written": {}},
             "by_process": rows, "metrics": values, "at_least": [metric(OPERATIONS[1], "p99")],
             "identity": {"lost": 5}, "reason": next(iter(block_io.REASONS))}  # fmt: skip
    told = [*block_io._durable_lines(facts)]
    assert [line.split()[0] for line in told[:2]] == ["db", "cp"]
    assert [line.split("mean ")[1] for line in told[:2]] == ["1 ms", "2 ms"]
    first, second = (way.replace("_", " ") for way in OPERATIONS[:2])
    assert told[2:4] == [
        f"{first}: p50 2 ms, p99 9 ms", f"{second}: p50 4 ms, p99 at least 18 ms"
    ]  # fmt: skip
    assert told[-1] == "note: the end of 5 calls was not seen"


def test_each_run_of_a_log_has_its_own_rows_and_operations(tmp_path):
    steps = timeline.LOG_STEPS
    head = ["scheduler", "seed", "process", "operation", *steps, "offset_bytes", "length_bytes"]
    rows = [[name, seed, f"p{n}", way, *range(10 * n, 10 * n + len(steps)), 0, 512]
            for name in ("none", "bfq") for seed in (1, 2)
            for n, way in enumerate(("read", "write", "trim"))]  # fmt: skip
    file = tmp_path / "log.csv"
    file.write_text("\n".join(",".join(map(str, row)) for row in [head, *rows]) + "\n")
    runs = [*timeline._logged(file)]
    assert [bars.name for _, bars in runs] == ["none", "bfq"]
    for _, bars in runs:
        assert bars.times_ns.shape[1] == 3
        assert len({*map(tuple, bars.times_ns)}) == len(bars.times_ns) > 1
    more = [[*row, "mix" if at < 11 else "batch"] for at, row in enumerate(rows)]
    lines = [",".join(map(str, row)) for row in [[*head, "processes"], *more]]
    file.write_text("\n".join(lines) + "\n")
    names = [bars.name for _, bars in timeline._logged(file)]
    assert names == ["none, mix", "bfq, mix"]
    file.write_text("\n".join([*lines[:3], lines[3].replace("mix", "batch"), *lines[4:]]) + "\n")
    names = [bars.name for _, bars in timeline._logged(file)]
    assert names == ["none, mix", "none, batch", "bfq, mix"]
    columns = timeline._columns([dict(zip(head, map(str, row), strict=True)) for row in rows[:3]])
    places = [timeline.OPERATIONS.index(way) for way in ("read", "write", "discard")]
    assert [*columns["operation"]] == places
    assert [*columns[steps[0]]] == [0, 10, 20]
    bursts = [(10, 10, 1, True, None), (15, 5, 2, False, None), (30, 6, 1, False, None)]
    file.write_text(bursts_as_csv(bursts))
    made = timeline._burst_bars(file)
    assert made.kind.tolist() == [2, 1, 1]
    assert made.times_ns.T.tolist() == [[0, 0, 10], [10, 10, 15], [10, 24, 30]]


def test_each_change_of_a_candidate_beside_the_baseline_is_of_its_own_values(monkeypatch):
    arms = ("base", "a", "b")
    works = {work: ("iops", dict.fromkeys(arms, 1), dict.fromkeys(arms, 2))
             for work in "vw"}  # fmt: skip
    monkeypatch.setattr(difference, "_common", lambda *_: ["base", "a", "none", "b"])
    monkeypatch.setattr(difference, "_units", lambda *_: (works, "blocks"))
    monkeypatch.setattr(difference, "_samples", lambda names, *of: of[:4])
    monkeypatch.setattr(difference, "_answer", lambda names, samples, margin, of: (samples, of))
    record = SimpleNamespace(experiment=experiment(baseline="base"))
    answers, _ = difference.changes(record, record)
    assert answers == {
        **{name: ([(work, "iops", name, "") for work in "vw"], 3) for name in arms},
        **{f"{name} / base": ([(work, "iops", name, "base") for work in "vw"], 2) for name in "ab"},
    }


@pytest.mark.parametrize("order", ORDERS)
def test_the_files_of_every_kind_of_work_are_looked_at_before_a_directory_is_used(
    order, tmp_path, monkeypatch
):
    looked = []
    kinds = [Command(argv=["a"]), Command(argv=["b"], fresh="run")][::order]
    monkeypatch.setattr(targets, "_check_own_files", lambda kind, path: looked.append(kind))
    asked = experiment(target=Target("directory", str(tmp_path), switch=("sda",)))
    resolve = targets._directory
    assert "has nothing to copy" in refused(resolve, asked, tuple(kinds), None)[0]
    monkeypatch.setattr(targets, "_switched", lambda target: (("sda",), ()))
    monkeypatch.setattr(targets, "check_offered", lambda *_: ())
    kinds = [Command(argv=["a"]), Command(argv=["b"])]
    resolve(asked, tuple(kinds), None)
    assert looked == kinds


def test_each_block_of_a_search_is_added_or_skipped(monkeypatch):
    told, skipped = [], []
    search = SimpleNamespace(tell=lambda ask, seen: told.append(seen), skip=skipped.append)
    tuning = SimpleNamespace(asks=[], search=search, base=None, labels=lambda ask: ask,
                             question=SimpleNamespace(constraints=()))  # fmt: skip
    monkeypatch.setattr(tune, "observed", lambda ask, *_: None if ask == 2 else f"seen {ask}")
    for ask in range(4):
        tune._tell(tuning, ask, (), is_complete=ask != 0)
    assert (tuning.asks, told, skipped) == ([1, 3], ["seen 1", "seen 3"], [0, 2])


def test_a_run_is_softened_when_all_that_is_fatal_is_load_by_others():
    busy = [GateFinding(gate, "x") for gate in sorted(BUSY_GATES)]
    other, note = GateFinding("exit-status", "x"), GateFinding("y", "x", fatal=False)
    cell = SimpleNamespace(key="k")
    of = SimpleNamespace(finished=set(), attempts=Counter({"k": 1}), busy_repeats=0)
    for found in ((*busy, other), (other, *busy), (note, busy[0], other)):
        assert Executor._softened(of, cell, found) == found
    softened = Executor._softened(of, cell, (note, *busy))
    assert len(softened) == 1 + len(busy) > 2 and not any(each.fatal for each in softened)


def test_each_run_counts_for_its_own_workload_and_cell():
    of = SimpleNamespace(attempts=Counter(), runs_of=Counter(), finished=set(), busy_repeats=0,
                         took_s=Counter())  # fmt: skip
    busy, bad = GateFinding(sorted(BUSY_GATES)[0], "x"), GateFinding("exit-status", "x")
    for key, work, status, found, attempt in (
        ("1", "v", "ok", (), 1), ("2", "w", "ok", (bad, busy), 2),
        ("3", "v", "discarded", (busy,), 1), ("3", "v", "discarded", (busy, bad), 2),
        ("4", "w", "ok", (busy,), 3),
    ):  # fmt: skip
        Executor._note(of, SimpleNamespace(key=key, workload=work, elapsed_s=2.0, gates=found,
                                           status=status, attempt=attempt))  # fmt: skip
    assert (of.attempts, of.runs_of) == (Counter("12334"), Counter("vwvvw"))
    assert (of.took_s, of.finished, of.busy_repeats) == ({"v": 6.0, "w": 4.0}, {*"124"}, 3)


def test_every_source_of_bursts_that_was_passed_over_is_told(monkeypatch):
    tasks = [{"histogram": [[0, n]]} for n in (1, 2)]
    bursts = SimpleNamespace(passed_over=["no BPF", "no perf"], tasks=tasks)
    row = SimpleNamespace(tasks="rows")
    told, merged = [], []
    with monkeypatch.context() as patch:
        patch.setattr(cpu_calculations, "settings_of", lambda *_: SimpleNamespace(
            job=lambda: None, policy=None))  # fmt: skip
        patch.setattr(cpu_calculations, "held", lambda *_: contextlib.nullcontext("crew"))
        patch.setattr(cpu_calculations, "pids_of", lambda crew: [1, 2])
        patch.setattr(cpu_calculations, "Quantum", SimpleNamespace(of=lambda *_: None))
        patch.setattr(cpu_calculations, "Capture", lambda pids: SimpleNamespace(
            finish=lambda: bursts))  # fmt: skip
        patch.setattr(cpu_calculations, "ran", lambda crew: SimpleNamespace(groups=[row]))
        patch.setattr(cpu_calculations, "merge", merged.extend)
        for name in ("_metrics", "_facts"):
            patch.setattr(cpu_calculations, name, lambda *_: {})
        patch.setattr(cpu_calculations, "_trouble", lambda *_: ["x", "y"])
        patch.setattr(cpu_calculations, "_timeline", lambda *_: [])
        outcome = cpu_calculations.measured(None, None, told.append)
    assert told == ["no BPF", "no perf"] and merged == [[[0, 1]], [[0, 2]]]
    assert outcome.gates == ("x", "y")


def test_the_place_of_work_is_each_commands_users_and_has_all_their_files(tmp_path, monkeypatch):
    owners, copied = [], []
    place = workplace.WorkPlace.__new__(workplace.WorkPlace)
    place.is_ours = place.is_bare = True
    place.directory, place.device = tmp_path, Path("/dev/x")
    place._copy_in = copied.append
    monkeypatch.setattr(workplace.shutil, "chown", lambda path, user: owners.append((path, user)))
    kinds = [SimpleNamespace(user=user) for user in ("", "a", "b")]
    place.open(kinds)
    assert copied == kinds
    assert owners == [(path, user) for user in "ab" for path in (tmp_path, Path("/dev/x"))]
    owners.clear()
    place.is_ours = False  # a device of the user's keeps its owner
    place.open(kinds)
    assert owners == [(tmp_path, user) for user in "ab"]


def test_a_place_of_work_is_made_again_once_in_each_block_or_for_each_run(tmp_path):
    made = []
    place = workplace.WorkPlace.__new__(workplace.WorkPlace)
    place.is_ours, place._fresh_in, place._copy_in = False, {}, made.append
    for fresh, due in (("never", []), ("block", [0, 1]), ("run", [0, 0, 1, 1])):
        made.clear()
        for block in (0, 0, 1, 1):
            kind = SimpleNamespace(fresh=fresh, block=block)
            place.refresh("w", kind, block, [kind])
        assert [kind.block for kind in made] == due
        place._fresh_in.clear()


def test_all_conditions_that_did_not_hold_in_a_run_are_found():
    usual = dict.fromkeys((field.name for field in dataclasses.fields(gates.Snapshot)), 0)
    after = {"swapped_pages": 1, "throttled": 2, "io_errors": 3}
    before = gates.Snapshot(**usual | {"too_hot": ()})
    later = gates.Snapshot(**usual | after | {"too_hot": ("hot", "hotter")})
    found = gates.findings(before, later, None, 1 << 30)
    assert [each.gate for each in found] == [
        "swap", "thermal", "thermal", "thermal", "io-errors", "not-cold"
    ]  # fmt: skip
    with launch._streams() as streams:
        assert len({*streams}) == 3
    for fd in streams:
        with pytest.raises(OSError):
            os.fstat(fd)


def test_what_a_candidate_changes_of_a_work_is_not_left_in_it():
    work = Workload("w", "random-reads", "iops")
    arm = Candidate("a", {f"{OVERRIDE}record_bytes": 8192, "policy": "fcfs", "depth": 3})
    changed, left = sim._applied(work, arm)
    assert changed.parameters["record_bytes"] == 8192
    assert left.settings == {"policy": "fcfs", "depth": 3}
