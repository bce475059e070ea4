"""The block-size study: the time goes with the number of synchronous writes."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest
import scipy

from schedlab.analyse import call_costs
from schedlab.analyse.call_cost import fit_call_cost
from schedlab.analyse.scaling import curves
from schedlab.nouns import METRICS, Candidate, Samples, Workload

STUDY = Path(__file__).parents[1] / "data" / "block-size-5mib.csv"


def test_the_published_block_sizes_cost_8_ms_a_write():
    rows = list(csv.DictReader(STUDY.open()))
    calls = [5 * 2**20 // int(row["block_bytes"]) for row in rows]
    cost = fit_call_cost(calls, [float(row["wall_s"]) for row in rows])
    assert calls == [10240, 1280, 320]
    assert cost.seconds_per_call == pytest.approx(8.00e-3, abs=0.005e-3)
    assert cost.constant_s == pytest.approx(0.25, abs=0.01)
    assert cost.explained > 0.95


def test_time_that_goes_with_the_bytes_is_not_blamed_on_the_calls():
    calls = [100, 100, 200, 200]
    cost = fit_call_cost(calls, [1.0, 9.0, 2.0, 8.0])
    assert cost.explained < 0.1
    assert cost.explained < 0.95


def test_one_number_of_calls_tells_nothing():
    assert fit_call_cost([5, 5, 5], [1.0, 2.0, 3.0]) is None


def test_the_line_is_that_of_least_squares():
    calls, seconds = [100, 200, 400, 800, 800], [1.1, 1.9, 4.2, 7.7, 8.4]
    cost, line = fit_call_cost(calls, seconds), scipy.stats.linregress(calls, seconds)
    assert (cost.seconds_per_call, cost.constant_s) == pytest.approx((line.slope, line.intercept))
    assert cost.explained == pytest.approx(line.rvalue**2)
    assert fit_call_cost([100, 200], [1.0, 2.0]).explained == 1.0
    assert fit_call_cost([100, 200], [1.0, 1.0]).explained == 1.0


CANDIDATES = (Candidate("none"), Candidate("bfq"), Candidate("none (A/A)", aa_of="none"))


def timed(sizes, key="block_bytes", metric="elapsed_s", total=1 << 20, **more):
    """Workloads of one family, each run takes 1 s and 10 ms a call, for bfq twice as long."""
    workloads, samples = [], []
    for size in sizes:
        label = f"{key} {size}"
        parameters = {key: size, "total_bytes": total, **more}
        workloads.append(Workload(label, "write", metric, parameters))
        number = (1 << 20) // size if isinstance(size, int) and size > 0 else 1
        seconds = tuple((1 + 0.01 * number) * factor for factor in (1, 2, 1))
        names = tuple(candidate.label for candidate in CANDIDATES)
        samples.append(Samples(label, METRICS[metric], names, (0, 0, 0), seconds))
    return workloads, samples


def test_the_cost_of_a_call_is_told_for_each_candidate_but_not_for_the_aa_arm():
    workloads, samples = timed([512, 4096, 65536], test="fsync")
    flags = call_costs(workloads, CANDIDATES, samples)
    costs = {flag.candidates: flag.values["seconds_per_call"] for flag in flags}
    assert costs == {("none",): pytest.approx(0.01), ("bfq",): pytest.approx(0.02)}
    assert {(flag.kind, flag.workload) for flag in flags} == {("call-cost", "fsync")}


@pytest.mark.parametrize(
    "changed", [{"key": "depth"}, {"metric": "startup_s"}, {"total": None}, {"sizes": [4096]}]
)
def test_only_seconds_over_sizes_in_bytes_of_a_known_total_tell_the_cost_of_a_call(changed):
    workloads, samples = timed(**{"sizes": [512, 4096, 65536], **changed})
    assert call_costs(workloads, CANDIDATES, samples) == ()


def test_a_family_differs_in_one_size_that_is_a_number():
    for wrong in (True, 0, -4096, "4096"):
        assert list(curves(timed([512, wrong])[0], CANDIDATES, timed([512, wrong])[1])) == []
    one, other = timed([512, 4096], test="a"), timed([1024, 8192], test="b")
    both = [mine + theirs for mine, theirs in zip(one, other, strict=True)]
    cost_curves = list(curves(both[0], CANDIDATES, both[1]))
    assert [(curve.family, curve.candidate, curve.sizes) for curve in cost_curves] == [
        (family, name, sizes)
        for family, sizes in (("a", (512.0, 4096.0)), ("b", (1024.0, 8192.0)))
        for name in ("none", "bfq")
    ]
    one, other = (([replace(work, label=f"same {what} {work.label[-1]}") for work in works],
                   [replace(each, workload=f"same {what} {each.workload[-1]}") for each in samples])
                  for what, (works, samples) in (("bytes", timed([1, 2])),
                                                 ("calls", timed([1, 2], total=None))))  # fmt: skip
    both = [mine + theirs for mine, theirs in zip(one, other, strict=True)]
    named = [curve.family for curve in curves(both[0], CANDIDATES, both[1])]
    assert named == ["same bytes"] * 2 + ["same calls"] * 2


def test_candidates_that_are_the_sizes_make_one_curve_of_their_runs():
    candidates = [Candidate(str(d), {"scheduler": "none", "depth": d}) for d in (1, 4, 16)]
    candidates.append(Candidate("1 (A/A)", {"scheduler": "none", "depth": 1}, aa_of="1"))
    names = ("1", "4", "16", "1 (A/A)", "4", "4")
    values = (10.0, 20.0, 0.0, 9.0, math.nan, 21.0)
    samples = Samples("w", METRICS["iops"], names, (0, 0, 0, 0, 1, 2), values)
    (curve,) = curves([Workload("w", "read", "iops")], candidates, [samples])
    assert (curve.family, curve.size, curve.candidate) == ("w", "depth", "")
    assert (curve.sizes, curve.values) == ((1.0, 4.0, 4.0), (10.0, 20.0, 21.0))


def test_time_that_calls_do_not_explain_has_no_cost_per_call():
    workloads, samples = timed([512, 4096, 65536])
    uneven = [
        replace(s, values=(v, *s.values[1:])) for s, v in zip(samples, (1, 9, 3), strict=True)
    ]
    assert [flag.candidates for flag in call_costs(workloads, CANDIDATES, uneven)] == [("bfq",)]
    absent = (*CANDIDATES, Candidate("kyber"))
    assert len(list(curves(workloads, absent, samples))) == 2


def test_block_sizes_that_are_compared_have_one_cost_without_a_name():
    sizes = (512, 4096, 65536)
    candidates = [Candidate(str(size), {"block_bytes": size}) for size in sizes]
    seconds = tuple(1 + 0.01 * (1 << 20) / size for size in sizes)
    names = tuple(candidate.label for candidate in candidates)
    samples = Samples("copy", METRICS["elapsed_s"], names, (0, 0, 0), seconds)
    workload = Workload("copy", "copy", "elapsed_s", {"total_bytes": 1 << 20})
    (flag,) = call_costs([workload], candidates, [samples])
    assert (flag.workload, flag.candidates) == ("copy", ())
    assert flag.values["seconds_per_call"] == pytest.approx(0.01)
    assert flag.values["constant_s"] == pytest.approx(1) and flag.values["explained"] > 0.999
