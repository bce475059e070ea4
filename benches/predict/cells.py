"""Losses of schedulers in the kernel on emulated devices, in virtual time, and in the simulation of
the same cells: `python benches/predict/cells.py`, about half an hour; with `--model` only the
simulations, in seconds. Writes the errors that `schedlab predict` expects of its instrument
(python/schedlab/sim/checked_cells.json).
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from kernel_check import CHECKS, SIZE_BYTES, START_SPREAD_NS, USUAL, CheckedCell, simulation_of

from schedlab.app.predict.in_kernel import KernelCell, measured_rates
from schedlab.app.predict.predict import SimulatedLoad, dies_of, rows_of
from schedlab.guest import kernels
from schedlab.host.emulated import Emulation
from schedlab.sim.checked import (
    HOST,
    MEASURED,
    CheckedLoad,
    checked_cells,
    features_of,
    losses,
    stored,
)
from schedlab.sim.device import device_text
from schedlab.sim.pool import run_threads
from schedlab.sim.simulation import Simulation
from schedlab.sim.validated import processes_of

KERNEL, SECONDS, SEED = "6.12", 4.0, 1
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
    ("sata-ssd", 8, "fcfs", ("reader-writers", "readers3-deep", "sequential-random",
                             "small-writes")),
    ("sata-ssd", 32, "fcfs", ("reader-writers", "readers3-deep")),
)  # fmt: skip
# Devices that are too fast for a guest are so many times slower, in both.
DILATIONS = {"sata-ssd": 20}
# Of the cells of kernel_check those past the page cache, on a device that a guest can serve.
OWN = [replace(each, schedulers=USUAL) for each in CHECKS if each.number not in (9, 12)]
# Cells of one boot.
AT_ONCE = 6


def all_checks() -> list[CheckedCell]:
    """Every cell that is measured."""
    more = [
        CheckedCell(100 + number, "as used", processes, policy, tags, device=device,
                    dilate=DILATIONS.get(device, 1))
        for number, (device, tags, policy, loads) in enumerate(DEVICES)
        for processes in loads
    ]  # fmt: skip
    return [*OWN, *more]


def name_of(check: CheckedCell) -> str:
    """What names a cell in the file."""
    return f"{check.processes} on {check.device}, {check.depth} tags, {check.policy}"


def kernel_cell(check: CheckedCell) -> KernelCell:
    """The cell as work for a guest."""
    device = Emulation(
        check.device, SIZE_BYTES, queue_depth=check.depth, policy=check.policy, data="none",
        dilate=check.dilate,
    )  # fmt: skip
    return KernelCell(
        device, processes_of(check.processes), check.schedulers, seconds_of(check), SEED
    )


def seconds_of(check: CheckedCell) -> float:
    """How long a run is: of flash a quarter, as it serves many more requests."""
    return SECONDS if check.dilate == 1 else SECONDS / 4


def simulations_of(check: CheckedCell) -> list[Simulation]:
    """The cell under each scheduler, with the queue that it has in a guest."""
    host = {"start_spread_ns": START_SPREAD_NS, "max_sectors_kb": 1024, **HOST}
    return [simulation_of(check, name, seconds_of(check), SEED, host) for name in check.schedulers]


def losses_of(check: CheckedCell, figures: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    """The loss of each scheduler from the figures of its processes."""
    load = SimulatedLoad(check.processes, {"processes": check.processes})
    rates = {name: rows_of(load, {"processes": rows}) for name, rows in figures.items()}
    return {name: round(loss, 4) for name, loss in losses(rates).items()}


def stored_cell(check: CheckedCell, kernel: Mapping[str, float]) -> CheckedLoad:
    """A cell with what the kernel lost in it, and what the simulation loses."""
    runs = run_threads(simulations_of(check))
    model = {name: run["processes"] for name, run in zip(check.schedulers, runs, strict=True)}
    rotational = bool(Simulation(device=check.device, scheduler="none").facts()["rotational"])
    parallel = dies_of(tomllib.loads(device_text(check.device))) > 1
    features = features_of(processes_of(check.processes), check.depth, rotational, parallel)
    return CheckedLoad(name_of(check), features, kernel, losses_of(check, model))


def main() -> None:
    """Measure those that are not there yet, and store each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="again those that are there")
    parser.add_argument("--model", action="store_true", help="only the simulations of these")
    options = parser.parse_args()
    checks = all_checks()
    there = {cell.name: cell.kernel for cell in checked_cells()}
    kept = {} if options.all else {n: there[n] for n in map(name_of, checks) if n in there}
    todo = [] if options.model else [check for check in checks if name_of(check) not in kept]
    about = {
        "kernel": f"{kernels.find(KERNEL).release}, virtual time",
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": SECONDS,
    }
    while True:
        cells = [stored_cell(each, kept[name_of(each)]) for each in checks if name_of(each) in kept]
        MEASURED.write_text(stored(cells, about), encoding="utf-8")
        some, todo = todo[:AT_ONCE], todo[AT_ONCE:]
        if not some:
            return
        found = measured_rates(KERNEL, [*map(kernel_cell, some)], partial(print, file=sys.stderr))
        kept |= {
            name_of(each): losses_of(each, rows) for each, rows in zip(some, found, strict=True)
        }


if __name__ == "__main__":
    main()
