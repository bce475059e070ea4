"""Emulated devices on the real kernel: data, queue, life cycle, and the gate for lateness."""

import errno
import fcntl
import json
import math
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from device_states import flush

from schedlab.errors import HostError, SpecError
from schedlab.host import doctor, kernel_paths
from schedlab.host.emulated import emulated, emulated_facts, emulated_removal, keeper
from schedlab.host.emulated.emulated import Emulation
from schedlab.host.emulated.emulated_calibration import LEAD_MAX_NS
from schedlab.host.safety import owned
from schedlab.host.safety.control import Control
from schedlab.host.safety.write_back import MNT_FORCE, unmount
from schedlab.host.settings import knobs
from schedlab_sim import _simulators

MIB = 1 << 20
BLKZEROOUT = 0x127F  # include/uapi/linux/fs.h
FIXED = "model = 'fixed'\nservice = '{service}'\nservers = {servers}\nsize = '64m'\n"


@pytest.fixture
def control(root_with_loop, needs_fuse, state):
    with Control() as control:
        yield control
    assert [line for line in _mountinfo() if str(state) in line] == []
    assert emulated_removal.servers(state) == []


def _mountinfo():
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()


def fixed(directory, service, servers=1):
    """A device file whose every request takes the same time; a busy machine serves 250 a second."""
    path = directory / "fixed.toml"
    path.write_text(FIXED.format(service=service, servers=servers))
    return str(path)


def read_once(path, offset=0):
    """Seconds that a direct read of 4 KiB takes; OSError when it fails."""
    page = mmap.mmap(-1, 4096)
    device = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        start = time.monotonic()
        os.preadv(device, [page], offset)
        return time.monotonic() - start
    finally:
        os.close(device)


def test_a_model_is_described_before_it_exists():
    facts = Emulation("disk7200", size_bytes=256 * MIB, queue_depth=1).describe()
    assert facts["emulated"] is True
    assert (facts["kind"], facts["rotational"], facts["tags"]) == ("disk", True, 4)
    assert facts["served_in_order"]
    assert len(facts["sha256"]) == 64
    ssd = Emulation("sata-ssd", size_bytes=256 * MIB).describe()
    assert (ssd["kind"], ssd["rotational"], ssd["tags"]) == ("ssd", False, 32)
    assert ssd["service"] == "parallel"
    assert Emulation("disk7200").describe()["size_bytes"] == 8 << 30


@pytest.mark.parametrize(
    ("emulation", "part"),
    [
        (Emulation("no-such-model"), "neither a shipped model"),
        (Emulation("disk7200", size_bytes=1 << 50), "capacity"),
        (Emulation("disk7200", policy="cfq"), "sptf"),
        (Emulation("disk7200", settings={"rpm": 0}), "rpm"),
        (Emulation("disk7200", settings={"wheels": 4}), "wheels"),
        (Emulation("disk7200", dilate=0.5), "dilate"),
        (Emulation("disk7200", dilate=math.nan), "dilate"),
    ],
)
def test_what_cannot_be_is_refused_by_name(emulation, part):
    with pytest.raises(SpecError, match=part):
        emulation.describe()


def test_more_data_than_memory_is_refused(control):
    with pytest.raises(HostError, match="half of the free memory"):
        control.emulated(Emulation("disk7200", size_bytes=400 << 30))


def test_memory_is_taken_at_once_where_there_is_plenty():
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) << 10
    assert emulated._check_memory(Emulation("disk7200"), free // 6)
    assert not emulated._check_memory(Emulation("disk7200"), free // 3)
    assert not emulated._check_memory(Emulation("disk7200", data="drop"), free // 6)


def test_the_queue_is_that_of_the_model(control):
    for model, rotational in (("disk7200", "1"), ("sd-card", "0")):
        device = control.emulated(Emulation(model, 64 * MIB, queue_depth=8, dilate=10))
        queue = owned.SYS_BLOCK / Path(device.path).name / "queue"
        assert (queue / "rotational").read_text().strip() == rotational
        assert (queue / "nr_requests").read_text().strip() == "8"
        assert device.direct_io


def test_reset_empties_the_cache_of_the_model(control):
    device = control.emulated(Emulation("disk7200", size_bytes=64 * MIB, queue_depth=1))

    def modelled_ns():
        device.mark()
        read_once(device.path, 32 * MIB)
        return float(device.account()["modelled"]["mean_ns"])

    device.reset()
    first, cached = modelled_ns(), modelled_ns()
    assert cached < first / 2
    device.reset()
    assert modelled_ns() > 2 * cached


def test_data_come_back_and_a_discarded_range_is_zero(control):
    device = control.emulated(Emulation("disk7200", size_bytes=64 * MIB))
    data = os.urandom(3 * MIB)
    with Path(device.path).open("r+b") as file:
        file.seek(5 * MIB + 512)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    flush(device.path)
    with Path(device.path).open("rb") as file:
        file.seek(5 * MIB + 512)
        assert file.read(len(data)) == data
    subprocess.run(["blkdiscard", "-o", str(6 * MIB), "-l", str(MIB), device.path], check=True)
    flush(device.path)
    with Path(device.path).open("rb") as file:
        file.seek(6 * MIB)
        assert file.read(MIB) == bytes(MIB)
        assert file.read(512) == data[2 * MIB - 512 : 2 * MIB]


def test_zeros_that_keep_their_room_are_no_writes(control, tmp_path):
    device = control.emulated(Emulation(fixed(tmp_path, "4ms"), size_bytes=None))
    file = os.open(device.path, os.O_RDWR)
    os.pwrite(file, b"x" * MIB, 0)
    os.fsync(file)
    device.mark()
    fcntl.ioctl(file, BLKZEROOUT, struct.pack("QQ", 0, MIB))
    account = device.account()
    assert (account["writes"], account["discards"]) == (0, 1)
    assert os.pread(file, MIB, 0) == bytes(MIB)
    os.close(file)


def test_what_the_store_refuses_is_an_error_and_counted(control, small_disk, tmp_path):
    emulation = Emulation(fixed(tmp_path, "4ms"), size_bytes=None, data=str(small_disk / "store"))
    device = control.emulated(emulation)
    file, block = os.open(device.path, os.O_WRONLY | os.O_DIRECT), mmap.mmap(-1, MIB)
    with pytest.raises(OSError) as caught:
        for place in range(10):  # into a file system of 8 MiB
            os.pwritev(file, [block], place * MIB)
    os.close(file)
    assert caught.value.errno in (errno.ENOSPC, errno.EIO)
    assert device.account()["errors"] >= 1


@pytest.mark.parametrize("scheduler", ["none", "bfq"])
def test_an_archive_extracted_on_ext4_is_the_same(control, tmp_path, scheduler):
    source = tmp_path / "source"
    numbers = random.Random(3)
    for number in range(200):
        file = source / f"d{number % 7}" / f"f{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(numbers.randbytes(numbers.randrange(30_000)))
    archive = tmp_path / "archive.tar"
    subprocess.run(["tar", "-cf", archive, "-C", source, "."], check=True)
    device = control.emulated(Emulation("disk7200", size_bytes=128 * MIB, queue_depth=32))
    control.set_scheduler(device.path, scheduler)
    where = control.filesystem(device)
    subprocess.run(["tar", "-xf", archive, "-C", where], check=True)
    subprocess.run(["sync", "-f", where], check=True)
    subprocess.run(["umount", where], check=True)
    owned.mount(device.path, where, "ext4")
    subprocess.run(["diff", "-r", "-x", "lost+found", source, where], check=True)
    subprocess.run(["umount", where], check=True)
    subprocess.run(["fsck.ext4", "-fn", device.path], check=True, capture_output=True)
    assert device.account()["errors"] == 0


def test_data_in_a_file_survive_the_device(control, tmp_path):
    store = tmp_path / "store"
    store.write_bytes(b"of another day")
    emulation = Emulation(fixed(tmp_path, "4ms"), size_bytes=None, data=str(store))
    device = control.emulated(emulation)
    with Path(device.path).open("r+b") as file:
        assert file.read(14) == b"of another day"
        file.seek(0)
        file.write(b"schedlab")
        file.flush()
        os.fsync(file.fileno())
    assert store.read_bytes()[:8] == b"schedlab"


def test_a_response_takes_the_modelled_time_and_dilation_stretches_it(control, tmp_path):
    for dilate in (1.0, 10.0):
        model = fixed(tmp_path, "5ms")
        device = control.emulated(Emulation(model, None, dilate=dilate, lead_us=0))
        least = min(read_once(device.path) for _ in range(5))
        assert least >= 0.005 * dilate
        account = device.account()
        assert account["modelled"]["mean_ns"] >= 4.999e6 * dilate  # stamps are rounded
        assert device.facts["dilate"] == dilate


def test_a_dead_server_is_an_error_and_no_hang(control, tmp_path):
    device = control.emulated(Emulation(fixed(tmp_path, "4ms"), size_bytes=None))
    assert device.is_alive()
    assert device.server
    os.kill(device.server.process_id, signal.SIGKILL)
    with pytest.raises(OSError) as caught:
        for _ in range(1000):
            read_once(device.path)
    assert caught.value.errno == errno.EIO
    assert owned.wait_until(lambda: not device.is_alive(), 5.0)
    with pytest.raises(HostError, match="does not answer"):
        device.account()


def test_a_server_without_its_connection_ends(control, tmp_path):
    device = control.emulated(Emulation(fixed(tmp_path, "4ms"), size_bytes=None))
    assert device.server
    directory = str(device.server.directory)
    (served,) = [each for each in kernel_paths.mounts() if each.target.startswith(directory)]
    with pytest.raises(OSError, match="busy"):  # its connection is closed all the same
        unmount(served, MNT_FORCE)
    assert owned.wait_until(lambda: not device.is_alive(), 10.0)


def test_a_stopped_server_is_ended_before_anybody_waits_for_ever(control, tmp_path):
    device = control.emulated(Emulation(fixed(tmp_path, "4ms"), size_bytes=None))
    assert device.server
    os.kill(device.server.process_id, signal.SIGSTOP)
    with pytest.raises(OSError) as caught:
        read_once(device.path)
    assert caught.value.errno == errno.EIO


@pytest.mark.sampled(2)
def test_the_end_of_a_session_does_not_wait_for_a_slow_device(root_with_loop, state, tmp_path):
    """A thousand dirty pages at a second each: a session must not take minutes to end."""
    with Control() as control:
        device = control.emulated(Emulation(fixed(tmp_path, "1s"), size_bytes=None))
        where = os.open(device.path, os.O_WRONLY)
        os.pwrite(where, bytes(4 * MIB), 0)
        # Closed by a process that may wait for the device: the last close writes everything back.
        closer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[where])
        os.close(where)
        assert closer.stdin
        closer.stdin.close()
        start = time.monotonic()
    assert time.monotonic() - start < 120.0
    closer.wait(30.0)


def test_a_worker_that_was_kept_from_running_fails_the_gate(control, tmp_path):
    device = control.emulated(Emulation(fixed(tmp_path, "5ms"), size_bytes=None))
    assert device.server
    device.mark()
    stops = 0

    def read_on():
        # Until all stops are made, however late this machine lets them be made.
        number = 0
        while number < 40 or (stops < 4 and number < 2000):
            read_once(device.path)
            number += 1

    reader = threading.Thread(target=read_on)
    reader.start()
    while stops < 4:
        assert owned.wait_until(lambda: _in_flight(device.path) > 0, 5.0)
        os.kill(device.server.process_id, signal.SIGSTOP)
        time.sleep(0.1)  # how long it is kept from running, not a condition
        os.kill(device.server.process_id, signal.SIGCONT)
        stops += 1
    reader.join()
    gates = {finding.gate for finding in device.gate_findings(device.account())}
    assert gates == {"model-on-time"}


def _in_flight(path):
    text = (owned.SYS_BLOCK / Path(path).name / "inflight").read_text()
    return sum(map(int, text.split()))


LEAD_NS = 100_000
# 100 requests per second of 10 ms, each 100 us on its way, and sent early by that.
GOOD = {
    "elapsed_s": 10.0, "reads": 1000, "writes": 0, "discards": 0, "flushes": 0,
    "read_bytes": 0, "written_bytes": 0, "errors": 0, "depth_max": 32,
    "modelled": {"mean_ns": 1e7, "p99_ns": 30_000_000},
    "replied": {"mean_ns": 0.99e7, "p99_ns": 29_900_000},
    "hidden_mean": 0.01, "hidden_error": 0.0, "reordered_share": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        ({}, None),
        ({"reads": 0, "replied": {"mean_ns": 9e9, "p99_ns": 0}}, None),
        ({"replied": {"mean_ns": 1.02e7, "p99_ns": 29_900_000}}, "model-on-time"),
        ({"replied": {"mean_ns": 0.99e7, "p99_ns": 31_300_000}}, None),
        ({"replied": {"mean_ns": 0.99e7, "p99_ns": 31_500_000}}, "model-on-time"),
        # 100 per second in flight outside the model for 300 us each: 3 % of one in flight.
        ({"hidden_mean": 0.029}, None),
        ({"hidden_mean": 0.031}, "model-on-time"),
        # Replies that come too early are as wrong as late ones.
        ({"hidden_mean": -0.011}, "model-on-time"),
        # Of few samples chance may be more.
        ({"hidden_mean": 0.04, "hidden_error": 0.01}, None),
        # 1,000 per second are ten times as many on their way.
        ({"hidden_mean": 0.1, "reads": 10_000}, None),
        ({"hidden_mean": 0.4, "reads": 10_000}, "model-on-time"),
        # The kernel has no flush in flight, so they take no part in the rate.
        ({"hidden_mean": 0.031, "flushes": 1000}, "model-on-time"),
        ({"reordered_share": 0.002}, "model-on-time"),
        ({"errors": 1}, "device-alive"),
        ({"errors": 1, "reads": 0}, "device-alive"),
        ({"depth_max": 33}, "device-tags"),
    ],
)
def test_the_gate_knows_what_spoils_a_run(change, gate):
    findings = emulated_facts.findings({**GOOD, **change}, {"tags": 32, "lead_ns": LEAD_NS})
    assert [finding.gate for finding in findings] == ([gate] if gate else [])


@pytest.mark.parametrize(("in_flight", "gate"), [(0.09, None), (0.11, "model-on-time")])
def test_a_lead_may_be_off_by_a_third_of_itself(in_flight, gate):
    """1,000 reads of 64 KiB a second, of 1 ms each: a lead of 100 + 200 us is 30 %."""
    times = {"mean_ns": 1e6, "p99_ns": 1_000_000}
    account = {**GOOD, "reads": 10_000, "read_bytes": 10_000 << 16, "modelled": times}
    account |= {"replied": {"mean_ns": 1e6, "p99_ns": 700_000}, "hidden_mean": in_flight}
    facts = {"tags": 32, "lead_ns": 100_000, "lead_read_per_mib_ns": 3_200_000}
    findings = emulated_facts.findings(account, facts)
    assert [finding.gate for finding in findings] == ([gate] if gate else [])


@pytest.mark.machine
@pytest.mark.alone
def test_the_way_to_the_model_is_made_up_for(control):
    device = control.emulated(Emulation("disk7200", size_bytes=64 * MIB))
    assert device.facts["lead_ns"] == min(device.facts["overhead_ns"], LEAD_MAX_NS) > 0
    late = control.emulated(Emulation("disk7200", size_bytes=64 * MIB, lead_us=0))
    assert late.facts["lead_ns"] == 0


def test_the_commands_of_a_device_can_be_changed(control, tmp_path):
    device = control.emulated(Emulation("disk7200", size_bytes=64 * MIB))
    queue = owned.SYS_BLOCK / Path(device.path).name / "queue"
    together = threading.Barrier(40)

    def read_far(number):
        """Random places, so that the disk does not answer from its cache."""
        together.wait()
        for turn in range(3):
            read_once(device.path, (number * 13 + turn * 29) % 64 * MIB)

    for commands, tags, scheduler in (
        (1, 4, "mq-deadline"), (4, 4, "none"), (32, 32, "none"), (8, 8, "mq-deadline")
    ):  # fmt: skip
        device.hold(commands)
        control.set_scheduler(device.path, scheduler)
        device.mark()
        readers = [threading.Thread(target=read_far, args=(number,)) for number in range(40)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert (device.facts["queue_depth"], device.facts["tags"]) == (commands, tags)
        assert device.facts["served_in_order"] is (commands < 4)
        account = device.account()
        assert (account["reads"], account["depth_max"]) == (120, tags), commands
    assert (queue / "scheduler").read_text().split("[")[1].startswith("mq-deadline")


@pytest.mark.parametrize(("commands", "steps"), [(8, "6 8 7 8"), (1, "6 4 5 4")])
def test_a_candidate_that_sets_the_tags_leaves_those_of_the_model(
    control, tmp_path, monkeypatch, commands, steps
):
    device = control.emulated(Emulation(fixed(tmp_path, "4ms"), None, queue_depth=commands))
    written, write = [], knobs.write_value

    def noted(path, text):
        if Path(path).name == "nr_requests":
            written.append(text)
        write(path, text)

    monkeypatch.setattr(knobs, "write_value", noted)
    control.set_scheduler(device.path, "none", {"nr_requests": 6})
    control.set_scheduler(device.path, "mq-deadline")
    assert written == steps.split()


def test_a_dilated_device_has_a_scheduler_with_stretched_times(control, tmp_path):
    model = fixed(tmp_path, "4ms")
    device = control.emulated(Emulation(model, size_bytes=None, dilate=10))
    applied = control.set_scheduler(device.path, "mq-deadline")
    assert applied.queue["iosched/read_expire"] == "5000"  # the kernel's default is 500 ms
    assert control.check() == ()
    applied = control.set_scheduler(device.path, "mq-deadline", {"read_expire": 400})
    assert applied.queue["iosched/read_expire"] == "400"
    assert applied.queue["iosched/write_expire"] == "50000"
    for _ in range(2):  # stays over changes of the scheduler, and is stretched once
        control.set_scheduler(device.path, "none")
    usual = int(applied.queue["wbt_lat_usec"])
    assert usual == 20_000
    assert control.set_scheduler(device.path, "kyber").queue["wbt_lat_usec"] == str(usual)


def test_writeback_is_throttled_as_on_the_disk_that_a_device_says_it_is(control, tmp_path):
    disk = control.emulated(Emulation("disk7200", size_bytes=256 * MIB, queue_depth=4))
    made = (disk, control.scratch(16 * MIB, tmp_path, rotational=True))
    for device in made:
        if "wbt_lat_usec" not in knobs.snapshot(knobs.queue_of(device.path)):
            pytest.skip("needs CONFIG_BLK_WBT")
        found = [control.set_scheduler(device.path, name).queue["wbt_lat_usec"]
                 for name in ("none", "bfq", "mq-deadline")]  # fmt: skip
        assert found == ["75000", "0", "75000"]


def test_a_list_says_emulated():
    facts = Emulation("disk7200", size_bytes=256 * MIB, queue_depth=1, dilate=2).describe()
    assert emulated_facts.describe(facts) == (
        "disk7200, 256 MiB, 4 tags, served in order, dilated ×2, emulated"
    )


def test_doctor_knows_whether_a_device_can_be_emulated(control, state):
    first, *_ = doctor.emulated_devices()
    assert first.found.startswith("yes")
    kept = keeper.up(Emulation("disk7200", 64 * MIB), "shown", state)
    try:
        facts = [fact for fact in doctor.emulated_devices() if kept.path in fact.found]
        assert [fact.command for fact in facts] == ["schedlab device down shown"]
        assert "models up to" in facts[0].follows
    finally:
        keeper.down("shown", state)


def test_a_prediction_is_that_of_the_arithmetic(tmp_path):
    config = Emulation(fixed(tmp_path, "1ms", servers=2), size_bytes=None).device_config()
    job = {"requests": 1000, "depth": 4, "record_bytes": 4096}
    prediction = json.loads(_simulators.emulated_prediction(json.dumps(config), json.dumps(job)))
    # Two servers of 1 ms: 2,000 per second, and four outstanding wait two services each.
    assert prediction["iops"] == pytest.approx(2000, rel=0.01)
    assert prediction["mean_ns"] == pytest.approx(2e6, rel=0.01)


def test_writing_back_under_a_small_memory_limit_does_not_hang(control, tmp_path):
    """The server is outside the workload's cgroup, so it can free what the workload waits for."""
    refusals = []
    for root, limit in ((None, "max"), (Path("/sys/fs/cgroup/memory"), "limit_in_bytes")):
        try:
            group = control.cgroup("small", root=root)
            (group / f"memory.{limit}").write_text(str(64 * MIB))
            break
        except (HostError, OSError) as error:
            refusals.append(str(error))
    else:
        pytest.skip(f"needs the memory controller of cgroups: {refusals}")
    device = control.emulated(Emulation(fixed(tmp_path, "4ms"), size_bytes=None))
    script = "import sys\nfor i in range(15): open(sys.argv[1], 'r+b').write(bytes(4 << 20))"
    enter = f'echo $$ > {group}/cgroup.procs; exec "$@"'
    command = ["/bin/sh", "-c", enter, "sh", sys.executable, "-c", script, device.path]
    result = subprocess.run(command, timeout=60, check=False)
    assert result.returncode == 0
