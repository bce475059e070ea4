"""Remove emulated devices from the journal alone, without ever waiting for one that is stuck.

`quiesce` gives file systems a few seconds to write back, then ends the server, which makes the
kernel fail what still waits. Then nothing can hang, and the parts are removed one by one. The
guardian runs this, so it imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from schedlab.host import kernel_paths, processes
from schedlab.host.safety import owned
from schedlab.host.safety.journal import Entry
from schedlab.host.safety.write_back import MNT_DETACH, MNT_FORCE, WriteBack, unmount

KIND = "emulated"
SERVER_MODULE = "schedlab_sim.emulator"
WRITE_BACK_PATIENCE_S = 5.0


def quiesce(things: Iterable[Entry]) -> list[str]:
    """Before anything is restored: make sure that nothing waits for an emulated device.

    File systems on it are unmounted and the device is flushed, for a few seconds; then its server
    is ended, so that the kernel fails what still waits. What was not written back, in sentences.
    """
    things, lost = list(things), []
    for thing in things:
        if thing["what"] != KIND:
            continue
        directory = thing["path"]
        loops = [
            t["index"]
            for t in things
            if t["what"] == "loop"
            and t["backing"].startswith(f"{directory}/")
            and kernel_paths.backing_file(owned.SYS_BLOCK / f"loop{t['index']}") == t["backing"]
        ]
        writers = [WriteBack(index) for index in loops if servers(directory)]
        deadline = time.monotonic() + WRITE_BACK_PATIENCE_S
        for writer in writers:
            lost += writer.failures(max(0.0, deadline - time.monotonic()))
        end_servers(directory)
        for writer in writers:
            writer.end()
        for mount in [mount for index in loops for mount in kernel_paths.mounts_of_loop(index)]:
            unmount(mount, MNT_DETACH)
    return lost


def remove(path: str) -> bool:
    """Remove what is below a device's directory; whether it was there."""
    if not Path(path).name.startswith(f"{owned.PREFIX}{KIND}-"):
        raise OSError(errno.EPERM, "schedlab did not choose its name")
    end_servers(path)
    inside = [each for each in kernel_paths.mounts() if each.target.startswith(f"{path}/")]
    for mount in reversed(inside):
        unmount(mount, MNT_FORCE | MNT_DETACH)
    if not Path(path).is_dir():
        return False
    with contextlib.suppress(FileNotFoundError):
        Path(path, "fuse").rmdir()
    Path(path).rmdir()
    return True


def servers(directory: str | Path) -> list[int]:
    """Process ids of servers of that directory, found by their arguments."""
    wanted, ids = {SERVER_MODULE.encode(), os.fsencode(directory)}, []
    for process in processes.every():
        with contextlib.suppress(OSError):
            if wanted <= {*Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")}:
                ids.append(process)
    return ids


def end_servers(directory: str | Path) -> None:
    """End the servers of a directory and wait until their connection is closed."""
    for process in servers(directory):
        try:
            descriptor = os.pidfd_open(process)
        except OSError:
            continue
        try:
            if process in servers(directory):  # still the one that was found
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                select.select([descriptor], [], [], owned.PATIENCE_S)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)
