"""Traces as timelines: what Perfetto's trace processor and babeltrace2 find are our requests."""

import collections
import json
import re
import shutil
import subprocess
from contextlib import closing

import pytest
from click.testing import CliRunner
from trace_processor import TraceProcessor

from schedlab.cli import cli

SIM = ["sim", "run", "--device", "nvme", "--scheduler", "bfq", "--processes", "reader-writers",
       "--seconds", "0.1", "--seeds", "1"]  # fmt: skip


def call(*words):
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """(file of simulated requests, its rows as dictionaries)."""
    path = tmp_path_factory.mktemp("log") / "s.csv"
    call(*SIM, "--log", path)
    head, *lines = path.read_text().splitlines()
    return path, [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]


def spans(rows):
    """Stage: (number of requests that were in it, their time there in ns)."""
    times = ("arrival_ns", "inserted_ns", "dispatched_ns", "completed_ns")
    found = {}
    for stage, (start, end) in {"tag": times[:2], "scheduler": times[1:3], "device": times[2:],
                                "request": (times[0], times[3])}.items():  # fmt: skip
        lengths = [int(row[end]) - int(row[start]) for row in rows]
        kept = [length for length in lengths if length or stage in ("device", "request")]
        if kept:
            found[stage] = (len(kept), sum(kept))
    return found


STAGES = """
    select category, count(*), sum(dur), min(device.name) from slice
    join track on track.id = track_id left join track stage on stage.id = track.parent_id
    left join track device on device.id = stage.parent_id group by category"""
THREADS = """
    select thread.name thread, process.name process, ts, dur, slice.name operation,
        extract_arg(slice.arg_set_id, 'debug.offset'), extract_arg(slice.arg_set_id, 'debug.bytes')
    from slice join thread_track on thread_track.id = track_id
    join thread using (utid) join process using (upid)"""
DEVICES = """
    select device.name device, extract_arg(slice.arg_set_id, 'debug.device'), ts, dur,
        slice.name operation
    from slice join track on track.id = track_id join track stage on stage.id = track.parent_id
    join track device on device.id = stage.parent_id"""


def test_the_trace_processor_of_perfetto_finds_every_stage_of_every_request(log, tmp_path):
    path, rows = log
    call("trace", "convert", path, tmp_path / "out", "--to", "perfetto")
    with closing(TraceProcessor(tmp_path / "out")) as processor:
        stages, threads = processor.query(STAGES), processor.query(THREADS)
    assert {stage: (count, ns) for stage, count, ns, _ in stages} == spans(rows)
    assert {stage: device for stage, _, _, device in stages} == dict.fromkeys(
        spans(rows), "device bfq reader-writers 1"
    ) | {"request": None}
    first = min(int(row["arrival_ns"]) for row in rows)
    assert sorted(threads) == sorted(
        (
            *(row["process"], row["process"], int(row["arrival_ns"]) - first),
            int(row["completed_ns"]) - int(row["arrival_ns"]),
            *(row["operation"], int(row["sector"]) * 512, int(row["sectors"]) * 512),
        )
        for row in rows
    )


TWO_DISKS = """\
128166372003061629,hm,0,Read,0,4096,1000
128166372003061629,hm,1,Write,4096,8192,2000
128166372003061729,hm,1,Read,8192,4096,3000
"""


def test_requests_of_unknown_processes_are_under_their_devices_and_not_the_idle_task(tmp_path):
    (tmp_path / "t.csv").write_text(TWO_DISKS)
    call("trace", "convert", f"{tmp_path / 't.csv'}:msr", tmp_path / "out", "--to", "perfetto")
    with closing(TraceProcessor(tmp_path / "out")) as processor:
        assert not processor.query(THREADS)
        assert sorted(processor.query(DEVICES)) == [
            ("device hm.0", "hm.0", 0, 100_000, "read"),
            ("device hm.1", "hm.1", 0, 200_000, "write"),
            ("device hm.1", "hm.1", 10_000, 300_000, "read"),
        ]


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="not installed: babeltrace2")
def test_a_ctf_trace_has_every_event_in_the_order_of_time(log, tmp_path):
    path, rows = log
    call("trace", "convert", path, tmp_path / "out", "--to", "ctf")
    words = ["babeltrace2", "--clock-cycles", str(tmp_path / "out")]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    counts, times, last = collections.Counter(), collections.Counter(), -1
    for line in lines:
        at, name = re.match(r"\[(\d+)\] .*?(block_\w+): ", line).groups()
        assert int(at) >= last
        last = int(at)
        counts[name] += 1
        times[name] += last
    assert counts["block_bio_queue"] == counts["block_rq_complete"] == len(rows)
    took = spans(rows)["request"][1]
    assert times["block_rq_complete"] - times["block_bio_queue"] == took
    assert times["block_rq_complete"] - times["block_rq_issue"] == spans(rows)["device"][1]
    assert {re.search(r'comm = "(.*?)"', line)[1] for line in lines} == {
        row["process"] for row in rows
    }
    summary = json.loads(call("trace", "stats", path, "--json"))
    assert (summary["format"], summary["summary"]["requests"]) == ("sim-log", len(rows))
