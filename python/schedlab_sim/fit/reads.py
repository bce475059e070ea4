"""Timed reads of a device: the only way in which a fit touches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Reads of one call: Ctrl-C is heeded between calls.
CALL_READS = 256


@dataclass
class Reads:
    """Reads of a device past the page cache, never a write; counts what it spends.

    `size_bytes` and `block_bytes`, its smallest read, are those of the device.
    """

    path: str
    size_bytes: int
    block_bytes: int = 512
    seed: int = 5
    count: int = 0
    progress: Callable[[str], None] = lambda text: None
    draws: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        """The places that are read are the same for the same seed."""
        self.draws = np.random.default_rng(self.seed)

    def places(self, count: int, step_bytes: int = 4096, room_bytes: int = 2 << 20) -> NDArray[Any]:
        """Places drawn over the device, on multiples of a step, `room_bytes` before its end."""
        steps = max(1, (self.size_bytes - room_bytes) // step_bytes)
        return self.draws.integers(0, steps, count) * step_bytes

    def timed(
        self, offsets: Sequence[int] | NDArray[Any], length_bytes: int = 4096, depth: int = 1,
        together: bool = False,
    ) -> NDArray[Any]:  # fmt: skip
        """Rows (submitted, completed) in ns, one for each read, `depth` of them at a time."""
        from schedlab._core import timed_reads

        reads = [(int(offset), length_bytes) for offset in offsets]
        step = CALL_READS // depth * depth or depth
        rows: list[tuple[int, int]] = []
        for start in range(0, len(reads), step):
            rows += timed_reads(self.path, reads[start : start + step], depth, together)
        self.count += len(reads)
        return np.array(rows, dtype=np.int64).reshape(-1, 2)

    def latencies_ns(
        self, offsets: Sequence[int] | NDArray[Any], length_bytes: int = 4096
    ) -> NDArray[Any]:
        """The time of each read, one after the other."""
        rows = self.timed(offsets, length_bytes)
        times: NDArray[Any] = (rows[:, 1] - rows[:, 0]).astype(float)
        return times

    def rate_per_s(self, depth: int, seconds: float, length_bytes: int = 4096) -> float:
        """Random reads a second with `depth` at a time, for about so many seconds."""
        from schedlab._core import timed_reads

        chunk = 8 * depth
        rows: list[tuple[int, int]] = []
        while not rows or rows[-1][1] - rows[0][0] < seconds * 1e9:
            places = self.places(chunk, max(length_bytes, 4096))
            rows += timed_reads(self.path, [(int(at), length_bytes) for at in places], depth)
            chunk = min(4 * chunk, 64 * depth)
        self.count += len(rows)
        ends = np.sort([done for _, done in rows])
        return float((len(rows) - depth) / max((ends[-1] - ends[depth - 1]) / 1e9, 1e-9))
