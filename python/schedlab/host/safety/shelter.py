"""Leaving the control groups of the process that started us.

A group is killed as a whole (`cgroup.kill`, a container's stop, systemd's KillMode), on hosts with
cgroup v1 by killing each process that any hierarchy lists. To outlive that, a process goes to the
root of every hierarchy; where that is not allowed, it asks systemd for a separate unit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from schedlab.host.kernel_paths import groups_of, shown

_SYSTEMD_PATIENCE_S = 5.0


def leave_groups() -> bool:
    """Move this process to the root of each hierarchy; whether no group can take it any more."""
    try:
        groups = groups_of()
    except (OSError, ValueError):
        return False
    for root, path in groups.items():
        if path != "/":
            with contextlib.suppress(OSError):
                (root / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    if _is_free(groups):
        return True
    _ask_systemd()
    now = groups_of()
    return all(path == "/" or path != groups.get(root) for root, path in now.items())


def confining_groups() -> list[str]:
    """The control groups that a guardian of this process could not leave by itself."""
    return [
        shown(f"{root}{path}")
        for root, path in groups_of().items()
        if path != "/" and not os.access(root / "cgroup.procs", os.W_OK)
    ]


def has_systemd() -> bool:
    """Whether systemd can be asked for a scope."""
    return shutil.which("busctl") is not None and Path("/run/systemd/system").is_dir()


def _is_free(before: dict[Path, str]) -> bool:
    with contextlib.suppress(OSError, ValueError):
        now = groups_of()
        return all(path == "/" for root, path in now.items() if root in before)
    return False


def _ask_systemd() -> None:
    """A transient scope for this process, from the system's manager or the user's own."""
    if not has_systemd():
        return
    number = str(os.getpid())
    unit = f"schedlab-guardian-{number}.scope"
    manager = "org.freedesktop.systemd1"
    call = [
        "call", manager, "/org/freedesktop/systemd1", f"{manager}.Manager", "StartTransientUnit",
        "ssa(sv)a(sa(sv))", unit, "fail", "1", "PIDs", "au", "1", number, "0",
    ]  # fmt: skip
    command = ["busctl", *([] if os.geteuid() == 0 else ["--user"]), *call]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, check=False, capture_output=True, timeout=_SYSTEMD_PATIENCE_S)
