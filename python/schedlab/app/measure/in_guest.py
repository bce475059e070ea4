"""Inside a virtual machine: the job that its boot brought, then the end of the machine.

`python -m schedlab.app.measure.in_guest` is the first process. It measures /job/experiment.toml,
prints messages as lines of JSON on the console, and leaves the folder in the second memory region.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, SchedlabError, SpecError
from schedlab.guest.machine import MARK
from schedlab.package import offered
from schedlab.store.files import DATA_FILTER

JOB, RESULT = Path("/job"), Path("/result")
_POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF, include/uapi/linux/reboot.h
_STOP_PORT = 0x505  # docs/specs/pvpanic of qemu
_BLKFLSBUF = 0x1261  # include/uapi/linux/fs.h
_RNDADDENTROPY, _RNDRESEEDCRNG = 0x40085203, 0x5207  # include/uapi/linux/random.h
_PHASE_S = 0.1  # Several ticks of the slowest clock.
# The kernel's thread that gathers small pages into huge ones gives up the CPU after milliseconds
# only: meanwhile the server of an emulated device, on the same CPU, was late. Page faults still get
# huge pages.
_GATHERER = Path("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs")
_NEVER_MS = 2**32 - 1
_MOUNTS = (
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/run"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("tracefs", "/sys/kernel/tracing"),
    ("debugfs", "/sys/kernel/debug"),
    ("bpf", "/sys/fs/bpf"),
)


def main() -> None:
    """Do the job; the machine is off when this returns."""
    try:
        with _errors_told():
            _keep_busy()
            _mount()
            _load_modules()
            _await_job()
            _bring_files()
            _do(json.loads((JOB / "job.json").read_text(encoding="utf-8"))["do"])
            _leave_result()
        tell(ended=True)
    finally:
        os.sync()
        ctypes.CDLL(None).reboot(_POWER_OFF)


def _keep_busy() -> None:
    """Start a task of SCHED_IDLE that spins: a CPU that sleeps is not repeatable, and one that
    polls is slow (docs/concepts/virtual-time.md). As a child it is no other program to a gate."""
    if os.fork() == 0:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while True:
            pass


def _load_modules() -> None:
    """Before the state of the machine is saved, those that nearly each job needs."""
    import numpy  # noqa: F401

    from schedlab import result  # noqa: F401
    from schedlab.app.measure import files, measure  # noqa: F401


def _await_job() -> None:
    """Stop the machine, whose state is saved now; a session begins after that, with the job in the
    region, and its seed: of random numbers, and of the time that has passed."""
    tell(ready=True)
    with Path("/dev/port").open("r+b", buffering=0) as ports:
        ports.seek(_STOP_PORT)
        ports.write(b"\1")
    tell(up=True)
    with _region().open("rb", buffering=0) as region:
        fcntl.ioctl(region, _BLKFLSBUF)  # what the kernel read of it before
        with tarfile.open(fileobj=region, mode="r|") as archive:
            archive.extractall(JOB, **DATA_FILTER)
    seed = json.loads((JOB / "job.json").read_text(encoding="utf-8"))["seed"]
    digest = hashlib.sha256(str(seed).encode()).digest()
    with Path("/dev/urandom").open("wb", buffering=0) as pool:
        fcntl.ioctl(pool, _RNDADDENTROPY, struct.pack("ii32s", 256, 32, digest))
        fcntl.ioctl(pool, _RNDRESEEDCRNG)
    time.sleep(int.from_bytes(digest[:4], "little") / 2**32 * _PHASE_S)


def tell(**message: Any) -> None:
    """Print a message for the host."""
    os.write(1, f"\n{MARK}{json.dumps(message)}\n".encode())


@contextlib.contextmanager
def _errors_told() -> Iterator[None]:
    """Errors become messages."""
    try:
        yield
    except SchedlabError as error:
        fields = {"message": str(error), "hint": error.hint, "code": error.exit_code}
        tell(error=fields)
    except BaseException as error:
        traceback.print_exc()
        lines = [line.strip() for line in traceback.format_exception(error)][-2:]
        tell(error={"message": f"in the machine: {' '.join(lines)}", "hint": "", "code": 2})


def _mount() -> None:
    for kind, path in _MOUNTS:
        Path(path).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", kind, kind, path], check=False, stderr=sys.stderr)
    (Path("/sys/fs/cgroup") / "cgroup.subtree_control").write_text("+cpu +io +memory +cpuset")
    if _GATHERER.exists():
        _GATHERER.write_text(str(_NEVER_MS))


def _bring_files() -> None:
    """The files that the experiment names, at the paths that they have on the host; libraries may
    be there."""
    files = JOB / "files"
    for path in sorted(files.rglob("*")) if files.is_dir() else ():
        target = Path("/") / path.relative_to(files)
        if path.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o755)


def _do(what: str) -> None:
    if what == "measure":
        _measure()
    elif what == "rates":
        offered("backends", "rates", "a prediction")(JOB, tell)
    elif what == "shell":
        subprocess.run(["setsid", "-c", "sh", "-l"], check=False, cwd="/root")
    else:
        command = [sys.executable, "-m", "schedlab", *what.split()]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/root")
        for line in (done.stdout + done.stderr).splitlines():
            tell(report=line)


def _measure() -> None:
    from dataclasses import asdict

    from schedlab.app.measure import measure
    from schedlab.app.measure.files import read_experiment
    from schedlab.run.admitted import Permission
    from schedlab.run.executor import Progress
    from schedlab.store.folder import Folder

    def watch(now: Progress) -> None:
        tell(progress={**asdict(now), "last": None, "text": now.text, "repeated": now.repeated})

    observer = measure.Observer(watch, lambda text: tell(report=text))
    experiment = read_experiment(JOB / "experiment.toml")
    try:
        measure.run(experiment, RESULT, permission=Permission(), observer=observer)
    except SpecError:
        # Of the analysis, as after a workload whose runs were all discarded: the host says it
        # again, and the other runs are not lost with the machine.
        if not (RESULT.is_dir() and Folder.open(RESULT).runs()):
            raise


def _leave_result() -> None:
    """The folder as an archive in the region; HostError where it does not fit."""
    if not RESULT.is_dir():
        return
    try:
        with _region().open("wb") as region, tarfile.open(fileobj=region, mode="w|") as archive:
            archive.add(RESULT, RESULT.name)
        os.sync()
    except OSError as error:
        raise HostError(
            f"the result does not fit into the machine's region: {error.strerror}",
            "measure fewer blocks or workloads at a time",
        ) from error


def _region() -> Path:
    """The memory that the host reads at the end: the one that is not the root."""
    entries = Path("/sys/block").glob("pmem*")
    names = [each.name for each in entries if (each / "ro").read_text().strip() == "0"]
    return Path("/dev") / names[0]


if __name__ == "__main__":
    main()
