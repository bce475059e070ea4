"""Result folders with right checksums and wrong contents, from a generator, at every command.

Every value of every file is replaced by every wrong type, extreme figure and control character in
turn. A folder is refused when it is opened, or every command ends with an answer: never with a
traceback, in bounded time, and no control character or formula comes out of it.
"""

import copy
import csv
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tomllib
import traceback

import openpyxl
import pytest
import tomli_w
from calls import call

from schedlab.nouns import Explanation, Planning
from schedlab.nouns.checked_line import decode, encode, seal, unseal
from schedlab.nouns.printable import is_printable
from schedlab.store.importers.imported import Options, Reading, assemble

# Of CPU time, since a busy machine makes everything late; and of any time, for what only waits.
ESCAPE = "\x1b]0;owned\x07\x1b[2J"
FORMULA = '=HYPERLINK("http://x","y")'
VALUES = [
    None, True, -1, 0, 1, 10**9, -(10**18), 10**40, 0.5, 1e308, -1e308, 1e-320, float("nan"),
    float("inf"), "", "x", "none", ESCAPE, "\ud800", "\u202eevil", FORMULA, "a" * 100_000, [], {},
    [1], ["x"], {"x": 1}, [[0, 10**18, 10**18]], "../../x", "=1|cmd\n|a`<b>",
]  # fmt: skip
COMMANDS = {
    "analyse": lambda f: ["analyse", f],
    "json": lambda f: ["analyse", f, "--json"],
    "report": lambda f: ["report", f],
    "markdown": lambda f: ["report", f, "--markdown"],
    "csv": lambda f: ["report", f, "--csv"],
    "fio": lambda f: ["report", f, "--fio", f.parent / "fio"],
    "iozone": lambda f: ["report", f, "--iozone", f.parent / "iozone"],
    "diff": lambda f: ["diff", f, f.parent / "sound"],
    "merge": lambda f: ["merge", f, f.parent / "sound", "--out", f.parent / "merged"],
    "reproduce": lambda f: ["reproduce", f],
    "resume": lambda f: ["run", "--resume", f, "--trust", "--dry-run"],
    "compare resume": lambda f: ["compare", "--resume", f, "--trust", "--dry-run"],
    "apply": lambda f: ["apply", f, "loop0", "--dry-run", "--anyway"],
    "apply on cpus": lambda f: ["apply", f, "--dry-run"],
    "tables": lambda f: ["report", f, "--tables", "--lang", "ko"],
    "report as json": lambda f: ["report", f, "--json", "--goal", "latency"],
    "other goal": lambda f: ["analyse", f, "--goal", "fairness"],
    "merge as second": lambda f: ["merge", f.parent / "sound", f, "--out", f.parent / "merged"],
    "diff as second": lambda f: ["diff", f.parent / "sound", f, "--json"],
}


# All that a report or an analysis reads of a run and of a host, whatever kind of work has it.
PROPERTIES = {
    "cpu_share": 0.1, "window_s": 2.0, "detail": "text", "engine": "psync", "cache": "cold",
    "workers": [{"calculations": 3, "cpu_burst_s": 1.5, "bursts": 9}], "left_behind": ["x"],
    "emulated": {"lateness": {"p50_ns": 1.0, "p99_ns": 2.0}, "late_share": 0.1},
    "emulated_device": {"model": "disk7200"}, "driver_tags": 32, "rotational": 0,
    "fidelity": {"device": "sda", "scheduler": "bfq", "rows": [
        {"metric": "elapsed_s", "recorded": 1.0, "replayed": 1.2, "is_like": False}]},
    "rehearsal": {"bytes": {"sda": 4096}, "cpu_share": 0.3}, "rehearsed_s": 1.0,
    "confinement": {"held": "nothing", "reason": "x"}, "launch_cost_s": 0.1, "censored": True,
    "halves": [{"elapsed_s": 1.0}, {"elapsed_s": 2.0}], "measured_from_s": 0.1,
    "switch_s": 0.1, "settled_s": 0.2, "wash_out_s": 0.1, "share_asked": 0.5, "share_reached": 0.4,
}  # fmt: skip
HOST = {
    "hostname": "h", "kernel": {"release": "6.18"},
    "cpu": {"model": "c"}, "memory": {"free_pages_reported": True},
    "device": {"model": "m", "queue": {"rotational": "0", "nr_requests": "64"}},
    "devices": {"sda": {"model": "A", "firmware": "1", "backing_file": ""}},
    "hosts": {name: {"measured_device": {"name": "sda", "model": name[0], "firmware": "1"}}
              for name in ("a1", "a2", "a3", "b1")},
}  # fmt: skip


def sound_folder(path):
    """A result with something in every file: two candidates, two workloads, three blocks."""
    readings = [
        Reading(
            f"row {block}", candidate, f"read {size} KiB",
            {"throughput_bytes_per_s": 1e6 + 1e4 * block, "latency_ns_p99": 5e5, "elapsed_s": 2.0},
            settings={"scheduler": candidate},
            parameters={"test": "read", "record_bytes": size << 10, "file_bytes": 1 << 20},
            properties=PROPERTIES,
            histograms={"latency_ns": [[100, 100, 3], [128, 129, 2]],
                        "series read": [[0, 5, 20480, 9]]},
        )
        for block in range(3)
        for size in (4, 8)
        for candidate in ("none", "bfq")
    ]  # fmt: skip
    imported = assemble(readings, Options(blocked=True), {"format": "t", "file": "t"})
    folder = imported.save(path)
    (path / "host.json").write_text(json.dumps({**folder.host, **HOST}))
    folder.write_planning(Planning(3, {"read 4 KiB": 2.0}, bound=0.05, target_s=9.0))
    row = {"workload": "read 4 KiB", "candidate": "none", "capture": "raw/capture-00.json",
           "groups": [Explanation("readers", 1e-6, 1e-5, 1e-4, 1.0, 1.0, 100)]}  # fmt: skip
    folder.write_explanations([row])
    return path


def documents(path):
    """(file, the value that it stores) of everything in a folder; of a file of lines the first."""
    text = unseal((path / "experiment.toml").read_bytes()).decode()
    yield "experiment.toml", tomllib.loads(text)
    for name in ("host.json", "explanations.json"):
        yield name, json.loads((path / name).read_bytes())
    raw = sorted((path / "raw").iterdir())[0].name
    for name in ("planning.json", "plan.jsonl", "runs.jsonl", f"raw/{raw}"):
        yield name, decode((path / name).read_bytes().splitlines()[0])


def places(value, at=()):
    """The path of every value in plain JSON types."""
    yield at
    pairs = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else pairs:
        yield from places(item, (*at, key))


def replaced(document, at, value):
    """The document with another value at a path; an own key too, where that is a table's."""
    document = copy.deepcopy(document)
    node = document
    for key in at[:-1]:
        node = node[key]
    node[at[-1]] = value
    return document


def store(path, name, document):
    """Write a document where a folder has it, with the checksum that belongs to it."""
    file = path / name
    if name == "experiment.toml":
        file.write_bytes(seal(tomli_w.dumps(document)).encode("utf-8", "surrogatepass"))
    elif name in ("host.json", "explanations.json"):
        file.write_text(json.dumps(document))
    else:
        lines = file.read_text().splitlines()
        file.write_text("\n".join([encode(document), *lines[1:]]) + "\n")


def check(sound, work, name, document, command):
    """Whether a folder with this document is opened; if so, the command ends with an answer."""
    folder = work / "hostile"
    for old in (folder, work / "fio", work / "iozone", work / "merged"):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(sound, folder)
    try:
        store(folder, name, document)
    except (TypeError, ValueError):
        return False  # TOML and JSON lines have no such value
    code, text = call(*COMMANDS[command](folder))
    # 1 means that the answer is no: nothing to apply.
    assert code in ((0, 1, 2) if command.startswith("apply") else (0, 2)), (code, text)
    assert is_printable(text), ascii(text[:2000])
    for written in [*folder.glob("report.html"), *(work / "iozone").glob("*")]:
        assert is_printable(written.read_text()), written
    if command == "csv":
        for row in csv.reader(io.StringIO(text)):
            assert not any(cell.startswith(("=", "@")) for cell in row), row
    for book in folder.glob("report.xlsx"):
        sheets = openpyxl.load_workbook(book)
        cells = (c for sheet in sheets for row in sheet.iter_rows() for c in row)
        assert not any(c.data_type == "f" and "HYPERLINK" in str(c.value) for c in cells)
    return code == 0


def hostile(sound, seed, count):
    """`count` of all documents of the sound folder with one value replaced, in a random order."""
    every = [
        (name, document, at) for name, document in documents(sound) for at in places(document) if at
    ]
    rng = random.Random(seed)
    for _ in range(count):
        name, document, at = rng.choice(every)
        value = rng.choice(VALUES)
        yield name, at, value, replaced(document, at, value)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return sound_folder(tmp_path_factory.mktemp("sound") / "sound")


def run_hostile(sound, work, seed, count):
    shutil.copytree(sound, work / "sound")
    names = list(COMMANDS)
    failures = []
    for number, (name, at, value, document) in enumerate(hostile(sound, seed, count)):
        command = names[number % len(names)]
        try:
            check(sound, work, name, document, command)
        except Exception as error:
            where = f"{command}: {name} {'.'.join(map(str, at))} = {value!r:.40}"
            frame = traceback.extract_tb(error.__traceback__)[-1]
            failures.append(f"{where}: {error!r:.200} at {frame.filename[-40:]}:{frame.lineno}")
    return failures


@pytest.mark.parametrize("seed", range(3))
def test_no_folder_ends_in_a_traceback_or_speaks_to_the_terminal(sound, tmp_path, seed):
    assert not run_hostile(sound, tmp_path, seed, 44)


SHAPES = [
    ("experiment.toml", ("margin",), -1),
    ("experiment.toml", ("margin",), 0),
    ("runs.jsonl", ("properties", "fidelity"), {"rows": [{}]}),
    ("runs.jsonl", ("properties", "emulated"), {"lateness": {}}),
    ("runs.jsonl", ("properties", "rehearsal"), ["x"]),
    ("runs.jsonl", ("properties", "rotational"), -1),
    ("runs.jsonl", ("properties", "driver_tags"), []),
    ("runs.jsonl", ("properties", "share_asked"), None),
    ("runs.jsonl", ("properties", "switch_s"), None),
    ("runs.jsonl", ("properties", "workers"), [{"cpu_burst_s": "x"}]),
    ("host.json", ("kernel",), "x"),
    ("host.json", ("memory",), ["x"]),
    ("host.json", ("devices",), ["sda"]),
    ("host.json", ("devices", "sda"), "x"),
    ("host.json", ("device", "queue", "rotational"), "x"),
    ("host.json", ("hosts",), ["a1"]),
    ("host.json", ("hosts", "a2"), "x"),
    ("host.json", ("hosts", "a2", "measured_device"), ["sda"]),
    ("host.json", ("hosts", "a2", "measured_device", "model"), {"x": 1}),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "at", "value"), SHAPES)
def test_facts_and_properties_of_another_shape_end_no_command(sound, tmp_path, name, at, value):
    shutil.copytree(sound, tmp_path / "sound")
    (document,) = (found for file, found in documents(sound) if file == name)
    for command in ("analyse", "report", "apply", "resume"):
        check(sound, tmp_path, name, replaced(document, at, value), command)


def test_a_bug_exits_with_2_and_its_traceback_is_kept(tmp_path):
    """Exit code 1 means that the answer is no, and nothing else."""
    program = (
        "import sys, schedlab.cli as c\nfrom schedlab.store.folder import Folder\n"
        "Folder.open = classmethod(lambda cls, path: {}['\\x1b[2J'])\n"
        "sys.argv = ['schedlab', 'analyse', 'x']\nc.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert is_printable(done.stderr)
    assert "error: KeyError in" in done.stderr and "Traceback" not in done.stderr
    (kept,) = tmp_path.glob("schedlab-error-*.txt")
    assert str(kept) in done.stderr
    assert "Traceback" in kept.read_text()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_of_a_workload_that_the_experiment_lacks_is_refused(sound, tmp_path, command):
    shutil.copytree(sound, tmp_path / "sound")
    (run,) = (document for name, document in documents(sound) if name == "runs.jsonl")
    assert not check(sound, tmp_path, "runs.jsonl", {**run, "workload": FORMULA}, command)
