"""Of several groups, cleanups, workloads, metrics, claims, lines or disks each counts: rooms that
run commands and look at what a session has."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from calls import refused
from experiments import experiment

from schedlab.errors import HostError
from schedlab.host import devices, queues
from schedlab.host.safety import journal
from schedlab.host.settings import knobs
from schedlab.kinds.command import Command
from schedlab.nouns import Candidate, Workload
from schedlab.nouns.output_metrics import parse_output_metric
from schedlab.nouns.quantities import milliseconds_text
from schedlab.report.bars import since
from schedlab.run.command import phases
from schedlab.run.command.command_runs import CommandRuns
from schedlab.run.command.launch import Ended, WorkGroup
from schedlab.store.bursts import Scheduling
from schedlab.store.process_files import ONLY_SIMULATED
from schedlab_sim import (
    bars,
    checked,
    cpu_schedule,
    cpu_validate,
    decisions,
    device,
    emulated_devices,
    emulator,
    experiments,
    play,
    replay,
    results,
    simulation,
    simulation_set,
    tables,
)
from schedlab_sim.cpu_validate import Stay
from schedlab_sim.fit import disk, flash
from schedlab_sim.predict import predict


def test_what_is_started_joins_every_group():
    group = WorkGroup(None, "command")
    for name in ("a", "b"):
        group.join(Path(f"/sys/fs/cgroup/{name}/work"))
    assert group.files == tuple(f"/sys/fs/cgroup/{name}/work/cgroup.procs" for name in ("a", "b"))


def test_every_cleanup_is_run_and_each_that_fails_is_told(monkeypatch):
    def run_phase(label, kind, name, tokens, standing):
        raise HostError(f"{label}: {name} failed")

    monkeypatch.setattr(phases, "run_phase", run_phase)
    cleaned = []
    control = SimpleNamespace(cleaned=cleaned.append)
    kind, group = SimpleNamespace(phases=lambda: ["cleanup"]), SimpleNamespace(end=lambda: [])
    commands = [(label, kind, {}) for label in ("a", "b")]
    for some, text in ((commands, "a: cleanup failed\nb: cleanup failed"),
                       (commands[1:], "b: cleanup failed")):  # fmt: skip
        with pytest.raises(HostError, match=f"^{text}$"):
            phases.clean_up(control, some, group, group)
    assert cleaned == ["a", "b", "b"]


def test_a_phase_has_no_other_success_than_0(monkeypatch):
    """`ok_exit` is of the command alone."""
    ended = Ended(1.0, 3, None, False, False, b"", b"why")
    monkeypatch.setattr(phases.launch, "launch_of", lambda *_, **more: None)
    monkeypatch.setattr(phases.launch, "run", lambda *_: ended)
    kind = Command(argv=["a"], setup="b", ok_exit=(0, 3))
    with pytest.raises(HostError, match=r"^w: setup 'b' .*3:\nwhy"):
        phases.run_phase("w", kind, "setup", {}, WorkGroup(None, "w"))


def test_each_workload_is_read_by_its_metrics_and_each_metric_has_a_unit_of_its_own(tmp_path):
    runs = CommandRuns.__new__(CommandRuns)
    runs._readers = {}
    ended = Ended(1.0, 0, None, False, False, b"rate 5 MB\ncount 7 calls\n", b"")
    for label, names in (("one", ["rate"]), ("both", ["count", "rate"])):
        metrics = [parse_output_metric(f"{name}:1/s=stdout~{name} ([0-9]+)") for name in names]
        kind = SimpleNamespace(output_metrics=lambda of=metrics: of, output_limit_bytes=1 << 20)
        values, _, findings = runs._values(label, kind, ended, tmp_path, 0.0)
        assert (sorted(values), findings) == (names, [])


def test_every_device_and_knob_that_a_session_claims_is_its_own():
    claims = [["/dev/sda", "/dev/sdb"], ["/proc/sys/vm/dirty_bytes"]]
    entries = tuple({"kind": "claim", "resources": each} for each in claims)
    assert journal.Content(entries, False, ()).claims == {*claims[0], *claims[1]}


def test_a_limit_is_the_line_of_its_device(tmp_path):
    (tmp_path / "io.max").write_text("8:0 rbps=1 wbps=max\n8:16 rbps=2 wbps=max\n")
    read = [knobs.read_value(tmp_path / f"io.max@{number}") for number in ("8:0", "8:16", "8:32")]
    assert read == ["rbps=1 wbps=max", "rbps=2 wbps=max", knobs._WITHOUT_LINE["io.max"]]


def test_all_disks_of_a_file_system_are_below_it(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "CLASS_BLOCK", tmp_path)
    monkeypatch.setattr(devices, "btrfs_members", lambda name: ("sda", "sdb"))
    for name in ("sda", "sdb"):
        (tmp_path / name / "queue").mkdir(parents=True)
        (tmp_path / name / "queue/scheduler").write_text("[none]\n")
    mount = SimpleNamespace(kind="btrfs", number="0:999", source="none")
    assert queues.queues_of(mount) == {"sda", "sdb"}


def test_the_stays_of_each_task_are_bars_with_their_waits_and_ends():
    """Whole quanta are 3, parts of one 2, pauses 1 and the last 4, in order of time."""
    tasks = [{"name": name, "arrival_ns": at, "finish_ns": end, "io": io} for name,
             at, end, io in (("a", 0, 60, []), ("b", 5, 50, [(30, 35), (45, 47)]))]  # fmt: skip
    ran = ((0, 0, 10), (1, 20, 30), (0, 30, 36), (1, 40, 45), (1, 48, 50), (0, 50, 60))
    segments = [{"task": task, "start_ns": start, "end_ns": end} for task, start, end in ran]
    made = bars.schedule_bars("n", {"tasks": tasks, "segments": segments, "quantum_effective": 10})
    assert [made.rows[row] for row in made.row] == [*"ababab"]
    assert made.kind.tolist() == [3, 1, 2, 1, 4, 4]
    assert made.times_ns.T.tolist() == [[0, 0, 10], [5, 20, 30], [10, 30, 36], [35, 40, 45],
                                        [36, 50, 60], [47, 48, 50]]  # fmt: skip
    later = since(made, 10)  # without those that arrived before
    assert later.times_ns[0].tolist() == [0, 25, 26, 37]
    assert [made.rows[row] for row in later.row] == [*"abab"]


def test_settings_of_a_candidate_are_set_beside_those_of_the_workload():
    work = Workload("w", "ssd", "iops", {"policy_set": {"a": 1, "b": 2}, "buffer_bytes": 8,
                                         "device_set": {"x": 3}})  # fmt: skip
    made = experiments.simulation_of(work, Candidate("c", {"policy": "p", "b": 5, "c": 6}), 7)
    assert (made.policy, made.policy_set, made.seed) == ("p", {"a": 1, "b": 5, "c": 6}, 7)
    assert made.device_set == {"x": 3, "buffer.size": 8}


def test_the_rate_of_a_kind_of_process_is_the_mean_of_all_alike():
    rows = [("a", "closed", 10.0, 1.0), ("b", "open", 5.0, 2e6), ("a", "closed", 30.0, 1.0),
            ("b", "open", 5.0, 1e6), ("b", "open", 5.0, None)]  # fmt: skip
    found = checked.rates_of(
        [{"table": table, "arrivals": arrivals} for table, arrivals, *_ in rows],
        [{"iops": iops, "latency_ns_mean": mean_ns} for *_, iops, mean_ns in rows],
    )
    assert found == {"a": 20.0, "b": pytest.approx(1500.001 / 3)}


def test_rounds_are_of_the_same_sectors_in_any_order():
    """Each sector takes its own time, whatever the order."""
    draws = np.random.default_rng(1)

    def timed(places):
        return np.stack([np.zeros(len(places)), places * disk.MS], axis=1)

    reads = SimpleNamespace(places=lambda count: draws.permutation(count) + 1.0, timed=timed,
                            draws=draws)  # fmt: skip
    rounds = disk._rounds(reads)
    assert (rounds == rounds[:, :1]).all() and sorted(rounds[:, 0]) == [*range(24)]


def test_all_is_moved_to_begin_at_the_earliest_of_all():
    stays = [Stay(0, 9, 12, False, None), Stay(1, 12, 15, True, 7), Stay(2, 15, 20, False, None)]
    assert [(each.woken_ns, each.start_ns) for each in cpu_validate._from_0(stays)] == [
        (None, 2), (0, 5), (None, 8)
    ]  # fmt: skip


@pytest.mark.parametrize(("made", "expected"), [
    (lambda: simulation._plain({"a": {"b": [math.inf, 1.0]}, "c": {"d": math.nan}}),
     {"a": {"b": ["inf", 1.0]}, "c": {"d": "nan"}}),
    (lambda: tables._side_by_side("abcdefg"), [[*"abc"], [*"def"], ["g"]]),
    (lambda: [name for name in device.devices() if name not in refused(device.device_text, "x")[1]],
     []),
    (lambda: replay.replay_warnings({"skipped": {"bad": 1, "clock": 0}, "lines": 9, "split": 3,
                                     "changed_share": 0.5})[1:],
     ["50.0% of the requests were moved to fit, 3 of them were split"]),
    (lambda: cpu_schedule.tasks_of({"tasks": None, "processes": 3, "time": "1s"}, False),
     [{"name": name, "bursts": ["1s"]} for name in ("P0", "P1", "P2")]),
    (lambda: predict._judged("abc", {"a": np.array([1.0, 2]), "b": np.zeros(2), "c": np.zeros(2)},
                             True)[0], "b"),
    (lambda: predict.compared(*(SimpleNamespace(load="w", device=name, rates={"r": of}) for name, of
                                in (("a", [1.0, 2]), ("b", [2.0, 8])))).split(", ")[1], "P 75%"),
    (lambda: {*experiments.METRICS_OF["disk"]} ^ {*experiments._metrics_of(SimpleNamespace(
        first=SimpleNamespace(rate=5.0), kind="disk", metric=""), "s")}, set()),
    (lambda: [slept for _, slept in cpu_validate._with_sleeps(
        [Stay(task, 0, 1, of, None) for task, of in zip((0, 1, 0, 1), (1, 0, 1, 1), strict=True)])],
     [False, False, False, True]),
    (lambda: [each["name"] for each in cpu_validate._tasks(
        [Stay(task, task, task + 1, False, None) for task in (0, 1, 2)], {"policy": ""},
        {0: "x", 1: "y"})], ["x", "y", "T2"]),
    (lambda: [(each.task, each.end_ns) for each in cpu_validate.merged(
        [Stay(task, at, at + 1, True, None) for at, task in enumerate((0, 1, 1, 0, 0))])],
     [(0, 1), (1, 3), (0, 5)]),
    (lambda: cpu_validate.CpuValidation("p", 2, tuple(
        cpu_validate.Agreement("n", 1, 1, "", is_close) for is_close in (True, None, False)), 0, ""
    ).is_accepted, False),
    (lambda: results.SimResult.histograms(
        {name: {"response": {"bins": name}} for name in ("read", "write")}, ""), ["read", "write"]),
    (lambda: checked.dies_of({"flash": {"channels": 2, "packages_per_channel": 3,
                                        "dies_per_package": 5}}), 30),
    (lambda: play._Follower({"dispatched_ns": np.array([5, 3, 9]), "index": np.array([2, 0, 1])},
                            None).dispatched, {2: 5, 0: 3, 1: 9}),
    (lambda: disk._angles(SimpleNamespace(
        draws=np.random.default_rng(1), timed=lambda at: np.stack([at, at], axis=1)), 4096).shape,
     (300, 2)),
    (lambda: simulation_set.under(simulation.Simulation(policy_set={"a": 1, "b": 2}), Candidate(
        "c", {"policy": "p", "b": 3, "c": 4, "d": 5})).policy_set,
     {"a": 1, "b": 3, "c": 4, "d": 5}),
    (lambda: [line.split()[4] for line in emulated_devices.kept_lines([SimpleNamespace(
        name="n", line=str, since_s=0, account={"reads": reads, "writes": 7, "late_share": 0.1,
                                                "depth_max": 3}) for reads in (5, 6)])[1::2]],
     ["5", "6"]),
    (lambda: replay.Replay(Path("x"), "f", volumes="v", rate=2.0, think=True, reorder=3).fields(),
     {"trace": Path("x"), "format": "f",
      "trace_set": {"volumes": "v", "rate": 2.0, "think": True, "reorder": 3}}),
    (lambda: [play._of_disk({"index": 7, "operation": 1, "arrival_ns": 2_000_000, "offset_bytes":
                             offset, "length_bytes": 1 << 29}, 9_000_000, 3 << 30, 8 << 30)
              for offset in (1 << 30, 4 << 30)],
     [play.Queued("7", ("write", "1.00 GiB", "-2.00 GiB", "7 ms"), ((0.125, 0.1875),)),
      play.Queued("7", ("write", "4.00 GiB", "+1.00 GiB", "7 ms"), ((0.5, 0.5625),))]),
    (lambda: [cpu_validate._weigh(task := {}, [
        Stay(0, at, end, False, None, Scheduling(0, 0, *of)) for at, end, of in
        ((0, 2, first), (2, 5, (0, 5, 7)), (5, 6, first), (6, 8, (0, 5, 7)))], eevdf) or task
        for first in ((5, 0, 0), (0, 3, 9)) for eevdf in ({"policy": "eevdf"}, {"policy": "rr"})],
     [{"nice": 5, "slice": 7}, {"nice": 5}] * 2),
    (lambda: [predict._not_in_kernel(SimpleNamespace(recording="", processes=[
        {**ONLY_SIMULATED, "weight": 0, "start": 0, "direct": True, **each} for each in rows]))
        for rows in
        (({}, {"weight": 3}, {}), ({}, {}, {"start": 2}), ({}, {"direct": False}), ({}, {}))],
     ["processes with weight", "processes with start", "processes with direct = false", ""]),
    (lambda: {name: of.tolist() for name, of in predict._spread(
        [{"a": 0.1, "b": 0.2}, {"a": 0.3, "b": 0.5}, {"a": 0.7, "b": 0.4}], None).items()},
     {"a": [0.1, 0.3, 0.7], "b": [0.2, 0.5, 0.4]}),
    (lambda: {parts for *_, parts in flash._misfits(np.ones(12))},
     {(c, d, p) for c in range(1, 7) for d in range(1, 7) for p in (1, 2, 4) if c * d * p <= 6}),
    (lambda: [(stay.task, stay.start_ns, stay.end_ns, stay.is_preempted, stay.woken_ns)
              for stay in cpu_validate._simulated([
        Stay(4, 0, 3_000_000, False, 0), Stay(9, 3_000_000, 5_000_000, False, 1_000_000),
        Stay(4, 6_000_000, 8_000_000, False, 6_000_000), Stay(9, 9_000_000, 10_000_000, False,
                                                              9_000_000)], {"policy": "fcfs"})],
     [(4, 0, 3_000_000, False, 0), (9, 3_000_000, 5_000_000, False, 1_000_000),
      (4, 6_000_000, 8_000_000, False, 6_000_000), (9, 9_000_000, 10_000_000, False, 9_000_000)]),
    (lambda: [text[0] for text in decisions.warnings(
        "abc", {"6.1": {"a": {}}, "6.2": {"b": {}, "d": {}}, "7.0": {"c": {}}}, version="6")],
     ["c"]),
])  # fmt: skip
def test_of_several_parts_each_has_its_place(made, expected):
    assert made() == expected


def test_what_a_task_waited_had_and_has_left_is_of_all_its_bursts_and_pauses():
    """It computes 2, 5 and 4 ms, with pauses from 10 to 15 and from 30 to 33."""
    ms = 10**6
    task = {"name": "A", "bursts": [2 * ms, 5 * ms, 5 * ms, 3 * ms, 4 * ms], "priority": 3}
    own = {"arrival_ns": ms, "finish_ns": None, "io": [(10 * ms, 15 * ms), (30 * ms, 33 * ms)]}
    ways = [{way: number, "start_ns": at, "end_ns": at + 2}
            for at, (way, number) in enumerate((("switch", 0), ("task", 1), ("task", 0),
                                                ("switch", 1), ("idle", 0), ("task", 0)))
            ]  # fmt: skip
    made = play._ReadyTask(task, {"tasks": [own], "segments": ways}, 0)
    assert made.runs == [(0, 2), (2, 4), (5, 7)] and made.work == [(2, 4), (5, 7)]
    ran = [{"task": 0, "start_ns": at * ms, "end_ns": end * ms}
           for at, end in ((8, 10), (16, 18), (27, 30))]  # fmt: skip
    one = play._ReadyTask(task, {"tasks": [own], "segments": ran}, 0)
    assert [one.since(at * ms) // ms for at in (5, 15, 20, 40)] == [1, 15, 18, 33]
    assert one.bursts_ns == [2 * ms, 5 * ms, 4 * ms]
    left = [one.waiting(at * ms, 5 * ms).cells[2] for at in (5, 15, 20, 40)]
    assert left == [f"{milliseconds_text(of * ms)} ms" for of in (2, 5, 3, 4)]


def test_every_candidate_that_is_overloaded_is_named_and_each_given_parameter_kept(monkeypatch):
    monkeypatch.setattr(experiments, "_steady", lambda work, of, seed, _: (
        "overloaded" if of.label in "ac" and seed > 1 and work.label == "w" else ""))  # fmt: skip
    asked = experiment(
        candidates=tuple(Candidate(name, {}) for name in "abcd"),
        workloads=tuple(Workload(name, "ssd", "p99_read_ms") for name in "vw"),
    )
    judged, (note,) = experiments.judged_by_rate(asked)
    assert note.startswith("w: a, c overloaded, b, d stable:")
    assert [work.metric for work in judged.workloads] == ["p99_read_ms", "iops"]
    monkeypatch.setattr(simulation.Simulation, "run", lambda self: self)
    made = simulation.run(policy_set={"x": 1}, device_set={"y": 2}, alpha=0.5, flash__z=3)
    assert (made.policy_set, made.device_set) == ({"x": 1, "alpha": 0.5}, {"y": 2, "flash.z": 3})


def test_a_loss_is_expected_of_each_scheduler_and_a_device_leaves_its_group(tmp_path, monkeypatch):
    drawn = {"none": np.linspace(0, 1, 50), "bfq": np.linspace(3, 5, 50)}
    monkeypatch.setattr(checked, "with_errors", lambda *_: drawn)
    monkeypatch.setattr(checked, "losses", lambda rates: rates)
    expected = checked.Expected((), object(), "", 0.0, dict.fromkeys(drawn, ""))
    found = expected.behind({name: {"v": 1.0} for name in drawn})
    assert found == {name: checked.interval_90(of) for name, of in drawn.items()}
    groups = [SimpleNamespace(root=tmp_path / name, is_v2=name == "b") for name in "abc"]
    monkeypatch.setattr(emulator.kernel_paths, "hierarchies", lambda: groups)
    for group in groups:
        group.root.mkdir()
    emulator._leave_the_cgroup()
    assert [*tmp_path.glob("*/cgroup.procs")] == [tmp_path / "b" / "cgroup.procs"]
