"""Extraction of a tar archive from a cold cache: real, user and system time, CPU share.

Parameters: `archive` (a path; without it an own one like a source tree is made from `size_bytes`
and `decompressor`), `decompressor` (`none`, `gzip`, `xz`, `zstd`). The archive is copied to the
place first, so that it is read from the measured device.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from schedlab.errors import HostError, SpecError
from schedlab.run import source_tree
from schedlab.run.outcome import Outcome
from schedlab.run.place import Place
from schedlab.spec import GateFinding, Workload


def writes(workload: Workload) -> bool:
    """Files are written, inside an own directory."""
    return True


def seconds(workload: Workload) -> float:
    """A rough estimate: unpacking and syncing at 100 MB/s."""
    return max(float(workload.parameters.get("size_bytes", 64 << 20)) / 1e8, 0.5)


def prepare(place: Place, workload: Workload) -> None:
    """Put the archive onto the place, once."""
    if place.directory is None:
        raise SpecError(f"{workload.label}: needs a file system", "use --scratch or --directory")
    given = workload.parameters.get("archive")
    target = _archive(place, workload)
    if target.exists():
        return
    if given:
        try:
            shutil.copyfile(str(given), target)
        except OSError as error:
            raise SpecError(f"{given}: {error.strerror}", "name a readable tar archive") from error
    else:
        size_bytes = int(workload.parameters.get("size_bytes", 64 << 20))
        packed = str(workload.parameters.get("decompressor", "none"))
        source_tree.write_archive(target, size_bytes, packed, seed=1)
    os.sync()


def measure(place: Place, workload: Workload, seed: int) -> Outcome:
    """One extraction, until everything is on the device; the files are removed afterwards."""
    assert place.directory is not None
    real_s, user_s, system_s, status, message = extraction(
        _archive(place, workload), place.directory
    )
    cpu_s = user_s + system_s
    gates = (GateFinding("command-failed", message or f"tar exited {status}"),) if status else ()
    return Outcome(
        metrics={"elapsed_s": real_s, "user_s": user_s, "system_s": system_s, "cpu_s": cpu_s},
        properties={"cpu_share": cpu_s / real_s, "command": "tar --extract"},
        gates=gates,
    )


def extraction(archive: Path, directory: Path) -> tuple[float, float, float, int, str]:
    """One extraction into a new subdirectory, which is removed; figures as `timed`."""
    into = directory / "extracted"
    into.mkdir()
    command = ["tar", "--extract", "--file", str(archive), "--directory", str(into)]
    try:
        return timed(command, into)
    finally:
        shutil.rmtree(into)


def timed(command: list[str], written: Path) -> tuple[float, float, float, int, str]:
    """(real s, user s, system s, exit status, stderr) of a command and of syncing what it wrote."""
    began = time.monotonic()
    try:
        child = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise HostError(f"{command[0]} is not installed", f"apt install {command[0]}") from error
    assert child.stderr is not None
    message = child.stderr.read().decode(errors="replace").strip()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    handle = os.open(written, os.O_RDONLY)
    try:
        _sync_filesystem(handle)
    finally:
        os.close(handle)
    real_s = time.monotonic() - began
    return real_s, usage.ru_utime, usage.ru_stime, child.returncode, message


def _sync_filesystem(handle: int) -> None:
    """syncfs(2): Python has no wrapper; other file systems are not waited for."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).syncfs(handle):
        error = ctypes.get_errno()
        raise HostError(f"syncfs: {os.strerror(error)}")


def _archive(place: Place, workload: Workload) -> Path:
    """Where the workload's archive lies on the place."""
    assert place.directory is not None
    given = workload.parameters.get("archive")
    packed = str(workload.parameters.get("decompressor", "none"))
    return place.directory / (Path(str(given)).name if given else f"tree.tar.{packed}")
