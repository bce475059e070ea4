"""From rows in the order of running to arrays: which blocks and candidates can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse.quantiles import Floats
from schedlab.errors import SpecError
from schedlab.spec import Samples

Booleans = NDArray[np.bool_]

#: From so many sessions on, their means take the place of the blocks.
SESSIONS_AS_UNITS = 4
FILL_TOLERANCE = 1e-13
FILL_ROUNDS = 5000


@dataclass(frozen=True)
class RunMatrix:
    """One metric of one workload as arrays; every value is a natural logarithm.

    `candidates` (k) are those compared. `groups[i]` holds the runs of candidate i in the order of
    running. For blocked data `arms` (n × a) holds the candidates in columns, then the A/A arm
    where there is one (`has_aa`); missing cells are filled, `observed` (n × a) says which are not.
    `bounds` (n × a) are runs that starved. `position` (n × a) is the place of a run in its block
    (−1: missing), `session` (n) numbers the sessions, `blocks` (n) names the rows.
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
    def sessions(self) -> int:
        """How many sessions there are."""
        return len(np.unique(self.session)) if len(self.session) else 1

    @property
    def filled(self) -> int:
        """Cells without a run."""
        return int((~self.observed).sum())

    @property
    def aa_baseline(self) -> int | None:
        """The column that the last column is the A/A arm of, if it is."""
        return self.baseline if self.has_aa else None

    def bounded(self, label: str) -> Booleans:
        """Which blocks of a candidate (either run of the baseline) are bounds."""
        column = self.candidates.index(label)
        bounds = self.bounds[:, column]
        return bounds | self.bounds[:, -1] if self.aa_baseline == column else bounds


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
    rows = _Rows.from_samples(samples)
    of = {c: rows.names == c for c in (*order, *(aa or ()))}
    present = [c for c in order if (rows.there & of[c]).any()]
    if not present:
        raise SpecError(
            f"workload {samples.workload!r} has no run with a value of {samples.metric.name}",
            "run the missing cells again: schedlab compare --resume DIR",
        )
    aa_label = aa[1] if aa and aa[0] in present and (rows.there & of[aa[1]]).any() else ""
    bad = rows.there & ~rows.positive
    zero = tuple(c for c in present if (bad & of[c]).any())
    arms = _Arms.from_rows(rows, [*present, *([aa_label] if aa_label else [])])
    left_out = _too_few(arms, present, aa_label) if blocked and not zero else ()
    kept = [
        i
        for i, label in enumerate((*present, *([aa_label] if aa_label else [])))
        if label not in left_out and not (label == aa_label and aa and aa[0] in left_out)
    ]
    arms = arms.columns(kept) if blocked else arms
    candidates = tuple(label for label in present if label not in left_out)
    baseline = candidates.index(aa[0]) if aa and aa[0] in candidates else None
    has_aa = bool(aa_label) and aa_label not in left_out and baseline is not None
    tie = baseline if has_aa else None
    return RunMatrix(
        samples=samples,
        candidates=candidates,
        groups=tuple(rows.logs[rows.positive & of[c]] for c in candidates),
        arms=_filled(arms.logs, tie) if blocked and not zero else np.empty((0, len(kept))),
        observed=np.isfinite(arms.logs) if blocked and not zero else np.empty((0, len(kept)), bool),
        bounds=arms.bounds,
        position=arms.position,
        session=arms.session,
        blocks=tuple(arms.blocks.tolist()) if blocked and not zero else (),
        baseline=baseline,
        has_aa=has_aa,
        left_out=left_out,
        zero=zero,
        starved=tuple(int((rows.bound & of[c]).sum()) for c in candidates),
        session_names=rows.session_names,
    )


@dataclass(frozen=True)
class _Rows:
    """The columns of the samples as arrays."""

    names: NDArray[np.object_]
    blocks: NDArray[np.int64]
    logs: Floats
    there: Booleans
    positive: Booleans
    bound: Booleans
    session: NDArray[np.intp]
    session_names: tuple[str, ...]
    values: Floats

    @classmethod
    def from_samples(cls, samples: Samples) -> _Rows:
        values = np.asarray(samples.values, dtype=np.float64)
        names = np.asarray(samples.candidates, dtype=object)
        blocks = np.asarray(samples.blocks, dtype=np.int64)
        if not len(values) == len(names) == len(blocks):
            raise SpecError(
                f"workload {samples.workload!r}: {len(values)} values, {len(names)} candidates and "
                f"{len(blocks)} blocks",
                "pass three columns of the same length",
            )
        bound = np.array([bool(b) for b in samples.bounds] or [False] * len(values), dtype=bool)
        some = np.isfinite(values) & (values > 0)
        if samples.metric.higher_is_better and some.any():
            nothing = values == 0  # Not one operation: a bound, as in `rows.row_data`.
            values, bound = np.where(nothing, values[some].min(), values), bound | nothing
        there = np.isfinite(values)
        positive = there & (values > 0)
        logs = np.full(len(values), np.nan)
        logs[positive] = np.log(values[positive])
        known = tuple(dict.fromkeys(samples.sessions)) or ("",)
        session = [known.index(s) for s in samples.sessions] or [0] * len(values)
        return cls(
            names, blocks, logs, there, positive, bound & positive,
            np.asarray(session, dtype=np.intp), known, values,
        )  # fmt: skip


@dataclass(frozen=True)
class _Arms:
    """Blocks × labels: logs (NaN where empty), bounds, positions in the block, session per block.

    Blocks with fewer than two values compare nothing and are not here.
    """

    blocks: NDArray[np.int64]
    logs: Floats
    bounds: Booleans
    position: NDArray[np.intp]
    session: NDArray[np.intp]

    @classmethod
    def from_rows(cls, rows: _Rows, labels: Sequence[str]) -> _Arms:
        unique, row = np.unique(rows.blocks, return_inverse=True)
        shape = (len(unique), len(labels))
        total, count = np.zeros(shape), np.zeros(shape)
        bounds, position = np.zeros(shape, bool), np.full(shape, -1, np.intp)
        seen = np.zeros(len(unique), np.intp)
        column_of = {label: i for i, label in enumerate(labels)}
        session = np.zeros(len(unique), np.intp)
        for i, (name, block) in enumerate(zip(rows.names, row, strict=True)):
            session[block] = rows.session[i]
            column = column_of.get(name)
            if column is None or not rows.positive[i]:
                continue
            total[block, column] += rows.logs[i]
            count[block, column] += 1
            bounds[block, column] |= rows.bound[i]
            position[block, column] = seen[block]
            seen[block] += 1
        with np.errstate(invalid="ignore"):
            logs = np.where(count > 0, total / count, np.nan)
        several = np.isfinite(logs).sum(axis=1) > 1 if len(labels) > 1 else count[:, 0] > 0
        return cls(
            unique[several], logs[several], bounds[several], position[several], session[several]
        )

    def columns(self, kept: Sequence[int]) -> _Arms:
        logs = self.logs[:, kept]
        several = np.isfinite(logs).sum(axis=1) > (1 if len(kept) > 1 else 0)
        return _Arms(
            self.blocks[several],
            logs[several],
            self.bounds[several][:, kept],
            self.position[several][:, kept],
            self.session[several],
        )


def _too_few(arms: _Arms, present: Sequence[str], aa_label: str) -> tuple[str, ...]:
    """Candidates missing in more than half of their cells."""
    share = np.isfinite(arms.logs).mean(axis=0) if len(arms.logs) else np.ones(len(present))
    labels = (*present, *([aa_label] if aa_label else []))
    few = tuple(label for label, part in zip(labels, share, strict=False) if part < 0.5)
    return few if len(set(few) - {aa_label}) < len(present) else ()


def _filled(logs: Floats, baseline: int | None) -> Floats:
    """Missing cells at their least-squares value: block + candidate, the A/A arm as baseline."""
    missing = ~np.isfinite(logs)
    if not missing.any() or not len(logs):
        return logs
    columns = np.nanmean(
        np.where(missing, np.nan, logs) - np.nanmean(logs, axis=1)[:, None], axis=0
    )
    columns = np.nan_to_num(columns)
    full = np.where(missing, np.nanmean(logs, axis=1)[:, None] + columns, logs)
    for _ in range(FILL_ROUNDS):
        means = full.mean(axis=0)
        if baseline is not None:
            means[[baseline, -1]] = means[[baseline, -1]].mean()
        fitted = full.mean(axis=1)[:, None] + (means - means.mean())
        moved = np.abs(np.where(missing, fitted - full, 0)).max()
        full = np.where(missing, fitted, full)
        if moved < FILL_TOLERANCE:
            break
    return full
