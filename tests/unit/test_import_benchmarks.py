"""Importers of benchmarks on outputs of sysbench 1.0.20, pgbench 15.18, hackbench (rt-tests 2.4),
perf 6.1 and iostat 12.6.1, and on the layouts of sysbench 0.4, pgbench 13 and schbench.

What becomes of each file is in tests/golden/imports.
"""

from functools import partial
from pathlib import Path

import pytest
from imports import Imports

from schedlab.app.trace import files
from schedlab.errors import SpecError
from schedlab.nouns import foreign
from schedlab.store.importers import IMPORTERS
from schedlab.store.importers.imported import Options

DATA = Path(__file__).parents[1] / "data" / "benchmarks"
FILES = {
    "sysbench": "sysbench*.txt",
    "pgbench": "pgbench*",
    "schbench": "schbench*.txt",
    "hackbench": "*ben*ch*[hds].txt",
    "iostat": "iostat*.json",
}


def read(name, files):
    return IMPORTERS[name].read(files, options=Options())


@pytest.mark.parametrize("name", FILES)
def test_each_benchmark_has_the_figures_that_it_printed(name, golden, tmp_path):
    pattern = "hackbench*.txt" if name == "hackbench" else FILES[name]
    files = sorted(DATA.glob(pattern)) + [DATA / "perf-bench.txt"] * (name == "hackbench")
    cases = {each.name: each.read_text() for each in files}
    both = "".join(cases.values()) if name in ("hackbench", "sysbench") else ""
    twice = {"all in one file": both} if both else {}
    Imports(tmp_path, golden)(f"benchmarks-{name}", partial(read, name), cases | twice)


@pytest.mark.parametrize("name", FILES)
def test_a_cut_output_and_an_empty_one_are_errors(name, tmp_path):
    whole = (DATA / {"iostat": "iostat-x.json", "pgbench": "pgbench-13.txt"}.get(
        name, {"sysbench": "sysbench-cpu.txt"}.get(name, f"{name}.txt"))).read_text()  # fmt: skip
    cut = {
        "sysbench": "Latency (ms)", "pgbench": "tps", "hackbench": "Time:", "iostat": "disk_device",
        "schbench": "\t  50.0th",
    }[name]  # fmt: skip
    for number, text in enumerate((whole[: whole.index(cut)], "")):
        (tmp_path / str(number)).write_text(text)
        with pytest.raises(SpecError) as error:
            read(name, [("none", tmp_path / str(number))])
        assert error.value.hint


@pytest.mark.parametrize(("first", "then"), [
    ("# cat queue/scheduler\n[none] bfq\n", "none [bfq]\n"),
    ("root@one:~# hackbench\n", "[root@two ~]# hackbench\n"),
])  # fmt: skip
def test_another_scheduler_or_machine_between_runs_is_an_error(tmp_path, first, then):
    text = (DATA / "hackbench.txt").read_text()
    (tmp_path / "both").write_text(first + text + first + text)
    assert len(read("hackbench", [("none", tmp_path / "both")]).runs) == 2
    (tmp_path / "both").write_text(first + text + then + text)
    with pytest.raises(SpecError, match="of the figures above"):
        read("hackbench", [("none", tmp_path / "both")])


def test_other_options_are_other_workloads_and_a_failed_run_is_an_error(tmp_path):
    text = (DATA / "sysbench-cpu.txt").read_text()
    other = text.replace("threads: 1", "threads: 8")
    (tmp_path / "both").write_text(text + other)
    imported = read("sysbench", [("none", tmp_path / "both")])
    labels = [each.label for each in imported.experiment.workloads]
    assert labels == ["cpu (threads=1)", "cpu (threads=8)"]
    (tmp_path / "failed").write_text(text + "FATAL: mysql_drv_query() returned error 1146\n")
    with pytest.raises(SpecError, match="without errors"):
        read("sysbench", [("none", tmp_path / "failed")])


@pytest.mark.parametrize(
    ("name", "file", "start", "label"),
    [
        ("sysbench", "sysbench-cpu.txt", "CPU speed:", "cpu"),
        ("sysbench", "sysbench-fileio.txt", "File operations:", "fileio"),
        ("sysbench", "sysbench-oltp.txt", "SQL statistics:", "oltp"),
        ("schbench", "schbench-requests.txt", "Request Latencies", "schbench"),
    ],
)
def test_a_run_whose_beginning_was_cut_off_is_read_from_its_first_title_on(
    tmp_path, name, file, start, label
):
    """What people paste; twice, with other text between."""
    whole = (DATA / file).read_text()
    text = whole[whole.index(start) :]
    (tmp_path / "cut").write_text(f"```\n{text}```\n## Second\n{text}")
    imported = read(name, [("none", tmp_path / "cut")])
    assert [each.label for each in imported.experiment.workloads] == [label]
    (tmp_path / "whole").write_text(whole)
    complete = read(name, [("none", tmp_path / "whole")]).runs[-1].metrics
    first, second = imported.runs
    assert first.metrics == second.metrics
    assert first.metrics.items() <= complete.items()
    with pytest.raises(SpecError, match=f"is output of {name}"):
        read("hdparm", [("none", tmp_path / "cut")])


def test_iostat_counts_in_blocks_where_posix_wants_it_and_a_report_is_a_list(tmp_path):
    text = (DATA / "iostat-d.json").read_text()
    blocks = tmp_path / "blocks"
    blocks.write_text(text.replace("kB_", "Blk_"))
    kilobytes = read("iostat", [("none", DATA / "iostat-d.json")]).runs[0].metrics
    figures = read("iostat", [("none", blocks)]).runs[0].metrics
    assert figures["throughput_bytes_per_s"] == kilobytes["throughput_bytes_per_s"] / 2 > 0
    for wrong in ("null", "5", "true"):
        blocks.write_text(f'{{"sysstat": {{"hosts": [{{"statistics": [{{"disk": {wrong}}}]}}]}}}}')
        with pytest.raises(SpecError, match="the JSON of iostat"):
            read("iostat", [("none", blocks)])


@pytest.mark.parametrize(("text", "what"), [
    ("0, 0, 0, 0\n500, 894, 0, 0\n", "a log of fio without offsets"),
    ("0, 23, 1, 131072\n877, 14011, 1, 131072\n", "a log of fio without offsets"),
    ("# biolatency\n     usecs      : count     distribution\n", "a histogram of bcc"),
    ("@usecs:\n[16, 32)   21 |@@@@@   |\n", "a histogram of bcc or bpftrace"),
    ("see block_rq_issue: text\n  >=(ms) .. <(ms)   : I/O |Distribution |\n", "a histogram"),
    ("COMM  PID  TYPE DEV   BLOCK  BYTES LATms\ntar 1 R 8,0 8 4096 1.0\nreal\t0m1.5s\n",
     "a table of iosnoop"),
    ("PID    COMM   D MAJ MIN DISK  I/O  Kbytes  AVGms\n1 cksum R 202 1 xvda1 3 9 3.3\n",
     "a table of biotop"),
    ("procs -----------memory---------- ---swap-- -----io----\n r  b\n", "a result of vmstat"),
    ("; mine\n[global]\ndirect=1\n\n[a]\n  rw = randread\n", "a job file of fio"),
])  # fmt: skip
def test_what_nothing_reads_is_named(text, what, tmp_path):
    (tmp_path / "x").write_text(text)
    with pytest.raises(SpecError, match=f"is {what}.*, which is not read here"):
        files.stats(str(tmp_path / "x"), {})


def test_requests_inside_a_document_are_read_as_the_hint_says(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text(
        "# Notes\n\nTIME(s)  COMM PID DISK T SECTOR BYTES LAT(ms)\n"
        "0.000004 dd 1950 sdb W 13092560 4096 0.74\n1.022346 dd 1950 sdb W 13115272 4096 0.98\n"
    )
    with pytest.raises(SpecError) as error:
        files.stats(str(path), {})
    assert error.value.hint.endswith(f"trace stats {path}:biosnoop --skip-bad-lines")
    stats = files.stats(f"{path}:biosnoop", {"skip_bad_lines": True})
    assert (stats["summary"]["writes"], stats["summary"]["bytes"]) == (2, 8192)


def test_a_second_figure_of_a_run_that_ended_is_an_error(tmp_path):
    (tmp_path / "h").write_text((DATA / "hackbench.txt").read_text() + "Time: 9.0\n")
    with pytest.raises(SpecError, match="the start of a run before another figure of elapsed_s"):
        read("hackbench", [("none", tmp_path / "h")])


def test_runs_that_were_started_with_other_options_are_no_repetitions(tmp_path):
    one = "Wakeup Latencies percentiles (usec) runtime 90 (s) (9 total samples)\n  50.0th: 8\n"
    path = tmp_path / "README.md"
    path.write_text(
        f"schbench is a tool -- see below\n```\n ./schbench -F 256 -r 10\n{one}\n"
        f"root@one:~# sudo schbench -F 256 -r 90 | tee out\n{one}```\n$ schbench -F 256 -r 90\n"
        f"{one}"
    )
    imported = read("schbench", [("none", path)])
    labels = [each.workload for each in imported.runs]
    assert labels == ["schbench of -F 256 -r 10", *["schbench of -F 256 -r 90"] * 2]


def test_iostats_json_is_found_in_other_text_and_without_devices_passed_over(tmp_path):
    own = (DATA / "iostat-x.json").read_text()
    cpu = '{"sysstat": {"hosts": [{"statistics": [{"avg-cpu": {"user": 1.0}}]}]}}'
    path = tmp_path / "notes.md"
    path.write_text(f"$ iostat -x -o JSON\n{own}\n{cpu}\n```json\n{own}\n```\n")
    alone = [run.metrics for run in read("iostat", [("none", DATA / "iostat-x.json")]).runs]
    assert [run.metrics for run in read("iostat", [("none", path)]).runs] == alone * 2


@pytest.mark.parametrize("one", ["\n", " \n", "1", "cpu "])
def test_files_of_nothing_but_the_same_are_soon_refused(one, tmp_path):
    same = tmp_path / "same"
    same.write_text(one * ((64 << 10) // len(one)))
    with pytest.raises(SpecError, match="expected the output of hackbench"):
        read("hackbench", [("none", same)])
    # It would be tried to the end of the blank lines, at each of them.
    assert not [each.pattern for each in foreign._KNOWN if r"^\s*" in each.pattern]


@pytest.mark.parametrize("name", ["hackbench", "sched"])
def test_a_file_that_cannot_be_read_is_an_error_of_the_user(name):
    with pytest.raises(SpecError, match="mem"):
        read(name, [("none", Path("/proc/self/mem"))])


@pytest.mark.parametrize("before", ["", "  ", "> ", ">> > "])
def test_an_interim_report_of_schbench_and_the_quotation_marks_of_mails(tmp_path, before):
    report = "Wakeup Latencies percentiles (usec) runtime 30 (s) (9 total samples)\n* 99.0th: {}\n"
    text = report.format(11) + "current rps: 4.5\n" + report.format(12) + "average rps: 5.5\n"
    (tmp_path / "s").write_text("".join(before + line + "\n" for line in text.splitlines()))
    assert foreign.reader_of(tmp_path / "s", "") == ("" if before == "  " else "schbench")
    (run,) = IMPORTERS["schbench"].read([("x", tmp_path / "s")], Options()).runs
    assert run.metrics == {"wakeup_ns_p99": 12e3, "requests_per_s": 5.5}
