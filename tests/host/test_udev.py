"""`apply --persist` with a real udev daemon, in separate mount and network namespaces.

Kernel events reach every network namespace, so the daemon acts on the real loop device; its rules
and its state are on a tmpfs that only it sees. Where udev is not installed, one is unpacked for the
tests (tests/unpack).
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("udev_reboot.py")
WAIT_S = 90


@pytest.fixture
def udevadm():
    unpacked = Path(__file__).parents[2] / "target" / "udev" / "bin" / "udevadm"
    path = shutil.which("udevadm", path="/usr/bin:/bin:/usr/sbin:/sbin")
    if path is None and unpacked.exists():
        return str(unpacked)
    if path is None:
        pytest.skip("needs udev: apt-get install udev, or tests/unpack udev udevadm target/udev")
    return path


@pytest.fixture
def mount_points():
    """The two directories must be there; what is made for it goes again."""
    missing = [path for path in map(Path, ("/etc/udev", "/run/udev")) if not path.exists()]
    for path in missing:
        path.mkdir()
    yield
    for path in missing:
        path.rmdir()


def test_a_rule_acts_at_boot_loses_to_a_later_one_and_goes(loop, state, udevadm, mount_points):
    command = ["unshare", "--mount", "--net", sys.executable, str(PROGRAM), loop, udevadm]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    if result.returncode and "unshare" in result.stderr:
        pytest.skip(f"needs namespaces: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert seen["without us"]["scheduler"] == "kyber"
    for when in ("applied", "after a boot", "again"):
        queue = seen[when]
        assert (queue["scheduler"], queue["iosched/low_latency"]) == ("bfq", "0"), when
    # The dry run foretells what udev then does, with our rule among the others.
    assert any("60-distribution.rules:1 (kyber)" in line for line in seen["planned"])
    assert not any(" wins " in line for line in seen["planned"])
    assert any("99-conflict.rules:1 wins" in line for line in seen["planned beside a conflict"])
    assert seen["status"] == "bfq (90-schedlab.rules)"
    assert seen["with a conflict"]["scheduler"] == "mq-deadline"
    assert any("99-conflict.rules:1 wins" in line for line in seen["warnings"])
    assert any("60-distribution.rules:1 (kyber)" in line for line in seen["said"])
    assert not any("does not run" in line for line in seen["said"])
    assert seen["same queue"]
    assert seen["same rules"]
    assert seen["undone and booted"]["scheduler"] == "kyber"
