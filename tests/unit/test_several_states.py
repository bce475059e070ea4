"""Of several captures, waits, guards, records, settings, gates or series each counts: rooms that
add up, keep and restore what they saw."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from test_app_apply import RECORD, state  # noqa: F401
from test_executor import executor, folder  # noqa: F401
from test_live import FAST, SLOW, rated, snapshot

from schedlab.app.apply import applied, undo
from schedlab.app.apply.undo import Drift, Status
from schedlab.host import settings
from schedlab.kinds import Outcome
from schedlab.run.candidate_settings import CandidateSettings
from schedlab.run.durability import Durable, Places, Waits
from schedlab.run.guard_rails import Rails, parse_guard
from schedlab.run.live_figures import Flow, Look, look
from schedlab.spec import Candidate, GateFinding


def test_a_look_is_the_sum_of_all_devices_and_its_age_the_oldest():
    one, both = (look(1.0, [snapshot(30)] * count) for count in (1, 2))
    for name in ("in_flight", "lost", "errors", "held", "gap_sectors", "sectors", "requests"):
        assert getattr(both, name) == 2 * getattr(one, name) > 0, name
    several = snapshot(30)  # both groups have one total
    several["groups"][0]["total"]["bins"] = [[*FAST, 10], [*SLOW, 20]]
    assert look(1.0, [several]).flow("read").bins == {FAST: 20, SLOW: 40}
    ages = {("db", "read"): 5, ("cp", "read"): 9, ("rm", "read"): 7}
    assert Look(ages_ns=ages).age_ns("read") == 9
    assert Flow(3, bins=Counter({(3, 4): 1, (8, 9): 1, (1, 2): 1})).slowest_ns == 10


def test_the_distance_to_a_limit_is_that_of_the_nearest_guard():
    guards = [parse_guard(f"read p99 > {limit}") for limit in ("40ms", "10ms", "20ms")]
    shares = [Rails([guard]).distance(rated(100, 5_000_000)) for guard in guards]
    assert Rails(guards).distance(rated(100, 5_000_000)) == max(shares) == shares[1]


def test_the_longest_wait_and_the_sum_are_of_all_calls():
    calls = {("db", (7, 0), "fsync"): Waits(1, 20, bins=Counter({(20, 29): 1})),
             ("cp", (7, 0), "fsync"): Waits(2, 100, bins=Counter({(40, 59): 2}))}  # fmt: skip
    values, _ = Durable(Places(((7, 0),)), calls, Counter(), Counter()).metrics()
    assert (values["fsync_latency_ns_max"], values["fsync_latency_ns_mean"]) == (59, 40)


def test_the_status_has_every_record_and_every_drift(tmp_path):
    for name in ("sdx", "sdy"):
        applied.store(replace(RECORD, device=name, identity=f"name:{name}"))
    found = undo.status(tmp_path)
    assert [each.record.device for each in found] == ["sdx", "sdy"]
    drift = tuple(Drift(key, "1", "2") for key in ("a", "b"))
    lines = undo.status_lines([Status(each.record, False, "none", drift) for each in found])
    assert [line.partition(":")[0] for line in lines if line[0] != " "] == ["sdx", "sdy"]
    assert lines.count("  a: 1 was set, it is 2") == lines.count("  b: 1 was set, it is 2") == 2


def test_all_settings_of_a_candidate_are_set_and_all_others_put_back(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "SYSCTL", tmp_path)
    (tmp_path / "vm").mkdir()
    for name in "abc":
        (tmp_path / "vm" / name).write_text("0")
    writes = []
    control = SimpleNamespace(write_knob=lambda path, text: writes.append((path.name, text)))
    both = [Candidate("one", {"sysctl.vm.a": 1, "sysctl.vm.b": 1}),
            Candidate("other", {"sysctl.vm.c": 1})]  # fmt: skip
    of = CandidateSettings(control, (), both)
    for candidate, expected in (
        (both[0], [("c", "0"), ("a", "1"), ("b", "1")]),
        (both[1], [("a", "0"), ("b", "0"), ("c", "1")]),
    ):
        writes.clear()
        of.apply(candidate)
        assert writes == expected


@pytest.mark.parametrize("fatal", [(True, False), (False, True)])
def test_a_run_is_discarded_for_any_of_its_gates_and_keeps_all_its_series(folder, fatal):  # noqa: F811
    gates = tuple(GateFinding("device-bytes", "x", each) for each in fatal)
    kept = {"reads": [[1, 1, 1, 1]], "writes": [[2, 2, 2, 2]]}

    def measure(cell, workload, candidate):
        return Outcome({"iops": 1.0}, gates=gates, series=kept, latencies=kept)

    runs = executor(folder)
    runs.session, runs.watch = SimpleNamespace(measure=measure), lambda progress: None
    runs._run_block(runs.blocks[0][:1], 0)
    (*_, run) = folder.runs()
    assert run.status == "discarded"
    assert sorted(run.raw) == [
        f"{what} {name}" for what in ("latencies", "series") for name in kept
    ]
    busy = tuple(GateFinding(name, "x") for name in ("others", "steal"))
    runs.attempts[runs.cells[0].key] = 1
    assert [each.fatal for each in runs._softened(runs.cells[0], busy)] == [False, False]
