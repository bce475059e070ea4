"""A comparison on a mounted file system switches the disk below a partition, when that is named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from device_states import partition_mounted
from loops import loop_device, needs_root

pytestmark = needs_root


@pytest.fixture
def disk(tmp_path):
    """(name of the disk, directory on its only partition)"""
    with loop_device(tmp_path / "disk.img") as device, partition_mounted(device, tmp_path):
        mounted = next(line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()
                       if line.startswith(f"{device}p1 "))  # fmt: skip
        yield Path(device).name, mounted


def compare(tmp_path, directory, *words):
    load = ("--tests", "read", "--records", "16k", "--seconds", "30ms", "--blocks", "1")
    command = [sys.executable, "-m", "schedlab", "compare", "--directory", directory, "--size",
               "1M", "--schedulers", "none,bfq", *load, "--out", "r", "--json", *words]  # fmt: skip
    environment = {**os.environ, "SCHEDLAB_STATE_DIR": str(tmp_path / "state")}
    return subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )


def test_the_disk_below_a_partition_is_switched_and_put_back(disk, tmp_path):
    name, directory = disk
    scheduler = Path(f"/sys/block/{name}/queue/scheduler")
    before = scheduler.read_text()
    result = compare(tmp_path, directory, "--switch", name)
    assert result.returncode == 0, result.stderr
    runs = [json.loads(line) for line in (tmp_path / "r" / "runs.jsonl").read_text().splitlines()]
    text = (tmp_path / "r" / "runs.jsonl").read_text()
    assert {run["candidate"] for run in runs} >= {"none", "bfq"}
    assert '"bfq"' in text
    assert scheduler.read_text() == before
    assert [path for path in Path(directory).iterdir() if path.name != "lost+found"] == []


@pytest.mark.parametrize("named", [None, "vda", "{name}p1,{name},vda"])
def test_a_disk_that_is_not_named_or_not_below_is_refused(disk, tmp_path, named):
    name, directory = disk
    before = Path(f"/sys/block/{name}/queue/scheduler").read_text()
    words = ("--switch", named.format(name=name)) if named else ()
    result = compare(tmp_path, directory, *words)
    assert result.returncode == 2
    assert f"hint: name the queue that may be switched: --switch {name}" in result.stderr or (
        f"hint: --switch {name}" in result.stderr
    )
    assert Path(f"/sys/block/{name}/queue/scheduler").read_text() == before
