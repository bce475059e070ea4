"""The table of importers: what is in it is read, is fuzzed, and is in the documents."""

import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from click.testing import CliRunner
from reference import FILES

from schedlab import _core
from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.store.folder import Folder
from schedlab.store.importers import IMPORTERS, found
from schedlab.store.importers.imported import Reading, assemble

ROOT = Path(__file__).parents[2]


DATA = ROOT / "tests" / "data"
# A file of each format that its contents show.
SHOWN = {
    "dmesg": "imports/rr-1.log", "fio": "imports/1.json", "hackbench": "benchmarks/hackbench.txt",
    "hdparm": "imports/none-hdparm.txt", "iostat": "benchmarks/iostat-x.json",
    "iozone": "imports/1.txt", "pgbench": "benchmarks/pgbench-13.txt",
    "sched": "kernel-text/switches.txt", "schbench": "benchmarks/schbench.txt",
    "sysbench": "benchmarks/sysbench-cpu.txt", "time": "imports/none-time.txt",
}  # fmt: skip


@pytest.mark.parametrize("name", IMPORTERS)
def test_each_importer_has_its_line_in_the_help(name):
    listed = CliRunner().invoke(cli, ["import", "--help"]).output
    assert f"  {name:<9}  {IMPORTERS[name].line}\n" in listed


@pytest.mark.parametrize("name", SHOWN)
def test_the_contents_show_the_format(tmp_path, name):
    """Without its name the files are read as with it."""
    folders = [tmp_path / "named", tmp_path / "shown"]
    for folder, words in zip(folders, ([name], []), strict=True):
        file = f"none={DATA / SHOWN[name]}"
        done = CliRunner().invoke(cli, ["import", *words, file, "--out", str(folder)])
        assert done.exit_code == 0, done.exception
    for file in ("experiment.toml", "runs.jsonl"):
        assert (folders[0] / file).read_bytes() == (folders[1] / file).read_bytes()


def test_options_of_another_format_are_refused(tmp_path):
    (tmp_path / "x").write_text("nothing of any program\n")
    (tmp_path / "table.csv").write_text("a,b\nnone,1\n")
    fio = f"none={DATA / SHOWN['fio']}"
    (tmp_path / "coloured.csv").write_text("a,b\nnone\x1b[31m,1\n")
    table = ["--candidate=a", "--value=b", "--unit=s"]
    for words, why in (
        (["coloured.csv", *table], r"coloured.csv.candidates[0].label = 'none\x1b[31m'"),
        (
            ["fio", fio, "--unit", "s", "--workload", "w"],
            "--unit, --workload: not of the format fio",
        ),
        ([fio, "--workload", "reads"], "--workload: not of the format fio"),
        (["table.csv"], "needs --candidate and --value"),
        (["csv", "table.csv", "table.csv", "--candidate", "a", "--value", "b"], "is one file"),
        (["fio"], "import fio: no file"),
        (["x"], "x: its contents do not show which program wrote it"),
        ([str(DATA / "imports" / "missing.json")], "No such file"),
    ):
        typed = [str(tmp_path / w) if w in ("x", "table.csv", "coloured.csv") else w for w in words]
        done = CliRunner().invoke(cli, ["import", *typed, "--out", str(tmp_path / "out")])
        assert isinstance(done.exception, SpecError) and why in str(done.exception), words
        assert done.exception.hint and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "reader"),
    [
        ("  8,0    1        1     0.000000000   697  G   W 223490 + 8 [a]", "blkparse"),
        ("a-1 [000] 1.0: block_rq_issue: 8,0 R 4096 () 8 + 8 [a]", "ftrace"),
        ("TIME(s)        COMM           PID    DISK    T  SECTOR    BYTES   LAT(ms)", "biosnoop"),
    ],
)
def test_a_trace_is_no_result_and_named_with_what_reads_it(tmp_path, line, reader):
    """It is recognised, and no importer has its name."""
    (tmp_path / "x").write_text(f"{line}\n")
    done = CliRunner().invoke(cli, ["import", str(tmp_path / "x"), "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, SpecError) and "not read here" in str(done.exception)
    assert done.exception.hint.endswith(f"x:{reader}")


def read_lines_of_numbers(files, options):
    readings = [
        Reading(str(path), candidate, "w", {"elapsed_s": float(line)})
        for candidate, path in files
        for line in path.read_text().splitlines()
    ]
    return assemble(readings, options, {"format": "numbers", "file": str(files[0][1])})


def test_a_file_with_a_reader_is_an_importer_by_its_name(tmp_path, monkeypatch):
    module = types.ModuleType("schedlab.store.importers.ninechars")
    module.read = read_lines_of_numbers
    monkeypatch.setitem(sys.modules, module.__name__, module)
    file = tmp_path / "ninechars.py"
    file.write_text('"""Numbers."""\n\nread = print\n')
    monkeypatch.setitem(IMPORTERS, "ninechars", found(tmp_path)["ninechars"])
    monkeypatch.delitem(IMPORTERS, "fio")
    assert "| ninechars | `ninechars` | Numbers. | | | no | |\n\n" in (
        text := FILES["formats.md"]()) and "| `fio` |" not in text  # fmt: skip
    file.write_text('"""Numbers."""\n\ndef reader():\n    """Read."""\n    read = print\n')
    assert not found(tmp_path)
    (tmp_path / "1.txt").write_text("1.5\n2\n")
    (tmp_path / "2.txt").write_text("3\n4.25\n")
    files = [f"none={tmp_path / '1.txt'}", f"bfq={tmp_path / '2.txt'}"]
    words = ["import", "ninechars", *files, "--baseline=bfq", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["baseline"] == "bfq"
    runs = Folder.open(tmp_path / "out").record().runs
    figures = [(run.candidate, run.block, run.metrics["elapsed_s"]) for run in runs]
    assert figures == [("none", 0, 1.5), ("none", 1, 2.0), ("bfq", 0, 3.0), ("bfq", 1, 4.25)]


def test_an_importer_is_fuzzed_before_its_known_figures_are_written(tmp_path):
    program = (
        "import importers, pathlib, sys; assert {*importers.TARGETS} <= {*importers.IMPORTERS}\n"
        "del importers.TARGETS['hdparm']; place = pathlib.Path(sys.argv[1])\n"
        "print(importers.fuzz_importer('hdparm', 0.2, 1, place))"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, tmp_path],
        cwd=ROOT / "fuzz", check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert re.match(r"hdparm: [1-9]", done.stdout)


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


def test_the_help_imports_nothing_heavy():
    heavy = ("numpy", "rich", "schedlab._core", "schedlab.store.importers.csv")
    program = (
        "import sys\nfrom click.testing import CliRunner\nfrom schedlab.cli import cli\n"
        f"assert CliRunner().invoke(cli, ['import', '--help']).exit_code == 0\n"
        f"print(*(name for name in {heavy} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout == b"\n"
