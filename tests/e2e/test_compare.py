"""The main job on a real scratch device: it measures, decides, and leaves the host as it was."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from calls import call
from loops import attached, loop_device, needs_root
from processes import ended, left_below, started

import schedlab

SMALL = ("--scratch", "32M", "--seconds", "30ms", "--records", "64k",
         "--tests", "read,random-write")  # fmt: skip
WAIT_S = 60
pytestmark = [needs_root, pytest.mark.usefixtures("here")]


@pytest.fixture
def here(tmp_path, state, monkeypatch):
    """An own journal, so that tests and other sessions do not meet."""
    monkeypatch.chdir(tmp_path)


def host():
    """Every setting of every queue, but of loop devices, which other sessions make and change."""
    queues = {}
    for path in sorted(Path("/sys/block").glob("*/queue/**/*")):
        if path.parts[3].startswith("loop"):
            continue
        try:
            if path.is_file():
                queues[str(path)] = path.read_text()
        except OSError:
            continue
    return queues


def until(condition, what):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def test_schedulers_on_a_scratch_device_end_in_a_verdict(tmp_path):
    before = host()
    code, out, err = ended(
        "compare", *SMALL, "--scratch-directory", tmp_path, "--blocks", 2, "--seed", 1,
        "--schedulers", "none,mq-deadline:fifo_batch=32,bfq:low_latency=0", "--out", "r", "--json",
    )  # fmt: skip
    assert code == 0, err
    answer = json.loads(out)
    assert answer["schema"] == 3 and answer["take"] in answer["candidates"]
    roles = {row["name"]: row["role"] for row in answer["rows"]}
    assert roles.pop("(mix)") == "mix"  # File tests are one mix with equal shares.
    assert {name for name, role in roles.items() if role == "part"} == {
        "read 64 KiB", "random-write 64 KiB",
    }  # fmt: skip
    assert answer["counted"] == ["(mix)"] and set(answer["cells"]) == {*roles, "(mix)"}
    for name, cells in answer["cells"].items():
        assert set(cells) == set(answer["candidates"]), name
        for cell in cells.values():
            assert (cell["value"] is None) if name == "(mix)" else cell["value"] > 0
            assert cell["low"] <= cell["loss"] and not cell["open"]
            assert cell["up"] is None or cell["loss"] <= cell["up"]
    assert {path.name for path in (tmp_path / "r").iterdir()} >= {
        "experiment.toml", "plan.jsonl", "runs.jsonl", "host.json", "raw", "reproduce.sh",
        "verdict.json", "report.html", "report.xlsx",
    }  # fmt: skip
    runs = [json.loads(line) for line in (tmp_path / "r/runs.jsonl").read_text().splitlines()]
    assert sum(run["status"] == "ok" for run in runs) == 2 * 2 * 4
    tuned = [run for run in runs if run["candidate"].startswith("mq-deadline")]
    assert all(
        run["properties"]["effective"] == {"scheduler": "mq-deadline", "fifo_batch": "32"}
        for run in tuned
    )
    assert host() == before
    assert left_below(tmp_path) == []
    assert list(tmp_path.glob("schedlab*")) == []


def interrupted(tmp_path, how):
    """A comparison that was stopped after a few runs by `how(process)`; its exit code."""
    process = started(
        "compare", *SMALL, "--scratch-directory", tmp_path, "--blocks", 2, "--out", "r",
        "--schedulers", "none,bfq", start_new_session=True,
    )  # fmt: skip
    runs = tmp_path / "r" / "runs.jsonl"
    until(
        lambda: process.poll() is not None or (runs.exists() and runs.read_text().count("\n") > 2),
        "runs",
    )
    how(process)
    _, err = process.communicate(timeout=WAIT_S)
    return process.returncode, err


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_interrupted_comparison_restores_and_goes_on(tmp_path, number):
    """By a signal that can be heard, or the end of the whole session."""
    before = host()
    code, err = interrupted(tmp_path, lambda process: os.killpg(process.pid, number))
    if number == signal.SIGKILL:
        assert ended("recover")[0] == 0
    else:
        assert (code, "hint: schedlab compare --resume r" in err) == (130, True), err
    assert host() == before
    assert left_below(tmp_path) == []
    code, _, err = ended("compare", "--resume", "r", "--json")
    assert code == 0, err
    lines = [json.loads(line) for line in (tmp_path / "r/runs.jsonl").read_text().splitlines()]
    keys = [
        (run["block"], run["workload"], run["candidate"]) for run in lines if run["status"] == "ok"
    ]
    assert len(keys) == len(set(keys)) == 2 * 2 * 3


def test_a_dry_run_touches_nothing(tmp_path):
    before = host()
    code, text = call("compare", *SMALL, "--schedulers", "noop,bfq:low_latency=0", "--dry-run")
    assert code == 0, text
    assert "low_latency = 0" in text
    assert "noop is its name in older kernels: measured as none" in text
    assert host() == before
    assert not (tmp_path / "results").exists()


CFQ = [
    ("compare", *SMALL, "--schedulers", "noop,deadline,cfq", "--dry-run"),
    ("tune", *SMALL, "--scheduler", "deadline,cfq"),
    ("apply", "cfq", "DEVICE"),
    ("apply", "cfq:low_latency=0", "DEVICE", "--dry-run"),
    ("live", "DEVICE", "--schedulers", "none,cfq", "--dry-run"),
]


@pytest.mark.parametrize("words", CFQ, ids=lambda words: f"{words[0]}{len(words)}")
def test_no_door_takes_a_scheduler_that_is_gone_for_its_successor(words, tmp_path):
    """noop and deadline have other names; cfq was another algorithm than bfq."""
    with loop_device(tmp_path / "disk") as name:
        code, text = call(*(name if word == "DEVICE" else word for word in words))
    assert code == 2 and "'cfq'" in text
    assert "bfq, its successor, is another algorithm: name bfq" in " ".join(text.split())
    hinted = re.search(r"schedlab (sim compare \S+ \S+)", " ".join(text.split()))
    assert call(*hinted[1].split(), "--seconds", 1, "--seeds", 2)[0] == 0


@pytest.mark.parametrize("work", ["random-reads", "readers", "random-reads,cached-reads"])
def test_reads_on_a_device_that_a_consent_of_ours_holds(work, tmp_path):
    """It is empty: only the consent itself has it open."""
    words = ("--workloads", work, "--seconds", "30ms", "--dry-run")
    with loop_device(tmp_path / "disk", 64 << 20) as name:
        code, text = call("compare", "--device", name, "--destroy-data", name, *words)
    assert code == 0 and f"I/O schedulers on {name}" in text, text


@pytest.mark.sampled(3)
def test_the_tables_of_the_block_size_lab_have_totals_per_size(tmp_path):
    """At the default scale: the study's sizes, each candidate's smallest one is 100."""
    code, out, err = ended("lab", "run", "block-size", "--directory", tmp_path, "--blocks", 2,
                           "--out", "r")  # fmt: skip
    assert code in (0, 1), err
    shown = ended("report", "r", "--tables")[1]
    sizes, rows = ["512 B", "4 KiB", "16 KiB", "64 KiB"], {}
    for what, number in (("bytes", 4), ("calls", 3)):
        title = f"same {what}: total time by block size; index: the smallest = 100"
        lines = shown.partition(title)[2].splitlines()[2 : 2 + number]
        rows[what] = [re.split(r"  +", line) for line in lines]
        assert [row[0] for row in rows[what]] == sizes[:number]
        assert rows[what][0][3::2] == ["100.0"] * 3
    runs = [json.loads(line) for line in (tmp_path / "r/runs.jsonl").read_text().splitlines()]

    def mean(size):
        times = [
            run["metrics"]["elapsed_s"]
            for run in runs
            if (run["workload"], run["candidate"]) == (f"same bytes {size}", "O_SYNC")
            and run["status"] == "ok"
        ]
        return sum(times) / len(times)

    share = 100 * mean("4 KiB") / mean("512 B")
    assert (rows["bytes"][0][1], rows["bytes"][1][1]) == ("512", "64")  # calls
    assert float(rows["bytes"][1][3].replace(",", "")) == pytest.approx(share, abs=0.051)
    assert "knee" in out or "512 B to 1 MiB" in " ".join((out + err).split())


BAD = {
    "unknown tunable": (["--schedulers", "bfq:nonsense=1"], "nonsense"),
    "tunable out of range": (["--schedulers", "bfq:low_latency=-5"], "low_latency"),
    "of the second out of range": (["--schedulers", "none,bfq:low_latency=-5"], "low_latency"),
    "too few labels": (["--schedulers", "none,bfq", "--labels", "before"], "before"),
    "labels twice": (["--schedulers", "none,bfq", "--labels", "same,same"], "same"),
    "two targets": (["--device", "/dev/loop0", "--directory", "/"], "cannot be used together"),
    "read-only without a device": (["--read-only"], "--read-only"),
    "not a folder": (["--resume", "/tmp"], "/tmp"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_one_clear_error(tmp_path, case):
    """What a file may say as well is in test_one_door.py."""
    options, named = BAD[case]
    if case != "not a folder":  # a resumed experiment keeps its own
        scratch = () if case == "two targets" else ("--scratch", "32M")
        options = [*scratch, *options, "--out", "r", "--seconds", "20ms"]
    code, text = call("compare", *options, "--blocks", 1)
    assert (code, named in text) == (2, True), text
    assert left_below(tmp_path) == []
    assert not (tmp_path / "r").exists()


@pytest.fixture
def ext4_device(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(b"\0" * (32 << 20))
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", image], check=True)
    with attached(image) as device:
        yield device


@pytest.mark.sampled(2)
def test_a_device_with_content_is_refused_or_only_read(tmp_path, ext4_device):
    content = Path(ext4_device).read_bytes()
    queue = Path("/sys/block", Path(ext4_device).name, "queue/scheduler")
    before = queue.read_text()
    few = ["--seconds", "20ms", "--blocks", 1, "--device", ext4_device]
    for flags in ([], ["--destroy-data", ext4_device]):
        code, text = call("compare", *few, *flags, "--out", "r")
        assert (code, "ext4" in text) == (2, True), text
        assert not (tmp_path / "r").exists()
    flags = ["--read-only", "--schedulers", "none,bfq", "--no-aa", "--json", "--out", "r"]
    code, out, err = ended("compare", *few, *flags)
    assert code == 0, err
    assert not any("write" in row["workload"] for row in json.loads(out)["rows"])
    assert queue.read_text() == before
    assert Path(ext4_device).read_bytes() == content


def test_without_root_it_says_so(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    for parent in [tmp_path, *tmp_path.parents][:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "nobody"))
    # Only root may read the project's folder; user nobody may read everything here, write nothing.
    read = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *read)
    code, _, err = ended("compare", *SMALL, under=nobody)
    assert code == 2, err
    assert "root" in err and "hint: " in err and "Traceback" not in err


def test_help_is_quick_because_nothing_heavy_is_imported():
    code = "import sys; from schedlab.cli import cli; cli(['--help'], standalone_mode=False); "
    code += "print(sorted({'numpy','scipy','rich','schedlab._core','altair'} & set(sys.modules)))"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert shown.splitlines()[-1] == "[]"


def test_a_call_measures_as_the_command_does(tmp_path):
    before = host()
    result = schedlab.compare(
        scratch="32M", scratch_directory=tmp_path, tests=["read"], records="64k", seconds="30ms",
        schedulers=["none", "bfq:low_latency=0"], blocks=2, aa=False, out=tmp_path / "r",
    )  # fmt: skip
    frame = result.to_pandas()
    assert sorted(frame.candidate) == ["bfq:low_latency=0"] * 2 + ["none"] * 2
    assert set(frame.status) == {"ok"} and len(result.to_pandas(discarded=True)) >= 4
    assert (tmp_path / "r" / "experiment.toml").exists() and host() == before
