"""Losses of schedulers in the kernel on emulated devices, in virtual time, and in the simulation of
the same cells: `python benches/predict/cells.py`, about half an hour; with `--model` only the
simulations, in seconds. Writes the errors that `schedlab predict` expects of its instrument
(python/schedlab_sim/checked_cells.json).

`--drawn FOLDER --seeds 0-7` also takes drawn devices and loads, fio jobs and recordings among them,
whose truth battery.py has measured there. These seeds then say nothing about a prediction any more;
without the option the cells of earlier ones stay.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from battery import Lines, cells_of, seeds_of, simulated
from battery_report import pooled
from hidden import hidden

from schedlab.guest import kernels
from schedlab.host.emulated.emulated import Emulation
from schedlab.store.process_files import processes_of, tables_of
from schedlab_sim.checked import (
    CHECKED,
    HOST,
    MEASURED,
    CheckedLoad,
    checked_cells,
    dies_of,
    features_of,
    losses,
    measured,
    stored,
)
from schedlab_sim.device import device_text
from schedlab_sim.pool import run_threads
from schedlab_sim.predict.in_kernel import KernelCell, measured_rates
from schedlab_sim.predict.predict import SimulatedLoad, load_features, rows_of
from schedlab_sim.simulation import Simulation

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
SIZE_BYTES = 8 << 30
# Requests that a scheduler may hold above a loop device, independent of the tags.
NR_REQUESTS = 256
# Within which the processes of the real load begin.
START_SPREAD_NS = 200_000
DRAWN = "of drawn device"
# Cells of one boot.
AT_ONCE = 6


@dataclass(frozen=True)
class CheckedCell:
    """Processes on a device. `depth` is the number of commands that the driver lets into it;
    `policy` the order in which it serves them. It is `dilate` times slower, in the kernel and in
    the model: the scheduler has one clock in both.
    """

    number: int
    processes: str
    policy: str = "fcfs"
    depth: int = 4
    device: str = "disk7200"
    dilate: int = 1


OWN = (
    CheckedCell(1, "random32", depth=128),
    CheckedCell(2, "random32"),
    CheckedCell(3, "random32", "sptf", 32),
    CheckedCell(4, "random32", "sptf"),
    CheckedCell(5, "readers3"),
    CheckedCell(6, "sequential-random"),
    CheckedCell(7, "readers3-deep"),
    CheckedCell(8, "reader-writers"),
    CheckedCell(10, "levels"),
    CheckedCell(11, "small-writes"),
)


def all_checks() -> list[CheckedCell]:
    """Every cell that is measured."""
    more = [
        CheckedCell(100 + number, processes, policy, tags, device, DILATIONS.get(device, 1))
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
    return KernelCell(device, tables_of(check.processes), CHECKED, seconds_of(check), SEED)


def seconds_of(check: CheckedCell) -> float:
    """How long a run is: of flash a quarter, as it serves many more requests."""
    return SECONDS if check.dilate == 1 else SECONDS / 4


def simulations_of(check: CheckedCell) -> list[Simulation]:
    """The cell under each scheduler, with the queue that it has in a guest."""
    host = {"start_spread_ns": START_SPREAD_NS, "max_sectors_kb": 1024, **HOST}
    return [
        Simulation(
            device=check.device, scheduler=name, processes=check.processes, tags=check.depth,
            nr_requests=None if name == "none" else NR_REQUESTS, window=check.depth,
            policy=check.policy, size=str(SIZE_BYTES), dilate=check.dilate,
            seconds=seconds_of(check), seed=SEED, settings=host,
        )
        for name in CHECKED
    ]  # fmt: skip


def losses_of(check: CheckedCell, figures: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    """The loss of each scheduler from the figures of its processes."""
    load = SimulatedLoad(check.processes, {"processes": check.processes})
    rates = {
        name: rows_of(load, {"scheduler": name, "processes": [*rows], "total": rows[0]})
        for name, rows in figures.items()
    }
    return {name: round(loss, 4) for name, loss in losses(rates).items()}


def stored_cell(check: CheckedCell, kernel: Mapping[str, float]) -> CheckedLoad:
    """A cell with what the kernel lost in it, and what the simulation loses."""
    runs = run_threads(simulations_of(check))
    model = {name: run["processes"] for name, run in zip(CHECKED, runs, strict=True)}
    rotational = bool(Simulation(device=check.device, scheduler="none").facts()["rotational"])
    parallel = dies_of(tomllib.loads(device_text(check.device))) > 1
    features = features_of(processes_of(check.processes), check.depth, rotational, parallel)
    return CheckedLoad(name_of(check), features, kernel, losses_of(check, model))


def drawn_cells(folder: Path, seeds: Sequence[int]) -> list[CheckedLoad]:
    """Those of drawn devices whose truth was measured, beside the simulation of the true device."""
    true = pooled(Lines(folder / "truth.jsonl").rows)
    found = []
    for seed in seeds:
        device = hidden(seed, folder)
        tables = tomllib.loads(device.path.read_text(encoding="utf-8"))
        is_parallel, is_disk = dies_of(tables) > 1, device.kind == "disk"
        for name, load, _ in cells_of(device, folder):
            if (seed, name) not in true:
                continue
            row, tags = true[seed, name], max(device.depth, 4)
            model = losses(simulated(device, load, row["seconds"]))
            plain = device.simulation("none", **load.fields, **cell_seconds(load, row["seconds"]))
            features = dataclasses.replace(
                load_features(load, plain.run(), tags, is_disk), parallel=is_parallel
            )
            there = {each: round(loss, 4) for each, loss in row["losses"].items()}
            here = {each: round(loss, 4) for each, loss in model.items()}
            found.append(
                CheckedLoad(f"{name} {DRAWN} {seed}, {device.kind}", features, there, here)
            )
    return found


def cell_seconds(load: SimulatedLoad, seconds: float) -> dict[str, float]:
    """Of processes how long they run; a recording has its own end."""
    return {} if "trace" in load.fields else {"seconds": seconds}


def main() -> None:
    """Measure those that are not there yet, and store each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="again those that are there")
    parser.add_argument("--model", action="store_true", help="only the simulations of these")
    parser.add_argument("--drawn", type=Path, help="the folder of a battery")
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("0-7"))
    options = parser.parse_args()
    if options.drawn:
        drawn = drawn_cells(options.drawn.resolve(), options.seeds)
    else:
        drawn = [each for each in checked_cells() if f" {DRAWN} " in each.name]
    checks = all_checks()
    there = {cell.name: cell.kernel for cell in checked_cells()}
    kept = {} if options.all else {n: there[n] for n in map(name_of, checks) if n in there}
    todo = [] if options.model else [check for check in checks if name_of(check) not in kept]
    about = measured()
    if todo:
        about = {
            "kernel": f"{kernels.find(KERNEL).release}, virtual time",
            "date": datetime.now(UTC).date().isoformat(),
            "seconds": SECONDS,
        }
    while True:
        cells = [stored_cell(each, kept[name_of(each)]) for each in checks if name_of(each) in kept]
        about = {**about, "cells": len(cells) + len(drawn), "drawn": len(drawn)}
        MEASURED.write_text(stored([*cells, *drawn], about), encoding="utf-8")
        some, todo = todo[:AT_ONCE], todo[AT_ONCE:]
        if not some:
            return
        found = measured_rates(KERNEL, [*map(kernel_cell, some)], partial(print, file=sys.stderr))
        kept |= {
            name_of(each): losses_of(each, rows) for each, rows in zip(some, found, strict=True)
        }


if __name__ == "__main__":
    main()
