"""From rows in the order of running to arrays: which blocks and candidates can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedlab.errors import SpecError
from schedlab.spec import Samples

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """One workload as arrays; every value is a natural logarithm.

    `candidates` (k of them) are those compared. `groups[i]` holds the runs of candidate i in the
    order of running, `order[i]` their positions among all runs of the workload. For blocked data
    `y` (n × k) holds the complete blocks `blocks`, and `twin` (n) what the A/A arm differs from
    the baseline by in them, NaN where it is missing; where it is there, the baseline's value in
    `y` is the mean of its two runs. For unblocked data `y` is empty and `twin` holds the runs of
    the A/A arm.
    `left_out` are candidates with too few runs to compare, `dropped` the incomplete blocks,
    `zero` the candidates with a value that has no logarithm.
    """

    samples: Samples
    candidates: tuple[str, ...]
    groups: tuple[Floats, ...]
    order: tuple[NDArray[np.intp], ...]
    blocks: tuple[int, ...]
    y: Floats
    twin: Floats
    left_out: tuple[str, ...] = ()
    dropped: tuple[int, ...] = ()
    zero: tuple[str, ...] = ()

    def number_of(self, block: int) -> int:
        """The number that people know a block by: the first is 1."""
        return block + 1 - min(self.samples.blocks)

    @property
    def sign(self) -> float:
        """+1 where a higher value is better, −1 where a lower one is."""
        return 1.0 if self.samples.metric.higher_is_better else -1.0


def candidate_order(
    samples: Sequence[Samples], baseline: str, twin: str | None, given: Sequence[str]
) -> tuple[str, ...]:
    """All candidates but the A/A arm: as `given`, else the baseline, then as they appear."""
    seen = dict.fromkeys(label for sample in samples for label in sample.candidates)
    if baseline not in seen:
        known = ", ".join(seen) or "none at all"
        raise SpecError(f"baseline {baseline!r} has no run", f"candidates with runs: {known}")
    order = dict.fromkeys((*given, baseline, *seen))
    return tuple(label for label in order if label != twin and label in seen)


def arrange(
    samples: Samples, order: Sequence[str], aa: tuple[str, str] | None, *, blocked: bool
) -> Table:
    """The runs of one workload as arrays; missing values (NaN) are runs that do not count.

    `aa` names the baseline and its A/A arm.

    Raises SpecError when the columns differ in length or no run is left.
    """
    values = np.asarray(samples.values, dtype=np.float64)
    names = np.asarray(samples.candidates, dtype=object)
    blocks = np.asarray(samples.blocks, dtype=np.int64)
    if not len(values) == len(names) == len(blocks):
        raise SpecError(
            f"workload {samples.workload!r}: {len(values)} values, {len(names)} candidates and "
            f"{len(blocks)} blocks",
            "give the three columns the same length",
        )
    there = np.isfinite(values)
    positive = there & (values > 0)
    present = [label for label in order if (there & (names == label)).any()]
    if not present:
        raise SpecError(
            f"workload {samples.workload!r} has no run with a value of {samples.metric.name}",
            "run the missing cells again: schedlab compare --resume DIR",
        )
    zero = tuple(label for label in present if (there & ~positive & (names == label)).any())
    logs = np.full(len(values), np.nan)
    logs[positive] = np.log(values[positive])
    grid_blocks, grid = _grid(blocks, names, logs, present)
    left_out = _too_few(grid, present) if blocked and not zero else ()
    kept = [i for i, label in enumerate(present) if label not in left_out]
    complete = np.isfinite(grid[:, kept]).all(axis=1)
    index = [np.flatnonzero(positive & (names == present[i])) for i in kept]
    baseline, twin = aa or ("", "")
    candidates = tuple(present[i] for i in kept)
    y = grid[complete][:, kept]
    difference = np.full(len(y), np.nan)
    if baseline in candidates:
        column = candidates.index(baseline)
        difference = _grid(blocks, names, logs, [twin])[1][complete, 0] - y[:, column]
        y[:, column] += np.nan_to_num(difference) / 2
    return Table(
        samples=samples,
        candidates=candidates,
        groups=tuple(logs[rows] for rows in index),
        order=tuple(index),
        blocks=tuple(grid_blocks[complete].tolist()) if blocked else (),
        y=y if blocked else np.empty((0, len(kept))),
        twin=difference if blocked else logs[positive & (names == twin)],
        left_out=left_out,
        dropped=tuple(grid_blocks[~complete].tolist()) if blocked else (),
        zero=zero,
    )


def _grid(
    blocks: NDArray[np.int64], names: NDArray[np.object_], logs: Floats, labels: Sequence[str]
) -> tuple[NDArray[np.int64], Floats]:
    """Blocks × labels of mean logs (a cell measured twice counts once), NaN where empty."""
    unique, row = np.unique(blocks, return_inverse=True)
    total = np.zeros((len(unique), len(labels)))
    count = np.zeros_like(total)
    for column, label in enumerate(labels):
        mine = (names == label) & np.isfinite(logs)
        np.add.at(total[:, column], row[mine], logs[mine])
        np.add.at(count[:, column], row[mine], 1)
    with np.errstate(invalid="ignore"):
        return unique, np.where(count > 0, total / count, np.nan)


def _too_few(grid: Floats, labels: Sequence[str]) -> tuple[str, ...]:
    """Candidates missing in more than half of the blocks: these would cost the others theirs."""
    share = np.isfinite(grid).mean(axis=0)
    few = tuple(label for label, part in zip(labels, share, strict=True) if part < 0.5)
    return few if len(few) < len(labels) else ()
