"""host.json, and the io verbs, on this machine."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest

import schedlab as schedlab_package
from schedlab.host import facts
from schedlab.host.settings import knobs


@pytest.fixture(scope="module")
def nobody():
    """`python -m schedlab` as user 65534, from a copy and by a Python that it may run."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        where = Path(name)
        where.chmod(0o755)
        for module in (schedlab_package, click):
            source = Path(module.__file__).parent
            ignore = shutil.ignore_patterns("*.so", "__pycache__")
            shutil.copytree(source, where / source.name, ignore=ignore)
        subprocess.run(["chmod", "-R", "go+rX", name], check=True)
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
            command = [*drop, "env", f"PYTHONPATH={name}", f"XDG_RUNTIME_DIR={name}/run", python]
            (where / "run").mkdir(mode=0o777, exist_ok=True)
            (where / "run").chmod(0o777)
            result = subprocess.run([*command, "-m", "schedlab", "--version"], check=False)
            if result.returncode == 0:
                yield [*command, "-m", "schedlab"]
                return
    pytest.skip("user 65534 may run no Python >= 3.11 on this machine")


def test_facts_are_json_and_hold_what_decides_a_measurement(tmp_path):
    host = json.loads(json.dumps(facts.collect(tmp_path)))
    assert host["kernel"]["release"] == os.uname().release
    assert host["ticks_per_second"] in (100, 250, 300, 1000, 1024)
    assert host["cpu"]["online"] >= 1
    assert host["memory"]["MemTotal_bytes"] > 0
    assert host["target"]["mount"]["target"]
    assert 0 < host["target"]["free_bytes"] < shutil.disk_usage(tmp_path).total
    assert host["versions"]["schedlab"]
    for device in host["devices"].values():
        assert device["queue"]["scheduler"] in device["schedulers"]


def test_facts_hold_the_whole_queue_of_the_device(loop):
    name = Path(loop).name
    host = facts.collect(loop, [name])
    assert host["devices"][name]["queue"] == knobs.snapshot(knobs.queue_of(loop))
    assert host["devices"][name]["size_bytes"] == 16 << 20
    assert host["target"] == {"device": name}


def test_a_device_that_is_removed_meanwhile_is_left_out(loop):
    there = Path(loop).name
    assert list(facts.collect(device_names=[there, "loop-removed"])["devices"]) == [there]


def test_without_root_there_is_one_clear_message(nobody, loop, monkeypatch):
    monkeypatch.delenv("SCHEDLAB_STATE_DIR", raising=False)
    codes = []
    commands = (["io", "set", "bfq", loop], ["io", "get"], ["io", "list"], ["recover"], ["doctor"])
    for arguments in commands:
        result = subprocess.run(
            [*nobody, *arguments], capture_output=True, text=True, check=False, timeout=60
        )
        assert "Traceback" not in result.stderr
        codes.append(result.returncode)
        if arguments[1:2] == ["set"]:
            assert "Permission denied" in result.stderr
            assert "hint: " in result.stderr and "sudo" in result.stderr
            assert "without root: schedlab " in result.stderr
    assert codes == [2, 0, 0, 0, 0]


def test_the_state_directory_of_another_user_is_a_clear_error(nobody, state):
    state.mkdir(mode=0o700)
    (state / "session-1-1.jsonl").write_text("{}\n", encoding="ascii")
    for arguments in (["recover"], ["io", "get"], ["doctor"], ["io", "set", "none", "loop0"]):
        result = subprocess.run(
            [*nobody, *arguments], capture_output=True, text=True, check=False, timeout=60
        )
        assert "Traceback" not in result.stderr
        assert result.returncode == (0 if arguments == ["doctor"] else 2)


def test_read_only_sysfs_is_a_clear_error(state, loop):
    program = 'mount -o remount,ro,bind /sys && exec "$0" -m schedlab io set bfq "$1"'
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", program, sys.executable, loop],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    assert "Read-only file system" in result.stderr


def test_one_device_of_several_that_reports_free_pages_is_enough(tmp_path):
    for name, bits in {"virtio0": "110000", "virtio3": "000001", "virtio7": ""}.items():
        (tmp_path / "virtio_balloon" / name).mkdir(parents=True)
        assert not facts.free_pages_reported(tmp_path)
        (tmp_path / "virtio_balloon" / name / "features").write_text(bits)
        if "1" in bits[5:]:
            break
    assert facts.free_pages_reported(tmp_path)
