"""Commands that set and watch real devices: what they print, where, and with which exit code."""

import json
from pathlib import Path

import pytest
from calls import call, document, run

from schedlab.host.settings import knobs


@pytest.fixture
def device(state, new_loop):
    """The name of a loop device of 16 MiB, with `none`."""
    name = Path(new_loop()).name
    knobs.write_value(knobs.scheduler_file(name), "none")
    return name


def scheduler(device):
    return knobs.read_value(knobs.scheduler_file(device))


def test_apply_prints_its_plan_what_it_did_and_how_to_undo_it(device, tmp_path):
    words = ["apply", "mq-deadline", device, "--set", "fifo_batch=8", "--root", tmp_path]
    planned = run(*words, "--dry-run")
    assert "fifo_batch" in planned.stdout and scheduler(device) == "none"
    done = run(*words)
    setting, undone = done.stdout.splitlines()
    assert setting.startswith(f"{device}: mq-deadline")
    assert setting.endswith(", until the next reboot")
    assert undone == f"undo: schedlab undo {device}"
    assert scheduler(device) == "mq-deadline"
    (status,) = document("status", "--root", tmp_path)["applied"]
    assert device in json.dumps(status)
    assert device in run("status", "--root", tmp_path).stdout
    assert run("undo", device).stdout == f"undone: {device}\n"
    assert scheduler(device) == "none"


def test_apply_as_json_is_what_status_shows(device, tmp_path):
    (record,) = document("apply", "mq-deadline", device, "--root", tmp_path)["applied"]
    assert (record["device"], record["files"]) == (device, {})
    assert document("undo", "--all") == {"undone": [device]}
    assert document("undo", "--all") == {"undone": []}


def test_get_and_list_have_their_forms(device):
    assert run("io", "get", device).stdout == f"{device}:\tnone\n"
    offered = run("io", "list", f"/dev/{device}").stdout
    assert offered == f"{device}:\t{' '.join(knobs.offered(device))}\n" and "[" not in offered
    assert f"{device}:\tnone\n" in run("io", "get").stdout
    assert document("io", "get", device)["devices"][device]["scheduler"] == "none"
    assert "none" in document("io", "list", device)["devices"][device]


def test_set_stays_and_says_how_to_take_it_back(device):
    queue = knobs.queue_of(device)
    knobs.write_value(queue / "scheduler", "mq-deadline")
    knobs.write_value(queue / "iosched/fifo_batch", "7")
    before = knobs.snapshot(queue)
    done = run("io", "set", "bfq:low_latency=0", device)
    assert done.stdout == f"{device}:\tmq-deadline -> bfq\n"
    assert knobs.tunables(queue)["low_latency"] == "0"
    line = done.stderr.splitlines()[-1]
    assert line == f"undo: schedlab io set mq-deadline:fifo_batch=7 {device}"
    run(*line.split()[2:])
    assert knobs.snapshot(queue) == before
    facts = document("io", "set", "none", device)["devices"][device]
    assert (facts["before"], facts["after"]) == ("mq-deadline", "none")


@pytest.mark.parametrize(
    "words", [("nosuch", ""), ("bfq:low_latency=9", ""), ("bfq", "", "nosuch"), ("bfq",)]
)
def test_set_changes_nothing_when_something_is_wrong(device, words):
    before = knobs.snapshot(knobs.queue_of(device))
    assert call("io", "set", *(word or device for word in words))[0] == 2
    assert knobs.snapshot(knobs.queue_of(device)) == before
