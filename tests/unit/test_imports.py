"""Importers of IOzone, fio, hdparm, time and dmesg on fixtures in their documented layouts.

What becomes of each file, or the complaint that names its line, is in tests/golden/imports.
"""

import json
import math
import struct
from functools import partial
from pathlib import Path

import pytest
from imports import Imports, biff

from schedlab.errors import SpecError
from schedlab.store.importers import dmesg, fio, hdparm, iozone, time
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


# What iozone 3.408 and 3.492 print for -i 0 -i 2 (and -i 5): the columns between stay blank.
OLD_HEADER = """
                                                            random  random    bkwd   record\
   stride
              KB  reclen   write rewrite    read    reread    read   write    read  rewrite\
     read   fwrite frewrite   fread  freread
"""
OLD_ROW = f"{409600:16}{64:8}{31782:8}{22524:8}{816017:26}{10411:8}{3779260:25}"
OLD_FULL = (
    "              64       4  496362  939223  2772930  2923952 1828508 1017549 1392258  1143223"
    "  1768283   533875   653436 1679761  2203800"
)
NEW_ROW = "          102400    1024   379304   383401                     375988   383204"
END = "\n\niozone test complete.\n"


@pytest.fixture
def imports(tmp_path, golden):
    return Imports(tmp_path, golden)


def squeezed(row):
    """A table whose white space a web page collapsed."""
    return " ".join(OLD_HEADER.split("\n")[2].split()) + "\n" + " ".join(row.split()) + END


def test_iozone(imports):
    four = THROUGHPUT.replace("for  1 initial", "for  4 initial").replace("902.5 kB", "902.5 ops")
    eights = THROUGHPUT.replace("= 8 kB", "= 64 kB").replace("Size 8 kB", "Size 64 kB")
    imports("iozone", partial(iozone.read, options=Options()), {
        "throughput mode": [("none", THROUGHPUT), ("none", THROUGHPUT), ("bfq", THROUGHPUT)],
        "two sizes of the file": [("none", THROUGHPUT), ("none", THROUGHPUT.replace(
            "File size set to 1048576 kB", "Each process writes a 2048 kByte file in 8 kB"))],
        "blocks have the record size of their summary": THROUGHPUT + eights,
        "several workers, and operations": four,
        "a table": TABLE,
        "a table in operations": TABLE.replace("kBytes/sec", "operations per second"),
        "a table in microseconds": TABLE.replace("kBytes/sec", "microseconds per operation"),
        "reports; 0 is: not run": REPORT,
        "reports alone": REPORT.partition("is below:\n")[2],
        "reports that begin with a title": REPORT[REPORT.index('"Random') :].partition("iozone")[0],
        "reports of two runs": REPORT + "\tIozone: Performance Test of File I/O\n" + REPORT,
        "a page with reports": REPORT.replace("iozone test complete.", "```"),
        "reports in operations": "\tOPS Mode. Output is in operations per second.\n" + REPORT,
        "figures belong to the column above them": OLD_HEADER + OLD_ROW + END,
        "indentation that a mail removed": OLD_HEADER + OLD_ROW.strip() + END,
        "all columns": OLD_HEADER + OLD_FULL + END,
        "a later version": TABLE.partition("           65536")[0] + NEW_ROW + END,
        "two of thirteen figures may be any": squeezed(OLD_ROW),
        "thirteen of thirteen are all": squeezed(OLD_FULL),
        "without the last line": THROUGHPUT.replace("iozone test complete.", ""),
        "a page with the tables of two disks": "".join(
            f"`iozone -I -a -e /dev/{disk}`\n```\n{OLD_HEADER + OLD_FULL}\n```\n"
            for disk in ("sdx", "sdy")
        ).rstrip(),
        "a table and one without the last line": [
            ("none", TABLE), ("bfq", OLD_HEADER + OLD_FULL + "\n"),
        ],
    })  # fmt: skip


def test_complaints_about_iozone(imports):
    imports("iozone-errors", partial(iozone.read, options=Options()), {
        "nothing": "",
        "cut": THROUGHPUT.replace("iozone test complete.", "").rstrip(),
        "no number": THROUGHPUT.replace("902.5 kB", "fast kB"),
        "no rate": THROUGHPUT.replace("902.5", "0.0"),
        "no test": THROUGHPUT.replace("re-readers", "jugglers"),
        "no unit": THROUGHPUT.replace("902.5 kB/sec", "902.5 furlongs"),
        "no record size": THROUGHPUT.replace("Record", "Wreck"),
        "a record of nothing": THROUGHPUT.replace("= 8 kB", "= 0 kB"),
        "a table: no number": TABLE.replace("1200.5", "     x"),
        "a table: cut": TABLE.replace("iozone test complete.", "").rstrip(),
        "a table: the second one cut": TABLE + OLD_HEADER + OLD_FULL,
        "the second one cut": THROUGHPUT + THROUGHPUT.replace("iozone test complete.", "").rstrip(),
        "a table: moved": TABLE.replace("     1300 ", " 1300     "),
        "a table: no figures": TABLE.replace("64     1000     1100     2000     2100", ""),
        "a table: no row": TABLE.replace("iozone test", "disk full\niozone test"),
        "two record sizes, a summary of one": THROUGHPUT.replace('"Record size = 8 kBytes "', "")
        + THROUGHPUT.replace("= 8 kB", "= 64 kB").replace("Size 8 kB", "Size 64 kB"),
        "a table: two figures in one column": OLD_HEADER
        + f"{409600:16}{64:8}{1:6}{2:2}{816017:26}" + END,
        "a table: a record below no column": OLD_HEADER
        + f"{409600:16}{64:6}{31782:10}{22524:8}{816017:26}" + END,
        "a table: a figure behind all columns": OLD_HEADER + OLD_ROW + f"{9:40}" + END,
        "a table: no record": TABLE.replace("     64     1000", "      0     1000"),
        "a report: no test": REPORT.replace("Writer report", "Juggler report"),
        "a report: too many figures": REPORT.replace("201  301", "201  301 4"),
        "a report: no title": REPORT.replace('"Writer report"\n', ""),
        "a report: nothing was run": '"Writer report"\n"4" "8"\n"64" 0 0\n"128" 0\n'
    })  # fmt: skip


def test_workbooks_of_iozone(imports):
    cells = [(0, 0, "iozone -b x.xls"), (2, 0, "Writer report"), (3, 1, 4), (3, 2, 8.0),
             (4, 0, 64), (4, 1, 1234.5), (4, 2, 99.0)]  # fmt: skip
    whole, empty = biff(*cells), biff()
    crowd = [(1, 0, "Throughput report Y-axis is type of test X-axis is number of processes"),
             (2, 0, "Record size = 8 kBytes "), (3, 0, "Output is in kBytes/sec"),
             (4, 0, "  Initial write "), (4, 1, 1234.5)]  # fmt: skip
    sized = [biff((0, 0, f"iozone -t 1 {size} -b x.xls"), *crowd) for size in ("-s 2m", "")]
    imports(
        "iozone-workbooks",
        partial(iozone.read, options=Options()),
        {
            "two figures": whole,
            "operations": biff((0, 0, "iozone -a -O -b x.xls"), *cells[1:]),
            "two sizes of the file": [("none", each) for each in sized],
            "cut": whole[:-10],
            "no test": biff((2, 0, "Cook report")),
            "half a head": empty[:8] + b"\x0a",
            "no end": empty[:-4],
            "infinite": biff((0, 0, math.inf)),
            "a short cell": empty[:8] + struct.pack("<HH6s", 2, 6, b""),
            "a short label": empty[:8] + struct.pack("<HH8s", 4, 8, b"\0" * 7 + b"\2"),
        },
    )


def fio_output_job(name="j", **read):
    idle = {"io_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0}
    lat = {
        "min": 100, "max": 900, "mean": 300.0, "N": 4,
        "percentile": {"50.000000": 257, "99.000000": 900}, "bins": {"100": 1, "129": 2, "258": 1},
    }  # fmt: skip
    busy = {"io_bytes": 1, "bw_bytes": 4096000, "bw": 4000, "iops": 1000.0, "runtime": 2000}
    busy |= {"lat_ns": lat} | read
    return {"jobname": name, "read": busy, "write": idle, "usr_cpu": 10.0, "sys_cpu": 20.0}


def jobs(*each, **more):
    return json.dumps({"jobs": each, **more})


def with_options(global_options=None, **options):
    more = {"global options": global_options} if global_options else {}
    return jobs({**fio_output_job("j"), "job options": options}, **more)


def report_of(elapsed, printed_ms, ios):
    job = fio_output_job("j", total_ios=ios, iops=ios / elapsed, runtime=elapsed * 1000)
    job |= {"elapsed": elapsed, "job_runtime": elapsed * 1000 - 100}
    stamp = {"timestamp": printed_ms // 1000, "timestamp_ms": printed_ms}
    return json.dumps({**stamp, "jobs": [job]}, indent=2) + "\n"


def pair(first, second):
    return [("none", first), ("none", second)]


def test_fio_reports_of_one_moment_with_other_figures_are_runs(tmp_path):
    same = [report_of(3, 1_000_000, ios) for ios in (300, 900, 600)]
    text = "".join(same)
    for each in (text, "".join(f"> {line}\n" for line in text.splitlines())):
        (tmp_path / "f").write_text(each)
        runs = fio.read([("none", tmp_path / "f")], Options()).runs
        assert [run.metrics["iops"] for run in runs] == [100, 300, 200]


def test_fio(imports):
    old = fio_output_job(clat={"mean": 3.5, "max": 9, "N": 2, "percentile": {"99.000000": 8}})
    del old["read"]["lat_ns"], old["read"]["bw_bytes"]
    total = {"N": 9, "mean": 5000.0, "max": 9500, "percentile": {"99.000000": 9000}}
    done = {"50.000000": 3000, "99.000000": 8000}
    both = fio_output_job()
    both["read"] |= {"lat_ns": total,
                     "clat_ns": {"N": 9, "mean": 4.0, "max": 5, "percentile": done}}  # fmt: skip
    mixed = fio_output_job()
    latency = {"mean": 9.0, "max": 99, "N": 1, "bins": {"100": 2}}
    mixed["write"] = {"bw_bytes": 1000, "iops": 5.0, "runtime": 3000, "clat_ns": latency}
    mixed["job options"] = {"rw": "randrw", "bs": 4096}
    apart = [report_of(3, 1_000_000 + at, 300) for at in (0, 3200, 9000)]
    plain = fio_output_job(total_ios=4)
    del plain["read"]["lat_ns"]["bins"]
    unified = fio_output_job("j")
    unified["mixed"] = unified.pop("read")
    unified["write"].clear()
    imports("fio", partial(fio.read, options=Options()), {
        "text before it, and two processes of a job":
            "fio: a warning\n" + jobs(*map(fio_output_job, ("a", "a", "b"))),
        "an old one has microseconds and KiB": jobs(old),
        "the total latency counts, and completion where there is no other": jobs(both),
        "reads and writes of one job add up": jobs(mixed),
        "the calls of fsync have rows of their own": jobs({
            **fio_output_job(), "sync": {"total_ios": 0, "lat_ns": {
                "mean": 5e6, "max": 9e6, "N": 199, "percentile": {"50.000000": 4358144,
                                                                  "99.000000": 16580608}}}}),
        "other numjobs": pair(with_options({"numjobs": "1"}), with_options({"numjobs": "8"})),
        "a depth and the usual one": pair(with_options(bs="4k"),
                                          with_options(bs="4k", iodepth="8")),
        "other seeds are repetitions": pair(with_options(bs="4k", randseed="1"),
                                            with_options(bs="4k", randseed="2")),
        "other files": pair(with_options(filename="/dev/a"), with_options(filename="/dev/b")),
        "a label that it contradicts": with_options({"ioscheduler": "bfq"}),
        "a label that it does not": [("bfq low", with_options({"ioscheduler": "bfq"}))],
        "interim reports are no repetitions":
            "".join(report_of(n, 1_000_000 + 1000 * n, 100 * n) for n in (1, 2, 3)),
        "separate runs are": "".join("fio: laying out\n" + text for text in apart),
        "as PowerShell writes it": jobs(fio_output_job()).encode("utf-16"),
        "two jobs of one name that ran one after the other":
            jobs(*({**fio_output_job(), "groupid": n} for n in (0, 0, 1))),
        "two processes without bins": jobs(plain, plain),
        "all directions together": jobs(unified),
        "each direction, and all together": jobs({**both, "mixed": unified["mixed"]}),
        "two versions of one candidate":
            pair(*(jobs(fio_output_job(), **{"fio version": v}) for v in ("fio-3.7", "fio-3.36"))),
        "a version per candidate":
            [(v, jobs(fio_output_job(), **{"fio version": v})) for v in ("fio-3.7", "fio-3.36")],
    })  # fmt: skip


ONE, TWO, THREE = (report_of(3, 1_000_000 + 9000 * n, 300 * (n % 3 + 1)) for n in range(3))
FLAT = [json.dumps(json.loads(text)) for text in (ONE, TWO, THREE)]
SEVERAL = {
    "one below the other": ONE + TWO + THREE,
    "an array": json.dumps([json.loads(text) for text in FLAT], indent=2),
    "an array on one line": f"[{','.join(FLAT)}]",
    "stamped lines": "".join(f"2026-01-01T10:0{n}:00 {t}\n" for n, t in enumerate(FLAT)),
    "indented": "".join(f"    {line}\n" for t in (ONE, TWO, THREE) for line in t.splitlines()),
    "end to beginning": "".join(FLAT),
    "on one line each": "\n".join(FLAT),
    "in an object": json.dumps({f"run {n}": json.loads(t) for n, t in enumerate(FLAT)}),
    "braces in the text between": "".join(f'set {{both}} {{}} {{"a": b}}\n{t}\n' for t in FLAT),
    "other objects": "".join(f'{{"level": "info", "of": {{"n": 1}}}}\n{t}\n' for t in FLAT),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_every_report_of_fio_is_a_repetition(tmp_path, case):
    (tmp_path / "o").write_text(SEVERAL[case])
    runs = fio.read([("none", tmp_path / "o")], Options()).runs
    assert [(run.block, run.metrics["iops"]) for run in runs] == [(0, 100), (1, 200), (2, 300)]


CUT = {
    "the first": f"{FLAT[0][:90]}\n{FLAT[1]}",
    "the second of three": f"{FLAT[0]}\n{FLAT[1][:-9]}\n{FLAT[2]}",
    "the last": f"x\n{FLAT[0]}\n  {FLAT[1][:300]}",
    "one with words in it": FLAT[0] + "\n" + ONE.replace('"jobs"', 'fio: a warning "jobs"'),
    "stamped line by line": "".join(f"10:00 {line}\n" for line in ONE.splitlines()),
    "one without a list": FLAT[0] + '{"fio version": "fio-3.36", "jobs": 3}',
}


@pytest.mark.parametrize("case", CUT)
def test_a_report_of_fio_that_cannot_be_read_is_an_error(tmp_path, case):
    (tmp_path / "o").write_text(CUT[case])
    with pytest.raises(SpecError, match=r"/o(, line \d+)?: expected (JSON|an object)") as refused:
        fio.read([("none", tmp_path / "o")], Options())
    assert refused.value.hint


def test_a_job_of_trims_has_their_rate_and_latency(tmp_path):
    reads, trims = fio_output_job(), fio_output_job()
    trims |= {"trim": trims["read"], "read": trims["write"]}
    (tmp_path / "reads").write_text(jobs(reads))
    (tmp_path / "trims").write_text(jobs(trims))
    both = [fio.read([("x", tmp_path / name)], Options()).runs[0] for name in ("reads", "trims")]
    expected = {k: v for k, v in both[0].metrics.items() if k != "read_bytes_per_s"}
    assert both[1].metrics == expected
    assert "latency_ns_mean" in expected


def test_complaints_about_fio(imports):
    bins = {"mean": 1, "max": 1, "N": 1}
    changes = [
        {"iops": "many"}, {"iops": 0.0}, {"iops": -1.0}, {"iops": True}, {"iops": 1e301},
        {"lat_ns": {**bins, "bins": {"x": 1}}}, {"lat_ns": {**bins, "bins": {"1": 1.5}}},
    ]  # fmt: skip
    broken = '{"fio version": "fio-3.33", "jobs": [1, 2, fault, 4], "disk_util": []}'
    imports("fio-errors", partial(fio.read, options=Options()), {
        "nothing": "", "cut": 'x\n{"jobs": [', "no list": '{"jobs": 3}',
        "no name": '{"jobs": [{}]}',
        "failed": jobs({**fio_output_job(), "error": 5}), "deep": "{" * 100_000,
        "a text of JSON": json.dumps({"stdout": broken}),
        "behind a whole one": jobs(fio_output_job()) + json.dumps({"stdout": broken}),
        "each line stamped": 'host fio: {\nhost fio:   "fio version": "fio-3.33",\n',
        "shown with what is around it": broken, "a client": '{"client_stats":[]}',
        **{str(change): jobs(fio_output_job(**change)) for change in changes},
    })  # fmt: skip


HDPARM = """
/dev/sda:
 Timing cached reads:   25994 MB in  2.00 seconds = 12997.05 MB/sec
 HDIO_DRIVE_CMD(identify) failed: Inappropriate ioctl for device
 Timing buffered disk reads: 606 MB in  3.01 seconds = 201.50 MB/sec
 Timing O_DIRECT disk reads (offset 100 GB): 800 kB in  3.01 seconds = 265.78 kB/sec
"""


def hdparm_of(disk, rate, size=300):
    figures = f"{size} MB in  {size / rate:.2f} seconds = {rate:.2f} MB/sec"
    cached = " Timing cached reads:   9000 MB in  2.00 seconds = 4500.00 MB/sec"
    return f"\n/dev/{disk}:\n Timing buffered disk reads: {figures}\n{cached}\n"


def test_hdparm(imports):
    line = " Timing buffered disk reads: 606 MB in  {} seconds = {} MB/sec\n"
    imports(
        "hdparm",
        partial(hdparm.read, options=Options()),
        {
            "stray lines, and its control": [("none", HDPARM), ("none", HDPARM), ("bfq", HDPARM)],
            "two disks are two workloads": hdparm_of("sdx", 100) + hdparm_of("sdy", 300) * 2,
            "a disk per candidate is a note": [(n, hdparm_of(n, 100)) for n in ("sdx", "sdy")],
            "the scheduler changes": "none [bfq]\n"
            + hdparm_of("sdx", 100)
            + "# echo none | tee /sys/block/sdx/queue/scheduler\n"
            + hdparm_of("sdx", 300),
            "the scheduler changes, as it is shown": hdparm_of("sdx", 100)
            + "sdx: [none] bfq\n"
            + hdparm_of("sdx", 100)
            + "none [bfq]\n"
            + hdparm_of("sdx", 300),
            "the scheduler stays": [
                (
                    "mq-deadline",
                    "echo deadline > /sys/block/sdx/queue/scheduler\n"
                    + hdparm_of("sdx", 100)
                    + "[mq-deadline] none\n"
                    + hdparm_of("sdx", 100),
                )
            ],
            "a label that the file contradicts": "Scheduler: bfq\n" + hdparm_of("sdx", 100),
            "a rate that its own line contradicts": "/dev/sdx:\n" + line.format("3.00", "999.00"),
            "of old": "/dev/hdc:\n"
            " Timing buffer-cache reads:   128 MB in  0.60 seconds =213.33 MB/sec\n"
            " Timing buffered disk reads:  64 MB in  2.22 seconds = 28.83 MB/sec\n",
            "commands name the disk": "".join(
                f"$ sudo hdparm -t --direct /dev/{disk}\n" + line.format("3.00", "202.00")
                for disk in ("sdx", "sdy")
            ),
            "another machine": "root@one:~# hdparm -t /dev/sdx\n"
            + hdparm_of("sdx", 100)
            + "[root@two ~]# hdparm -t /dev/sdx\n"
            + hdparm_of("sdx", 300),
            "a page in HTML": "<!DOCTYPE html>\n" + hdparm_of("sdx", 100),
            "the time of a window": line.format("0.50", "0.25"),
            "no time": line.format("0", "1"),
            "no rate": line.format("1", "0"),
            "no figure": " Timing buffered disk reads: soon",
            "nothing": "\n",
        },
    )


SPENT = "\nreal\t0m{}s\nuser\t0m1s\nsys\t0m0.5s\n"
TIMED = {
    "bash": ("$ time tar xf a.tar\n" + SPENT, "$ time rm -r a\n" + SPENT),
    "a prompt with a name": ("u@h:~# time tar xf a.tar\n" + SPENT, "u@h:~# time rm -r a" + SPENT),
    "a script that is traced": ("+ time tar xf a.tar" + SPENT, "++ time rm -r a" + SPENT),
    "a function that is traced": ("+ tar xf a.tar" + SPENT, "+ rm -r a" + SPENT),
    "a prompt of a theme": (
        "➜  src git:(main) ✗ time tar xf a.tar\n" + SPENT,
        "❯ time rm -r a\n" + SPENT,
    ),
    "a mail": (
        "> $ time tar xf a.tar" + SPENT.replace("\n", "\n> "),
        "\n>> $ time rm -r a" + SPENT.replace("\n", "\n>> ") + "\n",
    ),
    "with options": ("$ sudo /usr/bin/time -p tar xf a.tar" + SPENT, "$ A=1 time rm -r a" + SPENT),
    "GNU -v": tuple(
        f'\tCommand being timed: "{command}"\n\tUser time (seconds): 1\n'
        "\tSystem time (seconds): 0.5\n\tElapsed (wall clock) time (h:mm:ss or m:ss): 0:0{}\n"
        for command in ("tar xf a.tar", "rm -r a")
    ),
    "zsh": tuple(
        command + "  1.0s user 0.5s system 9% cpu {} total\n"
        for command in ("tar xf a.tar", "rm -r a")
    ),
}


@pytest.mark.parametrize("case", TIMED)
def test_commands_that_were_timed_are_workloads(tmp_path, case):
    first, second = TIMED[case]
    (tmp_path / "t").write_text(first.format(2) + second.format(9) + first.format(3))
    for named, prefix in (("command", ""), ("work", "work of ")):
        runs = time.read([("x", tmp_path / "t")], named, Options()).runs
        assert [(run.workload, run.block, run.metrics["elapsed_s"]) for run in runs] == [
            (f"{prefix}tar xf a.tar", 0, 2), (f"{prefix}rm -r a", 0, 9),
            (f"{prefix}tar xf a.tar", 1, 3),
        ]  # fmt: skip
    (tmp_path / "one").write_text(first.format(2) * 2)
    assert {r.workload for r in time.read([("x", tmp_path / "one")], "w", Options()).runs} == {"w"}


@pytest.mark.parametrize(("first", "then"), [
    ("# cat /sys/block/sda/queue/scheduler\n[none] bfq\n", "none [bfq]\n"),
    ("== none ==\n", "== BFQ ==\n"),
    ("sda: none\n", "sda: bfq\n"),
    ("noop\n", "(deadline)\n"),
    ("elevator=noop\n", "quiet elevator=cfq splash\n"),
    ("+ echo none\n", "+ echo bfq\n"),
    ("$ ls\n", "# echo bfq > /sys/block/sda/queue/scheduler\n"),
    ("# for s in none bfq; do echo $s | tee /sys/block/sda/queue/scheduler; done\n", "\n"),
])  # fmt: skip
def test_a_switch_of_the_scheduler_between_timed_commands_is_an_error(tmp_path, first, then):
    (tmp_path / "t").write_text(first + SPENT.format(2) + then + SPENT.format(2))
    with pytest.raises(SpecError, match=r"line \d+: expected the scheduler of the figures above"):
        time.read([("none", tmp_path / "t")], "w", Options())


def test_time(imports):
    """6.95 s, of which 6.78 and 2.92 are of the CPU, in every dialect and twice; then hours."""
    dialects = [
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
    ]
    hours = [
        "real\t1h2m3.500s\nuser\t0m1.5s\nsys\t0m0.25s",
        "1.50user 0.25system 1:02:03elapsed 0%CPU (0k",
        "1.500u 0.250s 1:02:03.50 0.0%\t0+0k",
        "x  1.50s user 0.25s system 0% cpu 1:02:03.50 total",
        "x  1.0s user 1.0s system 9% cpu 2:03.5 total",
        "\tUser time (seconds): 1\n\tSystem time (seconds): 1\n"
        "\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:02:03.5",
        "real 3723,5\nuser 1,0\nsys 1.0",
        "Executed in   62.00 mins    fish\n   usr time    1.50 secs 1\n"
        "   sys time  250.00 millis 1",
        "real\t2m0.5s\nuser\t0m1s\nsys\t0m1s",
    ]
    wrong = [
        "real\t1h2m3.500s\nuser\t0m1.5s\nsys\t0m.25s", "took 3 seconds\n", "real 1\nuser 1\n",
        "real soon\n", f"real\t{'9' * 400}m0.5s\nuser\t0m1s\nsys\t0m1s\n", "real 1\nreal 2\n",
        "real 0\nuser 0\nsys 0\n", "Command exited with non-zero status 1\n" + dialects[5],
        "Command terminated by signal 9\n" + dialects[5], "x\nreal 1\nuser 1\n", "nothing\n",
    ]  # fmt: skip
    texts = {
        **{text[:40].__repr__(): text * 2 for text in dialects},
        **{text[:40].__repr__(): text + "\n" for text in hours},
        **{text[:40].__repr__(): text for text in wrong},
        "as PowerShell writes it": "real 6.95\nuser 6.78\nsys 2.92\n".encode("utf-16"),
    }
    texts |= {f"status {n} of -v": f"{dialects[4]}\tExit status: {n}\n" for n in (0, 2)}
    imports("time", partial(time.read, workload="extract", options=Options()), texts)


LOG = """\
[71725.370000] usb 1-1: new device
[71725.470964] [Pid: 4129], CPUburst: 100214270, rt_priority:10
[71725.571000] [Pid: 4130], CPUBurst: 100036000, rt_priority:10
Nov 21 host kernel: [71725.671000] [Pid: 4129], CPUBurst: 100000000, rt_priority:10
"""


def test_bursts_of_a_patched_kernels_log(imports):
    imports("dmesg", partial(dmesg.read, options=Options()), {
        "added up per process": [("100 ms", LOG)],
        "a log that lost lines":
            LOG + "[71735.671000] [Pid: 4129], CPUBurst: 100000000, rt_priority:10\n",
        "without times there is no timeline": "[Pid: 7], CPUBurst: 5, rt_priority:0\n",
        "no process": "[1.0] [Pid: x], CPUBurst: 5, rt_priority:1\n",
        "half a line": "fine\n[1.0] [Pid: 3], CPUBurst: 5\n",
        "nothing": "", "no burst": "nothing here\n",
    })  # fmt: skip


@pytest.mark.parametrize(("read", "of"), [
    (dmesg.read, "rr-1.log"), (fio.read, "1.json"), (hdparm.read, "none-hdparm.txt"),
    (iozone.read, "1.txt"), (partial(time.read, workload="w"), "none-time.txt"),
], ids=["dmesg", "fio", "hdparm", "iozone", "time"])  # fmt: skip
def test_every_file_of_every_candidate_is_read(read, of):
    file = Path(__file__).parents[1] / "data" / "imports" / of

    def runs(*candidates):
        return read([(name, file) for name in candidates], options=Options()).runs

    assert len(runs("none", "bfq", "none")) * 2 == len(runs("none", "bfq")) * 3
    assert {run.candidate for run in runs(*"abcd")} == {*"abcd"}


@pytest.mark.parametrize("before", ["", "> "])
def test_the_capital_letters_of_an_old_iozone(tmp_path, before):
    text = """File size set to 2097152 KB
        Record Size 128 KB
        Children see throughput for  1 initial writers  =  109333.84 KB/sec
        iozone test complete."""
    (tmp_path / "t").write_text("".join(before + line + "\n" for line in text.splitlines()))
    imported = iozone.read([("x", tmp_path / "t")], Options())
    (run,), (work,) = imported.runs, imported.experiment.workloads
    assert run.metrics == {"throughput_bytes_per_s": 109333.84 * 1024}
    assert (work.parameters["record_bytes"], work.parameters["file_bytes"]) == (1 << 17, 1 << 31)


def test_a_figure_below_a_column_of_no_test_is_refused():
    with pytest.raises(SpecError, match="below the header's columns"):
        [*iozone._by_column("p", f"    1{'1':>10}{'1':>180}", [*range(5, 205, 10)])]
