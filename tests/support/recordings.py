"""Recorded loads made by hand, in the layout of crates/trace/src/records.rs."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

READ, WRITE, FLUSH, DISCARD = range(4)
SYNC, FUA, PREFLUSH = 1, 8, 16
SECTOR_BYTES = 512


@dataclass(frozen=True)
class Recorded:
    """A request: start and end in µs, first byte, bytes, and who sent it."""

    start_us: float
    end_us: float
    offset: int = 0
    size: int = 4096
    operation: int = READ
    flags: int = SYNC
    thread: int = 1
    command: str = "reader"
    ioprio: int = 0
    cgroup: int = 0
    steps_us: tuple[float, float, float] | None = None  # tag, scheduler, device; else at once

    def pack(self, version: int = 2) -> bytes:
        start_ns, end_ns = round(self.start_us * 1e3), round(self.end_us * 1e3)
        sector = self.offset // SECTOR_BYTES
        tag, insert, issue = (round(us * 1e3) for us in self.steps_us or (self.start_us,) * 3)
        times = (start_ns, issue, end_ns, sector, self.cgroup, 0, 0)
        rest = (self.size, self.thread, self.thread, 0)
        kind = (self.operation, self.flags, self.ioprio, 0)
        packed = struct.pack("<7Q4I4H16s", *times, *rest, *kind, self.command.encode())
        return packed + struct.pack("<2Q", tag, insert) if version > 1 else packed


def recording(
    path: Path,
    records: Iterable[Recorded],
    scheduler: str = "none",
    lost: int = 0,
    version: int = 2,
) -> Path:
    """Write a file, which may also be compressed by zstd."""
    packed = [one.pack(version) for one in records]
    facts = {"device": "sdz", "queue": {"scheduler": f"[{scheduler}] other"}}
    end = struct.pack("<4Q", len(packed), lost, 0, 0) + bytes(40) + b"\xff\xff" + bytes(22)
    end += bytes(16 * (version > 1))
    head = f"SCHEDLAB TRACE {version} {json.dumps(facts)}\n".encode()
    path.write_bytes(head + b"".join(packed) + end)
    return path
