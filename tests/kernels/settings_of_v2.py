"""Settings that need cgroup v2 or a zoned device, on a distribution's kernel: io.cost beside bfq.

Not found by a plain `pytest`: `make test-kernels` names this file inside its guests.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_devices import NULL_BLOCKS, scsi_disk  # noqa: F401

from schedlab.app.compare.comparison import Load, Place, comparison
from schedlab.app.measure.measure import run
from schedlab.design.candidates import parse_candidate
from schedlab.errors import HostError
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs, settings
from schedlab.nouns import Stopping
from schedlab.run.admitted import Permission
from schedlab.run.candidate_settings import CandidateSettings

CGROUPS = Path("/sys/fs/cgroup")
# The model is slower than the disk, and its rate is fixed: so it alone decides who waits. Twice a
# latency is the period in which io.cost shares out (block/blk-iocost.c: ioc_refresh_period_us);
# with none it is 1 ms, in which the lighter group can never afford one of these requests.
COST = (
    "iocost=none cgroup.io.cost.model='ctrl=user model=linear rbps=1000000000 rseqiops=100 "
    "rrandiops=100 wbps=1000000000 wseqiops=100 wrandiops=100' cgroup.io.cost.qos='enable=1 "
    "ctrl=user rpct=0 rlat=100000 wpct=0 wlat=100000 min=100 max=100'"
)


@pytest.fixture(autouse=True)
def controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    if not (CGROUPS / "io.cost.qos").exists():
        pytest.skip("needs CONFIG_BLK_CGROUP_IOCOST")


def state_of(device: str) -> tuple[dict[str, str], list[str]]:
    """Everything in `queue/`, and the device's lines of io.cost."""
    name = Path(device).name
    number = (knobs.SYS_BLOCK / name / "dev").read_text().strip()
    files = ("io.cost.qos", "io.cost.model")
    lines = [knobs.read_value(CGROUPS / f"{file}@{number}") for file in files]
    return knobs.snapshot(knobs.queue_of(device)), lines


def test_io_cost_is_set_read_back_and_restored(scsi_disk: str) -> None:  # noqa: F811
    before, name = state_of(scsi_disk), Path(scsi_disk).name
    cost, plain = parse_candidate(COST), parse_candidate("none")
    with Control() as control:
        hosts = CandidateSettings(control, (name,), (cost, plain))
        for _ in range(2):
            effective, _ = hosts.apply(cost)
            assert "enable=1" in effective["cgroup.io.cost.qos"]
            assert "rrandiops=100" in effective["cgroup.io.cost.model"]
            assert control.check() == ()
            hosts.apply(plain)
            assert state_of(scsi_disk)[1] == before[1]
            assert control.check() == ()
        hosts.apply(cost)
    assert state_of(scsi_disk) == before


def test_io_cost_ends_with_a_killed_session(scsi_disk: str, tmp_path: Path) -> None:  # noqa: F811
    before = state_of(scsi_disk)
    code = (
        "import os, signal, sys\n"
        "from schedlab.design.candidates import parse_candidate\n"
        "from schedlab.host.safety.control import Control\n"
        "from schedlab.run.candidate_settings import CandidateSettings\n"
        "control = Control(); control.__enter__()\n"
        "candidate = parse_candidate(sys.argv[2])\n"
        "CandidateSettings(control, (sys.argv[1],), (candidate,)).apply(candidate)\n"
        "print(open('/sys/fs/cgroup/io.cost.qos').read(), flush=True)\n"
        "os.kill(0, signal.SIGKILL)\n"
    )
    owner = subprocess.run(
        [sys.executable, "-c", code, Path(scsi_disk).name, COST],
        check=False, capture_output=True, text=True, start_new_session=True,
    )  # fmt: skip
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    assert "enable=1" in owner.stdout
    subprocess.run([sys.executable, "-m", "schedlab", "recover"], check=True)
    assert state_of(scsi_disk) == before


def test_weights_are_kept_by_io_cost_and_bfq(scsi_disk: str, tmp_path: Path) -> None:  # noqa: F811
    """Weights 8 : 1: under none both readers get half."""
    asked = comparison(
        Place(device=scsi_disk, read_only=True), Load(seconds=8), families=("weights",),
        candidates=("none", "bfq:low_latency=0", COST), objective="fairness", aa_arm=False, seed=1,
        stopping=Stopping(blocks=1),
    )  # fmt: skip
    result = run(asked, tmp_path / "out", permission=Permission(in_use=True))
    shares: dict[str, list[float]] = {}
    for each in result.folder.runs():
        if each.workload == "weights 8 : 1":
            shares.setdefault(each.candidate, []).append(each.properties["share_reached"])
    reached = {name: round(statistics.median(values), 3) for name, values in shares.items()}
    print(reached, {r.candidate: r.metrics["throughput_bytes_per_s"]
                    for r in result.folder.runs()})  # fmt: skip
    # An emulated processor beside other work: far from each other, and nearer is not known.
    assert abs(reached["none"] - 0.5) < 0.2, reached
    assert abs(reached["iocost"] - 8 / 9) < 0.15, reached


@pytest.fixture
def zoned_device() -> Iterator[str]:
    """A zoned null_blk device of 64 MiB with zones of 4 MiB."""
    if not NULL_BLOCKS.exists():
        subprocess.run(["mount", "-t", "configfs", "configfs", "/sys/kernel/config"], check=True)
    device = NULL_BLOCKS / "nullb8"
    device.mkdir()
    if not (device / "zoned").exists():
        device.rmdir()
        pytest.skip("this null_blk has no zones")
    for name, value in {"size": 64, "zoned": 1, "zone_size": 4, "memory_backed": 1,
                        "power": 1}.items():  # fmt: skip
        (device / name).write_text(str(value))
    yield "/dev/nullb8"
    (device / "power").write_text("0")
    device.rmdir()


def test_a_zoned_device_takes_none_from_linux_6_10_on(zoned_device: str) -> None:
    queue = knobs.queue_of(zoned_device)
    assert knobs.read_value(queue / "zoned") == "host-managed"
    major, minor = map(int, re.findall(r"\d+", platform.release())[:2])
    if (major, minor) < (6, 10):
        with pytest.raises(HostError, match="zoned device"):
            settings.refuse_zoned(queue, "none")
        return
    settings.refuse_zoned(queue, "none")
    with Control() as control:
        assert control.set_scheduler(zoned_device, "none").scheduler == "none"
        with Path(zoned_device).open("r+b", buffering=0) as opened:
            assert os.write(opened.fileno(), bytes(4096)) == 4096
