"""Tuning on real devices: a setting that truly matters is found, and a kill loses no more than it.

The device of the first test comes with a read-ahead of one page: the median of buffered reads in
order then waits for the device, and with a larger read-ahead it finds its pages in memory. That is
tenfold and more, under any other load of the machine.
"""

import json
import shutil
import signal

import pytest
from click.testing import CliRunner
from loops import attached, needs_root
from processes import ended

from schedlab.cli import cli
from schedlab.errors import SchedlabError
from schedlab.host.settings import knobs

pytest.importorskip("optuna")
WAIT_S = 400


@pytest.fixture(autouse=True)
def here(tmp_path, state, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def device(tmp_path):
    """A loop device, too large to be read to its end in a run, whose read-ahead is one page."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(2 << 30)
    with attached(image) as path:  # one of the test's own: nobody sees its settings later
        knobs.write_value(knobs.queue_of(path) / "scheduler", "none")
        knobs.write_value(knobs.queue_of(path) / "read_ahead_kb", "4")
        yield path


def queue(device):
    return knobs.snapshot(knobs.queue_of(device))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.machine
@needs_root
def test_a_setting_that_truly_matters_is_found_and_confirmed(tmp_path, device):
    before = queue(device)
    code, out, err = ended("tune",
        "--device", device, "--scheduler", "none", "--tunables", "read_ahead_kb", "--tests", "read",
        "--minimise", "latency_ns_p50", "--buffered", "--records", "16k", "--seconds", "150ms",
        "--budget", "45s", "--seed", 1,
        "--out", "r", "--json",
    )  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    assert result["winner"]["read_ahead_kb"] > 4, result["headline"]
    assert " shorter than with none; proven the best on read 16" in result["headline"]
    assert result["commands"][0].startswith("apply: schedlab apply")
    assert queue(device) == before
    page = (tmp_path / "r/tune.html").read_text()
    assert result["headline"].split(":")[0] in page
    assert "describes the search" in page
    fresh = lines(tmp_path / "r/verdict/runs.jsonl")
    searched = lines(tmp_path / "r/search/runs.jsonl")
    assert {run["session"] for run in fresh}.isdisjoint({run["session"] for run in searched})


# A system call and which of them: SIGKILL as it begins, one kill after the other in one search.
KILLS = (("fsync", 6), ("renameat", 9), ("write", 60))


@pytest.mark.sampled(3)
@needs_root
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to kill at a system call")
def test_a_search_killed_again_and_again_leaves_the_host_as_it_was_and_resumes(tmp_path, device):
    before, words = queue(device), (
        "--device", device, "--scheduler", "none,bfq", "--tunables", "read_ahead_kb,slice_idle",
        "--tests", "read", "--seconds", "50ms", "--budget", "10s", "--seed", 2, "--out", "r",
    )  # fmt: skip
    runs, kept, killed = tmp_path / "r/search/runs.jsonl", "", 0
    for call, number in KILLS:
        strace = ("strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                  f"inject={call}:signal=SIGKILL:when={number}")  # fmt: skip
        code, _, err = ended("tune", *words, under=strace, start_new_session=True, timeout=WAIT_S)
        killed += code != 0
        assert code in (0, -signal.SIGKILL, 128 + signal.SIGKILL), err
        assert ended("recover")[0] == 0
        assert queue(device) == before, f"{call} {number}"
        assert (runs.read_text() if runs.exists() else "").startswith(kept), f"{call} {number}"
        kept = runs.read_text().rpartition("\n")[0] if runs.exists() else ""
        if (tmp_path / "r/tune.json").exists():
            words = ("--resume", "r")
    assert killed == len(KILLS)
    assert kept
    code, out, err = ended("tune", "--resume", "r", "--json", timeout=WAIT_S)
    assert code == 0, err
    assert runs.read_text().startswith(kept)
    asked = [record["block"] for record in lines(tmp_path / "r/trials.jsonl")]
    assert asked == list(range(len(asked)))
    assert json.loads(out)["trials"][0]["label"] == "none"
    assert queue(device) == before


@needs_root
def test_a_dry_run_changes_nothing_and_what_cannot_be_is_refused(tmp_path):
    small = ("--scratch", "16M", "--workloads", "readers", "--scheduler", "bfq")
    wanted = ("--space", "slice_idle=0..4", "--subject-to", "latency_ns_p99<5ms")
    shown = CliRunner().invoke(cli, ["tune", *small, "--dry-run", *wanted])
    assert shown.exit_code == 0, shown.output
    assert "slice_idle 0..4 ms" in shown.stdout
    assert "subject to: latency_ns_p99<5ms" in shown.stdout
    assert "rotational" not in shown.stdout  # only if it is named
    for words, message in (
        (("--maximise", "latency_ns_p99"), "--minimise"),
        (("--maximise", "startup_s"), "less is better"),
        (("--subject-to", "latency_ns_p99<5"), "has no unit"),
        (("--subject-to", "startup_s<5s"), "no workload measures startup_s"),
        (("--tunables", "nonsense"), "--space nonsense=LOW..HIGH"),
        (("--space", "x=9..1"), "not understood"),
        (("--resume", "nowhere"), "--scheduler, --scratch, --workloads would change nothing"),
        (None, "not a tune folder"),
    ):
        command = ["tune", *((*small, *words) if words else ("--resume", "nowhere")), "--dry-run"]
        with pytest.raises(SchedlabError) as refused:
            CliRunner().invoke(cli, command, standalone_mode=False, catch_exceptions=False)
        assert refused.value.exit_code == 2
        assert message in f"{refused.value}\n{refused.value.hint}"
    assert not (tmp_path / "results").exists()
