"""Commands on result folders: what is printed and where, what is written, and the exit code."""

import csv
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import pytest
from calls import run
from click.testing import CliRunner

from schedlab.cli import cli
from schedlab.errors import SchedlabError
from schedlab.store.folder import Folder

COMPARE = ["sim", "compare", "--workloads", "A", "--policies", "fcfs,s", "--requests", "300"]
REPORTS = {"report.html", "report.xlsx", "verdict.json"}


def refused(*words):
    error = CliRunner().invoke(cli, [str(word) for word in words]).exception
    assert isinstance(error, SchedlabError) and error.hint, error
    return str(error)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A result folder without reports, and what its command printed."""
    path = tmp_path_factory.mktemp("cli") / "first"
    done = run(*COMPARE, "--seeds", 4, "--out", path)
    for name in REPORTS:
        (path / name).unlink()
    return path, done


@pytest.fixture
def folder(measured, tmp_path, monkeypatch):
    """The folder, and an own working directory."""
    monkeypatch.chdir(tmp_path)
    return measured[0]


def names(path):
    return {each.name for each in Path(path).iterdir()}


def test_a_measurement_prints_its_verdict_on_stdout_and_its_progress_on_stderr(measured):
    path, done = measured
    assert "Take s" in done.stdout
    for file in ("report.html", "report.xlsx"):
        assert f"{path}/{file}" in done.stdout
    assert done.stderr.splitlines()[0] == "block 1/4, run 0/8"
    assert done.stderr.splitlines()[-2:] == [
        "block 4/4, run 8/8, 0 s left", "measured: all 4 blocks are done"
    ]  # fmt: skip


def test_a_measurement_prints_json_and_the_files_that_it_wrote(tmp_path):
    out = tmp_path / "r"
    done = run(*COMPARE, "--seeds", 2, "--out", out, "--json")
    document = json.loads(done.stdout)
    assert document["code"] and document["schema"] == 3
    assert {Path(path).name for path in document["files"].values()} >= {
        "report.html", "report.xlsx"
    }  # fmt: skip
    assert names(out) >= REPORTS


def test_a_dry_run_prints_the_plan_and_measures_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = run(*COMPARE, "--dry-run").stdout
    document = json.loads(run(*COMPARE, "--dry-run", "--json").stdout)
    assert document["schema"] == 1 and document["experiment"]["kind"] == "sim"
    assert "fcfs" in text and not text.startswith("{")
    assert names(tmp_path) == set()


def test_a_result_folder_has_a_name_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(*COMPARE, "--seeds", 2)
    (made,) = (tmp_path / "results").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-sim|\d{4}-\d\d-\d\d.*-sim", made.name)


def test_the_verdict_of_a_folder_is_printed_and_nothing_is_written(folder):
    before = names(folder)
    text = run("analyse", folder).stdout
    assert "Take s" in text and max(map(len, text.splitlines())) <= 80
    document = json.loads(run("analyse", folder, "--json").stdout)
    assert (document["take"], document["base"]) == ("s", "fcfs")
    other = run("analyse", folder, "--goal", "throughput").stdout
    assert "Judged by throughput" in other and "Judged by throughput" not in text
    assert names(folder) == before


def test_a_report_without_options_is_a_page_and_a_workbook_in_the_folder(folder):
    done = run("report", folder)
    assert done.stdout == ""
    assert done.stderr == f"html: {folder}/report.html\nxlsx: {folder}/report.xlsx\n"
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    book = openpyxl.load_workbook(folder / "report.xlsx")
    began = min(run.started_at for run in Folder.open(folder).runs())
    # Were it now, the same folder would give another file each time.
    assert f"{book.properties.created:%Y-%m-%dT%H:%M:%S}" == began[:19]
    for name in ("report.html", "report.xlsx"):
        (folder / name).unlink()


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (["--html", "a.html", "--xlsx", "a.xlsx"], {"a.html", "a.xlsx"}),
        (["--html", "a.html", "--csv"], {"a.html"}),
        (["--xlsx", "a.xlsx", "--markdown"], {"a.xlsx"}),
        (["--tables"], set()),
    ],
)
def test_a_report_is_what_is_asked_for(folder, tmp_path, options, written):
    before = names(folder)
    done = run("report", folder, *options)
    assert names(tmp_path) == written
    assert names(folder) == before
    assert done.stderr.splitlines() == [f"{name[2:]}: {name}" for name in sorted(written)]
    begin = {"--markdown": "# Simulated: ", "--csv": "row,", "--tables": "A, mean"}
    begin = next((begin[option] for option in options if option in begin), "")
    assert done.stdout.startswith(begin) and bool(done.stdout) == bool(begin)
    assert not done.stdout.endswith("\n\n")
    for name in written:
        begin = b"PK" if name == "a.xlsx" else b"<!doctype"
        assert Path(name).read_bytes().startswith(begin)
        nowhere = f"{folder}/runs.jsonl/x"
        assert "runs.jsonl/x" in refused("report", folder, f"--{name[2:]}", nowhere)


def test_a_report_as_json_names_its_files(folder):
    document = json.loads(run("report", folder, "--json", "--html", "a.html").stdout)
    assert set(document) == {"schema", "headline", "tables", "files", "answer"}
    assert (document["schema"], document["files"]) == (1, {"html": "a.html"})
    assert "Take s" in document["headline"][0]
    russian = json.loads(run("report", folder, "--json", "--html", "b", "--lang", "ru").stdout)
    assert russian["headline"] != document["headline"]
    assert russian["answer"] == document["answer"]
    goal = run("report", folder, "--json", "--html", "c", "--goal", "throughput").stdout
    assert "Judged by throughput." in json.loads(goal)["headline"]
    for forms in (("--csv", "--json"), ("--markdown", "--csv", "--json")):
        done = run("report", folder, *forms, code=2)
        assert "cannot be used together" in done.stderr and done.stdout == ""


def test_every_figure_of_the_page_is_a_picture_that_stands_alone(folder, tmp_path, monkeypatch):
    run("report", folder, "--html", "a.html", "--figures", "drawn")
    page = Path("a.html").read_text("utf-8")
    drawn = sorted(Path("drawn").glob("*.svg"))
    assert len(drawn) == len(re.findall('<svg class="chart', page)) > 3
    for path in drawn:
        picture = ElementTree.fromstring(path.read_text("utf-8"))
        markers = {each.get("id") for each in picture.iter() if each.get("id")}
        used = {each.get("href") for each in picture.iter() if each.get("href")}
        assert used == {f"#{name}" for name in markers}
        assert "var(" not in path.read_text("utf-8") and "#0b62a4" in path.read_text("utf-8")
        assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    in_order = next(path.read_text() for path in drawn if "every-run" in path.name)
    assert {">fcfs</text>", ">s</text>"} <= set(re.findall(">[a-z]+</text>", in_order))
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    assert "the SVG are written" in refused("report", folder, "--figures", "plain")
    assert names("plain") == {path.name for path in drawn}
    assert "runs.jsonl" in refused("report", folder, "--figures", f"{folder}/runs.jsonl/x")


def test_one_table_is_chosen_by_its_name(folder):
    name = "means-mean_read_ms-A"
    text = run("report", folder, "--table", name).stdout
    assert text in run("report", folder, "--tables").stdout
    assert text.startswith("A, mean read response: means\n") and "B, mean" not in text
    tables = json.loads(run("report", folder, "--json", "--html", "a").stdout)["tables"]
    (of,) = (each for each in tables if each["name"] == name)
    assert json.loads(run("report", folder, "--table", name, "--json").stdout) == of
    rows = list(csv.reader(run("report", folder, "--table", name, "--csv").stdout.splitlines()))
    assert [row[0] for row in rows[1:]] == ["fcfs", "s"]
    assert [float(row[1]) for row in rows[1:]] == [row[1] for row in of["rows"]]
    assert run("report", folder, "--table", name, "--markdown").stdout.startswith("### A, mean")
    wrong = CliRunner().invoke(cli, ["report", str(folder), "--table", "x"]).exception
    assert name in wrong.hint
    assert "cannot be used" in run("report", folder, "--table", name, "--tables", code=2).stderr


def test_a_directory_of_results_has_a_page_that_leads_to_them(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "one")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "experiment.toml").write_text("schema = 1\n")
    assert str(tmp_path / "index.html") in run("report", tmp_path).stderr
    page = (tmp_path / "index.html").read_text("utf-8")
    assert '<a href="one/report.html">' in page and "2\u00a0results" in page and "broken" in page
    assert (tmp_path / "one" / "report.html").is_file()
    assert "broken" in refused("report", tmp_path / "broken")


def test_an_export_names_its_files(folder):
    assert run("report", folder, "--fio", "x").stderr == "fio: x\n"
    document = json.loads(run("report", folder, "--fio", "x", "--json").stdout)
    assert document["files"] == {"fio": "x"}
    names = [*Path("x").rglob("*.json")]
    assert names and all(json.loads(name.read_text())["jobs"] for name in names)


def test_an_export_says_where_it_cannot_write_and_what_it_cannot(folder, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file" in refused("report", folder, "--fio", tmp_path / "file" / "x")
    empty = copied(folder, tmp_path / "empty", lambda run: [])
    assert "no run has a throughput" in refused("report", empty, "--fio", "x")


def copied(folder, path, changed):
    """A folder with the same plan and other runs: `changed(run)` gives those in its place."""
    source = Folder.open(folder)
    record = source.record()
    made = Folder.create(path, record.experiment, record.plan, record.host)
    for each in source.runs():
        for new in changed(each):
            made.append(new)
    return path


def test_what_is_measured_again_contradicts_nothing(folder, tmp_path):
    done = run("reproduce", folder, "--out", "again")
    assert "Take s" in done.stdout
    assert done.stderr.splitlines()[-1] == f"nothing contradicts {folder}"
    assert names("again") >= REPORTS
    document = json.loads(run("reproduce", folder, "--out", "b", "--json").stdout)
    assert document == {"schema": 1, "contradictions": [], "first": str(folder), "again": "b"}


def test_a_contradiction_is_named_and_is_exit_code_1(folder, tmp_path):
    turned = {"fcfs": "s", "s": "fcfs"}
    other = copied(folder, tmp_path / "other",
                   lambda each: [replace(each, candidate=turned[each.candidate])])  # fmt: skip
    done = run("reproduce", other, "--out", "again", code=1)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("not reproduced: ") and "nothing contradicts" not in done.stderr
    shown = json.loads(run("reproduce", other, "--out", "b", "--json", code=1).stdout)
    assert f"not reproduced: {shown['contradictions'][-1]}" == last


def test_an_experiment_file_is_measured_resumed_and_extended(folder, tmp_path):
    file = folder / "experiment.toml"
    run("run", file, "--out", "r", "--blocks", 3)
    assert len(Folder.open(Path("r")).runs()) == 6
    planned = run("run", "--resume", "r", "--blocks", 5, "--dry-run")
    assert "fcfs" in planned.stdout and len(Folder.open(Path("r")).runs()) == 6
    document = json.loads(
        run("run", "--resume", "r", "--blocks", 5, "--dry-run", "--json").stdout
    )  # fmt: skip
    assert document["experiment"]["kind"] == "sim"
    done = run("run", "--resume", "r", "--blocks", 5, "--json")
    assert json.loads(done.stdout)["code"]
    assert len(Folder.open(Path("r")).runs()) == 10
    run("run", file)
    (made,) = (tmp_path / "results").iterdir()
    assert made.name.endswith("-experiment")


def test_the_notes_of_an_experiment_are_shown_before_it_is_measured(folder):
    text = (folder / "experiment.toml").read_text()
    assert "notes = []" in text
    Path("e.toml").write_text(text.replace("notes = []", 'notes = ["one", "two"]'))
    done = run("run", "e.toml", "--out", "r", "--blocks", 2)
    assert done.stderr.startswith("note: one\nnote: two\nblock 1/2, run 0/4\n")


def test_a_rehearsal_shows_the_figures_of_a_program_and_measures_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    words = ["cpu", "compare", "--policies", "other,nice=5", "--blocks", 2, "--load", 0]
    done = run(*words, "--rehearse", "--", "true")
    assert done.stdout == "" and done.stderr.startswith("true: rehearsed in ")
    assert names(tmp_path) <= {"state"}


@pytest.mark.parametrize("words", ["compare", "cpu compare", "cpu sweep", "run"])
def test_what_is_left_of_a_folder_is_shown_by_its_command(folder, tmp_path, words):
    more = [] if words == "cpu sweep" else ["--blocks", 7]
    done = run(*words.split(), "--resume", folder, *more, "--dry-run")
    assert f"{6 if more else 0} runs in {3 if more else 0} blocks" in done.stdout
    assert names(tmp_path) == set()


def test_folders_become_the_sessions_of_one_result(folder, tmp_path):
    run(*COMPARE, "--seeds", 4, "--seed", 9, "--out", "second")
    text = run("merge", folder, "second", "--out", "both").stdout
    assert text.endswith("Report both/report.html   Workbook both/report.xlsx\n")
    assert len({each.session for each in Folder.open(Path("both")).runs()}) == 2
    document = json.loads(run("merge", folder, "second", "--json").stdout)
    assert document["units"] > 1
    (made,) = (tmp_path / "results").iterdir()
    assert made.name.endswith("-merge")


def test_a_difference_is_printed_and_its_page_is_where_it_is_asked(folder):
    run(*COMPARE, "--seeds", 4, "--seed", 9, "--out", "second")
    text = run("diff", folder, "second", "--html", "page.html").stdout
    assert text.splitlines()[0].startswith("fcfs: Simulated: ")
    assert Path("page.html").read_text().startswith("<!doctype html>")
    document = json.loads(run("diff", folder, "second", "--json").stdout)
    assert set(document["candidates"]) == {"fcfs", "s", "s / fcfs"}
    assert (Path("second") / "diff.html").is_file()
