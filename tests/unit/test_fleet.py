"""Several hosts: what is known of their mean and of a new one, and who is the opposite."""

import math

import numpy as np
import pytest
from test_merge import Steady, measured

from schedlab import report
from schedlab.analyse.fleet import fleet
from schedlab.app.merge import merge
from schedlab.design.candidates import parse_candidates
from schedlab.errors import SpecError
from schedlab.kinds import Outcome
from schedlab.result import Result


@pytest.mark.parametrize("hosts", [3, 10, 50])
@pytest.mark.parametrize("spread", [0.0, 0.03, 0.3])
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


def test_equal_hosts_have_the_interval_of_student():
    """With as many blocks each, Hartung and Knapp's is that of the means: 1, 2, 4, 5."""
    of = fleet([(str(y), [y - 0.1, y + 0.1]) for y in (1.0, 2.0, 4.0, 5.0)])
    half = 3.182446 * np.std([1, 2, 4, 5], ddof=1) / 2
    assert (of.mean, of.low, of.high) == pytest.approx((3, 3 - half, 3 + half), abs=1e-5)
    assert of.new_high == pytest.approx(3 + half * math.sqrt(5), abs=1e-5)
    assert of.spread**2 == pytest.approx(10 / 3 - 0.02 / 2, abs=1e-6)  # less the error of a mean
    assert fleet([("a", [1, 2]), ("b", [1, 2]), ("c", [1])]) is None


def test_the_host_that_is_the_opposite_is_named():
    usual = [(f"h{n}", [0.5 + n / 100, 0.52, 0.55]) for n in range(9)]
    assert fleet(usual).opposite == ()
    assert fleet([*usual, ("unclear", [-0.03, 0.02, -0.02])]).opposite == ()
    assert fleet([*usual, ("odd", [-0.4, -0.42, -0.38])]).opposite == ("odd",)
    worse = [(name, [-value for value in values]) for name, values in usual]
    assert fleet([*worse, ("odd", [0.4, 0.42, 0.38])]).opposite == ("odd",)


class Host(Steady):
    """bfq does `factor` as much as none."""

    def __init__(self, factor):
        self.factor = factor

    def measure(self, cell, workload, candidate):
        value = (self.factor if candidate.label == "bfq" else 1.0) * (1 + 0.001 * cell.position)
        return Outcome({"iops": value})


def fleet_of(tmp_path, factors, **changes):
    paths = []
    for number, factor in enumerate(factors):
        about = {"kernel": {"release": f"6.{number}"}, "cpu": {"model": f"m{number}"}}
        asked = {"candidates": parse_candidates("none" if factor is None else "none,bfq"),
                 "seed": number, **changes}  # fmt: skip
        place = tmp_path / f"h{number}"
        paths.append(measured(place, f"s{number}", about, source=Host(factor), **asked))
    return paths


def test_hosts_of_other_kernels_become_one_answer_with_their_names(tmp_path):
    paths = fleet_of(tmp_path, [2.0, 1.9, None, 2.2, 0.5, 2.1])
    with pytest.raises(SpecError, match=r"kernel\.release"):
        merge(paths[:2], tmp_path / "refused")
    merged = Result(merge(paths, tmp_path / "all", hosts=True))
    record = merged.record
    assert record.notices == ()
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
