"""A fitted file beside the hidden device: each key, and loads that the fit has not seen."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hidden import Hidden

from schedlab_sim.checked import HOST
from schedlab_sim.fit.fitted import UNKNOWN, number_of, value_at
from schedlab_sim.simulation import Simulation

#: Keys of what was counted, and of times and rates.
GEOMETRY = ("rpm", "heads", "zones", "queue_depth", "cache.segments", "cache.read_ahead",
            "flash.channels", "flash.dies_per_package", "flash.planes_per_die", "flash.page",
            "queue.depth")  # fmt: skip
TIMES = ("seek_single", "seek_average", "seek_full", "head_switch", "track_skew", "cylinder_skew",
         "overhead", "interface_bytes_per_s", "flash.page_read", "flash.page_transfer",
         "link.bytes_per_s", "read_and_transfer")  # fmt: skip
FLASH_TIMES = ("flash.page_read", "flash.page_transfer")
UNSEEN: tuple[dict[str, Any], ...] = (
    {"name": "random 4k x1", "record": 4096, "depth": 1},
    {"name": "random 8k x4", "record": 8192, "depth": 4},
    {"name": "random 32k x16", "record": 32768, "depth": 16},
    {"name": "random 128k x2", "record": 131072, "depth": 2},
    {"name": "sequential 64k x2", "record": 65536, "depth": 2, "pattern": "sequential"},
)


def keys_of(device: Hidden, fitted: Path) -> dict[str, dict[str, Any]]:
    """Of each key `true`, `found`, `error` (found / true − 1) and `stated`, the fit's own error."""
    there = tomllib.loads(fitted.read_text(encoding="utf-8"))
    errors: Mapping[str, Any] = there["fit"]["error"]
    true = _true(device)
    rows = {}
    stated: Any
    for key in (*GEOMETRY, *TIMES):
        if key == "read_and_transfer":
            found = sum(number_of(value_at(there, one)) for one in FLASH_TIMES)
            stated = 0.0
        elif key == "zones":
            found, stated = 1.0, errors.get(key)
        else:
            found, stated = number_of(value_at(there, key) or 0), errors.get(key)
        if key not in true or stated is None or np.isnan(found):
            continue
        error = _zones_error(true[key], there[key]) if key == "zones" else found / true[key] - 1
        shown = 1.0 if key == "zones" else true[key]
        rows[key] = {"true": shown, "found": found, "error": round(float(error), 4),
                     "stated": stated, "unknown": stated == UNKNOWN}  # fmt: skip
    return rows


def _true(device: Hidden) -> dict[str, Any]:
    """The keys of the device as it was read: so many times slower, in order where it is."""
    tables = tomllib.loads(device.path.read_text(encoding="utf-8"))
    true: dict[str, Any] = {}
    for key in (*GEOMETRY, *TIMES):
        value = value_at(tables, key)
        if value is None:
            continue
        number = value if isinstance(value, list) else number_of(value)
        is_time = key in TIMES and not key.endswith("per_s")
        if device.dilate > 1 and not isinstance(number, list):
            number = number * device.dilate if is_time else number
            number = number / device.dilate if key.endswith("per_s") else number
        true[key] = number
    if device.kind == "disk":
        if true["heads"] == 1:
            # Nothing changes from one head to another.
            del true["track_skew"], true["head_switch"]
        true["queue_depth"] = 1 if device.policy == "fcfs" else device.depth
    else:
        true["queue.depth"] = device.depth
        true["read_and_transfer"] = sum(true[each] for each in FLASH_TIMES)
    return true


def _zones_error(true: list[dict[str, int]], found: list[dict[str, int]]) -> float:
    """The median error of the sectors of a track over the device."""

    def sectors(zones: list[dict[str, int]]) -> np.ndarray[Any, Any]:
        sizes = np.cumsum([zone["cylinders"] * zone["sectors_per_track"] for zone in zones])
        at = np.searchsorted(sizes / sizes[-1], np.linspace(0.01, 0.99, 99))
        return np.array([zones[n]["sectors_per_track"] for n in at], float)

    return float(np.median(np.abs(sectors(found) / sectors(true) - 1)))


def twins(device: Hidden, fitted: Path) -> list[dict[str, Any]]:
    """Errors of mean and 99th percentile of the fitted model beside the true one, both simulated:
    no host enters.
    """
    size_bytes = int(device.simulation("none").facts()["size_bytes"])
    rows = []
    for load in UNSEEN:
        process = dict(load)
        if process.get("pattern"):
            process |= {"offset": size_bytes // 3 >> 20 << 20, "span": size_bytes // 8 >> 20 << 20}
        one = device.simulation("none", processes=process, seconds=20.0, settings=HOST)
        two = Simulation(
            device=str(fitted), scheduler="none", tags=max(device.depth, 4), seconds=20.0,
            processes=process, settings=HOST,
        )  # fmt: skip
        true, found = (each.run()["total"] for each in (one, two))
        rows.append(
            {"load": load["name"]}
            | {
                name: round(found[f"latency_ns_{name}"] / true[f"latency_ns_{name}"] - 1, 4)
                for name in ("mean", "p99")
                if true[f"latency_ns_{name}"] and found[f"latency_ns_{name}"]
            }
        )
    return rows
