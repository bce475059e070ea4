"""Switching a device in use, where the truth is known: a limit set by the scheduler's name."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_load import throttled_reader

from schedlab.app.admit import admit
from schedlab.app.live import live
from schedlab.app.measure import measure
from schedlab.design.candidates import parse_candidates
from schedlab.errors import HostError, SpecError
from schedlab.host.safety.owned import wait_until
from schedlab.host.settings import knobs
from schedlab.run.admitted import Permission
from schedlab.store.folder import Folder

pytestmark = pytest.mark.usefixtures("state")
MIB = 1 << 20
WRITER = """
import mmap, os, sys, time
file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR | os.O_DIRECT)
buffer = mmap.mmap(-1, 1 << 17)
while True:
    for place in range(16):
        os.pwritev(file, [buffer], place << 17)
        time.sleep(0.01)
"""


@pytest.fixture
def filled(new_loop):
    """A loop device with data, so that the disk below is read."""
    device = new_loop(64 * MIB)
    with Path(device).open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(MIB))
    return device


def scheduler_of(device):
    return knobs.read_value(knobs.scheduler_file(device))


def live_command(device, folder, *options, every="3s", length="108s"):
    return [
        sys.executable, "-m", "schedlab", "live", device, "--schedulers", "none,bfq",
        "--every", every, "--for", length, "--wash-out", "100ms", "--yes", "--out", str(folder),
        *options,
    ]  # fmt: skip


def asked(device, blocks=12, **more):
    """Periods of 1 s under none and bfq."""
    more = {"every_s": 1.0, "for_s": 3.0 * blocks, "wash_out_s": 0.1, **more}
    return live.LiveRequest(Path(device), parse_candidates("none,bfq"), **more)


def periods_by_candidate(device, cgroup, folder, blocks=12):
    """(candidate -> mean read latencies of its periods, events lost); bfq's take twice as long."""
    question = asked(device, blocks)
    knobs.write_value(knobs.scheduler_file(device), "kyber")
    with throttled_reader(device, cgroup, {"none": 200, "bfq": 100, "kyber": 200,
                                           "mq-deadline": 200}):  # fmt: skip
        experiment = live.prepared(question, lambda line: None)
        assert scheduler_of(device) == "kyber"
        admitted = admit(experiment, Permission(in_use=True))
        result = measure.measure(admitted, measure.create(admitted, folder))
    assert scheduler_of(device) == "kyber"
    (workload,) = experiment.workloads
    assert workload.metric == "read_latency_ns_mean"
    means = {"none": [], "bfq": [], "none (A/A)": []}
    for run in result.record.analysed_runs:
        means[run.candidate].append(run.metrics[workload.metric])
    return means, sum(run.properties["lost"] for run in result.record.analysed_runs)


@pytest.mark.sampled(3)
def test_every_period_is_measured_and_the_setting_returns(filled, cgroup, tmp_path, monkeypatch):
    monkeypatch.setattr(live, "BLOCKS_LEAST", 5)
    means, _ = periods_by_candidate(filled, cgroup, tmp_path / "result", blocks=5)
    assert {label: len(values) for label, values in means.items()} == dict.fromkeys(means, 5)
    assert sorted(means["bfq"])[2] > sorted(means["none"])[2]


@pytest.mark.machine
def test_a_known_ratio_is_found(filled, cgroup, tmp_path):
    """Twice as long under bfq, by the limit; the A/A arm, reached over another scheduler, alike."""
    means, lost = periods_by_candidate(filled, cgroup, tmp_path / "result")
    assert lost == 0
    usual = {label: sorted(values)[6] for label, values in means.items()}
    assert usual["bfq"] / usual["none"] == pytest.approx(2.0, rel=0.1)
    assert usual["none (A/A)"] / usual["none"] == pytest.approx(1.0, rel=0.1)


@pytest.mark.sampled(3)
def test_a_foreign_switch_repeats_its_period_and_a_load_that_stops_ends_it(
    filled, cgroup, tmp_path
):
    question = asked(filled)
    limits = dict.fromkeys(("none", "bfq", "kyber", "mq-deadline"), 200)
    folder, seen = tmp_path / "result", []
    with throttled_reader(filled, cgroup, limits) as reader:
        experiment = live.prepared(question, lambda line: None)

        def see(second):
            seen.append(second)
            if len(seen) == 3:
                knobs.write_value(knobs.scheduler_file(filled), "kyber")
            if len(seen) == 7:
                reader.kill()

        admitted = admit(experiment, Permission(in_use=True))
        with pytest.raises(HostError, match="the load has stopped: nothing used"):
            measure.measure(admitted, measure.create(admitted, folder),
                            observer=measure.Observer(see=see))  # fmt: skip
    assert scheduler_of(filled) == "none"
    assert seen[0].passed_s >= seen[0].period_s  # guards look at the whole period
    runs = Folder.open(folder).runs()
    failed = [[gate.gate for gate in run.gates] for run in runs]
    assert set(failed[2]) == {"knob-changed"} and (runs[2].block, runs[2].position) == (
        runs[3].block, runs[3].position
    )  # fmt: skip
    assert sum(run.status == "ok" for run in runs) >= 5 and failed[-1] == ["no-load"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("slow_from", ["", "block 1/12, run 1/"], ids=["pilot", "period"])
def test_a_guard_restores_the_setting_and_keeps_the_runs(filled, cgroup, tmp_path, slow_from):
    """Under bfq the load becomes slow in the pilot, or after the first period."""
    folder, limits = tmp_path / "result", dict.fromkeys(("none", "kyber", "mq-deadline"), 200)
    limits["bfq"] = 200 if slow_from else 20
    command = live_command(filled, folder, "--guard", "read mean > 25ms for 1s", "--seed", "2")
    with throttled_reader(filled, cgroup, limits), subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True
    ) as owner:  # fmt: skip
        lines = []
        for line in owner.stderr:
            lines.append(line)
            limits["bfq"] = 20 if slow_from and line.startswith(slow_from) else limits["bfq"]
        owner.wait()
        assert scheduler_of(filled) == "none"
    errors = "".join(lines)
    assert owner.returncode == 1, errors
    assert "a guard ended it under bfq: read mean > 25ms for 1s" in errors
    assert "reads/s" in errors  # the last seconds
    assert bool(slow_from) == folder.exists()
    if slow_from:
        assert len(Folder.open(folder).runs()) >= 1


@pytest.fixture
def two_below(new_loop, tmp_path):
    """A file system on two loop devices that a process writes to; (mount, devices, process)."""
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("needs mkfs.btrfs")
    devices, mount = [new_loop(132 * MIB) for _ in range(2)], tmp_path / "mount"
    mount.mkdir()
    making = ["mkfs.btrfs", "-q", "-f", "-d", "raid0", "-m", "raid1", *devices]
    made = [subprocess.run(making, check=False, capture_output=True, text=True)]
    while made[-1].returncode and len(made) < 10:  # another program may look at a device
        time.sleep(0.5)
        made.append(subprocess.run(making, check=False, capture_output=True, text=True))
    assert made[-1].returncode == 0, made[-1].stderr
    mounted = subprocess.run(["mount", devices[0], mount], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"needs to mount btrfs: {mounted.stderr.decode()}")
    writing = [sys.executable, "-c", WRITER, str(mount / "file")]
    with subprocess.Popen(writing) as writer:
        yield mount, devices, writer
        writer.kill()
    subprocess.run(["umount", mount], check=True)


def start_live(*arguments):
    """`schedlab live`, which hears Ctrl-C however the tests were started."""
    words = [sys.executable, "-m", "schedlab", "live", *map(str, arguments), "--every", "1s",
             "--for", "36s", "--wash-out", "100ms", "--yes"]  # fmt: skip
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.sampled(3)
def test_settings_of_all_layers_switch_on_all_queues_and_return(
    two_below, cgroup, tmp_path, request
):
    """A setting of the queues, of a group on both devices and of the machine; killed, or Ctrl-C."""
    mount, devices, writer = two_below
    (cgroup / "cgroup.procs").write_text(str(writer.pid))
    request.addfinalizer(writer.kill)  # before the group goes
    queues, machine = (
        [knobs.queue_of(each) for each in devices],
        Path("/proc/sys/vm/vfs_cache_pressure"),
    )
    limits = [each for each in cgroup.iterdir()
              if each.name in ("io.max", "blkio.throttle.write_iops_device")]  # fmt: skip
    if not limits:
        pytest.skip("this cgroup has no limits of I/O")
    numbers = [knobs.read_value(knobs.SYS_BLOCK / Path(each).name / "dev") for each in devices]

    def now():
        return [knobs.snapshot(each) for each in queues], machine.read_text(), [
            limits[0].read_text()
        ]  # fmt: skip

    def is_set():
        limit = limits[0].read_text()
        return machine.read_text() == "101\n" and all(
            f"{number} " in limit
            and [knobs.read_value(queue / name) for name in ("scheduler", "read_ahead_kb")]
            == ["bfq", "256"]
            for number, queue in zip(numbers, queues, strict=True)
        )

    before, group = now(), cgroup.name
    settings = ("bfq", "read_ahead_kb=256", f"cgroup.{group}.io.max=wiops=5000",
                "sysctl.vm.vfs_cache_pressure=101")  # fmt: skip
    asked = (mount, "--candidate", "a=none", "--candidate", f"b={' '.join(settings)}")
    beyond = ("--switch", f"cgroup.{group}.io.max,sysctl.vm.vfs_cache_pressure")
    unasked = start_live(*asked)
    assert "allow it by its name: --switch" in unasked.communicate()[1]
    owner = start_live(*asked, *beyond)
    assert wait_until(is_set, 120)
    owner.kill()
    owner.communicate()
    assert wait_until(lambda: now() == before, 30)

    folder = tmp_path / "result"
    owner = start_live(*asked, *beyond, "--groups", group, "--out", folder)
    for line in owner.stderr:
        if line.startswith("block 2/12"):
            break
    owner.send_signal(signal.SIGINT)
    answer, _ = owner.communicate()
    assert owner.returncode == 130 and now() == before
    assert f"schedlab live --resume {folder}" in answer
    runs = Folder.open(folder).runs()
    assert len(runs) >= 3 and all(run.metrics[f"{group}_write_latency_ns_mean"] for run in runs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_killed_or_stopped_owner_leaves_the_setting_as_it_was(filled, cgroup, tmp_path, number):
    """In the pilot. Nobody looks at the guards of one that is stopped, so it is killed."""
    limits = {"none": 200, "bfq": 200, "kyber": 200, "mq-deadline": 200}
    soon = "from schedlab.run.live import live as of; of.WATCH_S = of.BETWEEN_S = 5; "
    program = f"{soon}from schedlab.cli import cli; cli()"
    # A pilot that announces itself in time, again.
    words = live_command(filled, tmp_path / "result", every="6s", length="216s")[3:]
    command = [sys.executable, "-c", program, *words]
    with throttled_reader(filled, cgroup, limits):
        owner = subprocess.Popen(command)
        assert wait_until(lambda: scheduler_of(filled) == "bfq", 30)
        owner.send_signal(number)
        assert wait_until(lambda: scheduler_of(filled) == "none", 15)
        assert owner.wait(10) == -signal.SIGKILL


@pytest.mark.sampled(3)
def test_a_baseline_that_trips_its_guard_and_an_idle_device_are_refused(filled, cgroup):
    with pytest.raises(SpecError, match="nothing used it during the pilot"):
        live.prepared(asked(filled), lambda line: None)
    limits = {"none": 50, "bfq": 200, "kyber": 50, "mq-deadline": 50}
    with (
        throttled_reader(filled, cgroup, limits),
        pytest.raises(SpecError, match="none, the baseline, trips a guard itself: read mean"),
    ):
        live.prepared(asked(filled, guards=("read mean > 10ms for 5s",)), lambda line: None)
