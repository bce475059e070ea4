"""Running processes, found by what a person calls them."""

from __future__ import annotations

import contextlib
from pathlib import Path

PROC = Path("/proc")
_NAME_BYTES = 15  # include/linux/sched.h: TASK_COMM_LEN with its zero


def of(name: str) -> list[int]:
    """The process ids of a program's name, or below the directory of a control group."""
    if name.startswith("/"):
        return below(Path(name))
    wanted, found = name.encode()[:_NAME_BYTES], []
    for directory in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (directory / "comm").read_bytes().removesuffix(b"\n") == wanted:
                found.append(int(directory.name))
    return found


def stat_fields(process: int | str) -> list[str]:
    """The fields of /proc/PID/stat from the third, the state, on; none when it is gone."""
    try:
        text = (PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def below(group: Path) -> list[int]:
    """The process ids in a control group and in those inside it."""
    found: list[int] = []
    for file in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text(encoding="ascii").split())
    return found
