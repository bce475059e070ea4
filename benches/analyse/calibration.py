"""Is the verdict calibrated? Simulated experiments with known truth, judged by the rule.

    python benches/analyse/calibration.py [--quick] [--experiments 2000] [--processes 2]

prints the table of `docs/reference/calibration.md` and the cells that miss their bound. Works on
arrays of experiments × workloads × blocks × arms; `agree` checks that the whole of
`schedlab.analyse.analyse` gives the same bounds to 1e-9. The test-suite runs a small part
(`tests/unit/test_analyse_calibration.py`).
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from calibration_plans import budgeted, extended, precise
from calibration_time import ages, scatters
from numpy.typing import NDArray
from scipy.special import bdtr

from schedlab.analyse import analyse, rule
from schedlab.analyse.across import best_everywhere, passing
from schedlab.analyse.comparison import compare_blocks
from schedlab.analyse.detectable import factor
from schedlab.analyse.looks import boundaries, looks_of
from schedlab.analyse.matrix import _filled
from schedlab.analyse.quantiles import t_quantile
from schedlab.analyse.residuals import LEVEL, carry_over, outliers
from schedlab.design.orders import Orders
from schedlab.spec import METRICS, Samples

Floats = NDArray[np.float64]
DELTA = math.log1p(0.02)
NOISES, BLOCKS, CANDIDATES, WORKLOADS = (0.02, 0.1, 0.3), (4, 6, 8, 12), (2, 4, 12), (1, 8, 63)
MANY = 63
#: Fewer experiments are left out of the table.
FEWEST = 40


@dataclass(frozen=True)
class Cell:
    """One design: noise (sd of the log of a run), blocks, candidates, workloads."""

    noise: float
    blocks: int
    candidates: int
    workloads: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.workloads, self.blocks, self.candidates + 1

    def __str__(self) -> str:
        return f"{self.noise:.0%} noise, {self.blocks} blocks, {self.candidates} × {self.workloads}"


@dataclass(frozen=True)
class Line:
    """A count of experiments against the bound of its rate; `least`: a lower bound."""

    scenario: str
    what: str
    cell: str
    count: int
    of: int
    bound: float
    least: bool = False

    @property
    def rate(self) -> float:
        return self.count / self.of if self.of else math.nan

    @property
    def missed(self) -> bool:
        """Beyond what a true rate at the bound gives once in a thousand."""
        if not self.of:
            return False
        if self.least:
            return float(bdtr(self.count, self.of, self.bound)) < 0.001
        return self.count > 0 and 1 - float(bdtr(self.count - 1, self.of, self.bound)) < 0.001


Scenario = Callable[[Cell, np.random.Generator, int], Iterator[tuple[str, int, int, float, bool]]]


def orders_of(arms: int, blocks: int, rng: random.Random) -> list[list[int]]:
    """Balanced orders of the arms, one per block."""
    orders = Orders(arms, rng)
    return [orders.of_block(block) for block in range(blocks)]


def grid(*, whole: bool) -> list[Cell]:
    """All 108 cells, or a third of them in which every pair of levels occurs."""
    levels = (range(3), range(4), range(3), range(3))
    return [
        Cell(NOISES[i], BLOCKS[j], CANDIDATES[k], WORKLOADS[w])
        for i, j, k, w in itertools.product(*levels)
        if whole or (i + j + k + w) % 3 == 0
    ]


def white(cell: Cell, rng: np.random.Generator, experiments: int) -> Floats:
    return rng.normal(0, cell.noise, (experiments, *cell.shape))


def compare(y: Floats, alpha: float = 0.05, floor: float = 0.0) -> tuple[rule.Fit, Floats]:
    """The overall fit and half-widths of y (experiments × workloads × blocks × arms)."""
    fit = rule.fit(y.mean(axis=1), baseline=0, floor=floor)
    return fit, rule.half_width(fit, alpha)


def differs(y: Floats, floor: float = 0.0, truth: float = 0.0) -> int:
    """Experiments in which an interval of any pair excludes the truth."""
    fit, half = compare(y, floor=floor)
    return int((np.abs(fit.mean - truth) > half).any(axis=-1).sum())


def equal(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    false = differs(white(cell, rng, n))
    yield "false difference", false, n, 0.05, False
    yield "coverage", n - false, n, 0.95, True


def shifted(y: Floats, size: float) -> Floats:
    y = y.copy()
    y[..., 1] += size
    return y


def student(y: Floats, beyond: float = 0.0) -> NDArray[np.bool_]:
    """Paired t with Bonferroni on the same means: which pairs it finds."""
    means = y.mean(axis=1)
    k = means.shape[-1] - 1
    means = means[..., :k].copy()
    means[..., 0] = (y.mean(axis=1)[..., 0] + y.mean(axis=1)[..., k]) / 2
    first, second = rule.pair_index(k)
    d = means[..., first] - means[..., second]
    n = d.shape[-2]
    error = d.std(axis=-2, ddof=1) / math.sqrt(n)
    return np.abs(d.mean(axis=-2)) - float(t_quantile(0.05 / len(first), n - 1)) * error > beyond


def power(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    spread = cell.noise / math.sqrt(cell.workloads)
    y = shifted(white(cell, rng, n), factor(cell.blocks, cell.candidates) * spread + DELTA)
    fit, half = compare(y)
    hit = int((np.abs(fit.mean[:, 0]) - half[:, 0] > DELTA).sum())
    yield "found at the MDD", hit, n, 0.75, True
    yield "found beside paired t", hit, n, 0.9 * float(student(y, DELTA)[:, 0].mean()), True


def modes(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    for share, gap in itertools.product((0.5, 0.2), (20, 30)):
        inner = cell.noise / gap
        y = rng.normal(0, inner, (n, *cell.shape))
        y += (rng.random((n, *cell.shape)) < share) * gap * inner
        yield "false difference", differs(y), n, 0.06, False
        if cell.blocks > 5:
            fit, half = compare(shifted(y, 1.01 * DELTA))
            inside = (np.abs(fit.mean) + half <= DELTA)[:, 0]
            yield "wrongly equivalent", int(inside.sum()), n, 0.01, False


def heavy(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    y = cell.noise * rng.standard_t(2, (n, *cell.shape))
    yield "false difference, t 2", differs(y), n, 0.05, False
    y = white(cell, rng, n)
    y += (rng.random(y.shape) < 0.05) * 10 * cell.noise
    yield "false difference, spikes", differs(y), n, 0.05, False


def skewed(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    y = rng.exponential(cell.noise, (n, *cell.shape))
    yield "false difference", differs(y), n, 0.055, False


def uneven(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    k = cell.candidates
    kinds = {
        "1 × 3": [3.0] + [1.0] * (k - 1),
        "2 × 10": ([10.0, 10.0] + [1.0] * k)[:k],
        "half × 3": [3.0] * (k // 2) + [1.0] * (k - k // 2),
        "all but 3 × 5": ([1.0, 1.0, 1.0] + [5.0] * k)[:k],
    }
    for name, sizes in kinds.items():
        scale = sizes[::-1] if "all" not in name else sizes
        y = white(cell, rng, n) * np.array([*scale, scale[0]])
        yield f"false difference, {name}", differs(y), n, 0.06, False
        if k >= 4 and cell.blocks >= 6 and "all" not in name:
            size = factor(cell.blocks, k) * cell.noise / math.sqrt(cell.workloads)
            y = shifted(y, size)
            fit, half = compare(y)
            hit = int((np.abs(fit.mean[:, 0]) > half[:, 0]).sum())
            yield f"quiet pair, {name}", hit, n, 0.8 * float(student(y)[:, 0].mean()), True


def drift(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    w, blocks, arms = cell.shape
    runs = blocks * arms
    order = rng.permuted(np.broadcast_to(np.arange(arms), (n, w, blocks, arms)), axis=-1)
    place = order + np.arange(blocks)[:, None] * arms
    rows = np.arange(n)[:, None, None, None]
    ramp = np.broadcast_to(np.linspace(0, 5 * cell.noise, runs), (n, runs))
    wander = np.empty((n, runs))
    level = rng.normal(0, 1.65 * cell.noise, n)
    for i in range(runs):
        wander[:, i] = level
        level = 0.9 * level + rng.normal(0, 1.65 * cell.noise * math.sqrt(0.19), n)
    step = (np.arange(runs) > rng.integers(0, runs, n)[:, None]) * 5 * cell.noise
    for name, path in (("linear", ramp), ("AR(1) .9", wander), ("step", step)):
        y = white(cell, rng, n) + path[rows, place]
        yield f"false difference, {name}", differs(y), n, 0.05, False


def aging(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    if cell.blocks < 8:
        return
    for (phi, bound), own in itertools.product(((0.3, 0.075), (0.6, 0.10)), (True, False)):
        shocks = white(cell, rng, n)
        y = shocks.copy()
        for i in range(1, cell.blocks):
            y[:, :, i] = phi * y[:, :, i - 1] + math.sqrt(1 - phi**2) * shocks[:, :, i]
        if not own:
            y[..., -1] = y[..., 0] + rng.normal(0, 0.3 * cell.noise, y[..., 0].shape)
        fit, half = compare(y)
        wrong = (np.abs(fit.mean) > half).any(axis=-1)
        arm = "" if own else ", A/A arm with the baseline"
        yield f"false difference, φ {phi}{arm}", int(wrong.sum()), n, bound, False


def coarse(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    for step in (0.03, 0.1):
        y = np.log(np.maximum(np.round(np.exp(white(cell, rng, n)) / step), 1) * step)
        floor = step / math.sqrt(12 * cell.workloads) * math.sqrt(2 / cell.blocks)
        yield f"false difference, steps of {step:.0%}", differs(y, floor), n, 0.05, False


def gaps(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    if cell.workloads == MANY or cell.candidates == 12:
        return
    n = min(n, 300 if cell.workloads == 1 else 100)
    spread = cell.noise / math.sqrt(cell.workloads)
    size = factor(cell.blocks, cell.candidates) * spread + DELTA
    plain = white(cell, rng, n)
    fit, half = compare(shifted(plain, size))
    complete = float((np.abs(fit.mean[:, 0]) - half[:, 0] > DELTA).mean())
    for share, loss in ((0.03, 0.95), (0.1, 0.9), (0.2, 0.8)):
        y = np.where(rng.random(plain.shape) < share, np.nan, plain)
        false = hit = count = 0
        for each in y:
            if (np.isfinite(each).mean(axis=1) < 0.5).any():
                continue
            if (np.isfinite(each).sum(axis=2) < 2).any():
                continue
            count += 1
            arms = np.mean([_filled(table, 0) for table in each], axis=0)
            lost = float((~np.isfinite(each)).mean())
            filled = int((~np.isfinite(each)).sum()) if cell.workloads == 1 else 0
            fit = rule.fit(arms, baseline=0, missing=lost, filled=filled)
            half = rule.half_width(fit)
            false += bool((np.abs(fit.mean) > half).any())
            gain = abs(fit.mean[0] - size) if cell.candidates else 0
            hit += bool(gain - half[0] > DELTA)
        yield f"false difference, {share:.0%} missing", false, count, 0.055, False
        yield f"found, {share:.0%} missing", hit, count, loss * complete, True


def starved(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    if cell.workloads > 1 or cell.noise > 0.1 or cell.candidates < 3:
        return
    for half_only in (False, True):
        y = white(cell, rng, n)
        hungry = rng.random(y.shape[:-1]) < (0.5 if half_only else 1.1)
        y[..., -2] = np.where(hungry, math.log(1 / 20), y[..., -2])
        fit, half = compare(y)
        mine = rule.pair_index(cell.candidates)[1] == cell.candidates - 1
        worse = (fit.mean[:, mine] - half[:, mine] > DELTA).all(axis=-1)
        others = (np.abs(fit.mean[:, ~mine]) - half[:, ~mine] > 0).any(axis=-1)
        if not half_only:
            yield "starved is worse", int(worse.sum()), n, 0.99, True
        yield "others false", int(others.sum()), n, 0.05, False


def per_workload(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    if cell.workloads == 1:
        return
    n = min(n, 400)
    y = white(cell, rng, n)
    third = cell.workloads // 3
    y[:, :third, :, 1] += math.log(1.3)
    flat = y.reshape(-1, cell.blocks, cell.candidates + 1)
    fit = rule.fit(flat, baseline=0)
    p = rule.p_value(fit, DELTA).reshape(n, cell.workloads, -1)
    first, second = rule.pair_index(cell.candidates)
    touched = (first == 1) | (second == 1)
    any_false, share = 0, 0.0
    for each in p:
        allowed = np.array(passing(each.min(axis=-1).tolist(), 0.05))
        claims = (each <= 0.05) & allowed[:, None]
        true = claims[:third][:, touched].sum()
        wrong = claims.sum() - true
        any_false += wrong > 0
        share += wrong / max(claims.sum(), 1)
    if cell.workloads <= 10:
        yield "any false claim", int(any_false), n, 0.06, False
    yield "share of false claims", round(share), n, 0.05, False


def everywhere(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    if cell.workloads == 1 or cell.noise > 0.1:
        return
    n = min(n, 100)
    y = white(cell, rng, n)
    y[..., 1] += math.log(1.3)
    y[:, 0, :, 1] -= math.log(1.3) + DELTA
    named = 0
    session = np.zeros(cell.blocks, np.intp)
    labels = tuple(range(cell.candidates))
    for each in y:
        parts = [(compare_blocks(w, labels, baseline=0, session=session), 1.0) for w in each]
        named += best_everywhere(1, parts, DELTA)
    yield "named where it is worse on one", named, n, 0.05, False


def sessions(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    w, blocks, arms = cell.shape
    for count, share in itertools.product((4, 6), (0.0, 0.5, 1.0)):
        shift = rng.normal(0, share * cell.noise, (n, w, count, arms))
        shift[..., -1] = shift[..., 0]
        noise = rng.normal(0, cell.noise / math.sqrt(blocks), (n, w, count, arms))
        name = f"false difference, {count} sessions, sd {share:g}"
        yield name, differs(shift + noise), n, 0.055, False


def carried(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    if cell.workloads > 1 or cell.candidates == 12 or cell.noise != NOISES[0]:
        return
    n, arms = min(n, 200), cell.candidates + 1
    flagged = wrong = false = 0
    for i in range(n):
        rows = orders_of(arms, cell.blocks, random.Random(f"{cell}{i}"))
        position = np.argsort(np.array(rows), axis=1)
        y = rng.normal(0, 0.03, (cell.blocks, arms))
        everything = np.ones(y.shape, bool)
        quiet = carry_over(y, everything, position, 0)
        false += quiet is not None and quiet.p < LEVEL
        for row, order in enumerate(rows):
            for before, after in itertools.pairwise(order):
                y[row, after] += math.log(0.9) * (before == 1)
        carry = carry_over(y, everything, position, 0)
        flagged += carry is not None and carry.p < LEVEL
        if carry is not None and cell.candidates > 2:
            half = rule.half_width(rule.fit(y, baseline=0))
            pairs = itertools.combinations(range(cell.candidates), 2)
            far = [abs(carry.difference(a, b)) > half[p] for p, (a, b) in enumerate(pairs)]
            wrong += any(far)
    if cell.blocks >= 8:
        yield "flagged", flagged, n, 0.85, True
    yield "falsely flagged", false, n, 0.02, False
    yield "false difference, adjusted", wrong, n, 0.06, False


def wild(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    if cell.workloads > 1 or cell.candidates < 4:
        return
    n = min(n, 500)
    spread = factor(cell.blocks, cell.candidates) * cell.noise + DELTA
    y = shifted(white(cell, rng, n), spread)
    fit, half = compare(y)
    before = float((np.abs(fit.mean[:, 0]) > half[:, 0]).mean())
    y[:, 0, 0, -2] += math.log(1000)
    fit, half = compare(y)
    hit = int((np.abs(fit.mean[:, 0]) > half[:, 0]).sum())
    if cell.blocks > 5:
        yield "other pairs found", hit, n, 0.9 * before, True
        flags = sum(_named(each[0], cell) for each in y[:100])
        yield "outlier flagged", flags, 100, 0.95, True


def _named(y: Floats, cell: Cell) -> bool:
    """Whether the run that is 1000 times off is named."""
    wild_runs = outliers(rule.fit(y, baseline=0), 0)
    return any(each.row == 0 and each.column == cell.candidates - 1 for each in wild_runs)


def both_signs(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    if cell.workloads == 1:
        return
    effect = math.log(1.3) * np.where(np.arange(cell.workloads) % 2, 1, -1)
    y = white(cell, rng, n)
    y[..., 1] += effect[:, None]
    fit, half = compare(y)
    truth = float(effect.mean())
    first, second = rule.pair_index(cell.candidates)
    real = np.where(first == 1, truth, 0.0) - np.where(second == 1, truth, 0.0)
    covered = int((np.abs(fit.mean - real) <= half).all(axis=-1).sum())
    yield "coverage", covered, n, 0.94, True
    if cell.workloads == 8 and cell.noise == 0.1 and cell.blocks == 8:
        n = min(n, 60)
        depends = sum(verdict_of(each, cell).code == "depends" for each in y[:n])
        yield "depends", depends, n, 0.8, True


def sequential(cell: Cell, rng: np.random.Generator, n: int) -> Iterator:
    """The noise of the cell chooses the kind of noise; its blocks the largest number."""
    if cell.workloads > 1:
        return
    k, n = (2, 4, 8)[CANDIDATES.index(cell.candidates)], min(n, 1000)
    largest = {4: 20, 6: 40, 8: 20, 12: 40}[cell.blocks]
    kind = {0.02: "normal", 0.1: "uneven", 0.3: "two modes"}[cell.noise]
    y = rng.normal(0, 0.05, (n, largest, k + 1))
    if kind == "uneven":
        y[..., 1] *= 3
    if kind == "two modes":
        y = rng.normal(0, 0.0025, y.shape) + 0.05 * (rng.random(y.shape) < 0.5)
    truth, looks = np.zeros(k), looks_of(largest)
    if cell.blocks in (8, 12):  # The hardest truth.
        truth[1] = DELTA
    y[..., :k] += truth
    first, second = rule.pair_index(k)
    real = truth[first] - truth[second]
    wrong, claim = np.zeros(n, bool), np.zeros(n, bool)
    for look, alpha in zip(looks, boundaries(looks), strict=True):
        fit = rule.fit(y[:, :look], baseline=0)
        half = rule.half_width(fit, alpha)
        wrong |= (np.abs(fit.mean - real) > half).any(axis=-1)
        claim |= (np.abs(fit.mean) - half > DELTA)[:, np.abs(real) <= DELTA].any(axis=-1)
    name = f"{kind}, n_max {largest}, k {k}"
    if truth.any():
        yield f"claim at the edge, {name}", int(claim.sum()), n, 0.05, False
        yield f"coverage of all looks, {name}", int((~wrong).sum()), n, 0.94, True
    else:
        yield f"any false at any look, {name}", int(wrong.sum()), n, 0.06, False


SCENARIOS: dict[str, tuple[Scenario, bool]] = {
    "1 equal, normal": (equal, True),
    "2 one better by the MDD": (power, True),
    "3 equal, two modes": (modes, True),
    "4 equal, heavy tails": (heavy, False),
    "5 equal, skewed": (skewed, False),
    "6 unequal noise": (uneven, False),
    "7 the level drifts": (drift, False),
    "8 every candidate wanders": (aging, False),
    "9 coarse values": (coarse, False),
    "10 missing cells": (gaps, True),
    "11 starved runs": (starved, True),
    "12 a third of the workloads +30 %": (per_workload, False),
    "13 best on all but one": (everywhere, False),
    "14 sessions as units": (sessions, False),
    "15 looking early": (sequential, True),
    "16 carry-over": (carried, True),
    "17 one run × 1000": (wild, True),
    "18 effects of both signs": (both_signs, False),
    "19 until precise": (precise, True),
    "20 extended": (extended, True),
    "21 chosen by a pilot": (budgeted, True),
    "22 a candidate ages": (ages, True),
    "23 a candidate scatters more": (scatters, True),
}


def labels_of(cell: Cell) -> tuple[str, ...]:
    return tuple(f"c{i:02d}" for i in range(cell.candidates))


def samples_of(y: Floats, cell: Cell) -> list[Samples]:
    """One experiment (workloads × blocks × arms) as `analyse` takes it, in a shuffled order."""
    names = (*labels_of(cell), "c00 (A/A)")
    result = []
    for w, table in enumerate(y):
        orders = orders_of(len(names), len(table), random.Random(w))
        rows = [(names[c], b, table[b, c]) for b, order in enumerate(orders) for c in order]
        candidates, blocks, values = zip(*rows, strict=True)
        metric = METRICS["throughput_bytes_per_s"]
        values = tuple(np.exp(values).tolist())
        result.append(Samples(f"w{w}", metric, candidates, blocks, values))
    return result


def verdict_of(y: Floats, cell: Cell):
    return analyse(
        samples_of(y, cell), baseline="c00", aa=("c00", "c00 (A/A)"), candidates=labels_of(cell)
    )


def agree(cell: Cell, rng: np.random.Generator, experiments: int) -> float:
    """The largest difference between bounds of `analyse` and of `compare`."""
    y = shifted(white(cell, rng, experiments), 0.05)
    fit, half = compare(y)
    worst = 0.0
    for e in range(experiments):
        for p, pair in enumerate(verdict_of(y[e], cell).overall.pairs):
            ends = (fit.mean[e, p] - half[e, p], fit.mean[e, p] + half[e, p])
            for bound, end in zip((pair.low, pair.high), ends, strict=True):
                if bound is not None and abs(end) < 600:
                    worst = max(worst, abs(math.log(bound) - end) / max(1.0, abs(end)))
    return worst


def seeded(scenario: str, cell: Cell) -> np.random.Generator:
    """Own seeds for every line."""
    return np.random.default_rng(zlib.crc32(f"{scenario} {cell}".encode()))


def run(scenario: str, cell: Cell, experiments: int) -> list[Line]:
    """All lines of one scenario on one cell."""
    count = max(20, experiments // 5) if cell.workloads == MANY else experiments
    results = SCENARIOS[scenario][0](cell, seeded(scenario, cell), count)
    return [Line(scenario, what, str(cell), *numbers) for what, *numbers in results]


def jobs(*, quick: bool) -> list[tuple[str, Cell]]:
    return [
        (name, cell)
        for name, (_, whole) in SCENARIOS.items()
        for cell in grid(whole=whole and not quick)
        if not (quick and cell.workloads == MANY)
    ]


def table(lines: list[Line]) -> str:
    """Per scenario and question: cells, the worst and the mean rate, cells beyond the bound."""
    rows = [
        "| scenario | rate | cells | mean | worst | bound | missed |",
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.scenario, line.what), []).append(line)
    for (scenario, what), every in groups.items():
        own = [line for line in every if line.of >= FEWEST]
        if not own:
            continue
        pick = min if own[0].least else max
        worst = pick(own, key=lambda line: line.rate - line.bound)
        mean = sum(line.rate for line in own) / len(own)
        sign = "≥" if own[0].least else "≤"
        missed = sum(line.missed for line in own)
        rows.append(
            f"| {scenario} | {what} | {len(own)} | {mean:.3f} | {worst.rate:.3f} "
            f"| {sign} {worst.bound:.3g} | {missed or '–'} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--experiments", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a third of the grid, 300 experiments")
    parser.add_argument("--only", default="", help="numbers of scenarios: 19,20")
    chosen = parser.parse_args()
    wanted = chosen.only.split(",") if chosen.only else []
    experiments = min(chosen.experiments, 300) if chosen.quick else chosen.experiments
    began, lines = time.monotonic(), []
    with ProcessPoolExecutor(chosen.processes) as pool:
        pending = [(j, pool.submit(run, *j, experiments)) for j in jobs(quick=chosen.quick)
                   if not wanted or j[0].split()[0] in wanted]  # fmt: skip
        for (scenario, cell), job in pending:
            lines += job.result()
            sys.stderr.write(f"{time.monotonic() - began:6.0f} s  {scenario}, {cell}\n")
    out = sys.stdout.write
    out(f"{experiments} experiments per cell (a fifth at {MANY} workloads)\n\n{table(lines)}\n")
    for line in lines:
        if line.missed:
            out(
                f"missed: {line.scenario}: {line.what}, {line.cell}: {line.rate:.3f} "
                f"({line.count} of {line.of}), bound {line.bound:.3g}\n"
            )
    for cell in () if wanted else grid(whole=False):
        few = 2 if cell.workloads == MANY else 10
        worst = agree(cell, seeded("agree", cell), few)
        if worst > 1e-9:
            out(f"disagrees: {cell}: {worst:.2g}\n")
    out(f"{time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
