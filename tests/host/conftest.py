"""Fixtures of the host tests: a state directory and a loop device of their own."""

import itertools
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from cgroups import remove_group
from loops import loop_device

from schedlab.errors import HostError
from schedlab.host.emulated import emulated
from schedlab.host.safety import journalled, owned
from schedlab.run import gates


@pytest.fixture(scope="session")
def root_with_loop():
    """Skip, with the reason, where settings of a loop device cannot be changed."""
    if os.geteuid() != 0:
        pytest.skip("needs root: loop devices and schedulers are the kernel's")
    if not owned.LOOP_CONTROL.exists():
        pytest.skip("needs the loop driver (/dev/loop-control)")


@pytest.fixture
def needs_fuse():
    """Skip, with the reason, where no device can be emulated."""
    try:
        emulated.require_fuse()
    except HostError as error:
        pytest.skip(str(error))


@pytest.fixture
def no_neighbours(monkeypatch):
    """The gates against other programs are off: tests share their machine."""
    monkeypatch.setattr(gates, "neighbour_findings", lambda before, after: ())
    monkeypatch.setattr(gates, "frequency_findings", lambda *readings: ())
    monkeypatch.setattr(gates, "settle", lambda devices, settle_s=0.0: None)


@pytest.fixture
def ordinary_knobs(monkeypatch):
    """Ordinary files called `knob` or `knob-N` count as settings."""
    is_knob = journalled.is_knob

    def or_ordinary(path):
        return is_knob(path) or Path(path).name.split("-")[0] == "knob"

    monkeypatch.setattr(journalled, "is_knob", or_ordinary)


@pytest.fixture
def new_loop(root_with_loop, tmp_path):
    """Make loop devices that belong to the test; all are removed after it."""
    numbers = itertools.count()
    with ExitStack() as made:

        def make(size_bytes=16 << 20):
            backing = tmp_path / f"disk-{next(numbers)}.img"
            try:
                return made.enter_context(loop_device(backing, size_bytes))
            except HostError as error:
                pytest.skip(f"needs loop devices: {error}")

        yield make


@pytest.fixture
def mounted_loop(new_loop, tmp_path):
    """A loop device of 64 MiB with ext4, and the directory that it is mounted on."""
    device, where = new_loop(64 << 20), tmp_path / "mounted"
    where.mkdir()
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    subprocess.run(["mount", device, where], check=True)
    yield device, where
    subprocess.run(["umount", where], check=True)


@pytest.fixture
def loop(new_loop):
    """One loop device of the test's own, 16 MiB."""
    return new_loop()


@pytest.fixture
def cgroup():
    """A cgroup of the test's own, where limits of I/O are if they are anywhere."""
    name = f"schedlab-test-{os.getpid()}"
    for root in ("/sys/fs/cgroup/blkio", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        place = Path(root) / name
        if not (Path(root) / "cgroup.procs").exists():
            continue
        try:
            place.mkdir()
        except OSError as error:
            pytest.skip(f"needs a cgroup: {error}")
        yield place
        remove_group(place)
        return
    pytest.skip("needs cgroups")
