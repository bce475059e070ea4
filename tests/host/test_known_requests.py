"""Captures and recordings of requests whose fate is known: held, merged, returned, lost."""

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import signal
import struct
import threading
import time
from pathlib import Path

import pytest
from aio import requests_to
from block_capture import BlockCapture, BlockClass, unavailable
from device_states import partition_mounted
from loops import attached
from test_block_capture import captured, choose, group, queue
from test_emulated import fixed
from test_io_engine import flushes
from test_records import decoded

from schedlab import _core
from schedlab.host.emulated.emulated import Emulation
from schedlab.host.safety.control import Control

KIB, MIB = 1 << 10, 1 << 20
BLKDISCARD = 0x1277  # include/uapi/linux/fs.h
TAGS = 4  # of the slow device: so many requests leave the scheduler


@contextlib.contextmanager
def recorded(device, path):
    """A recording of the device into a file; its result is in the list that this gives."""
    options = {"device": device, "path": str(path), "facts": {"device": "loop"}}
    recording, results = _core.RecordCapture(json.dumps(options)), []
    try:
        yield results
    finally:
        results.append(json.loads(recording.finish()))


def traced(path):
    """A loop device that completes requests where its driver ended them: idle tasks trace none."""
    if reason := unavailable(path):
        pytest.skip(reason)
    queue(path, "rq_affinity").write_text("0")
    return path


@pytest.fixture
def device(loop):
    return traced(loop)


@pytest.fixture
def emulated(root_with_loop, needs_fuse, state, tmp_path):
    """A device that takes 20 ms for each request, one after the other, under mq-deadline."""
    with Control() as control:
        device = control.emulated(Emulation(fixed(tmp_path, "20ms")))
        choose(traced(device.path), "mq-deadline")
        queue(device.path, "iosched/read_expire").write_text("600000")  # by place, not by age
        yield device


@pytest.fixture
def slow(emulated):
    return emulated.path


@contextlib.contextmanager
def held(device):
    """While its server is stopped, the device completes nothing."""
    os.kill(device.server.process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(device.server.process_id, signal.SIGCONT)


def fill(requests):
    """Take all tags, and let one wait for a tag: what comes next waits in the scheduler."""
    requests.read(range(0, (TAGS + 1) * 16 * KIB, 16 * KIB))


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_a_request_that_the_driver_returns_is_one_request(root_with_loop, tmp_path, scheduler):
    """A file that ends in the middle of a request: the loop driver gives back what is missing."""
    backing = tmp_path / "disk.img"
    backing.write_bytes(bytes(MIB))
    with attached(backing) as device:
        choose(traced(device), scheduler)
        os.truncate(backing, 40 * KIB)
        trace = tmp_path / "trace"
        with (
            BlockCapture(device) as capture,
            recorded(device, trace) as results,
            requests_to(device) as requests,
        ):
            requests.read((0, 16 * KIB, 32 * KIB), 16 * KIB)
            assert [moved > 0 for moved in requests.wait()] == [True, True, False]
        seen = capture.result
    assert seen
    counts = {name: count for name, count in seen.totals.items() if count}
    inserted = {} if scheduler == "none" else {"inserted": 1}
    assert counts == {
        "issued": 1, "completed": 1, "bio_merges": 2, "requeues": 1, "in_parts": 1, "errors": 1,
    } | inserted  # fmt: skip
    assert not any(seen.lost.values())
    (read,) = seen.groups
    assert (read.requests, read.bytes, read.operation) == (1, 48 * KIB, "read")
    assert (seen.driver_depth.max, seen.scheduler_depth.max <= 1) == (1, True)
    (result,) = results
    assert (result["records"], result["missed"], result["unfinished"]) == (3, 0, 0)
    rows = sorted(decoded(trace), key=lambda row: row[24:32])
    issued, ended, failed = (
        [int.from_bytes(row[at : at + size], "little") for row in rows]
        for at, size in ((8, 8), (16, 8), (68, 4))
    )
    assert issued[0] == issued[1] == issued[2] < ended[0] == ended[1] < ended[2]
    assert [bool(error) for error in failed] == [False, False, True]


def test_what_waits_is_merged_and_overtaken_as_the_scheduler_decides(emulated, slow):
    """Six requests behind a full device: one joins two others, three go before older ones."""
    beyond = 32 * MIB
    with BlockCapture(slow) as capture, requests_to(slow) as requests:
        with held(emulated):
            fill(requests)
            for place in (4 * MIB, 4 * MIB + 8 * KIB, 4 * MIB + 4 * KIB, 2 * MIB, 3 * MIB, MIB):
                requests.read([beyond + place])
        assert requests.wait() == [4096] * (TAGS + 7)
        deadline = time.monotonic() + 20
        while capture.snapshot().scheduler_depth.series[-1][1]:
            assert time.monotonic() < deadline, "somebody is left in the scheduler"
            time.sleep(0.1)
    seen = capture.result
    assert seen
    counts = {name: count for name, count in seen.totals.items() if count}
    distance = counts.pop("seek_sectors")
    assert counts == {
        "issued": TAGS + 5, "completed": TAGS + 5, "inserted": TAGS + 6, "bio_merges": 1,
        "request_merges": 1, "out_of_order": 3, "seeks": TAGS + 4,
    }  # fmt: skip
    assert distance * 512 == beyond + 4 * MIB - (TAGS + 4) * 4 * KIB
    assert not any(seen.lost.values())
    assert seen.driver_depth.max == TAGS and seen.scheduler_depth.max >= 5


def test_what_began_before_is_counted_and_not_guessed(emulated, slow, tmp_path):
    """Requests that wait in the scheduler when a capture begins are not its own."""
    trace = tmp_path / "trace"
    with requests_to(slow) as requests, contextlib.ExitStack() as captures:
        with held(emulated):
            fill(requests)
            requests.read(range(2 * MIB, 12 * MIB, MIB))
            capture = captures.enter_context(BlockCapture(slow))
            results = captures.enter_context(recorded(slow, trace))
        requests.read([63 * MIB])
        assert requests.wait() == [4096] * (TAGS + 12)
        captures.close()
        (result,) = results
        seen = capture.result
        assert seen
        assert (seen.totals["issued"], seen.totals["completed"]) == (1, 1)
        assert seen.totals["begun_before"] == 11
        assert not any(seen.lost.values())
        assert (result["records"], result["missed"]) == (1, TAGS + 11)
        with recorded(slow, tmp_path / "next") as results:
            requests.read([0, 16 * KIB, 32 * KIB])
        requests.wait()
    (result,) = results
    assert (result["records"], result["missed"], result["unfinished"]) == (0, 0, 3)


def test_a_flush_is_told_from_what_it_waits_for(device):
    page, before = mmap.mmap(-1, 4096), flushes(device)
    with BlockCapture(device) as capture:
        file = os.open(device, os.O_RDWR | os.O_DIRECT)
        for at in range(10):
            os.pwritev(file, [page], at * 4096)
            os.fsync(file)
            os.pwritev(file, [page], at * 4096, os.RWF_DSYNC)
        os.close(file)
    assert capture.result
    writes, others = sorted(capture.result.groups, key=lambda group: group.operation == "other")
    assert (writes.requests, writes.bytes) == (20, 80 * KIB)
    assert 20 <= others.requests == flushes(device) - before
    assert capture.result.totals["issued"] == 20 + others.requests
    assert not any(capture.result.lost.values())


def test_a_discard_that_fails_is_no_error_of_a_load(root_with_loop):
    """A sealed file: nothing can be written to it, and no hole made in it."""
    backing = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    os.truncate(backing, MIB)
    path = Path(f"/proc/{os.getpid()}/fd/{backing}")
    with attached(path, "/memfd:sealed") as device:
        traced(device)
        fcntl.fcntl(backing, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        file = os.open(device, os.O_RDWR | os.O_DIRECT)
        with BlockCapture(device) as capture:
            with pytest.raises(OSError):
                fcntl.ioctl(file, BLKDISCARD, struct.pack("QQ", 0, MIB))
            with pytest.raises(OSError):
                os.pwritev(file, [mmap.mmap(-1, 4096)], 0)
        os.close(file)
    os.close(backing)
    assert capture.result
    totals = capture.result.totals
    assert (totals["issued"], totals["completed"], totals["errors"]) == (2, 2, 1)


def test_the_kernels_own_threads_are_no_class(mounted_loop):
    device, where = mounted_loop
    with BlockCapture(traced(device), find_classes=True) as capture:
        (where / "file").write_bytes(bytes(4 * MIB))
        directory = os.open(where, os.O_RDONLY)
        assert ctypes.CDLL(None).syncfs(directory) == 0
        os.close(directory)
    assert capture.result
    writes = [group for group in capture.result.groups if group.operation == "write"]
    assert sum(group.bytes for group in writes if group.process is None) >= 4 * MIB
    assert {group.process for group in writes} <= {None, os.getpid()}


def read_pages(device, count):
    page = mmap.mmap(-1, 4096)
    file = os.open(device, os.O_RDONLY | os.O_DIRECT)
    for at in range(count):
        os.preadv(file, [page], at * 4096)
    os.close(file)


def test_a_thread_is_a_class_of_its_own(device):
    may_read = threading.Event()
    thread = threading.Thread(target=lambda: (may_read.wait(), read_pages(device, 5)))
    thread.start()
    assert thread.native_id
    with BlockCapture(device, [BlockClass("thread")]) as capture:
        capture.add("thread", thread.native_id)
        may_read.set()
        thread.join()
        read_pages(device, 3)
    assert capture.result
    counts = {group.name: group.requests for group in capture.result.groups}
    assert counts == {"thread": 5, "other": 3}


def test_programs_beyond_the_classes_are_counted_by_their_name(device):
    """The last classes are for other names: a guard on a name sees all of its processes."""
    mine, programs = Path("/proc/self/comm").read_text(), []
    names = [mine] * 20 + [f"name {number}" for number in range(5)] + ["name 1"]
    with BlockCapture(device, find_classes=True) as capture:
        for name in names:
            child = os.fork()
            if child == 0:
                try:
                    Path("/proc/self/comm").write_text(name)
                    thread = threading.Thread(target=read_pages, args=(device, 2))
                    thread.start()
                    Path(f"/proc/self/task/{thread.native_id}/comm").write_text("of a thread")
                    thread.join()
                finally:
                    os._exit(0)
            programs.append(child)
            os.waitpid(child, 0)
    assert capture.result
    requests = {group.process: group.requests for group in capture.result.groups}
    expected: dict[int | None, int] = dict.fromkeys(programs[:11], 2)
    expected[programs[0]] += 2 * 9
    expected |= dict.fromkeys(programs[20:24], 2) | {None: 2}
    expected[programs[21]] += 2
    assert requests == expected
    assert capture.result.lost["classes"] == 2
    found = {group.name for group in capture.result.groups}
    assert not any(name.startswith("of a thread") for name in found)


def test_a_weight_of_bfq_is_that_of_one_queue(device):
    """Two readers, each on a CPU: what bfq says of one is not added to the other's."""
    choose(device, "bfq")
    queue(device, "iosched/low_latency").write_text("0")
    seen, _ = captured(device, 0.5, group(device, workers=4))
    assert seen.bfq
    rows = seen.bfq["reader"]
    level = (os.nice(0) + 20) // 5  # of best effort, where none was set
    assert {row.weight for row in rows} == {(8 - level) * 10}  # IOPRIO_WEIGHT
    assert {row.weight_raising for row in rows} == {1}


def test_a_partition_is_captured_as_its_disk(device, tmp_path):
    with partition_mounted(device, tmp_path), BlockCapture(f"{device}p1") as capture:
        read_pages(device, 3)
    assert capture.result
    assert capture.result.device == Path(device).name
    reads = [group for group in capture.result.groups if group.operation == "read"]
    assert sum(group.requests for group in reads) >= 3
