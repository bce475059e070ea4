"""The check of the simulated schedulers: its cells, the real load, the rows and their verdict."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from calls import refusals
from experiments import Clock
from kernel_check import (
    USUAL,
    CheckedCell,
    checks_of,
    judged,
    model_run,
    own_checks,
    ranked,
    table,
)
from load_engine import ENDLESS, IN_ORDER, READ, WRITE, work

from schedlab import _core
from schedlab.app.predict import real_load
from schedlab.app.predict.real_load import (
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


def row(scheduler, process="reader", count=1, **pairs):
    """A row of a cell from pairs of (kernel, model) of rate and latency."""
    both = {RATE: pairs["rate"], LATENCY: pairs["latency"]}
    return {"scheduler": scheduler, "process": process, "count": count, **judged(both)}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1", [1]), ("3-5", [3, 4, 5]), (" 2 , 12", [2, 12]), ("7,1-2,2", [1, 2, 7])],
)
def test_cells_are_numbers_and_ranges(text, numbers):
    assert [check.number for check in checks_of(text)] == numbers


def test_cells_that_there_are_not(golden):
    cases = [("1,x",), ("-3",), ("0-1",), ("11-14",)]
    golden("refusals/kernel-check.txt", refusals(checks_of, cases))


def judge(rate, latency):
    return str(judged({RATE: rate, LATENCY: latency})["verdict"])


STILL = [(100.0, 100.0)] * 4


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [
        ([(100, 109)] * 4, "pass"),
        ([(100, 91)] * 2, "pass"),
        ([(100, 111)] * 4, "fails"),
        ([(100, 89)] * 4, "fails"),
        ([(0, 7)] * 4, "fails"),
        # The mean deviation is 5 %, its interval ± 22 %: nothing is known.
        ([(100, 115), (100, 85), (100, 120), (100, 100)], "undecided"),
        # 30 % ± 13 %: outside, whatever the truth.
        ([(100, 130), (100, 140), (100, 120), (100, 130)], "fails"),
        # A single block has no interval.
        ([(100, 100)], "undecided"),
    ],
)
def test_a_row_passes_fails_or_is_undecided(rate, verdict):
    assert judge(rate, [(100.0, 100.0)] * len(rate)) == verdict


def test_either_figure_may_fail_or_be_undecided():
    assert judge(STILL, [(100, 114)] * 4) == "pass"
    assert judge(STILL, [(100, 116)] * 4) == "fails"
    assert judge(STILL, [(100, 60), (100, 140), (100, 90), (100, 110)]) == "undecided"
    assert judge([(100, 130)] * 4, [(100, 60), (100, 140), (100, 90), (100, 110)]) == "fails"


def test_the_interval_is_that_of_the_differences():
    # The differences 10, 30, 10, 30 have the standard deviation 11.547; t of 3 is 3.1824.
    pairs = [(100.0, 110.0), (300.0, 330.0), (100.0, 110.0), (300.0, 330.0)]
    judgement = judged({RATE: pairs, LATENCY: STILL})
    assert judgement[f"deviation_{RATE}"] == pytest.approx(0.1)
    assert judgement[f"deviation_half_width_{RATE}"] == pytest.approx(0.09187, rel=1e-3)


def test_pairs_that_the_kernel_decides_have_an_order_for_each_process():
    def both(kernel, model):
        return [(kernel, model)] * 2

    rows = [
        row("none", "writer", 2, rate=both(100, 100), latency=both(1, 1)),
        row("none", rate=both(10, 10), latency=both(1, 1)),
        row("bfq", "writer", 2, rate=both(50, 60), latency=both(1, 1)),
        row("bfq", rate=both(30, 5), latency=both(1, 1)),
        # Within 10 %, and apart by chance only.
        row("kyber", "writer", 2, rate=both(105, 20), latency=both(1, 1)),
        row("kyber", rate=[(5.0, 10.0), (25.0, 10.0)], latency=both(1, 1)),
    ]
    ranks = {(rank.process, rank.better, rank.worse): rank.agrees for rank in ranked(rows)}
    assert ranks == {
        ("writer", "none", "bfq"): True,
        ("reader", "bfq", "none"): False,
        ("all processes", "none", "bfq"): True,
        ("writer", "kyber", "bfq"): False,
    }


def test_the_table_of_a_cell():
    check = CheckedCell(5, "three sequential readers", "readers3")
    rows = [
        row("none", count=2, rate=[(150e6, 163e6)] * 2, latency=[(2.5e6, 2.4e6)] * 2),
        row("bfq", rate=[(100e6, 80e6), (100e6, 80e6), (110e6, 84e6), (90e6, 76e6)],
            latency=[(4e6, 4e6)] * 4),
    ]  # fmt: skip
    lines = table(check, rows[:1]) + table(replace(check, dilate=10), rows[1:])
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "MB/s    150.00   163.00  +9% ±0%" in text and "pass" in text
    assert "-20% ±8%" in text and "fails" in text and "device 10× slower" in text


def test_processes_of_your_own_are_cells_of_their_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[[process]]\nname = "one"\ndepth = 3\n')
    (check,) = own_checks(str(file), "sata-ssd", 8, "fcfs", "none;bfq:slice_idle=0")
    assert (check.processes, check.device, check.depth) == (str(file), "sata-ssd", 8)
    assert check.schedulers == ("none", "bfq:slice_idle=0")
    assert [spec["name"] for spec in specs_of(str(file))] == ["one"]
    file.write_text('[[process]]\nname = "one"\nthink = "3ms"\n')
    with pytest.raises(SpecError, match="think of one is only simulated"):
        own_checks(str(file), "disk7200", 4, "fcfs", None)
    file.write_text('[[process]]\nname = "mixed"\nread_share = 0.7\n')
    with pytest.raises(SpecError, match="mixed is only simulated"):
        own_checks(str(file), "disk7200", 4, "fcfs", None)
    with pytest.raises(SpecError, match="elevator"):
        own_checks("readers3", "disk7200", 4, "fcfs", "elevator")


def test_the_model_of_a_cell_is_as_slow_as_its_device():
    """A dilated device keeps its scheduler's clock: ten times slower, a tenth of the requests."""
    check = CheckedCell(1, "", "random32", "fcfs", 32, USUAL, "sata-ssd")
    (usual,) = model_run(check, "none", 0.05, 1, {})
    (slow,) = model_run(replace(check, dilate=10), "none", 0.5, 1, {})
    assert slow[RATE] == pytest.approx(usual[RATE] / 10, rel=0.02)
    assert slow[LATENCY] == pytest.approx(10 * usual[LATENCY], rel=0.02)


def test_processes_are_as_many_as_their_preset_counts():
    assert [spec["name"] for spec in specs_of("reader-writers")] == ["reader", "writer", "writer"]
    readers = placed("readers3", 100 * MIB)
    assert [(place.record, place.offset, place.span) for place in readers] == [
        (131072, 0, 266 * 131072),  # a third of 100 MiB is 266 records and a rest
        (131072, 266 * 131072, 266 * 131072),
        (131072, 532 * 131072, 266 * 131072),
    ]
    assert placed("random32", 9000)[0].span == 8192
    assert placed("small-writes", 40960)[1].offset == 20480


def test_direct_processes_become_groups_of_the_engine():
    reader, first, second = groups_of(placed("reader-writers", 6 * MIB), "/dev/x", seed=9)
    assert reader == {
        "name": "reader-0", "path": "/dev/x", "workers": 1, "engine": "io_uring", "direct": True,
        "clock": "completion", "offset": 0, "workload": work(ENDLESS, READ, 4096, 2 * MIB, 1, 9),
    }  # fmt: skip
    assert (first["name"], first["offset"]) == ("writer-1", 2 * MIB)
    assert (second["name"], second["offset"]) == ("writer-2", 4 * MIB)
    assert second["workload"] == work(IN_ORDER, WRITE, 65536, 2 * MIB, 32, 11)
    levels = groups_of(placed("levels", 6 * MIB), "/dev/x", seed=1)
    assert [group["ioprio"] for group in levels] == [
        {"class": "be", "level": level} for level in (0, 4, 7)
    ]
    assert "ioprio" not in reader


def test_a_real_process_is_of_the_class_that_its_file_says(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("".join(f'[[process]]\nioprio = "{name}"\n' for name in ("rt:2", "idle")))
    groups = groups_of(placed(str(file), 6 * MIB), "/dev/x", seed=1)
    assert [tuple(group["ioprio"].values()) for group in groups] == [("rt", 2), ("idle", 0)]


def test_what_a_real_process_cannot_do_is_refused(tmp_path):
    file = tmp_path / "mine.toml"
    for key, value in (("pattern", '"reverse"'), ("read_share", "0.5")):
        file.write_text(f'[[process]]\nname = "one"\n{key} = {value}\n')
        with pytest.raises(SpecError, match=f"{key} of one is only simulated"):
            groups_of(placed(str(file), 6 * MIB), "/dev/x", seed=1)
    for processes, key in (("copy", "background"), ("weights", "weight")):
        with pytest.raises(SpecError, match=f"{processes}: {key} of .* is only simulated"):
            groups_of(placed(processes, 6 * MIB), "/dev/x", seed=1)
    for processes in ("readers3", "random32"):
        with pytest.raises(SpecError, match="buffered processes are sequential"):
            buffered_of(processes, 6 * MIB)


def test_buffered_processes_have_their_own_regions():
    assert is_buffered("copy-buffered")
    assert buffered_of("copy-buffered", 3 * MIB) == [
        BufferedProcess(131072, 0, 12 * 131072, writes=False, fsync_every=0),
        BufferedProcess(131072, 12 * 131072, 12 * 131072, writes=True, fsync_every=256),
    ]


def answer(reads, writes, elapsed_ns):
    """A group of the engine's answer; `reads` and `writes` are (requests, mean latency)."""
    sides = {"reads": reads, "writes": writes}
    return {"elapsed_ns": elapsed_ns} | {
        name: {"latency": {"count": side[0], "mean": side[1]}}
        for name, side in sides.items()
        if side
    }


def test_figures_of_direct_processes(monkeypatch):
    """What is in flight at the end was answered, but not in the time."""
    jobs = []
    groups = [
        {"workload": {"record": 4096, "arrivals": {"depth": 4}}},
        {"workload": {"record": 8192, "arrivals": {"depth": 2}}},
        {"workload": {"record": 512, "arrivals": {"depth": 3}}},
    ]

    def engine(job):
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


def test_nothing_answered_has_no_latency(monkeypatch):
    idle = json.dumps({"groups": [answer((0, None), None, 1_000_000_000)]})
    monkeypatch.setattr(_core, "run_io_job", lambda job: idle)
    group = {"workload": {"record": 512, "arrivals": {"depth": 3}}}
    assert run_direct([group], (1.0, 0.0)) == [{RATE: 0.0, LATENCY: 0.0}]


def test_a_preset_is_run_directly_or_through_the_cache(monkeypatch):
    calls = []
    monkeypatch.setattr(real_load, "run_direct", lambda *call: calls.append(call))
    monkeypatch.setattr(real_load, "run_buffered", lambda *call: calls.append(call))
    run_processes("random32", Path("/dev/x"), 2 * MIB, (1.5, 0.25), 7)
    run_processes("copy-buffered", Path("/dev/x"), 2 * MIB, (1.5, 0.25), 7)
    assert calls == [
        (groups_of(placed("random32", 2 * MIB), "/dev/x", 7), (1.5, 0.25)),
        (Path("/dev/x"), buffered_of("copy-buffered", 2 * MIB), 1.5),
    ]


@pytest.fixture
def region(tmp_path, monkeypatch):
    """A file of eight records, the clock above, and what was synced."""
    monkeypatch.setattr(real_load, "time", Clock(1.0, 99.0))
    file = tmp_path / "region"
    file.write_bytes(bytes(8 * 8192))
    return file


def test_a_writer_goes_round_in_its_region(region, monkeypatch):
    syncs = []
    monkeypatch.setattr(os, "fsync", syncs.append)
    advised = []
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


def test_a_reader_reads_on(region, monkeypatch):
    places = []
    read = os.preadv

    def preadv(file, buffers, place):
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


def test_no_record_in_no_time(region):
    writer = BufferedProcess(4096, 0, 8192, writes=True, fsync_every=0)
    figures = writer.run(region, seconds=1e-9)
    assert (figures[RATE], figures[LATENCY]) == (0.0, 2e9)
