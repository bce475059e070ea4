"""A finished sweep as a result folder: `analyse` and `report` read it as any other.

Every combination of parameters is a candidate, the first one the baseline; seeds are blocks; what
is simulated (`workload`, `processes`, each process of a host's queue) are workloads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.sim.experiments import DISK_METRICS, SSD_METRICS
from schedlab.sim.sweep import Point, host_simulation
from schedlab.sim.validated import doubt_of
from schedlab.spec import METRICS
from schedlab.store.folder import Folder
from schedlab.store.importers.imported import Options, Reading, assemble

FOLDER = "result"
SOURCES = ("workload", "trace", "processes")
# The first one that a run has is compared first.
METRIC_ORDER = (SSD_METRICS[0], "throughput_bytes_per_s", *SSD_METRICS[1:], *DISK_METRICS)


def write_result(rows: Sequence[Mapping[str, Any]], folder: Path, title: str) -> Path | None:
    """The result folder of the rows of a sweep, below the sweep's own; an existing one stays.

    None for a sweep without a point.
    """
    if not rows:
        return None
    path = folder / FOLDER
    if path.exists():
        return Folder.open(path).path
    keys = varied(rows)
    readings = [reading for row in rows for reading in readings_of(row, keys)]
    options = Options(title=title, blocked=True, notes=tuple(doubts(rows)))
    return assemble(readings, options, {"file": str(folder / "results.jsonl")}).save(path).path


def ending(rows: Sequence[Mapping[str, Any]], folder: Path, result: Path | None) -> list[str]:
    """What a sweep prints at its end."""
    points = f"{len(rows)} points in {folder}/results.jsonl"
    if result is None:
        return [points]
    return [
        points,
        *doubts(rows),
        f"table and intervals: schedlab analyse {result}",
        f"with figures: schedlab report {result}",
    ]


def doubts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each of the kernel's schedulers whose figures are not validated."""
    different = {Point(row["settings"], 0).key: Point(row["settings"], 0) for row in rows}
    simulations = [
        host_simulation(point) for point in different.values() if "scheduler" in point.settings
    ]
    said = dict.fromkeys(doubt_of(simulation, simulation.scheduler) for simulation in simulations)
    return list(filter(None, said))


def varied(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys of the settings, but sources, that differ between the rows."""
    keys = dict.fromkeys(key for row in rows for key in row["settings"] if key not in SOURCES)
    values = {key: {repr(row["settings"].get(key)) for row in rows} for key in keys}
    return [key for key in keys if len(values[key]) > 1]


def readings_of(row: Mapping[str, Any], keys: Sequence[str]) -> Iterator[Reading]:
    """The runs of one point; above a device each process, and all together, is a workload."""
    settings = row["settings"]
    named = {key: settings[key] for key in keys if key in settings}
    words = [value if "." not in key else f"{key}={value}" for key, value in named.items()]
    source = next((str(settings[key]) for key in SOURCES if key in settings), "A")
    metrics = row["metrics"]
    parts = {"": metrics}
    if "order" in metrics:
        parts = {f", {name}": each for name, each in metrics.items() if name != "order"}
    for part, figures in parts.items():
        yield Reading(
            place=f"seed {row['seed']}, {settings}",
            candidate=", ".join(map(str, words)) or "as fixed",
            workload=f"{Path(source).name}{part}",
            metrics=ordered(figures),
            block=str(row["seed"]),
            settings={key: value if is_plain(value) else str(value)
                      for key, value in named.items()},
            parameters={key: str(value) for key, value in settings.items() if key not in keys},
        )  # fmt: skip


def ordered(figures: Mapping[str, Any]) -> dict[str, float]:
    """Those figures that are metrics, the one to compare first."""
    names = [name for name in METRIC_ORDER if name in figures]
    names += [name for name in figures if name not in names]
    known = {name: figures[name] for name in names if name in METRICS}
    return {
        name: float(value)
        for name, value in known.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def is_plain(value: object) -> bool:
    """Whether a candidate's setting can be stored as it is."""
    return isinstance(value, int | float | str) and not isinstance(value, bool)
