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

    def pack(self) -> bytes:
        start_ns, end_ns = round(self.start_us * 1e3), round(self.end_us * 1e3)
        sector = self.offset // SECTOR_BYTES
        times = (start_ns, start_ns, end_ns, sector, self.cgroup, 0, 0)
        rest = (self.size, self.thread, self.thread, 0)
        kind = (self.operation, self.flags, self.ioprio, 0)
        return struct.pack("<7Q4I4H16s", *times, *rest, *kind, self.command.encode())


def recording(
    path: Path, records: Iterable[Recorded], scheduler: str = "none", lost: int = 0
) -> Path:
    """Write a file, which may also be compressed by zstd."""
    packed = [one.pack() for one in records]
    facts = {"device": "sdz", "queue": {"scheduler": f"[{scheduler}] other"}}
    end = struct.pack("<4Q", len(packed), lost, 0, 0) + bytes(40) + b"\xff\xff" + bytes(22)
    head = f"SCHEDLAB TRACE 1 {json.dumps(facts)}\n".encode()
    path.write_bytes(head + b"".join(packed) + end)
    return path
