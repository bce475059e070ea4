"""The Python face of the simulator: arrays in, arrays out; the command line on top of it."""

from pathlib import Path

import numpy as np

from schedlab import sim


def test_hand_computed_requests_give_their_times() -> None:
    # Two 2-page reads and a 1-page write on an idle device: 0.04, 0.04 (queued 0.02) and 0.2 ms.
    requests = sim.Requests(
        arrival_ns=np.array([0, 20_000, 500_000]),
        offset_bytes=np.array([0, 8192, 65536]),
        length_bytes=np.array([8192, 8192, 4096]),
        operation=np.array([0, 0, 1]),
    )
    result = sim.run(workload=requests, log=True)
    assert result.log["completed_ns"].tolist() == [40_000, 80_000, 700_000]
    assert result.log["dispatched_ns"].tolist() == [0, 40_000, 500_000]
    assert result.metrics["mean_read_ms"] == 0.05
    assert result.metrics["max_write_ms"] == 0.2
    assert result.report["device"]["busy_ns"] == [280_000]
    assert result.histogram("read")[:, 2].sum() == 2


def test_a_request_waits_outside_a_full_window() -> None:
    # A place in the window is free again when its command is dispatched.
    requests = sim.Requests([0] * 3, [0, 8192, 65536], [8192] * 3, [0] * 3)
    log = sim.run(workload=requests, queue__depth=1, log=True).log
    assert log["dispatched_ns"].tolist() == [0, 40_000, 80_000]
    assert log["admitted_ns"].tolist() == [0, 0, 40_000]


def test_parallel_pages_overlap_and_an_eviction_pays() -> None:
    requests = sim.Requests([0, 0], [0, 4096], [4096, 4096], [0, 0])
    result = sim.run(workload=requests, service="parallel", log=True)
    # Two channels: both take read 0.02 + transfer 0.01 ms, side by side.
    assert result.log["completed_ns"].tolist() == [30_000, 30_000]
    requests = sim.Requests([0, 1_000_000], [0, 4096], [4096, 4096], [1, 1])
    result = sim.run(workload=requests, service="parallel", buffer=4096, log=True)
    # The first write fills the buffer at once; the second waits for its program, 0.21 ms.
    assert result.log["completed_ns"].tolist() == [0, 1_210_000]
    write_only = sim.run(
        workload=sim.Requests([0, 1_000_000], [0, 0], [4096, 4096], [0, 0]),
        service="parallel",
        buffer__keeps="write-only",
    )
    assert write_only.metrics["read_hit_ratio"] == 0.0


def test_a_trim_frees_pages_and_takes_no_time() -> None:
    requests = sim.Requests([0, 10, 20], [0, 0, 0], [8192] * 3, [1, 2, 0])
    result = sim.run(workload=requests, service="parallel", buffer=0, log=True)
    assert result.metrics["trimmed_pages"] == 2
    assert result.log["completed_ns"][result.log["operation"] == 2].tolist() == [10]


def test_arrival_shapes() -> None:
    bursts = sim.Simulation(
        workload_set={"arrivals": {"kind": "bursts", "size": 12}}, requests=1200, log=True
    ).run()
    assert len(np.unique(bursts.log["arrival_ns"])) == 100
    closed = sim.Simulation(
        workload_set={"arrivals": {"kind": "closed", "outstanding": 4}}, requests=500, log=True
    ).run()
    depth, _ = closed.queue_depth
    assert closed.metrics["requests"] == 500
    assert np.max(depth) <= 4.000001
    assert closed.metrics["utilisation"] > 0.99


def test_64_gib_start_at_once() -> None:
    device = _resident_mib()
    result = sim.run(service="parallel", requests=1, workload="randwrite4k")
    assert result.metrics["requests"] == 1
    # The tables of 64 GiB are 128 MiB; untouched they take next to nothing.
    assert _resident_mib() - device < 64


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20
