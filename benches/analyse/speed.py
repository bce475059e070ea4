"""How long large results take: the answer with its flags, and the page.

python benches/analyse/speed.py
"""

from __future__ import annotations

import math
import time

import numpy as np

from schedlab import report
from schedlab.nouns import (
    Candidate,
    Cell,
    Experiment,
    Plan,
    Record,
    Run,
    Stopping,
    Target,
    Workload,
)
from schedlab.result import answer_of

# Candidates, workloads, blocks; the most seconds that they may take.
SIZES = {(100, 10, 8): 2.0, (4, 10, 250): 5.0, (10, 50, 20): 5.0}


def record(candidates: int, workloads: int, blocks: int) -> Record:
    """Equal candidates with 5 % noise."""
    rng = np.random.default_rng(1)
    names = [f"candidate {i}" for i in range(candidates)]
    works = tuple(Workload(f"work {w}", "file-test", "iops") for w in range(workloads))
    cells = tuple(
        Cell(b, i, work.label, name, 1)
        for b in range(blocks) for work in works for i, name in enumerate(names)
    )  # fmt: skip
    values = np.exp(9 + 0.05 * rng.standard_normal(len(cells)))
    runs = tuple(
        Run(c.block, c.position, c.workload, c.candidate, 1, 1, "ok", "", 1.0, {"iops": float(v)})
        for c, v in zip(cells, values, strict=True)
    )
    experiment = Experiment(
        title="t", kind="io", target=Target("scratch"), workloads=works, baseline=names[0], seed=1,
        candidates=tuple(Candidate(name, {"scheduler": name}) for name in names), aa_arm=False,
        stopping=Stopping(blocks=blocks),
    )  # fmt: skip
    return Record(experiment, Plan(cells, (blocks,)), runs)


def main() -> None:
    print("| candidates × workloads × blocks | runs | answer | allowed | page | size of the page |")
    print("|---|---|---|---|---|---|")
    for size, allowed_s in SIZES.items():
        of = record(*size)
        began, cpu = time.perf_counter(), time.process_time()
        answer = answer_of(of)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        began = time.process_time()
        page = report.html(of, answer)
        page_s = time.process_time() - began
        print(
            f"| {' × '.join(map(str, size))} | {math.prod(size):,} "
            f"| {cpu:.2f} s CPU, {took:.2f} s | "
            f"{allowed_s:g} s | {page_s:.1f} s CPU | {len(page.encode()) / 1e6:.2f} MB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
