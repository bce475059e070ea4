"""A comparison on a mounted file system switches the disk below a partition, when that is named."""

import json
from pathlib import Path

import pytest
from device_states import partition_mounted
from loops import loop_device, needs_root
from processes import ended

pytestmark = needs_root


@pytest.fixture
def disk(tmp_path, state, monkeypatch):
    """(name of the disk, directory on its only partition)"""
    monkeypatch.chdir(tmp_path)
    with loop_device(tmp_path / "disk.img") as device, partition_mounted(device, tmp_path):
        mounted = next(line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()
                       if line.startswith(f"{device}p1 "))  # fmt: skip
        yield Path(device).name, mounted


def compare(directory, *words):
    load = ("--tests", "read", "--records", "16k", "--seconds", "30ms", "--blocks", "1")
    return ended("compare", "--directory", directory, "--size", "1M", "--schedulers", "none,bfq",
                 *load, "--out", "r", "--json", *words)  # fmt: skip


def test_the_disk_below_a_partition_is_switched_and_put_back(disk, tmp_path):
    name, directory = disk
    scheduler = Path(f"/sys/block/{name}/queue/scheduler")
    before = scheduler.read_text()
    code, _, err = compare(directory, "--switch", name)
    assert code == 0, err
    runs = [json.loads(line) for line in (tmp_path / "r" / "runs.jsonl").read_text().splitlines()]
    text = (tmp_path / "r" / "runs.jsonl").read_text()
    assert {run["candidate"] for run in runs} >= {"none", "bfq"}
    assert '"bfq"' in text
    assert scheduler.read_text() == before
    assert [path for path in Path(directory).iterdir() if path.name != "lost+found"] == []


@pytest.mark.parametrize("named", [None, "vda", "{name}p1,{name},vda"])
def test_a_disk_that_is_not_named_or_not_below_is_refused(disk, named):
    name, directory = disk
    before = Path(f"/sys/block/{name}/queue/scheduler").read_text()
    words = ("--switch", named.format(name=name)) if named else ()
    code, _, err = compare(directory, *words)
    assert code == 2
    hints = (
        f"hint: {words}--switch {name}" for words in ("", "name the queue that may be switched: ")
    )
    assert any(hint in err for hint in hints)
    assert Path(f"/sys/block/{name}/queue/scheduler").read_text() == before
