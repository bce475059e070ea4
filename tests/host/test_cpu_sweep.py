"""Quanta as an experiment: merged requests, runs and flipped segments, tables, charts, costs."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from schedlab.app.measure.switch_cost import beside_measured, swept
from schedlab.cpu.policy import RR_KNOB
from schedlab.run.cpu.cpu_flip import WorkerSlices, at_one_speed

pytestmark = pytest.mark.alone  # its figures are CPU time

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the quantum of rr needs root")


def run(*arguments, code=0):
    result = subprocess.run(
        [sys.executable, "-m", "schedlab", "cpu", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == code, result.stderr
    return result


def in_turn(timeline, workers):
    """Bursts on one CPU come one after another, and together they are the workers' CPU time."""
    assert {row[0] for row in timeline} == {0, 1}
    spans = sorted((start, start + length) for _, start, length in timeline)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    for number, worker in enumerate(workers):
        total_s = sum(length for who, _, length in timeline if who == number) / 1e9
        assert total_s == pytest.approx(worker["cpu_burst_s"], rel=0.02)


@pytest.mark.machine
@needs_root
def test_a_sweep_stores_runs_with_both_quanta_bursts_and_charts(tmp_path):
    before = Path(RR_KNOB).read_text()
    out = tmp_path / "sweep"
    result = run(
        *("sweep", "--slices", "1,20", "--time", "300ms", "--repeat", "2", "--no-aa"),
        *("--seed", "7", "--out", str(out)),
    )
    assert Path(RR_KNOB).read_text() == before
    assert "Sums over the processes" in result.stdout
    assert "Counts and CPU bursts of every process" in result.stdout
    assert re.findall("^chart:    .*figures/(.*)$", result.stdout, re.M) == [
        "bursts-0.svg", "bursts-1.svg"
    ]  # fmt: skip
    runs = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
    ok = [each for each in runs if each["status"] == "ok"]
    assert len(ok) == 4
    for each in ok:
        properties, metrics = each["properties"], each["metrics"]
        asked, got = properties["requested_slice_ms"], properties["effective_slice_ms"]
        assert (asked, got >= asked) in [(1, True), (20, True)]
        assert properties["capture"] in ("bpf", "perf", "schedstat")
        assert properties["longest_wait_ms"] == got
        counted = sum(worker["calculations"] for worker in properties["workers"])
        assert metrics["calculations"] == counted > 0
        assert metrics["calculations_per_cpu_s"] == pytest.approx(counted / metrics["cpu_s"])
        raw = json.loads((out / "raw" / each["raw"]["burst_ns"]).read_text())
        if properties["capture"] != "schedstat":
            bursts = sum(worker["bursts"] for worker in properties["workers"])
            assert sum(count for *_, count in raw["burst_ns"]) == bursts
            in_turn(raw["timeline"], properties["workers"])
    for number in (0, 1):
        ElementTree.parse(out / "figures" / f"bursts-{number}.svg")
    page = (out / "report.html").read_text()
    assert page.count('src="data:image/svg+xml;base64,') == 2
    rows = beside_measured(swept(out), 2000.0, 500.0)
    assert [row["candidate"] for row in rows] == ["20 ms"]
    assert 0 < rows[0]["predicted"] < 0.003
    half = rows[0]["predicted"] / 4
    assert rows[0]["predicted_low"] == pytest.approx(rows[0]["predicted"] - half, rel=0.01)
    assert rows[0]["predicted_high"] == pytest.approx(rows[0]["predicted"] + half, rel=0.01)
    assert -0.5 < rows[0]["measured"] < 0.5


def test_a_slice_belongs_to_the_quantum_in_force_when_it_was_granted():
    ms = 1_000_000
    # (granted, calculations, cpu, plain calculations, their cpu): 4 ms slices, a flip at 100 ms.
    granted = [97, 101, 109, 117, 125]
    marks = [[at * ms, 20 * i, 4 * ms * i, 8 * i, 2 * ms * i] for i, at in enumerate(granted)]
    one = WorkerSlices(marks)
    assert one.between(100 * ms, 120 * ms, 4e6) == [60, 12 * ms, 24, 6 * ms]
    # Granted so near to the end of the cell that the flip may have come first: omitted.
    assert one.between(100 * ms, 117.5 * ms, 4e6) == [40, 8 * ms, 16, 4 * ms]
    # The last slice of the longer quantum continues after the flip and belongs to no cell.
    marks[2:] = [[at, count + 500, cpu + 96 * ms, *rest] for at, count, cpu, *rest in marks[2:]]
    assert one.between(100 * ms, 120 * ms, 4e6) == [40, 8 * ms, 16, 4 * ms]
    assert one.between(100 * ms, 120 * ms, 100e6) == [560, 108 * ms, 24, 6 * ms]


def test_rates_are_stated_at_the_speed_that_the_machine_had_in_the_first_cell():
    # Two workers; what they counted in the middle of a tick is twice as fast as with its switches.
    parts = [(100, 10**9, 60, 3 * 10**8), (400, 10**9, 240, 3 * 10**8)]
    metrics, facts = at_one_speed(parts, None)
    assert list(metrics.values()) == pytest.approx([200, 200])
    assert facts["speed_per_cpu_s"] == pytest.approx(400)
    assert [row["cpu_burst_s"] for row in facts["workers"]] == [1, 1]
    slower = [(count // 2, ns, plain // 2, plain_ns) for count, ns, plain, plain_ns in parts]
    assert list(at_one_speed(slower, 400.0)[0].values()) == pytest.approx([200, 100])


@pytest.mark.machine
@needs_root
def test_precision_flips_the_quantum_inside_one_run(tmp_path):
    before = Path(RR_KNOB).read_text()
    out = tmp_path / "flip"
    run(
        *("sweep", "--slices", "1,20", "--precision", "--budget", "2s", "--json"),
        *("--out", str(out)),
    )
    assert Path(RR_KNOB).read_text() == before
    runs = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
    ok = [each for each in runs if each["status"] == "ok"]
    assert len({each["block"] for each in ok}) >= 5
    for each in ok:
        workers = each["properties"]["workers"]
        assert all(worker["calculations"] > 0 for worker in workers)
        longest_s = 3 * 0.020 + 0.2 + each["elapsed_s"]
        assert sum(worker["cpu_burst_s"] for worker in workers) < longest_s
    answer = json.loads((out / "verdict.json").read_text())
    assert len(answer["counted"]) == 1 and answer["bound"] is not None


@needs_root
def test_a_dry_run_names_the_knob_and_sets_nothing(tmp_path, monkeypatch):
    before, state = Path(RR_KNOB).read_text(), tmp_path / "state"
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(state))
    result = run("sweep", "--slices", "1,100", "--repeat", "3", "--dry-run", "--no-aa")
    assert f"{RR_KNOB} = 100 ms" in result.stdout
    assert "6 runs" in result.stdout
    assert Path(RR_KNOB).read_text() == before
    assert not state.exists(), "no session was opened, so nothing was set meanwhile"


@needs_root
def test_one_quantum_is_nothing_to_compare():
    error = run("sweep", "--slices", "100,100.0", code=2).stderr
    assert "nothing to compare" in error


@pytest.mark.machine
def test_costs_are_measured_with_intervals():
    data = json.loads(run("cost", "--batches", "3", "--switches", "200", "--json").stdout)
    assert set(data["direct_ns"]) == {"pipe", "futex"}
    for direct in data["direct_ns"].values():
        assert 100 < direct["mean"] < 1e6
        assert direct["half_width"] >= 0
    sizes = [row["bytes"] for row in data["ladder"]]
    assert sizes == sorted(sizes)
    assert data["predicted_loss"]["1.0"] == pytest.approx(
        data["switch_ns"] / (1e6 + data["switch_ns"])
    )


@needs_root
def test_an_interrupted_sweep_names_the_command_that_goes_on_and_it_does(tmp_path):
    out = tmp_path / "cut"
    command = [sys.executable, "-m", "schedlab", "cpu", "sweep", "--slices", "1,20", "--no-aa"]
    command += ["--time", "300ms", "--repeat", "3", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs = out / "runs.jsonl"
    until = time.monotonic() + 60
    while not (runs.exists() and runs.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"schedlab run --resume {out}" in error
    measured = len(runs.read_text().splitlines())
    assert 0 < measured < 6
    result = run("sweep", "--resume", str(out))
    assert "Sums over the processes" in result.stdout
    ok = [json.loads(line)["status"] == "ok" for line in runs.read_text().splitlines()]
    assert sum(ok) == 6
