"""Running processes, found by what a person calls them."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from schedlab.host.settings import knobs

PROC = Path("/proc")
_NAME_BYTES = 15  # include/linux/sched.h: TASK_COMM_LEN with its zero


def every() -> list[int]:
    """The ids of all running processes."""
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def called(name: str) -> list[int]:
    """The process ids of a program's name, or below the directory of a control group."""
    if name.startswith("/"):
        return below(Path(name))
    wanted = name.encode()[:_NAME_BYTES].decode(errors="replace")
    return [process for process in every() if name_of(process) == wanted]


def name_of(process: int | str) -> str:
    """The name of a running program, at most 15 bytes of it; empty when it is gone."""
    return knobs.text(PROC / str(process) / "comm") or ""


def control_group_of(process: int) -> str:
    """The control group of a running process, of the hierarchy that limits I/O; empty when it is
    gone.
    """
    rows = [
        line.split(":", 2)
        for line in (knobs.text(PROC / str(process) / "cgroup") or "").splitlines()
    ]
    of_io = [path for _, controllers, path in rows if "blkio" in controllers.split(",")]
    return (of_io or [path for _, controllers, path in rows if not controllers] or [""])[0]


def holding(number: str) -> set[int]:
    """Other processes that have the block device `major:minor` open."""
    found = set()
    for entry in PROC.glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            status = entry.stat()
            device = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
            if stat.S_ISBLK(status.st_mode) and device == number:
                found.add(int(entry.parts[2]))
    return found - {os.getpid()}


def stat_fields(process: int | str) -> list[str]:
    """The fields of /proc/PID/stat from the third, the state, on; none when it is gone."""
    return (knobs.text(PROC / str(process) / "stat") or "").rpartition(")")[2].split()


def below(group: Path) -> list[int]:
    """The process ids in a control group and in those inside it."""
    found: list[int] = []
    for file in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text(encoding="ascii").split())
    return found


def descendants(ancestors: Iterable[int]) -> list[int]:
    """The running processes that these started, directly or through others."""
    found: list[int] = []
    unseen = list(ancestors)
    while unseen:
        with contextlib.suppress(OSError):  # it has just ended
            for task in (PROC / str(unseen.pop()) / "task").iterdir():
                children = [int(each) for each in (knobs.text(task / "children") or "").split()]
                unseen += children
                found += children
    return [each for each in found if stat_fields(each)[:1] not in ([], ["Z"])]


def cpu_s(process: int) -> float:
    """Processor time of a process so far, in seconds; 0 for one that has ended."""
    fields = stat_fields(process)
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
