"""From rows in the order of running to arrays: which blocks and candidates can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse.losses import fill
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rows import Booleans, RowData, row_data, usable
from schedlab.errors import SpecError
from schedlab.nouns import Samples


@dataclass(frozen=True)
class RunMatrix:
    """One metric of one workload as arrays; every value is a natural logarithm.

    `candidates` (k) are those compared. `groups[i]` holds the runs of candidate i in the order of
    running. For blocked data `arms` (n × a) holds the candidates in columns, then the A/A arm
    where there is one (`has_aa`); missing cells are filled, `observed` (n × a) says which are not.
    `bounds` (n × a) are runs that starved. `position` (n × a) is the place of a run in its block
    (−1: missing), `before` (n × a) the candidate that ran before it (−1: none), `session` (n)
    numbers the sessions, `blocks` (n) names the rows.
    For unblocked data `arms` is empty.
    `left_out` are candidates with too few runs to compare; `zero` those with a value that has no
    logarithm.
    """

    samples: Samples
    candidates: tuple[str, ...]
    groups: tuple[Floats, ...]
    arms: Floats
    observed: Booleans
    bounds: Booleans
    position: NDArray[np.intp]
    before: NDArray[np.intp]
    session: NDArray[np.intp]
    blocks: tuple[int, ...]
    baseline: int | None
    has_aa: bool
    left_out: tuple[str, ...] = ()
    zero: tuple[str, ...] = ()
    starved: tuple[int, ...] = ()
    session_names: tuple[str, ...] = ()

    def number_of(self, block: int) -> int:
        """The number that people know a block by: the first is 1."""
        return block + 1 - min(self.samples.blocks)

    @property
    def sign(self) -> float:
        """+1 where a higher value is better, −1 where a lower one is."""
        return 1.0 if self.samples.metric.higher_is_better else -1.0

    @property
    def filled(self) -> int:
        """Cells without a run."""
        return int((~self.observed).sum())

    @property
    def aa_baseline(self) -> int | None:
        """The column that the last column is the A/A arm of, if it is."""
        return self.baseline if self.has_aa else None


def candidate_order(
    samples: Sequence[Samples], baseline: str, aa_label: str | None, candidates: Sequence[str]
) -> tuple[str, ...]:
    """All candidates but the A/A arm: first `candidates`, then the baseline, then the others."""
    seen = dict.fromkeys(label for sample in samples for label in sample.candidates)
    if baseline not in seen:
        known = ", ".join(seen) or "none at all"
        raise SpecError(f"baseline {baseline!r} has no run", f"candidates with runs: {known}")
    order = dict.fromkeys((*candidates, baseline, *seen))
    return tuple(label for label in order if label != aa_label and label in seen)


def arrange(
    samples: Samples, order: Sequence[str], aa: tuple[str, str] | None, *, blocked: bool
) -> RunMatrix:
    """The runs of one workload as arrays; missing values (NaN) are runs that do not count.

    `aa` names the baseline and its A/A arm.

    Raises SpecError when the columns differ in length or no run is left.
    """
    values, starved, positive = usable(samples)
    names, there = np.asarray(samples.candidates, dtype=object), np.isfinite(values)
    of = {c: names == c for c in (*order, *(aa or ()))}
    present = [c for c in order if (there & of[c]).any()]
    if not present:
        raise SpecError(
            f"workload {samples.workload!r} has no run with a value of {samples.metric.name}",
            "run the missing cells again: schedlab compare --resume DIR",
        )
    aa_label = aa[1] if aa and aa[0] in present and (there & of[aa[1]]).any() else None
    zero = tuple(c for c in present if (there & ~positive & of[c]).any())
    labels = [*present, *([aa_label] if aa_label is not None else [])]
    row = row_data(samples, order, aa, blocked=True)
    columns = [row.k if label == aa_label else row.labels.index(label) for label in labels]
    row = _compared(row, columns)
    is_table = blocked and not zero
    left_out = _too_few(row.y[:, columns], labels, aa_label) if is_table else ()
    gone = {*left_out, *([aa_label] if aa and aa[0] in left_out else [])}
    kept = [i for i, label in enumerate(labels) if label not in gone]
    columns = [columns[i] for i in kept]
    row = _compared(row, columns) if blocked else row
    candidates = tuple(label for label in present if label not in left_out)
    baseline = candidates.index(aa[0]) if aa and aa[0] in candidates else None
    has_aa = aa_label is not None and aa_label not in left_out and baseline is not None
    arms = row.sign * row.y[:, columns] if is_table else np.empty((0, len(kept)))
    logs = np.log(values, out=np.full(len(values), np.nan), where=positive)
    return RunMatrix(
        samples=samples,
        candidates=candidates,
        groups=tuple(logs[positive & of[c]] for c in candidates),
        arms=fill(arms, tied=baseline if has_aa else None),
        observed=np.isfinite(arms),
        bounds=row.bounds[:, columns],
        position=_positions(samples, positive, labels, row.blocks)[:, kept],
        before=_among(row.before[:, columns], [row.labels.index(c) for c in candidates]),
        session=row.session,
        blocks=row.blocks if is_table else (),
        baseline=baseline,
        has_aa=has_aa,
        left_out=left_out,
        zero=zero,
        starved=tuple(int((starved & positive & of[c]).sum()) for c in candidates),
        session_names=tuple(dict.fromkeys(samples.sessions)) or ("",),
    )


def _compared(row: RowData, columns: Sequence[int]) -> RowData:
    """The blocks with two values or more: others compare nothing. Of a single column: all."""
    there = np.isfinite(row.y[:, columns]).sum(axis=1)
    return row.only(there > (1 if len(columns) > 1 else 0))


def _positions(
    samples: Samples, positive: Booleans, labels: Sequence[str], blocks: Sequence[int]
) -> NDArray[np.intp]:
    """Blocks × labels: the place of a run among those of its block, −1 where there is none."""
    position = np.full((len(blocks), len(labels)), -1, np.intp)
    line_of, seen = {block: i for i, block in enumerate(blocks)}, Counter[int]()
    for label, block, known in zip(samples.candidates, samples.blocks, positive, strict=True):
        if known and label in labels and block in line_of:
            position[line_of[block], labels.index(label)] = seen[block]
            seen[block] += 1
    return position


def _among(before: NDArray[np.intp], kept: Sequence[int]) -> NDArray[np.intp]:
    """Columns of a row as places among those that are kept; −1 for all others."""
    place = np.full(max([*kept, int(before.max(initial=-1))]) + 2, -1, np.intp)
    place[list(kept)] = np.arange(len(kept))
    return place[before]


def _too_few(logs: Floats, labels: Sequence[str], aa_label: str | None) -> tuple[str, ...]:
    """Candidates missing in more than half of their cells."""
    share = np.isfinite(logs).mean(axis=0) if len(logs) else np.ones(len(labels))
    few = tuple(label for label, part in zip(labels, share, strict=True) if part < 0.5)
    return few if {*labels, aa_label} - {*few, aa_label} else ()
