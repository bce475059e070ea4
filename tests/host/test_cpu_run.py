"""`schedlab cpu N TIME`: the specified lines, Ctrl-C, the death of the parent, refusals."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schedlab.cpu.policy import RR_KNOB

SCHEDLAB = [sys.executable, "-m", "schedlab"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="real-time policies need root")


def run(*arguments, code=0):
    result = subprocess.run(
        [*SCHEDLAB, "cpu", *arguments], check=False, capture_output=True, text=True
    )
    assert result.returncode == code, result.stderr
    return result


def wait_until(condition, seconds=15.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def children(pid):
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def is_running(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


@pytest.mark.machine
@pytest.mark.alone
def test_spec_lines_are_byte_for_byte_the_specified_ones():
    result = run("2", "350")
    assert "read as milliseconds" in result.stderr
    *epochs, first, second = result.stdout.splitlines()
    counted, shown_ms = {0: 0, 1: 0}, {0: 0, 1: 0}
    for line in epochs:
        number, count, ms = map(int, re.findall(r"\d+", line))
        assert line == f"PROCESS #{number} count = {count} time = {ms}"
        assert ms >= 100
        counted[number] += count
        shown_ms[number] += ms
    for number, line in enumerate((first, second)):
        _, total, ms = map(int, re.findall(r"\d+", line))
        assert line == f"PROCESS #{number} totalCount = {total} time = {ms}"
        assert counted[number] <= total
        assert max(350, shown_ms[number]) <= ms < 3000
    assert result.stdout.endswith("\n")


@pytest.mark.machine
@pytest.mark.alone
def test_sample_lines_are_cumulative_with_a_line_for_each_missed_epoch():
    result = run("1", "0.5", "--compat", "sample")
    assert "read as seconds" in result.stderr
    created, *epochs, last = result.stdout.splitlines()
    assert created == "Creating Process: #0"
    counts = []
    for line in epochs:
        count = int(re.fullmatch(r"PROCESS #00 count = (\d+) 100", line)[1])
        assert line == f"PROCESS #{0:02d} count = {count} 100"
        counts.append(count)
    assert len(counts) >= 5
    assert counts == sorted(counts)
    total, ms = map(int, re.fullmatch(r"DONE!! PROCESS #00 : (\d{6,}) (\d+)", last).groups())
    assert last == f"DONE!! PROCESS #{0:02d} : {total:06d} {ms}"
    assert ms >= 500
    assert total >= counts[-1]


@pytest.mark.alone
def test_json_lines_carry_counts_and_both_quanta():
    lines = [json.loads(line) for line in run("1", "120ms", "--json").stdout.splitlines()]
    assert [line["event"] for line in lines] == ["epoch", "total", "quantum"]
    assert lines[0]["total_count"] <= lines[1]["count"]
    assert lines[2]["policy"] == "other"
    assert all(line["schema"] == 1 for line in lines)


@pytest.mark.alone
def test_ctrl_c_prints_every_final_line_and_exits_130():
    process = subprocess.Popen(
        [*SCHEDLAB, "cpu", "3", "60s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    first = process.stdout.readline()
    assert first.startswith("PROCESS #")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert process.returncode == 130
    final = [line for line in output.splitlines() if "totalCount" in line]
    assert [line.split()[1] for line in final] == ["#0", "#1", "#2"]


def test_killing_the_parent_leaves_no_worker():
    process = subprocess.Popen(
        [*SCHEDLAB, "cpu", "2", "60s"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    process.stdout.readline()
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_running, workers)))


@pytest.mark.sampled(4)
@needs_root
@pytest.mark.parametrize("moment", range(20))
def test_killing_the_parent_at_any_moment_restores_the_quantum(moment):
    before = Path(RR_KNOB).read_text()
    asked = "7" if before.strip() != "7" else "9"
    command = [*SCHEDLAB, "cpu", "2", "60s", "--policy", "rr", "--slice", asked]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if moment % 2:  # before, while and after the knob is written; or from then on
        wait_until(lambda: Path(RR_KNOB).read_text().strip() == asked)
    time.sleep(random.Random(moment).uniform(0, 0.5))
    workers = children(process.pid)
    process.kill()
    process.wait()
    wait_until(lambda: Path(RR_KNOB).read_text() == before)
    wait_until(lambda: not any(map(is_running, workers)))
    assert Path(RR_KNOB).read_text() == before


@needs_root
def test_the_effective_quantum_is_the_kernels_not_the_sysctls():
    # 1 ms is less than a tick at HZ=250 and is rounded up; at HZ=1000 it is one tick.
    before = Path(RR_KNOB).read_text()
    lines = run("1", "50ms", "--policy", "rr", "--slice", "1", "--json").stdout.splitlines()
    quantum = json.loads(lines[-1])
    assert quantum["requested_ms"] == 1
    assert quantum["effective_ms"] in (1, 10 / 3, 4, 10)
    assert Path(RR_KNOB).read_text() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "deadline", "--cpu", "0"], ["EPERM", "root domain", "hint: ", "--cpuset"]),
        (["--cpu", "4000"], ["EINVAL", "no such CPU", "hint: choose from CPU"]),
    ],
)
def test_refusals_name_their_cause(arguments, words):
    if os.geteuid() != 0 and "deadline" in arguments:
        pytest.skip("DEADLINE needs root")
    if "deadline" in arguments and os.cpu_count() == 1:
        pytest.skip("one CPU is the whole root domain")
    error = run("1", "50ms", *arguments, code=2).stderr
    assert all(word in error for word in words), error


@needs_root
def test_a_real_time_policy_in_a_group_without_bandwidth_says_so():
    root = Path("/sys/fs/cgroup/cpu")
    if not (root / "cpu.rt_runtime_us").exists():
        pytest.skip("no v1 cpu controller with RT_GROUP_SCHED")
    group = root / f"schedlab-test-{os.getpid()}:rt"
    group.mkdir()
    try:
        enter = f"echo 0 > {group}/cgroup.procs; exec {' '.join(SCHEDLAB)} cpu 1 50ms --policy rr"
        result = subprocess.run(["sh", "-c", enter], check=False, capture_output=True, text=True)
    finally:
        group.rmdir()
    assert result.returncode == 2
    assert "cpu.rt_runtime_us = 0" in result.stderr
    assert f"> {group}/cpu.rt_runtime_us" in result.stderr
