"""Of several kernels, groups, rows, tasks or settings each counts: rooms that simulate, analyse and
draw."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import answers
import numpy as np
import pytest
import reports

from schedlab.analyse import cells as analysed
from schedlab.analyse import contradictions
from schedlab.analyse.limits import _lonely
from schedlab.analyse.residuals import uneven_noise
from schedlab.app.setting_checks import check_switch
from schedlab.cpu import refusals
from schedlab.design.planning import PilotRun, _costs
from schedlab.kinds import OVERRIDE, overrides
from schedlab.nouns import Candidate, Explanation, capture
from schedlab.report import quiz_page, timeline, why, words
from schedlab.report.bars import Bars, Scene
from schedlab.report.texts import Texts
from schedlab.report.timeline import Timeline
from schedlab.report.view import View
from schedlab.store.folder import _rows
from schedlab.store.importers.csv import Columns
from schedlab_sim import checked, cpu_schedule, cpu_validate, decisions

ORDERS = [1, -1]


@pytest.mark.parametrize("order", ORDERS)
def test_each_kernel_that_judged_a_model_is_told_and_any_may_doubt_it(order):
    kernels = dict([("6.1", {"bfq": {"a": (90, 100), "b": (100, 100)}, "none": {"a": (9, 9)}}),
                    ("6.12", {"bfq": {"a": (50, 50), "b": (1, 50)}})][::order])  # fmt: skip
    told = [
        "bfq, a model: 95.0 % of 200 decisions of Linux 6.1",
        "bfq, a model: 51.0 % of 100 decisions of Linux 6.12",
    ]
    assert decisions.sentences("bfq", kernels) == told[::order]
    assert decisions.warnings(["none", "bfq", "bfq"], kernels) == told[::order]
    for version, text in (("6.1", told[0]), ("6.12", told[1])):
        assert decisions.warnings(["bfq"], kernels, version) == [text]
    unknown = [f"{name}, a model: not compared with Linux 6.12" for name in ("none", "kyber")]
    assert decisions.warnings(["none", "kyber"], kernels, "6.12") == unknown


@pytest.mark.parametrize("order", ORDERS)
def test_any_group_of_a_process_may_be_without_real_time(order, tmp_path, monkeypatch):
    groups = [("a", "950000"), ("b", "0"), ("c", None), ("d", "nonsense")][::order]
    for name, text in groups:
        (tmp_path / name).mkdir()
        if text:
            (tmp_path / name / "cpu.rt_runtime_us").write_text(text)
    monkeypatch.setattr(refusals.kernel_paths, "groups_of",
                        lambda: {tmp_path / name: "" for name, _ in groups})  # fmt: skip
    assert refusals._cpu_cgroup_without_bandwidth() == tmp_path / "b"


@pytest.mark.parametrize("order", ORDERS)
def test_the_baseline_and_the_loser_of_each_row_are_both_claims(order):
    def cell(loss):
        return SimpleNamespace(loss=loss, low=loss / 2)

    cells = {row: {"a": cell(0.0), "b": cell(0.2), "c": cell(0.4)} for row in "vw"}
    told = [SimpleNamespace(candidate=name, row=row) for name, row in (("b", "v"), ("c", "w"))]
    base, loser = told[::order]
    answer = SimpleNamespace(margin=0.02, code="worse", counted=["v", "w"], cells=cells, take="a",
                             base_loss=base, loser=loser)  # fmt: skip
    found = contradictions.claims_of(answer)
    assert [tuple(vars(each).values()) if hasattr(each, "__dict__") else tuple(each)
            for each in found] == [("v", "a", "b", 0.2), ("w", "a", "c", 0.4)]  # fmt: skip
    answer.code = "best"
    assert len(contradictions.claims_of(answer)) == 4


def test_all_parameters_that_a_candidate_changes_are_its_own():
    settings = {f"{OVERRIDE}a": 1, "scheduler": "bfq", f"{OVERRIDE}b": 2}
    assert overrides(Candidate("x", settings)) == {"a": 1, "b": 2}


def test_the_command_of_a_quiz_has_every_task_and_every_setting():
    tasks = [{"name": name, "arrival": n, "bursts": [f"{n}ms", "2ms"], "priority": n}
             for n, name in enumerate("AB")]  # fmt: skip
    text = cpu_schedule._reveal(tasks, {"policies": ["rr", "fcfs"], "quantum": "4ms"})
    assert "A:0:0/2" in text and "B:" in text and ":prio=1" in text
    assert Path(text.split()[0]).name == "schedlab"


def test_work_of_a_task_and_time_that_any_wanted_are_of_all_its_stays():
    """Task 1 works 10 and, after a sleep of 20, 5 + 5 with a wait; task 2 overlaps its second."""

    def stay(task, start, end, woken=None, preempted=False):
        return cpu_validate.Stay(task, start, end, preempted, woken, None)

    own = [stay(1, 0, 10, 0), stay(1, 32, 37, 30, True), stay(1, 40, 45)]
    assert cpu_validate._work(own) == [10, 20, 10]
    other = [stay(2, 37, 40, 35), stay(2, 100, 103, 99), stay(2, 200, 201, 200)]
    for order in ORDERS:
        stays = sorted([*own, *other][::order], key=lambda each: each.start_ns)
        assert cpu_validate._wanted_ns(stays) == 10 + (45 - 30) + (103 - 99) + 1


@pytest.mark.parametrize("order", ORDERS)
def test_a_price_is_that_of_any_candidate_that_was_missed_on_any_row(order):
    def cells(**losses):
        return {name: SimpleNamespace(loss=loss, low=loss / 2, up=2 * loss, open=False)
                for name, loss in losses.items()}  # fmt: skip

    rows = {"u": cells(a=0.1, m=0.0, n=0.3), "v": cells(a=0.4, m=0.2, n=0.0),
            "w": cells(a=0.9, b=0.0, m=0.1, n=0.1)}  # fmt: skip
    found = analysed.price_of(["m", "n"][::order], rows, "a", ["u", "v", "w"][::order])
    assert (found.row, found.loss) == ("v", 0.4)
    assert analysed.price_of(["m"], rows, "a", [*rows]).row == "u"


def test_the_order_of_work_is_that_of_each_cpu():

    def said(key, **values):
        return f"{values.get('what', '')} {values.get('start', '')}".strip() or key

    segments = [{"cpu": cpu, "start_ns": at * 10**6, "end_ns": (at + 1) * 10**6, "task": task}
                for at, (cpu, task) in enumerate(((1, 0), (0, 1), (1, 1)))]  # fmt: skip
    result = {"cpus": 2, "segments": segments, "tasks": [{"name": "A"}, {"name": "B"}]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quiz_page, "occupant", lambda part: ("task", part["task"]))
        assert quiz_page._order(result, said) == "CPU 0: B 1; CPU 1: A 0, B 2"
        assert quiz_page._order(result | {"cpus": 1}, said) == "B 1"


@pytest.mark.parametrize("policies", [("prio", "rr"), ("rr", "prio"), ("rr", "fcfs")])
def test_a_sheet_has_priorities_if_any_policy_has_them(monkeypatch, policies):
    monkeypatch.setattr(quiz_page, "_blank_chart", lambda *_: "")
    monkeypatch.setattr(quiz_page, "_title", lambda result, texts: result["policy"])
    tasks = [{"name": "A", "arrival": 0, "bursts": [1], "priority": 7}]
    sheet = quiz_page.QuizSheet(1, tasks, [{"policy": name} for name in policies])
    assert ("<td>7" in quiz_page._sheet(sheet, Texts("en"))) is ("prio" in policies)


def test_the_rates_of_a_scheduler_are_the_means_of_all_its_runs(monkeypatch):
    monkeypatch.setattr(checked, "rates_of", lambda processes, figures: figures)
    runs = [{"scheduler": name, "processes": {"v": value, "w": 10 * value}}
            for name, value in (("none", 1.0), ("bfq", 5.0), ("none", 3.0))]  # fmt: skip
    expected = checked.Expected([{}], None, "", None, {"none": "", "bfq": ""})
    assert expected.rates(runs) == {"none": {"v": 2.0, "w": 20.0}, "bfq": {"v": 5.0, "w": 50.0}}


@pytest.mark.parametrize("order", ORDERS)
def test_any_row_any_table_any_capture_and_any_setting_is_looked_at(order):
    rows = [[1, 2, 3], [1, 2, 4], [3, 4, 5]][::order]
    assert _rows({"latency_ns": rows}) == {(1, 2): 7, (3, 4): 5}
    with pytest.raises(ValueError, match=r"^\[1, 2\] is not a row"):
        _rows({"latency_ns": [[1, 2, 3], [1, 2]][::order]})
    tables = [SimpleNamespace(candidates=names, samples=SimpleNamespace(workload=of))
              for of, names in (("one", ("a",)), ("both", ("a", "b")))][::order]  # fmt: skip
    assert [flag.workload for flag in _lonely(tables)] == ["one"]
    gaps = [("a", SimpleNamespace(gap_share=-0.5)), ("b", SimpleNamespace(gap_share=0.7))][::order]
    (said,) = why._gap(SimpleNamespace(texts=Texts("en")), gaps)
    assert ", ".join(name for name, _ in gaps) in said and "70" in said
    depth = {"series": [(0, 1.0), (100, 3.0), (200, 9.0)][::order], "mean": 0.0}
    assert capture._depth(depth, (0, 200)) == 2
    settings = dict([("sysctl.vm.swappiness", "1"), ("sysctl.vm.dirty_ratio", "9")][::order])
    for name in settings:
        experiment = SimpleNamespace(candidates=[Candidate("x", settings)],
                                     target=SimpleNamespace(switch=(name,)))  # fmt: skip
        check_switch(experiment)


def test_every_column_that_is_named_must_be_there():
    names = {"candidate": ("c",), "value": "v/w", "workload": ("l",), "sum_over": ("s", "t"),
             "block": "b", "unit_column": "u", "metric_column": "m"}  # fmt: skip
    assert sorted(Columns(**names).used("")) == sorted("cvwlstbum")


@pytest.mark.parametrize("quietest", [0, 1, 2])
def test_noise_is_compared_with_that_of_the_quietest_wherever_it_is(quietest):
    spread = np.where(np.arange(3) == quietest, 0.001, 0.01)
    spread[quietest - 1] = 0.1
    e = np.outer([1, -1, 1, -1], spread)
    found = uneven_noise(SimpleNamespace(residuals=e, candidates=3))
    assert (found.quietest, found.noisiest) == (quietest, (quietest - 1) % 3)
    assert found.ratio == pytest.approx(100)


@pytest.mark.parametrize("order", ORDERS)
def test_the_cost_of_a_workload_is_that_of_its_own_runs(order):
    random = np.random.default_rng(3)
    pilot = {name: [PilotRun(name, c, 1.0, 1.0, 6.0, tuple(100 + noise * random.random(60)))
                    for c in "ab"] for name, noise in (("calm", 1), ("wild", 90))}  # fmt: skip
    alone = {name: _costs(runs, 0.0) for name, runs in pilot.items()}
    assert alone["calm"] != alone["wild"]
    names = [*pilot][::order]
    together = _costs([run for name in names for run in pilot[name]], 0.0)
    assert together == [cost for name in names for cost in alone[name]]


def waited(group, device_s, depth=9.0, **more):
    return Explanation(group, 0.0, 0.0, device_s, depth, 0.0, 1000, **more)


def whyed(by_candidate, answer=answers.TRADE, engines=("psync",)):
    """A view of explanations of the groups of each candidate on a workload."""
    record = reports.record_of(answer)
    runs = [replace(run, properties={"engine": engines[run.block % len(engines)]})
            for run in record.runs]  # fmt: skip
    found = {(answers.READER, name): of for name, of in by_candidate.items()}
    record = replace(record, runs=tuple(runs), explanations=found)
    return View(record, answer, Texts("en"))


@pytest.mark.parametrize("order", ORDERS)
def test_reasons_are_of_all_candidates_groups_and_runs(order, monkeypatch):
    texts, view = Texts("en"), whyed({}, engines=("psync", "io_uring")[::order])
    assert why._engines(view, answers.READER) == {"psync", "io_uring"}
    groups = [
        ("r", [("none", waited("r", 1, lost=5)), ("bfq", waited("r", 1, lost=6))]),
        ("w", [("none", waited("w", 1, lost=90)), ("bfq", waited("w", 1, lost=80))]),
    ][::order]
    share = words.share(texts, 170 / 4170)
    assert why._lost(view, dict(groups)) == [texts("why.lost", share=share)]
    gaps = [("a", waited("", 1, gap_share=-0.3)), ("b", waited("", 1, gap_share=0.1))][::order]
    names = ", ".join(name for name, _ in gaps)
    told = texts("why.gap", names=names, share=words.share(texts, 0.3))
    assert why._gap(view, gaps) == [told]
    ratios = [("a", waited("", 1, requests_per_operation=1.0)),
              ("b", waited("", 1, requests_per_operation=4.0))][::order]  # fmt: skip
    assert why._split(view, "x", ratios) == [texts("why.split", group="x", low="1.0", high="4.0")]
    limited = [("a", Explanation("", 1.0, 0, 1.0, has_limits=True)),
               ("b", Explanation("", 1.0, 0, 1.0))][::order]  # fmt: skip
    (line,) = why._waits(view, "x", limited, "tag")
    waits = [texts("why.wait", name=name, time=texts.quantity(1.0, "s", 2),
                   total=texts.quantity(2.0, "s", 2)) for name, _ in limited]  # fmt: skip
    assert line == texts("why.tag_limits", group="x", waits=texts.listed(waits))
    deep = [("a", waited("", 9e-3, 8.0)), ("b", waited("", 1e-3, 5.0, outside_s=1e-4)),
            ("c", waited("", 8e-3, 1.0))][::order]  # fmt: skip
    within, alone = why._device(view, "x", deep)
    assert within == texts("why.device", names=texts.listed([n for n, _ in deep if n != "c"]),
                           group="x", share=words.share(texts, 10 / 10.1), depth="6")  # fmt: skip
    assert alone == texts("why.device_shallow", names="c", group="x",
                          share=words.share(texts, 1.0), depth="1")  # fmt: skip
    rows = [("none", waited("", 9.0)), ("kyber", waited("", 1.0)), ("bfq", waited("", 3.0))]
    assert " kyber " in why._fell(view, "x", rows[::order])[0]


@pytest.mark.parametrize("order", ORDERS)
def test_a_group_has_its_own_row_and_only_the_first_tells_what_was_lost(order):
    of = replace(answers.TRADE, rows=(*answers.ROWS[:4],
                                      replace(answers.ROWS[4], actor="writers"),
                                      answers.secondary(answers.READER, "iops", actor="other")),
                 cells=answers.TRADE.cells | {f"{answers.READER}: iops": {}})  # fmt: skip
    slow = {"none": 9e-3, "kyber": 5e-3, "bfq": 6e-3}
    view = whyed({name: tuple(waited(group, s, lost=lost) for group, lost in
                              (("readers", 100), ("writers", 50))[::order])
                  for name, s in slow.items()}, of)  # fmt: skip
    first, second = why.explained(view)
    assert (first.group, second.group) == ("readers", "writers")
    lost = view.texts("why.lost", share=words.share(view.texts, 300 / 6300))
    assert (lost in first.sentences, lost in second.sentences) == (True, False)
    unknown = whyed({name: (waited("readers", 10e-3 - s),) for name, s in slow.items()})
    assert why.explained(unknown)[0].sentences[0] == view.texts("why.unknown")
    ahead = whyed({"none": (waited("readers", 9e-3),), "kyber": (waited("readers", 5e-3),),
                   "mq-deadline": (waited("readers", 1e-3),)})  # fmt: skip
    assert why.explained(ahead)[0].sentences[0] != view.texts("why.unknown")


def ran(name, *bars, rows=("p", "q"), notes=()):
    """A run of bars (row, arrival, issue, end) in ms."""
    return Bars(name, rows, np.array([row for row, *_ in bars]),
                np.array([[of[at] for of in bars] for at in (1, 2, 3)], np.int64) * 1_000_000,
                notes=notes)  # fmt: skip


def timed(*scenes):
    return Timeline(tuple(Scene(f"work {at}", ("wait", "device"), tuple(runs))
                          for at, runs in enumerate(scenes)), Texts("en"))  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
def test_a_timeline_compares_the_first_run_with_the_most_unlike_and_tells_of_all(order):
    first = ran("one", (0, 0, 50, 100), (1, 40, 60, 100), notes=("n1",))
    others = [ran("slow", (0, 0, 1, 400), notes=("n2",)), ran("quick", (1, 0, 1, 10)),
              ran("same", (0, 0, 50, 100))][::order]  # fmt: skip
    view = timed([first, *others], [first])
    scene = view.scenes[0]
    assert [bars.name for bars in view._pair(scene)] == ["one", "quick"]
    assert {"n1", "n2"} <= {*view._notes()}
    slower = timed([first, *others, ran("slower", (0, 0, 1, 4000))], [first])
    assert [bars.name for bars in slower._pair(slower.scenes[0])] == ["one", "slower"]
    below = {
        name: f"above=one&below={pair}"
        for name, pair in (("one", "quick"), ("slow", "slow"), ("quick", "quick"), ("same", "same"))
    }
    for each in scene.runs:
        assert below[each.name] in view.address(0, scene, each, 0)
    idle = ran("idle", (0, 0, 50, 100), (0, 100, 400, 500), (0, 500, 600, 900))
    never = [ran(name, (0, 0, 0, 900)) for name in ("x", "y")]
    busy, none = view.idling(replace(scene, runs=(never[0], idle, never[1])))
    assert "idle" in busy and view.moment(100_000_000, 3) in busy
    assert view.moment(600_000_000, 3) in busy and view.time(300_000_000) in busy
    assert none == view.texts("timeline.idling_none", names="x and y",
                              limit=view.time(timeline.PAUSE_NS))  # fmt: skip
    late = ran("late", (0, 0, 1, 2), (1, 500, 510, 520))
    table = view._processes(0, scene, late)
    assert "0.500000" in table and table.count("<tr") == 3
