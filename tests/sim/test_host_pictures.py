"""Requests above a simulated device, read back: from the picture, the table and the log."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from schedlab.errors import SpecError
from schedlab.sim.host import (
    HOST_LOG_DTYPE,
    HostSimulation,
    device_text,
    process_text,
    split_schedulers,
    table,
)
from schedlab.sim.host_compare import host_experiment, host_run, process_names
from schedlab.sim.host_gantt import gantt
from schedlab.sim.validate import aligned
from schedlab.spec import Candidate, Stopping

MS = 1_000_000
FROM_MS = 200_000
FIRST, SECOND = "#1f6fb4", "#c8442f"


def log_of(*rows: tuple[int, float, float, float, int]) -> Any:
    """Rows of (process, inserted, dispatched and completed in ms, sector), in their order."""
    log = np.zeros(len(rows), dtype=np.dtype(HOST_LOG_DTYPE))
    for at, (process, inserted, dispatched, completed, sector) in zip(log, rows, strict=True):
        at["process"], at["sector"] = process, sector
        at["inserted_ns"], at["dispatched_ns"] = round(inserted * MS), round(dispatched * MS)
        at["completed_ns"] = round(completed * MS)
    return log


def named(*names: str) -> dict[str, Any]:
    return {"processes": [{"name": name} for name in names]}


@dataclasses.dataclass(frozen=True)
class Chart:
    """What one of the charts shows: words with their places, bars, waits and points of the head."""

    words: list[tuple[str, float, float]]
    ticks: list[tuple[float, float, str]]
    bars: list[tuple[float, float, float, float, str]]
    waits: list[tuple[float, float, float, str]]
    points: list[tuple[float, float, str]]
    axis: tuple[float, float, float]

    def ms(self, x: float) -> float:
        """The time at a place, by the first and the last tick."""
        (left, low, _), (right, high, _) = self.ticks[0], self.ticks[-1]
        return low + (x - left) / (right - left) * (high - low)


def numbers(text: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?[\d.]+", text)]


def charts(svg: str) -> tuple[list[Chart], float]:
    """The charts of a picture, each begun by its title, and the height of the picture."""
    root = ElementTree.fromstring(svg)
    height = float(root.attrib["height"])
    assert numbers(root.attrib["viewBox"]) == [0, 0, 920, height] and root.attrib["width"] == "920"
    found: list[Chart] = []
    for each in root:
        tag, at = each.tag.rpartition("}")[2], each.attrib
        if at.get("class") == "t":
            found.append(Chart([], [], [], [], [], (0, 0, 0)))
        if tag == "text" and "text-anchor" in at:
            ms = float(str(each.text).removesuffix(" ms"))
            found[-1].ticks.append((float(at["x"]), ms, at["text-anchor"]))
            assert float(at["y"]) == found[-1].axis[1] + 15
        elif tag == "text":
            found[-1].words.append((str(each.text), float(at["x"]), float(at["y"])))
        elif tag == "rect":
            place = [float(at[name]) for name in ("x", "y", "width", "height")]
            found[-1].bars.append((*place, at["fill"]))  # type: ignore[arg-type]
        elif tag == "circle":
            found[-1].points.append((float(at["cx"]), float(at["cy"]), at["fill"]))
        elif at.get("class") == "a":
            left, y, right = numbers(at["d"])
            found[-1] = dataclasses.replace(found[-1], axis=(left, y, right))
        elif at.get("class") == "h":
            line = numbers(at["d"])
        elif tag == "path":
            found[-1].waits.append((*numbers(at["d"]), at["stroke"]))  # type: ignore[arg-type]
    for chart in found:
        if chart is found[-1] and chart.points:
            assert line == [value for x, y, _ in chart.points for value in (x, y)]
    return found, height


def chart_of(svg: str) -> Chart:
    ((chart,), _) = charts(svg)
    return chart


def test_a_picture_place_for_place() -> None:
    # 770 ms on 770 pixels from 130 on: a millisecond is a pixel.
    times = [
        (0, 10, 100.5, 130, 0),
        (1, 50, 130, 190.25, 1000),
        (0, 140, 200, 200.2, 500),
    ]
    at = FROM_MS
    log = log_of(*((p, at + i, at + d, at + c, s) for p, i, d, c, s in times))
    other = log_of((0, FROM_MS + 70, FROM_MS + 385, FROM_MS + 770, 4))
    runs = [("A & <B>", named("x<y", "two"), log), ("next", named("alone"), other)]
    (one, two), height = charts(gantt(runs, (FROM_MS, FROM_MS + 770)))
    place = "place on the device"
    assert one.words == [
        ("A & <B>", 130, 22), ("x<y", 4, 44), ("two", 4, 66), (place, 4, 133)
    ]  # fmt: skip
    assert one.waits == [
        (140, 40, 230.5, FIRST), (270, 40, 330, FIRST), (180, 62, 260, SECOND)
    ]  # fmt: skip
    assert one.bars == [
        (230.5, 34, 29.5, 12, FIRST), (330, 34, 0.6, 12, FIRST), (260, 56, 60.2, 12, SECOND)
    ]  # fmt: skip
    # Sector 1000 is 8 below the upper end of its 110 pixels, sector 0 is 8 above the axis.
    assert one.points == [(230.5, 180, FIRST), (260, 86, SECOND), (330, 133, FIRST)]
    assert one.axis == (130, 188, 900)
    assert one.ticks == [
        (130, 200_000.0, "start"),
        (322, 200_192.5, "middle"),
        (515, 200_385.0, "middle"),
        (708, 200_577.5, "middle"),
        (900, 200_770.0, "end"),
    ]
    assert two.words == [("next", 130, 242), ("alone", 4, 264), (place, 4, 331)]
    assert two.waits == [(200, 260, 515, FIRST)]
    assert two.bars == [(515, 254, 385, 12, FIRST)]
    assert two.points == [(515, 284, FIRST)]
    assert (two.axis, height) == ((130, 386, 900), 428)


def test_bars_and_head_are_those_of_a_simulation() -> None:
    one = HostSimulation(processes="readers3", tags=4, seconds=2.0, size="8GiB")
    run, log = one.run_logged()
    chart = chart_of(gantt([("none", run, log)], (500.0, 900.0)))
    start, end = 500 * MS, 900 * MS
    pixel_ms = 400 / 770
    seen = log[(log["completed_ns"] >= start) & (log["inserted_ns"] <= end)]
    rows = [row for process in range(3) for row in seen[seen["process"] == process]]
    assert len(rows) == len(chart.bars) == len(chart.waits) > 20
    for row, bar, wait in zip(rows, chart.bars, chart.waits, strict=True):
        inserted, sent, completed = (
            min(max(int(row[name]), start), end) / MS
            for name in ("inserted_ns", "dispatched_ns", "completed_ns")
        )
        shown = [chart.ms(x) for x in (wait[0], wait[2], bar[0], bar[0] + bar[2])]
        assert shown == pytest.approx([inserted, sent, sent, completed], abs=1.2 * pixel_ms)
    within = log[(log["dispatched_ns"] >= start) & (log["dispatched_ns"] <= end)]
    ordered = sorted(within, key=lambda row: int(row["dispatched_ns"]))
    most = int(log["sector"].max())
    for row, (x, y, _) in zip(ordered, chart.points, strict=True):
        assert chart.ms(x) == pytest.approx(int(row["dispatched_ns"]) / MS, abs=pixel_ms)
        share = (chart.axis[1] - 8 - y) / (110 - 16)
        assert share == pytest.approx(int(row["sector"]) / most, abs=0.002)


def test_what_is_outside_of_the_window_is_cut_or_omitted() -> None:
    log = log_of(
        (0, 10, 20, 99.9, 10),  # over before the window
        (0, 10, 30, 100, 20),  # completed as it begins
        (0, 20, 50, 177, 30),
        (0, 110, 120, 870, 40),
        (0, 120, 870, 880, 50),
        (0, 130, 900, 990, 60),
        (0, 870, 871, 900, 70),  # inserted as it ends
        (0, 870.1, 880, 901, 80),  # begun after it
    )
    chart = chart_of(gantt([("none", named("one"), log)], (100, 870)))
    assert [wait[::2] for wait in chart.waits] == [
        (130, 130), (130, 130), (140, 150), (150, 900), (160, 900), (900, 900)
    ]  # fmt: skip
    assert [(x, width) for x, _, width, *_ in chart.bars] == [
        (130, 0.6), (130, 77), (150, 750), (900, 0.6), (900, 0.6), (900, 0.6)
    ]  # fmt: skip
    # The device up to sector 80 is known from all of the log.
    place = {x: round((chart.axis[1] - 8 - y) / 94 * 80) for x, y, _ in chart.points}
    assert place == {150: 40, 900: 50}
    from_the_start = chart_of(gantt([("none", named("one"), log)], (20, 790)))
    assert [x for x, *_ in from_the_start.points] == [130, 140, 160, 230]


def test_the_head_is_drawn_in_the_order_of_dispatches_on_a_device_of_any_size() -> None:
    log = log_of((0, 0, 300, 310, 1), (1, 0, 100, 320, 0), (0, 0, 200, 330, 1))
    chart = chart_of(gantt([("none", named("one", "two"), log)], (0, 770)))
    bottom = chart.axis[1]
    assert chart.points == [
        (230, bottom - 8, SECOND), (330, bottom - 102, FIRST), (430, bottom - 102, FIRST)
    ]  # fmt: skip
    log["sector"] = 0
    chart = chart_of(gantt([("none", named("one", "two"), log)], (0, 770)))
    assert {y for _, y, _ in chart.points} == {bottom - 8}
    none = chart_of(gantt([("none", named("one", "two"), log)], (500, 770)))
    assert (none.points, none.bars) == ([], [])
    assert [word for word, _, _ in none.words] == ["none", "one", "two"]


def test_a_window_without_length_is_drawn() -> None:
    log = log_of((0, 4, 5, 6, 7))
    chart = chart_of(gantt([("none", named("one"), log)], (5, 5)))
    assert {ms for _, ms, _ in chart.ticks} == {5}
    assert (chart.bars[0][0], chart.points[0][0]) == (130, 130)


def test_every_process_has_a_row_and_a_colour_until_they_repeat() -> None:
    log = log_of(*((process, 10, 20, 30, process) for process in range(8)))
    chart = chart_of(gantt([("none", named(*"abcdefgh"), log)], (0, 77)))
    colours = [bar[4] for bar in chart.bars]
    assert len(set(colours)) == 6
    assert colours[:2] == [FIRST, SECOND] == colours[6:]
    assert [point[2] for point in chart.points] == colours == [wait[3] for wait in chart.waits]
    rows = [y for word, _, y in chart.words if word in set("abcdefgh")]
    assert [rows[0] + 22 * place for place in range(8)] == rows
    assert [y for _, y, *_ in chart.bars] == [y - 10 for y in rows]


def test_at_most_1200_requests_are_drawn_of_a_scheduler() -> None:
    log = log_of(*((0, at / 10, at / 10, at / 10, at) for at in range(1300)))
    chart = chart_of(gantt([("none", named("one"), log)], (10, 200)))
    assert (len(chart.bars), len(chart.points)) == (1200, 1200)
    assert chart.ms(chart.points[0][0]) == 10
    assert chart.ms(chart.points[-1][0]) == pytest.approx(10 + 119.9, abs=0.2)


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [
        (1000, 500, 800),  # from the middle
        (620, 310, 610),
        (400, 100, 399),  # the last 300
        (301, 1, 300),
        (300, 0, 299),  # all
        (20, 0, 19),
        (1, 0, 0),
    ],
)
def test_without_a_window_300_requests_of_the_fastest_run_are_shown(
    count: int, first: int, last: int
) -> None:
    def completed(count: int, every: float) -> Any:
        times = [FROM_MS + every * at for at in range(count)]
        return log_of(*((0, ms, ms, ms, 1) for ms in times))

    runs = [
        ("slow", named("one"), completed(count // 2, 70)),
        ("fast", named("one"), completed(count, 3)),
        ("slower", named("one"), completed(count // 3, 7)),
    ]
    drawn, _ = charts(gantt(runs))
    for chart in drawn:
        assert chart.ticks[0][1] == FROM_MS + 3 * first
        assert chart.ticks[-1][1] == FROM_MS + 3 * last
    assert [chart.words[0][0] for chart in drawn] == ["slow", "fast", "slower"]


def test_the_shown_time_ends_after_the_last_completion() -> None:
    log = log_of((0, 0, 0, 0, 1), (0, 0, 0, 0, 1))
    log["completed_ns"] = (4, 8)  # of 4 to 9 ns, 8 is at four fifths
    log["dispatched_ns"] = (4, 5)
    chart = chart_of(gantt([("none", named("one"), log)]))
    assert [(x, width) for x, _, width, *_ in chart.bars] == [(130, 0.6), (284, 462)]


def test_a_run_without_requests_is_drawn_over_a_millisecond() -> None:
    chart = chart_of(gantt([("none", named("one"), log_of())]))
    assert [f"{ms}" for _, ms, _ in chart.ticks] == ["0.0", "0.2", "0.5", "0.8", "1.0"]
    assert not chart.bars and not chart.points


def figures(name: str, mbps: float, iops: float, mean_ms: float, p99_ms: float | None) -> Any:
    return {
        "name": name,
        "throughput_bytes_per_s": mbps * 1e6,
        "iops": iops,
        "latency_ns_mean": mean_ms * 1e6,
        "latency_ns_p99": None if p99_ms is None else p99_ms * 1e6,
    }


TABLE = """\
scheduler                   process              MB/s       1/s   mean ms    p99 ms
none                        reader           90000.00     150.5  90000.00  900000.0
none                        writer               0.25       1.0      0.75         –
none                        total            90000.25     151.5      2.00       3.0
bfq:slice_idle=0            reader               7.00       8.0      9.00      10.0
bfq:slice_idle=0            writer              11.00      12.0     13.00      14.0
bfq:slice_idle=0            total               15.00      16.0     17.00      18.0"""


def test_the_table_holds_means_over_the_seeds() -> None:
    def run(scheduler: str, reader: Any, writer: Any, total: Any) -> dict[str, Any]:
        one, two = figures("reader", *reader), figures("writer", *writer)
        return {
            "scheduler": scheduler, "processes": [one, two], "total": figures("total", *total)
        }  # fmt: skip

    runs = [
        run("none", (80e3, 100.5, 60e3, 7e5), (0.5, 2, 1, None), (80000.5, 102.5, 1, 2)),
        run("bfq:slice_idle=0", (7, 8, 9, 10), (11, 12, 13, 14), (15, 16, 17, 18)),
        run("none", (1e5, 200.5, 12e4, 11e5), (0, 0, 0.5, 5), (100000, 200.5, 3, 4)),
    ]
    assert table(runs) == TABLE.splitlines()


def test_rows_are_aligned_first_to_the_left_others_to_the_right() -> None:
    assert aligned([["a", "long", ""], ["bcd", "x", "yz"], ["", "", ""]]) == [
        "a    long",
        "bcd     x  yz",
        "",
    ]


def test_the_job_of_a_simulation_holds_what_was_set_and_nothing_else() -> None:
    plain = HostSimulation()
    job = plain.job()
    settings = {
        "tags": 32, "nr_requests": None, "seconds": 20.0, "warm_up_seconds": 0.0, "seed": 1,
        "log": False,
    }  # fmt: skip
    assert job["settings"] == settings
    assert (job["scheduler"], job["processes"]) == ("none", "random32")
    device: dict[str, Any] = {
        "size_bytes": None, "queue_depth": None, "policy": None, "service": None, "set": {},
    }  # fmt: skip
    assert job["device"] == {**device_text("disk7200"), **device}
    other = dataclasses.replace(
        plain, size="8GiB", window=1, device_set={"rpm": 1}, settings={"seed": 9, "x": 2}
    ).job(log=True)
    assert other["settings"] == {**settings, "log": True, "seed": 9, "x": 2}
    changed = {"size_bytes": 8 << 30, "queue_depth": 1, "policy": "fcfs", "set": {"rpm": 1}}
    assert other["device"] == {**device_text("disk7200"), **device, **changed}
    for window, policy, expected in ((1, "sptf", "sptf"), (2, None, None), (0, None, None)):
        one = dataclasses.replace(plain, window=window, policy=policy)
        assert one.job()["device"]["policy"] == expected


def test_a_trace_takes_the_place_of_the_processes() -> None:
    one = HostSimulation(
        trace=Path("a.csv"), format="spc", trace_set={"fit": "wrap"}, seconds=3.0
    ).job()
    options = {"volumes": "region", "fit": "wrap"}
    trace = {"path": "a.csv", "format": "spc", "requests": None, "options": options}
    assert one["trace"] == trace and "processes" not in one
    assert one["settings"]["seconds"] == 1e6
    plain = HostSimulation(trace=Path("a.csv"), trace_set={"volumes": "refuse"}).job()
    assert plain["trace"] == {**trace, "format": None, "options": {"volumes": "refuse"}}


def test_devices_and_processes_are_names_or_files(tmp_path: Path) -> None:
    shipped = device_text("disk7200")
    assert shipped["place"] == "disk7200" and "rpm = 7200" in shipped["device"]
    ssd = device_text("ncq2014")
    assert ssd["place"] == "ncq2014" and tomllib.loads(ssd["device"])
    file = tmp_path / "mine.toml"
    file.write_text(shipped["device"])
    assert device_text(str(file)) == {"device": shipped["device"], "place": str(file)}
    with pytest.raises(SpecError, match="device 'disk9' is not known") as caught:
        device_text("disk9")
    assert "disk7200" in caught.value.hint and "ncq2014" in caught.value.hint
    assert process_text("readers3") == {"processes": "readers3"}
    assert process_text(file) == {"processes": shipped["device"], "place": str(file)}
    with pytest.raises(SpecError, match=r"missing\.toml"):
        process_text(tmp_path / "missing.toml")
    for other in ("readers4", "mine.txt", "mine.conf"):
        with pytest.raises(SpecError, match=rf"'{other}' is not one of .*readers3"):
            process_text(other)


def test_schedulers_are_split_at_commas_unless_one_has_tunables() -> None:
    assert split_schedulers(" none, ,mq-deadline,") == ["none", "mq-deadline"]
    assert split_schedulers("none ; bfq;") == ["none", "bfq"]
    several = split_schedulers("bfq:slice_idle=0,low_latency=0")
    assert len(several) == 1 and several[0].startswith("bfq:")
    assert split_schedulers("cfq:quantum=4;none") == ["cfq:quantum=4", "none"]


PROCESSES = """
[[process]]
name = "copy"
[[process]]
count = 2
[[process]]
count = 1
[[process]]
name = "pair"
count = 3
"""


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    path = tmp_path / "mixed.toml"
    path.write_text(PROCESSES)
    return str(path)


def test_names_of_processes_are_those_of_the_results(mixed: str) -> None:
    names = ["copy", "process-2-1", "process-2-2", "process-3", "pair-1", "pair-2", "pair-3"]
    assert process_names(mixed) == names
    run = HostSimulation(processes=mixed, seconds=0.1, size="8GiB").run()
    assert [each["name"] for each in run["processes"]] == names


@pytest.mark.parametrize("text", ["[[", "process = 5", '[[process]]\ncount = "x"\n'])
def test_a_file_that_has_no_processes_is_one_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"wrong\.toml: TOML parse error"):
        host_experiment(HostSimulation(tags=4), ["none", "bfq"], [str(path)], 2)


def test_an_experiment_has_a_workload_for_each_process_and_for_all(tmp_path: Path) -> None:
    alone = tmp_path / "alone.toml"
    alone.write_text('[[process]]\nname = "one"\n')
    first = HostSimulation(tags=4, seconds=0.2, size="8GiB", seed=7, device_set={"rpm": 5400})
    one = host_experiment(first, ["none", "bfq:slice_idle=0"], ["readers3", str(alone)], 5)
    fixed = {
        "device": "disk7200", "tags": 4, "size": "8GiB", "seconds": 0.2, "warm_up_seconds": 0.0,
        "device_set": {"rpm": 5400},
    }  # fmt: skip
    expected = [
        (f"readers3 {name}".strip(), {**fixed, "processes": "readers3", "process": name})
        for name in ("reader-1", "reader-2", "reader-3", "")
    ]
    expected.append((str(alone), {**fixed, "processes": str(alone), "process": ""}))
    assert [(each.label, each.parameters) for each in one.workloads] == expected
    secondary = ("iops", "latency_ns_mean", "latency_ns_p99")
    assert {(each.kind, each.metric, each.secondary) for each in one.workloads} == {
        ("host-queue", "throughput_bytes_per_s", secondary)
    }
    assert [(each.label, dict(each.settings)) for each in one.candidates] == [
        (name, {"scheduler": name}) for name in ("none", "bfq:slice_idle=0")
    ]
    assert (one.kind, one.target.kind) == ("sim", "none")
    assert (one.baseline, one.seed, one.aa_arm, one.objective) == ("none", 7, False, "throughput")
    assert one.stopping == Stopping("fixed", 5)
    assert one.title == "I/O schedulers above the simulated disk7200"
    for text in ("none", "none,none", "none,bfq,none"):
        with pytest.raises(SpecError, match="two different schedulers"):
            host_experiment(first, text.split(","), ["readers3"], 5)


def test_a_run_of_an_experiment_gives_the_figures_of_its_process() -> None:
    first = HostSimulation(tags=4, seconds=0.2, size="8GiB")
    one = host_experiment(first, ["none", "cfq"], ["readers3"], 2)
    direct = dataclasses.replace(first, scheduler="cfq", processes="readers3", seed=3).run()
    cfq = one.candidates[1]
    for place, workload in enumerate(one.workloads):
        run, process = host_run(workload, cfq, 3)
        assert run == direct
        assert process == (*direct["processes"], direct["total"])[place]
    wrong = dataclasses.replace(
        one.workloads[0], parameters={**one.workloads[0].parameters, "process": "reader-9"}
    )
    with pytest.raises(SpecError, match="'reader-9' is not in readers3") as caught:
        host_run(wrong, Candidate("none", {"scheduler": "none"}), 1)
    assert caught.value.hint == "one of: reader-1, reader-2, reader-3"
