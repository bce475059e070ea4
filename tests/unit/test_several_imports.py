"""Of several reports, jobs, processes, notes or files of other programs each counts."""

import json
from pathlib import Path

import pytest

from schedlab.errors import SpecError
from schedlab.store import bursts, fio_output
from schedlab.store.importers import benchmark, context, csv, dmesg, fio, iozone
from schedlab.store.importers import time as times
from schedlab.store.importers.imported import Options, Reading, assemble


def side(ios, **more):
    return {"total_ios": ios, "iops": float(ios), "bw_bytes": 4096 * ios, "runtime": ios,
            "io_bytes": 4096 * ios, **more}  # fmt: skip


def job(name, ios=10, elapsed=1, options=(), more=(), **parts):
    return {"jobname": name, "error": 0, "elapsed": elapsed, "job options": dict(options),
            "read": side(ios, **dict(more)), **parts}  # fmt: skip


def report(*jobs, at_s=100):
    return {"fio version": "fio-3.33", "timestamp": at_s, "timestamp_ms": 1000 * at_s,
            "jobs": list(jobs)}  # fmt: skip


def read_fio(tmp_path, *reports, candidate="none", options=Options()):  # noqa: B008
    file = tmp_path / "fio.json"
    file.write_text("\n".join(map(json.dumps, reports)))
    return fio.read([(candidate, file)], options)


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        ({}, True), ({"names": "ac"}, False), ({"ios": (30, 5)}, False), ({"ios": (5, 30)}, False),
        ({"elapsed": (1, 9)}, True), ({"elapsed": (9, 1)}, True), ({"elapsed": (1, 1)}, False),
        ({"ran_ms": (9000, 1)}, True), ({"ran_ms": (1, 9000)}, True), ({"ran_ms": (1, 2)}, False),
    ],
)  # fmt: skip
def test_a_later_report_is_of_the_same_run_by_all_of_its_jobs(tmp_path, changes, is_one):
    names, ios = changes.get("names", "ab"), changes.get("ios", (30, 30))
    elapsed, ran = changes.get("elapsed", (9, 9)), changes.get("ran_ms", (9000, 9000))
    later = [job(name, n, s, job_runtime=ms)
             for name, n, s, ms in zip(names, ios, elapsed, ran, strict=True)]  # fmt: skip
    made = read_fio(tmp_path, report(job("a"), job("b")), report(*later, at_s=108))
    assert ("1 interim reports" in str(made.experiment.notes)) == is_one
    assert len(made.runs) == (2 if is_one else 4)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_report_that_cannot_be_read_is_refused_wherever_it_is(tmp_path, order):
    broken = json.dumps(report(job("b"))).replace('"error": 0', '"error": 0,,')
    texts = [json.dumps(report(job("a"))), broken]
    (tmp_path / "x").write_text("\n".join(texts[at] for at in order))
    with pytest.raises(SpecError, match="JSON"):
        fio.read([("none", tmp_path / "x")], Options())


def test_every_column_that_is_used_has_to_be_there_and_every_name_may_be_a_total(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c,,\n1,2,3,,\n4,5,6,,\n")
    for missing in (["zz", "a"], ["a", "zz"], ["a", "b", "zz"]):
        with pytest.raises(SpecError, match="no column 'zz'"):
            list(csv.rows(tmp_path / "x.csv", lambda names, used=missing: used))
    found = [row for _, row in csv.rows(tmp_path / "x.csv", lambda names: ["a", "c"])]
    assert found == [{"a": "1", "b": "2", "c": "3"}, {"a": "4", "b": "5", "c": "6"}]
    seen = set()
    for name in ("bfq", "none", "kyber"):
        csv._refuse_totals("p", ["x", name], seen)
    for name in ("bfq average", "none total", "kyber mean"):
        with pytest.raises(SpecError, match="row about other rows"):
            csv._refuse_totals("p", ["x", name], seen)


@pytest.mark.parametrize("order", [1, -1])
def test_a_log_spans_from_its_first_burst_to_its_last_end(order):
    ends = [(900, 100), (1000, 700), (5000, 50)][::order]
    lines = [dmesg.LoggedBurst(at, pid, burst) for pid, (at, burst) in enumerate(ends)]
    rows = [(pid, at - burst - 300, burst) for pid, (at, burst) in enumerate(ends)]
    assert dmesg._timeline(lines, range(3)) == rows
    whole = [dmesg.LoggedBurst(at, 1, 1000) for at in (3000, 1000, 2000)][::order]
    gap = [dmesg.LoggedBurst(at, 1, 10) for at in (9000, 1000, 5000, 2000)][::order]
    assert (dmesg._gap(Path("x"), whole), bool(dmesg._gap(Path("x"), gap))) == ("", True)
    log = benchmark._Log()
    for took_us, end_us in [(10, 500), (400, 600), (10, 900), (5, 700)][::order]:
        log.see(took_us, end_us)
    assert (log.start_us, log.end_us, log.took_us.total()) == (200, 900, 4)


@pytest.mark.parametrize("order", [1, -1])
def test_each_report_that_is_broken_is_named_with_its_own_error(order):
    texts = [json.dumps(report(job(name))) for name in "ab"]
    broken = [texts[0].replace('"error": 0', '"error": 0,,'), '{"x": }', texts[1]][::order]
    text = "\n".join(['{"y": }', *broken, '{"z": }'])
    line = 2 if order == 1 else 4
    with pytest.raises(SpecError, match=f"p, line {line}:.*"):
        fio_output.reports("p", text)


def test_a_column_of_a_table_is_the_nearest_of_all():
    header = [5, 10, 20, 30, 40, 50]
    rows = [(20, 30, 50), (22, 41, 49), (18, 28, 38), (31, 39, 52)]
    for ends in rows:
        line = f"{'64':>5}{'4':>5}"
        for end in ends:
            line += f"{end:>{end - len(line)}}"
        nearest = [min(range(4), key=lambda at, end=end: abs(header[2 + at] - end)) for end in ends]
        assert [*iozone._by_column("p", line, header)] == [
            (iozone._TABLE_TESTS[at], str(end)) for at, end in zip(nearest, ends, strict=True)
        ]


@pytest.mark.parametrize("order", [1, -1])
def test_rows_that_are_added_up_keep_the_finest_digit(order, tmp_path):
    lines = ["bfq,a,1,1.25", "bfq,a,2,2.5", "bfq,a,3,3"]
    (tmp_path / "x.csv").write_text("\n".join(["who,what,part,rate", *lines[::order]]))
    columns = csv.Columns(("who",), "rate", ("what",), unit="MB/s", sum_over=("part",))
    (run,) = csv.read(tmp_path / "x.csv", columns, Options()).runs
    assert [*run.metrics.values()] == [6.75e6] and [*run.properties["steps"].values()] == [1e4]


def test_bursts_begin_with_the_first_of_all_tasks(tmp_path):
    assert bursts.labels_of({1: "a", 2: "b", 3: "a"}) == {1: "a:1", 2: "b", 3: "a:3"}
    rows = [{"process": name, "start_ns": at, "duration_ns": 5}
            for name, at in (("b", 70), ("a", 40), ("b", 90))]  # fmt: skip
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = bursts.read_bursts(tmp_path / "x.jsonl", ["a", "b"])
    assert [(row["task"], row["start_ns"]) for row in found] == [(1, 30), (0, 0), (1, 50)]


def test_all_that_is_missing_or_known_in_files_of_other_programs_is_named(tmp_path, monkeypatch):
    (tmp_path / "t").write_text("real\t0m1.5s\n")
    with pytest.raises(SpecError, match="sys, user of the measurement"):
        times.read([("none", tmp_path / "t")], "w", Options())
    readings = [Reading("p", name, "w", {"iops": 1.0}) for name in ("none", "bfq", "kyber")]
    with pytest.raises(SpecError) as found:
        assemble(readings, Options(baseline="x"), {"file": "f"})
    assert found.value.hint == "one of none, bfq, kyber"
    gap = [dmesg.LoggedBurst(at, 1, 10) for at in (1000, 9000)]
    monkeypatch.setattr(dmesg, "lines_of", lambda path: gap if path.name != "whole" else gap[:1])
    files = [("none", Path("x1")), ("bfq", Path("whole")), ("kyber", Path("x2"))]
    logged = dmesg.read(files, Options()).experiment.notes
    assert [name for name in ("x1", "whole", "x2") if any(name in note for note in logged)] == [
        "x1", "x2"]  # fmt: skip
    rows = [Reading("p", "none", work, {"elapsed_s": 2.0}) for work in ("c", "a", "b")]
    with pytest.raises(SpecError) as found:
        csv._with_cpu_share(rows, {"a": "b", "c": "x"})
    assert found.value.hint == "workloads: a, b, c"
    log = benchmark._Log()
    for took_us in range(1, 2001):
        log.see(took_us, 10**6 + took_us)
    names = benchmark._of_log("none", tmp_path, log).metrics
    assert {"latency_ns_p50", "latency_ns_p90", "latency_ns_p99"} <= {*names}
    summary = [("r", ["Throughput report Y-axis is type of test"]), ("r", ["Record size = 4 kB"]),
               ("r", ["Output is in kBytes/sec"]), ("r", ["Read", "10", "0", "30"]),
               ("r", ["Write", "1", "2", "3"])]  # fmt: skip
    size = next(text for text in ("Record size = 4 kB", "Record size = 4 kBytes ")
                if iozone._RECORD.fullmatch(text))  # fmt: skip
    summary[1] = ("r", [size])
    figures = [*iozone._from_summary(summary, [1, 2, 4], 0)]
    assert [(f.test, f.value, f.workers) for f in figures] == [
        ("read", 10, 1), ("read", 30, 4), ("write", 1, 1), ("write", 2, 2), ("write", 3, 4)
    ]  # fmt: skip


def test_both_columns_of_a_ratio_every_row_and_every_word_of_a_command_are_read():
    columns = csv.Columns(("bfq",), "7/8")
    rows = [("p", {"bfq": "x", "7": "1", "8": "2"}), ("q", {"bfq": "bfq", "7": "3", "8": "4,5"})]
    assert [*csv._written(rows, columns)] == [("p", "1"), ("p", "2"), ("q", "3"), ("q", "4,5")]
    for order in (1, -1):
        with pytest.raises(SpecError, match="names of the columns"):
            csv._check_header(Path("f"), csv.Columns(("who", "bfq"), "7"), [
                (place, {**row, "who": "y"}) for place, row in rows[::order]])  # fmt: skip
    started = {
        "$ sysbench fileio --threads=4 run": "fileio --threads=4 run",
        "$ sudo /usr/bin/sysbench --threads=4": "--threads=4",
        "$ sysbench a b --x": "",
    }
    assert {line: context.arguments_in(line, "sysbench") for line in started} == started
