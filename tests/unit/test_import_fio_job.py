"""fio job files: what our load engine honours, and complaints that name the line."""

import json

import pytest

from schedlab import _core
from schedlab.errors import SpecError
from schedlab.store.importers import fio_job


def write(tmp_path, name, content):
    file = tmp_path / name
    file.write_text(content)
    return file


JOB = """; comment
[global]
ioengine=libaio
direct=1
runtime=30s
time_based
group_reporting
[reader]
rw=randread
bs=4k
iodepth=32
filename=/dev/x
size=1g
[writer]
rw=randrw
rwmixread=70
bs=64k
size=8m
directory=/d
rate_iops=500
rate_process=poisson
"""


def test_a_fio_job_file_becomes_a_job_of_the_engine(tmp_path):
    read = fio_job.read(write(tmp_path, "j.fio", JOB))
    assert read.job["seconds"] == 30.0
    reader, writer = read.job["groups"]
    assert (reader["engine"], reader["direct"], reader["path"]) == ("io_uring", True, "/dev/x")
    assert reader["workload"] == {
        "pattern": {"kind": "random", "replacement": False},
        "direction": {"kind": "read"},
        "record": 4096,
        "span": 1 << 30,
        "arrivals": {"kind": "closed", "depth": 32},
        "seed": 1,
    }
    assert writer["path"] == "/d/writer.0.0"
    assert writer["workload"]["direction"] == {"kind": "mixed", "read_percent": 70}
    assert writer["workload"]["arrivals"] == {"kind": "poisson", "rate_per_s": 500.0}
    assert any("libaio" in note for note in read.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("bs=4k", "bssplit=4k/60:8k/40"), "line 10: option 'bssplit' cannot be honoured"),
        (("bs=4k", "bs=four"), "line 10: expected bs as a size such as 4k, found 'four'"),
        (("rw=randread", "rw=backwards"), "line 9: expected rw as one of"),
        (("size=1g\n", ""), "size as a size"),
        (("[global]\n", ""), "line 2: expected a section"),
        (("runtime=30s\n", ""), "time_based without runtime"),
    ],
)
def test_fio_job_complaints(tmp_path, change, message):
    with pytest.raises(SpecError, match=message):
        fio_job.read(write(tmp_path, "j.fio", JOB.replace(*change)))


@pytest.mark.parametrize(
    ("change", "where", "value"),
    [
        (("bs=4k", "bs=1.5k"), ("record",), 1536),
        (("bs=4k", "bs=1m"), ("record",), 1 << 20),
        (("bs=4k", "bs=512"), ("record",), 512),
        (("bs=4k", "bs=2KiB\nrandseed=7"), ("seed",), 7),
        (("rw=randread", "rw=write"), ("pattern",), {"kind": "sequential"}),
        (("iodepth=32", "norandommap"), ("pattern", "replacement"), True),
        (("iodepth=32", "rate_iops=9"), ("arrivals", "kind"), "constant"),
    ],
)
def test_options_of_a_fio_job_reach_the_workload(tmp_path, change, where, value):
    node = fio_job.read(write(tmp_path, "j", JOB.replace(*change))).job["groups"][0]["workload"]
    for key in where:
        node = node[key]
    assert node == value


@pytest.mark.parametrize(
    ("option", "key", "value"),
    [
        ("numjobs=3", "workers", 3), ("sync=dsync", "sync", "dsync"), ("end_fsync=1",
        "fsync_at_end", True), ("direct=0", "direct", False), ("ioengine=mmap", "engine", "mmap"),
        ("directory=/d", "path", "/d/x"),
    ],
)  # fmt: skip
def test_options_of_a_fio_job_reach_the_group(tmp_path, option, key, value):
    text = f"[global]\nsize=1m\nfilename=x\n[job]\n{option}\n"
    read = fio_job.read(write(tmp_path, "j", text))
    (group,) = read.job["groups"]
    assert group[key] == value
    usual = {"workers": 1, "sync": "none", "fsync_at_end": False, "direct": False}
    usual |= {"engine": "psync", "path": "x"}
    assert {k: group[k] for k in usual if k != key} == {k: usual[k] for k in usual if k != key}
    assert (read.job["seconds"], read.job["ramp_seconds"], read.notes) == (None, 0.0, ())


@pytest.mark.parametrize(
    ("text", "seconds"), [("2m", 120.0), ("500ms", 0.5), ("1h", 3600.0), ("7", 7.0)]
)
def test_times_of_a_fio_job_have_units(tmp_path, text, seconds):
    job = JOB.replace("runtime=30s", f"runtime={text}\nramp_time=2\nthread")
    read = fio_job.read(write(tmp_path, "j", job))
    assert (read.job["seconds"], read.job["ramp_seconds"]) == (seconds, 2.0)
    assert "thread was passed over: it cannot change the result" in read.notes
    assert len(set(read.notes)) == len(read.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[writer]", "[writer]\nruntime=5s"), "different runtimes"),
        (("[writer]", "[writer"), r"expected \[section\]"),
        (("[writer]", "[]"), r"expected \[section\]"),
        (("/dev/x", "/a:/b"), "line 12: expected one file"),
        (("rwmixread=70", "rwmixread=101"), "rwmixread as a whole number up to 100"),
        (("bs=4k", "bs=0"), "expected bs of at least one byte"),
        (("runtime=30s", "runtime=soon"), "runtime as a time such as 30s"),
        ((JOB, "[global]\nbs=4k\n"), "at least one job section"),
    ],
)
def test_more_fio_job_complaints(tmp_path, change, message):
    with pytest.raises(SpecError, match=message):
        fio_job.read(write(tmp_path, "j.fio", JOB.replace(*change)))


def test_runtime_ends_a_job_that_still_has_records_and_the_size_one_that_has_none(tmp_path):
    """As fio does; and each clone has its own file, which fio names by the clone."""
    text = f"[j]\ndirectory={tmp_path}\nrw=read\nsize=64k\nnumjobs=2\nruntime=600\n"
    read = fio_job.read(write(tmp_path, "j.fio", text))
    (group,) = read.job["groups"]
    assert (read.job["seconds"], group["at_end"]) == (600.0, "stop")
    assert group["path"] == str(tmp_path / "j.{worker}.0")
    for clone in range(2):
        (tmp_path / f"j.{clone}.0").write_bytes(bytes(1 << 16))
    (result,) = json.loads(_core.run_io_job(json.dumps(read.job)))["groups"]
    assert result["reads"]["operations"] == 2 * 16


@pytest.mark.parametrize(
    ("text", "names", "paths"),
    [
        ("[global]\nname=bench\n[one]\n[two]\nname=x\n", ["one", "x"], ["one.0.0", "two.0.0"]),
        ("[global-settings]\nbs=4k\n[j]\n", ["j"], ["j.0.0"]),
    ],
)
def test_names_and_sections_are_those_of_fio(tmp_path, text, names, paths):
    groups = fio_job.read(write(tmp_path, "j", text.replace("[one", "size=1m\n[one").replace(
        "bs=4k", "size=1m"))).job["groups"]  # fmt: skip
    assert [g["name"] for g in groups] == names
    assert [g["path"] for g in groups] == paths


def test_a_synchronous_engine_has_one_request_at_a_time(tmp_path):
    read = fio_job.read(write(tmp_path, "j", "[j]\nsize=1m\niodepth=32\n"))
    assert read.job["groups"][0]["workload"]["arrivals"] == {"kind": "closed", "depth": 1}
    assert read.notes == ("ioengine=psync has one request at a time: iodepth=32 is 1",)
