"""Each kind of I/O workload against what the kernel counted: bytes, flushes, and CPU time."""

import resource
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from schedlab.host.control import Control
from schedlab.kinds.cached_reads import CachedReads
from schedlab.kinds.calls import MODES, Calls
from schedlab.kinds.database import Database
from schedlab.kinds.device_timings import DeviceTimings
from schedlab.kinds.file_test import TESTS, FileTest
from schedlab.kinds.newcomer import Newcomer
from schedlab.kinds.random_reads import RandomReads
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.kinds.readers_together import ReadersTogether
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.kinds.weights import Weights

MIB = 1 << 20
SPAN_BYTES = 4 * MIB
RECORD_BYTES = 65536
TAGS = 128
# Columns of /sys/block/*/stat (Documentation/block/stat.rst); sectors have 512 bytes.
READ_SECTORS, WRITE_SECTORS, FLUSHES = 2, 6, 15


@pytest.fixture
def target(state, new_loop):
    """A loop device of 64 MiB that nobody else uses, with the consent to write."""
    device = Path(new_loop(64 * MIB))
    with Control() as control:
        path = control.hold(device)
        yield ResolvedTarget(path, 64 * MIB, device.name, 512, True, device, 64 * MIB, tags=TAGS)


def counted(target):
    """What the block layer has counted of the device."""
    return [int(word) for word in Path(f"/sys/block/{target.device}/stat").read_text().split()]


def used_cpu_s():
    """CPU seconds of this process and of those that it has awaited."""
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in every)


def measured(work, target):
    """The outcome of one run, and what others saw: read, written, flushes, seconds, CPU seconds."""
    before, cpu_s, start = counted(target), used_cpu_s(), time.monotonic()
    outcome = work.measure(target, "work", seed=1)
    seconds, cpu_s = time.monotonic() - start, used_cpu_s() - cpu_s
    change = [after - old for old, after in zip(before, counted(target), strict=True)]
    return outcome, SimpleNamespace(
        read=512 * change[READ_SECTORS], written=512 * change[WRITE_SECTORS],
        flushes=change[FLUSHES], seconds=seconds, cpu_s=cpu_s,
    )  # fmt: skip


@pytest.mark.parametrize("test", TESTS)
def test_one_pass_of_a_file_test(target, test):
    work = FileTest(test=test, record_bytes=RECORD_BYTES, span_bytes=SPAN_BYTES, seconds=0)
    outcome, kernel = measured(work, target)
    assert outcome.properties["claimed_bytes"] == [kernel.read, kernel.written]
    assert work.writes() == (kernel.written > 0)
    passes = 2 if test in ("write", "rewrite", "re-read") else 1  # filled up, or done once before
    assert kernel.read + kernel.written == passes * SPAN_BYTES
    assert min(kernel.read, kernel.written) == 0 or test == "mixed"
    metrics = outcome.metrics
    assert 0 < metrics["elapsed_s"] < kernel.seconds
    assert 0 <= metrics["cpu_s"] < kernel.cpu_s + 0.01
    assert metrics["throughput_bytes_per_s"] * metrics["elapsed_s"] == pytest.approx(SPAN_BYTES)
    assert metrics["iops"] * RECORD_BYTES == pytest.approx(metrics["throughput_bytes_per_s"])
    assert "test_done" not in outcome.properties


@pytest.mark.parametrize("direction", ["read", "write"])
@pytest.mark.parametrize("mode", MODES)
def test_calls_of_one_size(target, mode, direction):
    synced = "sync" in mode
    calls = 100 if synced else 800
    work = Calls(block_bytes=RECORD_BYTES, mode=mode, direction=direction, calls=calls)
    outcome, kernel = measured(work, target)
    metrics, size = outcome.metrics, calls * RECORD_BYTES
    assert 0 < metrics["elapsed_s"] < kernel.seconds
    assert metrics["seconds_per_call"] * calls == pytest.approx(metrics["elapsed_s"])
    assert metrics["throughput_bytes_per_s"] * metrics["elapsed_s"] == pytest.approx(size)
    assert 0 <= metrics["cpu_s"] < kernel.cpu_s + 0.01
    if direction == "write" and mode in ("buffered", "mmap"):  # a copy in memory
        assert metrics["cpu_s"] > 0.05 * metrics["elapsed_s"]
    assert metrics["cpu_s"] / metrics["elapsed_s"] == pytest.approx(outcome.properties["cpu_share"])
    moved = kernel.read if direction == "read" else kernel.written
    if "direct" in mode:
        assert moved == size
    elif direction == "write" and synced:
        assert moved >= size
        assert kernel.flushes >= (1 if mode == "buffered+fsync" else calls)


ACTORS = {
    "random reads": (RandomReads(seconds=0.2, readers=2, depth=4), 8),
    "readers together": (ReadersTogether(seconds=0.2, readers=3, depth=2), 6),
    "weights": (Weights(seconds=0.2, ramp_seconds=0.1, readers=2), 2 * TAGS),
    "a priority": (Weights(seconds=0.2, ramp_seconds=0.1, priority="rt-be", depth=3), 6),
    "newcomer": (Newcomer(requests=10, lead_seconds=0.2, limit_seconds=1.0), 2 * TAGS),
    "a reader": (ReaderBesideWriters(seconds=0.3, ramp_seconds=0.1), 2 * TAGS),
}


@pytest.mark.parametrize("name", ACTORS)
def test_processes_beside_each_other(target, name):
    work, depth = ACTORS[name]
    outcome, kernel = measured(work, target)
    assert outcome.properties["claimed_bytes"] == [kernel.read, kernel.written]
    assert work.writes() == (kernel.written > 0)
    assert outcome.properties["load_depth"] == depth
    assert outcome.properties["errors"] == 0
    assert set(outcome.metrics) <= set(work.metrics)
    if "iops" in outcome.metrics:
        rate = outcome.metrics["throughput_bytes_per_s"]
        assert outcome.metrics["iops"] * work.record_bytes == pytest.approx(rate)
        assert 0.1 < rate * work.seconds / kernel.read <= 1.01
        requests = rate * work.seconds / work.record_bytes
        assert 0 < outcome.metrics["cpu_per_request_ns"] * requests < (kernel.cpu_s + 0.01) * 1e9


@pytest.mark.parametrize(("options", "share"), [({}, 8 / 9), ({"priority": "be-idle"}, 1.0)])
def test_the_share_that_is_asked(target, options, share):
    work = Weights(seconds=0.2, ramp_seconds=0.1, **options)
    outcome, _ = measured(work, target)
    facts = outcome.properties
    assert facts["share_asked"] == pytest.approx(share)
    ratio = facts["share_reached"] / share
    assert outcome.metrics["share_fulfilment"] == pytest.approx(min(ratio, 1 / ratio))


@pytest.mark.machine
def test_reads_from_memory_reach_the_device_once(target):
    outcome, kernel = measured(CachedReads(cached_bytes=SPAN_BYTES, seconds=0.2), target)
    ahead = Path(f"/sys/block/{target.device}/queue/read_ahead_kb").read_text()
    assert SPAN_BYTES <= kernel.read <= SPAN_BYTES + 2 * 1024 * int(ahead)
    assert outcome.gates == ()
    assert outcome.metrics["throughput_bytes_per_s"] * 0.2 > 10 * SPAN_BYTES


@pytest.mark.machine
def test_a_commit_is_a_record_and_a_flush(target):
    work = Database(seconds=0.5, ramp_seconds=0.0, clients=2, reads=3)
    outcome, kernel = measured(work, target)
    read, written = outcome.properties["claimed_bytes"]
    assert (read, written) == (kernel.read, kernel.written)
    commits = written / work.log_record_bytes
    assert commits == pytest.approx(kernel.flushes, abs=work.clients)
    assert read / work.page_bytes == pytest.approx(3 * commits, abs=3 * work.clients)
    # The time ends with the last commit, which may wait for long beside other tests.
    assert 0.5 * commits < outcome.metrics["transactions_per_s"] * work.seconds < 1.5 * commits


@pytest.mark.parametrize("timing", ["cached", "buffered"])
def test_timings_of_a_device(target, timing):
    outcome, kernel = measured(DeviceTimings(timing=timing, direct=True, seconds=0.2), target)
    assert outcome.properties["claimed_bytes"] == [kernel.read, 0]
    rate = outcome.metrics["throughput_bytes_per_s"]
    assert rate * outcome.metrics["elapsed_s"] == pytest.approx(kernel.read)
