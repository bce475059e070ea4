"""Several hosts: what is known of their mean and of a new one, and who is the opposite."""

import math
from dataclasses import replace

import numpy as np
import pytest
from test_merge import Steady, measured

from schedlab import report
from schedlab.analyse.fleet import fleet
from schedlab.app.fleet.merge import merge
from schedlab.design.candidates import parse_candidates
from schedlab.errors import SpecError
from schedlab.kinds import Outcome
from schedlab.nouns import Target, Workload
from schedlab.report.fleet_table import fleet_lines
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.result import Result


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("hosts", "spread"), [(3, 0.0), (3, 0.3), (10, 0.03), (50, 0.3)])
def test_both_intervals_hold_what_they_promise(hosts, spread):
    """Hosts of 2 to 9 blocks: the mean of all, and the true effect of one more."""
    random, mean, held, new = np.random.default_rng(7), 0.1, 0, 0
    for _ in range(1000):
        true = mean + spread * random.standard_normal(hosts + 1)
        blocks = random.integers(2, 10, hosts)
        of = fleet([(str(i), true[i] + 0.05 * random.standard_normal(n))
                    for i, n in enumerate(blocks)])  # fmt: skip
        held += of.low <= mean <= of.high
        new += of.new_low <= true[-1] <= of.new_high
    assert held >= 930 and new >= 930


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("hosts", "missing"), [(10, 0.0), (20, 0.3)])
def test_fleets_with_outlying_hosts_and_missing_candidates(hosts, missing):
    """A tenth of the hosts is the opposite: the mean of all these, one more like any of these."""
    random, held, new, named, there, false = np.random.default_rng(11), 0, 0, 0, 0, 0
    for _ in range(1000):
        true = 0.1 + 0.03 * random.standard_normal(hosts)
        true[: hosts // 10] -= 0.4
        has = [i for i in range(hosts) if i < 3 or random.random() >= missing]
        blocks = random.integers(2, 10, hosts)
        of = fleet([(str(i), true[i] + 0.05 * random.standard_normal(blocks[i])) for i in has])
        held += of.low <= true[has].mean() <= of.high
        new += of.new_low <= true[random.choice(has)] <= of.new_high
        opposite = {str(i) for i in has if true[i] < 0}
        if of.mean > 0:
            named, there = named + len(opposite & {*of.opposite}), there + len(opposite)
            false += not {*of.opposite} <= opposite
    assert held >= 930 and new >= 930 and named >= 0.93 * there and false <= 50


def test_equal_hosts_have_the_interval_of_student():
    """With as many blocks each, Hartung and Knapp's is that of the means: 1, 2, 4, 5."""
    of = fleet([(str(y), [y - 0.1, y + 0.1]) for y in (1.0, 2.0, 4.0, 5.0)])
    half = 3.182446 * np.std([1, 2, 4, 5], ddof=1) / 2
    assert (of.mean, of.low, of.high) == pytest.approx((3, 3 - half, 3 + half), abs=1e-5)
    assert of.new_high == pytest.approx(3 + half * math.sqrt(5), abs=1e-5)
    many = fleet([(str(n), [y - 0.1, y + 0.1]) for n, y in enumerate([0.0] * 40 + [4.0])])
    assert many.new_high == 4.0  # where it has been found once, it can be found again
    assert of.spread**2 == pytest.approx(10 / 3 - 0.02 / 2, abs=1e-6)  # less the error of a mean
    assert fleet([("a", [1, 2]), ("b", [1, 2]), ("c", [1])]) is None


def test_the_host_that_is_the_opposite_is_named():
    usual = [(f"h{n}", [0.5 + n / 100, 0.52, 0.55]) for n in range(9)]
    assert fleet(usual).opposite == ()
    assert fleet([*usual, ("unclear", [-0.03, 0.02, -0.02])]).opposite == ()
    assert fleet([*usual, ("odd", [-0.4, -0.42, -0.38])]).opposite == ("odd",)
    for order in (1, -1):  # 0.1 is clear after 200 blocks and not after two
        hosts = [*usual, *[("few", [-0.16, -0.04]), ("many", [-0.16, -0.04] * 100)][::order]]
        assert fleet(hosts).opposite == ("many",)
    worse = [(name, [-value for value in values]) for name, values in usual]
    assert fleet([*worse, ("odd", [0.4, 0.42, 0.38])]).opposite == ("odd",)


class Host(Steady):
    """bfq does `factor` as much as none, and half as much on a negative control."""

    def __init__(self, factor):
        self.factor = factor

    def measure(self, cell, workload, candidate):
        factor = 0.5 if workload.negative_control else self.factor
        value = (factor if candidate.label == "bfq" else 1.0) * (1 + 0.001 * cell.position)
        return Outcome({"iops": 1e5 * value})


def fleet_of(tmp_path, factors, models=(), **changes):
    paths = []
    for number, factor in enumerate(factors):
        about = {"kernel": {"release": f"6.{number}"}, "cpu": {"model": f"m{number}"}}
        if models:
            about["devices"] = {"sda": {"model": models[number], "firmware": "1.2"}}
        asked = {"candidates": parse_candidates("none" if factor is None else "none,bfq"),
                 "seed": number, **changes}  # fmt: skip
        place = tmp_path / f"h{number}"
        paths.append(measured(place, f"s{number}", about, source=Host(factor), **asked))
    return paths


def test_machines_are_counted_where_nothing_can_be_compared(tmp_path):
    merged = Result(merge(fleet_of(tmp_path, [None, None]), tmp_path / "all", hosts=True))
    assert merged.answer.code == "nothing"
    assert "2 machines" in report.text(merged.record, merged.answer)


def test_hosts_of_other_kernels_become_one_answer_with_their_names(tmp_path):
    paths = fleet_of(tmp_path, [2.0, 1.9, None, 2.2, 0.5, 2.1])
    with pytest.raises(SpecError, match=r"kernel\.release"):
        merge(paths[:2], tmp_path / "refused")
    merged = Result(merge(paths, tmp_path / "all", hosts=True))
    record = merged.record
    assert record.notices == () and not record.missing[0]
    assert list(record.host["hosts"]) == ["h0", "h1", "h2", "h3", "h4", "h5"]
    assert "kernel" not in record.host and record.host["hosts"]["h3"]["cpu"] == {"model": "m3"}
    assert (merged.answer.used, merged.answer.scope) == ("hosts", "hosts")
    table = report.printed(record, merged.answer)["tables"]
    (of,) = [each for each in table if each["name"] == "fleet-w"]
    none, bfq = of["rows"]
    heads = [column["title"] for column in of["columns"]]
    row = dict(zip(heads, bfq, strict=True))
    assert (row["Machines"], row["Near the best"], row["The opposite on"]) == (5, "4 / 5", "h4")
    assert row["Worst machine"].startswith("h4: ") and none[heads.index("Near the best")] == "2 / 6"
    assert row["Smallest"] == pytest.approx(0.5, rel=0.01)
    assert row["Largest"] == pytest.approx(2.2, rel=0.01)
    assert row["Mean"] == pytest.approx((2.0 * 1.9 * 2.2 * 0.5 * 2.1) ** 0.2, rel=0.01)


def test_two_hosts_of_one_name_and_another_question_are_refused(tmp_path):
    first, second = fleet_of(tmp_path, [2.0, 2.0])
    again = measured(tmp_path / "x" / "h0", "s9", source=Host(2.0))
    with pytest.raises(SpecError, match="two folders are called h0"):
        merge([first, again], tmp_path / "all", hosts=True)
    other = measured(tmp_path / "other", "s8", source=Host(2.0), margin=0.05)
    with pytest.raises(SpecError, match=r"margin is 0\.05"):
        merge([second, other], tmp_path / "all", hosts=True)


def sentences(paths, out):
    merged = Result(merge(paths, out, hosts=True))
    return merged, merged.headline("en")


def test_an_administrator_reads_where_it_holds_and_where_not(tmp_path):
    better = fleet_of(tmp_path / "b", [2.0, 1.9, 2.2, 2.1, 2.05, 1.95])
    _, text = sentences(better, tmp_path / "better")
    assert text.startswith(
        "Take bfq: w gets 1.49 to 2.7× more than with none; proven the best on w."
    )
    assert "On each of the 6 machines bfq was measured within 5 % of the best." in text
    assert "From machine to machine bfq is 1.9 to 2.2 times as good as none on w." in text
    assert "opposite" not in text
    _, alike = sentences(fleet_of(tmp_path / "a", [2.0] * 3), tmp_path / "alike")
    assert "bfq is 2.0 times as good as none; the machines differ by no more than" in alike
    mixed = fleet_of(tmp_path / "m", [2.0, 1.9, 0.5, 2.2, 2.1])
    _, text = sentences(mixed, tmp_path / "mixed")
    assert text.startswith("Keep none: nothing is proven better on machines like these;")
    assert "On 1 of 5 machines none was measured within 5 % of the best; the worst is h3: " in text
    assert "But on h0, h1, h3 and h4 bfq is proven better than none on w." in text


def test_a_control_that_differs_on_a_fleet_is_a_doubt_and_counts_for_no_machine(tmp_path):
    works = [Workload(label, "file-test", "iops", negative_control=label == "c") for label in "wc"]
    paths = fleet_of(tmp_path, [2.0, 1.9, 2.2, 2.1, 2.05, 1.95], workloads=tuple(works))
    merged, text = sentences(paths, tmp_path / "all")
    assert text.startswith("Nothing is settled: the control c differs by 2.0×")
    assert not merged.answer.applies
    assert "On each of the 6 machines bfq was measured within" in text
    assert "opposite" not in text and "as none on c" not in text
    assert report.opposed(merged.record, merged.answer) == frozenset()


def test_the_worst_and_the_opposite_of_any_row_are_told(tmp_path):
    """On each of two rows another machine is behind; the order of the rows changes nothing."""

    class Rows(Host):
        def measure(self, cell, workload, candidate):
            factor = self.factor.get(workload.label, 2.0) if candidate.label == "bfq" else 1.0
            return Outcome({"iops": 1e5 * factor * (1 + 0.001 * cell.position)})

    factors = [{"v": 0.5}, {"w": 0.6}, {}, {}, {}, {}]
    for number, labels in enumerate(("wv", "vw")):
        works = tuple(Workload(label, "file-test", "iops") for label in labels)
        place = tmp_path / str(number)
        paths = [measured(place / f"h{n}", f"s{n}", {"cpu": {"model": f"m{n}"}}, source=Rows(of),
                          workloads=works, seed=n) for n, of in enumerate(factors)]  # fmt: skip
        merged = Result(merge(paths, place / "all", hosts=True))
        answer = replace(merged.answer, take="bfq")
        assert report.opposed(merged.record, answer) == {"h0", "h1"}
        near, *_ = fleet_lines(View(merged.record, answer, Texts("en")))
        assert near.endswith("of the best; the worst is h0: half the rate on v."), near


def test_three_machines_with_one_model_of_device_have_an_answer_of_their_own(tmp_path):
    """Five of one kind gain, three of another lose; the ninth is alone."""
    factors = [2.0, 1.9, 2.2, 2.1, 2.0, 0.5, 0.52, 0.48, 1.0]
    models = ["A"] * 5 + ["B"] * 3 + ["C"]
    target = Target("device", path="/dev/sda")
    merged, text = sentences(fleet_of(tmp_path, factors, models, target=target), tmp_path / "all")
    a, b = merged.answer.kinds
    assert (a.device, a.hosts, a.answer.take) == ("A 1.2", ("h0", "h1", "h2", "h3", "h4"), "bfq")
    assert (b.device, b.hosts, b.answer.take, b.answer.code) == (
        "B 1.2", ("h5", "h6", "h7"), "none", "keep")  # fmt: skip
    assert a.answer.applies and not merged.answer.applies
    assert "A 1.2 (5\xa0machines): h0, h1, h2, h3 and h4. Take bfq: w gets " in text
    page = merged.text()
    assert "1 workload on a device of each machine, 9 machines" in page
    assert f"schedlab fleet apply {merged.folder.path} --inventory INVENTORY --dry-run" in "".join(
        page.split("  ")
    )
    (one,) = sentences(fleet_of(tmp_path / "same", [2.0] * 3, "DDD", target=target),
                       tmp_path / "one")[0].answer.kinds or (None,)  # fmt: skip
    assert one is None  # of one kind all: the answer is that of the kind
