"""Block sizes × open modes: what a call costs, and from which size on the bytes cost more."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.errors import SpecError
from schedlab.run.place import Place, group, run_job

# mode -> options of the engine's group; a write is on the device when the call returns only in
# the modes that say so.
MODES: dict[str, dict[str, Any]] = {
    "buffered": {"engine": "psync"},
    "buffered+fsync": {"engine": "psync", "fsync_at_end": True},
    "sync": {"engine": "psync", "sync": "sync"},
    "dsync": {"engine": "psync", "sync": "dsync"},
    "direct": {"engine": "psync", "direct": True},
    "direct+dsync": {"engine": "psync", "direct": True, "sync": "dsync"},
    "mmap": {"engine": "mmap"},
    "mmap+msync": {"engine": "mmap", "sync": "sync"},
}


@dataclass(frozen=True)
class Point:
    """One measured run: `calls` records of `block_bytes`, one after the other."""

    mode: str
    block_bytes: int
    calls: int
    repetition: int
    elapsed_s: float
    cpu_s: float

    @property
    def seconds_per_call(self) -> float:
        """Mean time of one call."""
        return self.elapsed_s / self.calls


def sweep(
    place: Place,
    modes: Sequence[str],
    block_bytes: Sequence[int],
    total: Callable[[int], int],
    direction: str,
    repeat: int,
    seed: int,
    tell: Callable[[int, int], None],
) -> list[Point]:
    """Every (mode, block size) once per repetition, in a fresh random order each time.

    `total(block)` gives the number of calls: constant for the same number of calls, or bytes over
    block for the same bytes. `tell(done, all)` is called between runs. SpecError for an unknown
    mode or a block that does not fit.
    """
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise SpecError(f"mode {unknown[0]!r} is not known", f"use some of: {', '.join(MODES)}")
    for block in block_bytes:
        if total(block) * block > place.size_bytes or total(block) < 1:
            raise SpecError(
                f"{total(block)} calls of {block} bytes do not fit into {place.size_bytes} bytes",
                "use a larger target, fewer bytes or fewer calls",
            )
    rng = random.Random(seed)
    cells = [(mode, block) for mode in modes for block in block_bytes]
    points: list[Point] = []
    for repetition in range(repeat):
        for mode, block in rng.sample(cells, len(cells)):
            tell(len(points), repeat * len(cells))
            points.append(_measure(place, mode, block, total(block), direction, repetition, seed))
    return points


def _measure(
    place: Place, mode: str, block: int, calls: int, direction: str, repetition: int, seed: int
) -> Point:
    job = group(
        "sweep",
        place,
        {
            "pattern": {"kind": "sequential"},
            "direction": {"kind": direction},
            "record": block,
            "span": calls * block,
            "arrivals": {"kind": "closed", "depth": 1},
            "seed": seed,
        },
        **MODES[mode],
    )
    done = run_job([job], None)["sweep"]
    cpu_s = (done["cpu_user_ns"] + done["cpu_system_ns"]) / 1e9
    return Point(mode, block, calls, repetition, done["elapsed_ns"] / 1e9, cpu_s)
