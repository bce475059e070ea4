"""What a careful reader must know before believing a figure, found in the samples themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from schedlab.analyse.change_points import LEVEL, trend
from schedlab.analyse.matrix import Table
from schedlab.analyse.noise_floor import Margins
from schedlab.analyse.statement import REACH_MAX, reach
from schedlab.spec import Flag, Pair, PublishedMean, Samples

CPU_BOUND_SHARE = 0.9
#: Published means may be means of rounded means.
ROUNDED = 1e-5
COLD_SPREADS = 4.0
COLD_LEAST = 0.05
FEW_BLOCKS = 5


def table_flags(
    table: Table,
    pairs: Sequence[Pair],
    margins: Margins,
    splits: Sequence[int],
    *,
    blocked: bool,
) -> tuple[Flag, ...]:
    """Every flag of one metric of one workload; `pairs` are its verdicts.

    `splits` are the indices of the blocks where the level changes.
    """
    if table.zero:
        return (_zero(table),)
    return (
        *_missing(table, blocked=blocked),
        *_few(table, blocked=blocked),
        *_noise_floor(table, margins),
        *_control(table, pairs, margins.equivalence),
        *_insensitive(table),
        *_cold_first_run(table),
        *_identical(table, pairs),
        *_fragile(table, pairs),
        *(_changes(table, splits) if splits else _drift(table, margins.difference)),
    )


def _missing(table: Table, *, blocked: bool) -> Iterator[Flag]:
    """Cells without a run: blocks dropped, candidates left out, unequal numbers of runs."""
    name = table.samples.workload
    for label in table.left_out:
        yield Flag(
            "left-out",
            f"{label} is missing in more than half of the blocks and is not compared",
            name,
            (label,),
        )
    if table.dropped:
        shown = ", ".join(str(table.number_of(block)) for block in table.dropped[:8])
        shown += " …" if len(table.dropped) > 8 else ""
        yield Flag(
            "dropped-block",
            f"{len(table.dropped)} incomplete blocks are dropped for all candidates: {shown}",
            name,
            values={"blocks": list(table.dropped)},
        )
    counts = {c: len(g) for c, g in zip(table.candidates, table.groups, strict=True)}
    if len(set(counts.values())) > 1 and not blocked:
        most = max(counts.values())
        fewer = tuple(label for label, count in counts.items() if count < most)
        listed = ", ".join(f"{label} has {counts[label]} runs" for label in fewer)
        yield Flag(
            "unbalanced",
            f"unbalanced: {listed}, the others have {most}",
            name,
            fewer,
            {"runs": counts, "most": most},
        )


def _zero(table: Table) -> Flag:
    return Flag(
        "non-positive",
        f"{', '.join(table.zero)}: a value of {table.samples.metric.name} is 0 or negative, so no "
        "ratio can be given; this workload is not part of the overall verdict",
        table.samples.workload,
        table.zero,
        {"metric": table.samples.metric.name},
    )


def _few(table: Table, *, blocked: bool) -> Iterator[Flag]:
    """Single runs give no interval; fewer than five blocks give very wide ones."""
    counts = (
        [len(table.blocks)] * len(table.candidates)
        if blocked
        else [len(group) for group in table.groups]
    )
    single = tuple(c for c, n in zip(table.candidates, counts, strict=True) if n == 1)
    if single:
        yield Flag(
            "single-run",
            f"one run of {', '.join(single)}: no interval can be given, nothing is ranked by it",
            table.samples.workload,
            single,
        )
    elif counts and min(counts) < FEW_BLOCKS:
        yield Flag(
            "few-blocks",
            f"only {min(counts)} {'blocks' if blocked else 'runs'}: the intervals are very wide",
            table.samples.workload,
            values={"blocks": min(counts)},
        )


def _noise_floor(table: Table, margins: Margins) -> Iterator[Flag]:
    """The baseline under a second name came out different."""
    if margins.floor is None or margins.floor < margins.difference:
        return
    percent = f"{100 * margins.floor:.2g} %"
    text = (
        f"the baseline demonstrably differs from itself by {percent}: something other than the "
        "scheduler moves the measurements, and smaller differences count as none"
        if margins.raised
        else f"the baseline differs from itself by {percent} (within its own noise): smaller "
        "differences are not called better or worse"
    )
    values = {"noise_floor": margins.floor, "demonstrated": margins.raised}
    yield Flag("noise-floor", text, table.samples.workload, values=values)


def _control(table: Table, pairs: Sequence[Pair], margin: float) -> Iterator[Flag]:
    """A negative control must come out equivalent."""
    if not table.samples.negative_control or not pairs:
        return
    differ = [pair for pair in pairs if pair.verdict in ("better", "worse")]
    name = table.samples.workload
    if differ:
        labels = tuple(dict.fromkeys(label for pair in differ for label in (pair.a, pair.b)))
        yield Flag(
            "control-failed",
            f"{name} cannot depend on the scheduler, yet {' and '.join(labels)} differ on it: "
            "something else moved the measurements",
            name,
            labels,
        )
    elif all(pair.verdict == "equivalent" for pair in pairs):
        yield Flag("control-passed", f"{name} is a negative control and came out equivalent", name)
    else:
        most = min(reach(pairs), REACH_MAX)
        size = f"{'more than ' if most == REACH_MAX else ''}±{100 * most:.2g} %"
        yield Flag(
            "control-open",
            f"{name} is a negative control and showed no difference, but its intervals reach "
            f"{size}, beyond the margin of {100 * margin:.3g} %: a disturbance of that size would "
            "have gone unseen. It neither supports nor contradicts the other verdicts; more "
            "blocks narrow it",
            name,
            values={"reach": most, "margin": margin, "unbounded": most == REACH_MAX},
        )


def _insensitive(table: Table) -> Iterator[Flag]:
    """The workload's own CPU time is nearly all of its wall time."""
    shares = np.asarray(table.samples.cpu_share, dtype=np.float64)
    shares = shares[np.isfinite(shares)]
    if len(shares) and float(np.median(shares)) >= CPU_BOUND_SHARE:
        share = float(np.median(shares))
        yield Flag(
            "insensitive",
            f"{100 * min(share, 1):.0f} % of the wall time of {table.samples.workload} is CPU time "
            "of the workload itself: it cannot tell schedulers apart",
            table.samples.workload,
            values={"cpu_share": share},
        )


def _cold_first_run(table: Table) -> Iterator[Flag]:
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
        unit = table.samples.metric.unit
        low, high = min(cold.values()), max(cold.values())
        yield Flag(
            "cold-first-run",
            f"the first run of {', '.join(cold)} is worse than its median by "
            f"{low:.3g} to {high:.3g} {unit}: a cold start; it is kept in the figures",
            table.samples.workload,
            tuple(cold),
            {"difference": cold, "unit": unit},
        )


def _identical(table: Table, pairs: Sequence[Pair]) -> Iterator[Flag]:
    runs = min((len(group) for group in table.groups), default=0)
    if runs > 1 and pairs and all(pair.standard_error == 0 for pair in pairs):
        yield Flag(
            "identical",
            "every repetition gave the same ratios: the intervals have no width and say nothing "
            "of other inputs",
            table.samples.workload,
        )


def _fragile(table: Table, pairs: Sequence[Pair]) -> Iterator[Flag]:
    for pair in pairs:
        if pair.fragile:
            yield Flag(
                "fragile",
                f"{pair.a} against {pair.b} ({pair.verdict}) is fragile: signed ranks do not "
                "confirm it",
                table.samples.workload,
                (pair.a, pair.b),
            )


def _changes(table: Table, splits: Sequence[int]) -> Iterator[Flag]:
    """The level of the whole block jumps."""
    level = table.y.mean(axis=1)
    edges = [0, *splits, len(level)]
    for start, split, stop in zip(edges, edges[1:], edges[2:], strict=False):
        jump = math.expm1(level[split:stop].mean() - level[start:split].mean())
        block = table.blocks[split]
        yield Flag(
            "change-point",
            f"the level changes by {100 * jump:+.1f} % from block {table.number_of(block)} on; the "
            "parts before and after are shown apart, differences inside blocks are not affected",
            table.samples.workload,
            values={"block": block, "change": jump},
        )


def _drift(table: Table, margin: float) -> Iterator[Flag]:
    """The level of the whole block drifts; differences inside blocks stay valid."""
    found = trend(table.y.mean(axis=1)) if len(table.y) else None
    if found and found.p < LEVEL and abs(found.change) > math.log1p(margin):
        percent = 100 * math.expm1(found.change)
        yield Flag(
            "drift",
            f"the machine drifted by {percent:+.1f} % from the first block to the last; "
            "differences inside blocks are not affected",
            table.samples.workload,
            values={"change": math.expm1(found.change), "p": found.p},
        )


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
    printed = f"{published.mean:g} {unit}".rstrip()
    told: dict[str, Any] = {"published": published.mean, "unit": unit}
    if not values:
        text = f"{name}, {group}: {printed} is published, but there is no row for it"
        return Flag("wrong-mean", text, group, (name,), {**told, "rowless": True})
    mean = math.fsum(values) / len(values) / published.factor
    if abs(published.mean - mean) <= max(published.last_digit, ROUNDED * mean):
        return None
    text = (
        f"{name}, {group}: published as {published.mean:.9g}, its {len(values)} rows give "
        f"{mean:.6g}{unit and f' {unit}'} ({100 * (published.mean / mean - 1):+.1f} %)"
    )
    difference = published.mean / mean - 1
    told |= {"mean": mean, "rows": len(values), "difference": difference}
    return Flag("wrong-mean", text, group, (name,), told)
