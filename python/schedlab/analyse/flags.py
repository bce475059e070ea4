"""Limits that a careful reader must know before trusting a figure: codes and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from schedlab.analyse.change_points import LEVEL, trend
from schedlab.analyse.doubts import Findings, changing, early_and_late
from schedlab.analyse.losses import FEW_UNITS, UNITS_TO_WANDER
from schedlab.analyse.matrix import RunMatrix
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rule import ROUNDING, Fit
from schedlab.nouns import Flag, PublishedMean, Samples
from schedlab.nouns.answer import CellAnswer, Row

CPU_BOUND_SHARE = 0.9
#: Published means may be means of rounded means.
ROUNDED = 1e-5
COLD_SPREADS = 4.0
COLD_LEAST = 0.05
REACH_MAX = 1.0


def table_flags(
    table: RunMatrix,
    fit: Fit | None,
    findings: Findings,
    margin: float,
    splits: Sequence[int],
) -> tuple[Flag, ...]:
    """Every flag of one metric of one workload; `margin` is a log.

    `splits` are the indices of the blocks where the level changes.
    """
    if table.zero:
        values = {"metric": table.samples.metric.name}
        return (Flag("non-positive", table.samples.workload, table.zero, values),)
    return (
        *_missing(table),
        *_few(table),
        *_starved(table),
        *_insensitive(table),
        *_cold_first_run(table),
        *_identical(table),
        *_gates(table),
        *(_changes(table, splits) if splits else _drift(table, margin)),
        *(finding_flags(table, fit, findings, margin) if fit else ()),
    )


def _missing(table: RunMatrix) -> Iterator[Flag]:
    """Cells without a run: filled cells, omitted candidates, unequal numbers of runs."""
    name = table.samples.workload
    for label in table.left_out:
        rows = zip(table.samples.candidates, table.samples.values, strict=True)
        there = sum(own == label and math.isfinite(value) for own, value in rows)
        of = len(set(table.samples.blocks))
        yield Flag("left-out", name, (label,), {"cells": of - there, "of": of})
    if len(table.arms) and table.filled:
        gaps = (~table.observed).sum(axis=0).tolist()
        labels = (*table.candidates, "A/A")
        filled = {label: n for label, n in zip(labels, gaps, strict=False) if n}
        yield Flag("missing-cells", name, values={"cells": table.filled, "filled": filled})
    counts = {c: len(g) for c, g in zip(table.candidates, table.groups, strict=True)}
    if len(set(counts.values())) > 1 and not len(table.arms):
        most = max(counts.values())
        fewer = tuple(label for label, count in counts.items() if count < most)
        yield Flag("unbalanced", name, fewer, {"runs": counts, "most": most})


def _few(table: RunMatrix) -> Iterator[Flag]:
    """Single runs give no interval."""
    counts = {c: len(g) for c, g in zip(table.candidates, table.groups, strict=True)}
    if len(table.arms):
        counts = dict.fromkeys(counts, len(table.arms))
    single = tuple(label for label, n in counts.items() if n == 1)
    if single:
        yield Flag("single-run", table.samples.workload, single, {"runs": counts})


def _starved(table: RunMatrix) -> Iterator[Flag]:
    counts = {c: n for c, n in zip(table.candidates, table.starved, strict=False) if n}
    if counts:
        runs = max(len(group) for group in table.groups)
        values = {"counts": counts, "runs": runs}
        yield Flag("starved", table.samples.workload, tuple(counts), values)


def control_flags(row: Row, cells: Mapping[str, CellAnswer]) -> Iterator[Flag]:
    """A negative control must come out the same for all."""
    if not row.control or len(cells) < 2:
        return
    differ = tuple(label for label, cell in cells.items() if cell.low > 0)
    most = max(math.inf if cell.up is None else cell.up for cell in cells.values())
    if differ:
        yield Flag("control-failed", row.workload, differ)
    elif most <= row.margin:
        yield Flag("control-passed", row.workload)
    else:
        reach = min(math.expm1(min(most, 1.0)), REACH_MAX)
        values = {"reach": reach, "margin": math.expm1(row.margin), "unbounded": reach == REACH_MAX}
        yield Flag("control-open", row.workload, values=values)


def _insensitive(table: RunMatrix) -> Iterator[Flag]:
    """The workload's own CPU time is nearly all of its wall time."""
    shares = np.asarray(table.samples.cpu_share, dtype=np.float64)
    shares = shares[np.isfinite(shares)]
    if len(shares) and float(np.median(shares)) >= CPU_BOUND_SHARE:
        values = {"cpu_share": float(np.median(shares))}
        yield Flag("insensitive", table.samples.workload, values=values)


def _cold_first_run(table: RunMatrix) -> Iterator[Flag]:
    """The first run of half of the candidates is far worse than their others."""
    cold: dict[str, float] = {}
    for label, logs in zip(table.candidates, table.groups, strict=True):
        rest = logs[1:]
        if len(rest) < 3:
            continue
        gap = -table.sign * (logs[0] - np.median(rest))
        spread = 1.4826 * float(np.median(np.abs(rest - np.median(rest))))
        if gap > max(COLD_SPREADS * spread, COLD_LEAST):
            cold[label] = abs(math.exp(logs[0]) - math.exp(np.median(logs)))
    if len(cold) >= max(2, len(table.candidates) / 2):
        values = {"difference": cold, "unit": table.samples.metric.unit}
        yield Flag("cold-first-run", table.samples.workload, tuple(cold), values)


def _identical(table: RunMatrix) -> Iterator[Flag]:
    """No run differs from another of its candidate."""
    if all(len(group) > 1 and np.ptp(group) <= ROUNDING for group in table.groups):
        yield Flag("identical", table.samples.workload)


def _changes(table: RunMatrix, splits: Sequence[int]) -> Iterator[Flag]:
    """The level of the whole block jumps."""
    level = table.arms.mean(axis=1)
    edges = [0, *splits, len(level)]
    for start, split, stop in zip(edges, edges[1:], edges[2:], strict=False):
        jump = math.expm1(level[split:stop].mean() - level[start:split].mean())
        values = {"block": table.number_of(table.blocks[split]), "change": jump}
        yield Flag("change-point", table.samples.workload, values=values)


def _drift(table: RunMatrix, margin: float) -> Iterator[Flag]:
    """The level of the whole block drifts; differences inside blocks stay valid."""
    drift = trend(table.arms.mean(axis=1)) if len(table.arms) else None
    if drift and drift.p < LEVEL and abs(drift.change) > margin:
        values = {"change": math.expm1(drift.change), "p": drift.p}
        yield Flag("drift", table.samples.workload, values=values)


def _gates(table: RunMatrix) -> Iterator[Flag]:
    """Gates that failed for one candidate more often: it would be censored."""
    repeated, kept = table.samples.repeated, table.samples.kept
    p = gates_p(repeated, kept)
    if p is not None and p < LEVEL:
        values = {"counts": dict(repeated), "runs": dict(kept), "p": p}
        yield Flag("gates-unbalanced", table.samples.workload, tuple(repeated), values)


def gates_p(repeated: dict[str, int] | Any, kept: dict[str, int] | Any) -> float | None:
    """Fisher's exact test that gates fail equally often for all candidates, two-sided.

    Each candidate against all others, with Bonferroni's correction; `None` without failures.
    """
    labels = list(dict.fromkeys((*repeated, *kept)))
    total_bad = sum(repeated.values())
    total = total_bad + sum(kept.values())
    if not total_bad or len(labels) < 2:
        return None
    smallest = 1.0
    for label in labels:
        bad, own = repeated.get(label, 0), repeated.get(label, 0) + kept.get(label, 0)
        counts = np.arange(max(0, own + total_bad - total), min(own, total_bad) + 1)
        logs = _log_hypergeometric(counts, own, total_bad, total)
        observed = logs[counts == bad][0]
        smallest = min(smallest, float(np.exp(logs[logs <= observed + 1e-9]).sum()))
    return min(1.0, smallest * len(labels))


def _log_hypergeometric(x: Any, draws: int, bad: int, total: int) -> Floats:
    log_factorial = np.concatenate(([0.0], np.log(np.arange(1, total + 1)).cumsum())).take

    def choose(n: Any, k: Any) -> Any:
        return log_factorial(n) - log_factorial(k) - log_factorial(n - k)

    logs = choose(bad, x) + choose(total - bad, draws - x) - choose(total, draws)
    return np.asarray(logs, dtype=np.float64)


def finding_flags(
    table: RunMatrix,
    fit: Fit,
    findings: Findings,
    margin: float,
) -> Iterator[Flag]:
    """The flags from the residuals of one workload."""
    name, labels = table.samples.workload, (*table.candidates, "A/A")
    values: dict[str, object]
    if findings.aa is not None and findings.aa.far_end(margin):
        aa = findings.aa
        values = {
            "ratio": math.exp(aa.mean),
            "low": math.exp(aa.mean - aa.half_width),
            "high": math.exp(aa.mean + aa.half_width),
            "far": math.expm1(aa.far_end(margin)),
        }
        yield Flag("aa-differs", name, values=values)
    for wild in findings.outliers:
        block = table.blocks[wild.row]
        values = {
            "block": table.number_of(block),
            "factor": math.exp(wild.distance),
            "run": int(table.position[wild.row, wild.column]) + 1,
            "session": table.session_names[table.session[wild.row]],
        }
        yield Flag("outlier", name, (labels[wild.column],), values)
    for i, (runs, factor) in findings.stalls.items():
        values = {"runs": runs, "of": len(table.arms), "factor": factor}
        yield Flag("rare-stalls", name, (labels[i],), values)
    for i, modes in findings.modes.items():
        level = float(table.groups[i].mean())
        values = {
            "low": math.exp(level + modes.low),
            "high": math.exp(level + modes.high),
            "share_low": modes.share_low,
            "share_high": modes.share_high,
        }
        yield Flag("two-modes", name, (labels[i],), values)
    uneven = findings.uneven
    if uneven is not None and uneven.noisiest not in findings.modes:  # these say why it scatters
        who = (labels[uneven.noisiest], labels[uneven.quietest])
        values = {"ratio": uneven.ratio, "noisiest": who[0], "quietest": who[1]}
        values["p"] = uneven.p
        yield Flag("uneven-noise", name, who, values)
    yield from _time(table, fit, findings, margin)


def _time(
    table: RunMatrix,
    fit: Fit,
    findings: Findings,
    margin: float,
) -> Iterator[Flag]:
    """Differences that wander or age, and candidates that act on their followers."""
    name = table.samples.workload
    if findings.unsteady:
        values: dict[str, object] = {
            "autocorrelation": findings.autocorrelation,
            "widening": findings.widening,
        }
        yield Flag("unsteady", name, values=values)
    if fit.unit == "blocks" and FEW_UNITS < fit.units < UNITS_TO_WANDER:
        yield Flag("steady-assumed", name, values={"blocks": fit.units})
    aged = findings.aging
    if aged is not None and aged.pairs:
        most = aged.pairs[0]
        first, second = (table.candidates[side[most]] for side in fit.pairs)
        early, late = changing_facts(table, fit, (first, second), most)
        span = aged.last - aged.first
        values = {
            "slopes": {
                c: float(s * span) for c, s in zip(table.candidates, aged.slopes, strict=True)
            },
            "p": aged.p,
            "early": early,
            "late": late,
            "changes_sign": bool(changing(fit, findings, margin)),
        }
        yield Flag("candidate-time", name, (first, second), values)
    carried = findings.carry_over
    if carried is not None and carried.p < LEVEL:
        first, second = fit.pairs
        adjusted = [
            [
                table.candidates[a],
                table.candidates[b],
                carried.difference(int(a), int(b)),
                float(carried.errors[a, b]),
            ]
            for a, b in zip(first, second, strict=True)
        ]
        effects = {c: float(e) for c, e in zip(table.candidates, carried.effects, strict=True)}
        values = {"effects": effects, "p": carried.p, "adjusted": adjusted}
        yield Flag("carry-over", name, values=values)


def changing_facts(
    table: RunMatrix, fit: Fit, pair: tuple[str, str], index: int
) -> tuple[dict[str, object], dict[str, object]]:
    """Which of the pair was better in the first and in the second half, and by which ratio."""
    halves = []
    for mean in early_and_late(fit, index):
        better, worse = pair if mean * table.sign >= 0 else pair[::-1]
        halves.append({
            "better": better, "worse": worse, "ratio": math.exp(abs(mean)),
            "metric": table.samples.metric.name,
            "higher_is_better": table.samples.metric.higher_is_better,
        })  # fmt: skip
    return halves[0], halves[1]


def check_means(samples: Sequence[Samples], published: Sequence[PublishedMean]) -> tuple[Flag, ...]:
    """Published means that do not follow from the rows, and those that have none.

    A mean follows when it differs by no more than one unit of its last printed digit, or by
    `ROUNDED` of itself (means of means that were rounded before).
    """
    rows: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        for label, value in zip(sample.candidates, sample.values, strict=True):
            if math.isfinite(value):
                rows.setdefault((label, sample.workload), []).append(value)
    return tuple(
        flag
        for each in published
        if (
            flag := _wrong_mean(
                each, [v for w in each.workloads for v in rows.get((each.candidate, w), ())]
            )
        )
    )


def _wrong_mean(published: PublishedMean, values: Sequence[float]) -> Flag | None:
    """A flag unless `published` is the mean of `values` (in the metric's unit)."""
    name, group, unit = published.candidate, published.group, published.unit
    facts: dict[str, object] = {"published": published.mean, "unit": unit}
    if not values:
        return Flag("wrong-mean", group, (name,), {**facts, "rowless": True})
    mean = math.fsum(values) / len(values) / published.factor
    if abs(published.mean - mean) <= max(published.last_digit, ROUNDED * mean):
        return None
    difference = published.mean / mean - 1
    facts |= {"mean": mean, "rows": len(values), "difference": difference}
    return Flag("wrong-mean", group, (name,), facts)
