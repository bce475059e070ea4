"""Formats, tried with the programs that own them: they write what is read and read what we write.

Each program runs over a grid of its options; names and sums must be those that it says itself.
"""

import itertools
import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from loops import loop_device, needs_root

from schedlab.cli import cli
from schedlab.kinds.fio_job import FioJob
from schedlab.result import Result
from schedlab.store.exporters import fio as fio_export
from schedlab.store.importers import IMPORTERS, fio, hdparm, iozone, time
from schedlab.store.importers.imported import Options


def needs(*programs):
    missing = [each for each in programs if not shutil.which(each)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run(*words, cwd=None, shell=False, **more):
    command = words[0] if shell else [str(word) for word in words]
    more = {"capture_output": True, "text": True, **more}
    return subprocess.run(command, cwd=cwd, check=True, shell=shell, **more)


def stats(trace, *more):
    done = CliRunner().invoke(
        cli, ["trace", "stats", str(trace), "--json", *more], catch_exceptions=False
    )
    return json.loads(done.stdout)


JOBS = ["--directory=.", "--size=256k", "--ioengine=psync"]
GRID = [*itertools.product(
    ("json", "json+", "normal,json"),
    ("read", "randwrite", "randrw"),
    ([], ["--numjobs=2"], ["--numjobs=2", "--group_reporting"], ["--lat_percentiles=1"]),
)]  # fmt: skip


@pytest.mark.sampled(3)
@needs("fio")
@pytest.mark.parametrize(("form", "order", "more"), GRID)
def test_jobs_and_rates_are_those_that_fio_says(tmp_path, form, order, more):
    words = [f"--output-format={form}", f"--rw={order}", *JOBS, *more]
    text = run("fio", "--name=first", *words, "--name=second", *words[1:], cwd=tmp_path).stdout
    (tmp_path / "o.json").write_text(text)
    report, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    imported = fio.read([("none", tmp_path / "o.json")], Options())
    names = list(dict.fromkeys(job["jobname"] for job in report["jobs"]))
    assert [reading.workload.split(" (")[0] for reading in imported.runs] == names
    for name, reading in zip(names, imported.runs, strict=True):
        parts = [job for job in report["jobs"] if job["jobname"] == name]
        sides = {d: [part[d] for part in parts if part[d]["total_ios"]] for d in ("read", "write")}
        every = [side for each in sides.values() for side in each]
        assert reading.metrics["throughput_bytes_per_s"] == sum(s["bw_bytes"] for s in every)
        assert reading.metrics["iops"] == pytest.approx(sum(s["iops"] for s in every))
        for direction, each in sides.items():
            if each:
                prefix = f"{direction}_" if order == "randrw" else ""
                total = sum(side["total_ios"] for side in each)
                mean = sum(side["lat_ns"]["mean"] * side["total_ios"] for side in each) / total
                assert reading.metrics[f"{prefix}latency_ns_mean"] == pytest.approx(mean)


BOTH_DOORS = [
    "rw=read", "rw=randwrite\nfsync=4", "rw=randrw", "rw=randrw\nnumjobs=4",
    "rw=randrw\nnumjobs=4\ngroup_reporting", "rw=read\nunified_rw_reporting=mixed",
    "rw=randrw\nnumjobs=2\nunified_rw_reporting=mixed", "rw=randrw\nunified_rw_reporting=both",
    "rw=randwrite\nlat_percentiles=1", "rw=read\nclat_percentiles=0", "rw=read\ndisable_clat=1",
    "rw=read\ndisable_lat=1", "rw=read\ngtod_reduce=1", "rw=write\nverify=crc32c",
    "rw=write\nfdatasync=1\nnumjobs=2", "rw=read\nbs=512\nloops=3\nrandseed=3",
]  # fmt: skip


@needs("fio")
@pytest.mark.parametrize("lines", BOTH_DOORS)
def test_a_job_file_and_an_import_have_the_same_figures(tmp_path, lines):
    (tmp_path / "job").write_text(f"[j]\nsize=256k\nioengine=psync\n{lines}\n")
    kind = FioJob(job_file=str(tmp_path / "job"))
    out = run(*kind.command(), cwd=tmp_path).stdout
    values, bounds = kind.values_of(out.encode())
    (tmp_path / "o.json").write_text(out)
    (imported,) = fio.read([("none", tmp_path / "o.json")], Options()).runs
    ways = [way for way in ("read", "write") if f"j.{way}.iops" in values] or ["mixed"]
    assert imported.metrics["iops"] == sum(values[f"j.{way}.iops"] for way in ways)
    assert {name for name in values if name.split(".")[1] not in (*ways, "sync")} <= {
        name for name in values if name.split(".")[1] == "mixed"
    }
    for way in (*ways, "sync"):
        alone = len(ways) == 1
        prefix = "fsync_" if way == "sync" else "" if alone else f"{way}_"
        for word in ("mean", "max", "p50", "p90", "p99", "p99_9"):
            ours, theirs = f"{prefix}latency_ns_{word}", f"j.{way}.lat_ns_{word}"
            assert imported.metrics.get(ours) == values.get(theirs), word
            assert imported.bounds.get(ours) == bounds.get(theirs), word


@needs("fio")
def test_interim_reports_of_fio_are_one_run(tmp_path):
    words = ["--rw=randread", "--time_based", "--runtime=2", "--rate_iops=100"]
    run("fio", "--name=j", *JOBS, *words, "--status-interval=1", "--output-format=json",
        "--output=o.json", cwd=tmp_path)  # fmt: skip
    reports = fio.load(tmp_path / "o.json")
    assert len(reports) > 1
    (reading,) = fio.read([("none", tmp_path / "o.json")], Options()).runs
    assert reading.metrics["iops"] == pytest.approx(reports[-1]["jobs"][0]["read"]["iops"])


@needs("fio")
@pytest.mark.parametrize("order", ["randread", "randrw"])
def test_what_fio_logged_is_read_and_what_is_written_fio_replays(tmp_path, order):
    """iolog and latency log of one run; the iolog converted and replayed has the same I/O."""
    done = run("fio", "--name=j", *JOBS, f"--rw={order}", "--write_iolog=w.iolog", "--log_offset=1",
               "--write_lat_log=l", "--output-format=json", cwd=tmp_path)  # fmt: skip
    (job,) = json.loads(done.stdout)["jobs"]
    wanted = {d: (job[d]["total_ios"], job[d]["io_bytes"]) for d in ("read", "write")}

    def sums(summary):
        return {
            "read": (summary["reads"], summary["read_bytes"]),
            "write": (summary["writes"], summary["write_bytes"]),
        }

    assert sums(stats(tmp_path / "w.iolog")["summary"]) == wanted
    log = stats(f"{tmp_path / 'l_lat.1.log'}:fio-log")["summary"]
    assert sums(log) == wanted
    words = ["trace", "convert", str(tmp_path / "w.iolog"), str(tmp_path / "ours"), "--to", "iolog"]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0
    (tmp_path / "file0").write_bytes(bytes(1 << 18))
    done = run("fio", "--name=r", "--read_iolog=ours", "--output-format=json", cwd=tmp_path)
    (job,) = json.loads(done.stdout)["jobs"]
    assert {d: (job[d]["total_ios"], job[d]["io_bytes"]) for d in ("read", "write")} == wanted


@needs("fio")
def test_an_averaged_log_of_fio_is_refused(tmp_path):
    run(
        "fio", "--name=j", *JOBS, "--rw=read", "--write_lat_log=l", "--log_avg_msec=1", cwd=tmp_path
    )
    words = ["trace", "stats", f"{tmp_path / 'l_lat.1.log'}:fio-log"]
    done = CliRunner().invoke(cli, words)
    assert "averaged log (log_avg_msec)" in str(done.exception)


@needs("fio")
def test_an_exported_result_has_what_fio_plot_reads(tmp_path):
    """The keys of fio-plot's jsonimport.py and jsonparsing.py, and what fio itself writes."""
    words = ["--rw=randrw", "--bs=4k", *JOBS, "--output-format=json+", "--output=o.json"]
    run("fio", "--name=j", *words, cwd=tmp_path)
    folder = fio.read([("none", tmp_path / "o.json")], Options()).save(tmp_path / "r")
    result = Result(folder)
    (file,) = fio_export.write(result.record, result.parameters, tmp_path / "out")
    (ours,), (theirs,) = (fio.load(f)[0]["jobs"] for f in (file, tmp_path / "o.json"))
    for direction in ("read", "write"):
        assert set(ours[direction]) >= {
            "bw", "iops", "iops_min", "iops_max", "iops_mean", "iops_stddev", "bw_min", "bw_max",
            "bw_mean", "bw_dev", "lat_ns", "clat_ns", "runtime", "total_ios",
        }  # fmt: skip
        assert set(ours[direction]["lat_ns"]) >= {"min", "max", "mean", "stddev"}
        assert ours[direction]["bw_bytes"] == theirs[direction]["bw_bytes"]
    # fio itself has the third block with unified_rw_reporting=both.
    assert ours["mixed"]["bw_bytes"] == pytest.approx(
        sum(ours[direction]["bw_bytes"] for direction in ("read", "write")), abs=2
    )
    for key in ("usr_cpu", "sys_cpu", "job options"):
        assert key in ours
    for unit in ("latency_ns", "latency_us", "latency_ms"):
        # fio counts the whole latency there, and has bins of the completion's part only.
        assert ours[unit].keys() == theirs[unit].keys()
        assert ours[unit] == pytest.approx(theirs[unit], abs=25)
    assert sum(sum(ours[f"latency_{unit}"].values()) for unit in ("ns", "us", "ms")) == (
        pytest.approx(100)
    )


IOZONE = shutil.which("iozone") or Path(__file__).parents[2] / "target/iozone/usr/bin/iozone"
# What each number of -i measures; in the table nothing else than 0 to 7.
TESTS = {
    0: ("write", "rewrite"), 1: ("read", "re-read"), 2: ("random read", "random write"),
    3: ("reverse read",), 4: ("record rewrite",), 5: ("stride read",),
    6: ("fwrite", "re-fwrite"), 7: ("fread", "re-fread"),
}  # fmt: skip
CROWD_TESTS = {
    **{n: TESTS[n] for n in (0, 1, 2, 3, 5)}, 8: ("mixed",), 9: ("pwrite",), 10: ("pread",),
    6: ("fwrite",), 7: ("fread",),
}  # fmt: skip


def iozone_says(tmp_path, *words):
    """Figures by workload of the text and of the file of `-b`, and IOzone's text."""
    shown = run(IOZONE, *words, "-R", "-b", "o.xls", cwd=tmp_path).stdout
    whole, table = tmp_path / "o.txt", tmp_path / "table.txt"
    whole.write_text(shown)
    table.write_text(
        shown[: shown.find("Excel output is below")] if "Excel out" in shown else shown
    )
    return [
        {run.workload: run.metrics for run in iozone.read([("none", file)], Options()).runs}
        for file in (table, whole, tmp_path / "o.xls")
    ]


@pytest.mark.sampled(2)
@pytest.mark.skipif(not Path(IOZONE).exists(), reason="needs IOzone: tests/unpack")
@pytest.mark.parametrize("unit", ["", "-O", "-N", "-o", "-I", "-+u"])
@pytest.mark.parametrize("tests", [(0,), (0, 2), *((0, n) for n in range(3, 8)), tuple(TESTS)])
def test_the_table_and_both_reports_of_iozone_have_the_same_figures(tmp_path, unit, tests):
    words = [word for n in tests for word in ("-i", n)] + ["-s", "1m", "-f", "f"]
    table, report, sheet = iozone_says(tmp_path, *words, *unit.split(), "-r", "64k", "-r", "256k")
    names = [name for n in tests for name in TESTS[n]]
    assert table.keys() == {f"{name} {size} KiB" for name in names for size in (64, 256)}
    metric = {"-O": "iops", "-N": "latency_ns_mean"}.get(unit, "throughput_bytes_per_s")
    assert all(metrics.keys() == {metric} for metrics in table.values())
    assert table == report == sheet


@pytest.mark.sampled(2)
@pytest.mark.skipif(not Path(IOZONE).exists(), reason="needs IOzone: tests/unpack")
@pytest.mark.parametrize(
    ("crowd", "unit", "tests"),
    [
        ("-t 1", "", tuple(CROWD_TESTS)),
        ("-t2", "-O", (0,)),
        ("-t 1 -t 2", "-+u", (0,)),
        ("-l 2 -u 3", "-T", (0,)),
        ("-u 2", "-+n", (0,)),
    ],
)
def test_the_text_and_the_sheet_of_many_processes_agree(tmp_path, crowd, unit, tests):
    words = [word for n in tests for word in ("-i", n)]
    words += ["-s", "128k", "-r", "16k", *crowd.split(), *unit.split(), "-F", "a", "b", "c"]
    text, _, sheet = iozone_says(tmp_path, *words)
    names = [name for n in tests for name in CROWD_TESTS[n]]
    expected = {name for name in names if unit != "-+n" or not name.startswith("re")}
    assert {name.split(" 16 KiB")[0] for name in text} == expected
    assert text.keys() == sheet.keys()
    for name, metrics in text.items():
        assert sheet[name] == pytest.approx(metrics, abs=0.006 * 1024)


SHELLS = {
    "bash": "time sleep 0.11",
    "bash -p": "time -p sleep 0.11",
    "gnu": "/usr/bin/time sleep 0.11",
    "gnu -p": "/usr/bin/time -p sleep 0.11",
    "gnu -v": "/usr/bin/time -v sleep 0.11",
}


@needs("bash", "/usr/bin/time")
@pytest.mark.parametrize("shape", SHELLS)
def test_times_are_those_that_the_shell_and_gnu_time_print(tmp_path, shape):
    done = run("bash", "-c", f"{SHELLS[shape]}; {SHELLS[shape]}")
    (tmp_path / "t").write_text(done.stderr)
    runs = time.read([("x", tmp_path / "t")], "w", Options()).runs
    assert [0.1 <= each.metrics["elapsed_s"] < 60 for each in runs] == [True, True]


@pytest.mark.sampled(2)
@needs("hdparm", "losetup")
def test_rates_of_hdparm_belong_to_the_disk_that_it_names(tmp_path, loop_disks):
    text = "".join(
        run("hdparm", *options, *loop_disks).stdout
        for options in (["-t"], ["-T"], ["-t", "--direct"])
    )
    (tmp_path / "h").write_text(text)
    imported = hdparm.read([("x", tmp_path / "h")], Options())
    names = [disk.removeprefix("/dev/") for disk in loop_disks]
    assert {run.workload for run in imported.runs} == {
        "cached reads",
        *(f"buffered disk reads of {n}" for n in names),
        *(f"O_DIRECT disk reads of {n}" for n in names),
    }
    assert len(imported.runs) == text.count("Timing")
    assert [n for n in imported.experiment.notes if " are " in n] == []


@pytest.fixture
def loop_disks(tmp_path):
    disks = []
    try:
        for number in range(2):
            file = tmp_path / f"disk{number}"
            file.touch()
            os.truncate(file, 256 << 20)
            try:
                disks.append(run("losetup", "--find", "--show", file).stdout.strip())
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no loop devices: {error.stderr}")
        yield disks
    finally:
        for disk in disks:
            run("losetup", "--detach", disk)


def blktrace_record(sequence, time_ns, sector, length, action, cpu):
    return struct.pack(
        "<IIQQIIIIIHH",
        0x65617407,
        sequence,
        time_ns,
        sector,
        length,
        action,
        77,
        8 << 20,
        cpu,
        0,
        0,
    )


READ, WRITE, QUEUE, ISSUE, COMPLETE = 1 << 16, 1 << 17, 1, 7, 8


@needs("blkparse")
@pytest.mark.parametrize(
    ("event", "actions"),
    [("queue", [QUEUE]), ("dispatch", [ISSUE]), ("complete", [ISSUE, COMPLETE])],
)
def test_text_of_blkparse_says_what_the_binary_files_say(tmp_path, event, actions):
    """A clock since the boot on two CPUs; blkparse itself makes the text of it."""
    boot_ns = 864_000 * 10**9
    for cpu in range(2):
        records, sequence = [], 0
        for number in range(20):
            for after, action in enumerate(actions):
                sequence += 1
                at_ns = boot_ns + 1_000_000 * (2 * number + cpu) + 200_000 * after
                kind = (READ, WRITE)[number % 2] | action
                sector = 8 * (20 * cpu + number)
                records.append(blktrace_record(sequence, at_ns, sector, 4096, kind, cpu))
        (tmp_path / f"sda.blktrace.{cpu}").write_bytes(b"".join(records))
    text = run("blkparse", "-i", "sda", cwd=tmp_path).stdout
    (tmp_path / "sda.txt").write_text(text)
    binary = stats(tmp_path / "sda", "--event", event)
    parsed = stats(tmp_path / "sda.txt", "--event", event)
    assert (binary["format"], parsed["format"]) == ("blktrace", "blkparse")
    assert binary["summary"] == parsed["summary"]
    assert (binary["summary"]["requests"], binary["summary"]["first_ns"]) == (40, 0)
    assert binary["summary"]["span_ns"] == 39_000_000


PERF = """
mount -t tracefs none /sys/kernel/tracing && cd "$1" || exit 77
number=$(cat /sys/block/$(basename "$2")/dev)
filter="dev == $(( (${number%:*} << 20) | ${number#*:} ))"
for name in bio_queue rq_issue rq_complete; do
    set -- "$@" -e "block:block_$name" --filter "$filter"
done
device=$2; shift 2
perf record -q -a -o data "$@" -- dd if=/dev/zero of="$device" bs=64k count=8 oflag=direct 2> said \
    || exit 77
perf script -i data --ns > out
"""


@needs_root
@needs("perf", "dd", "unshare")
def test_requests_that_perf_prints_are_those_that_dd_sent(tmp_path):
    with loop_device(tmp_path / "backing") as device:
        words = ["unshare", "-m", "sh", "-c", PERF, "sh", str(tmp_path), device]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(f"perf cannot record here: {done.stderr[-200:]}")
    for event in ("queue", "dispatch", "complete"):
        read = stats(tmp_path / "out", "--event", event)
        summary = read["summary"]
        assert read["format"] == "ftrace"
        assert (summary["writes"], summary["write_bytes"]) == (8, 8 << 16)
        assert summary["end_bytes"] == 8 << 16
    assert summary["latency_ns"]["count"] == 8


SAYS = {
    "sysbench": (
        "sysbench cpu --cpu-max-prime=2000 --events=200 --time=0 run",
        "events_per_s",
        lambda text: [float(re.search(r"events per second: +(\S+)", text)[1])],
    ),
    "hackbench": (
        "hackbench -g 1 -l 5",
        "elapsed_s",
        lambda text: [float(re.search(r"Time: (\S+)", text)[1])],
    ),
    # Its report since the boot, which always has I/O; of less than .005 requests/s it prints 0.
    "iostat": (
        "iostat -o JSON -d -x",
        "iops",
        lambda text: [
            disk["r/s"] + disk["w/s"]
            for disk in json.loads(text)["sysstat"]["hosts"][0]["statistics"][0]["disk"]
            if disk["r/s"] + disk["w/s"]
        ],
    ),
}


@pytest.mark.parametrize("name", SAYS)
def test_benchmarks_say_what_is_imported_of_them(tmp_path, name):
    command, metric, figures = SAYS[name]
    if not shutil.which(name):
        pytest.skip(f"not installed: {name}")
    text = run(*command.split()).stdout
    (tmp_path / "out").write_text(text)
    runs = IMPORTERS[name].read([("x", tmp_path / "out")], options=Options()).runs
    assert [each.metrics[metric] for each in runs] == pytest.approx(figures(text))
