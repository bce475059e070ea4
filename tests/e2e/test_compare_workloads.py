"""The kinds of I/O workloads on a real scratch device, from the command line."""

import json

import pytest
from loops import needs_root
from processes import ended

pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def compare(tmp_path, *words):
    return ended(
        "compare", "--scratch", "64M", "--scratch-directory", tmp_path, "--schedulers", "none,bfq",
        "--blocks", 1, "--out", "r", "--json", *words,
    )  # fmt: skip


def stored(tmp_path):
    return [json.loads(line) for line in (tmp_path / "r/runs.jsonl").read_text().splitlines()]


@pytest.mark.sampled(3)
@needs_root
@pytest.mark.parametrize("program", [None, "gzip --version"])
def test_the_start_of_a_program_is_timed_beside_readers_and_writers(tmp_path, program):
    options = ["--program", program] if program else []
    code, out, err = compare(tmp_path, "--workloads", "startup", *options)
    assert code == 0, err
    assert {row["workload"] for row in json.loads(out)["rows"]} == {
        "start-up alone",
        "start-up beside readers and writers",
    }
    for run in stored(tmp_path):
        assert run["metrics"]["startup_s"] > 0
        if "beside" in run["workload"]:
            assert run["metrics"]["read_bytes_per_s"] > 0
            assert run["metrics"]["write_bytes_per_s"] > 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("schedlab")] == []


@needs_root
def test_a_program_that_is_not_installed_is_named(tmp_path):
    words = ("--workloads", "startup", "--program", "no-such-program")
    code, _, err = compare(tmp_path, *words)
    assert code == 2
    assert "no-such-program" in err
    assert "hint: " in err


@pytest.mark.sampled(3)
@needs_root
def test_a_sweep_ends_in_a_knee_and_a_report(tmp_path):
    code, out, err = ended(
        "io", "sweep", "--scratch", "16M", "--scratch-directory", tmp_path, "--bytes", "256k",
        "--block-sizes", "512,4k,16k,64k,256k", "--modes", "sync,direct", "--blocks", 2,
        "--out", "r", "--json",
    )  # fmt: skip
    assert code == 0, err
    answer = json.loads(out)
    assert {path.name for path in (tmp_path / "r").iterdir()} >= {
        "experiment.toml", "runs.jsonl", "report.html", "report.xlsx", "verdict.json",
    }  # fmt: skip
    assert len({row["workload"] for row in answer["rows"]}) == 5
    assert {knee["candidate"] for knee in answer["knees"]} == {"sync", "direct"}


@needs_root
@pytest.mark.alone
@pytest.mark.machine
def test_a_sweep_finds_what_a_call_costs(tmp_path):
    """On a device that takes 2 ms for each request of any size."""
    model = tmp_path / "fixed.toml"
    model.write_text("model = 'fixed'\nservice = '2ms'\nservers = 1\nsize = '64m'\n")
    code, out, err = ended(
        "io", "sweep", "--model", model, "--bytes", "256k", "--block-sizes", "4k,16k,64k,256k",
        "--modes", "direct", "--blocks", 3, "--out", "r", "--json",
    )  # fmt: skip
    assert code == 0, err
    costs = [flag for flag in json.loads(out)["flags"] if flag["kind"] == "call-cost"]
    assert [cost["candidates"] for cost in costs] == [["direct"]]
    assert costs[0]["values"]["seconds_per_call"] == pytest.approx(2e-3, rel=0.1)
