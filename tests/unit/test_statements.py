"""What a study published beside figures that are known."""

import csv
import math
from dataclasses import replace
from importlib import resources
from statistics import fmean, stdev

import pytest

from schedlab.analyse import compared
from schedlab.app.admit import admit
from schedlab.app.measure.labs import LabChanges, lab_experiment, lab_named
from schedlab.app.measure.published import published
from schedlab.errors import SpecError
from schedlab.nouns import ComparedStatement, Statement

# Means 100 and 50, 20 and 40, 3 and 12, over two blocks.
VALUES = {
    ("m", "a", "x"): {0: 90.0, 1: 110.0}, ("m", "a", "y"): {0: 40.0, 1: 60.0},
    ("m", "b", "x"): {0: 20.0, 1: 20.0}, ("m", "b", "y"): {0: 30.0, 1: 50.0},
    ("m", "c", "x"): {0: 2.0, 1: 4.0}, ("m", "c", "y"): {0: 11.0, 1: 13.0},
    ("m", "zero", "x"): {0: 0.0}, ("m", "zero", "y"): {0: 0.0, 1: 5.0},
}  # fmt: skip


def one(workloads, candidates, **more):
    for key in ("over_workloads",):
        more[key] = tuple(more.get(key, "").split())
    of = Statement("it", "m", tuple(workloads.split()), tuple(candidates.split()), **more)
    (found,) = compared([of], VALUES)
    return found


@pytest.mark.parametrize(
    ("found", "figure", "place"),
    [
        (one("a", "x"), 100.0, ("a", "x")),
        (one("a", "y", over="x"), 0.5, ("a", "y")),
        (one("a b c", "y", over="x"), 4.0, ("c", "y")),
        (one("a b c", "y", over="x", take="smallest"), 0.5, ("a", "y")),
        (one("b c", "x y", over_workloads="a b", take="smallest"), 0.15, ("c", "x")),
        (one("a", "x", over_workloads="b c"), 100 / 3, ("c", "x")),
        (one("b c", "x", over_workloads="a"), 0.2, ("b", "x")),
        (one("a b", "x", over="y", is_difference=True), 50.0, ("a", "x")),
        (one("zero", "x", over="y"), 1.0, ("zero", "x")),
        (one("a", "x", over_workloads="zero"), math.inf, ("a", "x")),
    ],
)
def test_the_figure_of_a_statement(found, figure, place):
    assert (found.figure, (found.workload, found.candidate)) == (pytest.approx(figure), place)
    assert found.comes_out is None


def test_a_statement_comes_out_within_its_limits():
    limits = [(100, 100), (99, None), (None, 101), (100.1, None), (None, 99.9), (1, 99)]
    found = [one("a", "x", least=least, most=most).comes_out for least, most in limits]
    assert found == [True, True, True, False, False, False]
    assert one("nowhere", "x", most=1.0) == ComparedStatement("it", "", None, None)


def test_a_place_comes_out_where_the_next_one_is_clearly_behind():
    """Of 50 and 60 each time the difference is sure; of 50 ± 10 and 60 it is not."""
    values = {
        ("m", "a", "x"): {0: 49.0, 1: 51.0, 2: 50.0}, ("m", "b", "x"): {0: 59.0, 1: 61.0, 2: 60.0},
        ("m", "c", "x"): {0: 65.0, 1: 55.0, 2: 60.5},
    }  # fmt: skip

    def at(workload, *among):
        of = Statement("it", "m", among, ("x",), take="largest", at=workload)
        return compared([of], values)[0].comes_out

    assert (at("b", "a", "b"), at("a", "a", "b")) == (True, False)
    assert at("b", "a", "b", "c") is None and at("c", "c") is True
    # Blocks differ by far more than the two of each: a block is compared with itself.
    levels = {0: 10.0, 1: 50.0, 2: 90.0}
    values = {("m", "a", "x"): levels, ("m", "b", "x"): {at: 2 + v for at, v in levels.items()},
              ("m", "a", "y"): levels, ("m", "b", "y"): levels}  # fmt: skip
    assert at("b", "a", "b") is True
    values["m", "b", "x"] = {block: 1.1 * value for block, value in levels.items()}
    shares = Statement("it", "m", ("a", "b"), ("x",), over="y", take="largest", at="b")
    assert compared([shares], values)[0].comes_out is True


def test_statements_of_the_lab_are_about_what_it_simulates():
    experiment = lab_experiment(lab_named("ncq-ssd"), "small")
    assert len(experiment.statements) == 22 and len(experiment.workloads) == 31
    admit(experiment)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"workloads": ["A 9 MiB"]}, "workload 'A 9 MiB' is not in the experiment"),
        ({"over": "tbs"}, "candidate 'tbs' is not in the experiment"),
        ({"metric": "speed"}, "speed"),
        ({"over_workloads": ["A 8 MiB"] * 3, "workloads": ["A 8 MiB"] * 2}, "2 workloads over 3"),
    ],
)
def test_a_statement_about_something_else_is_refused(more, message):
    usual = {"says": "it", "metric": "iops", "workloads": ["A 8 MiB"], "candidates": ["s"]}
    lab = lab_named("ncq-ssd")
    wrong = type(lab)("mine", {**lab.data, "statements": [usual | more]})
    with pytest.raises(SpecError, match=message):
        admit(lab_experiment(wrong, "small"))


def _published_by_the_model():
    """The statements of the lab that simulates the study, about all of its workloads."""
    lab = lab_named("iozone-schedulers-model")
    labels = {work.label for work in lab_experiment(lab, "small").workloads}
    return list(published(lab.data["published"], labels))


def test_a_published_figure_stands_beside_what_replaced_its_scheduler() -> None:
    """Every cell of the study has its workload here; of other candidates nothing is stated."""
    experiment = lab_experiment(lab_named("iozone-schedulers"), "small",
                                LabChanges(schedulers="none,mq-deadline,kyber,bfq"))  # fmt: skip
    model = _published_by_the_model()
    assert len(experiment.statements) == len(model) == 1 + 2 * 63
    found = [(each.published, each.least, each.most) for each in experiment.statements]
    assert found == [(each["published"], each["least"], each.get("most")) for each in model]
    last = experiment.statements[-1]
    assert last.says == "random-write 16 MiB: bfq, share of none (the study: cfq of noop)"
    assert (last.workloads, last.candidates, last.over) == (
        ("random-write 16 MiB",), ("bfq",), "none"
    )  # fmt: skip
    assert {of for each in experiment.statements for of in each.workloads} == {
        work.label for work in experiment.workloads
    }
    few = lab_experiment(lab_named("iozone-schedulers"), "small", LabChanges(schedulers="none,bfq"))
    assert {each.candidates for each in few.statements} == {("bfq",)} and len(few.statements) == 63


def test_a_published_table_is_statements_with_the_intervals_of_its_repetitions() -> None:
    of = _published_by_the_model()
    assert len(of) == 1 + 2 * 63
    found = next(each for each in of if each["says"].startswith("Read, 1 process 64 KiB: cfq"))
    text = (resources.files("schedlab") / "labs" / "iozone-noop-deadline-cfq.csv").read_text()
    rows = [row for row in csv.DictReader(text.splitlines()) if row["test"] == "Read"]
    noop, cfq = (
        [float(row["kib_per_s"]) for row in rows if row["scheduler"] == name
         and row["record_bytes"] == "65536"]
        for name in ("noop", "cfq")
    )  # fmt: skip
    share = fmean(cfq) / fmean(noop)
    # Student's t of 4 degrees of freedom; the error of a share is that of both means.
    errors = (2.77645 * stdev(each) / math.sqrt(5) / fmean(each) for each in (noop, cfq))
    half = share * math.hypot(*errors)
    assert (found["least"], found["most"]) == pytest.approx((share - half, share + half), rel=1e-4)
    assert found["published"] == f"{share:.3f} ± {half:.3f}" and found["over"] == "noop"
    lowest = min(float(row["kib_per_s"]) for row in csv.DictReader(text.splitlines()))
    assert 1024 * lowest <= of[0]["least"] < 1024 * 1.3 * lowest
    experiment = lab_experiment(lab_named("iozone-schedulers-model"), "small")
    assert len(experiment.statements) == 127 and len(experiment.workloads) == 3 * 63
    labels = {work.label for work in experiment.workloads}
    assert set(of[0]["workloads"]) == {label for label in labels if ", 1 process " in label}


@pytest.mark.parametrize("order", [1, -1])
def test_a_figure_is_judged_beside_the_next_one_and_over_its_own_candidate(order):
    """In any order: of three figures the next is not apart from the first, the last is."""
    values = {
        ("m", "a", "x"): {0: 10.0, 1: 12.0, 2: 11.0}, ("m", "b", "x"): {0: 11.0, 1: 10.0, 2: 10.5},
        ("m", "c", "x"): {0: 1.0, 1: 1.2, 2: 1.1}, ("m", "a", "y"): {0: 6.0, 1: 9.0},
    }  # fmt: skip
    of = Statement("it", "m", tuple("abc"[::order]), ("x",), at="a")
    (found,) = compared([of], values)
    assert (found.figure, found.workload, found.comes_out) == (11.0, "a", None)
    far = replace(of, workloads=tuple("ac"[::order]))
    assert compared([far], values)[0].comes_out is True
    over = replace(of, workloads=("a",), candidates=tuple("xy"[::order]), over_workloads=("c",),
                   at="")  # fmt: skip
    assert compared([over], values | {("m", "c", "y"): {0: 0.5, 1: 0.5, 7: 9.0}})[0] == (
        ComparedStatement("it", "", 15.0, None, "a", "y")
    )
