"""Waiting until the queues under a target have fallen silent, so that no run pays for another's
dirty pages."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from schedlab.errors import GateError, HostError
from schedlab.host.safety.owned import libc_call
from schedlab.run.gates import device_bytes

QUIET_S = 0.3
POLL_S = 0.02


def flush(target: Path) -> None:
    """Write back the dirty pages of a directory's file system, without waiting for others, or of a
    block device."""
    call = "fsync" if target.is_block_device() else "syncfs"
    handle = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc_call(call, handle)
    except OSError as error:
        raise HostError(f"{call} {target}: {error.strerror}", "see `dmesg`") from error
    finally:
        os.close(handle)


def drain(target: Path, queues: Sequence[str], patience_s: float) -> float:
    """Flush `target`, then wait until nothing is in flight and no sector moved for 300 ms.

    Seconds it took.
    GateError `not-quiet` when a queue does not become idle.
    """
    began = time.monotonic()
    flush(target)
    quiet_since, before = time.monotonic(), [device_bytes(queue) for queue in queues]
    while time.monotonic() - quiet_since < QUIET_S:
        if time.monotonic() - began > patience_s:
            raise GateError(
                "not-quiet",
                f"{', '.join(queues)}: still busy after {patience_s:g} s (--settle)",
                "another program writes there: see `iotop`, or wait longer: --settle 60s",
            )
        time.sleep(POLL_S)
        now = [device_bytes(queue) for queue in queues]
        if now != before or _in_flight(queues):
            quiet_since, before = time.monotonic(), now
    return time.monotonic() - began


def _in_flight(queues: Sequence[str]) -> int:
    counts = (Path(f"/sys/block/{queue}/inflight").read_text().split() for queue in queues)
    return sum(int(count) for each in counts for count in each)
