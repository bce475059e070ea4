"""Importing CSV files: the published data sets, and complaints that name the place."""

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.store.folder import Folder
from schedlab.store.importers import csv
from schedlab.store.importers.imported import Options, labelled
from schedlab.store.importers.text import LINE_BYTES_MAX, read_bytes, read_lines
from schedlab.store.importers.units import quantity
from schedlab.store.table import samples

DATA = Path(__file__).parents[1] / "data"
STUDY = resources.files("schedlab") / "labs" / "iozone-noop-deadline-cfq.csv"
SIMPLE = csv.Columns(candidate=("who",), value="speed", unit="KiB/s", block="n")


def run(*arguments):
    result = CliRunner().invoke(cli, ["import", "csv", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def read(tmp_path, text, columns=SIMPLE, options=Options()):  # noqa: B008
    file = tmp_path / "in.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return csv.read(file, columns, options)


def test_the_iozone_study_with_the_documented_command(tmp_path):
    out = tmp_path / "out"
    run(
        STUDY, "--candidate", "scheduler", "--workload",
        "test,record_bytes", "--value", "kib_per_s", "--unit", "KiB/s", "--higher-is-better",
        "--block", "repetition", "--unblocked", "--out", out,
    )  # fmt: skip
    record = Folder.open(out).record()
    experiment = record.experiment
    assert (experiment.kind, experiment.blocked, experiment.baseline) == ("import", False, "noop")
    assert len(record.runs) == 945
    assert len(experiment.workloads) == 63
    assert any("one after the other" in note for note in experiment.notes)
    first = experiment.workloads[0]
    assert first.label == "Initial write 8 KiB"
    assert first.parameters == {"test": "Initial write", "record_bytes": 8192}
    primary, _ = samples(record)
    assert primary[0].values[0] == 61447.99 * 1024
    assert primary[0].metric.name == "throughput_bytes_per_s"


def test_directions_come_from_the_unit_of_each_row(tmp_path):
    out = tmp_path / "out"
    result = run(
        DATA / "hdparm-and-archive.csv", "--candidate", "scheduler", "--value", "value",
        "--unit-column", "unit", "--metric-column", "metric", "--binary-units", "--block",
        "repetition", "--control", "cached_read", "--cpu-share",
        "archive_extract_real=archive_extract_user", "--out", out, "--json",
    )  # fmt: skip
    assert json.loads(result.stdout)["runs"] == 79
    folder = Folder.open(out)
    primary, secondary = samples(folder.record())
    by_name = {s.workload: s for s in primary}
    assert by_name["cached_read"].negative_control
    assert by_name["cached_read"].metric.higher_is_better
    extract = by_name["archive_extract_real"]
    assert not extract.metric.higher_is_better
    assert extract.candidates.count("kyber") == 4
    shares = [s for s, c in zip(extract.cpu_share, extract.candidates, strict=True) if s == s]
    assert len(shares) == 5
    assert shares[2] == pytest.approx(6.78 / 6.86)
    assert "archive_extract_user" not in by_name
    # Only one candidate's CPU time is known, so it is no further metric to compare.
    assert secondary == []
    assert next(w for w in folder.experiment.workloads if w.secondary).secondary == ("cpu_s",)


def test_parts_of_one_run_are_added_up_before_the_ratio(tmp_path):
    columns = csv.Columns(
        candidate=("timeslice_ms",),
        value="calculations/cpu_burst_s",
        metric="calculations_per_cpu_s",
        sum_over=("process",),
    )
    imported = csv.read(DATA / "rr-timeslice.csv", columns, Options())
    values = [run.metrics["calculations_per_cpu_s"] for run in imported.runs]
    assert [round(v, 2) for v in values] == [219.32, 225.23, 227.36]
    assert imported.experiment.candidates[0].settings == {"timeslice_ms": 1}


def test_an_unknown_unit_needs_a_direction(tmp_path):
    text = "who,speed\na,1\nb,2\n"
    columns = csv.Columns(candidate=("who",), value="speed", unit="furlongs")
    with pytest.raises(SpecError, match="furlongs") as caught:
        read(tmp_path, text, columns)
    assert "--higher-is-better" in caught.value.hint
    columns = csv.Columns(("who",), "speed", unit="furlongs", higher_is_better=True)
    imported = read(tmp_path, text, columns)
    Folder_ = imported.save(tmp_path / "out")
    primary, _ = samples(Folder_.record())
    assert (primary[0].metric.name, primary[0].metric.unit) == ("speed", "furlongs")
    assert primary[0].values == (1.0, 2.0)


def test_a_direction_that_contradicts_the_unit_is_refused(tmp_path):
    columns = csv.Columns(("who",), "speed", unit="s", higher_is_better=True)
    with pytest.raises(SpecError, match="elapsed_s in s is lower-is-better"):
        read(tmp_path, "who,speed\na,1\n", columns)


@pytest.mark.parametrize(
    ("unit", "metric", "value"),
    [
        ("KiB/s", "throughput_bytes_per_s", 2048.0),
        ("MB/s", "throughput_bytes_per_s", 2e6),
        ("ms", "elapsed_s", 0.002),
        ("IOPS", "iops", 2.0),
    ],
)
def test_units_convert_exactly(tmp_path, unit, metric, value):
    imported = read(tmp_path, "who,speed\na,2\n", csv.Columns(("who",), "speed", unit=unit))
    assert imported.runs[0].metrics == {metric: value}


def test_a_time_can_be_a_latency(tmp_path):
    columns = csv.Columns(("who",), "speed", unit="ms", metric="latency_ns_p99")
    imported = read(tmp_path, "who,speed\na,2\n", columns)
    assert imported.runs[0].metrics == {"latency_ns_p99": 2e6}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"in\.csv, line 1: expected a header"),
        ("who,speed,n\n", r"has no measurement"),
        ("who,speed,n\na,1,1\nb,fast,1\n", r"line 3: expected a number as speed, found 'fast'"),
        ("who,speed,n\na,1\n", r"line 2: expected 3 fields, found '2 fields"),
        ("who,speed,n\na,nan,1\n", r"line 2: expected a finite number"),
        ("who,speed,n\na,1_0,1\n", r"line 2: expected a finite number"),
        ("who,speed,n\na,0,1\n", r"line 2: expected a speed above 0"),
        ("who,pace,n\na,1,1\n", r"line 1: has no column 'speed'"),
        ("who,who,n\na,1,1\n", r"line 1: expected a different name"),
        ("who,speed,n\na,1,1\na,2,1\n", r"line 3: a, speed, repetition '1' is already in .*2"),
        (b"who,speed,n\na,\xff,1\n", r"line 2: expected UTF-8 text, found 'byte 0xff'"),
        (b"\x7fELF\0\0", r"line 1: expected text, found 'a NUL byte'"),
        (b"who,speed,n\n" + b"a" * (1 << 20) + b"b", r"line 2: is longer than 1 MiB"),
        ('who,speed,n\n"a,1,1\n', r"line 2: expected comma-separated"),
    ],
)
def test_a_complaint_names_file_line_expected_and_found(tmp_path, text, message):
    with pytest.raises(SpecError, match=message):
        read(tmp_path, text)


def test_nothing_is_half_imported(tmp_path):
    out = tmp_path / "out"
    (tmp_path / "in.csv").write_text("who,speed\na,1\nb,?\n")
    with pytest.raises(SpecError, match="line 3"):
        run(
            tmp_path / "in.csv",
            "--candidate",
            "who",
            "--value",
            "speed",
            "--unit",
            "s",
            "--out",
            out,
        )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv"]


def test_an_existing_result_is_not_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    imported = read(tmp_path, "who,speed,n\na,1,1\n")
    with pytest.raises(SpecError, match="is not empty"):
        imported.save(tmp_path / "out")


def test_interleaved_rows_carry_no_drift_warning(tmp_path):
    text = "who,speed,n\n" + "".join(f"{w},1,{n}\n" for n in range(3) for w in "ab")
    imported = read(tmp_path, text, options=Options(blocked=True))
    assert imported.experiment.notes == ()
    assert imported.experiment.blocked


def test_published_means_that_do_not_follow_from_the_rows_are_noted(tmp_path):
    means = tmp_path / "means.csv"
    means.write_text(
        "scheduler,test,mean\ndeadline,Random read,891179\nnoop,Initial write,325471.4\n"
    )
    wanted = [
        float(line.split(",")[4])
        for line in STUDY.read_text().splitlines()
        if line.startswith("noop,") and ",Initial write," in line
    ]
    text = means.read_text().replace("325471.4", f"{sum(wanted) / len(wanted):.1f}")
    means.write_text(text)
    result = run(
        STUDY, "--candidate=scheduler", "--workload",
        "test,record_bytes", "--value=kib_per_s", "--unit=KiB/s", "--block=repetition",
        "--published-means", means, "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    notes = [note for note in json.loads(result.stdout)["notes"] if "published" in note]
    assert notes[0] == "published means that do not match their rows: 1 of 2"
    assert len(notes) == 1


MEANS = csv.Columns(
    ("who",), "speed", ("test", "record_bytes"), "n", unit_column="unit", binary_units=True
)
ROWS = """who,test,record_bytes,n,speed,unit
a,read,4096,1,2,MB/s
a,read,8192,1,4,MB/s
a,boot,0,1,30,s
b,read,4096,1,8,MB/s
"""


def published(tmp_path, text):
    (tmp_path / "in.csv").write_text(ROWS)
    (tmp_path / "means.csv").write_text(text)
    imported = csv.read(tmp_path / "in.csv", MEANS, Options(), tmp_path / "means.csv")
    return imported.experiment.published


def test_a_published_mean_knows_its_rows_its_unit_and_its_last_digit(tmp_path):
    means = published(tmp_path, "who,test,mean\na,read,3.00\nb,boot,31\n")
    assert [(m.candidate, m.group, m.workloads, m.mean, m.unit) for m in means] == [
        ("a", "read", ("read 4 KiB", "read 8 KiB"), 3.0, "MB/s"),
        ("b", "boot", ("boot 0",), 31.0, "s"),
    ]
    assert [(m.factor, m.last_digit) for m in means] == [(2.0**20, 0.01), (1.0, 1.0)]
    (mean,) = published(tmp_path, "who,record_bytes,speed\na,4096,2.0\n")
    assert (mean.group, mean.workloads, mean.mean) == ("4 KiB", ("read 4 KiB",), 2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who,mean\na,3\n", "line 2: expected a mean over figures of one unit, found 'MB/s and s'"),
        ("who,test\na,read\n", "line 2: expected a column `mean` or 'speed'"),
        ("who,mean\n", r"means\.csv: expected at least one mean"),
        ("test,mean\nread,3\n", "has no column 'who'"),
        ("who,test,mean\na,read,high\n", "line 2: expected a number as mean"),
    ],
)
def test_published_means_that_cannot_be_read_are_named(tmp_path, text, message):
    with pytest.raises(SpecError, match=message):
        published(tmp_path, text)


@pytest.mark.parametrize(
    ("unit", "name", "metric", "factor"),
    [
        ("GiB/s", "", "throughput_bytes_per_s", 2.0**30),
        ("kB/s", "", "throughput_bytes_per_s", 1e3),
        ("GB/sec", "", "throughput_bytes_per_s", 1e9),
        ("min", "", "elapsed_s", 60.0),
        ("us", "", "elapsed_s", 1e-6),
        ("ops/s", "", "iops", 1.0),
        ("us", "latency_ns_p99", "latency_ns_p99", 1e3),
        ("s", "latency_ns_mean", "latency_ns_mean", 1e9),
        ("", "latency_ns_mean", "latency_ns_mean", 1.0),
        ("ns", "latency_ns_mean", "latency_ns_mean", 1.0),
        ("MiB/s", "read_bytes_per_s", "read_bytes_per_s", 2.0**20),
        ("ms", "cpu_s", "cpu_s", 1e-3),
    ],
)
def test_every_unit_is_so_many_of_the_metric(unit, name, metric, factor):
    measure = quantity(unit, None, name)
    assert (measure.metric.name, measure.factor) == (metric, pytest.approx(factor))
    better = measure.metric.higher_is_better
    assert quantity(unit, better, name) == measure
    with pytest.raises(SpecError, match="is-better"):
        quantity(unit, not better, name)


def test_units_that_do_not_fit_or_may_mean_two_things(tmp_path):
    assert quantity("MB/s", None, binary=True).factor == 2.0**20
    assert quantity("MB/s", None).note == "MB/s was read as 1000000 bytes per second"
    assert quantity("MiB/s", None, binary=True).note == ""
    own = quantity("ms", False, "my_time")
    assert (own.metric.name, own.metric.unit, own.factor) == ("my_time", "ms", 1.0)
    for unit in ("s", "1/s", "furlongs"):
        with pytest.raises(SpecError, match="cannot be converted to 'B/s'"):
            quantity(unit, None, "read_bytes_per_s")


def test_rows_become_runs_in_the_order_of_their_repetitions(tmp_path):
    text = "who,speed,n\na,1,10\na,2,9\na,3,x\nb,4,9\n"
    imported = read(tmp_path, text, options=Options(baseline="b", title="mine"))
    rows = [(r.candidate, r.block, r.position, r.metrics) for r in imported.runs]
    rate = "throughput_bytes_per_s"
    assert rows == [
        ("a", 1, 0, {rate: 1024.0}), ("a", 0, 0, {rate: 2048.0}),
        ("a", 2, 0, {rate: 3072.0}), ("b", 0, 1, {rate: 4096.0}),
    ]  # fmt: skip
    experiment = imported.experiment
    assert (experiment.baseline, experiment.title, experiment.stopping.blocks) == ("b", "mine", 3)
    assert imported.runs[0].properties["place"].endswith("in.csv, line 2")
    for options, message in (
        (Options(baseline="c"), "baseline 'c' is not in the data"),
        (Options(controls=("c",)), "control 'c' is not a workload"),
    ):
        with pytest.raises(SpecError, match=message):
            read(tmp_path, text, options=options)
    lines = imported.lines(tmp_path)
    assert lines[0] == f"imported 4 runs (2 candidates, 1 workload, 3 repetitions) to {tmp_path}"


def test_rows_of_one_candidate_after_the_other_carry_the_drift_warning(tmp_path):
    for order, warned in (("aabb", True), ("abab", False), ("ab", False), ("aaa", False)):
        text = "who,speed\n" + "".join(f"{who},1\n" for who in order)
        notes = read(tmp_path, text, csv.Columns(("who",), "speed", unit="s")).experiment.notes
        assert bool(notes) is warned, order


def test_sizes_are_shown_in_their_largest_whole_unit(tmp_path):
    sizes = ("1", "1536", "1024", "3145728", "1073741824", "0", "all", "-4")
    text = "who,record_bytes,speed\n" + "".join(f"a,{size},1\n" for size in sizes)
    columns = csv.Columns(("who",), "speed", ("record_bytes",), unit="s")
    works = read(tmp_path, text, columns).experiment.workloads
    assert [w.label for w in works] == [
        "1 B",
        "1536 B",
        "1 KiB",
        "3 MiB",
        "1 GiB",
        "0",
        "all",
        "-4",
    ]
    values = [w.parameters["record_bytes"] for w in works]
    assert values == [1, 1536, 1024, 3 << 20, 1 << 30, 0, "all", -4]


def test_cpu_seconds_belong_to_the_same_run_only(tmp_path):
    text = "who,what,n,t\na,wall,1,4\na,cpu,1,1\na,wall,2,4\nb,wall,1,5\nb,cpu,1,4\n"
    columns = csv.Columns(("who",), "t", ("what",), "n", "s", cpu_share={"wall": "cpu"})
    runs = read(tmp_path, text, columns).runs
    assert [(r.workload, r.candidate, r.properties.get("cpu_share")) for r in runs] == [
        ("wall", "a", 0.25), ("wall", "a", None), ("wall", "b", 0.8),
    ]  # fmt: skip
    for shares in ({"wall": "x"}, {"x": "cpu"}):
        with pytest.raises(SpecError, match="'x' is not a workload of the data") as caught:
            read(tmp_path, text, replace(columns, cpu_share=shares))
        assert caught.value.hint == "workloads: cpu, wall"


def test_a_ratio_has_two_columns_and_a_divisor(tmp_path):
    columns = csv.Columns(("who",), "x/y", higher_is_better=True, unit="x")
    assert read(tmp_path, "who,x,y\na,1,4\n", columns).runs[0].metrics == {"x_per_y": 0.25}
    with pytest.raises(SpecError, match="line 2: expected a divisor above 0"):
        read(tmp_path, "who,x,y\na,1,0\n", columns)
    with pytest.raises(SpecError, match="--value x/y/z"):
        read(tmp_path, "who,x,y,z\na,1,0,1\n", replace(columns, value="x/y/z"))


def test_a_column_may_have_the_name_of_a_ratio(tmp_path):
    columns = csv.Columns(("who",), "MB/s", unit="MB/s")
    assert read(tmp_path, "who,MB/s\na,4\n", columns).runs[0].metrics == {
        "throughput_bytes_per_s": 4e6
    }
    both = read(tmp_path, "who,x,y,x/y/z\na,1,4,9\n", replace(columns, value="x/y/z", unit="s"))
    assert both.runs[0].metrics == {"elapsed_s": 9.0}
    parts = replace(columns, unit="x", sum_over=("n",), higher_is_better=True)
    summed = read(tmp_path, "who,n,MB/s\na,1,4\na,2,5\n", parts)
    assert summed.runs[0].metrics == {"MB_per_s": 9.0}
    with pytest.raises(SpecError, match="has no column 'MB'") as caught:
        read(tmp_path, "who,MB/S\na,4\n", columns)
    assert caught.value.hint == "columns: who, MB/S"
    for half in ("MB/", "/s", ""):
        with pytest.raises(SpecError, match="has no column ''"):
            read(tmp_path, "who,MB,s\na,4,5\n", replace(columns, value=half))


def test_means_of_a_column_with_the_name_of_a_ratio(tmp_path):
    (tmp_path / "in.csv").write_text("who,n,MB/s\na,1,4\na,2,6\n")
    (tmp_path / "means.csv").write_text("who,MB/s\na,5.5\n")
    result = run(
        tmp_path / "in.csv", "--candidate=who", "--value=MB/s", "--unit=MB/s", "--block=n",
        "--published-means", tmp_path / "means.csv", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert (
        "published means that do not match their rows: 1 of 1" in json.loads(result.stdout)["notes"]
    )


def test_text_of_any_allowed_length_and_with_a_mark_is_read(tmp_path):
    file = tmp_path / "in.txt"
    file.write_bytes(b"\xef\xbb\xbffirst\r\n" + b"a" * (LINE_BYTES_MAX - 1) + b"\nlast")
    texts = [text for _, text in read_lines(file)]
    assert (texts[0], len(texts[1]), texts[2]) == ("first", LINE_BYTES_MAX - 1, "last")
    file.write_bytes(b"12345")
    assert read_bytes(file, 5) == b"12345"
    with pytest.raises(SpecError, match="is longer than"):
        read_bytes(file, 4)
    with pytest.raises(SpecError, match="missing"):
        read_bytes(tmp_path / "missing", 4)


def test_a_file_may_be_named_with_its_candidate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a=b.txt").touch()
    files = labelled(["bfq=x/y.txt", "x/none.txt", "a=b.txt"])
    assert files == [
        ("bfq", Path("x/y.txt")), ("none", Path("x/none.txt")), ("a=b", Path("a=b.txt")),
    ]  # fmt: skip


def imported_from(tmp_path, name, content):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    columns = csv.Columns(("scheduler",), "MB/s", ("test",), unit="MB/s")
    imported = csv.read(tmp_path / name, columns, Options())
    figures = [r.metrics["throughput_bytes_per_s"] / 1e6 for r in imported.runs]
    return figures, [n for n in imported.experiment.notes if "MB/s was read" not in n]


COMMAS = "decimals are separated by commas: 101,5 was read as 101.5"


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("scheduler,test,MB/s\nnone,seq,101.5\nbfq,seq,1099\n", []),
        ("scheduler;test;MB/s\nnone;seq;101,5\nbfq;seq;1099\n",
         ["fields are separated by semicolons", COMMAS]),
        ("sep=;\r\nscheduler;test;MB/s;\r\nnone;seq;101.5;\r\n;;;\r\nbfq;seq;1099;\r\n",
         ["fields are separated by semicolons"]),
        ("scheduler\ttest\tMB/s\nnone\tseq\t101,5\nbfq\tseq\t1.099,0\n",
         ["fields are separated by tabs", COMMAS]),
        ('scheduler,test,MB/s\nnone,seq,"101,5"\nbfq,seq,1099\n', [COMMAS]),
        ("scheduler\ttest\tMB/s\nnone\tseq\t101.5\nbfq\tseq\t1099\n".encode("utf-16"),
         ["fields are separated by tabs"]),
    ],
)  # fmt: skip
def test_what_spreadsheets_write_is_read_and_said(tmp_path, text, notes):
    assert imported_from(tmp_path, "t.csv", text) == ([101.5, 1099.0], notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scheduler,test,MB/s\nnone,seq,1\n,seq,2\n", "line 3: has no scheduler"),
        ("scheduler,test,MB/s\nnone,seq,1\nnone,,2\n", "line 3: has no test"),
        ('scheduler,test,MB/s\nnone,seq,"1,234"\n', "line 2: expected decimals, or thousands"),
        ("scheduler;test;MB/s\nnone;seq;1,5\nbfq;seq;1.5\n", "decimal points or decimal commas"),
        ("scheduler,test,MB/s\nnone,d\xe9faut,1\n".encode("latin-1"), "line 2: expected UTF-8"),
    ],
)
def test_tables_that_can_be_read_in_two_ways_are_refused(tmp_path, text, message):
    with pytest.raises(SpecError, match=message) as caught:
        imported_from(tmp_path, "t.csv", text)
    assert caught.value.hint != "fix it there" or "either" in message or "points or" in message


def workbook(path, sheets, merge=None):
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
        if merge:
            sheet.merge_cells(merge)
    book.save(path)
    return path.read_bytes()


SHEET = [["scheduler", "test", "MB/s"], ["none", "seq", 101.5], [], ["bfq", "seq", 1099]]


def test_a_workbook_is_read_and_its_sheet_named(tmp_path):
    content = workbook(tmp_path / "w.xlsx", {"Ergebnisse": SHEET})
    assert imported_from(tmp_path, "t.xlsx", content) == ([101.5, 1099.0], [])
    content = workbook(tmp_path / "w.xlsx", {"A": SHEET, "B": [["x"], [1]]})
    figures, (note,) = imported_from(tmp_path, "t.xlsx", content)
    assert figures == [101.5, 1099.0]
    assert note == "sheet 'A' was read, the first of 2 (--sheet NAME)"
    columns = csv.Columns(("x",), "x", unit="s")
    assert len(csv.read(tmp_path / "t.xlsx", columns, Options(), sheet="B").runs) == 1
    with pytest.raises(SpecError, match="has no sheet 'C'"):
        csv.read(tmp_path / "t.xlsx", columns, Options(), sheet="C")


def test_a_merged_cell_and_a_damaged_workbook_are_refused(tmp_path):
    rows = [*SHEET[:2], ["none", "seq", 99.0]]
    content = workbook(tmp_path / "w.xlsx", {"A": rows}, merge="A2:A3")
    with pytest.raises(SpecError, match="sheet 'A', row 3: has no scheduler"):
        imported_from(tmp_path, "t.xlsx", content)
    for cut in (content[: len(content) // 2], b"PK\x03\x04 no zip"):
        with pytest.raises(SpecError, match="is not a workbook"):
            imported_from(tmp_path, "t.xlsx", cut)


def test_a_workbook_that_grows_when_unpacked_is_refused(tmp_path, monkeypatch):
    from schedlab.store.importers import tables

    content = workbook(tmp_path / "w.xlsx", {"A": SHEET})
    monkeypatch.setattr(tables, "WORKBOOK_BYTES_MAX", 2000)
    with pytest.raises(SpecError, match="is larger than"):
        imported_from(tmp_path, "t.xlsx", content)
