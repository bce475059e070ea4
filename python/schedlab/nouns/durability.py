"""Durability: how programs have their data on the device, its metrics, and what it waits for.

An fsync waits for three things in turn: its data is written, the journal of its file system is
committed, the device flushes its cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedlab.nouns.latency import QUANTILES

FSYNC, SYNCED_WRITE, JOURNAL = "fsync", "synced_write", "journal_commit"
OPERATIONS = (FSYNC, SYNCED_WRITE, JOURNAL)
#: The operation of each call of crates/trace/src/syncs.rs; sync_file_range makes nothing durable.
OPERATION_OF = {
    **dict.fromkeys(("fsync", "fdatasync", "msync", "syncfs"), FSYNC),
    "synced write": SYNCED_WRITE,
    "commit": JOURNAL,
}
STATISTICS = ("mean", *QUANTILES, "max")
#: The share of the bytes in front of a call from which they are the reason.
IN_FRONT = 0.5
#: The part of a write's time that it waited for a tag, from which the queue is full.
FULL = 0.25
#: The processes that call, among those that write.
OWN = ""
#: Writers that write for others.
OF_THE_KERNEL = ("journal", "write-back")
#: It takes a tenth of the time at most, by itself (fs/ext4/super.c): nobody waits for it.
GENTLE = "ext4lazyinit"


def metric(operation: str, statistic: str) -> str:
    """The name of a metric of an operation."""
    return f"{operation}_latency_ns_{statistic}"


METRICS = tuple(metric(operation, each) for operation in OPERATIONS for each in STATISTICS)
#: Rows of a comparison whose work turns out to sync.
USUAL = tuple(metric(operation, each) for operation in OPERATIONS for each in ("p50", "p99"))


@dataclass(frozen=True)
class Chain:
    """Where calls spent their time, in s; `written` are the bytes that other processes wrote to the
    disk while any call waited, and those of the callers (`OWN`).
    """

    calls: int
    data_s: float
    journal_s: float
    flush_s: float
    written: Mapping[str, int]

    @property
    def total_s(self) -> float:
        """The time of all calls."""
        return self.data_s + self.journal_s + self.flush_s

    def share(self, part: str) -> float:
        """The share of `data`, `journal` or `flush`."""
        return float(getattr(self, f"{part}_s")) / max(self.total_s, 1e-12)

    @property
    def front(self) -> tuple[str, float]:
        """Who wrote most beside the callers, and the share of all bytes written meanwhile."""
        counted = {name: n for name, n in self.written.items() if name != GENTLE}
        others = {name: n for name, n in counted.items() if name != OWN}
        name = max(others, key=lambda each: others[each], default="")
        return name, others.get(name, 0) / max(sum(counted.values()), 1)


def reason(chain: Chain, *, tag_share: float = 0.0, is_limited: bool = False) -> str:
    """The main reason of the waits: `limit`, `queue` (a full one), `writer` (another process, or
    write-back), `flush`, `journal` or `data`.

    `tag_share` is the part of their time that writes waited for a tag, `is_limited` whether a limit
    held requests back meanwhile.
    """
    if is_limited:
        return "limit"
    if tag_share >= FULL:
        return "queue"
    name, share = chain.front
    if share >= IN_FRONT and name != "journal":
        return "writer"
    return max(("flush", "journal", "data"), key=chain.share)
