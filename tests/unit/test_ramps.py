"""Ramps are found in the rates of the first block, and hold for every candidate."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlab.app.measure.budget import ramps
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.run.backends.io import with_times
from schedlab.spec import Candidate, Cell, Experiment, Plan, RateSeries, Record, Target, Workload

STEADY = "reader beside writers"


def record(burst_bins: int, kind: str = "reader-beside-writers", **parameters: Any) -> Record:
    """bfq serves a burst for so many bins of 100 ms, and a longer one in block 1."""
    works = (Workload(STEADY, kind, "reader_latency_ns_mean", parameters),)
    candidates = tuple(Candidate(name, {"scheduler": name}) for name in ("none", "bfq"))
    target = Target("scratch", "/var/tmp", 1 << 30)
    experiment = Experiment("t", "io", target, candidates, works, "none", 1)
    series = {}
    for number, name in enumerate(("none", "bfq")):
        rates = np.random.default_rng(number).normal(800, 20, 60)
        level = tuple(float(rate) for rate in rates)
        burst = burst_bins if name == "bfq" else 0
        values = (*(20 * rate for rate in level[:burst]), *level[burst:])
        later = tuple(20 * rate for rate in level[:29]) + level[29:]
        series[STEADY, name] = (
            RateSeries(0, "writers", "1/s", 0.1, values, 1.0),
            RateSeries(1, "writers", "1/s", 0.1, later, 1.0),
        )
    return Record(experiment, Plan(()), (), series=series)


def test_a_burst_that_is_longer_than_the_ramp_makes_it_longer() -> None:
    lengths_s = ramps(record(burst_bins=18))
    assert 1.8 <= lengths_s[STEADY] <= 2.4


def test_a_ramp_that_is_long_enough_stays() -> None:
    assert ramps(record(burst_bins=0)) == {}
    assert ramps(record(burst_bins=8, kind="weights")) == {}  # its own is 1 s


def test_a_ramp_that_the_user_set_stays() -> None:
    assert ramps(record(burst_bins=18, ramp_seconds=1.0)) == {}


def test_the_cells_carry_what_was_found() -> None:
    kind = ReaderBesideWriters(seconds=2.0)
    cell = Cell(1, 0, STEADY, "none", 1, seconds=3.0, ramp_seconds=2.2)
    assert with_times(kind, cell) == ReaderBesideWriters(seconds=3.0, ramp_seconds=2.2)
    assert with_times(kind, Cell(1, 0, STEADY, "none", 1)) == kind
