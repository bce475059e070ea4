"""The block-layer capture on real devices: counts, times and depths beside the engine's own."""

import contextlib
import json
import mmap
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from block_capture import PARTS, BlockCapture, BlockClass, mean_ns, unavailable
from giving_up import given_up
from loops import attached
from test_records import decoded

from schedlab import _core
from schedlab.app.live import recommend
from schedlab.errors import HostError
from schedlab.host.emulated.emulated import Emulation
from schedlab.host.safety.control import Control
from schedlab.kinds.engine import run_groups
from schedlab.nouns.capture import explanations
from schedlab.run.io.explain import capturing

SPAN = 8 << 20


@pytest.fixture
def device(loop):
    """A loop device of the test's own that can be captured."""
    reason = unavailable(loop)
    if reason:
        pytest.skip(reason)
    return loop


def queue(device, name):
    return Path(f"/sys/block/{Path(device).name}/queue/{name}")


def choose(device, scheduler):
    try:
        queue(device, "scheduler").write_text(scheduler)
    except OSError:
        pytest.skip(f"this kernel has no {scheduler}")


def group(device, name="reader", depth=1, **keys):
    workload = {
        "pattern": {"kind": "random"},
        "direction": {"kind": keys.pop("direction", "read")},
        "record": keys.pop("record", 4096),
        "span": keys.pop("span", SPAN),
        "arrivals": keys.pop("arrivals", {"kind": "closed", "depth": depth}),
        "seed": 3,
    }
    engine = "io_uring" if depth > 1 else "psync"
    load = {"name": name, "path": device, "engine": engine, "direct": True, "workload": workload}
    return load | keys


def captured(device, seconds, *groups):
    """A run of the groups, each a class of the capture; what the capture and the engine say."""
    classes = [BlockClass(item["name"]) for item in groups]
    with BlockCapture(device, classes, seconds_max=30) as capture, given_up(*groups) as job_groups:
        job = {"seconds": seconds, "process": True, "groups": job_groups}
        result = json.loads(_core.run_io_job(json.dumps(job), None, capture.add_ready))
    assert capture.result
    return capture.result, {item["name"]: item for item in result["groups"]}


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "kyber", "bfq"])
def test_counts_and_times_are_those_of_the_engine(device, scheduler):
    choose(device, scheduler)
    seen, engine = captured(
        device, 0.6, group(device), group(device, "writer", 8, direction="write", record=65536)
    )
    assert seen.scheduler == scheduler
    # A completion that the kernel does not trace is counted, and is the only thing that is lost.
    missed = seen.without_completion
    assert missed == seen.lost["untraced"] + seen.totals["in_flight"]
    assert sum(seen.lost.values()) == seen.lost["untraced"] <= 20 + seen.totals["issued"] // 50
    assert seen.totals["begun_before"] == 0
    reads, writes = seen.of("reader", "read"), seen.of("writer", "write")
    claimed = engine["reader"]["device_bytes_read"]
    assert 0 <= claimed - sum(g.bytes for g in reads) <= missed * 4096
    assert 0 <= claimed // 4096 - sum(g.requests for g in reads) <= missed
    written = engine["writer"]["device_bytes_written"]
    assert 0 <= written - sum(g.bytes for g in writes) <= missed * 262144
    assert seen.totals["issued"] - missed == sum(g.requests for g in seen.groups)
    for one in seen.groups:
        parts = [getattr(one, part) for part in PARTS]
        assert sum(part.sum_ns for part in parts) == one.total.sum_ns
        assert all(part.count == one.requests == one.total.count for part in parts)
        for part in (*parts, one.total):
            low_ns, high_ns, _ = part.bins[-1]  # the highest bin that holds a time
            assert max(low_ns, part.mean_ns) <= part.max_ns <= high_ns
    times_ms = [t_ms for t_ms, _ in seen.driver_depth.series]
    assert times_ms == sorted(set(times_ms))
    assert all(t_ms % 100 == 0 for t_ms in times_ms)
    assert 500 <= times_ms[-1] <= seen.elapsed_ns / 1e6
    assert 1 <= seen.driver_depth.max <= 9
    issued = sum(row.reads for row in seen.series["reader"])
    assert issued == sum(g.requests for g in reads)
    if scheduler == "none":
        assert mean_ns(reads, "scheduler") < mean_ns(reads, "total") / 2


@pytest.mark.parametrize("depth", [1, 5])
@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_no_more_requests_are_in_flight_than_were_sent_at_a_time(device, scheduler, depth):
    """Completions that the kernel does not trace raise no depth, and all sectors are known."""
    choose(device, scheduler)
    capture = _core.BlockCapture(json.dumps({"device": device}))
    with given_up(group(device, depth=depth)) as groups:
        _core.run_io_job(json.dumps({"seconds": 2, "process": True, "groups": groups}))
    seen = json.loads(capture.finish())
    assert seen["totals"]["issued"] > 100
    assert 1 <= seen["depth"]["driver"]["max"] <= seen["depth"]["both"]["max"] <= depth
    assert seen["accounting"]["gap_sectors"] == 0
    assert (seen["waiting"], seen["totals"]["in_flight"]) == ([], 0)
    known = seen["totals"]["completed"] + seen["lost"]["untraced"]
    assert known == seen["totals"]["issued"]


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_the_tags_are_those_that_a_lower_nr_requests_left(device, scheduler):
    choose(device, "none")
    tags = queue(device, "nr_requests").read_text().strip()
    seen = []
    for number, name in ((tags, "none"), ("8", scheduler)):
        queue(device, "nr_requests").write_text(number)
        choose(device, name)
        capture = _core.BlockCapture(json.dumps({"device": device}))
        with given_up(group(device)) as groups:
            _core.run_io_job(json.dumps({"seconds": 0.2, "process": True, "groups": groups}))
        seen.append(json.loads(capture.finish())["tags"])
    assert seen == [int(tags), 8]


@pytest.fixture
def slow_device(root_with_loop, needs_fuse, state, tmp_path):
    """A device whose every request takes 4 ms, one after the other."""
    model = tmp_path / "fixed.toml"
    model.write_text("model = 'fixed'\nservice = '4ms'\nservers = 1\nsize = '64m'\n")
    with Control() as control:
        slow_disk = control.emulated(Emulation(str(model)))
        if reason := unavailable(slow_disk.path):
            pytest.skip(reason)
        yield slow_disk.path


@pytest.mark.machine
@pytest.mark.alone
def test_the_parts_add_up_to_the_latency_of_the_engine(slow_device):
    """Beside a request of 4 ms, what the program does before and after it is short."""
    shares = []
    for _ in range(5):
        with capturing(slow_device) as capture:
            (engine,) = run_groups([group(slow_device)], 0.5, process=True).groups
        assert capture.result
        (explanation,) = explanations(capture.result, capture.engine)
        latency_s = engine.reads.latency.mean / 1e9
        assert explanation.device_s > 3.9e-3  # a reply may be sent early by the way to the program
        # with what is outside the block layer, the parts are the whole latency
        assert explanation.total_s == pytest.approx(latency_s, rel=0.01)
        shares.append(1 - explanation.outside_s / explanation.total_s)
        if shares[-1] > 0.95:
            return
    pytest.fail(f"the parts have {max(shares):.1%} of the latency that the engine saw")


BESIDE_PERF = """
import json, sys
sys.path[:0] = sys.argv[1].split(":")
from test_block_capture import captured, group, mean_ns
device, record = sys.argv[2], int(sys.argv[3])
seen, engine = captured(device, 0.4, group(device, record=record))
print(json.dumps([mean_ns(seen.of("reader", "read"), "total"),
                  engine["reader"]["reads"]["latency"]["mean"],
                  engine["reader"]["workers"][0]["id"]]))
"""
EVENTS = ("syscalls:sys_enter_pread64", "block:block_bio_queue", "block:block_rq_complete",
          "syscalls:sys_exit_pread64")  # fmt: skip


@pytest.mark.machine
@pytest.mark.alone
def test_perf_sees_the_same_times_and_the_rest(device, tmp_path):
    """What the engine saw beyond the request is the system call before it and after it."""
    perf = shutil.which("perf")
    if not perf:
        pytest.skip("needs perf")
    tests = Path(__file__).parents[1]
    data, here = tmp_path / "perf.data", f"{tests / 'host'}:{tests / 'support'}"
    # perf mounts tracefs where it is missing: nobody else shall see that.
    record = [
        "unshare",
        "--mount",
        perf,
        "record",
        "-q",
        "-a",
        "-k",
        "CLOCK_MONOTONIC",
        "-o",
        str(data),
    ]
    for event in EVENTS:
        record += ["-e", event]
    able = subprocess.run([*record, "--", "true"], capture_output=True, text=True, check=False)
    if able.returncode:
        pytest.skip(f"perf records no block events here: {able.stderr[-200:]}")
    record += ["--", sys.executable, "-c", BESIDE_PERF, here, device, "327680"]
    result = subprocess.run(record, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    total_ns, latency_ns, process = json.loads(result.stdout.splitlines()[-1])
    listing = subprocess.run(
        [perf, "script", "-i", str(data), "--ns", "-F", "tid,time,event,trace"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    numbers = Path(f"/sys/block/{Path(device).name}/dev").read_text().strip().replace(":", ",")
    before, inside, after = perf_means(listing.stdout, process, numbers)
    assert inside * 1e9 == pytest.approx(total_ns, rel=0.05, abs=2000)
    assert (before + inside + after) * 1e9 == pytest.approx(latency_ns, rel=0.05, abs=2000)


def perf_means(text, process, numbers):
    """Mean seconds of reads of one process before, in and after the block layer of a device."""
    rows = []
    times = []
    for line in text.splitlines():
        match = re.match(r"\s*(\d+)\s+([\d.]+):\s+(\S+):\s+(.*)", line)
        if not match:
            continue
        step = EVENTS.index(match[3]) if match[3] in EVENTS else -1
        if match[3].startswith("block:"):
            ours = match[4].startswith(f"{numbers} ")
        else:
            ours = int(match[1]) == process
        if not ours:
            continue
        if step != len(times):  # an event that was not traced: the read is not counted
            times = []
        if step == len(times):
            times.append(float(match[2]))
        if len(times) == len(EVENTS):
            rows.append((times[1] - times[0], times[2] - times[1], times[3] - times[2]))
            times = []
    assert len(rows) > 100
    return tuple(statistics.fmean(column) for column in zip(*rows, strict=True))


@pytest.fixture
def busy(device):
    """A device with 32 requests at a time of other processes."""
    is_over = threading.Event()
    job = json.dumps({"seconds": 60, "process": True, "groups": [group(device, depth=32)]})
    load = threading.Thread(target=_core.run_io_job, args=(job, is_over.is_set))
    load.start()
    yield device
    is_over.set()
    load.join()


@pytest.mark.sampled(2)
def test_a_capture_that_starts_under_load_counts_from_nothing(busy):
    """What is counted while programs are attached stays counted, a class has one process, and
    what was in the device before is not lost."""
    completed = 0
    for _ in range(25):
        with BlockCapture(busy, [BlockClass("nobody")], find_classes=True) as capture:
            time.sleep(0.02)
        assert capture.result
        assert capture.result.of("nobody") == []
        assert capture.result.driver_depth.max <= 64
        assert capture.result.lost["completions"] == 0
        completed += capture.result.totals["completed"]
    assert completed > 0


@pytest.mark.machine
def test_a_limit_shows_up_before_the_request(device, cgroup):
    """200 reads/s by io.max or blkio.throttle: what is above the device's own time is the limit."""
    numbers = Path(f"/sys/block/{Path(device).name}/dev").read_text().strip()
    limits = {
        "blkio.throttle.read_iops_device": f"{numbers} 200",
        "io.max": f"{numbers} riops=200",
    }
    for name, value in limits.items():
        if (cgroup / name).exists():
            (cgroup / name).write_text(value)
            break
    else:
        pytest.skip("this cgroup has no limits of I/O")
    seen, engine = captured(device, 1.0, group(device, depth=4, cgroup=str(cgroup)))
    latency = engine["reader"]["reads"]["latency"]["mean"]
    # The kernel grants whole slices of 0.1 s ahead; without a limit it would be thousands.
    assert 100 <= engine["reader"]["reads"]["operations"] <= 260
    assert latency > 10e6
    mine = seen.of("reader", "read")
    held = mean_ns(mine, "tag") if seen.sees_limits else seen.held_ns_per_request
    assert held > 0.4 * latency
    assert mean_ns(mine, "scheduler") + mean_ns(mine, "device") < 0.6 * latency
    free, _ = captured(device, 0.3, group(device))
    assert free.limits_depth.max == 0


def test_classes_are_separated_by_cgroup_and_by_process(device, cgroup):
    with BlockCapture(device, [BlockClass("inside", cgroup=cgroup)]) as capture:
        loads = [group(device, cgroup=str(cgroup), requests=40), group(device, "b", requests=30)]
        _core.run_io_job(json.dumps({"process": True, "groups": loads}))
    assert capture.result
    assert sum(g.requests for g in capture.result.of("inside")) == 40
    assert sum(g.requests for g in capture.result.of("other")) == 30
    with BlockCapture(device, find_classes=True) as capture:
        loads = [group(device, requests=20), group(device, "b", requests=10)]
        result = json.loads(_core.run_io_job(json.dumps({"process": True, "groups": loads})))
    assert capture.result
    ids = {g["workers"][0]["id"]: g["reads"]["operations"] for g in result["groups"]}
    requests = {g.process: g.requests for g in capture.result.groups if g.process}
    assert requests == ids


def test_merges_are_counted(device):
    """Buffered sequential writing merges; every byte is in some request all the same."""
    choose(device, "mq-deadline")
    with BlockCapture(device) as capture:
        load = group(device, direction="write", direct=False, fsync_at_end=True)
        load["workload"]["pattern"] = {"kind": "sequential"}
        with given_up(load) as groups:
            _core.run_io_job(json.dumps({"groups": groups}))
    assert capture.result
    written = [g for g in capture.result.groups if g.operation == "write"]
    assert sum(g.bytes for g in written) == SPAN
    merges = capture.result.totals["bio_merges"] + capture.result.totals["request_merges"]
    assert sum(g.requests for g in written) + merges <= SPAN // 4096 + 1
    assert capture.result.without_completion <= 1


def test_only_what_does_not_follow_its_predecessor_is_a_seek(device):
    """One request at a time: none overtakes another; backwards each is 16 sectors off."""
    choose(device, "none")
    for pattern, seeks in (("sequential", 0), ("reverse", 63)):
        load = group(device, requests=64)
        load["workload"]["pattern"] = {"kind": pattern}
        with BlockCapture(device) as capture:
            _core.run_io_job(json.dumps({"groups": [load]}))
        assert capture.result
        totals = capture.result.totals
        assert (totals["issued"], totals["out_of_order"]) == (64, 0)
        assert (totals["seeks"], totals["seek_sectors"]) == (seeks, 16 * seeks)


def test_another_device_is_not_seen(device, new_loop):
    other = new_loop()
    with BlockCapture(device) as capture:
        _core.run_io_job(json.dumps({"groups": [group(other)]}))
    assert capture.result
    assert capture.result.groups == []
    assert capture.result.totals["issued"] == 0


def test_snapshots_grow_and_nothing_is_left_behind(device):
    capture = BlockCapture(device, [BlockClass("reader")])
    before = capture.snapshot()
    _core.run_io_job(json.dumps({"groups": [group(device, requests=25)]}))
    after = capture.snapshot()
    assert (before.totals["issued"], after.totals["issued"]) == (0, 25)
    assert after.elapsed_ns > before.elapsed_ns
    assert capture.finish().totals == after.totals


def test_a_snapshot_costs_nothing_more_than_it_says(device):
    capture = _core.BlockCapture(json.dumps({"device": device, "classes": [{"name": "a"}]}))
    with pytest.raises(OSError, match="no class 2"):
        capture.add(2, os.getpid())
    now = whole = json.loads(capture.snapshot())
    deadline = time.monotonic() + 60
    while len(whole["depth"]["driver"]["series"]) < 12:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        now, whole = json.loads(capture.snapshot(False)), json.loads(capture.snapshot())
    assert now["cost"] is whole["cost"] is None  # counting it slows all programs of the machine
    assert len(now["depth"]["driver"]["series"]) <= 10


def test_reads_and_writes_that_fail_are_counted(root_with_loop, small_disk, tmp_path):
    backing = small_disk / "disk.img"
    with backing.open("wb") as file:
        file.truncate(64 << 20)  # the disk below has room for 8 MiB
    with attached(backing) as device, BlockCapture(device) as capture:
        if reason := unavailable(device):
            pytest.skip(reason)
        options = {"device": device, "path": str(tmp_path / "trace"), "facts": {"device": "loop"}}
        recording = _core.RecordCapture(json.dumps(options))
        file, block = os.open(device, os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, 1 << 20)
        written = 0
        with contextlib.suppress(OSError):
            for written in range(64):
                os.pwritev(file, [block], written << 20)
        os.close(file)
        assert 0 < written < 10
        recording.finish()
    assert capture.result and capture.result.totals["errors"] >= 1
    assert any(any(record[68:72]) for record in decoded(tmp_path / "trace"))


def test_what_cannot_be_captured_says_why(device):
    with pytest.raises(HostError, match="absent"):
        BlockCapture("/dev/absent")
    with pytest.raises(HostError, match="cgroup"):
        BlockCapture(device, [BlockClass("a", cgroup=Path("/sys/fs/cgroup/absent"))])


def test_issued_requests_are_those_of_the_devices_statistics(device):
    """`stat` counts completed requests of all processes."""
    stat = Path(f"/sys/block/{Path(device).name}/stat")

    def finished():
        fields = stat.read_text().split()
        return int(fields[0]) + int(fields[4])

    before = finished()
    seen, _ = captured(device, 0.4, group(device, depth=16), group(device, "w", direction="write"))
    assert finished() - before == seen.totals["issued"]


@pytest.mark.machine
def test_bfq_raises_the_weight_of_a_new_process_only(device):
    """The transient is in the rate over time on a device that says it rotates, with its cause.

    It ends after 120,000 sectors, or after 3 to 25 s: the longer, the slower the device seems
    (bfq_wr_duration and max_service_from_wr in block/bfq-iosched.c).
    """
    choose(device, "bfq")
    queue(device, "rotational").write_text("1")
    writers = [
        group(device, f"w{i}", 16, direction="write", record=65536, workers=1) for i in range(2)
    ]
    for seconds in (3.0, 8.0, 27.0):
        seen, engine = captured(device, seconds, group(device), *writers)
        assert seen.bfq is not None
        raised = [row.weight_raising for row in seen.bfq["reader"]]
        assert max(raised) > 1
        series = engine["reader"]["series"]["reads"]
        rates = [row[1] for row in series[: int(seconds * 10)]]
        first, last = max(rates[:10]), sorted(rates[-10:])[5]
        if first > 2 * last and raised[-1] < max(raised):
            return
    pytest.fail(f"no transient: reads per 100 ms {rates}, weight raising {raised}")


HOLDER = """
import json, sys, time
from schedlab._core import BlockCapture
capture = BlockCapture(json.dumps({"device": sys.argv[1]}))
print("running", flush=True)
time.sleep(600)
"""


def test_a_killed_owner_leaves_no_program_behind(device):
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLDER, device], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout
    assert owner.stdout.readline() == "running\n"
    descriptors = Path(f"/proc/{owner.pid}/fd")
    links = {link: os.readlink(link) for link in descriptors.iterdir()}  # noqa: PTH115
    assert any("bpf" in name for name in links.values())
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 10
    while descriptors.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    captured(device, 0.1, group(device))


def test_the_requests_of_each_queue_are_its_own(device, new_loop, monkeypatch):
    names = [Path(new_loop()).name for _ in range(3)]
    monkeypatch.setattr(recommend, "queues_below", lambda path: SimpleNamespace(queues=names))

    def read(seconds):
        for name in names[1:]:
            source = [f"if=/dev/{name}", "of=/dev/null", "bs=4k", "count=9", "iflag=direct"]
            subprocess.run(["dd", *source], check=True, capture_output=True)

    seen = recommend.observe(Path("/dev") / names[0], 0.0, read)
    assert [queue.name for queue in seen.queues] == names
    assert [queue.depth_max for queue in seen.queues] == [0, 1, 1]
