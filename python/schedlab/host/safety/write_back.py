"""Unmount a loop device and write back all that is dirty on it, in a process that may hang.

`python -S -m schedlab.host.safety.write_back INDEX`: as long as the server of an emulated device
does not answer, neither does this process. It prints what could not be written back as JSON, a list
of sentences. A file system stays mounted if it is in use, though its data is written all the same,
and if its data could not be written: what is in memory can still be copied from it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

from schedlab.host import kernel_paths
from schedlab.host.kernel_paths import Mount, shown
from schedlab.host.safety.owned import libc_call
from schedlab.nouns.reading import opened
from schedlab.package import IMPORT_PATH

MNT_FORCE, MNT_DETACH = 1, 2
_BLKFLSBUF = 0x1261  # include/uapi/linux/fs.h
_KILL_PATIENCE_S = 1.0


class WriteBack:
    """The process, from the side of its owner."""

    def __init__(self, index: int) -> None:
        self.device = f"/dev/loop{index}"
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-m", __name__, str(index)],
            env={**os.environ, "PYTHONPATH": IMPORT_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def failures(self, patience_s: float) -> list[str]:
        """Failures to write back, in sentences; also that it took too long."""
        try:
            output, _ = self._process.communicate(timeout=patience_s)
            failures: list[str] = json.loads(output)
        except subprocess.TimeoutExpired:
            return [f"{self.device} was not written back within {patience_s:g} s"]
        except ValueError:
            return [f"the process that writes {self.device} back was ended"]
        return failures

    def end(self) -> None:
        """End it, if it can be ended by now."""
        self._process.kill()
        try:
            self._process.communicate(timeout=_KILL_PATIENCE_S)
        except subprocess.TimeoutExpired:
            return  # the kernel waits for the device


def unmount(mount: Mount, flags: int = 0) -> None:
    """Unmount this, and nothing that another program has mounted above it. OSError as is."""
    try:
        if kernel_paths.is_on_top(mount):
            libc_call("umount2", os.fsencode(mount.target), flags)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):  # gone by now
            raise


def main(arguments: list[str]) -> int:
    """Write back; 1 when something could not be."""
    index = int(arguments[1])
    failures: list[str] = []
    for mount in kernel_paths.mounts_of_loop(index):
        place = f"the file system on {shown(mount.target)}"
        if _try(failures, place, partial(_sync, mount)):
            _try(failures, place, partial(unmount, mount), errno.EBUSY)
    device = f"/dev/loop{index}"
    _try(failures, device, partial(_flush, device))
    os.write(1, json.dumps(failures).encode())
    return int(bool(failures))


def _try(failures: list[str], what: str, act: Callable[[], None], allowed: int = 0) -> bool:
    """Whether it went well, or failed as it may."""
    try:
        act()
    except OSError as error:
        if error.errno != allowed:
            failures.append(f"{what} could not be written back: {error.strerror}")
            return False
    return True


def _sync(mount: Mount) -> None:
    """Write back a file system, unless another one hides it: flushing the device does it, too."""
    if not kernel_paths.is_on_top(mount):
        return
    with opened(mount.target) as descriptor:
        libc_call("syncfs", descriptor)


def _flush(device: str) -> None:
    with opened(device) as descriptor:
        fcntl.ioctl(descriptor, _BLKFLSBUF)  # writes file systems on it as well, without errors
        os.fsync(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
