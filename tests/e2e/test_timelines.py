"""Traces as timelines: what the definitions of Perfetto and babeltrace2 read are our requests.

Perfetto's own trace processor is a program that its package downloads; where it is not there, the
packets are read by the package's definitions of them.
"""

import collections
import json
import re
import shutil
import subprocess

import pytest
from click.testing import CliRunner

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


def test_a_perfetto_trace_has_every_stage_of_every_request(log, tmp_path):
    trace = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    path, rows = log
    call("trace", "convert", path, tmp_path / "out", "--to", "perfetto")
    read = trace.Trace()
    read.ParseFromString((tmp_path / "out").read_bytes())
    threads, opened, slices = set(), {}, collections.defaultdict(list)
    for packet in read.packet:
        if packet.HasField("track_descriptor"):
            threads.add(packet.track_descriptor.thread.thread_name)
            continue
        event = packet.track_event
        if event.type == trace.TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in opened, "slices of a lane overlap"
            opened[event.track_uuid] = (packet.timestamp, event.categories[0])
        else:
            start, stage = opened.pop(event.track_uuid)
            slices[stage].append(packet.timestamp - start)
    assert not opened
    assert {stage: (len(each), sum(each)) for stage, each in slices.items()} == spans(rows)
    assert threads - {""} == {row["process"] for row in rows}


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
