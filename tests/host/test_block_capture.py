"""The block-layer capture on real devices: counts, times and depths beside the engine's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from giving_up import given_up

from schedlab import _core
from schedlab.errors import HostError, SpecError
from schedlab.run.capture import PARTS, BlockCapture, BlockClass, Capture, mean_ns, unavailable

SPAN = 8 << 20


@pytest.fixture
def device(loop: str) -> str:
    """A loop device of the test's own that can be captured."""
    reason = unavailable(loop)
    if reason:
        pytest.skip(reason)
    return loop


def queue(device: str, name: str) -> Path:
    return Path(f"/sys/block/{Path(device).name}/queue/{name}")


def choose(device: str, scheduler: str) -> None:
    try:
        queue(device, "scheduler").write_text(scheduler)
    except OSError:
        pytest.skip(f"this kernel has no {scheduler}")


def group(device: str, name: str = "reader", depth: int = 1, **keys: Any) -> dict[str, Any]:
    workload = {
        "pattern": {"kind": "random"},
        "direction": {"kind": keys.pop("direction", "read")},
        "record": keys.pop("record", 4096),
        "span": keys.pop("span", SPAN),
        "arrivals": keys.pop("arrivals", {"kind": "closed", "depth": depth}),
        "seed": 3,
    }
    engine = "io_uring" if depth > 1 else "psync"
    load = {"name": name, "path": device, "engine": engine, "direct": True, "workload": workload}
    return load | keys


def captured(
    device: str, seconds: float, *groups: dict[str, Any]
) -> tuple[Capture, dict[str, Any]]:
    """A run of the groups, each a class of the capture; what the capture and the engine say."""
    classes = [BlockClass(item["name"]) for item in groups]
    with BlockCapture(device, classes, seconds_max=30) as capture, given_up(*groups) as given:
        job = {"seconds": seconds, "process": True, "groups": given}
        result = json.loads(_core.run_io_job(json.dumps(job), None, capture.add_ready))
    assert capture.result
    return capture.result, {item["name"]: item for item in result["groups"]}


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "kyber", "bfq"])
def test_counts_and_times_are_those_of_the_engine(device: str, scheduler: str) -> None:
    choose(device, scheduler)
    seen, engine = captured(
        device, 0.6, group(device), group(device, "writer", 8, direction="write", record=65536)
    )
    assert seen.scheduler == scheduler
    # A completion that the kernel does not pass on is counted; it must stay an exception.
    missed = seen.lost["without_completion"]
    assert sum(seen.lost.values()) == missed <= 2 + seen.totals["issued"] // 100, seen.lost
    assert seen.totals["begun_before"] == 0
    reads, writes = seen.of("reader", "read"), seen.of("writer", "write")
    claimed = engine["reader"]["device_bytes_read"]
    assert 0 <= claimed - sum(g.bytes for g in reads) <= missed * 4096
    assert 0 <= claimed // 4096 - sum(g.requests for g in reads) <= missed
    written = engine["writer"]["device_bytes_written"]
    assert 0 <= written - sum(g.bytes for g in writes) <= missed * 262144
    assert seen.totals["issued"] - missed == sum(g.requests for g in seen.groups)
    for one in seen.groups:
        parts = [getattr(one, part) for part in PARTS]
        assert sum(part.sum_ns for part in parts) == one.total.sum_ns
        assert all(part.count == one.requests == one.total.count for part in parts)
    issued = sum(row.reads for row in seen.series["reader"])
    assert issued == sum(g.requests for g in reads)
    if scheduler == "none":
        assert mean_ns(reads, "scheduler") < mean_ns(reads, "total") / 2


def test_the_parts_add_up_to_the_latency_of_the_engine(device: str) -> None:
    """With one long request at a time, beside which the engine's own wake-up is short."""
    record = int(queue(device, "max_sectors_kb").read_text()) * 1024 // 4
    share = 0.0
    for _ in range(8):
        seen, engine = captured(device, 0.5, group(device, record=record))
        worker = engine["reader"]["workers"][0]
        # Time ready but not running is a neighbour's, and in no part of a request.
        waited = (worker["runnable_share"] or 0.0) - worker["cpu_share"]
        if waited > 0.02:
            continue
        requests = seen.of("reader", "read")
        claimed = engine["reader"]["device_bytes_read"] // record
        missed = claimed - sum(g.requests for g in requests)
        assert 0 <= missed <= seen.lost["without_completion"]
        parts = sum(mean_ns(requests, part) for part in PARTS)
        share = parts / engine["reader"]["reads"]["latency"]["mean"]
        assert share < 1.02
        if share > 0.95:
            return
    if not share:
        pytest.skip("the CPUs are too busy: the engine waits for its own wake-up")
    # Known and not explained: the same on a quiet machine. It must not pass for a skipped test.
    pytest.xfail(f"the capture has {share:.1%} of the latency that the engine saw")


def test_a_limit_shows_up_before_the_request(device: str, cgroup: Path) -> None:
    """200 reads/s by io.max or blkio.throttle: what is above the device's own time is the limit."""
    numbers = Path(f"/sys/block/{Path(device).name}/dev").read_text().strip()
    limits = {
        "blkio.throttle.read_iops_device": f"{numbers} 200",
        "io.max": f"{numbers} riops=200",
    }
    for name, value in limits.items():
        if (cgroup / name).exists():
            (cgroup / name).write_text(value)
            break
    else:
        pytest.skip("this cgroup has no limits of I/O")
    seen, engine = captured(device, 1.0, group(device, depth=4, cgroup=str(cgroup)))
    latency = engine["reader"]["reads"]["latency"]["mean"]
    assert 100 <= engine["reader"]["reads"]["operations"] <= 220
    assert latency > 10e6
    mine = seen.of("reader", "read")
    held = mean_ns(mine, "tag") if seen.sees_limits else seen.held_ns_per_request
    assert held > 0.4 * latency
    assert mean_ns(mine, "scheduler") + mean_ns(mine, "device") < 0.6 * latency
    free, _ = captured(device, 0.3, group(device))
    assert free.limits_depth.max == 0


def test_classes_are_told_apart_by_cgroup_and_by_process(device: str, cgroup: Path) -> None:
    with BlockCapture(device, [BlockClass("inside", cgroup=cgroup)]) as capture:
        loads = [group(device, cgroup=str(cgroup), requests=40), group(device, "b", requests=30)]
        _core.run_io_job(json.dumps({"process": True, "groups": loads}))
    assert capture.result
    assert sum(g.requests for g in capture.result.of("inside")) == 40
    assert sum(g.requests for g in capture.result.of("other")) == 30
    with BlockCapture(device, find_classes=True) as capture:
        loads = [group(device, requests=20), group(device, "b", requests=10)]
        result = json.loads(_core.run_io_job(json.dumps({"process": True, "groups": loads})))
    assert capture.result
    ids = {g["workers"][0]["id"]: g["reads"]["operations"] for g in result["groups"]}
    found = {g.process: g.requests for g in capture.result.groups if g.process}
    assert found == ids


def test_merges_are_counted(device: str) -> None:
    """Buffered sequential writing merges; every byte is in some request all the same."""
    choose(device, "mq-deadline")
    with BlockCapture(device) as capture:
        load = group(device, direction="write", direct=False, fsync_at_end=True)
        load["workload"]["pattern"] = {"kind": "sequential"}
        with given_up(load) as given:
            _core.run_io_job(json.dumps({"groups": given}))
    assert capture.result
    written = [g for g in capture.result.groups if g.operation == "write"]
    assert sum(g.bytes for g in written) == SPAN
    merges = capture.result.totals["bio_merges"] + capture.result.totals["request_merges"]
    assert sum(g.requests for g in written) + merges <= SPAN // 4096 + 1
    assert capture.result.lost["without_completion"] <= 1


def test_another_device_is_not_seen(device: str, new_loop: Any) -> None:
    other = new_loop()
    with BlockCapture(device) as capture:
        _core.run_io_job(json.dumps({"groups": [group(other)]}))
    assert capture.result
    assert capture.result.groups == []
    assert capture.result.totals["issued"] == 0


def test_snapshots_grow_and_nothing_is_left_behind(device: str) -> None:
    capture = BlockCapture(device, [BlockClass("reader")])
    before = capture.snapshot()
    _core.run_io_job(json.dumps({"groups": [group(device, requests=25)]}))
    after = capture.snapshot()
    assert (before.totals["issued"], after.totals["issued"]) == (0, 25)
    assert after.elapsed_ns > before.elapsed_ns
    assert capture.finish().totals == after.totals


def test_what_cannot_be_captured_says_why(device: str) -> None:
    with pytest.raises(HostError, match="absent"):
        BlockCapture("/dev/absent")
    with pytest.raises(HostError, match="cgroup"):
        BlockCapture(device, [BlockClass("a", cgroup=Path("/sys/fs/cgroup/absent"))])
    with pytest.raises(SpecError, match="names"):
        BlockCapture(device, [BlockClass("a"), BlockClass("a")])


def test_issued_requests_are_those_of_the_devices_statistics(device: str) -> None:
    """`stat` counts completed requests, whoever made them."""
    stat = Path(f"/sys/block/{Path(device).name}/stat")

    def finished() -> int:
        fields = stat.read_text().split()
        return int(fields[0]) + int(fields[4])

    before = finished()
    seen, _ = captured(device, 0.4, group(device, depth=16), group(device, "w", direction="write"))
    assert finished() - before == seen.totals["issued"]


def test_bfq_raises_the_weight_of_a_new_process_only(device: str) -> None:
    """The transient is in the rate over time on a device that says it rotates, with its cause."""
    choose(device, "bfq")
    queue(device, "rotational").write_text("1")
    writers = [
        group(device, f"w{i}", 16, direction="write", record=65536, workers=1) for i in range(2)
    ]
    for _ in range(3):
        seen, engine = captured(device, 3.0, group(device), *writers)
        assert seen.bfq is not None
        raised = [row.weight_raising for row in seen.bfq["reader"]]
        assert max(raised) > 1
        rates = [row[1] for row in engine["reader"]["series"]["reads"][:30]]
        first, last = max(rates[:10]), sorted(rates[-10:])[5]
        if first > 2 * last and raised[-1] < max(raised):
            return
    pytest.fail(f"no transient: reads per 100 ms {rates}, weight raising {raised}")


HOLDER = """
import sys, time
from schedlab.run.capture import BlockCapture
capture = BlockCapture(sys.argv[1])
print("running", flush=True)
time.sleep(600)
"""


def test_a_killed_owner_leaves_no_program_behind(device: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLDER, device], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout
    assert owner.stdout.readline() == "running\n"
    descriptors = Path(f"/proc/{owner.pid}/fd")
    links = {link: os.readlink(link) for link in descriptors.iterdir()}  # noqa: PTH115
    assert any("bpf" in name for name in links.values())
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 10
    while descriptors.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    captured(device, 0.1, group(device))


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup of the test's own, where limits of I/O are if they are anywhere."""
    name = f"schedlab-capture-{os.getpid()}"
    for root in ("/sys/fs/cgroup/blkio", "/sys/fs/cgroup"):
        place = Path(root) / name
        if not (Path(root) / "cgroup.procs").exists():
            continue
        try:
            place.mkdir()
        except OSError as error:
            pytest.skip(f"needs a cgroup: {error}")
        yield place
        deadline = time.monotonic() + 10
        while place.exists():
            try:
                place.rmdir()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        return
    pytest.skip("needs cgroups")
