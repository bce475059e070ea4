"""Each kind of I/O workload against what the kernel, the files and the programs say."""

import gzip
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from schedlab.errors import HostError, SpecError
from schedlab.host import scratch
from schedlab.host.safety import owned
from schedlab.host.safety.control import Control
from schedlab.kinds.archive_extraction import ArchiveExtraction, timed
from schedlab.kinds.cached_reads import CachedReads
from schedlab.kinds.calls import MODES, Calls
from schedlab.kinds.copy_beside_desktop import CopyBesideDesktop
from schedlab.kinds.database import Database
from schedlab.kinds.device_timings import DeviceTimings
from schedlab.kinds.file_access import TESTS, FileTest
from schedlab.kinds.newcomer import Newcomer
from schedlab.kinds.random_reads import RandomReads
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.kinds.readers_together import ReadersTogether
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.kinds.startup import Program, Startup
from schedlab.kinds.weights import PRIORITIES, Weights
from schedlab.run.io import cache

MIB = 1 << 20
SIZE_BYTES, SPAN_BYTES = 64 * MIB, 4 * MIB
RECORD_BYTES = 65536
TAGS = 128
# Columns of /sys/block/*/stat (Documentation/block/stat.rst); sectors have 512 bytes.
READ_SECTORS, WRITE_SECTORS, FLUSHES = 2, 6, 15


@pytest.fixture
def target(state, new_loop):
    """A loop device of 64 MiB that nobody else uses, with the consent to write."""
    device = Path(new_loop(SIZE_BYTES))
    with Control() as control:
        path = control.hold(device)
        yield ResolvedTarget(
            path, SIZE_BYTES, device.name, 512, True, device, SIZE_BYTES, tags=TAGS
        )


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
        assert metrics["cpu_s"] > 0
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


@pytest.mark.parametrize("priority", ["", *PRIORITIES])
def test_the_share_that_is_asked(target, priority):
    """Of 800 to 100, or all of it by every priority that the kernel takes."""
    work = Weights(seconds=0.2, ramp_seconds=0.1, **({"priority": priority} if priority else {}))
    outcome, kernel = measured(work, target)
    facts, share = outcome.properties, 1.0 if priority else 8 / 9
    assert facts["share_asked"] == pytest.approx(share)
    ratio = facts["share_reached"] / share
    assert outcome.metrics["share_fulfilment"] == pytest.approx(min(ratio, 1 / ratio))
    assert facts["errors"] == 0 and kernel.read > 0


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


@pytest.fixture
def files(state, new_loop, tmp_path):
    """Makes the target on a new file system: a file of 16 MiB that was written, and room for more.

    The page cache keeps nothing of it.
    """
    places = []

    def make(size_bytes=SIZE_BYTES):
        device = Path(new_loop(size_bytes))
        scratch.format_device(str(device), "ext4")
        place = tmp_path / f"{owned.PREFIX}figures"
        place.mkdir()
        owned.mount(str(device), place, "ext4")
        places.append(place)
        data = place / "data"
        data.write_bytes(os.urandom(16 * MIB))
        os.sync()
        return ResolvedTarget(
            data, 16 * MIB, device.name, 512, True, device, size_bytes, place, tags=128
        )

    yield make
    for place in places:
        owned.remove_mount(str(place))


def tmpfs(place, size):
    """A file system in memory; the caller unmounts it."""
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(place)]
    if subprocess.run(mounting, check=False).returncode:
        pytest.skip("needs to mount a tmpfs")
    return ResolvedTarget(place, 80 * MIB, None, 512, False, place, 80 * MIB, place)


@pytest.fixture
def small(tmp_path):
    """Makes a target on a file system in memory of a given size."""
    place = tmp_path / "small"
    place.mkdir()
    yield lambda size: tmpfs(place, size)
    subprocess.run(["umount", place], check=False)


def written_mib(target):
    """The MiB of a device that hold something else than zeros."""
    os.sync()
    with target.raw_path.open("rb") as device:
        return {n for n in range(SIZE_BYTES // MIB) if any(device.read(MIB))}


def test_a_newcomer_has_a_third_of_the_device_and_the_writers_the_rest(target):
    work = Newcomer(requests=20, lead_seconds=0.5, limit_seconds=10.0, writer_record_bytes=MIB,
                    writer_depth=4)  # fmt: skip
    outcome, kernel = measured(work, target)
    touched = written_mib(target)
    assert touched and min(touched) >= 21 and max(touched) < 63
    assert outcome.bounds == {}
    assert outcome.properties["load_depth"] == 8
    assert 0 < outcome.metrics["write_bytes_per_s"] * 0.5 <= kernel.written
    assert outcome.metrics["newcomer_latency_ns_p50"] <= outcome.metrics["newcomer_latency_ns_p90"]
    assert outcome.metrics["newcomer_latency_ns_mean"] * 20 < kernel.seconds * 1e9


def test_a_copy_writes_the_last_eighth(target):
    work = CopyBesideDesktop(requests=5, lead_seconds=0.3, limit_seconds=1.0)
    outcome, kernel = measured(work, target)
    touched = written_mib(target)
    assert touched and min(touched) >= 56
    assert kernel.read > 0 < kernel.written
    assert outcome.metrics["copy_bytes_per_s"] > 0
    assert outcome.properties["requests"] == 5
    assert set(outcome.series) == {"newcomer", "source", "copy"}


SERIES = {
    "random reads": RandomReads(seconds=0.3, ramp_seconds=0.3, readers=3, depth=2),
    "readers together": ReadersTogether(seconds=0.3, ramp_seconds=0.3, readers=2, depth=3),
    "reads beside writers": ReaderBesideWriters(seconds=0.4, ramp_seconds=0.3, primed=False),
    "cached": CachedReads(seconds=0.3, cached_bytes=MIB),
}


@pytest.mark.machine
@pytest.mark.parametrize("name", SERIES)
def test_the_series_of_a_run_holds_all_that_was_done(target, name):
    """Ramp and window; only what was in flight at the end comes later."""
    work = SERIES[name]
    outcome, kernel = measured(work, target)
    ramp_s = getattr(work, "ramp_seconds", 0.0)
    assert ramp_s - 0.05 < outcome.properties["measured_from_s"] < ramp_s + 0.3
    for rows in outcome.series.values():
        assert [row[0] for row in rows] == [100 * n for n in range(len(rows))]
        assert len(rows) >= 10 * (ramp_s + 0.3) - 1
    if name == "cached":
        return
    (reads, *_) = outcome.series.values()
    seen = sum(row[2] for row in reads)
    late = 32 * work.record_bytes
    assert seen <= kernel.read <= seen + late
    assert sum(row[1] for row in reads) * work.record_bytes == seen
    # The histogram is that of the window.
    requests = sum(row[2] for row in outcome.histograms["latency_ns"])
    assert 0 < requests * work.record_bytes < kernel.read


@pytest.mark.parametrize("readers", [1, 3])
def test_every_reader_has_its_share(target, readers):
    outcome, _ = measured(ReadersTogether(seconds=0.3, readers=readers, depth=2), target)
    facts, metrics = outcome.properties, outcome.metrics
    assert facts["processes"] == readers
    slowest, mean = facts["slowest_bytes_per_s"], metrics["throughput_bytes_per_s"] / readers
    assert 0 < slowest <= mean * 1.001
    assert (readers == 1) == (slowest == pytest.approx(mean, rel=1e-6)) or readers > 1
    assert 1 / readers <= metrics["fairness_jain"] <= 1 + 1e-9


def test_a_reader_reads_its_region_first_unless_it_is_to_be_new(target):
    """Of 64 MiB a third belongs to the reader, the rest to two writers."""
    read = {}
    for primed in (True, False):
        work = ReaderBesideWriters(seconds=0.1, ramp_seconds=0.1, rate_per_s=50, primed=primed)
        outcome, kernel = measured(work, target)
        assert outcome.properties["claimed_bytes"][0] == kernel.read
        read[primed] = kernel.read
    assert 21 * MIB <= read[True] < 22 * MIB
    assert read[False] < MIB


@pytest.mark.parametrize(("seconds", "is_whole"), [(20.0, True), (0.001, False)])
def test_a_buffered_timing_ends_with_the_device_or_with_its_time(target, seconds, is_whole):
    """Records of 2 MiB, from a cold cache although all of the device was just read."""
    target.raw_path.read_bytes()
    before = counted(target)[READ_SECTORS]
    outcome, kernel = measured(DeviceTimings(timing="buffered", seconds=seconds), target)
    metrics, facts = outcome.metrics, outcome.properties
    rate = metrics.get("throughput_bytes_per_s", 0.0)  # a busy machine reads nothing in 1 ms
    moved = rate * metrics["elapsed_s"]
    assert moved / (2 * MIB) == pytest.approx(round(moved / (2 * MIB)))
    assert (round(moved) == SIZE_BYTES) == is_whole
    assert facts["claimed_cold_bytes"] <= kernel.read <= SIZE_BYTES
    assert 512 * (counted(target)[READ_SECTORS] - before) == kernel.read
    assert not rate or metrics["iops"] * 2 * MIB == pytest.approx(rate)


def test_a_first_write_uses_four_fifths_of_what_is_free(small):
    """Of 8 MiB: 6,710,886 bytes, and in whole records of 64 KiB 102 of them."""
    target = small("8m")
    work = FileTest(test="write", record_bytes=RECORD_BYTES, seconds=0, direct=False)
    outcome = work.measure(target, "w", seed=1)
    moved = outcome.metrics["throughput_bytes_per_s"] * outcome.metrics["elapsed_s"]
    assert round(moved) == 6_684_672
    assert list(target.path.iterdir()) == []


def test_a_database_on_files_leaves_no_log(files):
    target = files()
    work = Database(seconds=0.4, ramp_seconds=0.0, clients=2, reads=2, page_bytes=4096)
    outcome, kernel = measured(work, target)
    assert target.directory is not None
    assert not (target.directory / "log").exists()
    commits = sum(row[2] for row in outcome.histograms["latency_ns"])
    # The window of each client is a part of the time that we saw.
    assert 0 < commits <= outcome.metrics["transactions_per_s"] * kernel.seconds
    assert kernel.written >= commits * work.log_record_bytes
    assert kernel.flushes > 0
    assert outcome.properties["claimed_bytes"] is None


@pytest.mark.parametrize(
    ("size", "archive_bytes", "message"),
    [
        ("3m", 9 * MIB, "the archive does not fit: the target has 3 MiB free"),
        ("9m", 5 * MIB, "what the archive holds does not fit: the target has"),
    ],
)
def test_an_archive_that_does_not_fit_names_the_room_that_there_is(
    small, size, archive_bytes, message
):
    target, kind = small(size), ArchiveExtraction(size_bytes=archive_bytes)
    with pytest.raises(SpecError, match=f"^w: {message}") as error:
        kind.prepare(target, "w")
        kind.measure(target, "w", seed=1)
    free = os.statvfs(target.path)
    free_mib = free.f_bavail * free.f_frsize // 1_048_576
    assert free_mib in (2, 3)
    assert str(error.value).endswith(f"the target has {free_mib} MiB free")
    assert "larger target" in error.value.hint
    assert {path.name for path in target.path.iterdir()} <= {f"tree-{archive_bytes}.tar.none"}


@pytest.mark.parametrize("program", ["gzip", "xz", "zstd"])
def test_a_compressor_without_room_is_named(small, program):
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    target = small("64k")
    with pytest.raises(HostError, match=f"^{program} exited [0-9]+$") as error:
        ArchiveExtraction(size_bytes=2 * MIB, decompressor=program).prepare(target, "w")
    assert error.value.hint == "is the disk full?"
    assert list(target.path.iterdir()) == []


def test_an_extraction_is_read_from_the_device_and_written_to_it(files):
    target = files(96 * MIB)
    assert target.directory is not None
    kind = ArchiveExtraction(size_bytes=6 * MIB, decompressor="gzip")
    kind.prepare(target, "w")
    archive = target.directory / f"tree-{6 * MIB}.tar.gzip"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    with gzip.open(archive) as plain, tarfile.open(fileobj=plain) as tar:
        assert sum(each.size for each in tar) == 6 * MIB
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome, kernel = measured(kind, target)
    assert not outcome.gates
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert kernel.written >= 6 * MIB  # on the device when the clock stops
    metrics = outcome.metrics
    assert metrics["user_s"] == pytest.approx(after.ru_utime - before.ru_utime, abs=1e-5)
    assert metrics["system_s"] == pytest.approx(after.ru_stime - before.ru_stime, abs=1e-5)
    assert metrics["cpu_s"] == pytest.approx(metrics["user_s"] + metrics["system_s"])
    assert 0 < metrics["elapsed_s"] <= kernel.seconds
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == digest
    assert sorted(path.name for path in target.directory.iterdir()) == [
        "data", "lost+found", archive.name,
    ]  # fmt: skip


def test_a_start_beside_readers_and_writers(files):
    target = files()
    kind = Startup(program="sleep 0.4", readers=1, writers=2, ramp_seconds=0.2, background_depth=4)
    kind.prepare(target, "w")
    outcome, kernel = measured(kind, target)
    metrics = outcome.metrics
    assert (outcome.gates, outcome.properties["errors"]) == ((), 0)
    assert 0.4 <= metrics["startup_s"] < kernel.seconds
    for rate, moved in (("read_bytes_per_s", kernel.read), ("write_bytes_per_s", kernel.written)):
        assert 0 < metrics[rate] * 0.4 <= moved
    assert kernel.seconds >= 0.6


def test_a_start_from_a_cold_cache_reads_all_files_of_the_program(files):
    target = files()
    kind = Startup(program_bytes=8 * MIB)
    kind.prepare(target, "w")
    cache.evict(target.directory)
    outcome, kernel = measured(kind, target)
    assert kernel.read >= 8 * MIB
    assert kernel.written < 8 * MIB
    assert set(outcome.metrics) == {"startup_s", "cpu_s"}
    assert 0 < outcome.metrics["cpu_s"] <= kernel.cpu_s


def test_a_program_starts_with_the_libraries_beside_it_not_with_the_hosts(files):
    """The host's are in memory: a start from the target would be measured in part only."""
    target = files()
    look = "grep -q '/program-[0-9a-f]*/lib/libc[.]so' /proc/$$/maps"
    for line, failed in ((look, False), (f"! {look}", True)):
        kind = Startup(program=f'sh -c "{line}"')
        kind.prepare(target, "w")
        outcome, _ = measured(kind, target)
        assert [gate.gate for gate in outcome.gates] == ["command-failed"] * failed


@pytest.mark.parametrize("run", [timed, lambda line, _: Program(line, {}, 50.0).run()])
def test_a_signal_to_us_alone_ends_the_program_as_well(tmp_path, run):
    """Otherwise it would hold the file system that is unmounted next."""
    pid_file = tmp_path / "pid"

    def interrupt(_, frame):
        is_known = frame.f_code.co_name != "_execute_child"  # the program runs, its caller waits
        if is_known and pid_file.exists() and pid_file.read_text():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(["/bin/sh", "-c", f"echo $$ > {pid_file}; exec sleep 60"], tmp_path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()
