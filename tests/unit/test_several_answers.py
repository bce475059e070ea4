"""Of several workloads, sessions, pairs, means or families each counts: rooms that analyse."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import answers
import load_engine
import numpy as np
import pytest
from test_answer_any import experiment, shown

from schedlab import result
from schedlab.analyse import (
    answer_check,
    change_points,
    contradictions,
    flags,
    guarantees,
    losses,
    mix,
    objectives,
    pareto,
    requirements,
    rows,
    rungs,
    scaling,
    sessions,
    statements,
    wild,
)
from schedlab.analyse.answer import answer
from schedlab.analyse.doubts import _modes
from schedlab.analyse.limits import limits
from schedlab.kinds import KINDS, weights
from schedlab.nouns import Candidate, Flag, PublishedMean, Require, Samples, Statement, Workload
from schedlab.nouns.metrics import METRICS
from schedlab.nouns.output_metrics import parse_output_metric
from schedlab.nouns.results import StoredSession
from schedlab.run import gates
from schedlab.run.command import metrics_from_output
from schedlab.tune.goal import score

# Two to six workloads each: answers of every unit, with conditions, requirements, shares, ends.
SEEDS = (
    3,
    8,
    18,
    20,
    34,
    38,
    39,
    52,
    54,
    70,
    75,
    78,
    86,
    89,
    109,
    164,
    195,
    207,
    222,
    227,
    231,
    237,
    238,
    241,
)


def in_any_order(part):
    """A part of an answer without the order of what it has several of."""
    if isinstance(part, dict):
        return {key: in_any_order(part[key]) for key in sorted(part)}
    if isinstance(part, list):
        return sorted(map(in_any_order, part), key=lambda each: json.dumps(each, sort_keys=True))
    return part


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answer_is_the_same_in_whatever_order_its_workloads_are(seed):
    samples, arguments = experiment(seed)
    found = []
    for step in (1, -1):
        asked = {**arguments, "secondary": arguments["secondary"][::step],
                 "requires": arguments["requires"][::step]}  # fmt: skip
        result = answer(samples[::step], **asked)
        all_flags = limits(result, samples[::step], aa=asked["aa"], blocked=asked["blocked"])
        found.append(in_any_order(shown(replace(result, flags=all_flags))))
    assert found[0] == found[1]


def samples_of(workload, metric="elapsed_s", values=((1.0, 2.0), (3.0, 4.0)), names="ab"):
    """Values of each candidate in each block."""
    cells = [(block, name, value) for block, row in enumerate(values)
             for name, value in zip(names, row, strict=True)]  # fmt: skip
    blocks, candidates, flat = zip(*cells, strict=True)
    return Samples(workload=workload, metric=METRICS[metric], candidates=candidates, blocks=blocks,
                   values=flat, sessions=("s",) * len(cells))  # fmt: skip


def test_every_published_mean_is_checked_by_all_rows_of_its_workloads():
    both = [samples_of("v"), samples_of("w", values=((5.0, 6.0), (7.0, 8.0)))]
    right = PublishedMean("a", "g", ("v", "w"), 4.0, "s", 1.0, 0.01)
    wrong = [replace(right, mean=3.0), replace(right, candidate="b", mean=4.0)]
    assert flags.check_means(both, [right]) == ()
    for published in ([*wrong, right], [right, *wrong]):
        found = flags.check_means(both, published)
        assert [flag.values["mean"] for flag in found] == [4.0, 5.0]


def test_all_metrics_that_do_not_decide_are_secondary():
    names = ("elapsed_s", "latency_ns_p99", "iops", "throughput_bytes_per_s")
    own, *secondary = (samples_of("w", name) for name in names)
    for goal in ("latency", "throughput"):
        primary, others, _ = objectives.choose([own], secondary, goal, frozen=False)
        assert {each.metric.name for each in (*primary, *others)} == {*names}
        assert len(primary) == 1 and len(others) == 3


def test_a_candidate_is_dominated_on_both_metrics():
    at, better = answers.behind(1.0, 1.2, 1.1, 1.3), answers.behind(1.0, 1, 1, 1)
    worse = answers.behind(1.0, 1.4, 1.3, 1.5)
    for fast, slow, is_so in (({"a": better, "b": at}, {"a": better, "b": at}, True),
                              ({"a": better, "b": at}, {"a": worse, "b": at}, False),
                              ({"a": worse, "b": at}, {"a": better, "b": at}, False),
                              ({"a": at, "b": at}, {"a": better, "b": at}, True)):  # fmt: skip
        assert pareto._dominates("a", "b", fast, slow) == is_so


def test_the_variance_of_boots_is_that_of_all_workloads_boots_and_sessions():
    def stored(name, *means, result=""):
        return StoredSession(name, result, dict(zip("ab", means, strict=True)))

    # Within boot x the effect moves by 1, within y by 3; their means are 4 apart.
    sessions = [stored("x-1", 0.0, 0.0), stored("x-2", 1.0, 0.0), stored("y-1", 3.0, 0.0),
                stored("y-2", 6.0, 0.0, result="r")]  # fmt: skip
    for order in (sessions, sessions[::-1]):
        of = rungs._squares(order, ("a", "b"), "layout")
        assert (of.total, of.freedom, of.results, of.own) == (pytest.approx(0.25 + 2.25), 2, 2, 3)
        of = rungs._squares(order, ("a", "b"), "next-boot")
        assert (of.total, of.freedom, of.own) == (pytest.approx(4.0), 1, 2)
        assert rungs._squares(
            [*order, stored("z", 1.0, 2.0)][::-1], ("a", "b", "c"), "layout"
        ).freedom
    own = rungs._Squares(1.0, 1.0, 1, 2)
    others = [rungs._Squares(2.0, 1.0, 1, 2), rungs._Squares(6.0, 3.0, 1, 2)]
    weight = min(4.0, rungs.OTHERS_FREEDOM)
    for pair in (others, others[::-1]):
        found = rungs._moderated(own, pair)
        assert found.variance == pytest.approx(2 * (weight * 2.0 + 1.0) / (weight + 1.0))
    history = {work: [stored(f"s{n}", n * factor, 1.0) for n in range(3)]
               for work, factor in (("v", 1.0), ("w", 10.0))}  # fmt: skip
    history["w"].pop(0)
    mixed = rungs._mixed(history, {"v": 0.25, "w": 0.75})
    assert {each.name: each.means["a"] for each in mixed} == {"s1": 7.75, "s2": 15.5}


def test_every_family_over_every_size_has_its_knee():
    works = [Workload(f"{kind} {size}", kind, "elapsed_s", {"record_bytes": size})
             for kind in ("k", "l") for size in (1024, 2048, 4096)]  # fmt: skip
    candidates = [Candidate(*of) for of in (("a",), ("a again", {}, "a"), ("b",))]
    found = scaling.knees(works, candidates, [samples_of(work.label) for work in works])
    assert len(found) == 4 and len({(each.family, each.candidate) for each in found}) == 4


@pytest.mark.parametrize("order", [1, -1])
def test_any_adjusted_pair_may_deny_a_claim(order):
    (claim,) = contradictions.claims_of(answers.BEST)
    pairs = [("a", "b", -0.5, 0.1), ("a", "c", 0.5, 0.1), ("b", "c", 0.5, 0.1)][::order]
    row = answers.BEST.rows[0]
    for log, is_denied in ((-0.5, True), (0.5, False)):
        adjusted = [(a, b, log if (a, b) == ("a", "b") else n, low) for a, b, n, low in pairs]
        flag = Flag("carry-over", "w0", (), {"adjusted": adjusted})
        assert answer_check._denies(flag, claim, row, 0.02) == is_denied


@pytest.mark.parametrize("order", [1, -1])
def test_a_claim_of_any_row_is_denied_by_what_is_better_there(order):
    made = replace(
        answers.BEST,
        rows=tuple(answers.primary(*of) for of in (("w0", "elapsed_s"), ("w1", "iops"))[::order]),
        counted=("w0", "w1")[::order],
        cells=dict.fromkeys(("w0", "w1"), answers.BEST.cells["w0"]),
        flags=tuple(Flag("carry-over", row, (), {"adjusted": [("a", "b", log, 0.1)]})
                    for row, log in (("w0", -0.5), ("w1", 0.5))),
    )  # fmt: skip
    said = "b is proven ahead, and yet carry-over"
    assert {f"w0: {said}", f"w1: {said}"} <= {*answer_check.check(made)}


def test_a_control_may_be_any_row_and_differ_by_any_candidate():
    control = replace(answers.primary("c", "elapsed_s"), counted=False, control=True)
    for pair in ((control, *answers.BEST.rows), (*answers.BEST.rows, control)):
        for name in "ab":
            cells = {label: answers.behind(1.0, 1.2, 1.1 if label == name else 1.0, 1.3)
                     for label in "ab"}  # fmt: skip
            made = replace(answers.BEST, rows=pair, cells={**answers.BEST.cells, "c": cells})
            assert "c: the control differs, and yet best" in answer_check.check(made)


def test_stalls_and_modes_are_those_of_every_candidate():
    rng = np.random.default_rng(1)
    y = 0.01 * rng.standard_normal((24, 4))
    for jumping in ((1, 2), (2, 1)):
        rows = y.copy()
        for at, column in enumerate(jumping):
            rows[at::2, column] += 1.0 + at
        assert {1, 2} <= {*_modes(rows - rows.mean(axis=1, keepdims=True), None, 4)}


def test_each_guarantee_has_its_own_baseline_candidates_answer_and_cells():
    def ask(primary, secondary, base, labels):
        names = {label for sample in (*primary, *secondary) for label in sample.candidates}
        asked.append((base, tuple(labels), names, len(primary), len(secondary)))
        cells = {row: {label: (row, label) for label in labels} for row in ("v", "w")}
        rows = tuple(answers.primary(name, "elapsed_s") for name in ("v", "w"))
        return replace(answers.BEST, take=labels[0], cells=cells, rows=rows)

    asked = []
    labels = ("a", "b", "c", "d", "e", "f")
    values = (tuple(map(float, range(1, 8))),) * 2
    first, second = (samples_of(name, values=values, names=(*labels, "c (A/A)")) for name in "vw")
    told = dict(zip(labels, ("x", "x", "", "", "y", "y"), strict=True))
    made = guarantees.by_guarantee([first, second], [first, second], "c", told, ask)
    assert [(base, group) for base, group, *_ in asked] == [
        ("c", ("c", "d")), ("a", ("a", "b")), ("e", ("e", "f"))
    ]  # fmt: skip
    assert [names for _, _, names, *_ in asked] == [{"c", "d", "c (A/A)"}, {"a", "b"}, {"e", "f"}]
    assert {numbers for *_, one, other in asked for numbers in [(one, other)]} == {(2, 2)}
    assert [(of.guarantee, of.candidates, of.answer and of.answer.take)
            for of in made.guarantees] == [
        ("", ("c", "d"), None), ("x", ("a", "b"), "a"), ("y", ("e", "f"), "e")
    ]  # fmt: skip
    assert made.cells == {row: {label: (row, label) for label in made.cells[row]} for row in "vw"}
    assert [sorted(made.cells[row]) for row in "vw"] == [list(labels)] * 2
    assert made.candidates == labels


def test_every_jump_of_the_level_is_a_flag():
    arms = np.repeat([0.0, 1.0, 3.0], 4)[:, None] + np.zeros((12, 2))
    table = SimpleNamespace(arms=arms, blocks=range(12), number_of=lambda block: block + 1,
                            samples=SimpleNamespace(workload="w"))  # fmt: skip
    found = [flag.values for flag in flags._changes(table, [4, 8])]
    assert [values["block"] for values in found] == [5, 9]
    assert [values["change"] for values in found] == pytest.approx([math.e - 1, math.e**2 - 1])


def test_two_runs_of_a_cell_are_one_and_a_bound_of_any_is_one():
    logs, columns, blocks = np.array([1.0, 3.0, 5.0, 7.0]), [0, 0, 1, 1], [0, 0, 0, 1]
    for starved in ((True, False), (False, True)):
        y, bounds, names, first = rows._arranged(
            logs, np.array([*starved, False, False]), columns, blocks, [0, 1, 2, 3], 2
        )
        assert y[0].tolist() == [2.0, 5.0] and names == (0, 1) and first == [0, 3]
        assert bounds.tolist() == [[True, False], [False, False]]


def test_each_figure_of_another_actor_has_its_workload_and_metric():
    works = tuple(Workload(kind, kind, "x") for kind in ("newcomer", "startup", "file-test"))
    record = SimpleNamespace(experiment=SimpleNamespace(workloads=works))
    own = {work.label: dict(KINDS[work.kind].actors) for work in works}
    assert len(own["newcomer"]) and len(own["startup"]) > 1
    assert result._actors(record) == {
        (label, metric): actor for label, of in own.items() for metric, actor in of.items()
    }


@pytest.mark.parametrize("order", [1, -1])
def test_flags_of_a_table_are_of_all_its_candidates_and_arms(order):
    names = ("a", "b", "c")[::order]
    runs = dict(zip("abc", (5, 3, 7), strict=True))
    samples = SimpleNamespace(workload="w", blocks=range(9), candidates=("a", "x", "x", "b"),
                              values=(1.0, 2.0, math.nan, 3.0))  # fmt: skip
    table = SimpleNamespace(
        samples=samples, left_out=("x",), candidates=names, arms=np.zeros((9, 4)), filled=6,
        groups=[np.zeros(runs[name]) for name in names], starved=[runs[name] - 3 for name in names],
        observed=np.array([[at < 8 - place for place in range(4)] for at in range(9)]),
    )  # fmt: skip
    lost, missing = flags._missing(table)
    assert lost.values == {"cells": 8, "of": 9}
    assert missing.values["filled"] == dict(zip((*names, "A/A"), (1, 2, 3, 4), strict=True))
    (starved,) = flags._starved(table)
    assert starved.values == {"counts": {n: runs[n] - 3 for n in names if n != "b"}, "runs": 7}
    row = answers.primary("w", "elapsed_s", control=True)
    cells = {n: answers.behind(1.0, 1, 1, up) for n, up in zip(names, (1.5, 1.01, 1.2)[::order],
                                                               strict=True)}  # fmt: skip
    (control,) = flags.control_flags(row, cells)
    assert control.values["reach"] == pytest.approx(0.5)
    bad = dict(zip(names, (9, 0, 0)[::order], strict=True))
    p = flags.gates_p(bad, dict.fromkeys(names, 9))
    assert p == pytest.approx(3 * 2 * math.comb(18, 9) / math.comb(36, 9))
    far = [SimpleNamespace(row=1, column=2, distance=1.0), SimpleNamespace(row=0, column=1,
                                                                         distance=2.0)]  # fmt: skip
    table.number_of, table.blocks, table.session = (lambda block: block), (4, 6), (0, 1)
    table.session_names, table.position = ("s", "t"), np.arange(8).reshape(2, 4)
    findings = SimpleNamespace(aa=None, outliers=far, stalls={}, modes={}, uneven=None,
                               unsteady=False, aging=None, carry_over=None)  # fmt: skip
    found = [*flags.finding_flags(table, SimpleNamespace(unit="runs"), findings, 0.1)]
    assert [(f.candidates, f.values["block"], f.values["run"], f.values["session"])
            for f in found] == [((names[2],), 6, 7, "t"), ((names[1],), 4, 2, "s")]  # fmt: skip


def test_levels_that_change_twice_have_both_changes_wherever_the_larger_is():
    for jumps in ((0.0, 1.0, 5.0), (0.0, 5.0, 6.0)):
        level = np.repeat(jumps, 14) + 0.01 * np.tile([0, 1, 2, 1, 3, 0, 2], 6)
        assert change_points.change_points(level) == (14, 28)


def joined_rows(order):
    """Two rows of three blocks and two candidates, of which all that a mix adds up differs."""
    metric = METRICS["elapsed_s"]
    both = []
    for value, bound, exact in ((2.0, "at-least", True), (8.0, "", False)):
        values, bounds = tuple(value + at for at in range(6)), (bound, *[""] * 5)
        sample = Samples(
            f"w{value}", metric, ("a", "b") * 3, (0, 0, 1, 1, 2, 2), values, bounds=bounds
        )
        data = rows.row_data(sample, ("a", "b"), None, blocked=True)
        both.append(replace(data, filled=value, exact=exact, rounding=np.array([value, 0.0]),
                            below_step=np.array([exact, False])))  # fmt: skip
    both[1] = replace(both[1], aa=1, y=np.column_stack([both[1].y, both[1].y[:, 1]]),
                      bounds=np.column_stack([both[1].bounds] * 2)[:, :3])  # fmt: skip
    both[0].y[2, 1] = np.nan
    return both[::order]


@pytest.mark.parametrize("order", [1, -1])
def test_a_mix_has_the_bounds_gaps_rounding_and_doubts_of_all_its_rows(order):
    whole = mix._joined(joined_rows(order), (0.25, 0.75)[::order])
    assert whole.aa is None and whole.y.shape == (3, 2) and not whole.exact
    assert whole.bounds.tolist() == [[True, False], [False, False], [False, False]]
    assert whole.below_step.tolist() == [True, False]
    assert whole.rounding.tolist() == [0.25 * 2 + 0.75 * 8, 0.0]
    assert whole.filled == 0.25 * 2 + 0.75 * 8 + 0.25 and whole.share == 0.25 / 6


@pytest.mark.parametrize("order", [1, -1])
def test_each_requirement_is_judged_by_its_own_limit_on_every_candidate(order):
    sample = Samples("w", METRICS["elapsed_s"], tuple("abc"[::order]) * 3 + ("d",) * 3,
                     (0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 1, 2),
                     (*((2.0, 3.0, 4.0)[::order]), *((2.1, math.nan, 4.1)[::order]),
                      *((2.05, math.nan, 4.05)[::order]), 9.0, 9.1, 9.2))  # fmt: skip
    data = rows.row_data(sample, ("a", "b", "c", "d"), None, blocked=True)
    row = answers.primary("w", "elapsed_s")
    requires = [Require("w", "elapsed_s", 3.0, True), Require("w", "elapsed_s", 5.0, True)][::order]
    found = requirements.judged(requires, [row], [data], 0.05)
    expected = {3.0: ["met", "open", "missed", "missed"], 5.0: ["met", "open", "met", "missed"]}
    assert [[*of.candidates.values()] for of in found] == [expected[of.limit] for of in found]
    assert [of.limit for of in found] == [of.limit for of in requires]


def test_the_decisive_run_is_that_without_which_the_bound_is_least():
    y = np.zeros((7, 3)) + 0.01 * np.arange(21).reshape(7, 3) % 0.02
    data = []
    for name, line in (("w0", 2), ("w1", 5), ("w2", 3)):
        own = y.copy()
        own[line, 1] = 3.0
        data.append(SimpleNamespace(
            name=name, y=own, labels=("a", "b"), k=2, aa=0, blocks=(3, 4, 5, 6, 8, 9, 11),
            blocked=True, bounds=np.zeros((7, 3), bool), without=lambda *spot: spot,
        ))  # fmt: skip
    bounds = iter((0.4, 0.1, 0.3))
    again = lambda at, row: SimpleNamespace(bound=next(bounds), take=at % 2, code="best")  # noqa: E731
    found = wild.wild_run(data, 1.0, again, (1, 2, *data[0].blocks))
    assert (found.row, found.block, found.bound, found.take) == ("w1", 8, 0.1, "b")


def test_means_of_sessions_have_the_bounds_and_hosts_of_their_own_blocks():
    sample = Samples("w", METRICS["elapsed_s"], ("a", "b") * 4, (0, 0, 1, 1, 2, 2, 3, 3),
                     (1.0,) * 8, bounds=("", "", "", "at-least", "", "", "", ""),
                     hosts=("h",) * 4 + ("i",) * 4)  # fmt: skip
    data = rows.row_data(sample, ("a", "b"), None, blocked=True)
    means = losses.by_unit(data, np.array([0, 0, 1, 1]))
    assert means.bounds.tolist() == [[False, True], [False, False]]
    assert len({*means.host.tolist()}) == 2


@pytest.mark.parametrize("order", [1, -1])
def test_controls_prices_and_places_without_runs_stop_nothing_behind_them(order):
    works = [Workload("c", "x", "iops", negative_control=True), Workload("u", "x", "iops"),
             Workload("v", "x", "elapsed_s", weight=3.0)][::order]  # fmt: skip
    asked = SimpleNamespace(workloads=works, metric=lambda work: METRICS[work.metric])
    runs = {name: SimpleNamespace(metrics={metric: math.e**at}) for name, metric, at in
            (("u", "iops", 4), ("v", "elapsed_s", 8))}  # fmt: skip
    assert score(asked, runs) == pytest.approx((4 - 3 * 8) / 4)
    of = Statement("it", "m", ("gone", "w")[::order], ("x", "y"))
    values = {("m", "w", "x"): {0: 1.0}, ("m", "w", "y"): {0: 2.0}}
    assert {place: each[0] for place, each in statements._figures(of, values).items()} == {
        ("w", "x"): 1.0, ("w", "y"): 2.0}  # fmt: skip
    blocks = (0, 0, 0, 1, 1, 1)
    sample = Samples("w", METRICS["iops"], tuple("bcabca"), blocks, (1.0, 2, 4, 9, 8, 16),
                     sessions=tuple("stuvwx"), hosts=tuple("klmnop"), before=tuple("defghi"),
                     cpu_share=(1.0, 2, 3, 4, 5, 6),
                     bounds=("", "", "", "at-most", "", ""))  # fmt: skip
    later = sample.of_blocks({1})
    assert later == replace(
        sample, candidates=("b", "c", "a"), blocks=(1, 1, 1), values=(9.0, 8, 16),
        sessions=("v", "w", "x"), hosts=("n", "o", "p"), before=("g", "h", "i"),
        cpu_share=(4.0, 5, 6), bounds=("at-most", "", ""))  # fmt: skip
    once = sessions.one_each(sample)
    assert (once.candidates, once.sessions) == (("b", "c", "a"), ("s", "t", "u"))
    assert once.values == pytest.approx((3.0, 4.0, 8.0))
    adjusted = SimpleNamespace(p=0.0, effects=np.array([1.0, 2, 3]), errors=np.arange(9).reshape(
        3, 3), difference=lambda a, b: 10 * a + b)  # fmt: skip
    table = SimpleNamespace(samples=SimpleNamespace(workload="w"), candidates=("a", "b", "c"))
    fit = SimpleNamespace(unit="runs", pairs=(np.array([0, 0, 1]), np.array([1, 2, 2])))
    findings = SimpleNamespace(unsteady=False, aging=None, carry_over=adjusted)
    (flag,) = flags._time(table, fit, findings, 0.1)
    assert flag.values["effects"] == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert flag.values["adjusted"] == [["a", "b", 1, 1.0], ["a", "c", 2, 2.0], ["b", "c", 12, 5.0]]


@pytest.mark.parametrize("order", [1, -1])
def test_either_rate_of_two_groups_and_any_device_in_flight_counts(order, tmp_path, monkeypatch):
    rates = {"favoured": 9.0, "other": 3.0}
    side = SimpleNamespace(latency=SimpleNamespace(bins=()))
    actors = SimpleNamespace(rate=lambda names, way: rates[names[0]],
                             groups={"favoured": SimpleNamespace(reads=side)})  # fmt: skip
    monkeypatch.setattr(weights, "run_actors", lambda *of, **more: actors)
    monkeypatch.setattr(weights, "served", lambda *of: ({}, {}))
    monkeypatch.setattr(weights, "outcome", lambda actors, metrics, *of, **facts: (metrics, facts))
    for other, share in ((3.0, 0.75), (0.0, 1.0), (9.0, 0.5)):
        rates["other"] = other
        metrics, facts = weights.Weights().measure(load_engine.TARGET, "w", 1)
        assert (metrics["throughput_bytes_per_s"], facts["share_reached"]) == (9 + other, share)
    monkeypatch.setattr(gates, "BLOCK", tmp_path)
    monkeypatch.setattr(gates, "vmstat", dict)
    for name, text in (("sda", "0 0"), ("sdb", "0 3"), ("sdc", "0 0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inflight").write_text(text)
    assert gates._unquiet(("sda", "sdb", "sdc")[::order]) == "sdb has 0 + 3 requests in flight"
    asked = [parse_output_metric(f"{name}:1/s=stdout~{name} ([0-9]+)!last") for name in "ab"]
    numbers = metrics_from_output.Reader(asked[::order])
    numbers.read(b"a 1 x\nb 1 x\n", b"", lambda name: None)
    _, found = numbers.read(b"a 1 y\na 2 y\nb 3 z\n", b"", lambda name: None)
    assert [each.detail.partition(":")[0] for each in found] == [*"aab"[::order]]
