"""Importers of IOzone, fio, hdparm and time on fixtures written from their documented layouts."""

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.spec import Candidate, Experiment, Plan, Record, Run, Target, Workload
from schedlab.store.exporters import fio as fio_export
from schedlab.store.exporters import iozone as iozone_export
from schedlab.store.folder import Folder
from schedlab.store.importers import fio, fio_job, hdparm, iozone, time
from schedlab.store.importers.imported import Options

THROUGHPUT = """\tRecord Size 8 kB
\tFile size set to 1048576 kB
\tChildren see throughput for  1 initial writers \t=   61447.99 kB/sec
\tParent sees throughput for  1 initial writers \t=   61423.00 kB/sec
\tMin throughput per process \t\t\t=   61447.99 kB/sec
\tMin xfer \t\t\t\t\t= 1048576.00 kB
\tChildren see throughput for  1 re-readers \t\t= 902.5 kB/sec

"Throughput report Y-axis is type of test X-axis is number of processes"
"Record size = 8 kBytes "
"Output is in kBytes/sec"

"  Initial write "   61447.99

"        Re-read "     902.50


iozone test complete.
"""
TABLE = """\tOutput is in kBytes/sec
                                            random random bkwd  record stride
      kB  reclen   write rewrite read reread read  write  read rewrite   read fwrite frewrite
   65536      64  1000    1100    2000     2100
   65536     128  1200.5  1300    2200     2300      9

iozone test complete.
"""
REPORT = """random garbage
Excel output is below:

"Writer report"
        "4"  "8"  "16"
"64"   100  200  0
"128"   101  201  301

"Random read report"
        "4"  "8"
"64"   7  8

iozone test complete.
"""


def write(tmp_path, name, content):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def values(imported):
    return [next(iter(run.metrics.values())) for run in imported.runs]


def test_iozone_throughput_mode(tmp_path):
    file = write(tmp_path, "t.txt", THROUGHPUT)
    imported = iozone.read([("none", file), ("none", file), ("bfq", file)], Options())
    labels = [w.label for w in imported.experiment.workloads]
    assert labels == ["write 8 KiB", "re-read 8 KiB"]
    assert values(imported)[:2] == [61447.99 * 1024, 902.5 * 1024]
    assert [run.block for run in imported.runs] == [0, 0, 1, 1, 0, 0]
    assert imported.experiment.workloads[0].parameters["record_bytes"] == 8192


def test_iozone_table_and_report(tmp_path):
    imported = iozone.read([("none", write(tmp_path, "a", TABLE))], Options())
    by_name = {run.workload: run.metrics for run in imported.runs}
    assert by_name["write 128 KiB"] == {"throughput_bytes_per_s": 1200.5 * 1024}
    assert by_name["random read 128 KiB"] == {"throughput_bytes_per_s": 9 * 1024}
    assert len(by_name) == 9
    imported = iozone.read([("none", write(tmp_path, "b", REPORT))], Options())
    by_name = {
        run.workload: values for run, values in zip(imported.runs, values(imported), strict=True)
    }
    assert by_name["write 8 KiB of 64 KiB"] == 200 * 1024
    assert by_name["random read 4 KiB of 64 KiB"] == 7 * 1024
    assert len(by_name) == 7  # 0 is: not run


def biff(*records):
    parts = [struct.pack("<HHHH", 9, 4, 2, 16)]
    for row, column, value in records:
        place = struct.pack("<HH3s", row, column, b"\0\0\0")
        if isinstance(value, str):
            kind, body = 4, place + bytes([len(value)]) + value.encode()
        elif isinstance(value, int):
            kind, body = 2, place + struct.pack("<H", value)
        else:
            kind, body = 3, place + struct.pack("<d", value)
        parts.append(struct.pack("<HH", kind, len(body)) + body)
    return b"".join([*parts, struct.pack("<HH", 10, 0)])


def test_iozone_biff2(tmp_path):
    cells = [
        (0, 0, "iozone -b x.xls"), (2, 0, "Writer report"), (3, 1, 4), (3, 2, 8.0),
        (4, 0, 64), (4, 1, 1234.5), (4, 2, 99.0),
    ]  # fmt: skip
    imported = iozone.read([("none", write(tmp_path, "x.xls", biff(*cells)))], Options())
    assert values(imported) == [1234.5 * 1024, 99 * 1024]
    with pytest.raises(SpecError, match=r"byte \d+: expected a record of \d+ bytes, found"):
        iozone.read([("none", write(tmp_path, "y.xls", biff(*cells)[:-10]))], Options())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected output of IOzone"),
        (THROUGHPUT.replace("iozone test complete.", ""), "cut off"),
        (THROUGHPUT.replace("902.5 kB", "fast kB"), "line 7: expected Children see"),
        (THROUGHPUT.replace("902.5", "0.0"), "line 7: expected a rate above 0"),
        (THROUGHPUT.replace("re-readers", "jugglers"), "line 7: expected one of initial writers"),
        (TABLE.replace("1200.5", "x"), "line 5: expected a number as write, found 'x'"),
        (REPORT.replace("Writer report", "Juggler report"), "line 4: expected a report of"),
        (REPORT.replace("201  301", "201  301 4"), "line 7: expected at most 3 figures"),
    ],
)
def test_iozone_complaints(tmp_path, text, message):
    with pytest.raises(SpecError, match=message):
        iozone.read([("none", write(tmp_path, "t.txt", text))], Options())


def fio_output_job(name="j", **read):
    idle = {"io_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0}
    lat = {
        "min": 100, "max": 900, "mean": 300.0, "N": 4,
        "percentile": {"50.000000": 257, "99.000000": 900}, "bins": {"100": 1, "129": 2, "258": 1},
    }  # fmt: skip
    busy = {"io_bytes": 1, "bw_bytes": 4096000, "bw": 4000, "iops": 1000.0, "runtime": 2000}
    busy |= {"lat_ns": lat} | read
    return {"jobname": name, "read": busy, "write": idle, "usr_cpu": 10.0, "sys_cpu": 20.0}


def test_fio_json_with_text_before_it(tmp_path):
    text = "fio: a warning\n" + json.dumps(
        {"jobs": [fio_output_job("a"), fio_output_job("a"), fio_output_job("b")]}
    )
    imported = fio.read([("none", write(tmp_path, "o.json", text))], Options())
    assert [run.workload for run in imported.runs] == ["a", "a#2", "b"]
    first = imported.runs[0]
    assert first.metrics == {
        "throughput_bytes_per_s": 4096000.0, "iops": 1000.0, "read_bytes_per_s": 4096000.0,
        "latency_ns_mean": 300.0, "latency_ns_max": 900.0, "latency_ns_p50": 257.0,
        "latency_ns_p99": 900.0, "elapsed_s": 2.0,
    }  # fmt: skip
    assert first.properties["cpu_share"] == pytest.approx(0.3)
    rows = [[100, 100, 1], [128, 129, 2], [256, 259, 1]]
    assert imported.histograms[0]["latency_ns"] == rows


def test_old_fio_has_microseconds_and_kib(tmp_path):
    job = fio_output_job(clat={"mean": 3.5, "max": 9, "N": 2, "percentile": {"99.000000": 8}})
    del job["read"]["lat_ns"], job["read"]["bw_bytes"]
    file = write(tmp_path, "o.json", json.dumps({"jobs": [job]}))
    metrics = fio.read([("none", file)], Options()).runs[0].metrics
    assert metrics["throughput_bytes_per_s"] == 4000 * 1024
    assert (metrics["latency_ns_mean"], metrics["latency_ns_p99"]) == (3500.0, 8000.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no `{`"),
        ('x\n{"jobs": [', r"line 2: expected JSON"),
        ('{"jobs": 3}', "a list `jobs`"),
        ('{"jobs": [{}]}', "job 0: expected an object with a `jobname`"),
        (json.dumps({"jobs": [fio_output_job(iops="many")]}), "a number `iops`, found 'many'"),
        (
            json.dumps({"jobs": [{**fio_output_job(), "error": 5}]}),
            "without errors, found 'error 5'",
        ),
        ("{" * 100000, "JSON"),
    ],
)
def test_fio_complaints(tmp_path, text, message):
    with pytest.raises(SpecError, match=message):
        fio.read([("none", write(tmp_path, "o.json", text))], Options())


def test_fio_round_trip(tmp_path):
    file = write(tmp_path, "o.json", json.dumps({"jobs": [fio_output_job("randread")]}))
    folder = fio.read([("none", file), ("bfq", file)], Options()).save(tmp_path / "r")
    written = fio_export.write(folder.record(), tmp_path / "out")
    assert [p.relative_to(tmp_path / "out").as_posix() for p in written] == [
        "none/randread-1-1.json",
        "bfq/randread-1-1.json",
    ]
    again = fio.read([("none", written[0])], Options())
    before, after = folder.runs()[0].metrics, again.runs[0].metrics
    for key in ("throughput_bytes_per_s", "iops", "elapsed_s"):
        assert before[key] == after[key]
    assert again.histograms[0]["latency_ns"] == [[100, 100, 1], [128, 129, 2], [256, 259, 1]]


def test_iozone_round_trip(tmp_path):
    file = write(tmp_path, "b", REPORT)
    folder = iozone.read([("none", file)], Options()).save(tmp_path / "r")
    written = iozone_export.write(folder.record(), tmp_path / "out")
    again = iozone.read([("none", written[0])], Options())
    wanted = {run.workload: run.metrics for run in folder.runs()}
    assert {run.workload: run.metrics for run in again.runs} == wanted


def test_our_own_file_tests_are_exported_under_the_names_of_fio_and_iozone(tmp_path):
    experiment = Experiment(
        title="t",
        kind="io",
        target=Target("scratch"),
        candidates=(Candidate("none"),),
        workloads=(
            Workload(
                "w",
                "file-test",
                "throughput_bytes_per_s",
                {"test": "random-read", "record_bytes": 4096, "span_bytes": 1 << 20, "depth": 8},
            ),
        ),
        baseline="none",
        seed=1,
        aa_arm=False,
    )
    metrics = {"throughput_bytes_per_s": 2048.0 * 1024, "iops": 512.0}
    run = Run(0, 0, "w", "none", 1, 1, "ok", "", 1.0, metrics)
    rows = {("w", "none"): ((100, 100, 3), (256, 259, 1))}
    record = Record(experiment, Plan(()), (run,), histograms=rows)
    (file,) = fio_export.write(record, tmp_path / "fio")
    assert file.relative_to(tmp_path / "fio").as_posix() == "none/4096/randread-8-1.json"
    read = json.loads(file.read_text())["jobs"][0]["read"]
    assert (read["bw"], read["iops"]) == (2048, 512.0)
    assert read["clat_ns"]["bins"] == {"100": 3, "258": 1}
    (file,) = iozone_export.write(record, tmp_path / "iozone")
    again = iozone.read([("none", file)], Options())
    assert again.runs[0].metrics == {"throughput_bytes_per_s": 2048.0 * 1024}
    assert again.experiment.workloads[0].parameters["test"] == "random-read"


HDPARM = """
/dev/sda:
 Timing cached reads:   25994 MB in  2.00 seconds = 12997.05 MB/sec
 HDIO_DRIVE_CMD(identify) failed: Inappropriate ioctl for device
 Timing buffered disk reads: 606 MB in  3.01 seconds = 201.50 MB/sec
 Timing O_DIRECT disk reads (offset 100 GB): 800 kB in  3.01 seconds = 265.78 kB/sec
"""


def test_hdparm_with_stray_lines_and_its_control(tmp_path):
    file = write(tmp_path, "h", HDPARM)
    imported = hdparm.read([("none", file), ("none", file), ("bfq", file)], Options())
    assert values(imported)[:3] == [12997.05 * 2**20, 201.5 * 2**20, 265.78 * 1024]
    workloads = {w.label: w.negative_control for w in imported.experiment.workloads}
    assert workloads == {
        "cached reads": True,
        "buffered disk reads": False,
        "O_DIRECT disk reads at 100 GB": False,
    }
    assert imported.experiment.stopping.blocks == 2
    with pytest.raises(SpecError, match=r"line 1: expected Timing"):
        hdparm.read(
            [("none", write(tmp_path, "x", " Timing buffered disk reads: soon"))], Options()
        )
    with pytest.raises(SpecError, match="found 'none'"):
        hdparm.read([("none", write(tmp_path, "y", "\n"))], Options())


@pytest.mark.parametrize(
    "text",
    [
        "noise\n\nreal\t0m6.95s\nuser\t0m6.78s\nsys\t0m2.92s\n",
        "real 6.95\nuser 6.78\nsys 2.92\n",
        "real\t6.95s\nuser\t6.78s\nsys\t2.92s\ncpu\t139%\n",
        "tar xf a.tar  6.78s user 2.92s system 139% cpu 6.95 total\n",
        "\tUser time (seconds): 6.78\n\tSystem time (seconds): 2.92\n"
        "\tElapsed (wall clock) time (h:mm:ss or m:ss): 0:06.95\n\tMaximum resident: 7\n",
    ],
)
def test_time_in_every_dialect(tmp_path, text):
    file = write(tmp_path, "t", text * 2)
    imported = time.read([("none", file)], "extract", Options())
    assert [run.block for run in imported.runs] == [0, 1]
    assert imported.runs[0].metrics == {"elapsed_s": 6.95, "cpu_s": 6.78 + 2.92}
    assert imported.runs[0].properties["user_s"] == 6.78


def test_time_longer_than_a_minute_and_torn(tmp_path):
    text = "real\t2m0.5s\nuser\t0m1s\nsys\t0m1s\n"
    runs = time.read([("none", write(tmp_path, "t", text))], "w", Options()).runs
    assert runs[0].metrics["elapsed_s"] == 120.5
    with pytest.raises(SpecError, match="expected sys of the measurement at"):
        time.read([("none", write(tmp_path, "t", "real 1\nuser 1\n"))], "w", Options())
    with pytest.raises(SpecError, match="line 1: expected a line of time"):
        time.read([("none", write(tmp_path, "t", "real soon\n"))], "w", Options())
    with pytest.raises(SpecError, match="line 1: expected a finite number as minutes"):
        text = f"real\t{'9' * 400}m0.5s\nuser\t0m1s\nsys\t0m1s\n"
        time.read([("none", write(tmp_path, "t", text))], "w", Options())


def test_the_commands(tmp_path):
    file = write(tmp_path, "h", HDPARM)
    out = tmp_path / "out"
    arguments = ["import", "hdparm", f"none={file}", f"bfq={file}", "--out", str(out), "--json"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert json.loads(result.stdout)["candidates"] == ["none", "bfq"]
    assert len(Folder.open(out).runs()) == 6
    arguments = ["export", str(out), "--format", "fio", "--out", str(tmp_path / "x"), "--json"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert all(Path(name).is_file() for name in json.loads(result.stdout)["files"])


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
