"""From the runs of one row (workload × metric) to an array of goodness, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse.quantiles import Floats
from schedlab.errors import SpecError
from schedlab.spec import Samples, boot_of

Booleans = NDArray[np.bool_]

#: Values nearer than this (a share) are the same value: no step of a measurement is so small.
SAME_VALUE = 1e-9


@dataclass(frozen=True)
class RowData:
    """One row: `y` (n × arms), natural logarithms of goodness (higher is better), NaN is missing.

    Columns are the `labels` (all k candidates, those without a run as NaN), then the A/A arm of
    column `aa` where there is one. Lines are blocks, or without blocks (`blocked`) the runs of
    each candidate in their order, NaN behind its last. `bounds` (n × arms): the run starved, and
    its value is the best that it can have been. `session` and `host` (n) number the units above a
    block. `rounding` (k) is what rounded values add to a half-width, `sign` −1 where a lower value
    is better. Of a mix a `share` of the cells was filled, `filled` of them. `boots` are the names
    of all. `with_zeros` are the arithmetic means of the candidates (by column) of which a value
    is 0, in the unit of the metric.
    """

    name: str
    labels: tuple[str, ...]
    y: Floats
    bounds: Booleans
    blocks: tuple[int, ...]
    blocked: bool
    aa: int | None
    session: NDArray[np.intp]
    host: NDArray[np.intp]
    rounding: Floats
    sign: float = 1.0
    step: float = 0.0
    no_scatter: bool = False
    share: float = 0.0
    filled: float = 0.0
    boots: tuple[str, ...] = ()
    with_zeros: Mapping[int, float] = field(default_factory=dict)

    @property
    def k(self) -> int:
        """Number of candidates."""
        return len(self.labels)

    @property
    def there(self) -> Booleans:
        """Which candidates have a value."""
        return self._of_candidates(np.isfinite(self.y))

    @property
    def bounded(self) -> Booleans:
        """Which candidates have a run whose value is a bound."""
        return self._of_candidates(self.bounds)

    def _of_candidates(self, cells: Booleans) -> Booleans:
        """Which candidates have such a cell, the baseline in either of its columns."""
        result = np.array([bool(column.any()) for column in cells.T[: self.k]], dtype=bool)
        if self.aa is not None:
            result[self.aa] |= bool(cells[:, self.k].any())
        return result

    def values(self) -> Floats:
        """The candidates' columns (n × k): of the baseline the mean of its two runs."""
        values = self.y[:, : self.k]
        if self.aa is None:
            return values
        values = values.copy()
        values[:, self.aa] = _mean_of_two(values[:, self.aa], self.y[:, self.k])
        return values

    def without(self, line: int, column: int) -> RowData:
        """The same without one run."""
        y, bounds = self.y.copy(), self.bounds.copy()
        y[line, column], bounds[line, column] = np.nan, False
        rounding = _rounding(np.exp(self.sign * y), self.k, self.aa, self.step)
        return replace(self, y=y, bounds=bounds, rounding=rounding)

    def only(self, lines: Booleans) -> RowData:
        """The same with some of its lines."""
        blocks = tuple(b for b, kept in zip(self.blocks, lines, strict=True) if kept)
        return replace(
            self,
            y=self.y[lines],
            bounds=self.bounds[lines],
            blocks=blocks,
            session=self.session[lines],
            host=self.host[lines],
        )


def _mean_of_two(one: Floats, other: Floats) -> Floats:
    """Their mean, or the one that is there."""
    mean = (one + other) / 2
    return np.where(np.isfinite(mean), mean, np.where(np.isfinite(one), one, other))


def usable(samples: Samples) -> tuple[Floats, Booleans, Booleans]:
    """(values, which are bounds, which have a logarithm). A throughput of 0 becomes the least
    positive value of its row, and a bound. Raises SpecError when the columns differ in length.
    """
    if not len(samples.values) == len(samples.candidates) == len(samples.blocks):
        raise SpecError(
            f"workload {samples.workload!r}: {len(samples.values)} values, "
            f"{len(samples.candidates)} candidates and {len(samples.blocks)} blocks",
            "pass three columns of the same length",
        )
    values = np.asarray(samples.values, dtype=np.float64)
    starved = np.array([bool(b) for b in samples.bounds] or [False] * len(values), dtype=bool)
    positive = np.isfinite(values) & (values > 0)
    if samples.metric.higher_is_better and positive.any():
        nothing = values == 0
        values = np.where(nothing, values[positive].min(), values)
        starved, positive = starved | nothing, positive | nothing
    return values, starved, positive


def row_data(
    samples: Samples,
    labels: Sequence[str],
    aa: tuple[str, str] | None,
    *,
    blocked: bool,
    name: str = "",
) -> RowData:
    """The runs of one metric of one workload; `aa` names the baseline and its A/A arm.

    Values without a logarithm are missing, as `usable` says.
    """
    values, starved, positive = usable(samples)
    nothing = np.asarray(samples.values, dtype=np.float64) == 0
    sign = 1.0 if samples.metric.higher_is_better else -1.0
    logs = np.full(len(values), np.nan)
    logs[positive] = sign * np.log(values[positive])
    arms = [*labels, aa[1]] if aa and aa[1] in samples.candidates else list(labels)
    column_of = {label: i for i, label in enumerate(arms)}
    columns = [column_of.get(label, -1) for label in samples.candidates]
    base = labels.index(aa[0]) if aa and len(arms) > len(labels) else None
    kept = [i for i in range(len(values)) if positive[i] and columns[i] >= 0]
    if not blocked and base is not None:  # The A/A arm is more runs of the baseline.
        columns = [base if column == len(labels) else column for column in columns]
        arms, base = list(labels), None
    blocks = samples.blocks if blocked else _numbered(columns, kept)
    y, bounds, names, first = _arranged(logs, starved, columns, blocks, kept, len(arms))
    step = samples.step or _step(values[kept])
    of = np.array([base if c == len(labels) else c for c in columns], np.intp)
    return RowData(
        name=name or samples.workload,
        labels=tuple(labels),
        y=y,
        bounds=bounds,
        blocks=names,
        blocked=blocked,
        aa=base,
        session=_numbers(samples.sessions, first) if blocked else np.zeros(len(names), np.intp),
        host=_numbers(samples.hosts, first) if blocked else np.zeros(len(names), np.intp),
        rounding=_rounding(np.exp(sign * y), len(labels), base, step),
        sign=sign,
        step=step,
        no_scatter=step == 0.0 and bool(kept),
        boots=tuple(dict.fromkeys(boot_of(name) for name in samples.sessions)),
        with_zeros=_with_zeros(np.where(nothing, 0.0, values)[kept], of[kept]),
    )


def _with_zeros(values: Floats, columns: NDArray[np.intp]) -> dict[int, float]:
    """The mean of each candidate (by its column) that has a 0."""
    zeros = {int(column) for column in columns[values == 0]}
    return {column: float(values[columns == column].mean()) for column in zeros}


def _numbered(columns: Sequence[int], kept: Sequence[int]) -> tuple[int, ...]:
    """Without blocks: the number of each run among those of its candidate."""
    seen: dict[int, int] = {}
    blocks = [0] * len(columns)
    for i in kept:
        blocks[i] = seen.get(columns[i], 0)
        seen[columns[i]] = blocks[i] + 1
    return tuple(blocks)


def _arranged(
    logs: Floats,
    starved: Booleans,
    columns: Sequence[int],
    blocks: Sequence[int],
    kept: Sequence[int],
    arms: int,
) -> tuple[Floats, Booleans, tuple[int, ...], list[int]]:
    """(logs, bounds, names of the lines, the first run of each); two runs of a cell are one."""
    names = tuple(sorted({blocks[i] for i in kept}))
    line_of = {block: line for line, block in enumerate(names)}
    total, count = np.zeros((len(names), arms)), np.zeros((len(names), arms))
    bounds = np.zeros((len(names), arms), bool)
    first = [-1] * len(names)
    for i in kept:
        line, column = line_of[blocks[i]], columns[i]
        total[line, column] += logs[i]
        count[line, column] += 1
        bounds[line, column] |= starved[i]
        if first[line] < 0:
            first[line] = i
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, total / count, np.nan), bounds, names, first


def _numbers(names: Sequence[str], first: Sequence[int]) -> NDArray[np.intp]:
    """The session (or host) of each line, numbered from 0 in the order of appearance."""
    if not names:
        return np.zeros(len(first), np.intp)
    known = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([known[names[i]] for i in first], np.intp)


def _step(values: Floats) -> float:
    """The smallest gap between distinct values; 0 where all are equal."""
    ordered = np.unique(values)
    if len(ordered) < 2:
        return 0.0
    gaps = np.diff(ordered)
    gaps = gaps[gaps > SAME_VALUE * ordered[1:]]
    return float(gaps.min()) if len(gaps) else 0.0


def _rounding(raw: Floats, k: int, aa: int | None, step: float) -> Floats:
    """The addition to each half-width of a candidate that scatters by less than half a step.

    Rounding does not average out: its true mean is anywhere within half a step `g` of its value
    v, which is −ln(1 − g/2v) at most.
    """
    result = np.zeros(k)
    if step <= 0:
        return result
    for i in range(k):
        own = raw[:, i] if i != aa else np.concatenate([raw[:, i], raw[:, k]])
        own = own[np.isfinite(own)]
        if len(own) == 0 or (len(own) > 1 and own.std(ddof=1) >= step / 2 * (1 - SAME_VALUE)):
            continue
        part = step / (2 * own.mean())
        result[i] = -np.log1p(-part) if part < 1 else np.inf
    return result
