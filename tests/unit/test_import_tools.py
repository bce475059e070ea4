"""Importers of IOzone, fio, hdparm and time on fixtures written from their documented layouts."""

import json
import math
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner
from experiments import experiment

from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.spec import Candidate, Plan, Record, Run, Workload
from schedlab.store.exporters import fio as fio_export
from schedlab.store.exporters import iozone as iozone_export
from schedlab.store.folder import Folder
from schedlab.store.importers import fio, hdparm, iozone, time
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
                                                              random    random     bkwd\
    record    stride
              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite\
      read   fwrite frewrite    fread  freread
           65536      64     1000     1100     2000     2100
           65536     128   1200.5     1300     2200     2300        9

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
        (TABLE.replace("1200.5", "     x"), "line 5: expected a number as write, found 'x'"),
        (REPORT.replace("Writer report", "Juggler report"), "line 4: expected a report of"),
        (REPORT.replace("201  301", "201  301 4"), "line 7: expected at most 3 figures"),
        (THROUGHPUT.replace("902.5 kB/sec", "902.5 furlongs"), "line 7: expected a rate in kB/sec"),
        (THROUGHPUT.replace("Record", "Wreck"), "expected a line `Record size"),
        (THROUGHPUT.replace("= 8 kB", "= 0 kB"), "expected whole kB as record size"),
        (TABLE.replace("iozone test complete.", ""), "cut off"),
        (TABLE.replace("     1300 ", " 1300     "), "line 5: expected figures below the header's"),
        (TABLE.replace("64     1000     1100     2000     2100", ""), "line 4"),
        (TABLE.replace("iozone test", "disk full\niozone test"), "line 7: expected a row"),
        (
            TABLE.replace("     64     1000", "      0     1000"),
            "line 4: expected whole kB as reclen",
        ),
        (REPORT.replace('"Writer report"\n', ""), "line 4: expected a title such as"),
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


def test_exported_figures_are_means_of_the_runs(tmp_path):
    """A good run must not stand for all of them; one that failed a gate does not count."""
    work = {"test": "read", "record_bytes": 4096, "span_bytes": 1 << 20}
    workload = Workload("w", "file-test", "throughput_bytes_per_s", work)
    asked = experiment(candidates=(Candidate("none"),), workloads=(workload,))
    runs = tuple(
        Run(block, 0, "w", "none", 1, 1, status, "", 1.0,
            {"throughput_bytes_per_s": kib * 1024.0, "iops": kib / 4.0, "elapsed_s": 2.0})
        for block, (kib, status) in enumerate([(100, "ok"), (900, "discarded"), (300, "ok")])
    )  # fmt: skip
    record = Record(asked, Plan(()), runs)
    (text,) = iozone_export.write(record, tmp_path / "iozone")
    assert '"1024"   200.00' in text.read_text()
    (file,) = fio_export.write(record, tmp_path / "fio")
    job = json.loads(file.read_text())["jobs"][0]["read"]
    assert (job["bw"], job["iops"], job["total_ios"]) == (200, 50.0, 100)


def test_our_own_file_tests_are_exported_under_the_names_of_fio_and_iozone(tmp_path):
    work = {"test": "random-read", "record_bytes": 4096, "span_bytes": 1 << 20, "depth": 8}
    workload = Workload("w", "file-test", "throughput_bytes_per_s", work)
    asked = experiment(candidates=(Candidate("none"),), workloads=(workload,), aa_arm=False)
    metrics = {"throughput_bytes_per_s": 2048.0 * 1024, "iops": 512.0}
    run = Run(0, 0, "w", "none", 1, 1, "ok", "", 1.0, metrics)
    rows = {("w", "none"): ((100, 100, 3), (256, 259, 1))}
    record = Record(asked, Plan(()), (run,), histograms=rows)
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
        "6.78user 2.92system 0:06.95elapsed 139%CPU (0avgtext+0avgdata 2064maxresident)k\n"
        "0inputs+0outputs (0major+71minor)pagefaults 0swaps\n",
        "real\t0m 6.95s\nuser\t0m 6.78s\nsys\t0m 2.92s\n",
        "        6.95 real         6.78 user         2.92 sys\n",
        "    0m6.95s real     0m6.78s user     0m2.92s system\n",
        "6.780u 2.920s 0:06.95 139.5%\t0+0k 0+0io 0pf+0w\n",
        "________\nExecuted in    6.95 secs    fish           external\n"
        "   usr time    6.78 secs  120.00 micros    6.78 secs\n"
        "   sys time    2.92 secs   95.00 micros    2.92 secs\n",
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
    with pytest.raises(SpecError, match="line 1: expected a finite number as a time"):
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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("x  1.0s user 1.0s system 9% cpu 1:02:03.5 total\n", 3723.5),
        ("x  1.0s user 1.0s system 9% cpu 2:03.5 total\n", 123.5),
        ("\tUser time (seconds): 1\n\tSystem time (seconds): 1\n"
         "\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:02:03.5\n", 3723.5),
        ("real 3723,5\nuser 1,0\nsys 1.0\n", 3723.5),
    ],
)  # fmt: skip
def test_hours_and_decimal_commas_of_time(tmp_path, text, seconds):
    (run,) = time.read([("none", write(tmp_path, "t", text))], "w", Options()).runs
    assert run.metrics == {"elapsed_s": seconds, "cpu_s": 2.0}
    assert run.properties["cpu_share"] == pytest.approx(2 / seconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("real 1\nreal 2\n", "line 2: expected user and sys of the measurement before"),
        ("real 0\nuser 0\nsys 0\n", "line 1: expected a real time above 0"),
        ("x\nreal 1\nuser 1\n", "line 3: expected sys of the measurement at .*line 2"),
        ("nothing\n", r"expected output of time \(real, user, sys\)"),
    ],
)
def test_time_complaints(tmp_path, text, message):
    with pytest.raises(SpecError, match=message):
        time.read([("none", write(tmp_path, "t", text))], "w", Options())


def test_hdparm_without_a_rate_or_a_time_is_refused(tmp_path):
    line = " Timing buffered disk reads: 606 MB in  {} seconds = {} MB/sec\n"
    (run,) = hdparm.read(
        [("none", write(tmp_path, "h", line.format("0.50", "0.25")))], Options()
    ).runs
    assert (run.properties["window_s"], values_of(run)) == (0.5, [float(1 << 18)])
    for figures in (("0", "1"), ("1", "0")):
        with pytest.raises(SpecError, match="line 1: expected a time and a rate above 0"):
            hdparm.read([("none", write(tmp_path, "h", line.format(*figures)))], Options())


def values_of(run):
    return list(run.metrics.values())


def test_iozone_in_other_units_and_with_several_workers(tmp_path):
    ops = TABLE.replace("kBytes/sec", "operations per second")
    micro = TABLE.replace("kBytes/sec", "microseconds per operation")
    for text, metrics in ((ops, {"iops": 1200.5}), (micro, {"latency_ns_mean": 1200500.0})):
        imported = iozone.read([("none", write(tmp_path, "t", text))], Options())
        assert {r.workload: r.metrics for r in imported.runs}["write 128 KiB"] == metrics
    four = THROUGHPUT.replace("for  1 initial", "for  4 initial").replace("902.5 kB", "902.5 ops")
    imported = iozone.read([("none", write(tmp_path, "t", four))], Options())
    workloads = [(w.label, w.parameters) for w in imported.experiment.workloads]
    assert workloads == [
        ("write 8 KiB x4", {"test": "write", "record_bytes": 8192, "workers": 4}),
        ("re-read 8 KiB x1", {"test": "re-read", "record_bytes": 8192, "workers": 1}),
    ]
    assert imported.runs[1].metrics == {"iops": 902.5}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (biff((2, 0, "Cook report")), "row 3: expected a report of writer, re-writer"),
        (biff()[:8] + b"\x0a", "byte 8: expected a record of type and length, found '1 bytes'"),
        (biff()[:-4], "expected the end-of-file record"),
        (biff((0, 0, math.inf)), "byte 8: expected a finite number"),
        (biff()[:8] + struct.pack("<HH6s", 2, 6, b""), "a cell of at least 9 bytes"),
        (biff()[:8] + struct.pack("<HH8s", 4, 8, b"\0" * 7 + b"\2"), "expected a label of 2 bytes"),
    ],
)
def test_iozone_biff2_complaints(tmp_path, data, message):
    with pytest.raises(SpecError, match=message):
        iozone.read([("none", write(tmp_path, "x.xls", data))], Options())


def test_a_fault_of_json_is_shown_with_what_is_around_it(tmp_path):
    text = '{"fio version": "fio-3.33", "jobs": [1, 2, fault, 4], "disk_util": []}'
    with pytest.raises(SpecError) as complaint:
        fio.load(write(tmp_path, "o", text))
    assert str(complaint.value).endswith(f"found {text[23:63]!r}")


def test_fio_latency_is_the_total_one_and_completion_only_where_there_is_no_other(tmp_path):
    """From the submission on, as our engine counts it: a full queue must not look fast."""
    job = fio_output_job("j")
    total = {"N": 9, "mean": 5000.0, "max": 9500, "percentile": {"99.000000": 9000}}
    done = {"50.000000": 3000, "99.000000": 8000}
    job["read"] |= {"lat_ns": total, "clat_ns": {"N": 9, "mean": 4.0, "max": 5, "percentile": done}}
    imported = fio.read([("none", write(tmp_path, "o", json.dumps({"jobs": [job]})))], Options())
    metrics = imported.runs[0].metrics
    assert {k: v for k, v in metrics.items() if k.startswith("latency")} == {
        "latency_ns_mean": 5000.0, "latency_ns_max": 9500.0, "latency_ns_p99": 9000.0,
        "latency_ns_p50": 3000.0,
    }  # fmt: skip


def test_fio_reads_and_writes_of_one_job_add_up(tmp_path):
    job = fio_output_job("j")
    lat = {"mean": 9.0, "max": 99, "N": 1, "bins": {"100": 2}}
    job["write"] = {"bw_bytes": 1000, "iops": 5.0, "runtime": 3000, "clat_ns": lat}
    job["job options"] = {"rw": "randrw", "bs": 4096}
    imported = fio.read([("none", write(tmp_path, "o", json.dumps({"jobs": [job]})))], Options())
    (run,) = imported.runs
    assert run.metrics["throughput_bytes_per_s"] == 4097000.0
    assert (run.metrics["iops"], run.metrics["elapsed_s"]) == (1005.0, 3.0)
    assert run.metrics["write_bytes_per_s"] == 1000.0
    means = {k: v for k, v in run.metrics.items() if k.endswith("latency_ns_mean")}
    assert means == {"read_latency_ns_mean": 300.0, "write_latency_ns_mean": 9.0}
    assert imported.experiment.workloads[0].parameters == {"rw": "randrw", "bs": "4096"}
    (histograms,) = imported.histograms
    assert histograms["write_latency_ns"] == [[100, 100, 2]]
    assert histograms["read_latency_ns"] == [[100, 100, 1], [128, 129, 2], [256, 259, 1]]
    assert histograms["latency_ns"] == [[100, 100, 3], [128, 129, 2], [256, 259, 1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"iops": 0.0}, "expected reads or writes, found 'neither'"),
        ({"iops": -1.0}, "a number `iops` from 0"),
        ({"iops": True}, "a number `iops`, found 'True'"),
        ({"iops": 1e301}, "a number `iops`"),
        ({"lat_ns": {"mean": 1, "max": 1, "N": 1, "bins": {"x": 1}}}, "nanoseconds and a count"),
        ({"lat_ns": {"mean": 1, "max": 1, "N": 1, "bins": {"1": 1.5}}}, "nanoseconds and a count"),
    ],
)
def test_more_fio_complaints(tmp_path, change, message):
    text = json.dumps({"jobs": [fio_output_job("j", **change)]})
    with pytest.raises(SpecError, match=message):
        fio.read([("none", write(tmp_path, "o.json", text))], Options())


def exported(tmp_path, parameters, *metrics, rows=(), properties=None):
    """fio's job that our runs become."""
    work = Workload("w", "file-test", "iops", parameters)
    asked = experiment(candidates=(Candidate("none"),), workloads=(work,), aa_arm=False)
    runs = tuple(
        Run(i, 0, "w", "none", 1, 1, "ok", "", 1.0, each, properties=properties or {})
        for i, each in enumerate(metrics)
    )
    record = Record(asked, Plan(()), runs, histograms={("w", "none"): rows})
    (file,) = fio_export.write(record, tmp_path / "out")
    return file.name, json.loads(file.read_text())["jobs"][0]


def test_exported_figures_are_means_over_the_runs_in_their_direction(tmp_path):
    figures = [
        {"throughput_bytes_per_s": rate, "iops": rate / 1024, "elapsed_s": 2.0}
        for rate in (1024.0, 3072.0)
    ]
    rows = ((100, 100, 3), (256, 259, 1))
    cpu = {"usr_cpu": 0.1, "sys_cpu": 0.2}
    name, job = exported(
        tmp_path, {"test": "random-write", "workers": 3}, *figures, rows=rows, properties=cpu
    )
    assert name == "randwrite-1-3.json"
    write = job["write"]
    assert (write["bw_bytes"], write["bw"], write["iops"]) == (2048, 2, 2.0)
    assert (write["io_bytes"], write["io_kbytes"], write["total_ios"]) == (4096, 4, 4)
    assert (write["runtime"], job["job_runtime"], job["elapsed"]) == (2000, 2000, 2)
    assert job["read"]["iops"] == job["trim"]["iops"] == job["read"]["clat_ns"]["N"] == 0
    latency = write["lat_ns"]
    assert (latency["min"], latency["max"], latency["N"]) == (100, 259, 4)
    assert (latency["mean"], latency["stddev"]) == (139.5, pytest.approx(158 * 3**0.5 / 4))
    shares = latency["percentile"]
    assert (shares["50.000000"], shares["70.000000"], shares["80.000000"]) == (100, 100, 258)
    assert list(shares)[-5:] == [f"{q:.6f}" for q in (99, 99.5, 99.9, 99.95, 99.99)]
    both = {"read_bytes_per_s": 3e6, "write_bytes_per_s": 1e6, "iops": 400.0}
    name, job = exported(tmp_path, {"test": "mixed", "depth": 8}, both, rows=rows)
    assert name == "randrw-8-1.json"
    assert (job["read"]["bw_bytes"], job["write"]["bw_bytes"]) == (3_000_000, 1_000_000)
    assert (job["read"]["iops"], job["write"]["iops"]) == (300.0, 100.0)
