"""The table of importers: what is in it is a command, is fuzzed, and is in the documents."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from schedlab import _core
from schedlab.cli import cli
from schedlab.cli.import_ import import_
from schedlab.store.folder import Folder
from schedlab.store.importers import IMPORTERS, Importer
from schedlab.store.importers.imported import Reading, assemble

ROOT = Path(__file__).parents[2]


def first_words(text):
    """Lines of a help as a terminal has them, in one line."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", IMPORTERS)
def test_each_importer_is_a_command_with_its_help(name):
    importer = IMPORTERS[name]
    shown = CliRunner().invoke(cli, ["import", name, "--help"]).output
    assert first_words(importer.what) in first_words(shown)
    words = first_words(importer.example)
    assert (f"schedlab import {name} {words} --out DIR" in first_words(shown)) == bool(words)
    listed = CliRunner().invoke(cli, ["import", "--help"]).output
    assert f"  {name:<9}  {importer.line}\n" in listed


def test_each_command_is_an_importer():
    assert import_.list_commands(click.Context(import_)) == sorted(IMPORTERS)


def read_lines_of_numbers(files, options):
    readings = [
        Reading(str(path), candidate, "w", {"elapsed_s": float(line)})
        for candidate, path in files
        for line in path.read_text().splitlines()
    ]
    return assemble(readings, options, {"format": "numbers", "file": str(files[0][1])})


def test_an_importer_is_an_entry_and_its_command_follows(tmp_path, monkeypatch):
    load = lambda: read_lines_of_numbers  # noqa: E731
    entry = Importer("numbers", load, "Numbers.", "Import numbers.", "none=1.txt")
    monkeypatch.setitem(IMPORTERS, "numbers", entry)
    (tmp_path / "1.txt").write_text("1.5\n2\n")
    (tmp_path / "2.txt").write_text("3\n4.25\n")
    files = [f"none={tmp_path / '1.txt'}", f"bfq={tmp_path / '2.txt'}"]
    words = [
        "import",
        "numbers",
        *files,
        "--baseline=bfq",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["baseline"] == "bfq"
    runs = Folder.open(tmp_path / "out").record().runs
    figures = [(run.candidate, run.block, run.metrics["elapsed_s"]) for run in runs]
    assert figures == [("none", 0, 1.5), ("none", 1, 2.0), ("bfq", 0, 3.0), ("bfq", 1, 4.25)]


def test_each_importer_is_fuzzed_from_known_figures():
    program = "import importers; print(*importers.TARGETS, *importers.ARGUMENTS)"
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        cwd=ROOT / "fuzz", check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert set(done.stdout.split()) == set(IMPORTERS)


def test_each_importer_is_in_the_reference_of_formats_and_no_other():
    text = (ROOT / "docs/reference/formats.md").read_text()
    section = text.partition("## Results\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")]
    assert rows[0][1] == "`schedlab import`"
    named = {word for row in rows[1:] for word in re.findall(r"`([^`]+)`", row[1])}
    assert named == set(IMPORTERS)


def test_every_format_says_what_it_was_tested_against():
    """A program that is named is one that a test of formats runs; all traces have a row."""
    text = (ROOT / "docs/reference/formats.md").read_text()
    files = [ROOT / f"tests/e2e/test_{name}.py" for name in ("owners_programs", "timelines")]
    tests = "".join(each.read_text() for each in files)
    tables = {}
    for row in (line for line in text.splitlines() if line.startswith("| ")):
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        if cells[-1] == "tested against":
            head = cells
        elif "tested against" in head and len(cells) == len(head):
            tables.setdefault(head[0], []).append(cells)
    programs = {word for rows in tables.values() for row in rows
                for word in re.findall(r"([A-Za-z][\w ]*?) \d", row[-1])}  # fmt: skip
    assert {name.split()[0].lower() for name in programs} <= {
        "fixtures", "openpyxl", "fio", "plot", "hdparm", "bash", "gnu", "blkparse", "iozone",
        "sysbench", "pgbench", "hackbench", "iostat", "perf", "cmd", "linux", "babeltrace2",
        "perfetto",
    }  # fmt: skip
    for name in ("fio", "hdparm", "bash", "/usr/bin/time", "blkparse", "babeltrace2", "perf"):
        assert f'"{name}"' in tests
    known = {name for name, _, _ in _core.trace_formats()}
    assert {row[0].strip("`") for row in tables["name"]} == known


def test_each_importer_is_in_the_guide():
    text = (ROOT / "docs/guides/import.md").read_text()
    assert set(re.findall(r"^ *schedlab import ([a-z-]+) ", text, re.MULTILINE)) == set(IMPORTERS)


@pytest.mark.parametrize("words", [["import", "--help"], ["import", "csv", "--help"]])
def test_the_table_and_its_help_import_nothing_heavy(words):
    heavy = ("numpy", "rich", "schedlab._core", "schedlab.store.importers.csv")
    heavy += ("schedlab.cli.import_.commands", "schedlab.cli.options") if len(words) == 2 else ()
    program = (
        "import sys\nfrom click.testing import CliRunner\nfrom schedlab.cli import cli\n"
        f"assert CliRunner().invoke(cli, {words}).exit_code == 0\n"
        f"print(*(name for name in {heavy} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout == b"\n"
