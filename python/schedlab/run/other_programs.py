"""The CPU time of other programs between two moments, from the accounts of their processes.

A process that ends leaves all that it ever used in the account of the one that waits for it: its
parent or, when that ended before it, an ancestor. That sum is new there, its CPU time is not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from schedlab.host import processes

Key = tuple[int, int]  # process id, start time in ticks
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """CPU seconds of a user process and of its children that it has waited for."""

    parent: int
    own_s: float
    waited_s: float


@dataclass(frozen=True)
class UserProcesses:
    """All user processes at a moment: those of other programs, and ours."""

    others: Mapping[Key, Process] = field(default_factory=dict)
    ours: Mapping[Key, Process] = field(default_factory=dict)


def user_processes(own_process: int, groups: Iterable[Path] = ()) -> UserProcesses:
    """The processes now; ours descend from `own_process` or are in one of `groups`."""
    known: dict[int, tuple[int, Process]] = {}
    for pid in processes.every():
        with contextlib.suppress(IndexError):
            if parsed := parse(processes.stat_fields(pid)):
                known[pid] = parsed
    ours = {own_process, *(pid for group in groups for pid in processes.below(group))}
    descendants = {pid for pid in known if _descends(pid, known, ours)}
    return UserProcesses(
        {(pid, start): each for pid, (start, each) in known.items() if pid not in descendants},
        {(pid, start): each for pid, (start, each) in known.items() if pid in descendants},
    )


def parse(fields: Sequence[str]) -> tuple[int, Process] | None:
    """(start time in ticks, process) from `processes.stat_fields`; None for a kernel thread."""
    if int(fields[6]) & _KERNEL_THREAD:
        return None
    user, system, waited_user, waited_system = map(int, fields[11:15])
    own_s, waited_s = (user + system) * _TICK_S, (waited_user + waited_system) * _TICK_S
    return int(fields[19]), Process(int(fields[1]), own_s, waited_s)


def _descends(pid: int, known: Mapping[int, tuple[int, Process]], ours: set[int]) -> bool:
    for _ in range(len(known)):
        if pid in ours:
            return True
        if pid not in known:
            return False
        pid = known[pid][1].parent
    return False


def other_s(before: UserProcesses, after: UserProcesses) -> float:
    """CPU seconds that other programs used in between, also processes that came and went.

    One that was ours stays ours, also when its parent ended and another took it in.
    """
    nothing = Process(0, 0.0, 0.0)
    used_s, waited_s = 0.0, {}
    for key, process in after.others.items():
        if key in before.ours:
            continue
        earlier = before.others.get(key, nothing)
        used_s += max(0.0, process.own_s - earlier.own_s)
        waited_s[key[0]] = max(0.0, process.waited_s - earlier.waited_s)
    for total_s, heirs in _ended(before, after):
        for heir in heirs:
            inherited_s = min(total_s, waited_s.get(heir, 0.0))
            if inherited_s:
                waited_s[heir] -= inherited_s
                total_s -= inherited_s  # noqa: PLW2901  # what is left is with the next
    return used_s + sum(waited_s.values())


def _ended(before: UserProcesses, after: UserProcesses) -> Iterator[tuple[float, list[int]]]:
    """For each process that ended: what it had used before, and who may have waited for it."""
    known = {**before.others, **before.ours}
    there = {key[0] for key in known if key in after.others or key in after.ours}
    parents = {key[0]: process.parent for key, process in known.items()}
    for key, process in known.items():
        if key[0] in there:
            continue
        ancestors = [process.parent]
        while (parent := parents.get(ancestors[-1], 0)) and parent not in ancestors:
            ancestors.append(parent)
        # A parent that is there has waited for it, or nobody has.
        yield process.own_s + process.waited_s, ancestors[: 1 if ancestors[0] in there else None]
