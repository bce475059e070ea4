"""From an experiment to its plan: every run in its order, before the first one."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from schedlab.design.orders import Orders
from schedlab.nouns import AA_SUFFIX, Candidate, Cell, Experiment, Plan


def arms(experiment: Experiment) -> tuple[Candidate, ...]:
    """The candidates, and the baseline under its second name unless that was refused."""
    if not experiment.aa_arm:
        return experiment.candidates
    baseline = next(c for c in experiment.candidates if c.label == experiment.baseline)
    again = Candidate(baseline.label + AA_SUFFIX, baseline.settings, aa_of=baseline.label)
    return (*experiment.candidates, again)


def make_plan(experiment: Experiment, blocks: int | None = None) -> Plan:
    """Every (candidate, workload) once per block; workloads in random order, candidates balanced.

    `blocks` plans only the first ones; they are the same as in the whole plan.

    Each workload walks through its own sequence of balanced orders; of a single one the blocks
    follow each other without other work between them, and are chained. All candidates of a block
    and workload get the same seed, so they access the same records in the same order.
    """
    rng = random.Random(experiment.seed)
    names = [arm.label for arm in arms(experiment)]
    orders = {
        w.label: Orders(
            len(names),
            random.Random(f"{experiment.seed}/{w.label}"),
            chained=len(experiment.workloads) == 1,
        )
        for w in experiment.workloads
    }
    cells: list[Cell] = []
    for block in range(blocks or experiment.stopping.blocks):
        workloads = rng.sample(experiment.workloads, len(experiment.workloads))
        in_block = [
            (workload.label, names[item])
            for workload in workloads
            for item in orders[workload.label].of_block(block)
        ]
        cells += [
            Cell(block, position, workload, name, cell_seed(experiment.seed, block, workload))
            for position, (workload, name) in enumerate(in_block)
        ]
    stopping = experiment.stopping
    whole = stopping.mode == "fixed" and blocks is None
    announced = (stopping.blocks, *([stopping.may_extend] if stopping.may_extend else []))
    return Plan(tuple(cells), announced if whole else ())


def cell_seed(seed: int, block: int, workload: str) -> int:
    """The seed of one block and workload, in 0 … 2**32 - 1."""
    digest = hashlib.sha256(f"{seed}/{block}/{workload}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def blocks_of(plan: Plan) -> Sequence[Sequence[Cell]]:
    """The cells of each block, in order."""
    blocks: dict[int, list[Cell]] = {}
    for cell in plan.cells:
        blocks.setdefault(cell.block, []).append(cell)
    return [blocks[number] for number in sorted(blocks)]
