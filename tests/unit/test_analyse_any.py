"""Every experiment has a verdict, and it survives JSON."""

import json
import typing
import warnings

import numpy as np
import pytest

from schedlab.analyse import analyse, next_decision
from schedlab.errors import SpecError
from schedlab.spec import METRICS, Code, Samples, Stopping, Verdict, from_json, to_json

KINDS = ("iops", "elapsed_s", "reader_latency_ns_mean")
CODES = typing.get_args(Code)


def workload(rng, name, names, blocks, sessions, missing, starving, spread):
    """One workload with missing cells, starved runs and now and then a value of 0."""
    rows = []
    for block in range(blocks):
        for i in rng.permutation(len(names)):
            if rng.random() < missing and (block or i):
                continue
            bound = "at-most" if i == 1 and rng.random() < starving else ""
            value = float(np.exp(rng.normal(0, spread))) * (0.05 if bound else 1)
            value *= rng.random() > 0.002
            rows.append((names[i], block, value, bound, f"s{block * sessions // blocks}"))
    candidates, numbers, values, bounds, session = zip(*rows, strict=True)
    return Samples(
        name,
        METRICS[str(rng.choice(KINDS))],
        candidates,
        numbers,
        values,
        bounds=bounds,
        sessions=session if sessions > 1 else (),
        negative_control=bool(rng.random() < 0.1),
        step=float(rng.choice([0, 0.01])),
        time_s=2.0,
    )


@pytest.mark.parametrize("seed", range(60))
def test_any_experiment_has_a_verdict(seed):
    rng = np.random.default_rng(seed)
    blocks, sessions = int(rng.integers(1, 14)), int(rng.choice([1, 2, 4, 5]))
    names = [f"c{i}" for i in range(rng.integers(1, 6))] + ["c0 (A/A)"] * (seed % 3 > 0)
    missing, starving = rng.choice([0, 0.1, 0.5]), rng.choice([0, 0.3, 1])
    spread = rng.choice([0, 1e-9, 0.01, 0.1, 2])
    works = [
        workload(rng, f"w{w}", names, blocks, sessions, missing, starving, spread)
        for w in range(rng.integers(2, 4))
    ]
    stopping = (Stopping("fixed", blocks), Stopping("until-decided", 20),
                Stopping("precision", 20, 0.1))[seed % 3]  # fmt: skip
    asked = {"baseline": "c0", "aa": ("c0", "c0 (A/A)"), "stopping": stopping}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            verdict = analyse(works[:-1], blocked=seed % 7 > 0, secondary=works[-1:], **asked)
        except SpecError as error:
            assert "no run" in str(error)
            return
        decision = next_decision(works[:-1], **asked)
    assert verdict.code in CODES and decision.reason
    again = from_json(Verdict, json.loads(json.dumps(to_json(verdict), allow_nan=False)))
    assert again.code == verdict.code
    for pair in verdict.overall.pairs:
        if pair.low is not None and pair.high is not None:
            assert pair.low <= pair.ratio <= pair.high
