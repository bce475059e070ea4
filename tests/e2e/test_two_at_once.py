"""Two commands at the same time on one host: different devices, the same device, one sysctl."""

import subprocess
from pathlib import Path

import pytest
from loops import loop_device, needs_root
from processes import started

from schedlab.host.safety import owned

RR_KNOB = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
WAIT_S = 120
LONG = ("--tests", "read", "--records", "64k", "--seconds", "50ms", "--blocks", "400")
SHORT = ("--tests", "read", "--records", "64k", "--seconds", "30ms", "--blocks", "1")
pytestmark = needs_root


@pytest.fixture
def start(tmp_path, state, disks, monkeypatch):
    """Start a command; all of a test share one state directory and end before its disks."""
    monkeypatch.chdir(tmp_path)
    running = []

    def begin(*words, log="err"):
        with (tmp_path / log).open("w") as err:
            running.append(started(*words, stdout=subprocess.DEVNULL, stderr=err))
        return running[-1]

    yield begin
    for process in running:
        if process.poll() is None:
            process.terminate()
        process.wait(WAIT_S)


@pytest.fixture
def disks(tmp_path):
    with loop_device(tmp_path / "a.img") as one, loop_device(tmp_path / "b.img") as other:
        yield [one, other]


def until_measuring(process, folder):
    """Its first run is stored, so that it has what it changes."""
    runs = folder / "runs.jsonl"

    def has_begun():
        return process.poll() is not None or (runs.exists() and runs.stat().st_size > 0)

    assert owned.wait_until(has_begun, WAIT_S)
    assert process.poll() is None, "it ended early"


def finish(process, tmp_path, log="err"):
    return process.wait(WAIT_S), (tmp_path / log).read_text()


def compare(device, load, out):
    return ("compare", "--device", device, "--schedulers", "none,bfq", *load, "--out", out)


@pytest.mark.sampled(3)
def test_different_devices_are_measured_at_once_and_one_device_by_one(start, disks, tmp_path):
    first, second = disks
    scheduler = Path(f"/sys/block/{Path(first).name}/queue/scheduler")
    before = scheduler.read_text()
    long = start(*compare(first, LONG, "long"), log="long.err")
    until_measuring(long, tmp_path / "long")
    assert finish(start(*compare(second, SHORT, "short")), tmp_path)[0] == 0
    assert long.poll() is None, "the first one still measures"
    code, text = finish(start(*compare(first, SHORT, "same")), tmp_path)
    assert code == 2
    assert f"{first}" in text
    assert f"process {long.pid}" in text
    assert "hint:" in text
    assert "Traceback" not in text
    assert not (tmp_path / "same").exists()
    long.terminate()
    assert finish(long, tmp_path, "long.err")[0] == 130
    assert scheduler.read_text() == before


@pytest.mark.sampled(3)
@pytest.mark.skipif(not RR_KNOB.exists(), reason="this kernel has no round-robin sysctl")
def test_one_sysctl_belongs_to_one(start, disks, tmp_path):
    before = RR_KNOB.read_text()
    sweep = ("cpu", "sweep", "--slices", "10,100", "--processes", "2", "--repeat", "50")
    long = start(*sweep, "--time", "300ms", "--out", "long", log="long.err")
    until_measuring(long, tmp_path / "long")
    code, text = finish(start(*sweep, "--time", "100ms", "--out", "same"), tmp_path)
    assert code == 2
    assert str(RR_KNOB) in text
    assert f"process {long.pid}" in text
    assert "hint:" in text
    long.terminate()
    assert finish(long, tmp_path, "long.err")[0] == 130
    assert RR_KNOB.read_text() == before
