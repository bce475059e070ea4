"""Whatever is measured: the parts of an answer never contradict each other."""

import json
import math
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from schedlab.analyse.answer import answer
from schedlab.analyse.answer_check import check
from schedlab.analyse.limits import limits
from schedlab.nouns import Require, Samples
from schedlab.nouns.metrics import METRICS

METRIC_NAMES = ("elapsed_s", "throughput_bytes_per_s", "latency_ns_p99", "iops")


def noise(rng, kind, shape):
    """Fifteen kinds of scatter (n blocks × a arms), of unit size or nearly so."""
    n, a = shape
    normal = rng.standard_normal(shape)
    match kind:
        case 0:
            return normal
        case 1:
            return rng.exponential(1, shape)
        case 2:
            return -rng.exponential(1, shape)
        case 3:
            return rng.integers(0, 2, shape) * 5 + normal / 4
        case 4:
            return (rng.random(shape) < 0.2) * 5 + normal / 4
        case 5:
            return normal + 10 * (rng.random(shape) < 0.05)
        case 6:
            return rng.standard_t(2, shape)
        case 7:
            return normal * np.where(np.arange(a) == 0, 10, 1)
        case 8:
            return normal * np.where(np.arange(a) < a / 2, 3, 1)
        case 9:
            return normal / 3 + np.cumsum(rng.standard_normal((n, 1)), axis=0)
        case 10:
            return normal / 3 + np.cumsum(normal, axis=0) / 3
        case 11:
            return np.zeros(shape)
        case 12:
            return normal + 3 * rng.standard_normal((n, 1))
        case 13:
            return rng.standard_cauchy(shape).clip(-50, 50)
        case _:
            return normal + 70 * (rng.random(shape) < 0.02)


def condition(rng, order, k):
    """What speaks against an answer: an A/A arm that is off, a debt, a candidate that ages."""
    n = len(order)
    extra, kind = np.zeros(order.shape), rng.integers(12)
    if kind == 0:
        extra[:, k:] += rng.choice([0.05, 1])
    if kind == 1:  # Whoever follows the second one pays for it.
        position = np.argsort(order, axis=1)
        after = position == position[:, [1]] + 1
        extra += after * rng.choice([0.1, 1])
    if kind == 2:
        extra[:, 1] += np.linspace(-1, 1, n) * rng.choice([0.1, 1])
    return extra


def experiment(seed):
    """A random experiment: its samples, and the further arguments of `answer`."""
    rng = np.random.default_rng(seed)
    n, k, rows = int(rng.integers(1, 21)), int(rng.integers(2, 9)), int(rng.integers(1, 21))
    labels = tuple(f"c{i}" for i in range(k))
    aa = rng.random() < 0.5
    arms = (*labels, "c0 (A/A)") if aa else labels
    sd = float(rng.choice([0, 0.01, 0.05, 0.1, 0.3, 1.0]))
    sessions = int(rng.choice([1, 1, 1, 2, 3])) if n > 3 else 1
    samples = []
    for w in range(rows):
        name = METRIC_NAMES[int(rng.integers(len(METRIC_NAMES)))]
        truth = rng.choice([0, 0.02, 0.1, 0.5, 3], k) * (rng.random(k) < 0.5)
        truth = np.append(truth, truth[0]) if aa else truth
        logs = 3 + truth + sd * noise(rng, int(rng.integers(15)), (n, len(arms)))
        order = np.argsort(rng.random(logs.shape), axis=1)
        logs += condition(rng, order, k)
        values = np.exp(logs.clip(-60, 60))
        style = rng.random()
        if style < 0.03:
            values[rng.random(values.shape) < 0.1] = 0.0
        elif style < 0.2:
            grid = np.exp(3) * float(rng.choice([0.03, 0.3, 2]))
            values = np.round(values / grid) * grid
        elif style < 0.25:
            values[:] = 7.0
        elif style < 0.4:
            values[rng.random(values.shape) < rng.choice([0.02, 0.05, 0.2, 0.7])] = np.nan
        bounds = np.where(rng.random(values.shape) < (0.1 if style > 0.98 else 0), "at-least", "")
        if name in ("throughput_bytes_per_s", "iops"):
            bounds = np.where(bounds == "", "", "at-most")
        blocks, columns = np.indices(values.shape)[0], order
        values, bounds = (np.take_along_axis(each, order, axis=1) for each in (values, bounds))
        units = tuple(f"boot{b * sessions // n}-f" for b in blocks.ravel())
        hosted = sessions > 1 and seed % 3 == 0
        samples.append(
            Samples(
                workload=f"w{w}",
                metric=METRICS[name],
                candidates=tuple(arms[c] for c in columns.ravel()),
                blocks=tuple(blocks.ravel().tolist()),
                values=tuple(values.ravel().tolist()),
                bounds=tuple(bounds.ravel().tolist()),
                sessions=units,
                hosts=units if hosted else (),
                weight=float(rng.integers(1, 4)),
                negative_control=bool(w and rng.random() < 0.1),
            )
        )
    primary = max(1, round(rows * 0.7))
    requires = [
        Require(s.workload, s.metric.name, float(np.exp(3 + rng.choice([-1, 0, 0.3]))))
        for s in samples[:2]
        if rng.random() < 0.2
    ]
    ends = [(), (n,), (max(1, n // 2), n), (n + 3,), (2, max(3, n - 2))][int(rng.integers(5))]
    renamed = [replace(s, workload=samples[0].workload) for s in samples[primary:]]
    once = {s.metric.name: s for s in renamed if s.metric != samples[0].metric}
    arguments = {
        "baseline": "c0",
        "aa": ("c0", "c0 (A/A)") if aa else None,
        "blocked": bool(rng.random() < 0.8),
        "secondary": list(once.values()),
        "ends": ends,
        "shares": bool(rng.random() < 0.2),
        "requires": requires,
        "seconds_per_block": float(rng.choice([math.nan, 0.0, 12.0])),
    }
    return samples[:primary], arguments


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(8))
def test_nothing_in_an_answer_contradicts_anything_else(part):
    for seed in range(part * 25, part * 25 + 25):
        samples, arguments = experiment(seed)
        present = {label for sample in samples for label in sample.candidates}
        assert "c0" in present
        result = answer(samples, **arguments)
        aa, blocked = arguments["aa"], arguments["blocked"]
        flags = limits(result, samples, aa=aa, blocked=blocked)
        assert check(replace(result, flags=flags)) == [], seed


def test_the_experiments_have_every_kind_of_doubt():
    found = set()
    for seed in (17, 18, 90, 177):
        samples, arguments = experiment(seed)
        found |= {doubt.kind for doubt in answer(samples, **arguments).doubt}
    assert {"control", "aa", "carry-over", "candidate-time"} <= found


# Two of each code, on blocks, runs, sessions and hosts.
SHOWN = (2, 3, 4, 8, 10, 17, 18, 27, 36, 38, 40, 54, 60, 66, 78, 84, 85, 86, 97, 103, 106,
         117)  # fmt: skip


def shown(value):
    """A part of an answer in one line: what is not as usual, figures with three digits."""
    if is_dataclass(value):
        usual = ((of, getattr(value, of.name)) for of in fields(value))
        return {of.name: shown(each) for of, each in usual if each != of.default}
    if isinstance(value, dict):
        return {str(key): shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if not isinstance(value, float):
        return value
    # What is as small, or as large, is the rounding of the processor's own arithmetic.
    return float(f"{min(value, 1e12):.3g}") if not 0 < abs(value) < 1e-12 else 0.0


def test_answers_are_what_they_were(golden):
    """Every part of answers to experiments with several of everything."""
    lines = []
    for seed in SHOWN:
        samples, arguments = experiment(seed)
        result = answer(samples, **arguments)
        flags = limits(result, samples, aa=arguments["aa"], blocked=arguments["blocked"])
        lines.append(f"# {seed}: {result.code}, {result.used}")
        rest = shown(replace(result, flags=flags, rows=(), cells={}))
        for name, part in rest.items():
            several = (
                part if isinstance(part, list) and part and isinstance(part[0], dict) else [part]
            )
            lines += [f"{name}: {json.dumps(each)}" for each in several]
        for row in result.rows:
            one = {"row": shown(row) | {"metric": row.metric and row.metric.name}}
            lines.append(json.dumps(one))
            lines += [f"  {label}: {json.dumps(shown(cell))}"
                      for label, cell in result.cells.get(row.name, {}).items()]  # fmt: skip
    golden("answers.txt", "\n".join(lines))
