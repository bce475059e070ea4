"""How far an answer reaches: the next boot, another layout, from all stored results."""

import math
from dataclasses import replace

import answers
import numpy as np
import pytest
import reports
from test_merge import HOST, measured

from schedlab import report
from schedlab.analyse.answer import answer
from schedlab.kinds import Outcome
from schedlab.nouns import METRICS, Samples, StoredSession, Workload
from schedlab.nouns.answer import Rung
from schedlab.report.screen import reach
from schedlab.report.sentences import code
from schedlab.result import Result

TIME = METRICS["elapsed_s"]
LABELS = ("a", "b", "c")


def one_boot(rng, truth, of_boot, noise=0.02, blocks=6, workloads=("w",), boot="now"):
    """(samples of one boot, its sessions as they are stored)."""
    samples, history = [], {}
    for work in workloads:
        logs = truth + of_boot * rng.standard_normal(3) + noise * rng.standard_normal((blocks, 3))
        names, numbers = LABELS * blocks, np.repeat(np.arange(blocks), 3)
        samples.append(Samples(work, TIME, names, tuple(numbers.tolist()),
                               tuple(np.exp(logs).ravel().tolist()),
                               sessions=(f"{boot}-f",) * len(names)))  # fmt: skip
        means = dict(zip(LABELS, logs.mean(axis=0).tolist(), strict=True))
        history[work] = [StoredSession(f"{boot}-f", "" if boot == "now" else boot, means)]
    return samples, history


def asked(rng, truth, of_boot, boots, **more):
    samples, history = one_boot(rng, truth, of_boot, **more)
    for boot in range(boots):
        for work, sessions in one_boot(rng, truth, of_boot, boot=f"b{boot}", **more)[1].items():
            history[work] += sessions
    return answer(samples, baseline="a", ends=(6,), history=history)


def bounds(result):
    return {rung.name: rung.bound for rung in result.rungs}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("boots", "workloads"), [(1, ("w",)), (4, ("w",)), (2, ("w", "x", "y"))])
def test_the_bound_holds_in_the_next_boot(boots, workloads):
    """Boots differ by 10 % for each candidate; that of this boot alone would not hold."""
    rng, held, alone, total = np.random.default_rng(7), 0, 0, 150
    for _ in range(total):
        truth = np.array([0.0, -0.05, 0.05])
        result = asked(rng, truth, 0.1, boots, workloads=workloads)
        take = LABELS.index(result.take)
        following = truth + 0.1 * rng.standard_normal((len(workloads), 3))
        loss = (following[:, take] - following.min(axis=1)).max()
        of = bounds(result)
        held += loss <= (math.inf if of["next-boot"] is None else of["next-boot"]) + 1e-9
        alone += loss <= of["this-boot"] + 1e-9
    assert held >= 0.95 * total and alone < 0.9 * total


def test_the_bound_of_the_next_boot_is_that_of_the_workload_that_differs_most():
    rng, truth = np.random.default_rng(3), np.array([0.1, 0.0, 0.1])
    samples, history = one_boot(rng, truth, 0.0, workloads=("steady", "other"))
    for boot in range(4):
        for work, of_boot in (("steady", 0.0), ("other", 0.2)):
            of = {"workloads": (work,), "boot": f"b{boot}"}
            history[work] += one_boot(rng, truth, of_boot, **of)[1][work]
    found = [bounds(answer(each, baseline="a", ends=(6,), history=history))["next-boot"]
             for each in (samples, samples[::-1], samples[1:])]  # fmt: skip
    assert found[0] == found[1] > 0.1 and found[2] > 0.1


def test_where_boots_do_not_differ_the_bound_is_nearly_that_of_this_boot():
    result = asked(np.random.default_rng(3), np.array([0.1, 0.0, 0.1]), 0.0, 6, noise=0.01)
    of = bounds(result)
    assert result.code == "best" and of["this-boot"] == of["next-boot"] == 0.0
    assert of["layout"] is None  # Each boot had one.


def test_without_other_boots_nothing_is_known_of_the_next():
    result = asked(np.random.default_rng(3), np.zeros(3), 0.0, 0)
    assert bounds(result) == {"this-boot": result.bound, "next-boot": None, "layout": None}
    assert not answer(one_boot(np.random.default_rng(3), np.zeros(3), 0)[0], baseline="a").rungs


def test_a_workload_with_few_boots_leans_on_the_others():
    """One of three was measured in this boot only: what boots do to the others is what is known."""
    rng = np.random.default_rng(5)
    samples, history = one_boot(rng, np.zeros(3), 0.05, workloads=("w", "x", "y"))
    for boot in range(4):
        for work, sessions in one_boot(rng, np.zeros(3), 0.05, workloads=("w", "x"),
                                       boot=f"b{boot}")[1].items():  # fmt: skip
            history[work] += sessions
    wide = bounds(answer(samples, baseline="a", ends=(6,), history=history))
    assert wide["this-boot"] < wide["next-boot"] < math.log(3)


class Booted:
    """Candidates whose speed the boot changes, by up to `spread`."""

    def __init__(self, seed, spread):
        rng = np.random.default_rng(seed)
        self.levels = {"none": 1.0, "bfq": 1.3 * math.exp(spread * rng.uniform(-1, 1))}
        self.rng = rng

    def measure(self, cell, workload, candidate):
        level = self.levels[candidate.settings["scheduler"]]
        return Outcome({"iops": 1e4 * level * self.rng.lognormal(0, 0.01)})


def test_results_beside_it_say_what_the_next_boot_does(tmp_path):
    for boot in range(5):
        measured(tmp_path / f"r{boot}", f"b{boot}-f", source=Booted(boot, 0.1), seed=boot)
    alone = Result.load(tmp_path / "r0")
    of = bounds(alone.answer)
    assert of["next-boot"] is not None and of["layout"] is None
    assert {rung.name: rung.results for rung in alone.answer.rungs}["next-boot"] == 5
    text = " ".join(report.text(alone.record, alone.answer).split())
    assert "after a restart" in text and "on another layout not known" in text
    elsewhere = {**HOST, "cpu": {"model": "other", "usable": 2}}
    measured(tmp_path / "r5", "b5-f", elsewhere, source=Booted(5, 3.0), seed=5)
    other = (Workload("w", "file-test", "iops", {"depth": 2}),)
    measured(tmp_path / "r6", "b6-f", source=Booted(6, 3.0), seed=6, workloads=other)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "experiment.toml").write_text("no experiment")
    assert bounds(Result.load(tmp_path / "r0").answer) == of


@pytest.mark.parametrize(("bound", "is_told"), [(math.log(12), True), (50.0, False)])
def test_a_bound_that_cannot_be_printed_is_none(bound, is_told):
    """Of e^50 a screen said "at most 1,000,000× longer"."""
    wider = (Rung("this-boot"), Rung("next-boot"), Rung("layout", bound, 2))
    line = reach(reports.view_of(replace(answers.TRADE, rungs=wider)))
    assert ("on another layout" in line) == is_told and "1,000,000" not in line
    open_ = replace(answers.TRADE, code="for-now", bound=bound)
    assert ("no bound can be given" in code(reports.view_of(open_))) != is_told


def test_cpu_policies_reach_no_layouts_or_devices():
    wider = (Rung("this-boot"), Rung("next-boot", 0.1, 2), Rung("layout", 0.2, 2))
    far = reach(reports.view_of(replace(answers.TRADE, rungs=wider), kind="cpu"))
    assert "after a restart" in far and "in another session" in far and "layout" not in far
    near = reach(reports.view_of(answers.TRADE, kind="cpu"))
    assert near == "after a restart or on another machine it may differ by more"
