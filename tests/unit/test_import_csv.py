"""Importing CSV files: the published data sets, tables as spreadsheets write them, complaints.

What becomes of each table, or the complaint that names its place, is in tests/golden/imports.
"""

import io
import json
import zipfile
from importlib import resources
from pathlib import Path

import pytest
from click.testing import CliRunner
from imports import Imports

from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.result import Result
from schedlab.store.folder import Folder
from schedlab.store.importers import csv, tables
from schedlab.store.importers.imported import Options, labelled
from schedlab.store.importers.text import LINE_BYTES_MAX, read_lines
from schedlab.store.importers.units import quantity
from schedlab.store.table import samples

DATA = Path(__file__).parents[1] / "data"
STUDY = resources.files("schedlab") / "labs" / "iozone-noop-deadline-cfq.csv"


def run(*arguments):
    result = CliRunner().invoke(cli, ["import", "csv", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


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


def test_nothing_is_half_imported(tmp_path):
    out = tmp_path / "out"
    (tmp_path / "in.csv").write_text("who,speed\na,1\nb,?\n")
    with pytest.raises(SpecError, match="line 3"):
        run(tmp_path / "in.csv", "--candidate=who", "--value=speed", "--unit=s", "--out", out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv"]


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


def table(text, *, options=Options(), sheet="", means="", **columns):  # noqa: B008
    """How a text is read: by who did it, its speed, and whatever else is named."""
    usual = {"candidate": ("who",), "value": "speed", "unit": "KiB/s"}

    def read(files):
        ((_, file),) = files
        published = file.with_name("means")
        published.write_text(means)
        asked = csv.Columns(**usual | columns)
        return csv.read(file, asked, options, published if means else None, sheet)

    return read, text


def spread(text, **more):
    """A text in the columns of a spreadsheet."""
    return table(text, candidate=("scheduler",), value="MB/s", workload=("test",), unit="MB/s",
                 **more)  # fmt: skip


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
SHARES = "who,what,n,t\na,wall,1,4\na,cpu,1,1\na,wall,2,4\nb,wall,1,5\nb,cpu,1,4\n"
ROWS = """who,test,record_bytes,n,speed,unit
a,read,4096,1,2,MB/s
a,read,8192,1,4,MB/s
a,boot,0,1,30,s
b,read,4096,1,8,MB/s
"""


def shares(cpu_share, text=SHARES, block="n"):
    return table(text, value="t", workload=("what",), block=block, unit="s", cpu_share=cpu_share)


def published(means):
    return table(ROWS, workload=("test", "record_bytes"), block="n", unit="",
                 unit_column="unit", binary_units=True, means=means)  # fmt: skip


def parts(rows):
    return table(f"who,n,speed,unit\n{rows}", unit_column="unit", sum_over=("n",))


def in_order(order):
    return table("who,speed\n" + "".join(f"{who},1\n" for who in order), unit="s")


TABLES = {
    "an unknown unit": table("who,speed\na,1\nb,2\n", unit="furlongs"),
    "an unknown unit with its direction":
        table("who,speed\na,1\nb,2\n", unit="furlongs", higher_is_better=True),
    "a direction that contradicts the unit":
        table("who,speed\na,1\n", unit="s", higher_is_better=True),
    **{unit: table("who,speed\na,2\n", unit=unit) for unit in ("MB/s", "ms", "IOPS")},
    "a latency": table("who,speed\na,2\n", unit="ms", metric="latency_ns_p99"),
    "blocks in the order of their repetitions, by name": table(
        "who,speed,n\na,1,10\na,2,9\na,3,x\nb,4,9\n", block="n",
        options=Options(baseline="b", title="mine")),
    "no such baseline": table("who,speed\na,1\n", options=Options(baseline="c")),
    "no such control": table("who,speed\na,1\n", options=Options(controls=("c",))),
    "blocked": table("who,speed,n\na,1,1\nb,1,1\na,1,2\nb,1,2\n", block="n",
                     options=Options(blocked=True)),
    **{order: in_order(order) for order in ("aabb", "abab", "ab", "aaa")},
    "sizes in their largest whole unit": table(
        "who,record_bytes,speed\n" + "".join(f"a,{size},1\n" for size in (
            "1", "1536", "1024", "3145728", "1073741824", "0", "all", "-4")),
        workload=("record_bytes",), unit="s"),
    "CPU seconds belong to the same run": shares({"wall": "cpu"}),
    "CPU seconds in the order of the rows": shares(
        {"wall": "cpu"}, "who,what,t\na,wall,4\na,wall,5\na,cpu,1\na,cpu,4\n", block=""),
    "too few CPU seconds to tell whose they are": shares({"wall": "cpu"}, block=""),
    "CPU seconds of nothing": shares({"wall": "x"}), "nothing's CPU seconds": shares({"x": "cpu"}),
    "a ratio": table("who,x,y\na,1,4\n", value="x/y", unit="x", higher_is_better=True),
    "blank lines between": table("who,speed\na,1\n\nb,2\n\n\nc,3\n", unit="s"),
    "a ratio in a unit": table("who,MB,s\na,4,5\nb,6,5\n", value="MB/s", unit="MB/s",
                               binary_units=True),
    "metrics of their own": table(
        "who,what,speed,unit\na,pears,1,kg\na,figs,2,lb\nb,figs,3,lb\nb,pears,4,kg\na,dates,5,st\n",
        unit="", unit_column="unit", metric_column="what", higher_is_better=True),
    "names that are in two columns": table("who,what,speed\nRead,read,1\nread,x,2\n",
                                           workload=("what",), unit="s"),
    "one spelling in each of two columns": table("who,what,speed\nRead,read,1\nRead,x,2\n",
                                                 workload=("what",), unit="s"),
    "a divisor of 0": table("who,x,y\na,1,0\n", value="x/y", unit="x", higher_is_better=True),
    "two divisors": table("who,x,y,z\na,1,0,1\n", value="x/y/z"),
    "a column with the name of a ratio": table("who,MB/s\na,4\n", value="MB/s", unit="MB/s"),
    "one with the name of two": table("who,x,y,x/y/z\na,1,4,9\n", value="x/y/z", unit="s"),
    "parts of one": table("who,n,MB/s\na,1,4\na,2,5\n", value="MB/s", unit="x",
                          sum_over=("n",), higher_is_better=True),
    "parts of one in two units": parts("a,1,1,s\na,2,500,ms\n"),
    "parts of one in two quantities": parts("a,1,1,s\na,2,5,IOPS\n"),
    "a part twice": parts("a,1,1,s\na,2,1,s\na,1,2,s\n"),
    "a unit per cell": table("who,speed\na,1.5 MB/s\nb,90 KiB/s\nc,4e2 B/s\n", unit=""),
    "a unit per cell of another quantity": table("who,speed\na,1.5 MB/s\nb,90 ms\n", unit=""),
    "a unit per cell that nothing knows": table("who,speed\na,1.5 parrots\n", unit=""),
    "no such column of a ratio": table("who,MB/S\na,4\n", value="MB/s", unit="MB/s"),
    **{f"half a ratio: {half}": table("who,MB,s\na,4,5\n", value=half, unit="MB/s")
       for half in ("MB/", "/s", "")},
    "published means": published("who,test,mean\na,read,3.00\nb,boot,31\n"),
    "published under the name of the value": published("who,record_bytes,speed\na,4096,2.0\n"),
    "published over two columns": published("who,test,record_bytes,mean\na,read,4096,2\n"),
    "published over two units": published("who,mean\na,3\n"),
    "published without a mean": published("who,test\na,read\n"),
    "nothing published": published("who,mean\n"),
    "published by nobody": published("test,mean\nread,3\n"),
    "published with decimal commas": published('who,test,mean\na,read,"1.234,5"\n'),
    "published with a comma": published('who,test,mean\na,read,"1,234"\n'),
    "published words": published("who,test,mean\na,read,high\n"),
}  # fmt: skip
COMPLAINTS = {
    "no header": "", "no row": "who,speed,n\n", "no number": "who,speed,n\na,1,1\nb,fast,1\n",
    "a field too few": "who,speed,n\na,1\n", "nan": "who,speed,n\na,nan,1\n",
    "an underscore": "who,speed,n\na,1_0,1\n", "a speed of 0": "who,speed,n\na,0,1\n",
    "no column": "who,pace,n\na,1,1\n", "two of a name": "who,who,n\na,1,1\n",
    "two of another name": "who,speed,speed\na,1,1\n",
    "a repetition twice": "who,speed,n\na,1,1\na,2,1\n", "no text": b"who,speed,n\na,\xff,1\n",
    "a program": b"\x7fELF\0\0", "a long line": b"who,speed,n\n" + b"a" * (1 << 20) + b"b",
    "an open quote": 'who,speed,n\n"a,1,1\n',
}  # fmt: skip
# As spreadsheets write them: two figures, or two ways to read them.
SPREAD = {
    "commas": "scheduler,test,MB/s\nnone,seq,101.5\nbfq,seq,1099\n",
    "semicolons": "scheduler;test;MB/s\nnone;seq;101,5\nbfq;seq;1099\n",
    "sep=": "sep=;\r\nscheduler;test;MB/s;\r\nnone;seq;101.5;\r\n;;;\r\nbfq;seq;1099;\r\n",
    "tabs": "scheduler\ttest\tMB/s\nnone\tseq\t101,5\nbfq\tseq\t1.099,0\n",
    "quotes": 'scheduler,test,MB/s\nnone,seq,"101,5"\nbfq,seq,1099\n',
    "UTF-16": "scheduler\ttest\tMB/s\nnone\tseq\t101.5\nbfq\tseq\t1099\n".encode("utf-16"),
    "no scheduler": "scheduler,test,MB/s\nnone,seq,1\n,seq,2\n",
    "no test": "scheduler,test,MB/s\nnone,seq,1\nnone,,2\n",
    "decimals or thousands": 'scheduler,test,MB/s\nnone,seq,"1,234"\n',
    "points and commas": "scheduler;test;MB/s\nnone;seq;1,5\nbfq;seq;1.5\n",
    "thousands before a point": 'scheduler,test,MB/s\nnone,seq,"1,234.5"\nbfq,seq,"1,300"\n',
    "thousands apart": "scheduler,test,MB/s\nnone,seq,1 234.5\nbfq,seq,1\u202f300\n",
    "apostrophes": "scheduler;test;MB/s\nnone;seq;1'234.5\nbfq;seq;1’300\n",
    "thousands twice": 'scheduler,test,MB/s\nnone,seq,"1,234,567"\nbfq,seq,"1,300"\n',
    "thousands twice, by points": "scheduler;test;MB/s\nnone;seq;1.234.567\nbfq;seq;1.300\n",
    "thousands in India": 'scheduler,test,MB/s\nnone,seq,"12,34,567.5"\nbfq,seq,99.0\n',
    "points only, three digits behind": "scheduler;test;MB/s\nnone;seq;1.234\nbfq;seq;2.345\n",
    "points as thousands, then a comma": "scheduler;test;MB/s\nnone;seq;1.234\nbfq;seq;99,5\n",
    "exponents": "scheduler,test,MB/s\nnone,seq,1.2345e3\nbfq,seq,+9.9E1\n",
    "quoted names": '"scheduler","test","MB/s"\n"none","seq","101.5"\n',
    "bars": "scheduler|test|MB/s\nnone|seq|101.5\n",
    "lines of an old Mac": "scheduler,test,MB/s\rnone,seq,101.5\rbfq,seq,99.0\r",
    "UTF-16 without its mark": "scheduler,test,MB/s\nnone,seq,101.5\n".encode("utf-16-le"),
    "units in cells": "scheduler,test,MB/s\nnone,seq,101.5 MB/s\nbfq,seq,99MB/sec\n",
    "another unit in a cell": "scheduler,test,MB/s\nnone,seq,101.5 MB/s\nbfq,seq,99 KiB/s\n",
    "a row of means": "scheduler,test,MB/s\nnone,seq,1\nbfq,seq,3\nAverage:,seq,2\n",
    "a row of sums in Korean": "scheduler,test,MB/s\nnone,seq,1\n합계,seq,1\n",
    "a row of means in German": "scheduler,test,MB/s\nnone,seq,1\nMittelwert,seq,1\n",
    "a row of means in Russian": "scheduler,test,MB/s\nnone,seq,1\nСреднее значение,seq,1\n",
    "a row of means in Japanese": "scheduler,test,MB/s\nnone,seq,1\n平均,seq,1\n",
    "a row of means of a group": "scheduler,test,MB/s\nbfq,seq,1\nbfq 평균,seq,1\n",
    "names that begin like totals": "scheduler,test,MB/s\nsummary,seq,1\nfair total,seq,2\n",
    "two spellings of a name": "scheduler,test,MB/s\nbfq,seq,1\nBFQ,seq,2\n",
    "a row of sums, by its test": "scheduler,test,MB/s\nnone,seq,1\nnone,Grand Total,1\n",
    "Korean": "scheduler,test,MB/s\nnone,순차,1\n".encode("cp949"),
    "Russian": "scheduler,test,MB/s\nnone,чтение,1\n".encode("cp1251"),
    "Latin-1": "scheduler,test,MB/s\nnone,d\xe9faut,1\n".encode("latin-1"),
}


def test_tables(tmp_path, golden):
    imports = Imports(tmp_path, golden)
    cases = TABLES | {title: table(text, block="n") for title, text in COMPLAINTS.items()}
    cases |= {title: spread(text) for title, text in SPREAD.items()}
    shown = (f"== {title}\n{imports.shown(*case)}" for title, case in cases.items())
    golden("imports/csv.txt", "\n\n".join(shown))


def test_workbooks(tmp_path, golden, monkeypatch):
    place, imports = tmp_path / "w.xlsx", Imports(tmp_path, golden)
    one = workbook(place, {"Ergebnisse": SHEET})
    two = workbook(place, {"A": SHEET, "B": [["x"], [1]]})
    merged = workbook(place, {"A": [*SHEET[:2], ["none", "seq", 99.0]]}, merge="A2:A3")
    cases = {
        "one sheet": spread(one), "the first of two": spread(two),
        "another sheet": table(two, candidate=("x",), value="x", unit="s", sheet="B"),
        "no such sheet": spread(two, sheet="C"), "a merged cell": spread(merged),
        "half of one": spread(merged[: len(merged) // 2]), "no zip": spread(b"PK\x03\x04 no zip"),
    }  # fmt: skip
    shown = [f"== {title}\n{imports.shown(*case)}" for title, case in cases.items()]
    largest = max(each.file_size for each in zipfile.ZipFile(io.BytesIO(one)).infolist())
    monkeypatch.setattr(tables, "WORKBOOK_BYTES_MAX", largest + 1)  # all of them are more
    shown.append(f"== it grows when unpacked\n{imports.shown(*spread(one))}")
    golden("imports/workbooks.txt", "\n\n".join(shown))


def test_an_existing_result_is_not_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    (tmp_path / "in.csv").write_text("who,speed\na,1\n")
    imported = csv.read(tmp_path / "in.csv", csv.Columns(("who",), "speed", unit="s"), Options())
    with pytest.raises(SpecError, match="is not empty"):
        imported.save(tmp_path / "out")
    head = imported.lines(tmp_path)[0]
    assert head == f"imported 1 run (1 candidate, 1 workload, 1 repetition) to {tmp_path}"


def test_text_of_any_allowed_length_and_with_a_mark_is_read(tmp_path):
    file = tmp_path / "in.txt"
    file.write_bytes(b"\xef\xbb\xbffirst\r\n" + b"a" * (LINE_BYTES_MAX - 1) + b"\nlast")
    texts = [text for _, text in read_lines(file)]
    assert (texts[0], len(texts[1]), texts[2]) == ("first", LINE_BYTES_MAX - 1, "last")


def test_a_file_may_be_named_with_its_candidate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a=b.txt").touch()
    files = labelled(["bfq=x/y.txt", "x/none.txt", "a=b.txt"])
    assert files == [
        ("bfq", Path("x/y.txt")), ("none", Path("x/none.txt")), ("a=b", Path("a=b.txt")),
    ]  # fmt: skip


def test_a_throughput_of_zero_is_a_bound_and_a_time_of_zero_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("what,rate\n" + "".join(f"a,0.00\nb,{i}.5\n" for i in range(10, 14)))
    words = (path, "--candidate", "what", "--value", "rate", "--unit")
    run(*words, "1/s", "--out", tmp_path / "out")
    (sample,), _ = samples(Folder.open(tmp_path / "out").record())
    assert sample.values[0] == 0 and sample.step == pytest.approx(0.01)  # the last printed digit
    answer = Result.load(tmp_path / "out").answer
    (row,) = answer.counted
    assert answer.cells[row]["a"].open and answer.cells[row]["a"].value == 0 and answer.take == "b"
    with pytest.raises(SpecError, match="above 0"):
        run(*words, "s", "--out", tmp_path / "times")


@pytest.mark.parametrize("name", ["rate (MB/s)", "rate [ MB/s ]", "MB/s", "latency (MB/s)"])
def test_a_unit_in_the_name_of_the_column(tmp_path, name):
    (tmp_path / "in.csv").write_text(f"who,{name}\na,1.5\n")
    imported = csv.read(tmp_path / "in.csv", csv.Columns(("who",), name), Options())
    assert imported.runs[0].metrics == {"throughput_bytes_per_s": 1.5e6}
    assert f"the unit of {name!r} is MB/s" in imported.experiment.notes
    stated = csv.Columns(("who",), name, unit="MiB/s")
    (run,) = csv.read(tmp_path / "in.csv", stated, Options()).runs
    assert run.metrics == {"throughput_bytes_per_s": 1.5 * (1 << 20)}


@pytest.mark.parametrize("value", ["80.2", "254519", "1.5e+04"])
def test_a_first_row_in_the_place_of_the_names_is_not_lost(tmp_path, value):
    path = tmp_path / "in.tsv"
    path.write_text(f"a\t1\t{value}\na\t2\t83.0\nb\t1\t57.5\n")
    with pytest.raises(SpecError, match="expected names of the columns, found 'a, "):
        csv.read(path, csv.Columns(("a",), value, unit="1/s"), Options())
    # A number may be a name, too.
    path.write_text("who\t4\t8\na\t2\t83.0\nb\t1\t57.5\n")
    assert len(csv.read(path, csv.Columns(("who",), "8", unit="1/s"), Options()).runs) == 2


@pytest.mark.parametrize(("text", "digit"), [("1.25", 0.01), ("12", 1.0), ("1e6", 0.0)])
def test_the_last_printed_digit(text, digit):
    assert tables.last_digit(text) == pytest.approx(digit)
