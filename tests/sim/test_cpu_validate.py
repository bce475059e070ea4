"""Measured schedules beside simulated ones: a file made from a simulation, and changed ones."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.cli.sim import sim
from schedlab.sim.cpu_validate import Agreement, CpuValidation

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


def test_a_file_of_another_kind_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("end_ns,duration_ns,task,preempted\n1,x,2,3\n")
    result = CliRunner().invoke(sim, ["cpu", "--validate", str(path)])
    assert result.exit_code != 0
    assert "other.csv:2" in f"{result.output}{result.exception}"
