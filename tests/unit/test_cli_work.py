"""Commands that do a small piece of work, or plan a large one: figures, keys, exit codes."""

import json
import os
import re
from pathlib import Path

import pytest
from calls import document, refused, run
from click.testing import CliRunner
from loops import needs_root

from schedlab.app.trace.command import trace_command
from schedlab.cli import cli
from schedlab.host.devices import with_queues


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def disks():
    """Devices that no other test makes or removes meanwhile."""
    return [name for name in map(str, with_queues()) if "loop" not in name]


def test_queues_are_listed_by_device_and_as_json():
    names = disks()
    if not names:
        pytest.skip("needs a disk with a scheduler")
    got, offered = (document("io", word, *names)["devices"] for word in ("get", "list"))
    assert list(got) == list(offered) == [Path(name).name for name in names]
    for name, facts in got.items():
        assert set(facts) == {"scheduler", "tunables"}
        assert facts["scheduler"] in offered[name]
    assert run("io", "get", *names).stdout.splitlines() == [
        f"{name}:\t{facts['scheduler']}" for name, facts in got.items()
    ]
    assert run("io", "list", *names).stdout.splitlines() == [
        f"{name}:\t{' '.join(each)}" for name, each in offered.items()
    ]


@pytest.mark.parametrize("word", ["get", "list"])
def test_without_names_all_disks_are_listed(word):
    for _ in range(9):  # a loop device of another test may go while all are read
        done = CliRunner().invoke(cli, ["io", word])
        if done.exit_code == 0:
            break
    listed = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert {Path(name).name for name in disks()} <= set(listed)


def test_where_nothing_is_changed_nothing_is_shown(tmp_path):
    assert document("status", "--root", tmp_path) == {"applied": []}
    assert run("status", "--root", tmp_path).stdout == "nothing is applied\n"
    assert run("undo", "--all", "--json").stdout == '{\n "schema": 1,\n "undone": []\n}\n'
    assert run("undo", "--all").stdout == "undone: nothing\n"
    lists = ("restored", "foreign", "removed", "failed", "notices", "cleanups", "refused")
    for dry_run in (False, True):
        words = ["recover", "--dry-run"] if dry_run else ["recover"]
        assert document(*words) == {**{name: [] for name in lists}, "dry_run": dry_run}
        assert run(*words).stdout == "nothing to restore\n"
    assert document("device", "list") == {"devices": []}
    assert run("device", "list").stdout == "no emulated device is up\n"
    assert run("device", "down", "--all").stdout == ""


def test_doctor_looks_up_the_quanta_that_are_asked():
    shown = run("doctor", "--quanta", "1, 30", "--json").stdout
    assert shown.startswith('{\n  "schema": 1,\n  "facts": [\n')
    facts = json.loads(shown)["facts"]
    assert set(facts[0]) == {"topic", "found", "follows", "command"}
    lines = run("doctor", "--quanta", "1, 30").stdout.splitlines()
    again = document("doctor", "--quanta", "1, 30")["facts"]
    alike = [fact for fact in facts if fact in again and "loop" not in fact["topic"]]
    assert any(fact["command"] for fact in alike)
    for fact in alike:  # devices of other tests and free memory may be others by now
        command = f"  [{fact['command']}]" if fact["command"] else ""
        assert f"{fact['topic']}: {fact['found']}; {fact['follows']}{command}" in lines
    found = next(fact["follows"] for fact in facts if fact["topic"] == "HZ")
    assert re.search("quanta in ms become 1->[0-9.]+, 30->[0-9.]+$", found)
    default = document("doctor", "--quanta", ",")["facts"]
    assert "100->100" in next(fact["follows"] for fact in default if fact["topic"] == "HZ")


def test_a_trace_of_a_command_ends_with_its_status_and_writes_its_bursts():
    words = ["trace", "cpu", "--method", "schedstat"]
    done = run(*words, "--out", "b.csv", "sh", "-c", "exit 3", code=3)
    assert done.stdout.startswith("method: schedstat")
    assert Path("b.csv").read_text().startswith("end_ns,duration_ns,task,preempted\n")
    found = json.loads(run(*words, "--json", "true").stdout)
    assert found["method"] == "schedstat"
    run(*words, "sh", "-c", "kill -9 $$", code=137)
    Path("odd").write_bytes(b"\0")
    Path("odd").chmod(0o755)
    message, hint = refused(trace_command, ["./odd"], "schedstat", 1 << 20)
    assert message.startswith(f"cannot execute {Path('odd').resolve()}: Exec format error")
    assert hint.startswith("file ")


@pytest.mark.sampled(2)
def test_a_switch_costs_what_is_predicted_for_the_quanta_that_are_asked():
    if os.geteuid() != 0:
        pytest.skip("needs root: it measures at real-time priority")
    cpu = min(os.sched_getaffinity(0))
    words = ["cpu", "cost", "--batches", 3, "--switches", 20, "--cpu", cpu]
    found = document(*words, "--slices", "2,50")
    assert found["cpu"] == cpu
    text = run(*words, "--slices", "2,50").stdout
    assert text.startswith(f"context switches on CPU {cpu}, mean of 3 batches")
    assert text.count("quantum ") == 2 and "     50 ms" in text


def test_calculations_are_counted_and_json_is_a_line_per_event():
    events = [json.loads(line) for line in run("cpu", 1, "20ms", "--json").stdout.splitlines()]
    assert [each["event"] for each in events][:2] == ["total", "quantum"]
    assert {each["schema"] for each in events} == {1}
    done = run("cpu", "run", 1, "20ms")
    assert done.stdout.startswith("PROCESS #0 totalCount = ")
    assert "calculations per CPU second" in done.stderr


def planned(*words):
    """(text, JSON) of a dry run."""
    text = run(*words, "--dry-run").stdout
    assert not text.startswith("{")
    return text, document(*words, "--dry-run")


def made():
    return {path.name for path in Path().iterdir()} - {"state"}


@needs_root
def test_what_would_be_compared_is_shown():
    text, found = planned("compare", "--schedulers", "none", "--tests", "read", "--blocks", 3)
    assert "3 blocks" in text
    assert found["experiment"]["candidates"][0]["label"] == "none"
    assert found["experiment"]["stopping"]["blocks"] == 3
    assert made() == set()


@needs_root
def test_what_would_be_tuned_is_shown():
    text, found = planned("tune", "--scheduler", "bfq", "--tests", "read", "--budget", "12m")
    assert text.splitlines()[1].startswith("12 min: ")
    assert set(found) == {"experiment", "asked"}
    assert made() == set()


@needs_root
def test_what_would_be_swept_is_shown():
    sizes = ["--block-sizes", "4k,64k", "--modes", "sync", "--bytes", "1M", "--blocks", 2]
    text, found = planned("io", "sweep", *sizes)
    assert "2 blocks" in text
    assert found["experiment"]["stopping"]["blocks"] == 2
    works = [each["parameters"] for each in found["experiment"]["workloads"]]
    assert [each["block_bytes"] for each in works] == [4096, 65536]
    assert {(each["total_bytes"], each["direction"]) for each in works} == {(1 << 20, "write")}


def test_what_would_be_compared_on_the_cpu_is_shown():
    text, found = planned("cpu", "compare", "--policies", "other,batch", "--blocks", 4)
    assert "in 4 blocks" in text
    labels = [each["label"] for each in found["experiment"]["candidates"]]
    assert labels[:2] == ["other", "batch"]
    text, found = planned("cpu", "sweep", "--slices", "1,20", "--time", "2s", "--repeat", 3)
    assert text.startswith("Quantum of rr, 2 processes, 2 s a run\n") and "in 3 blocks" in text
    assert made() == set()
