"""From the runs of one row (workload × metric) to an array of goodness, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse.quantiles import Floats
from schedlab.errors import SpecError
from schedlab.nouns import Samples, boot_of

Booleans = NDArray[np.bool_]

#: Values nearer than this (a share) are the same value: no step of a measurement is so small.
SAME_VALUE = 1e-9
#: From so many units without any scatter on a row is exact.
UNITS_EXACT = 3


@dataclass(frozen=True)
class RowData:
    """One row: `y` (n × arms), natural logarithms of goodness (higher is better), NaN is missing.

    Columns are the `labels` (all k candidates, those without a run as NaN), then the A/A arm of
    column `aa` where there is one. Lines are blocks, or without blocks (`blocked`) the runs of
    each candidate in their order, NaN behind its last. `bounds` (n × arms): the run starved, and
    its value is the best that it can have been. `session` and `host` (n) number the units above a
    block. `rounding` (k) is what rounded values add to a half-width; the value of a candidate that
    is `below_step` (k) is itself a bound. `exact`: no candidate scatters. `sign` is −1 where a
    lower value is better. Of a mix a `share` of the cells was filled, `filled` of them (and of
    effects fitted). `boots` are the names of all. `before` (n × arms) is the column of the
    candidate that ran just before each run (−1: none, or not known). `with_zeros` are the
    arithmetic means of the candidates (by column) of which a value is 0, in the unit of the metric.
    `noiseless`: the values are of a model or of virtual time, where equal ones are a fact.
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
    below_step: Booleans
    sign: float = 1.0
    step: float = 0.0
    exact: bool = False
    share: float = 0.0
    filled: float = 0.0
    boots: tuple[str, ...] = ()
    before: NDArray[np.intp] = field(default_factory=lambda: np.empty((0, 0), np.intp))
    with_zeros: Mapping[int, float] = field(default_factory=dict)
    noiseless: bool = False

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
        return self._of_candidates(self.bounds) | self.below_step

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
        rounding, below = _rounding(_own(np.exp(self.sign * y), self.k, self.aa), self.step)
        return replace(self, y=y, bounds=bounds, rounding=rounding, below_step=below)

    def only(self, lines: Booleans) -> RowData:
        """The same with some of its lines."""
        blocks = tuple(b for b, kept in zip(self.blocks, lines, strict=True) if kept)
        return replace(
            self,
            y=self.y[lines],
            bounds=self.bounds[lines],
            before=self.before[lines],
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
    noiseless: bool = False,
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
    of = np.array([base if c == len(labels) else c for c in columns], np.intp)
    own = _own(np.exp(sign * y), len(labels), base)
    scatter = [each for each in own if len(each) and np.ptp(each) > SAME_VALUE * each.max()]
    exact = not scatter and len(names) >= UNITS_EXACT
    step = samples.step or _step([values[kept][of[kept] == i] for i in range(len(labels))])
    rounding, below = _rounding(own, 0.0 if exact else step)
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
        rounding=rounding,
        below_step=below,
        sign=sign,
        step=step,
        exact=exact,
        boots=tuple(dict.fromkeys(boot_of(name) for name in samples.sessions)),
        before=_before(samples, labels, aa, columns, kept, names, len(arms)),
        with_zeros=_with_zeros(np.where(nothing, 0.0, values)[kept], of[kept]),
        noiseless=noiseless,
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


def _before(
    samples: Samples,
    labels: Sequence[str],
    aa: tuple[str, str] | None,
    columns: Sequence[int],
    kept: Sequence[int],
    names: Sequence[int],
    arms: int,
) -> NDArray[np.intp]:
    """The column of the candidate of the run before each; without `samples.before` the run before
    is that of the same block.
    """
    result = np.full((len(names), arms), -1, np.intp)
    line_of = {block: line for line, block in enumerate(names)}
    own = {label: i for i, label in enumerate(labels)}
    if aa and aa[0] in own:
        own[aa[1]] = own[aa[0]]
    last: dict[int, str] = {}
    for i in kept:
        block, label = samples.blocks[i], samples.candidates[i]
        if block in line_of:
            known = samples.before[i] if samples.before else last.get(block, "")
            result[line_of[block], columns[i]] = own.get(known, -1)
            last[block] = label
    return result


def _numbers(names: Sequence[str], first: Sequence[int]) -> NDArray[np.intp]:
    """The session (or host) of each line, numbered from 0 in the order of appearance."""
    if not names:
        return np.zeros(len(first), np.intp)
    known = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([known[names[i]] for i in first], np.intp)


def _step(by_candidate: Sequence[Floats]) -> float:
    """The smallest gap between two values of one candidate; 0 where each has a single value.

    Between candidates is what they differ by, and no resolution.
    """
    gaps = []
    for values in by_candidate:
        ordered = np.unique(values)
        between = np.diff(ordered)
        gaps += between[between > SAME_VALUE * ordered[1:]].tolist()
    return float(min(gaps, default=0.0))


def _own(raw: Floats, k: int, aa: int | None) -> list[Floats]:
    """The values of each candidate, those of the baseline in both of its columns."""
    columns = [[i, k] if i == aa else [i] for i in range(k)]
    values = (raw[:, own].ravel() for own in columns)
    return [own[np.isfinite(own)] for own in values]


def _rounding(own: Sequence[Floats], step: float) -> tuple[Floats, Booleans]:
    """The addition to each half-width of a candidate that scatters by less than half a step, and
    which of these are so small that they may be anything below the step.

    Rounding does not average out: its true mean is anywhere within half a step g of its value v,
    which is ln((v + g/2)/(v − g/2)).
    """
    result, below = np.zeros(len(own)), np.zeros(len(own), bool)
    for i, values in enumerate(own if step > 0 else ()):
        if len(values) == 0:
            continue
        if len(values) > 1 and values.std(ddof=1) >= step / 2 * (1 - SAME_VALUE):
            continue
        mean = float(values.mean())
        below[i] = mean <= step / 2
        result[i] = 0.0 if below[i] else np.log((mean + step / 2) / (mean - step / 2))
    return result, below
