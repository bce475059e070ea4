"""Importing CSV files: the published data sets, and complaints that name the place."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.store.folder import Folder
from schedlab.store.importers import csv
from schedlab.store.importers.imported import Options
from schedlab.store.table import samples

DATA = Path(__file__).parents[1] / "data"
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
        DATA / "iozone-noop-deadline-cfq.csv", "--candidate", "scheduler", "--workload",
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
        for line in (DATA / "iozone-noop-deadline-cfq.csv").read_text().splitlines()
        if line.startswith("noop,") and ",Initial write," in line
    ]
    text = means.read_text().replace("325471.4", f"{sum(wanted) / len(wanted):.1f}")
    means.write_text(text)
    result = run(
        DATA / "iozone-noop-deadline-cfq.csv", "--candidate=scheduler", "--workload",
        "test,record_bytes", "--value=kib_per_s", "--unit=KiB/s", "--block=repetition",
        "--published-means", means, "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    notes = [note for note in json.loads(result.stdout)["notes"] if "published" in note]
    assert notes[0] == "1 of 2 published means do not match their rows"
    assert len(notes) == 1
