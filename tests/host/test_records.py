"""Recorded loads: counts and bytes are those of the program that sent the requests."""

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab import _core
from schedlab.app.trace.block_io import record_device
from schedlab.cli import cli
from schedlab.errors import SpecError

MIB = 1 << 20


def facts_of(trace):
    return json.loads(_core.trace_stats(str(trace)))["summary"]


def test_counts_and_bytes_are_those_of_fio(loop, tmp_path):
    if shutil.which("fio") is None:
        pytest.skip("needs fio")
    job = [
        "fio", "--name=mix", f"--filename={loop}", "--rw=randrw", "--bsrange=4k-16k", "--direct=1",
        "--iodepth=4", "--ioengine=libaio", "--number_ios=500", "--output-format=json",
        f"--output={tmp_path / 'fio.json'}",
    ]  # fmt: skip
    trace = tmp_path / "load.trace"
    result = record_device(loop, None, job, trace, anonymise=False)
    (fio,) = json.loads((tmp_path / "fio.json").read_text())["jobs"]
    seen = facts_of(trace)
    assert (result["lost"], result["missed"], result["exit_status"]) == (0, 0, 0)
    assert result["unfinished"] == 0
    for operation, requests, size in (
        ("read", seen["reads"], seen["read_bytes"]), ("write", seen["writes"], seen["write_bytes"])
    ):  # fmt: skip
        assert requests == fio[operation]["total_ios"]
        assert size == fio[operation]["io_bytes"]


@pytest.mark.sampled(2)
def test_a_busy_machine_loses_no_request(loop, tmp_path):
    """Some kernels trace no completion in the idle task, most of them where a CPU is fought for."""
    if shutil.which("fio") is None:
        pytest.skip("needs fio")
    job = [
        "fio", "--name=mix", f"--filename={loop}", "--rw=randrw", "--bsrange=4k-16k", "--direct=1",
        "--iodepth=8", "--ioengine=libaio", "--time_based=1", "--runtime=2", "--size=8m",
        "--output-format=json", f"--output={tmp_path / 'fio.json'}",
    ]  # fmt: skip
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6)]
    try:
        result = record_device(loop, None, job, tmp_path / "load.trace", anonymise=False)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    (fio,) = json.loads((tmp_path / "fio.json").read_text())["jobs"]
    sent = fio["read"]["total_ios"] + fio["write"]["total_ios"]
    assert result["records"] == result["arrived"] == sent
    assert result["accounting"]["gap_sectors"] == 0
    marked = [record for record in decoded(tmp_path / "load.trace") if record[75] & 1]
    assert len(marked) == result["untraced"]
    seen = facts_of(tmp_path / "load.trace")
    assert seen["latency_ns"]["count"] == sent - result["untraced"]


def test_a_request_that_the_device_takes_in_parts_is_recorded_once(loop, tmp_path):
    """The kernel says what was split off, and not what is left of the whole."""
    (Path("/sys/block") / Path(loop).name / "queue/max_sectors_kb").write_text("64")
    program = (
        "import mmap, os, sys\n"
        "file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)\n"
        "os.preadv(file, [mmap.mmap(-1, 1 << 20)], 1 << 20)"
    )
    trace = tmp_path / "load.trace"
    record_device(loop, None, [sys.executable, "-c", program, loop], trace, anonymise=False)
    parts = sorted(
        (int.from_bytes(record[24:32], "little") * 512, int.from_bytes(record[56:60], "little"))
        for record in decoded(trace)
    )
    assert parts == [(MIB + at, 1 << 16) for at in range(0, MIB, 1 << 16)]


WRITES = """
import mmap, os, sys
path = sys.argv[1]
page = mmap.mmap(-1, 4096)
direct = os.open(path, os.O_WRONLY | os.O_DIRECT)
os.pwrite(direct, page, 0)
buffered = os.open(path, os.O_WRONLY)
os.pwrite(buffered, page, 1 << 20)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
WAIT_BEFORE, WRITE, WAIT_AFTER = 1, 2, 4
libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_uint]
assert libc.sync_file_range(buffered, 1 << 20, 4096, WRITE) == 0
assert libc.sync_file_range(buffered, 1 << 20, 4096, WAIT_BEFORE | WAIT_AFTER) == 0
"""


def test_a_direct_write_is_waited_for_and_writeback_is_not(loop, tmp_path):
    """The flags by which bfq, kyber and wbt tell them apart."""
    trace, text = tmp_path / "load.trace", tmp_path / "load.iolog"
    record_device(loop, None, [sys.executable, "-c", WRITES, loop], trace, anonymise=True)
    records = decoded(trace)
    asynchronous = {
        int.from_bytes(record[24:32], "little") * 512: not record[74] & 1 for record in records
        if record[72] == 1
    }  # fmt: skip
    assert asynchronous == {0: False, MIB: True}
    assert {record[80:96].rstrip(b"\0") for record in records} <= {b"task 1", b"task 2", b"task 3"}
    assert not text.exists()


def decoded(trace):
    """The records of a file, without the one that counts."""
    stream = subprocess.run(["zstd", "-dc", trace], check=True, capture_output=True).stdout
    head, _, rest = stream.partition(b"\n")
    assert json.loads(head.removeprefix(b"SCHEDLAB TRACE 2 "))["device"].startswith("loop")
    records = [rest[at : at + 112] for at in range(0, len(rest), 112)]
    assert records.pop()[72:74] == b"\xff\xff"
    return records


def test_what_does_not_fit_into_the_ring_is_counted(loop, tmp_path):
    options = {
        "device": loop, "path": str(tmp_path / "load.trace"), "facts": {}, "ring_bytes": 4096,
    }  # fmt: skip
    recording = _core.RecordCapture(json.dumps(options))
    with Path(loop).open("rb", buffering=0) as device:
        os.posix_fadvise(device.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for page in range(4096):
            os.pread(device.fileno(), 4096, page * 4096)
    result = json.loads(recording.finish())
    assert result["lost"] > 0
    assert result["records"] + result["lost"] == result["arrived"] >= 4096
    assert result["accounting"]["gap_sectors"] == 0  # what was lost is known
    assert facts_of(tmp_path / "load.trace")["reads"] == result["records"]


def test_no_file_is_overwritten_and_none_recorded_on_its_own_device(loop, tmp_path):
    there = tmp_path / "there"
    there.write_text("mine")
    with pytest.raises(SpecError, match="is there already"):
        record_device(loop, 0.1, [], there, anonymise=False)
    assert there.read_text() == "mine"
    answer = CliRunner().invoke(cli, ["trace", "io", loop, "--anonymise"], standalone_mode=False)
    assert isinstance(answer.exception, SpecError)
    (disk,) = {p.name for p in Path("/sys/block").iterdir() if p.name == disk_below(tmp_path)}
    with pytest.raises(SpecError, match="whose requests are recorded"):
        record_device(f"/dev/{disk}", 0.1, [], tmp_path / "new", anonymise=False)


def test_a_recording_that_cannot_begin_leaves_no_file(loop, tmp_path):
    """A process that may load no programs: root of a user namespace."""
    options = json.dumps({"device": loop, "path": str(tmp_path / "trace"), "facts": {}})
    child = os.fork()
    if child == 0:
        status = ctypes.CDLL(None).unshare(0x10000000)  # CLONE_NEWUSER
        with contextlib.suppress(OSError):
            _core.RecordCapture(options)
            status = 1
        os._exit(status)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        pytest.skip("needs user namespaces in which no program can be loaded")
    assert list(tmp_path.glob("trace*")) == []


def disk_below(directory):
    from schedlab.host.devices import disks_below

    disks = disks_below(directory)
    if len(disks) != 1:
        pytest.skip("needs one disk below the files of tests")
    return disks[0]
