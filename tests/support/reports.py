"""A record for an answer made by hand: a run for every block, candidate and workload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from schedlab.nouns import Candidate, Experiment, Plan, Population, Record, Run, Stopping, Target
from schedlab.nouns import Workload as Work
from schedlab.nouns.answer import Answer
from schedlab.report.texts import Texts
from schedlab.report.view import View

HOST = {"kernel": {"release": "6.18.0"}, "cpu": {"model": "Example 3000"}}
QUEUE = {"driver_tags": 128, "rotational": 0}
FOLDER = Path("results/2026-03-14T0926")


def record_of(answer: Answer, kind: str = "io", target: str = "scratch") -> Record:
    rows = [row for row in answer.rows if row.role in ("primary", "part") and row.metric]
    works = tuple(Work(row.workload, "test", row.metric.name) for row in rows)
    experiment = Experiment(
        title="An example", kind=kind, workloads=works, baseline=answer.base, seed=7,
        candidates=tuple(Candidate(name, {"scheduler": name}) for name in answer.candidates),
        target=Target(target, path="/dev/sdb" if target == "device" else "", size_bytes=1 << 30),
        stopping=Stopping(blocks=answer.blocks), blocked=answer.used not in ("runs", "seeds"),
    )  # fmt: skip
    runs = [
        Run(block, at, row.workload, name, 7, 1, "ok", f"2026-03-14T09:{26 + block}:00+00:00", 2.0,
            metrics_of(answer, row.workload, name, 1 + 0.01 * (block - answer.blocks / 2)),
            properties=QUEUE)
        for block in range(answer.blocks or 2)
        for row in rows
        for at, name in enumerate(answer.candidates)
        if name in answer.cells[row.name]
    ]  # fmt: skip
    return Record(experiment, Plan(()), tuple(runs), host=HOST)


def metrics_of(answer: Answer, workload: str, name: str, factor: float) -> dict[str, float]:
    cells = [
        (row.metric.name, answer.cells[row.name][name].value)
        for row in answer.rows
        if row.workload == workload and row.metric and name in answer.cells[row.name]
    ]
    return {metric: value * factor for metric, value in cells if value is not None}


def view_of(answer: Answer, language: str = "en", kind: str = "io", **more: str) -> View:
    if answer.population is None:
        answer = replace(answer, population=Population(3, answer.blocks, 1, "", 120.0))
    return View(record_of(answer, kind, **more), answer, Texts(language), FOLDER)
