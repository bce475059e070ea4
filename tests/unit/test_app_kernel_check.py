"""The check of the simulated schedulers: its cells, the real load, the rows and their verdict."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedlab import _core
from schedlab.app import kernel_check, kernel_load
from schedlab.app.kernel_check import (
    CHECKS,
    Check,
    checks_of,
    judged,
    misordered,
    model_run,
    run_cells,
    table,
)
from schedlab.app.kernel_load import (
    BufferedProcess,
    buffered_of,
    groups_of,
    is_buffered,
    placed,
    run_direct,
    run_processes,
    specs_of,
)
from schedlab.errors import SpecError

MIB = 1 << 20
RATE, LATENCY = "throughput_bytes_per_s", "latency_ns_mean"


def row(scheduler: str, process: str = "reader", count: int = 1, **pairs: Any) -> dict[str, Any]:
    """A row of a cell from pairs of (kernel, model) of rate and latency."""
    both = {RATE: pairs["rate"], LATENCY: pairs["latency"]}
    return {"scheduler": scheduler, "process": process, "count": count, **judged(both)}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1", [1]), ("3-5", [3, 4, 5]), (" 2 , 12", [2, 12]), ("7,1-2,2", [1, 2, 7])],
)
def test_cells_are_numbers_and_ranges(text: str, numbers: list[int]) -> None:
    assert [check.number for check in checks_of(text)] == numbers


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("1,x", "--cells 1,x: 'x' is not a number", "--cells 1-4,7"),
        ("-3", "--cells -3: '-3' is not a number", "--cells 1-4,7"),
        ("0-1", "--cells 0-1: there is no cell 0", "1 to 12"),
        ("11-14", "--cells 11-14: there is no cell 13", "1 to 12"),
    ],
)
def test_cells_that_there_are_not(text: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError) as raised:
        checks_of(text)
    assert (str(raised.value), raised.value.hint) == (message, hint)


def test_the_cells_are_those_of_the_guide() -> None:
    assert [check.number for check in CHECKS] == list(range(1, 13))
    assert [(c.processes, c.policy, c.depth) for c in CHECKS[:4]] == [
        ("random32", "fcfs", 128),
        ("random32", "fcfs", 4),
        ("random32", "sptf", 32),
        ("random32", "sptf", 4),
    ]
    flash = CHECKS[11]
    assert (flash.device, flash.depth, flash.dilate, flash.warm_up_s) == ("sata-ssd", 32, 10, 0.5)
    assert flash.schedulers == CHECKS[0].schedulers == ("none", "mq-deadline", "kyber", "bfq")
    assert CHECKS[4].schedulers == ("none", "bfq", "bfq:low_latency=0")
    assert {(c.device, c.dilate, c.warm_up_s) for c in CHECKS[:11]} == {("disk7200", 1.0, 0.0)}
    assert {c.depth for c in CHECKS[4:11]} == {4}


def test_a_row_is_judged_by_means_over_the_blocks() -> None:
    judgement = judged({RATE: [(100.0, 130.0), (300.0, 310.0)], LATENCY: [(50.0, 43.0)]})
    assert judgement == {
        "passes": True,  # 10 % is the tolerance of rates, 15 % that of latencies
        f"kernel_{RATE}": 200.0,
        f"model_{RATE}": 220.0,
        f"deviation_{RATE}": pytest.approx(0.1),
        f"deviation_half_width_{RATE}": 0.0,
        f"kernel_{LATENCY}": 50.0,
        f"model_{LATENCY}": 43.0,
        f"deviation_{LATENCY}": pytest.approx(-0.14),
        f"deviation_half_width_{LATENCY}": 0.0,
    }


@pytest.mark.parametrize(
    ("rate", "latency", "passes"),
    [
        ((100, 111), (100, 100), False),
        ((100, 89), (100, 100), False),
        ((100, 91), (100, 114), True),
        ((100, 100), (100, 116), False),
        ((100, 100), (100, 84), False),
        ((100, 111), (100, 116), False),
        ((0, 0), (100, 100), False),
    ],
)
def test_either_figure_may_miss(
    rate: tuple[float, float], latency: tuple[float, float], passes: bool
) -> None:
    assert judged({RATE: [rate], LATENCY: [latency]})["passes"] is passes


def test_what_never_finished_deviates_without_end() -> None:
    judgement = judged({RATE: [(0.0, 7.0)] * 4, LATENCY: [(4.0, 4.0)] * 4})
    assert judgement[f"deviation_{RATE}"] == float("inf")
    assert judgement[f"deviation_half_width_{RATE}"] == 0.0


def test_four_blocks_have_an_interval() -> None:
    # The differences 10, 30, 10, 30 have the standard deviation 11.547; t of 3 is 3.1824.
    pairs = [(100.0, 110.0), (300.0, 330.0), (100.0, 110.0), (300.0, 330.0)]
    judgement = judged({RATE: pairs, LATENCY: pairs[:3]})
    assert judgement[f"deviation_half_width_{RATE}"] == pytest.approx(0.09187, rel=1e-3)
    assert judgement[f"deviation_half_width_{LATENCY}"] == 0.0


def test_only_decided_pairs_can_be_in_the_wrong_order() -> None:
    still = [(1.0, 1.0)]
    small = [row("a", rate=[(0.5, 0.5)], latency=still), row("b", rate=[(0.4, 0.6)], latency=still)]
    assert misordered(small) == [("a", "b")]
    assert misordered(small[::-1]) == [("b", "a")]
    rows = [
        row("none", count=2, rate=[(100, 100)], latency=still),  # 200 and 200
        row("bfq", rate=[(125, 60)], latency=still),
        row("bfq", "writer", rate=[(100, 130)], latency=still),  # 225 and 190 in all
        row("kyber", rate=[(215, 300)], latency=still),  # within 10 % of both
        row("mq-deadline", rate=[(150, 195)], latency=still),
    ]
    assert misordered(rows) == [("none", "bfq"), ("bfq", "mq-deadline")]
    assert misordered([row("a", rate=[(110, 1)], latency=still),
                       row("b", rate=[(100, 2)], latency=still)]) == []  # fmt: skip


def test_the_table_of_a_cell() -> None:
    check = Check(5, "three sequential readers", "readers3")
    rows = [
        row("none", count=2, rate=[(150e6, 165e6)], latency=[(2.5e6, 2.4e6)]),
        row("bfq", rate=[(100e6, 80e6), (100e6, 80e6), (110e6, 84e6), (90e6, 76e6)],
            latency=[(4e6, 4e6)]),
    ]  # fmt: skip
    assert table(check, rows) == [
        "cell 5: three sequential readers (readers3, 4 tags)",
        "                                           kernel    model  deviation",
        "  none              reader ×2      MB/s    150.00   165.00  +10%       pass",
        "                                   ms        2.50     2.40  -4%",
        "  bfq               reader         MB/s    100.00    80.00  -20% ±8%   MISS",
        "                                   ms        4.00     4.00  +0%",
        "  order of the schedulers: as in the kernel",
    ]


def test_processes_are_as_many_as_their_preset_counts() -> None:
    assert [spec["name"] for spec in specs_of("reader-writers")] == ["reader", "writer", "writer"]
    readers = placed("readers3", 100 * MIB)
    assert [(place.record, place.offset, place.span) for place in readers] == [
        (131072, 0, 266 * 131072),  # a third of 100 MiB is 266 records and a rest
        (131072, 266 * 131072, 266 * 131072),
        (131072, 532 * 131072, 266 * 131072),
    ]
    assert placed("random32", 9000)[0].span == 8192
    assert placed("small-writes", 40960)[1].offset == 20480


def test_direct_processes_become_groups_of_the_engine() -> None:
    reader, first, second = groups_of("reader-writers", "/dev/x", 6 * MIB, seed=9)
    assert reader == {
        "name": "reader-0",
        "path": "/dev/x",
        "workers": 1,
        "engine": "io_uring",
        "direct": True,
        "clock": "completion",
        "offset": 0,
        "workload": {
            "pattern": {"kind": "random", "replacement": True},
            "direction": {"kind": "read"},
            "record": 4096,
            "span": 2 * MIB,
            "arrivals": {"kind": "closed", "depth": 1},
            "seed": 9,
        },
    }
    assert (first["name"], first["offset"]) == ("writer-1", 2 * MIB)
    assert (second["name"], second["offset"]) == ("writer-2", 4 * MIB)
    assert second["workload"] == {
        "pattern": {"kind": "sequential"},
        "direction": {"kind": "write"},
        "record": 65536,
        "span": 2 * MIB,
        "arrivals": {"kind": "closed", "depth": 32},
        "seed": 9,
    }
    levels = groups_of("levels", "/dev/x", 6 * MIB, seed=1)
    assert [group["ioprio"] for group in levels] == [
        {"class": "be", "level": level} for level in (0, 4, 7)
    ]
    assert "ioprio" not in reader


@pytest.mark.parametrize("processes", ["copy", "copy-buffered", "weights"])
def test_processes_of_the_simulator_alone_are_refused(processes: str) -> None:
    with pytest.raises(SpecError, match=f"{processes} has a process only for the") as raised:
        groups_of(processes, "/dev/x", 6 * MIB, seed=1)
    assert raised.value.hint == "--cells 1-12"


@pytest.mark.parametrize("processes", ["readers3", "random32"])
def test_direct_processes_are_no_buffered_ones(processes: str) -> None:
    with pytest.raises(SpecError, match="only for the simulator") as raised:
        buffered_of(processes, 6 * MIB)
    assert raised.value.hint == "--cells 1-12"


def test_buffered_processes_have_their_own_regions() -> None:
    assert is_buffered("copy-buffered")
    assert buffered_of("copy-buffered", 3 * MIB) == [
        BufferedProcess(131072, 0, 12 * 131072, writes=False, fsync_every=0),
        BufferedProcess(131072, 12 * 131072, 12 * 131072, writes=True, fsync_every=256),
    ]


def answer(reads: Any, writes: Any, elapsed_ns: int) -> dict[str, Any]:
    """A group of the engine's answer; `reads` and `writes` are (requests, mean latency)."""
    sides = {"reads": reads, "writes": writes}
    return {"elapsed_ns": elapsed_ns} | {
        name: {"latency": {"count": side[0], "mean": side[1]}}
        for name, side in sides.items()
        if side
    }


def test_figures_of_direct_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in flight at the end was answered, but not in the time."""
    jobs: list[dict[str, Any]] = []
    groups = [
        {"workload": {"record": 4096, "arrivals": {"depth": 4}}},
        {"workload": {"record": 8192, "arrivals": {"depth": 2}}},
        {"workload": {"record": 512, "arrivals": {"depth": 3}}},
    ]

    def engine(job: str) -> str:
        jobs.append(json.loads(job))
        answers = [
            answer((1004, 5000.0), None, 2_500_000_000),
            answer((30, 100.0), (10, 501.0), 4_000_000_000),
            answer((0, None), (1, 700.0), 1_000_000_000),
        ]
        return json.dumps({"groups": answers})

    monkeypatch.setattr(_core, "run_io_job", engine)
    assert run_direct(groups, (1.5, 0.25)) == [
        {RATE: 1_638_400.0, LATENCY: 5000.0},  # 1000 records of 4096 bytes in 2.5 s
        {RATE: 77_824.0, LATENCY: 200.25},  # 38 of 8192 in 4 s; 8010 ns for 40
        {RATE: 0.0, LATENCY: 700.0},
    ]
    assert jobs == [{"seconds": 1.5, "ramp_seconds": 0.25, "groups": groups}]


def test_nothing_answered_has_no_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = json.dumps({"groups": [answer((0, None), None, 1_000_000_000)]})
    monkeypatch.setattr(_core, "run_io_job", lambda job: idle)
    group = {"workload": {"record": 512, "arrivals": {"depth": 3}}}
    assert run_direct([group], (1.0, 0.0)) == [{RATE: 0.0, LATENCY: 0.0}]


def test_a_preset_is_run_directly_or_through_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(kernel_load, "run_direct", lambda *call: calls.append(call))
    monkeypatch.setattr(kernel_load, "run_buffered", lambda *call: calls.append(call))
    run_processes("random32", Path("/dev/x"), 2 * MIB, (1.5, 0.25), 7)
    run_processes("copy-buffered", Path("/dev/x"), 2 * MIB, (1.5, 0.25), 7)
    assert calls == [
        (groups_of("random32", "/dev/x", 2 * MIB, 7), (1.5, 0.25)),
        (Path("/dev/x"), buffered_of("copy-buffered", 2 * MIB), 1.5),
    ]


class Clock:
    """A clock that goes on by one second whenever it is asked."""

    def __init__(self) -> None:
        self.now_s = 99.0

    def monotonic(self) -> float:
        self.now_s += 1.0
        return self.now_s


@pytest.fixture
def region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of eight records, the clock above, and what was synced."""
    monkeypatch.setattr(kernel_load, "time", Clock())
    file = tmp_path / "region"
    file.write_bytes(bytes(8 * 8192))
    return file


def test_a_writer_goes_round_in_its_region(region: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(os, "fsync", syncs.append)
    advised: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, *what: advised.append(what))
    writer = BufferedProcess(8192, 2 * 8192, 3 * 8192, writes=True, fsync_every=2)
    # A record takes two looks at the clock: one after the write, one after its fsync.
    figures = writer.run(region, seconds=10.0)
    assert figures == {
        RATE: 4 * 8192 / 10,  # the fifth record ends at 10 s, and that is not within them
        LATENCY: 2e9,
        "page_copy_ns": 0.5e9,  # 1 s for 8 KiB
    }
    assert len(syncs) == 3  # after the second and the fourth record, and at the end
    assert advised == [(2 * 8192, 3 * 8192, os.POSIX_FADV_DONTNEED)] * 2
    records = [any(region.read_bytes()[n * 8192 : (n + 1) * 8192]) for n in range(8)]
    assert records == [False, False, True, True, True, False, False, False]


def test_a_reader_reads_on(region: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[int] = []
    read = os.preadv

    def preadv(file: int, buffers: list[bytearray], place: int) -> int:
        places.append(place)
        return read(file, buffers, place)

    monkeypatch.setattr(os, "preadv", preadv)
    reader = BufferedProcess(4096, 8192, 3 * 4096, writes=False, fsync_every=0)
    assert reader.run(region, seconds=5.0) == {
        RATE: 4 * 4096 / 5,
        LATENCY: 1e9,
        "page_copy_ns": 0.0,
    }
    assert places == [8192, 12288, 16384, 8192, 12288]
    assert not any(region.read_bytes())


def test_no_record_in_no_time(region: Path) -> None:
    writer = BufferedProcess(4096, 0, 8192, writes=True, fsync_every=0)
    figures = writer.run(region, seconds=1e-9)
    assert (figures[RATE], figures[LATENCY]) == (0.0, 2e9)


def test_the_model_has_the_tags_and_the_queue_of_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def simulation(**fields: Any) -> Any:
        made.append(fields)
        process = {"name": "reader", RATE: 5.0, LATENCY: 7.0, "iops": 1.0}
        return SimpleNamespace(run=lambda: {"processes": [process]})

    monkeypatch.setattr(kernel_check, "HostSimulation", simulation)
    check = replace(CHECKS[11], processes="random32")
    rows = model_run(check, "none", 3.0, 5, {"tag_retaken": 0.25})
    assert rows == [{RATE: 5.0, LATENCY: 7.0}]
    model_run(check, "bfq", 3.0, 5, {})
    assert made[0] == {
        "device": "sata-ssd",
        "scheduler": "none",
        "processes": "random32",
        "tags": 32,
        "nr_requests": None,
        "window": 32,
        "policy": "fcfs",
        "size": "8589934592",
        "seconds": 3.5,
        "seed": 5,
        "settings": {"warm_up_seconds": 0.5, "tag_retaken": 0.25},
    }
    assert made[1]["nr_requests"] == 256


class Cell:
    """Stands in for the kernel's side of a cell: it notes what is asked, and answers by blocks."""

    def __init__(self, queue: str) -> None:
        self.device = SimpleNamespace(path=f"/dev/{queue}", reset=lambda: self.did.append("reset"))
        self.did: list[Any] = []
        self.loads: list[Any] = []
        self.models: list[Any] = []

    def emulated(self, emulation: Any) -> Any:
        self.did.append(emulation)
        return self.device

    def hold(self, path: str) -> Path:
        return Path(f"held {path}")

    def set_scheduler(self, path: str, name: str, settings: dict[str, str]) -> None:
        self.did.append((path, name, settings))

    def run_processes(self, *call: Any) -> list[dict[str, float]]:
        self.loads.append(call)
        block = call[-1]
        if call[0] == "random32":
            return [{RATE: 1.0, LATENCY: 1.0}]
        return [
            {RATE: 10.0 * block, LATENCY: 100.0, "page_copy_ns": 64.0},
            {RATE: 30.0 * block, LATENCY: 300.0},
            {RATE: 50.0 * block, LATENCY: 800.0, "page_copy_ns": 44.0},
        ]

    def model_run(self, *call: Any) -> list[dict[str, float]]:
        self.models.append(call)
        rows = [{RATE: 41.0, LATENCY: 20.0}, {RATE: 100.0, LATENCY: 40.0},
                {RATE: 220.0, LATENCY: 180.0}]  # fmt: skip
        return rows[: len(specs_of(call[0].processes))]


@pytest.fixture
def queue() -> str:
    """The name of a block device of this machine: the limits of its queue are read."""
    for path in sorted(Path("/sys/block").iterdir()):
        if (path / "queue/max_sectors_kb").exists():
            return path.name
    pytest.skip("needs a block device")


def measured(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, check: Check, blocks: int
) -> Sequence[Any]:
    monkeypatch.setattr(kernel_check, "run_processes", cell.run_processes)
    monkeypatch.setattr(kernel_check, "model_run", cell.model_run)
    control: Any = cell
    return kernel_check.measure(control, check, 3.0, blocks, 0.25, cell.did.append)


def test_a_cell_goes_there_and_back_and_undoes_the_dilation(
    queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell(queue)
    check = Check(9, "", "reader-writers", "sptf", 7, ("none", "bfq:low_latency=0,slice_idle=2"),
                  "sata-ssd", 4.0, 0.5)  # fmt: skip
    rows = measured(cell, monkeypatch, check, 2)
    emulation, *did = cell.did
    assert (emulation.model, emulation.size_bytes) == ("sata-ssd", 8 << 30)
    assert emulation.queue_depth == 7
    assert (emulation.policy, emulation.dilate, emulation.data) == ("sptf", 4.0, "none")
    none: list[Any] = [(f"/dev/{queue}", "none", {}), "reset"]
    bfq: list[Any] = [(f"/dev/{queue}", "bfq", {"low_latency": "0", "slice_idle": "2"}), "reset"]
    say = "cell 9, block {}: {}".format
    tuned = check.schedulers[1]
    assert did == [*none, say(1, "none"), *bfq, say(1, tuned),
                   *bfq, say(2, tuned), *none, say(2, "none")]  # fmt: skip
    held = Path(f"held /dev/{queue}")
    assert [load[-1] for load in cell.loads] == [1, 1, 2, 2]
    assert cell.loads[0] == ("reader-writers", held, 8 << 30, (12.0, 2.0), 1)
    limits = {
        name: int(Path(f"/sys/block/{queue}/queue/{name}").read_text())
        for name in ("max_sectors_kb", "read_ahead_kb")
    }
    host = {"tag_retaken": 0.25, "page_copy_ns": 16, "start_spread_ns": 50_000, **limits}
    assert cell.models[-1] == (check, "none", 3.0, 2, host)
    assert [(r["cell"], r["scheduler"], r["process"], r["count"]) for r in rows] == [
        (9, "none", "reader", 1), (9, "none", "writer", 2),
        (9, tuned, "reader", 1), (9, tuned, "writer", 2),
    ]  # fmt: skip
    # 10 and 20 bytes of modelled time, dilated by 4; the writers' means are 40 and 80.
    assert (rows[0][f"kernel_{RATE}"], rows[0][f"model_{RATE}"]) == (60.0, 41.0)
    assert (rows[1][f"kernel_{RATE}"], rows[1][f"model_{RATE}"]) == (240.0, 160.0)
    assert (rows[0][f"kernel_{LATENCY}"], rows[0][f"model_{LATENCY}"]) == (25.0, 20.0)
    assert (rows[1][f"kernel_{LATENCY}"], rows[1][f"model_{LATENCY}"]) == (137.5, 110.0)


def test_a_cell_of_a_disk_has_no_dilation(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(queue)
    measured(cell, monkeypatch, Check(1, "", "random32", schedulers=("none", "kyber")), 3)
    assert [(call[1], call[3]) for call in cell.models] == [
        ("none", 1), ("kyber", 1), ("kyber", 2), ("none", 2), ("none", 3), ("kyber", 3)
    ]  # fmt: skip
    host = cell.models[0][-1]
    assert (host["page_copy_ns"], host["start_spread_ns"]) == (0, 200_000)


def test_cells_are_texts_or_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    from schedlab.host import control

    class Nobody:
        def __enter__(self) -> str:
            return "control"

        def __exit__(self, *_: object) -> None:
            return None

    calls: list[Any] = []

    def measure(*call: Any) -> list[dict[str, Any]]:
        calls.append(call)
        still = [(1.0, 1.0)]
        return [row("none", f"of {call[1].number}", rate=[(1e6, 1e6)], latency=still)]

    monkeypatch.setattr(control, "Control", Nobody)
    monkeypatch.setattr(kernel_check, "measure", measure)
    report = print
    texts = list(run_cells("2-3", 1.5, 4, 0.25, False, report))
    assert [text.splitlines()[0] for text in texts] == [
        "cell 2: random reads, four tags, in order (random32, 4 tags)",
        "cell 3: random reads, all in a device that sorts (random32, 32 tags)",
    ]
    assert calls[0] == ("control", CHECKS[1], 1.5, 4, 0.25, report)
    (document,) = run_cells("2-3", 1.5, 4, 0.25, True, report)
    parsed = json.loads(document)
    assert parsed["schema"] == 1
    assert [each["process"] for each in parsed["rows"]] == ["of 2", "of 3"]
