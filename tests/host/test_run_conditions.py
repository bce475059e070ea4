"""The conditions of a run: each of these tests fails on a wrong line that no figure would show."""

import dataclasses
from pathlib import Path

import pytest
from test_command_truth import own
from test_true_experiments import BFQ, NONE, bfq_is_there, opened

from schedlab.errors import GateError
from schedlab.host.safety.control import Control
from schedlab.kinds.random_reads import RandomReads
from schedlab.nouns import Workload
from schedlab.run import gates

pytestmark = pytest.mark.usefixtures("root_with_loop", "state")
DIRECT = Workload("direct", "random-reads", "iops", {"seconds": 0.1, "ramp_seconds": 0.0})
CACHED = Workload("cached", "cached-reads", "throughput_bytes_per_s", {"seconds": 0.1})


@pytest.fixture
def settled(monkeypatch):
    """What was waited for: devices and patience of each wait."""
    waits = []

    def settle(devices, settle_s=0.0):
        waits.append((tuple(devices), settle_s))

    monkeypatch.setattr(gates, "settle", settle)
    monkeypatch.setattr(gates, "neighbour_findings", lambda before, after: ())
    return waits


def test_the_cache_is_dropped_exactly_where_a_run_has_one(settled, monkeypatch):
    drops = []
    drop = Control.drop_caches
    monkeypatch.setattr(Control, "drop_caches", lambda self: (drops.append(1), drop(self)))
    devices = set()
    switch = Control.set_scheduler

    def noted(self, device, *values):
        devices.add(Path(device).name)
        return switch(self, device, *values)

    monkeypatch.setattr(Control, "set_scheduler", noted)
    with opened(DIRECT, CACHED) as run:
        for workload, has_cache in ((DIRECT, False), (CACHED, True)):
            drops.clear()
            outcome = run(workload, NONE)
            (device,) = devices
            below = Path(f"/sys/block/{device}/loop/dio").read_text().strip()
            assert bool(drops) is outcome.properties["caches_dropped"]
            assert outcome.properties["caches_dropped"] is (has_cache or below != "1")


def test_a_cache_that_was_not_dropped_ends_the_run(settled, monkeypatch):
    monkeypatch.setattr(Control, "drop_caches", lambda self: None)
    monkeypatch.setattr(gates, "cache_drops", lambda: 7)
    with opened(CACHED) as run, pytest.raises(GateError, match="was not emptied"):
        run(CACHED, NONE)


def test_every_run_waits_for_a_quiet_machine(settled):
    with opened(DIRECT) as run:
        for count in (1, 2):
            run(DIRECT, NONE)
            assert len(settled) == count
    assert all(devices and patience_s > 0 for devices, patience_s in settled)


@pytest.mark.sampled(2)
def test_a_run_is_under_the_scheduler_of_its_cell_and_its_preparation_under_none_of_them(tmp_path):
    """Else a candidate would be prepared under the scheduler of the one before it."""
    with opened(DIRECT):
        bfq_is_there()
    log = tmp_path / "log"
    active = f'sed "s/.*\\[\\(.*\\)\\].*/NAME \\1/" {{}} >> {log}'.replace(
        "{}", "/sys/block/${SCHEDLAB_DEVICE#/dev/}/queue/scheduler"
    )
    runs = own(tmp_path, active.replace("NAME", "run"), blocks=3, anyway=True,
               prepare_run=active.replace("NAME", "prepared"))  # fmt: skip
    lines = [line.split() for line in log.read_text().splitlines()]
    measured = [name for phase, name in lines if phase == "run"]
    assert measured[-len(runs) :] == [each.candidate for each in runs]
    assert {NONE.label, BFQ.label} <= set(measured)
    assert len({name for phase, name in lines if phase == "prepared"}) == 1


@pytest.mark.sampled(2)
def test_a_run_of_ours_is_under_the_scheduler_of_its_cell_and_all_of_it_is_accounted_for(
    settled, monkeypatch
):
    """Another program that switches during the run, and bytes that the device did not see."""
    measure = RandomReads.measure
    active = []

    def under(after):
        def measured(self, target, label, seed):
            file = Path(f"/sys/block/{target.device}/queue/scheduler")
            active.append(file.read_text().partition("[")[2].partition("]")[0])
            return after(file, measure(self, target, label, seed))

        return measured

    def switched(file, outcome):
        file.write_text("mq-deadline" if active[-1] != "mq-deadline" else "none")
        return outcome

    def claimed(file, outcome):
        read, written = outcome.properties["claimed_bytes"]
        facts = {**outcome.properties, "claimed_bytes": [2 * read + (64 << 20), written]}
        return dataclasses.replace(outcome, properties=facts)

    with opened(DIRECT) as run:
        bfq_is_there()
        for change, gate in ((lambda file, outcome: outcome, ""), (switched, "knob-changed"),
                             (claimed, "device-bytes")):  # fmt: skip
            monkeypatch.setattr(RandomReads, "measure", under(change))
            for candidate in (BFQ, NONE):
                outcome = run(DIRECT, candidate)
                assert active[-1] == candidate.label
                found = {each.gate for each in outcome.gates} - {"unsettled"}
                assert found == ({gate} if gate else set())
