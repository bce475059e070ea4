"""The block-I/O engine on real devices: truth of its byte counts, errors, stalls, Ctrl-C."""

import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from giving_up import given_up
from loops import attached, loop_device

from schedlab import _core
from schedlab.errors import HostError, SpecError
from schedlab.host.safety.consent import hold

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
IOPRIO_GET = {"x86_64": 252, "aarch64": 31}
SECTOR_BYTES = 512
SPAN = 8 << 20
ATTEMPTS = 5


def group(path, engine="psync", depth=1, **keys):
    workload = {
        "pattern": keys.pop("pattern", {"kind": "random"}),
        "direction": {"kind": keys.pop("direction", "read")},
        "record": keys.pop("record", 4096),
        "span": keys.pop("span", SPAN),
        "arrivals": keys.pop("arrivals", {"kind": "closed", "depth": depth}),
        "seed": 11,
    }
    return {"name": "g", "path": path, "engine": engine, "workload": workload, **keys}


def run(group, seconds=None, **job):
    with given_up(group) as groups:
        text = json.dumps({"seconds": seconds, "groups": groups, **job})
        result = json.loads(_core.run_io_job(text))
        return result


@pytest.fixture
def io_uring():
    """Skip, with the reason, where the kernel refuses it."""
    try:
        _core.io_nop_calibration(1, 1)
    except HostError as refused:
        pytest.skip(str(refused))


@pytest.fixture
def engine(request):
    """An engine, as a test gives it as this fixture's parameter."""
    if request.param == "io_uring":
        request.getfixturevalue("io_uring")
    return request.param


def by_engine(*rows):
    """A test for each engine, or each engine and its depth."""
    names = "engine" if isinstance(rows[0], str) else ("engine", "depth")
    return pytest.mark.parametrize(names, rows, indirect=["engine"])


def sectors(device):
    """Bytes that the kernel says were read from and written to the device."""
    fields = Path(f"/sys/block/{Path(device).name}/stat").read_text().split()
    return int(fields[2]) * SECTOR_BYTES, int(fields[6]) * SECTOR_BYTES


def flushes(device):
    """How often the kernel says that the device was flushed."""
    return int(Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[15])


@by_engine(("psync", 1), ("io_uring", 16))
def test_claimed_bytes_are_the_kernels(loop, engine, depth):
    """Whoever lists devices reads a few sectors of this one, too: then the kernel has more."""
    for direction, index in (("write", 1), ("read", 0)):
        for _ in range(ATTEMPTS):
            before = sectors(loop)
            load = group(loop, engine, depth, direction=direction, direct=True)
            result = run(load, 0.3, ramp_seconds=0.1)["groups"][0]
            claimed = result["device_bytes_read"], result["device_bytes_written"]
            more = [b - a - c for a, b, c in zip(before, sectors(loop), claimed, strict=True)]
            assert claimed[index] > result[f"{direction}s"]["bytes"] > 0
            assert min(more) >= 0, (claimed, more)
            if more == [0, 0]:
                break
        else:
            pytest.fail(f"{ATTEMPTS} times the device moved more than was claimed: {more}")


def test_a_batch_is_awaited_as_a_whole(loop, io_uring):
    """What was reaped must not be taken for what is waited for: one enter a batch of four."""
    result = run(group(loop, "io_uring", 8, batch=4, direct=True))["groups"][0]
    operations = result["reads"]["operations"]
    assert operations == SPAN // 4096
    assert result["ring"]["enters"] <= operations / 4 + 8


@by_engine("psync", "mmap")
def test_a_record_that_is_synced_is_on_the_device_at_once(loop, engine):
    load = group(loop, engine, direction="write", span=1 << 20, sync="dsync")
    with Path(loop).open("rb"):  # the last one to close a device writes all of it back
        before, flushed = sectors(loop)[1], flushes(loop)
        result = run(load)["groups"][0]
        assert sectors(loop)[1] - before == 1 << 20 == result["writes"]["bytes"]
        assert flushes(loop) - flushed >= 256


def test_cpu_time_and_worker_lines_add_up(loop):
    result = run(group(loop, workers=3, direct=True), 0.3)["groups"][0]
    assert (
        sum(worker["operations"] for worker in result["workers"]) == (result["reads"]["operations"])
    )
    assert sum(w["cpu_system_ns"] for w in result["workers"]) == result["cpu_system_ns"]
    bins = result["reads"]["latency"]["bins"]
    assert sum(count for _, _, count in bins) == result["reads"]["latency"]["count"]


def test_o_direct_alignment_names_record_size_and_block_size(loop):
    with pytest.raises(SpecError, match=r"record size of 700 B.*logical block size of 512 B") as e:
        run(group(loop, direct=True, record=700))
    assert "multiple of 512" in e.value.hint


@pytest.fixture
def thin_loop(root_with_loop, small_disk):
    """A loop device of 16 MiB; its backing disk has room for less."""
    with loop_device(small_disk / "thin.img") as device:
        yield device


@pytest.mark.parametrize("small_disk", ["1m"], indirect=True)
@by_engine(("psync", 1), ("io_uring", 8))
def test_errors_of_the_device_are_counted_and_end_the_load(thin_loop, engine, depth):
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


@pytest.mark.parametrize("process", [False, True])
@by_engine(("psync", 1), ("io_uring", 32), ("mmap", 1))
def test_ctrl_c_ends_a_job_at_once(loop, engine, depth, process):
    load = group(loop, engine, depth, direct=engine != "mmap", workers=1 + process)
    job = json.dumps({"seconds": 600, "process": process, "groups": [load]})
    command = [sys.executable, "-c", CHILD, job]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0)
    assert child.stdout
    for _ in range(5):
        assert child.stdout.readline() == "running\n"
    os.killpg(child.pid, signal.SIGINT)
    output, _ = child.communicate(timeout=60)  # not the 600 s of the job
    result = json.loads(output.splitlines()[-1])
    assert result["interrupted"]
    assert process or result["abandoned_workers"] == 0
    assert result["groups"][0]["reads"]["operations"] > 0


class Freezable:
    """A loop device on a file of a file system that can be frozen: writes stall until it thaws."""

    def __init__(self, device, mount):
        self.device = device
        self._mount = mount

    def control(self, request):
        directory = os.open(self._mount, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, request, 0)
        finally:
            os.close(directory)


@pytest.fixture
def freezable(new_loop, tmp_path):
    lower, mount = new_loop(), tmp_path / "mount"
    if not shutil.which("mke2fs"):
        pytest.skip("needs mke2fs")
    subprocess.run(["mke2fs", "-q", "-t", "ext4", lower], check=True)
    mount.mkdir()
    subprocess.run(["mount", lower, mount], check=True)
    backing = mount / "disk.img"
    backing.write_bytes(os.urandom(SPAN))
    try:
        with attached(backing) as device:
            yield Freezable(device, mount)
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


@by_engine("psync", "io_uring")
def test_ctrl_c_does_not_wait_for_a_stalled_device(freezable, engine):
    load = group(freezable.device, engine, direction="write", direct=True)
    stopping = threading.Event()

    def ctrl_c():
        if stopping.is_set():
            raise KeyboardInterrupt

    freezable.control(FIFREEZE)
    try:
        threading.Timer(0.3, stopping.set).start()
        with given_up(load) as groups:
            job = json.dumps({"seconds": 600, "groups": groups})
            begun = time.monotonic()
            result = json.loads(_core.run_io_job(job, ctrl_c))
            assert time.monotonic() - begun < 60  # not the 600 s of the job
    finally:
        freezable.control(FITHAW)
    assert result["interrupted"]
    assert result["abandoned_workers"] == 1
    deadline = time.monotonic() + 10
    names = "schedlab-io-0.0"
    while any(names in name for name in thread_names()):
        assert time.monotonic() < deadline, "the worker left behind ends when its request does"
        time.sleep(0.01)


def thread_names():
    """Names of this process's threads; one may end while they are read."""
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            names.append(path.read_text().strip())
    return names


@pytest.mark.machine
def test_the_engine_publishes_its_own_cost(io_uring):
    cost = json.loads(_core.io_nop_calibration(64, 32))
    assert 0 < cost["ns_per_io_min"] <= cost["ns_per_io"] < 1e6
    with pytest.raises(SpecError, match="batch"):
        _core.io_nop_calibration(8, 9)


def test_malformed_jobs_are_refused():
    for text in ("", "[]", "{}", '{"groups": []}', '{"groups": [{"name": "g"}]}'):
        with pytest.raises(SpecError, match="job"):
            _core.run_io_job(text)


def test_an_exception_of_the_caller_ends_the_job_and_goes_on(loop):
    def broken():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _core.run_io_job(json.dumps({"seconds": 60, "groups": [group(loop)]}), broken)


# Workers as processes, the rate over time, newcomers, starvation


def rows(result, side="reads"):
    series = result["series"][side]
    return series


@pytest.mark.machine
@pytest.mark.parametrize("process", [False, True])
@by_engine(("psync", 1), ("io_uring", 8), ("mmap", 1))
def test_the_series_holds_every_completion_once(loop, engine, depth, process):
    load = group(loop, engine, depth, workers=2, direct=engine != "mmap")
    result = run(load, 0.45, ramp_seconds=0.25, process=process)["groups"][0]
    series = rows(result)
    assert [row[0] for row in series[:7]] == [0, 100, 200, 300, 400, 500, 600]
    started_ms, ended_ms = result["series"]["window_ms"]
    assert 250 <= started_ms < ended_ms
    assert sum(row[2] for row in series) <= result["device_bytes_read"]
    assert result["device_bytes_read"] - sum(row[2] for row in series) <= 4096 * depth * 2
    inside = sum(row[1] for row in series if 300 <= row[0] < 700)
    assert 0 < inside <= result["reads"]["operations"] < sum(row[1] for row in series)
    latency = sum(row[3] for row in series if row[0] >= 300)
    mean = result["reads"]["latency"]["mean"] * result["reads"]["latency"]["count"]
    assert 0.3 * mean < latency < 1.7 * mean
    assert result["series"]["writes"] == []


def test_workers_are_processes_of_their_own(loop):
    ready = []
    facts = []

    def on_ready(text):
        ready.append(json.loads(text))
        for pid in (pid for crew in ready[0] for pid in crew["ids"]):
            facts.append(Path(f"/proc/{pid}/stat").read_text())

    loads = [group(loop, workers=2) | {"name": "a"}, group(loop, direction="write") | {"name": "b"}]
    with given_up(*loads) as groups:
        job = json.dumps({"seconds": 0.2, "process": True, "groups": groups})
        result = json.loads(_core.run_io_job(job, None, on_ready))
    assert [(crew["name"], len(crew["ids"])) for crew in ready[0]] == [("a", 2), ("b", 1)]
    for stat in facts:
        pid, after_name = int(stat.split()[0]), stat.rsplit(")", 1)[1].split()
        parent, process_group = int(after_name[1]), int(after_name[2])
        assert (parent, process_group) == (os.getpid(), pid)
        assert not Path(f"/proc/{pid}").exists(), "it is reaped"
    ids = [worker["id"] for crew in result["groups"] for worker in crew["workers"]]
    assert sorted(ids) == sorted(pid for crew in ready[0] for pid in crew["ids"])
    whole, workers = (
        sum(one[f"{name}_{mode}_ns"] for one in ones for mode in ("user", "system"))
        for name, ones in (
            ("process_cpu", [result]),
            ("cpu", [worker for crew in result["groups"] for worker in crew["workers"]]),
        )
    )
    assert whole >= workers > 0


DOOMED = """
import sys
from schedlab import _core
_core.run_io_job(sys.argv[1], None, lambda text: print(text, flush=True))
"""


def test_worker_processes_die_with_their_owner(loop):
    job = json.dumps({"seconds": 60, "process": True, "groups": [group(loop, workers=3)]})
    owner = subprocess.Popen([sys.executable, "-c", DOOMED, job], stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    pids = json.loads(owner.stdout.readline())[0]["ids"]
    assert len(pids) == 3
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 10
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.01)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_worker_process_is_an_error_that_says_so(loop):
    def kill(text):
        os.kill(json.loads(text)[0]["ids"][0], signal.SIGKILL)

    job = json.dumps({"seconds": 60, "process": True, "groups": [group(loop)]})
    with pytest.raises(HostError, match="killed by signal 9"):
        _core.run_io_job(job, None, kill)


def test_an_error_of_a_worker_process_keeps_its_class_and_hint(loop):
    with pytest.raises(SpecError, match="record size of 700 B") as e:
        run(group(loop, direct=True, record=700), process=True)
    assert "multiple of 512" in e.value.hint


@pytest.mark.parametrize("process", [False, True])
def test_a_group_may_be_given_an_open_descriptor(loop, process):
    descriptor = hold(loop)
    try:
        load = group(loop, direction="write", direct=True)
        del load["path"]
        before = sectors(loop)[1]
        result = run(load | {"fd": descriptor}, process=process)["groups"][0]
        assert result["writes"]["bytes"] == SPAN == sectors(loop)[1] - before
        assert result["workers"][0]["path"] == f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("process", [False, True])
def test_who_only_reads_opens_for_reading_only(loop, process):
    flags, others, blocked = [], [], []

    def look(text):
        pid = json.loads(text)[0]["ids"][0]
        for link in Path(f"/proc/{pid}/fd").iterdir():
            others.append(str(link.readlink()))
            if others[-1] == loop:
                info = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text()
                flags.append(int(info.split("flags:")[1].split()[0], 8))
        status = Path(f"/proc/{pid}/status").read_text()
        blocked.append(int(status.split("SigBlk:")[1].split()[0], 16))

    load = group(loop, direct=True, sync="dsync" if process else "sync")
    job = {"seconds": 0.1, "process": process, "groups": [load]}
    with Path(__file__).open():
        _core.run_io_job(json.dumps(job), None, look)
    expected = os.O_RDONLY | os.O_DIRECT | os.O_NOATIME
    expected |= os.O_DSYNC if process else os.O_SYNC
    asked = os.O_ACCMODE | os.O_DIRECT | os.O_NOATIME | os.O_SYNC
    assert [flag & asked for flag in flags] == [expected]
    assert __file__ not in others
    if not process:  # the main thread hears Ctrl-C, and a fault is the worker's own
        assert blocked[0] & 1 << signal.SIGINT - 1 and not blocked[0] & 1 << signal.SIGBUS - 1


def test_a_newcomer_begins_later_and_tells_every_response(loop):
    old = group(loop, span=4 << 20) | {"name": "old"}
    new = group(loop, offset=4 << 20, span=4 << 20, start_after_ms=300, requests=50)
    job = {"seconds": 600, "process": True, "groups": [old, new | {"ends_job": True}]}
    begun = time.monotonic()
    result = json.loads(_core.run_io_job(json.dumps(job)))
    assert time.monotonic() - begun < 60, "the job ends with the newcomer"
    first, newcomer = result["groups"]
    assert rows(first)[0][1] > 0
    assert [row[1] for row in rows(newcomer)[:3]] == [0, 0, 0]
    assert sum(row[1] for row in rows(newcomer)) == 50 == newcomer["reads"]["operations"]
    responses = newcomer["responses"]
    assert len(responses) == 50
    assert all(b[0] >= a[0] + a[1] for a, b in itertools.pairwise(responses))
    total = sum(response for _, response in responses)
    assert total == pytest.approx(newcomer["reads"]["latency"]["mean"] * 50, abs=50)
    assert newcomer["workers"][0]["stopped_by"] == "pass"


def test_clients_of_a_database_commit_to_one_log(loop, tmp_path):
    log = tmp_path / "log"
    clients = group(loop, workers=3) | {"log": {"path": str(log), "record": 512, "reads": 2}}
    result = run(clients, 0.3, process=True)["groups"][0]
    commits = result["writes"]["operations"]
    transactions = result["transactions"]
    assert transactions["count"] == commits > 0
    assert transactions["per_s"] == pytest.approx(commits / result["elapsed_ns"] * 1e9)
    assert result["reads"]["operations"] == 2 * commits
    assert log.stat().st_size == 512 * commits == result["writes"]["bytes"]
    assert transactions["latency"]["mean"] > result["writes"]["latency"]["mean"]
    # On a device the log goes round in a part of it.
    region = {"path": loop, "offset": 8 << 20, "span": 8192, "record": 4096}
    size = int(Path(f"/sys/block/{Path(loop).name}/size").read_text()) * SECTOR_BYTES
    with Path(loop).open("rb") as device:  # the last one to close a device writes it back
        before = flushes(loop)
        result = run(group(loop) | {"log": region}, 0.2, process=True)["groups"][0]
        assert flushes(loop) - before >= result["transactions"]["count"] > 2
        device.seek(8 << 20)
        assert [any(device.read(4096)) for _ in range(4)] == [True, True, False, False]
    with pytest.raises(SpecError, match="but the workload touches"):
        run(group(loop) | {"log": region | {"offset": size - 4096}}, 0.2)


def test_a_read_that_stops_at_the_end_comes_from_the_device(loop):
    load = group(loop, pattern={"kind": "sequential"}, record=1 << 20, span=16 << 20)
    for at_end, passes in (("stop", 1), ("drop", None)):
        before = sectors(loop)[0]
        result = run(load | {"cold": True, "at_end": at_end}, 0.3)["groups"][0]
        read = sectors(loop)[0] - before
        claimed = result["device_bytes_read"]
        assert claimed <= read <= claimed + (16 << 20)  # read-ahead
        if passes:
            assert claimed == 16 << 20
            assert result["workers"][0]["stopped_by"] == "pass"
    before = sectors(loop)[0]
    warm = run(load | {"cold": True, "prime": "read"})["groups"][0]
    assert warm["prepared"]["primed_bytes"] == 16 << 20
    assert sectors(loop)[0] - before >= 16 << 20


def test_a_discarded_region_reads_as_zeros(loop, tmp_path):
    """The loop device passes a discard on to its file as a hole."""
    written = run(group(loop, direction="write", direct=True))["groups"][0]
    assert written["writes"]["bytes"] == SPAN
    load = group(loop, direction="write", direct=True, requests=1, discard=True)
    prepared = run(load)["groups"][0]["prepared"]
    assert prepared["discarded"] in (True, False)
    if not prepared["discarded"]:
        assert "EOPNOTSUPP" in prepared["refused"]
        return
    with Path(loop).open("rb") as device:
        assert sum(any(device.read(4096)) for _ in range(SPAN // 4096)) == 1


def test_workers_enter_their_cgroup_and_priority(loop, cgroup):
    members = []

    def look(_):
        members.extend(int(line) for line in (cgroup / "cgroup.procs").read_text().split())
        ioprio_get = ctypes.CDLL(None).syscall
        assert ioprio_get(IOPRIO_GET[os.uname().machine], 1, members[0]) == 3 << 13 | 7

    load = group(loop, workers=2, cgroup=str(cgroup), ioprio={"class": "idle", "level": 7})
    job = {"seconds": 0.1, "process": True, "groups": [load]}
    result = json.loads(_core.run_io_job(json.dumps(job), None, look))
    assert sorted(members) == sorted(w["id"] for w in result["groups"][0]["workers"])
    with pytest.raises(SpecError, match="process"):
        run(load, 0.1)
    with pytest.raises(HostError, match="enter the cgroup"):
        run(load | {"cgroup": str(cgroup / "absent")}, 0.1, process=True)


def test_requests_in_the_driver_are_sampled(loop, io_uring):
    load = group(loop, "io_uring", 16, direct=True)
    result = run(load, 0.5, device=loop)
    inflight = result["inflight"]
    assert inflight["device"] == Path(loop).name
    assert inflight["error"] is None
    assert inflight["samples"] >= 5
    assert 0 < inflight["mean"] <= inflight["max"] <= 16
    assert inflight["writes_mean"] == 0
    assert run(load, 0.1, device="absent")["inflight"]["error"].startswith("/sys/class/block/abs")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives an attribute to a file as root")
def test_what_root_may_not_open_is_not_hinted_to_be_opened_by_root(tmp_path):
    path = tmp_path / "fixed"
    path.write_bytes(bytes(SPAN))
    if subprocess.run(["chattr", "+i", path], check=False, capture_output=True).returncode:
        pytest.skip("this file system has no attribute of immutable files")
    try:
        with pytest.raises(HostError, match="EPERM") as e:
            run(group(str(path), direction="write", direct=False), seconds=0.1)
    finally:
        subprocess.run(["chattr", "-i", path], check=True)
    assert "not even root" in e.value.hint
