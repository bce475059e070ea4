"""Each state of the page cache, as mincore(2) sees it."""

import ctypes
import fcntl
import mmap
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from schedlab.host import scratch
from schedlab.host.safety import owned
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs
from schedlab.kinds.command import Command
from schedlab.kinds.random_reads import RandomReads
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.nouns import Target
from schedlab.run.command.workplace import WorkPlace
from schedlab.run.io import cache, io
from schedlab.run.io.io import IoSession

SIZE_BYTES = 3 << 20
LOOP_SET_DIRECT_IO = 0x4C08  # include/uapi/linux/loop.h
libc = ctypes.CDLL(None, use_errno=True)
pytestmark = pytest.mark.alone  # the caches of the machine are dropped by every cold run


def cached_share(path):
    """Share of the first 3 MiB of a file or a device that is in the page cache."""
    pages = SIZE_BYTES // mmap.PAGESIZE
    resident = (ctypes.c_ubyte * pages)()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), SIZE_BYTES) as view:
        start = ctypes.c_char.from_buffer(view)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), SIZE_BYTES, resident)
        del start
    assert not failed, os.strerror(ctypes.get_errno())
    return sum(page & 1 for page in resident) / pages


@pytest.fixture
def control(state):
    with Control() as control:
        yield control


@pytest.fixture
def folder(loop, tmp_path):
    """A file system of our own, with a file in a folder."""
    scratch.format_device(loop, "ext4")
    place = tmp_path / f"{owned.PREFIX}cache"
    place.mkdir()
    owned.mount(loop, place, "ext4")
    (place / "deep").mkdir()
    (place / "deep" / "file").write_bytes(os.urandom(SIZE_BYTES))
    os.sync()
    yield place
    owned.remove_mount(str(place))


def test_the_cache_of_a_file_system(control, folder, loop):
    file, mounted = folder / "deep" / "file", (loop, "ext4")
    for state, place, action, share in (
        ("cold", mounted, "remounted", 0),
        ("as-is", mounted, "as-is", 0),
        ("warm", mounted, "warm", 1),
        ("as-is", mounted, "as-is", 1),
        ("cold", None, "emptied of 1 files", 0),
        ("warm", None, "warm", 1),
        ("drop", mounted, "dropped", 0),
    ):
        assert cache.set_cache(state, control, folder, place) == action
        assert cached_share(file) == share, state
    cache.read_files(folder, SIZE_BYTES)
    with file.open("rb"):  # It cannot be unmounted.
        assert cache.set_cache("cold", control, folder, mounted) == "emptied of 1 files"
        assert cached_share(file) == 0


def test_a_file_system_that_is_mounted_elsewhere_too_is_in_use(folder, loop, tmp_path, monkeypatch):
    other = tmp_path / f"{owned.PREFIX}other"
    other.mkdir()
    owned.mount(loop, other, "ext4")
    monkeypatch.setattr(cache, "UNMOUNTED_S", 0.1)
    try:
        with pytest.raises(OSError, match="busy"):
            cache.unmount(folder, str(loop))
    finally:
        owned.remove_mount(str(other))


def test_what_is_dirty_is_written_back_and_dropped_too(control, folder):
    """The kernel drops clean pages only: the last run's writes would stay in the cache."""
    one, other = folder / "one", folder / "other"
    one.write_bytes(os.urandom(SIZE_BYTES))
    assert cached_share(one) == 1
    control.drop_caches()
    assert cached_share(one) == 0
    other.write_bytes(os.urandom(SIZE_BYTES))
    assert cache.evict(folder) == 3
    assert cached_share(other) == 0


def test_half_of_the_memory_of_the_machine_is_filled_at_most():
    total = re.search(r"^MemTotal: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert cache._memory_bytes() == int(total[1]) << 10


def test_the_cache_of_a_device(control, loop):
    with Path(loop).open("rb"):  # When its last user closes it, a device loses its pages.
        for state, action, share in (
            ("warm", "warm", 1),
            ("as-is", "as-is", 1),
            ("cold", "emptied", 0),
            ("as-is", "as-is", 0),
            ("warm", "warm", 1),
            ("drop", "dropped", 0),
        ):
            assert cache.set_device_cache(state, control, Path(loop)) == action
            assert cached_share(Path(loop)) == share, state


def test_a_scratch_device_reports_heads_as_asked_or_as_the_disks_below_do(loop, monkeypatch):
    monkeypatch.setattr(io.devices, "disks_below", lambda directory: (Path(loop).name,))
    for value in ("0", "1"):
        knobs.write_value(knobs.queue_of(loop) / "rotational", value)
        assert io.says_rotational(Target("scratch", rotational="as-is"), "/") is (value == "1")
        assert io.says_rotational(Target("scratch", rotational=value), "/") is (value == "1")
        assert not io.says_rotational(Target("scratch"), "/")


def test_the_file_below_a_loop_device_is_a_cache_unless_it_is_read_directly(loop):
    """O_DIRECT above it does not help: the file below would answer from memory."""
    name, kind = Path(loop).name, RandomReads()
    target = ResolvedTarget(Path(loop), 16 << 20, name, 512, True, Path(loop), 16 << 20)
    session = SimpleNamespace(target=target, emulated=None)
    for direct in (1, 0):
        with Path(loop).open("rb") as device:
            fcntl.ioctl(device, LOOP_SET_DIRECT_IO, direct)
        assert Path(f"/sys/block/{name}/loop/dio").read_text() == f"{direct}\n"
        assert IoSession._has_cache(session, kind) is not bool(direct)
    session.target = replace(target, directory=Path("/"))
    assert IoSession._has_cache(session, kind)


def test_only_files_below_the_directory_are_read(folder, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(os.urandom(SIZE_BYTES))
    (folder / "link").symlink_to(outside)
    (folder / "other").mkdir()
    owned.mount("tmpfs", folder / "other", "tmpfs")
    try:
        (folder / "other" / "file").write_bytes(b"x")
        assert cache.evict(folder) == 1
    finally:
        os.system(f"umount {folder}/other")
    # More than the limit is not read, but for the chunk in which it ends and its readahead.
    cache.read_files(folder, 1 << 20)
    assert 1 / 3 <= cached_share(folder / "deep" / "file") < 1


def test_a_program_on_the_target_is_cold_and_another_is_not(control, folder, tmp_path, loop):
    for where, share in ((folder, 0), (tmp_path, 1)):
        program = where / "program"
        program.write_bytes(Path("/bin/true").read_bytes() + os.urandom(SIZE_BYTES))
        program.chmod(0o755)
        cache.evict(where)
        target = ResolvedTarget(
            path=folder, size_bytes=SIZE_BYTES, device=None, logical_block_bytes=512,
            counts_alone=False, raw_path=Path(loop), raw_size_bytes=SIZE_BYTES, directory=folder,
        )  # fmt: skip
        place = WorkPlace(control, Target("directory", str(folder)), target)
        place.set_cache(Command(argv=(str(program),), cache="cold"))
        assert cached_share(program) == share
