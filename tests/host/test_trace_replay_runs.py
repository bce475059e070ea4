"""Replays of recorded loads on real devices: what they send, when, and how like the recording."""

import json
import shutil
import statistics

import pytest
from block_capture import unavailable
from recordings import FLUSH, FUA, SYNC, WRITE, Recorded, recording
from test_records import decoded, facts_of

from schedlab import _core
from schedlab.app.admit import admit
from schedlab.app.compare.comparison import Place
from schedlab.app.compare.own_work import comparison_of
from schedlab.app.trace.block_io import record_device
from schedlab.host.emulated import emulated
from schedlab.host.safety.control import Control
from schedlab.nouns import Cell, Stopping, Workload
from schedlab.run.io.io import open_session

MIB, KIB = 1 << 20, 1 << 10
SERVICE_MS = 4
METRIC = "read_latency_ns_mean"


def replayed(place, trace, out, *, metric=METRIC, **parameters):
    """(a run of a replay, what the device saw of it, how like the recording a rehearsal was)."""
    parameters = {"trace": str(trace), "ramp_seconds": 0.0, "think_limit_ms": 20, **parameters}
    work = Workload("load", "trace-replay", metric, parameters)
    asked = comparison_of(
        place, work, schedulers="none", seed=1, stopping=Stopping(blocks=1), aa_arm=False
    )
    messages = []
    admitted = admit(asked)
    with Control() as control, open_session(admitted, control, messages.append) as session:
        device = session.target.device
        if reason := unavailable(f"/dev/{device}"):
            pytest.skip(reason)
        options = {"device": f"/dev/{device}", "path": str(out), "facts": {"device": "loop"}}
        capture = _core.RecordCapture(json.dumps(options))
        cell = Cell(0, 0, "load", "none", 1)
        run = session.measure(cell, asked.workloads[0], asked.candidates[0])
        capture.finish()
        return run, decoded(out), session.fidelity["load"]


def number(record, at, size=8):
    return int.from_bytes(record[at : at + size], "little")


def test_every_kind_of_request_comes_back_as_it_was(root_with_loop, state, tmp_path):
    """Where, how much, read or written, for somebody or not, with which priority; by two tasks."""
    trace = recording(
        tmp_path / "load.trace",
        [
            Recorded(0, 100, 0, 4 * KIB, ioprio=3 << 13 | 5),
            Recorded(200, 300, MIB, 64 * KIB, WRITE, thread=2),
            Recorded(400, 500, 2 * MIB, 4 * KIB, WRITE, 0, thread=2),
            Recorded(600, 700, 3 * MIB, 4 * KIB, WRITE, SYNC | FUA, thread=2),
            Recorded(800, 900, 0, 0, FLUSH, thread=2),
            Recorded(1000, 1100, 4 * MIB, 12 * KIB, ioprio=3 << 13 | 5),
        ],
    )
    place = Place(scratch_bytes=16 * MIB, scratch_directory=str(tmp_path))
    run, records, fidelity = replayed(place, trace, tmp_path / "seen.trace", seconds=0.5)
    wanted = {
        (0, 4 * KIB, 0), (4 * MIB, 12 * KIB, 0), (MIB, 64 * KIB, 1), (2 * MIB, 4 * KIB, 1),
        (3 * MIB, 4 * KIB, 1),
    }  # fmt: skip
    moving = [r for r in records if number(r, 56, 4)]
    seen = {(number(r, 24) * 512, number(r, 56, 4), number(r, 72, 2)) for r in moving}
    assert seen == wanted
    for record in moving:
        offset, is_sync = number(record, 24) * 512, number(record, 74, 2) & 1
        if number(record, 72, 2) == WRITE:
            assert is_sync == (offset != 2 * MIB)
            assert bool(number(record, 74, 2) & FUA) == (offset == 3 * MIB)
        else:
            assert number(record, 76, 2) == 3 << 13 | 5
    readers = {number(r, 60, 4) for r in moving if number(r, 72, 2) == 0}
    assert len(readers) == 1
    assert readers.isdisjoint(number(r, 60, 4) for r in moving if number(r, 24) * 512 == MIB)
    counts = [sum(number(r, 24) * 512 == at for r in moving) for at in (0, MIB, 3 * MIB)]
    assert min(counts) >= 2 and not run.properties["errors"]  # it is a loop
    sides = [[r for r in moving if number(r, 72, 2) == side] for side in (0, WRITE)]
    moved = [sum(number(r, 56, 4) for r in side) for side in sides]
    for claimed, seen in zip(run.properties["claimed_bytes"], moved, strict=True):
        # A completion that the kernel does not trace is in no recording.
        assert 0.8 * claimed <= seen <= claimed
    # The window ends with the last request in it, on a busy machine some hundredths earlier.
    assert 0 < run.metrics["write_bytes_per_s"] <= 1.5 * claimed / 0.5
    assert fidelity["scheduler"] == "none" and fidelity["rows"]


@pytest.fixture
def slow_model(root_with_loop, needs_fuse, state, tmp_path):
    """A device on which every request takes 4 ms, eight at a time."""
    model = tmp_path / "fixed.toml"
    service = f"service = '{SERVICE_MS}ms'\nservers = 8\nsize = '64m'\n"
    model.write_text(f"model = 'fixed'\n{service}")
    return str(model)


# As in crates/model/src/script.rs: start and end in ms of seven requests.
RECORD = [(0, 2), (1, 2.5), (2, 8), (3, 5), (9, 11), (60, 62), (63, 65)]
# In ms, where each request takes 4: 2 starts at the end of 0, 3 starts 0.5 after the end of 1, 4
# starts 1 after that of 2; 5 keeps its distance of 51 to 4, because 49 after its end are more than
# the limit of 20; 6 follows the end of 5 by 1.
STARTS = {
    "dependent": [0, 1, 4, 5.5, 9, 60, 65],
    "open": [start for start, _ in RECORD],
    # Depths 1, 2, 2, 2, 1, 1, 1.
    "closed": [0, 0, 4, 4, 8, 12, 16],
}


@pytest.mark.machine
@pytest.mark.alone
@pytest.mark.parametrize("timing", STARTS)
def test_every_request_starts_when_it_was_computed_to(slow_model, tmp_path, timing):
    records = [Recorded(1e3 * a, 1e3 * b, n * MIB) for n, (a, b) in enumerate(RECORD)]
    trace = recording(tmp_path / "load.trace", records)
    _, seen, _ = replayed(
        Place(model=slow_model), trace, tmp_path / "seen.trace", seconds=0.8, timing=timing
    )
    seen.sort(key=lambda record: number(record, 0))
    places = [number(record, 24) * 512 // MIB for record in seen]
    laps = [seen[at : at + 7] for at, place in enumerate(places[:-6]) if place == 0]
    starts = {n: [] for n in range(7)}
    for lap in laps:
        for record in lap:
            started_ns = number(record, 0) - number(lap[0], 0)
            starts[number(record, 24) * 512 // MIB].append(started_ns / 1e6)
    medians = [statistics.median(each) for each in starts.values()]
    assert medians == pytest.approx(STARTS[timing], abs=1.0)


FIO = ["--direct=1", "--time_based", "--runtime=2", "--output-format=json"]


def fio(device, out, *jobs):
    if shutil.which("fio") is None:
        pytest.skip("needs fio")
    return ["fio", f"--filename={device}", *FIO, f"--output={out}", *jobs]


@pytest.mark.machine
@pytest.mark.alone
def test_latencies_are_those_of_fio(slow_model, tmp_path):
    with Control() as control:
        device = control.emulated(emulated.Emulation(slow_model)).path
        if reason := unavailable(device):
            pytest.skip(reason)
        job = ("--name=reads", "--rw=randread", "--ioengine=psync", "--rate_iops=100")
        command = fio(device, tmp_path / "fio.json", *job)
        record_device(device, None, command, tmp_path / "load.trace", anonymise=False)
    (seen,) = json.loads((tmp_path / "fio.json").read_text())["jobs"]
    latency = facts_of(tmp_path / "load.trace")["latency_ns"]
    assert latency["p50"] == pytest.approx(
        seen["read"]["clat_ns"]["percentile"]["50.000000"], rel=0.05
    )


@pytest.mark.machine
@pytest.mark.alone
def test_a_load_of_fio_comes_back_like_it_was(new_loop, state, tmp_path):
    device = new_loop(64 * MIB)
    job = (
        "--name=reader", "--rw=randread", "--bs=4k", "--rate_iops=500", "--ioengine=psync",
        "--name=writer", "--rw=randwrite", "--bs=64k", "--rate_iops=200", "--iodepth=4",
        "--ioengine=libaio",
    )  # fmt: skip
    trace = tmp_path / "load.trace"
    record_device(device, None, fio(device, tmp_path / "fio.json", *job), trace, anonymise=False)
    place = Place(scratch_bytes=64 * MIB, scratch_directory=str(tmp_path))
    for timing in ("dependent", "open"):
        run, _, fidelity = replayed(
            place, trace, tmp_path / f"{timing}.trace", seconds=2.0, timing=timing
        )
        assert not run.properties["errors"]
        rates = [row for row in fidelity["rows"] if row["metric"].endswith("bytes_per_s")]
        assert len(rates) == 2 and all(row["is_like"] for row in rates), fidelity
