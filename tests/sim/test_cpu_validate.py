"""Measured schedules beside simulated ones: a file made from a simulation, and changed ones."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from schedlab.store.bursts import Burst, Scheduling, as_csv
from schedlab_sim.cli.sim import sim
from schedlab_sim.cpu_schedule import simulate
from schedlab_sim.cpu_validate import Agreement, CpuValidation

RR = ("--policy", "rr", "--quantum", "4ms", "--hz", "250")


def bursts(tmp_path: Path, change_ns: int = 0, preempted: int = 1, gap_ns: int = 0) -> Path:
    """Three tasks of 40 ms in turns of 4 ms, the first one `change_ns` longer in each turn."""
    now_ns, left, rows = 5_000, [40_000_000] * 3, []
    while any(left):
        for task in range(3):
            stay = min(left[task], 4_000_000 + (change_ns if task == 0 else 0))
            if stay:
                now_ns += stay
                left[task] -= stay
                rows.append(f"{now_ns},{stay},{task + 70},{preempted if left[task] else 0}")
                now_ns += gap_ns
    path = tmp_path / "bursts.csv"
    path.write_text("\n".join(["end_ns,duration_ns,task,preempted", *rows]) + "\n")
    return path


def validate(*arguments: str) -> tuple[int, dict[str, object]]:
    result = CliRunner().invoke(sim, ["cpu", *arguments, "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_schedule_agrees_with_itself(tmp_path: Path) -> None:
    code, report = validate(*RR, "--validate", str(bursts(tmp_path)))
    assert (code, report["accepted"], report["common_prefix"]) == (0, True, 30)
    assert all(row["measured"] == row["simulated"] for row in report["comparisons"])
    result = CliRunner().invoke(sim, ["cpu", *RR, "--validate", str(bursts(tmp_path))])
    assert result.output.splitlines()[-1] == "accepted: yes"
    assert max(map(len, result.output.splitlines())) <= 80


def test_other_shares_and_other_quanta_are_seen(tmp_path: Path) -> None:
    code, report = validate(*RR, "--validate", str(bursts(tmp_path, change_ns=1_000_000)))
    assert (code, report["accepted"]) == (1, False)
    far = [row["name"] for row in report["comparisons"] if row["is_close"] is False]
    assert "share of 70" in far
    longer = ("--policy", "rr", "--quantum", "20ms", "--hz", "250")
    code, report = validate(*longer, "--validate", str(bursts(tmp_path)))
    far = [row["name"] for row in report["comparisons"] if row["is_close"] is False]
    assert code == 1 and {"median stay, ms", "involuntary switches"} <= set(far)
    (demerit,) = [r for r in report["comparisons"] if r["name"].startswith("demerit of stays")]
    assert demerit["simulated"] > 10


def test_what_is_not_judged_is_not_accepted_though_every_figure_agrees() -> None:
    """Where others had the CPU, that the rest is alike shows nothing of the policy."""
    alike = Agreement("share of 1", 0.5, 0.5, "1 point", True)
    judged = CpuValidation("rr", 2, (alike,), 10, "")
    assert judged.is_accepted
    assert not replace(judged, not_judged="others had the CPU for 3.0% of the time").is_accepted
    assert not replace(judged, comparisons=(alike, replace(alike, is_close=False))).is_accepted


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"preempted": 0}, "slept"), ({"gap_ns": 400_000}, "others had the CPU")],
)
def test_sleepers_and_steal_are_not_judged(
    tmp_path: Path, change: dict[str, int], reason: str
) -> None:
    code, report = validate(*RR, "--validate", str(bursts(tmp_path, **change)))
    assert code == 1 and reason in str(report["not_judged"])


def test_a_parent_that_waits_for_its_children_does_not_hinder_the_judgement(
    tmp_path: Path,
) -> None:
    path = bursts(tmp_path)
    # A shell: 0.9 ms before its children, and 0.1 ms each time that one of them ends.
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    later = [f"{int(end) + 1_000_000},{length},{task},{pre}" for end, length, task, pre in rows]
    end_ns = int(rows[-1][0]) + 1_000_000
    shell = [
        "905000,900000,7,0",
        f"{end_ns + 200_000},100000,7,0",
        f"{end_ns + 400_000},100000,7,0",
    ]
    path.write_text("\n".join(["end_ns,duration_ns,task,preempted", *shell, *later]) + "\n")
    code, report = validate(*RR, "--validate", str(path))
    assert (code, report["not_judged"], report["tasks"], report["common_prefix"]) == (0, "", 3, 30)
    # One that takes 3 % of the time is a task.
    shell[0] = "905000,4000000,7,0"
    path.write_text("\n".join(["end_ns,duration_ns,task,preempted", *shell, *later]) + "\n")
    assert "task 7 slept" in str(validate(*RR, "--validate", str(path))[1]["not_judged"])


MS = 1_000_000
# A shell that starts two and waits, and one that wakes every 20 ms with a slice of its own.
MIXED = [
    {"name": "1", "bursts": [2 * MS, 180 * MS, MS]},
    {"name": "2", "arrival": MS, "bursts": [80 * MS], "nice": 3},
    {"name": "3", "arrival": 2 * MS, "bursts": [100 * MS]},
    {"name": "4", "bursts": [MS, 19 * MS] * 12 + [MS], "nice": -4, "slice": 500_000},
]


def as_traced(tmp_path: Path, **changes: Callable[[Burst, int], int]) -> Path:
    """The simulated schedule of `MIXED` as BPF would have traced it; `changes` of each burst's
    scheduling by name.
    """
    settings = {"policy": "eevdf", "kernel": "6.12", "eevdf": {"slice": 1_400_000}}
    result = simulate(MIXED, settings)
    rows = []
    woken = {row: task["arrival_ns"] for row, task in enumerate(result["tasks"])}
    for segment in [s for s in result["segments"] if "task" in s]:
        row, end_ns = segment["task"], segment["end_ns"]
        own, sleeps = MIXED[row], dict(result["tasks"][row]["io"])
        ended = end_ns == result["tasks"][row]["finish_ns"] or end_ns in sleeps
        slice_ns = int(own.get("slice", 1_400_000))
        # A time of 0 is none: the clock of a kernel has gone on for a while.
        at = Scheduling(
            1, 77 + woken[row] if row in woken else 0, 0, int(own.get("nice", 0)), slice_ns
        )
        burst = Burst(77 + end_ns, end_ns - segment["start_ns"], row + 1, not ended, at)
        of = {key: change(burst, getattr(at, key)) for key, change in changes.items()}
        rows.append(burst._replace(scheduling=at._replace(**of)))
        woken.pop(row, None)
        if end_ns in sleeps:
            woken[row] = sleeps[end_ns]
    path = tmp_path / "traced.csv"
    path.write_text(as_csv(rows))
    return path


EEVDF = ("--policy", "eevdf", "--kernel", "6.12")


def test_nice_slices_and_wake_ups_of_a_trace_are_simulated(tmp_path: Path) -> None:
    """All that decides a schedule is in the file: the simulation is the same to the nanosecond."""
    code, report = validate(*EEVDF, "--validate", str(as_traced(tmp_path)))
    assert (code, report["accepted"], report["tasks"]) == (0, True, 4)
    rows = [row for row in report["comparisons"] if not row["name"].startswith("demerit")]
    assert all(row["measured"] == row["simulated"] for row in rows)
    names = [row["name"] for row in rows]
    assert names[:3] == ["share of 2", "share of 3", "share of 4"]  # the shell hardly ran
    assert "median wait after a sleep, ms" in names
    path = tmp_path / "three.csv"
    traced = as_traced(tmp_path).read_text().splitlines()
    path.write_text("\n".join(row for row in traced if row.split(",")[2] != "4"))
    assert validate(*EEVDF, "--validate", str(path))[1]["tasks"] == 3  # the shell is one of them
    # An option is stronger than the file.
    code, report = validate(
        *EEVDF, "--set", "eevdf.slice=6ms", "--validate", str(as_traced(tmp_path))
    )
    assert (code, report["not_judged"]) == (1, "")
    same = as_traced(tmp_path, nice=lambda *_: 0)
    code, report = validate(*EEVDF, "--validate", str(same))
    assert "share of 2" in [r["name"] for r in report["comparisons"] if r["is_close"] is False]
    idle = as_traced(tmp_path, policy=lambda burst, _: 5 if burst.task == 2 else 0)
    code, report = validate(*EEVDF, "--validate", str(idle))
    (share,) = [r["simulated"] for r in report["comparisons"] if r["name"] == "share of 2"]
    assert share < 0.02


def test_an_option_that_a_validation_does_not_heed_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(sim, ["cpu", "--tasks", "A:0:1", "--validate", "x.csv"])
    assert "--tasks would change nothing" in str(result.exception)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"cpu": lambda burst, _: burst.task % 2},
            "ran on CPUs 0, 1: start them with taskset -c 0",
        ),
        ({"nice": lambda burst, nice: nice + burst.end_ns // MS % 2}, "changed its policy, nice"),
        ({"woken_ns": lambda burst, woken: 0 if burst.task == 4 else woken}, "task 4 slept"),
        ({"woken_ns": lambda burst, woken: woken and woken - 4 * MS}, "others had the CPU for"),
    ],
)
def test_a_trace_that_the_model_does_not_describe_is_not_judged(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    code, report = validate(*EEVDF, "--validate", str(as_traced(tmp_path, **changes)))
    assert code == 1 and reason in str(report["not_judged"])


def test_a_file_of_another_kind_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("end_ns,duration_ns,task,preempted\n1,x,2,3\n")
    result = CliRunner().invoke(sim, ["cpu", "--validate", str(path)])
    assert result.exit_code != 0
    assert "other.csv:2" in f"{result.output}{result.exception}"
