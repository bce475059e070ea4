"""A quiz for a whole class: every student's tasks are those of one more seed."""

from __future__ import annotations

import random
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.report.quiz_page import QuizSheet, page
from schedlab.report.texts import Texts
from schedlab.store.files import write_atomic
from schedlab_sim.cpu_schedule import CpuOptions, inputs, simulate

SEEDS = 100_000


def write_sheets(options: CpuOptions, count: int, path: Path, language: str | None) -> int:
    """Write `count` sheets and their key; gives the first seed. SpecError for a bad schedule."""
    if options["tasks"] or options["processes"]:
        raise SpecError("--count: each sheet has random tasks", "omit --tasks and --processes")
    first = random.randrange(1, SEEDS) if options["seed"] is None else options["seed"]
    sheets = []
    for seed in range(first, first + count):
        tasks, settings, _ = inputs({**options, "seed": seed})
        results = [simulate(tasks, one) for one in settings]
        sheets.append(QuizSheet(seed, tasks, results))
    write_atomic(path, page(sheets, Texts(language)))
    return first
