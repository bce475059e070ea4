"""The guide to live loads: its example, word by word."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loops import needs_root

from schedlab.host.safety.owned import wait_until
from schedlab.host.settings import knobs
from schedlab.store.folder import Folder

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "live.md"


def example():
    """The block of commands of the section `Try it`."""
    section = GUIDE.read_text().partition("## Try it")[2].partition("\n## ")[0]
    return "\n".join(re.findall(r"^    (.*)$", section, re.MULTILINE))


def device_of(image):
    """The loop device of a file."""
    listing = ["losetup", "--noheadings", "-O", "NAME", "-j", str(image)]
    return subprocess.run(listing, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.sampled(3)
@needs_root
def test_the_example_gives_an_answer_and_restores_the_device(tmp_path):
    shutil.copy(ROOT / "docs" / "guides" / "examples" / "sqlite_commits.py", tmp_path)
    environment = {
        **os.environ, "SCHEDLAB_STATE_DIR": str(tmp_path / "state"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    shell = subprocess.Popen(
        ["bash", "-c", f"set -eu\n{example()}"], cwd=tmp_path, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        answer, errors = shell.communicate()
        assert shell.returncode == 0, errors
        assert "bfq" in answer
        runs = Folder.open(tmp_path / "live-result").runs()
        assert sum(run.status == "ok" for run in runs) == 36
        device = device_of(tmp_path / "live.img")
        host = json.loads((tmp_path / "live-result" / "host.json").read_text())
        # A free loop device may carry the scheduler of its last use.
        found = host["devices"][Path(device).name]["queue"]["scheduler"]
        assert knobs.read_value(knobs.scheduler_file(device)) == found
    finally:
        os.killpg(shell.pid, signal.SIGKILL)  # the load, which the shell left behind
        mount, device = tmp_path / "live-mount", device_of(tmp_path / "live.img")
        unmounting = ["umount", str(mount)]
        assert wait_until(lambda: subprocess.run(unmounting, check=False).returncode == 0, 30)
        subprocess.run(["losetup", "-d", device], check=True)
