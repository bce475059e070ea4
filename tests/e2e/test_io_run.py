"""`schedlab io run` when things go wrong: flipped bytes, full disks, devices that vanish."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from loops import needs_root

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


@pytest.fixture
def io_run(tmp_path):
    """`io run WORDS`; (exit code, stdout, stderr)."""

    def run(*words):
        state = {"SCHEDLAB_STATE_DIR": str(tmp_path / "state"), "PYTHONPATH": str(ROOT / "python")}
        result = subprocess.run(
            [sys.executable, "-m", "schedlab", "io", "run", *map(str, words)],
            env={**os.environ, **state}, text=True, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        return result.returncode, result.stdout, result.stderr

    return run


def test_one_flipped_byte_is_found(tmp_path, io_run):
    file = tmp_path / "F"
    words = ["--file", file, "--record", "4k", "--verify", "--seed", 3]
    code, _, err = io_run("--test", "write", "--size", "1M", *words)
    assert code == 0, err
    assert io_run("--test", "read", *words)[0] == 0
    data = bytearray(file.read_bytes())
    data[5 * 4096 + 777] ^= 1
    file.write_bytes(data)
    code, out, err = io_run("--test", "randread", *words)
    assert code == 1
    assert "1 records do not match" in err
    assert str(5 * 4096) in err
    code, out, _ = io_run("--test", "read", *words, "--json")
    assert code == 1
    assert json.loads(out)["groups"][0]["first_mismatch"]["offset"] == 5 * 4096


@needs_root
def test_a_disk_without_room_is_an_error_that_leaves_no_file(small_disk, io_run):
    code, _, err = io_run("--test", "write", "--file", small_disk / "F", "--size", "64M")
    assert code == 2
    assert "hint: " in err
    assert "Traceback" not in err
    assert list(small_disk.iterdir()) == []


@pytest.fixture
def loop(tmp_path):
    """A loop device of 16 MiB and its backing file, which may be taken away."""
    backing = tmp_path / "disk.img"
    backing.write_bytes(os.urandom(16 * MIB))
    attach = ["losetup", "--find", "--show", backing]
    result = subprocess.run(attach, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"needs loop devices: {result.stderr.strip()}")
    device = result.stdout.strip()
    yield device, backing
    subprocess.run(["losetup", "--detach", device], check=True)


@needs_root
@pytest.mark.parametrize("end", ["ends", "killed"])
def test_what_it_leaves_on_a_device_counts_as_ours_next_time(tmp_path, io_run, loop, end):
    """Without a note, the second run would refuse its own data as data of unknown origin."""
    device, backing = loop
    backing.write_bytes(bytes(16 * MIB))
    words = ["--file", device, "--record", "4k", "--destroy-data", device, "--overwrite"]
    if end == "ends":
        code, _, err = io_run("--test", "write", "--size", "1M", *words)
        assert code == 0, err
    else:
        command = [sys.executable, "-m", "schedlab", "io", "run", "--test", "random-write"]
        state = {**os.environ, "SCHEDLAB_STATE_DIR": str(tmp_path / "state")}
        process = subprocess.Popen([*command, "--seconds", "60", *words], env=state)
        statistics = Path("/sys/block", Path(device).name, "stat")
        deadline = time.monotonic() + 60
        while int(statistics.read_text().split()[4]) < 10 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.wait()
    code, _, err = io_run("--test", "random-write", "--size", "1M", *words)
    assert code == 0, err
    with Path(device).open("r+b") as foreign:
        foreign.write(b"a file of another program")
    code, _, err = io_run("--test", "write", "--size", "1M", *words)
    assert (code, "data of unknown origin" in err) == (2, True)


@needs_root
@pytest.mark.parametrize("engine", [["--depth", 8], ["--engine", "psync"]])
def test_a_device_that_vanishes_is_counted_and_ends_the_load(loop, io_run, engine):
    device, backing = loop
    vanish = threading.Timer(1.5, os.truncate, [backing, 0])
    vanish.start()
    words = ["--test", "randread", "--file", device, "--seconds", 60, "--direct", "--json"]
    code, out, err = io_run(*words, *engine)
    vanish.join()
    assert code == 1, err
    group = json.loads(out)["groups"][0]
    assert group["error_counts"].get("EIO", 0) >= 1
    assert group["first_error"]["path"] == device
    assert group["workers"][0]["stopped_by"] == "errors"
    assert group["elapsed_ns"] < 50e9


def test_a_closed_loop_says_what_its_percentiles_cannot_show(tmp_path, io_run):
    words = ["--test", "read", "--file", tmp_path / "F", "--size", "1M"]
    _, out, err = io_run(*words)
    assert "(closed loop)" in out
    assert "--rate can" in err
    _, out, err = io_run(*words, "--rate", 1000)
    assert "from the intended start" in out
    assert "--rate can" not in err
