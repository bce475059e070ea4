"""Losses of schedulers in the kernel on emulated devices and in the simulation of the same cells:
`python benches/predict/cells.py`, as root, about half an hour. Writes the errors that
`schedlab predict` expects of its instrument (python/schedlab/sim/checked_cells.json).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from kernel_check import CHECKS, RATE, CheckedCell, measure
from kernel_load import specs_of

from schedlab.sim.checked import MEASURED, CheckedLoad, checked_cells, features_of, losses, stored
from schedlab.sim.simulation import Simulation

SECONDS, BLOCKS = 4.0, 2
DEVICES = (
    ("disk5400", 8, "fcfs", ("random32", "readers3", "reader-writers", "sequential-random",
                             "readers3-deep", "small-writes")),
    ("sd-card", 4, "fcfs", ("random32", "readers3", "reader-writers", "sequential-random",
                            "readers3-deep")),
    ("disk2005", 31, "sptf", ("random32", "reader-writers", "sequential-random", "readers3-deep",
                              "levels")),
    ("disk7200", 32, "sptf", ("readers3-deep", "reader-writers", "small-writes",
                              "sequential-random")),
    ("disk7200", 8, "fcfs", ("random32", "reader-writers", "sequential-random", "readers3")),
    ("sd-card", 8, "fcfs", ("small-writes", "reader-writers")),
    ("disk5400", 32, "sptf", ("random32", "reader-writers", "readers3-deep")),
)  # fmt: skip
# Of the cells of kernel_check those with the schedulers that are candidates, past the page cache.
OWN = [check for check in CHECKS if check.number not in (9, 12)]


def all_checks() -> list[CheckedCell]:
    """Every cell that is measured."""
    more = [
        CheckedCell(100 + number, "as used", processes, policy, tags, device=device)
        for number, (device, tags, policy, loads) in enumerate(DEVICES)
        for processes in loads
    ]
    return [*OWN, *more]


def name_of(check: CheckedCell) -> str:
    """What names a cell in the file."""
    return f"{check.processes} on {check.device}, {check.depth} tags, {check.policy}"


def cell_of(check: CheckedCell, rows: Sequence[Mapping[str, Any]]) -> CheckedLoad:
    """The losses of a measured cell."""
    specs = specs_of(check.processes)
    rotational = bool(Simulation(device=check.device, scheduler="none").facts()["rotational"])
    found = []
    for source in ("kernel", "model"):
        rates: dict[str, dict[str, float]] = {}
        for row in rows:
            rate = fmean(row[f"{source}_{RATE}"])
            rates.setdefault(row["scheduler"], {})[row["process"]] = rate
        found.append({name: round(loss, 4) for name, loss in losses(rates).items()})
    return CheckedLoad(name_of(check), features_of(specs, check.depth, rotational), *found)


def main() -> None:
    """Measure those that are not there yet, and store each."""
    from schedlab.host.control import Control

    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="again those that are there")
    options = parser.parse_args()
    kept = {cell.name: cell for cell in checked_cells()}
    with Control() as control:
        for check in all_checks():
            if not options.all and name_of(check) in kept:
                continue
            report = partial(print, file=sys.stderr)
            cell = cell_of(check, measure(control, check, SECONDS, BLOCKS, report))
            kept[cell.name] = cell
            kernel, day = os.uname().release, datetime.now(UTC).date().isoformat()
            about = {"kernel": kernel, "date": day, "seconds": SECONDS, "blocks": BLOCKS}
            MEASURED.write_text(stored(list(kept.values()), about), encoding="utf-8")


if __name__ == "__main__":
    main()
