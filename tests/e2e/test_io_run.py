"""`schedlab io run` when things go wrong: flipped bytes, full disks, devices that vanish."""

import json
import os
import threading
from pathlib import Path

import pytest
from loops import attached, needs_root
from processes import ended, started

from schedlab.host import owned

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("state")


def io_run(*words):
    """`io run WORDS`; (exit code, stdout, stderr)."""
    return ended("io", "run", *words)


def test_one_flipped_byte_is_found(tmp_path):
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
def test_a_disk_without_room_is_an_error_that_leaves_no_file(small_disk):
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
    with attached(backing) as device:
        yield device, backing


@needs_root
@pytest.mark.parametrize("end", ["ends", "killed"])
def test_what_it_leaves_on_a_device_counts_as_ours_next_time(loop, end):
    """Without a note, the second run would refuse its own data as data of unknown origin."""
    device, backing = loop
    backing.write_bytes(bytes(16 * MIB))
    words = ["--file", device, "--record", "4k", "--destroy-data", device, "--overwrite"]
    if end == "ends":
        code, _, err = io_run("--test", "write", "--size", "1M", *words)
        assert code == 0, err
    else:
        process = started("io", "run", "--test", "random-write", "--seconds", 60, *words)
        statistics = Path("/sys/block", Path(device).name, "stat")
        assert owned.wait_until(lambda: int(statistics.read_text().split()[4]) >= 10, 60)
        process.kill()
        process.communicate()
    code, _, err = io_run("--test", "random-write", "--size", "1M", *words)
    assert code == 0, err
    with Path(device).open("r+b") as foreign:
        foreign.write(b"a file of another program")
    code, _, err = io_run("--test", "write", "--size", "1M", *words)
    assert (code, "data of unknown origin" in err) == (2, True)


@needs_root
@pytest.mark.parametrize("engine", [["--depth", 8], ["--engine", "psync"]])
def test_a_device_that_vanishes_is_counted_and_ends_the_load(loop, engine):
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


def test_a_closed_loop_says_what_its_percentiles_cannot_show(tmp_path):
    words = ["--test", "read", "--file", tmp_path / "F", "--size", "1M"]
    _, out, err = io_run(*words)
    assert "(closed loop)" in out
    assert "--rate can" in err
    _, out, err = io_run(*words, "--rate", 1000)
    assert "from the intended start" in out
    assert "--rate can" not in err
