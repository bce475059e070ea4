"""Files and folders from elsewhere, broken or hostile, at every command that opens them.

Each is one error with a hint and exit code 2, or is read for what is sound in it; never a
traceback, a hanging command, or a write outside the folder.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from calls import call

SIM = """
title = "t"
kind = "sim"
seed = 1
target = { kind = "none" }
stopping = { blocks = 2 }
[[candidates]]
label = "fcfs"
settings = { policy = "fcfs" }
[[candidates]]
label = "tsb"
settings = { policy = "tsb" }
[[workloads]]
label = "w"
kind = "ssd"
metric = "mean_read_ms"
parameters = { requests = 100 }
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A finished result folder of a simulation."""
    home = tmp_path_factory.mktemp("measured")
    (home / "e.toml").write_text(SIM)
    code, text = call("run", home / "e.toml", "--out", home / "r")
    assert code == 0, text
    return home / "r"


@pytest.fixture
def folder(measured, tmp_path, state, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("precious")
    return shutil.copytree(measured, tmp_path / "r")


def instead(name, make):
    """Something else in the place of a file; `make` is given the path and what was there."""

    def change(folder):
        path = folder / name
        content = path.read_bytes() if path.exists() else b""
        path.unlink(missing_ok=True)
        make(path, content)

    return change


def replace(name, content):
    return instead(name, lambda path, _: path.write_bytes(content))


def edit(name, old, new):
    def make(path, content):
        assert old.encode() in content, f"{name} holds no {old}"
        path.write_bytes(content.replace(old.encode(), new.encode()))

    return instead(name, make)


def half(name):
    return instead(name, lambda path, content: path.write_bytes(content[: len(content) // 2]))


def as_directory(name):
    return instead(name, lambda path, _: path.mkdir())


def as_fifo(name):
    return instead(name, lambda path, _: os.mkfifo(path))


def as_link(name, to):
    return instead(name, lambda path, _: path.symlink_to(to))


def raw_link(folder):
    shutil.rmtree(folder / "raw", ignore_errors=True)
    (folder / "raw").symlink_to(folder.parent / "precious")


def a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("x")


FATAL = {
    "no folder": shutil.rmtree,
    "a file": a_file,
    "experiment: empty": replace("experiment.toml", b""),
    "experiment: no TOML": replace("experiment.toml", b"\x00\xff\xfe[[["),
    "experiment: half": half("experiment.toml"),
    "experiment: a FIFO": as_fifo("experiment.toml"),
    "experiment: a directory": as_directory("experiment.toml"),
    "experiment: a link to itself": as_link("experiment.toml", "experiment.toml"),
    "experiment: an endless device": as_link("experiment.toml", "/dev/zero"),
    "experiment: wrong types": edit("experiment.toml", 'kind = "sim"', "kind = 7"),
    "experiment: newer schema": edit("experiment.toml", "schema = 1", "schema = 99"),
    "experiment: control characters": edit("experiment.toml", 'label = "tsb"',
                                           'label = "tsb\\u001b[2J"'),
    "plan: no JSON": replace("plan.jsonl", b"{{{\n"),
    "plan: a directory": as_directory("plan.jsonl"),
    "plan: a FIFO": as_fifo("plan.jsonl"),
    "runs: a FIFO": as_fifo("runs.jsonl"),
    "runs: a directory": as_directory("runs.jsonl"),
    "runs: no JSON in the middle": replace("runs.jsonl", b"{}\nnonsense\n{}\n"),
    "runs: lists": replace("runs.jsonl", b"[1, 2]\n[3]\n"),
}  # fmt: skip
HARMLESS = {
    "host: half": half("host.json"),
    "host: a list": replace("host.json", b"[]"),
    "host: a FIFO": as_fifo("host.json"),
    "host: deep": replace("host.json", b"[" * 100_000),
    "raw: a link outside": raw_link,
    "page: a link outside": as_link("report.html", "../precious/file"),
    "workbook: a link outside": as_link("report.xlsx", "../precious/file"),
}
COMMANDS = {
    "report": ("report", "r"),
    "analyse": ("analyse", "r"),
    "fio": ("report", "r", "--fio", "o"),
    "diff": ("diff", "r", "r"),
    "resume": ("run", "--resume", "r", "--trust"),
    "reproduce": ("reproduce", "r", "--out", "again"),
    "apply": ("apply", "r", "sda", "--dry-run"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", FATAL)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_broken_folder_is_one_error_with_a_hint(folder, command, case):
    FATAL[case](folder)
    code, text = call(*COMMANDS[command])
    assert code == 2, text
    assert "\x1b" not in text
    assert (folder.parent / "precious" / "file").read_text() == "precious"
    assert not (folder.parent / "again").exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", HARMLESS)
@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "apply"])
def test_what_is_broken_beside_the_figures_costs_only_itself(folder, command, case):
    HARMLESS[case](folder)
    code, text = call(*COMMANDS[command])
    refuses_to_write = "a link" in case and command in ("report", "resume")
    assert code in ((0, 1, 2) if command in ("fio", "reproduce") else (2,) if refuses_to_write
                    and "raw" not in case else (0,)), text  # fmt: skip
    assert (folder.parent / "precious" / "file").read_text() == "precious"
    assert [path.name for path in (folder.parent / "precious").iterdir()] == ["file"]


NAMES = ["../out", "a/../../out", "/etc/out", "..", ".", "a\0b", "x\n[evil]", "\x1b]0;t\x07",
         "a" * 300, "con\u202etxt"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("what", ["candidate", "workload"])
def test_a_label_is_refused_or_stays_a_name(folder, what, name):
    """Nothing is written outside the folder, and no control character reaches the terminal."""
    home = folder.parent
    old = "tsb" if what == "candidate" else "w"
    text = SIM.replace(f'label = "{old}"', f"label = {json.dumps(name)}")
    (home / "e.toml").write_text(text)
    before = {path.name for path in home.iterdir()} | {"n", "o", "state"}
    code, text = call("run", "e.toml", "--out", "n")
    if code == 0:
        assert call("report", "n", "--fio", "o")[0] in (0, 2)
    else:
        assert code == 2, text
    assert not any(ord(character) < 32 and character not in "\n\t" for character in text)
    assert {path.name for path in home.iterdir()} <= before
    assert not Path("/etc/out").exists()


FILES = {
    "nothing": b"",
    "binary": bytes(range(256)),
    "no table": b"1 = 2\n[[[",
    "a list as title": b'title = ["a"]',
    "a table as kind": b"kind = { a = 1 }",
    "candidates as numbers": b"candidates = [1, 2]",
    "candidates as text": b'candidates = "none"',
    "workloads as text": b'candidates = ["none"]\nworkloads = "all"',
    "workload without kind": b'candidates = ["none"]\n[[workloads]]\nlabel = "w"',
    "a date as size": b'[target]\nkind = "scratch"\nsize_bytes = 2020-01-01',
    "a negative size": b'[target]\nkind = "scratch"\nsize_bytes = -4096',
    "a number that is none": b"margin = nan",
    "an endless number": b"seed = inf",
    "a huge number": b"seed = 99999999999999999999999999",
    "a deep list": b"title = " + b"[" * 5000,
    "a large file": b"#" * (2 << 20),
    "a target as list": b"target = [1]",
    "stopping as text": b'stopping = "soon"',
    "an unknown mode": b'candidates = ["none"]\n[stopping]\nmode = "never"',
    "twice the same key": b'title = "a"\ntitle = "b"',
}


READ = [(w, c) for w in (("run",), ("run", "--dry-run")) for c in FILES]


@pytest.mark.parametrize(("words", "case"), READ, ids=[f"{' '.join(w)}-{c}" for w, c in READ])
def test_a_file_that_is_no_experiment_is_one_error(folder, words, case):
    (folder.parent / "e.toml").write_bytes(FILES[case])
    code, text = call(*words, "e.toml")
    assert code == 2, text


@pytest.mark.parametrize("special", ["/dev/zero", "/dev/null", "/", "fifo", "missing"])
@pytest.mark.parametrize("command", ["run", "report", "trace stats", "import time"])
def test_no_regular_file_is_one_error(folder, command, special):
    if special == "fifo":
        os.mkfifo("fifo")
    more = ("--out", "o") if command.startswith("import") else ()
    code, text = call(*command.split(), special, *more)
    assert code == 2, text


READ_LATER = {
    "cpu": ("sim", "cpu", "--validate"),
    "sim": ("sim", "run", "--scheduler", "none", "--seconds", "0.1", "--processes"),
    "device": ("device", "up"),
}


@pytest.mark.parametrize("special", ["/dev/zero", "/dev/null", "precious", "fifo", "missing"])
@pytest.mark.parametrize("command", READ_LATER)
def test_no_regular_file_as_an_option_is_one_error(folder, command, special):
    """A link, as files of processes end in .toml."""
    if special == "fifo":
        os.mkfifo("fifo")
    Path("special.toml").symlink_to(special)
    code, text = call(*READ_LATER[command], "special.toml")
    assert code == 2, text
    reason = "No such file or directory" if special == "missing" else "is not a regular file"
    assert f"special.toml: {reason}" in text or f"{Path(special).resolve()}: {reason}" in text


small = pytest.mark.parametrize("small_disk", ["256k"], indirect=True)


@small
def test_a_full_disk_is_one_error_and_what_was_measured_is_resumed(folder, small_disk):
    """Exit 2 with the cause; after room was made the rest is measured."""
    Path("e.toml").write_text(SIM.replace("blocks = 2", "blocks = 200"))
    code, text = call("run", "e.toml", "--out", small_disk / "r")
    assert code == 2
    assert "No space left" in text
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert (small_disk / "r" / "runs.jsonl").read_text().count("\n") > 0
    code, text = call("run", "--resume", small_disk / "r")
    assert code == 0, text


OUTPUTS = [("report", "r"), ("report", "r", "--fio", "F/o"),
           ("reproduce", "r", "--out", "F/o"), ("init", "F/e.toml")]  # fmt: skip


@small
@pytest.mark.parametrize("words", OUTPUTS, ids=lambda words: words[0])
def test_a_full_disk_below_any_output_is_one_error(folder, small_disk, words):
    if words[0] == "report":
        shutil.copytree(folder, small_disk / "r", ignore=shutil.ignore_patterns("report.*", "raw"))
        words = ("report", small_disk / "r")
    handle = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space"):
        while True:
            os.write(handle, bytes(1024))
    os.close(handle)
    code, text = call(*(str(word).replace("F/", f"{small_disk}/") for word in words))
    assert code == 2, text
    assert "No space left" in text


@pytest.mark.parametrize("words", [["lab", "list"], ["--help"], ["sim", "compare", "--help"]])
def test_a_reader_that_has_enough_ends_the_output_without_a_word(words):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "schedlab", *words]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")
