"""Devices that only a distribution's kernel has: several hardware queues, and a known delay.

Not found by a plain `pytest`: `make test-kernels` names this file inside its guests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedlab import _core
from schedlab.host.emulated.emulated import Emulation
from schedlab.host.safety.control import Control

NULL_BLOCKS = Path("/sys/kernel/config/nullb")
DELAY_NS = 2_000_000


@pytest.fixture
def slow_device() -> Iterator[str]:
    """A null_blk device of 64 MiB with two hardware queues that completes after 2 ms."""
    if not NULL_BLOCKS.exists():
        subprocess.run(["mount", "-t", "configfs", "configfs", "/sys/kernel/config"], check=True)
    device = NULL_BLOCKS / "nullb7"
    device.mkdir()
    settings = {
        "size": 64,
        "submit_queues": 2,
        "poll_queues": 0,
        "irqmode": 2,
        "completion_nsec": DELAY_NS,
    }
    for name, value in (settings | {"hw_queue_depth": 32, "power": 1}).items():
        (device / name).write_text(str(value))
    yield "/dev/nullb7"
    (device / "power").write_text("0")
    device.rmdir()


@pytest.fixture
def scsi_disk() -> str:
    """The disk of the scsi_debug module, which delays each command by 2 ms."""
    for name in Path("/sys/block").iterdir():
        model = name / "device" / "model"
        if model.exists() and "scsi_debug" in model.read_text():
            return f"/dev/{name.name}"
    pytest.fail("scsi_debug made no disk")


def median_read_ns(device: str) -> int:
    """The median latency of single random reads of 4 KiB, in ns."""
    workload = {
        "pattern": {"kind": "random"},
        "direction": {"kind": "read"},
        "record": 4096,
        "span": 32 << 20,
        "arrivals": {"kind": "closed", "depth": 1},
        "seed": 5,
    }
    group = {"name": "g", "path": device, "engine": "psync", "workload": workload, "direct": True}
    job = json.dumps({"seconds": 2.0, "groups": [group]})
    reads: dict[str, Any] = json.loads(_core.run_io_job(job))["groups"][0]["reads"]
    half, seen = reads["latency"]["count"] / 2, 0
    for low, _, count in reads["latency"]["bins"]:
        seen += count
        if seen >= half:
            return int(low)
    raise AssertionError("no reads")


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "kyber", "bfq"])
def test_a_known_delay_is_measured_under_each_scheduler(
    slow_device: str, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    with Control() as control:
        applied = control.set_scheduler(slow_device, scheduler)
        assert applied.scheduler == scheduler
        assert DELAY_NS * 0.95 <= median_read_ns(slow_device) <= DELAY_NS * 2


def test_a_disk_of_scsi_has_its_delay(scsi_disk: str) -> None:
    assert DELAY_NS * 0.95 <= median_read_ns(scsi_disk) <= DELAY_NS * 3


def test_several_hardware_queues_are_put_back_after_sigkill(
    slow_device: str, tmp_path: Path
) -> None:
    """The owner is killed with bfq set; `recover` restores what was before."""
    queue = Path("/sys/block/nullb7/queue")
    assert len(list(Path("/sys/block/nullb7/mq").iterdir())) == 2
    before = (queue / "scheduler").read_text()
    environment = {**os.environ, "SCHEDLAB_STATE_DIR": str(tmp_path / "state")}
    code = (
        "import os, signal\n"
        "from schedlab.host.safety.control import Control\n"
        "control = Control(); control.__enter__()\n"
        "control.set_scheduler('/dev/nullb7', 'bfq', {'nr_requests': 40})\n"
        "print(open('/sys/block/nullb7/queue/scheduler').read(), flush=True)\n"
        "os.kill(0, signal.SIGKILL)\n"
    )
    owner = subprocess.run(
        [sys.executable, "-c", code],
        env=environment, check=False, capture_output=True, text=True, start_new_session=True,
    )  # fmt: skip
    assert owner.returncode == -signal.SIGKILL
    assert "[bfq]" in owner.stdout
    recover = [sys.executable, "-m", "schedlab", "recover"]
    subprocess.run(recover, env=environment, check=True)
    assert (queue / "scheduler").read_text() == before


def test_an_emulated_device_keeps_data_and_takes_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slowed by 60: a guest without hardware support serves a thirtieth of what a host does."""
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    with Control() as control:
        device = control.emulated(Emulation("sd-card", size_bytes=64 << 20, dilate=60))
        assert control.set_scheduler(device.path, "mq-deadline").scheduler == "mq-deadline"
        data = os.urandom(64 << 10)
        began = time.monotonic()
        with Path(device.path).open("r+b") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        control.drop_caches()
        with Path(device.path).open("rb") as file:
            assert file.read(len(data)) == data
        assert time.monotonic() - began > 0.06  # two requests of about a millisecond, slowed by 60
    assert not Path(f"/sys/block/{Path(device.path).name}/loop").exists()
