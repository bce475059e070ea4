"""Charts of CPU bursts, read back from their pictures: where everything is, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from schedlab.report.bursts import chart, charts, draw
from schedlab.report.drawing import COLOURS
from schedlab.spec import Candidate, Experiment, Plan, Record, Run, Stopping, Target, Workload

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
BLUE, ORANGE, GREEN = COLOURS[:3]
Words = list[tuple[str, float, float, float, str]]


def picture(svg: str) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """The attributes of the whole, and what is drawn by its kind, in order."""
    assert svg.endswith("</svg>\n")
    root = ElementTree.fromstring(svg)
    drawn: dict[str, list[Any]] = {name: [] for name in ("title", "text", "rect", "circle", "line")}
    for each in root:
        at, inside = dict(each.attrib), each.find("*")
        kind = each.tag.rpartition("}")[2]
        if kind == "text":
            place = (float(at["x"]), float(at["y"]), float(at["font-size"]), at["text-anchor"])
            drawn[kind].append((each.text, *place))
        elif kind == "rect" and inside is not None:
            sides = [float(at[name]) for name in ("x", "y", "width", "height")]
            drawn[kind].append((*sides, at["fill"], inside.text))
        elif kind == "circle":
            assert at["r"] == "2.2"
            drawn[kind].append((float(at["cx"]), float(at["cy"]), at["fill"]))
        elif kind == "line":
            ends = [float(at[name]) for name in ("x1", "y1", "x2", "y2")]
            drawn[kind].append((*ends, at["stroke"]))
        elif kind == "title":
            drawn[kind].append(each.text)
        else:
            assert at == {"width": "100%", "height": "100%", "fill": "white"}
    return dict(root.attrib), drawn


def test_every_word_is_in_its_place() -> None:
    whole, drawn = picture(draw("4 ms & <more>", TIMELINE, HISTOGRAM))
    assert whole == {
        "viewBox": "0 0 960 548", "width": "960", "height": "548", "role": "img",
        "font-family": "sans-serif",
    }  # fmt: skip
    assert drawn["title"] == ["4 ms & <more>"]
    words: Words = [
        ("4 ms & <more>: CPU bursts of the first 0.87 s", 70, 22, 15, "start"),
        ("process 0", 4, 56, 11, "start"),
        ("process 1", 4, 82, 11, "start"),
        ("process 2", 4, 108, 11, "start"),
        ("0 s", 70, 134, 11, "start"),
        ("0.87 s", 940, 134, 11, "end"),
        ("length of each burst over time", 70, 170, 13, "start"),
        ("300.0 ms", 64, 188, 11, "end"),
        ("0", 64, 308, 11, "end"),
        ("0 s", 70, 324, 11, "start"),
        ("0.87 s", 940, 324, 11, "end"),
        ("number of bursts by length, whole run", 70, 360, 13, "start"),
        ("12", 64, 382, 11, "end"),
        ("0 ms", 70, 514, 11, "start"),
        ("60.0 ms", 940, 514, 11, "end"),
    ]
    assert drawn["text"] == words
    assert drawn["line"] == [(70, y, 940, y, "#444") for y in (118, 308, 498)]


def test_bursts_are_as_long_as_they_lasted() -> None:
    _, drawn = picture(draw("4 ms", TIMELINE, []))
    assert drawn["rect"] == [
        (70, 40, 200, 20, BLUE, "process 0: 200.000 ms from 0.000 ms"),
        (270, 66, 300, 20, ORANGE, "process 1: 300.000 ms from 200.000 ms"),
        (570, 40, 240, 20, BLUE, "process 0: 240.000 ms from 500.000 ms"),
        (809, 92, 0.3, 20, GREEN, "process 2: 0.150 ms from 739.000 ms"),
        (810, 66, 130, 20, ORANGE, "process 1: 130.000 ms from 740.000 ms"),
    ]
    # 120 pixels for the longest.
    assert drawn["circle"] == [
        (70, 228, BLUE), (270, 188, ORANGE), (570, 212, BLUE), (809, 307.94, GREEN),
        (810, 256, ORANGE),
    ]  # fmt: skip


def test_bars_are_as_high_as_there_are_bursts() -> None:
    _, drawn = picture(draw("4 ms", [], HISTOGRAM))
    bars = {number: bar for number, bar in enumerate(drawn["rect"]) if bar[3]}
    heights = {0: 30.0, 2: 120.0, 15: 50.0, 58: 20.0, 59: 60.0}
    assert {number: bar[3] for number, bar in bars.items()} == heights
    assert len(drawn["rect"]) == 60
    assert [bar[0] for bar in drawn["rect"]] == [70 + 14.5 * number for number in range(60)]
    # One row for no process: the charts are 52 pixels higher than with three.
    assert all(bar[1] == 446 - bar[3] for bar in drawn["rect"])
    assert {bar[2] for bar in drawn["rect"]} == {13.5}
    assert {bar[4] for bar in drawn["rect"]} == {"#777"}
    assert [bars[number][5] for number in (0, 2, 15)] == [
        "3 bursts of 0.00 to 1.00 ms", "12 bursts of 2.00 to 3.00 ms",
        "5 bursts of 15.00 to 16.00 ms",
    ]  # fmt: skip
    # Bursts of no length at all are bursts.
    _, drawn = picture(draw("4 ms", [], [(0, 0, 7)]))
    assert [bar[5] for bar in drawn["rect"] if bar[3]] == ["7 bursts of 0.00 to 0.00 ms"]


def test_without_bursts_there_are_empty_charts() -> None:
    whole, drawn = picture(draw("4 ms", [], []))
    assert whole["height"] == "496"
    assert (drawn["rect"], drawn["circle"]) == ([], [])
    assert [(text, y) for text, _, y, *_ in drawn["text"]] == [
        ("4 ms: CPU bursts of the first 0.00 s", 22), ("process 0", 56), ("0 s", 82),
        ("0.00 s", 82), ("length of each burst over time", 118), ("0.0 ms", 136), ("0", 256),
        ("0 s", 272), ("0.00 s", 272), ("number of bursts by length, whole run", 308),
    ]  # fmt: skip
    assert [line[1] for line in drawn["line"]] == [66, 256]


def test_the_ninth_process_has_the_first_colour_again() -> None:
    timeline = [(number, number * MS, MS) for number in range(10)]
    _, drawn = picture(draw("4 ms", timeline, []))
    for colours in ([each[4] for each in drawn["rect"]], [each[2] for each in drawn["circle"]]):
        assert len(set(colours)) == 8
        assert colours[8:] == colours[:2] == [BLUE, ORANGE]
    assert [each[1] for each in drawn["rect"]] == list(range(40, 300, 26))


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
