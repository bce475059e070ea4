"""Charts of CPU bursts: their pictures, and which run of a candidate is drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from golden import Golden

from schedlab.nouns import Candidate, Experiment, Plan, Record, Run, Stopping, Target, Workload
from schedlab.report.bursts import chart, charts, draw

MS = 1_000_000
# 870 ms on 870 pixels, from 70 on: process 2 lasts too short to be seen.
TIMELINE = [
    (0, 0, 200 * MS), (1, 200 * MS, 300 * MS), (0, 500 * MS, 240 * MS),
    (2, 739 * MS, 150_000), (1, 740 * MS, 130 * MS),
]  # fmt: skip
# 60 bins of a millisecond, 14.5 pixels each; the middles are 0.5, 2.5, 2.2, 15, 58.9 and 59.5 ms.
HISTOGRAM = [
    (0, MS, 3), (2 * MS, 3 * MS, 8), (2_200_000, 2_200_001, 4), (10 * MS, 20 * MS, 5),
    (58_400_000, 59_400_000, 2), (59_000_001, 59_999_999, 6),
]  # fmt: skip
PICTURES = {
    "bursts": ("4 ms & <more>", TIMELINE, HISTOGRAM),
    "no-processes": ("4 ms", [], HISTOGRAM),
    "no-length-at-all": ("4 ms", [], [(0, 0, 7)]),
    "nothing": ("4 ms", [], []),
    "colours-repeat": ("4 ms", [(number, number * MS, MS) for number in range(10)], []),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(name: str, golden: Golden) -> None:
    """120 pixels for the longest burst and for the most bursts; 870 for the time."""
    golden(f"bursts/{name}.svg", draw(*PICTURES[name]).replace("><", ">\n<"))


def run_of(candidate: str, block: int, status: Any, **raw: str) -> Run:
    return Run(block, 0, "work", candidate, 1, 0, status, "2026-01-01T00:00:00Z", 1.0, {}, raw=raw)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Runs of three candidates, with what was captured of each."""
    (tmp_path / "raw").mkdir()
    for number in range(4):
        burst = [[number, 0, 100 * MS]]
        raw = {"timeline": burst, "burst_ns": [[100, 200, number + 1]]}
        (tmp_path / "raw" / f"{number}.json").write_text(json.dumps(raw))
    (tmp_path / "raw" / "3.json").write_text(json.dumps({"timeline": [[3, 0, 100 * MS]]}))
    candidates = tuple(Candidate(label, {"policy": "rr"}) for label in ("1 ms", "4 ms", "9 ms"))
    experiment = Experiment(
        title="t", kind="cpu", target=Target("none"), candidates=candidates,
        workloads=(Workload("work", "calculation", "calculations"),), baseline="1 ms", seed=1,
        stopping=Stopping("fixed", 4),
    )  # fmt: skip
    runs = (
        run_of("1 ms", 0, "discarded", timeline="0.json"),
        run_of("9 ms", 0, "ok", timeline="3.json"),
        run_of("1 ms", 1, "ok"),
        run_of("1 ms", 2, "ok", timeline="2.json"),
        run_of("1 ms", 3, "ok", timeline="1.json"),
        run_of("4 ms", 0, "ok"),
    )
    return Record(experiment, Plan(()), runs)


def test_each_candidate_is_drawn_from_its_first_analysed_run(
    tmp_path: Path, record: Record
) -> None:
    drawn = charts(tmp_path, record)
    first = draw("1 ms", [(2, 0, 100 * MS)], [(100, 200, 3)])
    last = draw("9 ms", [(3, 0, 100 * MS)], [])
    assert drawn == {"bursts-0.svg": first, "bursts-2.svg": last}
    assert chart(tmp_path, record.runs[0]) == draw("1 ms", [(0, 0, 100 * MS)], [(100, 200, 1)])
