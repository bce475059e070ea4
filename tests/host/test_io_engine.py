"""The block-I/O engine on real devices: truth of its byte counts, errors, stalls, Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedlab import _core
from schedlab.errors import HostError, SpecError
from schedlab.host import owned

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
SECTOR_BYTES = 512
SPAN = 8 << 20


def group(path: str, engine: str = "psync", depth: int = 1, **keys: Any) -> dict[str, Any]:
    workload = {
        "pattern": keys.pop("pattern", {"kind": "random"}),
        "direction": {"kind": keys.pop("direction", "read")},
        "record": keys.pop("record", 4096),
        "span": keys.pop("span", SPAN),
        "arrivals": keys.pop("arrivals", {"kind": "closed", "depth": depth}),
        "seed": 11,
    }
    return {"name": "g", "path": path, "engine": engine, "workload": workload, **keys}


def run(group: dict[str, Any], seconds: float | None = None, **job: Any) -> dict[str, Any]:
    text = json.dumps({"seconds": seconds, "groups": [group], **job})
    result: dict[str, Any] = json.loads(_core.run_io_job(text))
    return result


def io_uring() -> None:
    try:
        _core.io_nop_calibration(1, 1)
    except HostError as refused:
        pytest.skip(str(refused))


def sectors(device: str) -> tuple[int, int]:
    """Bytes that the kernel says were read from and written to the device."""
    fields = Path(f"/sys/block/{Path(device).name}/stat").read_text().split()
    return int(fields[2]) * SECTOR_BYTES, int(fields[6]) * SECTOR_BYTES


@pytest.mark.parametrize("engine,depth", [("psync", 1), ("io_uring", 16)])
def test_claimed_bytes_are_the_kernels(loop: str, engine: str, depth: int) -> None:
    if engine == "io_uring":
        io_uring()
    for direction, index in (("write", 1), ("read", 0)):
        before = sectors(loop)
        load = group(loop, engine, depth, direction=direction, direct=True)
        result = run(load, 0.3, ramp_seconds=0.1)["groups"][0]
        claimed = result["device_bytes_read"], result["device_bytes_written"]
        after = sectors(loop)
        assert claimed[index] > result[f"{direction}s"]["bytes"] > 0
        assert tuple(b - a for a, b in zip(before, after, strict=True)) == claimed


def test_a_batch_is_awaited_as_a_whole(loop: str) -> None:
    """What was reaped must not be taken for what is waited for: one enter a batch of four."""
    io_uring()
    result = run(group(loop, "io_uring", 8, batch=4, direct=True))["groups"][0]
    operations = result["reads"]["operations"]
    assert operations == SPAN // 4096
    assert result["ring"]["enters"] <= operations / 4 + 8


def test_cpu_time_and_worker_lines_add_up(loop: str) -> None:
    result = run(group(loop, workers=3, direct=True), 0.3)["groups"][0]
    assert (
        sum(worker["operations"] for worker in result["workers"]) == (result["reads"]["operations"])
    )
    assert sum(w["cpu_system_ns"] for w in result["workers"]) == result["cpu_system_ns"]
    bins = result["reads"]["latency"]["bins"]
    assert sum(count for _, _, count in bins) == result["reads"]["latency"]["count"]


def test_o_direct_alignment_names_record_size_and_block_size(loop: str) -> None:
    with pytest.raises(SpecError, match=r"record size of 700 B.*logical block size of 512 B") as e:
        run(group(loop, direct=True, record=700))
    assert "multiple of 512" in e.value.hint


def test_a_device_without_poll_queues_refuses_iopoll(loop: str) -> None:
    io_uring()
    with pytest.raises(HostError, match="io_poll"):
        run(group(loop, "io_uring", direct=True, iopoll=True), 0.1)


@pytest.fixture
def thin_loop(root_with_loop: None, small_disk: Path) -> Iterator[str]:
    """A loop device of 16 MiB; its backing disk has room for less."""
    backing = small_disk / "thin.img"
    backing.touch()
    os.truncate(backing, 16 << 20)
    index = next(i for i in range(64, 4096) if owned.add_loop(i))
    try:
        owned.attach_loop(index, backing)
        yield f"/dev/loop{index}"
    finally:
        owned.remove_loop(index, str(backing))


@pytest.mark.parametrize("small_disk", ["1m"], indirect=True)
@pytest.mark.parametrize("engine,depth", [("psync", 1), ("io_uring", 8)])
def test_errors_of_the_device_are_counted_and_end_the_load(
    thin_loop: str, engine: str, depth: int
) -> None:
    if engine == "io_uring":
        io_uring()
    load = group(thin_loop, engine, depth, direction="write", direct=True, span=16 << 20)
    result = run(load, 30)["groups"][0]
    assert result["workers"][0]["stopped_by"] in ("errors", "no_space")
    assert result["writes"]["errors"] >= 1
    assert set(result["error_counts"]) <= {"EIO", "ENOSPC"}
    assert result["first_error"]["path"] == thin_loop
    assert result["elapsed_ns"] < 20e9


CHILD = """
import sys
from schedlab import _core
print(_core.run_io_job(sys.argv[1], lambda: print("running", flush=True)), flush=True)
"""


@pytest.mark.parametrize("engine,depth", [("psync", 1), ("io_uring", 32), ("mmap", 1)])
def test_ctrl_c_ends_a_job_at_once(loop: str, engine: str, depth: int) -> None:
    if engine == "io_uring":
        io_uring()
    load = group(loop, engine, depth, direct=engine != "mmap")
    job = json.dumps({"seconds": 60, "groups": [load]})
    child = subprocess.Popen([sys.executable, "-c", CHILD, job], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    for _ in range(5):
        assert child.stdout.readline() == "running\n"
    child.send_signal(signal.SIGINT)
    begun = time.monotonic()
    output, _ = child.communicate(timeout=30)
    assert time.monotonic() - begun < 1.0
    result = json.loads(output.splitlines()[-1])
    assert result["interrupted"]
    assert result["abandoned_workers"] == 0


class Freezable:
    """A loop device on a file of a file system that can be frozen: writes stall until it thaws."""

    def __init__(self, device: str, mount: Path) -> None:
        self.device = device
        self._mount = mount

    def control(self, request: int) -> None:
        directory = os.open(self._mount, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, request, 0)
        finally:
            os.close(directory)


@pytest.fixture
def freezable(new_loop: Callable[[], str], tmp_path: Path) -> Iterator[Freezable]:
    lower, mount = new_loop(), tmp_path / "mount"
    if not shutil.which("mke2fs"):
        pytest.skip("needs mke2fs")
    subprocess.run(["mke2fs", "-q", "-t", "ext4", lower], check=True)
    mount.mkdir()
    subprocess.run(["mount", lower, mount], check=True)
    backing = mount / "disk.img"
    backing.write_bytes(os.urandom(SPAN))
    index = next(i for i in range(64, 4096) if owned.add_loop(i))
    try:
        owned.attach_loop(index, backing)
        yield Freezable(f"/dev/loop{index}", mount)
    finally:
        owned.remove_loop(index, str(backing))
        subprocess.run(["umount", "-l", mount], check=True)


STALL_S = 0.4


def with_stall(freezable: Freezable, load: dict[str, Any]) -> dict[str, Any]:
    """Result of a load of 1 s during which the device stalls once for 0.4 s."""
    timers = [
        threading.Timer(0.3, freezable.control, [FIFREEZE]),
        threading.Timer(0.3 + STALL_S, freezable.control, [FITHAW]),
    ]
    try:
        for timer in timers:
            timer.start()
        return run(load, 1.2)
    finally:
        for timer in timers:
            timer.join()


def share_slower_than(latency: dict[str, Any], limit_ns: float) -> float:
    slow = sum(count for low, _, count in latency["bins"] if low > limit_ns)
    return slow / float(latency["count"])


@pytest.mark.parametrize("engine", ["psync", "io_uring"])
def test_an_open_loop_shows_a_stall_that_a_closed_loop_hides(
    freezable: Freezable, engine: str
) -> None:
    if engine == "io_uring":
        io_uring()
    closed = group(freezable.device, engine, direction="write", direct=True)
    hidden = with_stall(freezable, closed)["groups"][0]
    assert hidden["arrivals"] == "closed"
    rate = {"kind": "poisson", "rate_per_s": 400}
    shown = with_stall(freezable, closed | {"workload": closed["workload"] | {"arrivals": rate}})
    latency = shown["groups"][0]["writes"]["latency"]
    assert shown["groups"][0]["arrivals"] == "poisson"
    # A third of the arrivals fell into the stall; half of those waited half of it and longer.
    assert share_slower_than(latency, STALL_S / 2 * 1e9) > 0.05
    assert share_slower_than(hidden["writes"]["latency"], STALL_S / 2 * 1e9) < 0.02


@pytest.mark.parametrize("engine", ["psync", "io_uring"])
def test_ctrl_c_does_not_wait_for_a_stalled_device(freezable: Freezable, engine: str) -> None:
    if engine == "io_uring":
        io_uring()
    load = group(freezable.device, engine, direction="write", direct=True)
    stopping = threading.Event()
    job = json.dumps({"seconds": 60, "groups": [load]})

    def ctrl_c() -> None:
        if stopping.is_set():
            raise KeyboardInterrupt

    freezable.control(FIFREEZE)
    try:
        threading.Timer(0.3, stopping.set).start()
        begun = time.monotonic()
        result = json.loads(_core.run_io_job(job, ctrl_c))
        assert time.monotonic() - begun < 1.3
    finally:
        freezable.control(FITHAW)
    assert result["interrupted"]
    assert result["abandoned_workers"] == 1
    deadline = time.monotonic() + 10
    names = "schedlab-io-0.0"
    while any(names in t.read_text() for t in Path("/proc/self/task").glob("*/comm")):
        assert time.monotonic() < deadline, "the worker left behind ends when its request does"
        time.sleep(0.01)


def test_hdparms_timings_read_what_they_say(loop: str) -> None:
    timings = json.loads(_core.io_timings(loop))
    assert timings["cached"]["elapsed_ns"] >= 2e9
    assert timings["cached"]["bytes"] % (2 << 20) == 0
    assert timings["device"]["bytes"] == 16 << 20  # the whole device is read before 3 s are over
    assert not timings["interrupted"]


def test_the_engine_publishes_its_own_cost() -> None:
    io_uring()
    cost = json.loads(_core.io_nop_calibration(64, 32))
    assert 0 < cost["ns_per_io_min"] <= cost["ns_per_io"] < 1e6
    with pytest.raises(SpecError, match="batch"):
        _core.io_nop_calibration(8, 9)


def test_malformed_jobs_are_refused() -> None:
    for text in ("", "[]", "{}", '{"groups": []}', '{"groups": [{"name": "g"}]}'):
        with pytest.raises(SpecError, match="job"):
            _core.run_io_job(text)


def test_an_exception_of_the_caller_ends_the_job_and_goes_on(loop: str) -> None:
    def broken() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _core.run_io_job(json.dumps({"seconds": 60, "groups": [group(loop)]}), broken)
