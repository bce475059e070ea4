"""Limits of the figures of an answer: its flags."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedlab.analyse.change_points import change_points
from schedlab.analyse.doubts import Findings, aa_interval, examine
from schedlab.analyse.flags import control_flags, table_flags
from schedlab.analyse.losses import ALPHA
from schedlab.analyse.matrix import RunMatrix, arrange
from schedlab.analyse.rule import fit_of
from schedlab.nouns import Flag, Samples
from schedlab.nouns.answer import Answer


def limits(
    answer: Answer,
    samples: Sequence[Samples],
    *,
    aa: tuple[str, str] | None,
    blocked: bool,
    seed: int = 0,
) -> tuple[Flag, ...]:
    """The flags of the primary metrics; `samples` are those that the answer came from."""
    design = () if blocked else (Flag("unblocked"),)
    tables = [
        arrange(sample, answer.candidates, aa, blocked=blocked)
        for sample in samples
        if any(
            math.isfinite(value) and candidate in answer.candidates  # more than the A/A arm alone
            for value, candidate in zip(sample.values, sample.candidates, strict=True)
        )
    ]
    controls = [flag for row in answer.rows if row.role != "secondary" and row.name in answer.cells
                for flag in control_flags(row, answer.cells[row.name])]  # fmt: skip
    of_tables = [flag for table in tables for flag in _of_table(table, answer, len(tables), seed)]
    return (*design, *_lonely(tables), *_lacking(answer), *of_tables, *controls)


def _of_table(table: RunMatrix, answer: Answer, rows: int, seed: int) -> tuple[Flag, ...]:
    level = table.arms.mean(axis=1) if len(table.arms) else ()
    splits = change_points(level, seed) if len(level) else ()  # type: ignore[arg-type]
    fit, findings = fit_of(table), Findings()
    if fit is not None:
        aa = aa_interval(table.arms, table.aa_baseline, ALPHA / rows)
        findings = replace(examine(fit, table), aa=aa)
    return table_flags(table, fit, findings, answer.margin, splits)


def _lacking(answer: Answer) -> Iterator[Flag]:
    """Candidates without runs on some of the workloads that count: of these nothing is known."""
    rows = [row for row in answer.rows if row.counted or row.share > 0]
    rows = [row for row in rows if row.metric is not None]
    for label in answer.candidates:
        absent = [row.workload for row in rows if answer.cell(row.name, label) is None]
        if 0 < len(absent) < len(rows):
            yield Flag("lacks-workload", "", (label,), {"workloads": absent})


def _lonely(tables: Sequence[RunMatrix]) -> tuple[Flag, ...]:
    """Workloads that only one candidate has runs on, where there are several candidates."""
    everybody = {label for table in tables for label in table.candidates}
    return tuple(
        Flag("only-one", table.samples.workload, table.candidates)
        for table in tables
        if len(table.candidates) == 1 < len(everybody)
    )
