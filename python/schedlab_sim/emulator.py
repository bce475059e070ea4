"""The process that serves an emulated device: it holds the only descriptor of the FUSE connection.

`python -S -m schedlab_sim.emulator DIRECTORY FUSE CONTROL CONFIG`: takes itself out of the way of
what is measured (own cgroup membership, memory locked, short timer slack, real-time priority),
then serves until the connection ends. Its death is the end of the connection: a process that waits
for the device then gets an I/O error and does not hang. It imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

from schedlab.host import kernel_paths

# include/uapi/linux/prctl.h, include/uapi/asm-generic/mman.h
PR_SET_TIMERSLACK, PR_SET_IO_FLUSHER = 29, 57
MCL_CURRENT, MCL_FUTURE = 1, 2
# The main thread samples what is in flight, also while the others are busy on the only CPU.
_PRIORITY, _SAMPLER_PRIORITY, _BEGUN_S = 1, 2, 0.5


def main(arguments: list[str]) -> int:
    """Serve; 0 when the connection ended, 1 when it could not begin."""
    _, fuse, control, config = arguments
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    os.chdir("/")
    _leave_the_cgroup()
    _be_prompt()
    from schedlab.errors import SchedlabError
    from schedlab_sim import _simulators

    threading.Timer(_BEGUN_S, _be_real_time, (os.getpid(), _SAMPLER_PRIORITY)).start()
    try:
        _simulators.serve_emulated_device(config, int(fuse), int(control))
    except SchedlabError as error:
        os.write(2, f"schedlab: the emulated device ended: {error}\n".encode())
        return 1
    return 0


def _leave_the_cgroup() -> None:
    """Into the root cgroup: limits of a workload must not slow its device down."""
    for each in kernel_paths.hierarchies():
        with contextlib.suppress(OSError):
            if each.is_v2:
                (each.root / "cgroup.procs").write_text("0", encoding="ascii")


def _be_prompt() -> None:
    """Each of these helps where it is allowed, and none is needed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    libc.prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)
    libc.mlockall(MCL_CURRENT | MCL_FUTURE)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-1000", encoding="ascii")
    _be_real_time(0, _PRIORITY)


def _be_real_time(thread: int, priority: int) -> None:
    with contextlib.suppress(OSError):
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
