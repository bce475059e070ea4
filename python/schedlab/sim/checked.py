"""How far simulated losses of schedulers were from the kernel's, and on what loads that is known.

`checked_cells.json` has the losses of schedulers in the kernel on emulated devices and in the
simulation of the same cell (benches/predict/cells.py makes it). A load is near a cell by what a
scheduler sees of it; the errors of near cells are those to expect.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from schedlab.package import PACKAGE
from schedlab.sim.validated import is_buffered, waiters_of

MEASURED = PACKAGE / "sim" / "checked_cells.json"
#: The host of the cells, in settings of crates/sim/src/host/settings.rs: one CPU, so that nobody is
#: awake before all of a completion is known, with four workers of io_uring.
HOST = {"woken_early": 0.0, "io_workers": 4}
#: A load further from every cell is outside; the errors of a cell count by this width.
OUTSIDE, WIDTH = 1.2, 0.5
#: A loss has an error in proportion to itself, and to this much where there is none.
FLOOR = 0.05


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
    processes: Sequence[Mapping[str, Any]], tags: int, rotational: bool, parallel: bool = False
) -> Features:
    """Those of processes, one for each of `count`."""
    depths = np.array([float(each.get("depth", 1)) for each in processes])
    share = depths / depths.sum()
    writes = np.array([1 - float(each.get("read_share", 1)) for each in processes])
    ways = np.array([each.get("pattern", "random") != "random" for each in processes], float)
    marks = {(each.get("ioprio", "be:4"), each.get("weight", 0)) for each in processes}
    return Features(
        rotational,
        math.log2(waiters_of(processes) / tags),
        float(share @ writes),
        float(share @ ways),
        len(marks) > 1 or any(each.get("weight") for each in processes),
        is_buffered(processes),
        len(processes),
        parallel=parallel,
    )


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


def stored(cells: Sequence[CheckedLoad], measured: Mapping[str, Any]) -> str:
    """The file of checked cells, a cell a line."""
    rows = ",\n".join(json.dumps(asdict(cell)) for cell in cells)
    return f'{{"measured": {json.dumps(dict(measured))}, "cells": [\n{rows}\n]}}\n'


@cache
def _kept() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return document


@cache
def checked_cells() -> tuple[CheckedLoad, ...]:
    """The cells that are kept."""
    return tuple(
        CheckedLoad(**{**cell, "features": Features(**cell["features"])})
        for cell in _kept()["cells"]
    )


def measured() -> Mapping[str, Any]:
    """When and where the cells were measured."""
    found: Mapping[str, Any] = _kept()["measured"]
    return found


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
        error = own[taken] * (1 + far) + (0.05 + 0.5 * far) * rng.standard_normal(draws)
        found[name] = np.maximum(loss + (FLOOR + loss) * error, 0.0)
    least = np.min(list(found.values()), axis=0)
    return {name: values - least for name, values in found.items()}
