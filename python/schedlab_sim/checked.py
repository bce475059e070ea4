"""How far simulated losses of schedulers were from the kernel's, and on what loads that is known.

`checked_cells.json` has the losses of schedulers in the kernel on emulated devices and in the
simulation of the same cell (benches/predict/cells.py makes it). A load is near a cell by what a
scheduler sees of it; the errors of near cells are those to expect.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np

from schedlab.store.process_files import (
    ProcessRow,
    is_buffered,
    meet,
    only_simulated,
    processes_of,
    waiters_of,
)
from schedlab_sim.device import device_text
from schedlab_sim.results import HostReport, ProcessFigures
from schedlab_sim.simulation import Simulation

MEASURED = Path(str(files("schedlab_sim"))) / "checked_cells.json"
#: The host of the cells, in settings of crates/sim/src/host/settings.rs: one CPU, so that nobody is
#: awake before all of a completion is known, with four workers of io_uring.
HOST = {"woken_early": 0.0, "io_workers": 4}
#: Schedulers that a current kernel has.
CHECKED = ("none", "mq-deadline", "kyber", "bfq")
#: Settings of a simulation that the cells take from the real device and load; they change no other.
SAME_IN_BOTH = {
    *HOST, "page_copy_ns", "start_spread_ns", "max_sectors_kb", "read_ahead_kb", "warm_up_seconds",
}  # fmt: skip
#: A load further from every cell is outside; the errors of a cell count by this width.
OUTSIDE, WIDTH = 1.2, 0.5
#: A loss has an error in proportion to itself, and to this much where there is none.
FLOOR = 0.05
#: An error beyond this one is not carried to a larger loss in proportion.
LARGE = 0.7


@dataclass(frozen=True)
class Features:
    """A load on a device as a scheduler sees it.

    `pressure`: binary logarithm of requests that wait over tags. `writes` and `sequential` are
    shares of the processes' requests at a time. `parallel`: flash that serves several requests.
    """

    rotational: bool
    pressure: float
    writes: float
    sequential: float
    classes: bool
    buffered: bool
    processes: int
    recorded: bool = False
    parallel: bool = False

    @property
    def is_race(self) -> bool:
        """Whether writes wait for tags of flash with several dies: chance gives out the next."""
        return self.parallel and self.writes > 0 and self.pressure > 0

    def distance(self, other: Features) -> float:
        """0 for the same; infinite where kernel and device do another kind of work."""
        if (self.buffered, self.classes) != (other.buffered, other.classes):
            return math.inf
        parts = (
            0.8 * (self.rotational != other.rotational),
            0.2 * abs(self.pressure - other.pressure),
            1.0 * abs(self.writes - other.writes),
            1.0 * abs(self.sequential - other.sequential),
            0.5 * ((self.processes > 1) != (other.processes > 1)),
            # A recording does not wait for answers; processes do.
            0.5 * (self.recorded != other.recorded),
            0.8 * (self.parallel != other.parallel),
        )
        return math.sqrt(sum(part * part for part in parts))


@dataclass(frozen=True)
class CheckedLoad:
    """A checked cell: the loss of each scheduler in the kernel and in the simulation."""

    name: str
    features: Features
    kernel: Mapping[str, float]
    model: Mapping[str, float]

    def errors(self) -> dict[str, float]:
        """Kernel minus model, in units of the loss."""
        return {
            name: (self.kernel[name] - loss) / (FLOOR + loss) for name, loss in self.model.items()
        }


def features_of(
    processes: Sequence[ProcessRow], tags: int, rotational: bool, parallel: bool = False
) -> Features:
    """Those of processes, one for each of `count`."""
    depths = np.array([float(each["depth"]) for each in processes])
    share = depths / depths.sum()
    writes = np.array([1 - float(each["read_share"]) for each in processes])
    ways = np.array([each["pattern"] != "random" for each in processes], float)
    marks = {(each["ioprio"], each["weight"]) for each in processes}
    return Features(
        rotational,
        math.log2(waiters_of(processes) / tags),
        float(share @ writes),
        float(share @ ways),
        len(marks) > 1 or any(each["weight"] for each in processes),
        is_buffered(processes),
        len(processes),
        parallel=parallel,
    )


def outside(
    scheduler: str, processes: Sequence[ProcessRow], features: Features, distance: float
) -> str:
    """Why nothing is known of how far a simulation of processes (none: of a trace) is from the
    kernel; "" where something is.
    """
    name, _, tunables = scheduler.partition(":")
    if name not in CHECKED:
        return f"{name} was never checked against a kernel"
    if own := next((part for part in tunables.split(",") if part.startswith("x_")), ""):
        return f"the kernel's {name} has no {own.partition('=')[0]}"
    if features.classes:
        return "priority classes and weights are known to be missed"
    if features.buffered:
        return "write-back through the page cache is known to be missed"
    if key := next(filter(None, map(_unchecked, processes)), ""):
        return f"processes with {key} were never checked"
    if meet(processes):
        return "sequential processes in one region were never checked"
    if distance > OUTSIDE:
        return "no checked load is near"
    if features.is_race:
        return "writes that wait for tags of flash with several dies are known to be missed"
    return ""


def _unchecked(process: ProcessRow) -> str:
    """A key of a process that no checked cell has; "" where they have all."""
    if process["arrivals"] != "closed":
        return "arrivals"
    if process["pattern"] == "reverse":
        return "pattern"
    if process["start"]:
        return "start"
    if process["read_share"] not in (0, 1):
        return "read_share"
    return only_simulated(process)


@dataclass(frozen=True)
class Expected:
    """The nearest checked cell of a simulated load, its distance, and why nothing is known of the
    figures of some schedulers.
    """

    processes: Sequence[ProcessRow]
    features: Features | None
    nearest: str
    distance: float | None
    outside: Mapping[str, str]

    def rates(self, runs: Sequence[HostReport]) -> dict[str, dict[str, float]]:
        """By scheduler those of the rows, means over its runs."""
        found: dict[str, dict[str, float]] = {}
        for name in self.outside if self.processes else ():
            same = [run["processes"] for run in runs if run["scheduler"] == name]
            each = [rates_of(self.processes, figures) for figures in same]
            found[name] = {row: fmean(one[row] for one in each) for row in each[0]}
        return found

    def document(self, rates: Mapping[str, Mapping[str, float]]) -> dict[str, object]:
        """As a part of a JSON document."""
        return {
            "nearest": self.nearest, "distance": self.distance, "outside": dict(self.outside),
            "behind": self.behind(rates),
        }  # fmt: skip

    def behind(self, rates: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[float, float]]:
        """By scheduler, of those that are not outside: the loss that it may have in the kernel
        beside the best of them, 90 % of what near cells let expect; `rates` are those of each row.
        """
        known = {name: of for name, of in rates.items() if not self.outside[name]}
        if self.features is None or len(known) < 2:
            return {}
        drawn = with_errors(losses(known), self.features, checked_cells(), 1000, 1)
        return {name: interval_90(values) for name, values in drawn.items()}

    def lines(self, rates: Mapping[str, Mapping[str, float]]) -> list[str]:
        """Lines to stand below the figures of the load."""
        lines = [f"  {why}" if why.startswith(name) else f"  {name}: {why}"
                 for name, why in self.outside.items() if why]  # fmt: skip
        if ends := self.behind(rates):
            shares = (
                f"{n} {loss_text(low)} to {loss_text(high)}" for n, (low, high) in ends.items()
            )
            lines.append(f"  in the kernel behind the best of these (90 %): {', '.join(shares)}")
        if len(lines) < len(self.outside) and self.distance is not None:
            lines.append(f"  nearest checked load: {self.nearest} (distance {self.distance:.1f})")
        return lines


def expected_of(simulations: Sequence[Simulation]) -> Expected:
    """That of one load on one device under several schedulers."""
    first = simulations[0]
    names = [str(each.scheduler) for each in simulations]
    if first.trace is not None:
        return Expected((), None, "", None, dict.fromkeys(names, "traces were never checked"))
    processes = processes_of(first.processes)
    flash = {key: value for key, value in first.device_set.items() if key.startswith("flash.")}
    tables = tomllib.loads(device_text(first.device))
    own = {key.partition(".")[2]: value for key, value in flash.items()}
    tables = {**tables, "flash": {**tables.get("flash", {}), **own}}
    rotational = first.facts()["rotational"]
    features = features_of(processes, first.tags, rotational, dies_of(tables) > 1)
    cell, distance = nearest(features, checked_cells())
    reasons = {}
    for name, each in zip(names, simulations, strict=True):
        reasons[name] = outside(name, processes, features, distance) or _other_queue(
            name, each, waiters_of(processes)
        )
    far = distance if math.isfinite(distance) else None
    return Expected(processes, features, cell.name, far, reasons)


def _other_queue(name: str, simulation: Simulation, waiters: int) -> str:
    """Why its queue is another one than that of the cells; "" where it is not."""
    if other := sorted({*simulation.settings} - SAME_IN_BOTH):
        return f"{other[0]} was never changed in a check"
    held = simulation.nr_requests or 2 * min(simulation.tags, 128)
    if name != "none" and waiters > held:
        return f"{waiters} requests, of which {name} holds at most {held}"
    return ""


def dies_of(tables: Mapping[str, Any]) -> int:
    """The parts of a flash device that work at the same time; 0 of a disk."""
    flash = tables.get("flash", {})
    parts = ("channels", "packages_per_channel", "dies_per_package")
    return math.prod(int(flash.get(part, 1)) for part in parts) if flash else 0


def rates_of(
    processes: Sequence[ProcessRow], figures: Sequence[ProcessFigures]
) -> dict[str, float]:
    """The rate of each kind of process, of those alike their mean; of arrivals that do not wait for
    answers the inverse of their mean response. `figures` has `iops` and `latency_ns_mean` of each.
    """
    rows: dict[str, list[float]] = {}
    for spec, got in zip(processes, figures, strict=True):
        # What was never served has no response at all.
        mean_ns = got["latency_ns_mean"] or math.inf
        value = got["iops"] if spec["arrivals"] == "closed" else 1e9 / max(mean_ns, 1.0)
        rows.setdefault(spec["table"], []).append(max(float(value), 1e-3))
    return {name: fmean(values) for name, values in rows.items()}


def interval_90(drawn: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The narrowest that holds 90 % of drawn losses. Many are exactly 0: with equal tails none of
    these would be left out, and 95 % and more would be inside.
    """
    ordered = np.sort(drawn)
    held = math.ceil(0.9 * len(ordered))
    lows, highs = ordered[: len(ordered) - held + 1], ordered[held - 1 :]
    least = int(np.argmin(highs - lows))
    return float(lows[least]), float(highs[least])


def loss_text(loss: float) -> str:
    """A loss of a rate: a share, from one half on a ratio."""
    return f"{np.exp(loss):.1f}×" if loss >= np.log(2) else f"{1 - np.exp(-max(loss, 0.0)):.0%}"


def losses(rates: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The loss of each scheduler on its worst row: ln(best / its own), rows being rates."""
    rows = next(iter(rates.values()))
    best = {row: max(of[row] for of in rates.values()) for row in rows}
    return {
        name: max(math.log(best[row] / max(of[row], best[row] / 1e3, 1e-9)) for row in rows)
        if all(best.values())
        else 0.0
        for name, of in rates.items()
    }


def stored(cells: Sequence[CheckedLoad], measured: Mapping[str, object]) -> str:
    """The file of checked cells, a cell a line."""
    rows = ",\n".join(json.dumps(asdict(cell)) for cell in cells)
    return f'{{"measured": {json.dumps(dict(measured))}, "cells": [\n{rows}\n]}}\n'


class _Kept(msgspec.Struct):
    measured: dict[str, object]
    cells: tuple[CheckedLoad, ...]


@cache
def _kept() -> _Kept:
    return msgspec.json.decode(MEASURED.read_bytes(), type=_Kept)


def checked_cells() -> tuple[CheckedLoad, ...]:
    """The cells that are kept."""
    return _kept().cells


def measured() -> Mapping[str, object]:
    """When and where the cells were measured."""
    return _kept().measured


def nearest(features: Features, cells: Sequence[CheckedLoad]) -> tuple[CheckedLoad, float]:
    """The cell that is most like a load, and how far it is."""
    distances = [cell.features.distance(features) for cell in cells]
    place = int(np.argmin(distances))
    return cells[place], distances[place]


def with_errors(
    model: Mapping[str, float],
    features: Features,
    cells: Sequence[CheckedLoad],
    draws: int,
    seed: int,
) -> dict[str, np.ndarray[Any, Any]]:
    """Losses that the kernel may have where the simulation has these, `draws` of each scheduler.

    A draw takes the errors of one cell for all schedulers, as they are not independent of each
    other; near cells are taken more often. Where the nearest one is far, errors are larger.
    """
    rng = np.random.default_rng(seed)
    distances = np.array([cell.features.distance(features) for cell in cells])
    far = min(float(distances.min()), OUTSIDE)
    weights = np.exp(-((np.minimum(distances, 9.0) / WIDTH) ** 2)) + 1e-9
    taken = rng.choice(len(cells), draws, p=weights / weights.sum())
    errors = [cell.errors() for cell in cells]
    found = {}
    for name, loss in model.items():
        plain = name.partition(":")[0]
        own = np.array([each.get(name, each.get(plain, 0.0)) for each in errors])
        there = np.array([cell.model.get(name, cell.model.get(plain, 0.0)) for cell in cells])
        # A small error grows with the loss; a large one is what it was, at most.
        most = np.maximum(np.abs(own) * (FLOOR + there), LARGE)
        moved = np.clip((FLOOR + loss) * own, -most, most)
        chance = (FLOOR + loss) * (0.05 + 0.5 * far) * rng.standard_normal(draws)
        found[name] = np.maximum(loss + moved[taken] * (1 + far) + chance, 0.0)
    least = np.min(list(found.values()), axis=0)
    return {name: values - least for name, values in found.items()}
