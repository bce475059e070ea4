"""The block-size study: the time goes with the number of synchronous writes."""

import csv
from pathlib import Path

import pytest

from schedlab.analyse.call_cost import fit_call_cost

STUDY = Path(__file__).parents[1] / "data" / "block-size-5mib.csv"


def test_the_published_block_sizes_cost_8_ms_a_write():
    rows = list(csv.DictReader(STUDY.open()))
    calls = [5 * 2**20 // int(row["block_bytes"]) for row in rows]
    cost = fit_call_cost(calls, [float(row["wall_s"]) for row in rows])
    assert calls == [10240, 1280, 320]
    assert cost.seconds_per_call == pytest.approx(8.00e-3, abs=0.005e-3)
    assert cost.constant_s == pytest.approx(0.25, abs=0.01)
    assert cost.low < cost.seconds_per_call < cost.high
    assert "goes with the number of calls" in cost.statement


def test_time_that_goes_with_the_bytes_is_not_blamed_on_the_calls():
    calls = [100, 100, 200, 200]
    cost = fit_call_cost(calls, [1.0, 9.0, 2.0, 8.0])
    assert cost.explained < 0.1
    assert "does not go" in cost.statement


def test_one_number_of_calls_tells_nothing():
    assert fit_call_cost([5, 5, 5], [1.0, 2.0, 3.0]) is None
