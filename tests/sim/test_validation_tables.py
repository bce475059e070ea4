"""Disks and CPU schedules, measured beside simulated: figures by hand, their tables and texts."""

import dataclasses
import itertools

import numpy as np
import pytest
from small_disks import measured_trace, small_disk
from validate_disk import Comparison, Validation, simulation_of, tables, trace_format, validate

from schedlab.errors import Interrupted, SpecError
from schedlab.store import bursts as cpu_bursts
from schedlab_sim import _simulators, cpu_schedule, cpu_validate
from schedlab_sim.cpu_validate import demerit
from schedlab_sim.results import DISK_LOG_DTYPE, NOT_MEASURED
from schedlab_sim.simulation import Simulation

MS = 1_000_000


def test_a_comparison_of_two_samples_by_hand():
    one = Comparison.of(np.array([4.0, 1.0, 3.0, 2.0]), np.array([2.0, 2.0, 2.0, 4.0]))
    assert (one.requests, one.measured_mean_ms, one.simulated_mean_ms) == (4, 2.5, 2.5)
    # Percentiles are linear between the sorted values: the 95th is at 0.95 · 3 from the first.
    assert one.simulated_percentiles_ms == pytest.approx((2.5, 3.85, 3.97))
    assert one.measured_percentiles_ms == pytest.approx((2.0, 3.7, 3.94))
    # Sorted 1, 2, 3, 4 and 2, 2, 2, 4 are 1, 0, 1 and 0 apart.
    assert one.demerit_ms == pytest.approx(np.sqrt(0.5))
    assert one.demerit_share == pytest.approx(np.sqrt(0.5) / 2.5)
    three = Comparison.of(np.array([1.0]), np.array([5.0, 5.0, 8.0]))
    assert (three.requests, three.simulated_mean_ms, three.measured_mean_ms) == (3, 1, 6)
    zero = Comparison.of(np.array([1.0]), np.array([0.0]))
    assert zero.demerit_ms == 1 and np.isnan(zero.demerit_share)
    assert np.isnan(demerit([], [1])) and np.isnan(demerit([1], []))
    assert demerit([5], [1, 1, 1]) == demerit([1, 1, 1], [5]) == 4
    # At 1/8, 3/8, 5/8 and 7/8 the first one is 0, 1, 3 and 4: it has its values at 1/4 and 3/4.
    assert demerit([4, 0], [3, 1, 2, 0]) == pytest.approx(np.sqrt(0.5))


def test_the_tables_of_a_validation(golden):
    parts = {
        "all": Comparison(3, 1.5, 5.0, (2.0, 3.0, 4.25), (6.0, 7.0, 1e5), 0.125, 0.0833),
        "writes": Comparison(1, 9, 13, (10.0, 11.0, 12.0), (14.0, 15.0, 16.0), 2.0, 0.5),
    }
    rows = [
        (7, "read", 512, 4096, "read-hit", 1.25, 100_000.5),
        (12, "write", 1_048_576_000, 512, "write-through", 0.5, 0.25),
    ]
    columns = ["index", "operation", "offset_bytes", "length_bytes", "kind"]
    columns += ["measured_ms", "simulated_ms"]
    worst = tuple(dict(zip(columns, row, strict=True)) for row in rows)
    kinds = {"read-hit": 2, "read-miss": 0, "write-through": 1}
    none = np.array([])
    one = Validation(parts, kinds, worst, none, none, {"trace": {"lines": 3}})
    golden("validation.txt", "\n".join(tables(one)))
    assert one.to_json() == {
        "parts": {name: dataclasses.asdict(part) for name, part in parts.items()},
        "percentiles": [50, 95, 99],
        "kinds": kinds,
        "worst": list(worst),
        "trace": {"lines": 3},
    }


def test_responses_are_compared_request_by_request(tmp_path):
    # As in test_validate.py the first read takes 3.1 ms, each later one of the same sector 0.3 ms.
    errors_us = [0, 10, -20, 30, -40, 50, -60, 70, -80, 90, -100, 110]
    lines = [
        f"R A 2 1 {(3100 if at == 0 else 300) + error} 5000" for at, error in enumerate(errors_us)
    ]
    one = validate(
        simulation_of(small_disk(tmp_path), measured_trace(tmp_path, lines), "fcfs", {}, None)
    )
    assert one.simulated_ms == pytest.approx([3.1, *[0.3] * 11])
    expected = [3.1, *(0.3 + error / 1000 for error in errors_us[1:])]
    assert one.measured_ms == pytest.approx(expected)
    assert set(one.parts) == {"all", "reads"}
    assert one.parts["all"] == one.parts["reads"]
    assert one.parts["all"].measured_mean_ms == pytest.approx((6.4 + 0.06) / 12)
    assert one.kinds == {
        "read-hit": 11, "read-miss": 1, "write-cached": 0, "write-waited": 0, "write-through": 0
    }  # fmt: skip
    assert [row["index"] for row in one.worst] == list(range(11, 1, -1))
    first = one.worst[0]
    assert (first["operation"], first["kind"], first["length_bytes"]) == ("read", "read-hit", 512)
    assert first["offset_bytes"] == 2 * 512
    assert first["measured_ms"] == pytest.approx(0.41)
    assert first["simulated_ms"] == pytest.approx(0.3)


def test_reads_and_writes_are_parts_of_their_own(tmp_path):
    lines = ["R A 2 1 3100 5000", "W A 9 1 1000 5000", "W A 3 2 7000 5000"]
    trace = measured_trace(tmp_path, lines)
    one = validate(simulation_of(small_disk(tmp_path), trace, "fcfs", {}, None))
    assert {name: part.requests for name, part in one.parts.items()} == {
        "all": 3, "reads": 1, "writes": 2
    }  # fmt: skip
    assert one.parts["reads"].measured_mean_ms == pytest.approx(3.1)
    assert one.parts["writes"].measured_mean_ms == pytest.approx(4.0)
    assert one.parts["reads"].demerit_ms == pytest.approx(0)
    shown = {row["index"]: row for row in one.worst}
    assert [shown[at]["operation"] for at in range(3)] == ["read", "write", "write"]
    assert [shown[at]["length_bytes"] for at in range(3)] == [512, 512, 1024]
    two = validate(simulation_of(small_disk(tmp_path), trace, "fcfs", {}, 2))
    assert two.parts["all"].requests == 2


def test_requests_without_a_measured_response_are_not_compared(tmp_path):
    rows = ["1.0,0.002,R,1,0,512", "2.0,,R,1,0,512", "3.0,0.004,R,1,4096,512"]
    (tmp_path / "t").write_text("\n".join(["Timestamp,Response,IOType,LUN,Offset,Size", *rows]))
    one = validate(
        simulation_of(small_disk(tmp_path), f"{tmp_path / 't'}:systor", "fcfs", {}, None)
    )
    assert one.measured_ms == pytest.approx([2, 4])
    assert sorted(row["index"] for row in one.worst) == [0, 2]


@pytest.mark.parametrize(
    ("form", "arrivals", "closed", "think"),
    [
        ("disksim-validate", "trace", False, True),
        ("disksim-validate", "measured", False, False),
        ("disksim-validate", "trace", True, True),
        ("spc", "trace", False, False),
        ("spc", "measured", False, False),
        ("spc", "trace", True, True),
    ],
)
def test_think_times_are_kept_of_a_closed_loop_only(tmp_path, form, arrivals, closed, think):
    path = tmp_path / "t"
    path.write_text("R A 2 1 300 5000\n" if form != "spc" else "0,1,512,r,0\n0,1,512,r,1\n")
    changes = {"rpm": 5400}
    for trace in (f"{path}:{form}", str(path)):
        options = {"arrivals": arrivals, "closed": closed, "skip_bad_lines": True}
        one = simulation_of("disk7200", trace, "sptf", changes, 7, **options)
        known = {"event": "complete", "skip_bad_lines": True, **({"think": True} if think else {})}
        assert one == Simulation(
            device="disk7200", policy="sptf", trace=path, requests=7, device_set=changes,
            format=None if trace == str(path) else form, trace_set=known, log=True,
        )  # fmt: skip


def test_closed_and_measured_arrivals_contradict(tmp_path):
    trace = measured_trace(tmp_path, ["R A 2 1 300 5000"])
    one = {"device": "disk7200", "trace": trace, "policy": "fcfs"}
    with pytest.raises(SpecError, match="--closed and --arrivals measured"):
        simulation_of(**one, device_set={}, requests=None, arrivals="measured", closed=True)
    (tmp_path / "junk").write_text("to be or not to be\n")
    with pytest.raises(SpecError) as caught:
        trace_format(tmp_path / "junk")
    assert caught.value.hint
    assert trace_format(tmp_path / "t.validate") == "disksim-validate"


def test_the_log_of_a_disk_has_a_row_for_each_request_if_asked():
    one = Simulation(device="disk7200", policy="sptf", workload="randwrite4k", depth=4, requests=50)
    figures = dataclasses.replace(one, log=True).run()
    log = figures.log
    assert log.dtype == np.dtype(DISK_LOG_DTYPE) and len(log) == figures["requests"] == 50
    assert sorted(log["index"]) == list(range(50))
    assert set(log["operation"]) == {1} and set(log["length_bytes"]) == {4096}
    assert set(log["measured_ns"]) == {NOT_MEASURED}
    assert (log["arrival_ns"] <= log["dispatched_ns"]).all()
    assert (np.diff(log["completed_ns"].astype(np.int64)) >= 0).all()
    times = (log["completed_ns"] - log["arrival_ns"]).astype(float)
    assert times.max() == figures["latency_ns_max"]
    assert times.mean() == pytest.approx(figures["latency_ns_mean"], rel=1e-6)
    plain = one.run(_simulators.SimStop())
    assert len(plain.log) == 0 and plain.report == figures.report


def test_a_stopped_simulation_of_a_disk_is_interrupted():
    stop = _simulators.SimStop()
    stop.set()
    with pytest.raises(Interrupted):
        Simulation(device="disk7200", requests=10_000_000, depth=32, policy="sptf").run(stop)


Burst = tuple[float, float, int, int]


def bursts(folder, rows, name="bursts.csv"):
    """A file of (end in ms, length in ms, task, preempted)."""
    lines = [f"{round(e * MS)},{round(n * MS)},{task},{flag}" for e, n, task, flag in rows]
    path = folder / name
    path.write_text("\n".join(["end_ns,duration_ns,task,preempted", *lines]) + "\n")
    return path


def in_turn(*stays):
    """Bursts of (task, length in ms, preempted), one after the other."""
    now, rows = 0.0, []
    for task, length, flag in stays:
        now += length
        rows.append((now, length, task, flag))
    return rows


def compared(folder, rows, **settings):
    path = bursts(folder, rows)
    return cpu_validate.validate(path, {"policy": "rr", "quantum": 4 * MS, **settings})


def row_of(validation, name):
    (row,) = [each for each in validation.comparisons if each.name == name]
    return row.measured, row.simulated, row.is_close


def test_stays_are_sorted_begin_at_0_and_join_their_neighbours(tmp_path):
    rows = [(19, 3, 8, 0), (12, 5, 7, 1), (10, 1, 7, 1), (16, 4, 8, 1), (21, 2, 9, 1)]
    path = bursts(tmp_path, [*rows[:2], (7, 2, 7, 0), *rows[3:]])
    assert cpu_validate.read_stays(path) == [
        cpu_validate.Stay(7, 0, 7 * MS, True),  # 5 to 7 and 7 to 12
        cpu_validate.Stay(8, 7 * MS, 14 * MS, False),
        cpu_validate.Stay(9, 14 * MS, 16 * MS, True),
    ]
    one = cpu_validate.Stay(1, 0, 5, True)
    assert cpu_validate.merged([one]) == [one] and cpu_validate.merged([]) == []


def test_wake_ups_part_stays_and_say_who_waited_since_when(tmp_path):
    """Times in ms: 1 sleeps from 6 to 8; 3 is a shell; 2 was there before the capture."""
    rows = [
        (1, 1.01, 3, 0, 0.5),
        (1, 5, 1, 1, 0.5),
        (5, 6, 1, 0, 5.5),  # woken when it was about to sleep, and preempted: it did not sleep
        (6.5, 7.5, 2, 0, 0),
        (9, 10, 1, 0, 8),
        (12, 12.01, 3, 0, 11),
    ]
    text = ",".join(("end_ns,duration_ns,task,preempted", *cpu_bursts.SCHEDULING))
    for start, end, task, flag, woken in rows:
        times = [round(t * MS) for t in (end, end - start)]
        text += "\n" + ",".join(map(str, [*times, task, flag, 0, round(woken * MS), 0, 0, 700_000]))
    path = tmp_path / "bursts.csv"
    path.write_text(text)
    stays = cpu_validate.read_stays(path)
    found = [(s.task, s.start_ns / MS, s.end_ns / MS, s.woken_ns) for s in stays]
    assert found == [
        (3, 0.5, 0.51, 0),
        (1, 0.5, 5.5, 0),
        (2, 6, 7, None),
        (1, 8.5, 9.5, 7.5 * MS),
        (3, 11.5, 11.51, 10.5 * MS),
    ]
    assert cpu_validate._arrivals(stays) == {3: 0, 1: 0, 2: 6 * MS}
    assert cpu_validate._waits(stays) == cpu_validate._waits_after_sleep(stays) == [1, 1]


def test_files_without_bursts_are_refused(tmp_path):
    for text, message in (
        ("end_ns,duration_ns,task,preempted\n", "no bursts"),
        ("end_ns,duration_ns,task\n5,5,1\n", "bursts.csv:2"),
        ("end_ns,duration_ns,task,preempted\n5,5,1,1\n9,x,1,1\n", "bursts.csv:3"),
        ("end_ns,duration_ns,task,preempted\n5\n", "bursts.csv:2"),
    ):
        path = tmp_path / "bursts.csv"
        path.write_text(text)
        with pytest.raises(SpecError, match=message) as caught:
            cpu_validate.read_stays(path)
        assert "schedlab trace cpu --out" in caught.value.hint
    path.write_bytes(b"\xff\xfe")
    for wrong in (path, tmp_path / "missing.csv"):
        with pytest.raises(SpecError, match=wrong.name):
            cpu_validate.read_stays(wrong)


@pytest.mark.parametrize(("until", "first", "stays"), [(10, 0.5, 3), (3, 1, 1)])
def test_a_simulation_may_end_early(tmp_path, until, first, stays):
    turns = in_turn((70, 4, 1), (71, 4, 1), (70, 4, 0), (71, 4, 0))
    one = compared(tmp_path, turns, until=until * MS)
    assert (row_of(one, "share of 70"), one.common_prefix) == ((first, first, True), stays)
    assert row_of(one, "share of 71") == (1 - first, 1 - first, True)


def test_shares_are_those_until_the_first_task_ends(tmp_path):
    # 1, 2 and 1 ms; in turns of 1 ms the two short tasks end at 3 and 4.
    turns = in_turn((5, 1, 0), (6, 2, 0), (7, 1, 0))
    one = compared(tmp_path, turns, policy="fcfs")
    # Up to 1 ms only the first one ran.
    assert row_of(one, "share of 5") == (1, 1, True)
    assert row_of(one, "share of 6") == row_of(one, "share of 7") == (0, 0, True)
    assert one.is_accepted and one.common_prefix == 3
    assert compared(tmp_path, turns, policy="sjf").common_prefix == 1  # 5, 7, 6
    assert [each.name for each in one.comparisons][-1] == "demerit of stays, ms"  # no waits


def test_stays_may_differ_by_a_jiffy(tmp_path):
    turns = in_turn((1, 4, 1), (2, 4, 1), (1, 4, 0), (2, 4, 0))
    for more, expected in (
        ({}, True),
        ({"hz": 250}, True),
        ({"hz": 251}, False),
        ({"hz": 100}, True),
    ):
        one = compared(tmp_path, turns, policy="fcfs", **more)
        assert row_of(one, "median stay, ms") == (4, 8, expected)
        tolerance = next(each.tolerance for each in one.comparisons if "median" in each.name)
        assert tolerance == f"{1000 / more.get('hz', 250):g} ms"
        assert one.common_prefix == 2
        assert not one.is_accepted and one.not_judged == ""


@pytest.mark.parametrize(
    ("turns", "flags", "expected"),
    [(11, 0, True), (11, 1, True), (11, 2, False), (3, 0, True), (3, 1, False)],
)
def test_switches_may_differ_by_a_twentieth(tmp_path, turns, flags, expected):
    """So many turns of 4 ms; `flags` of the two last stays were ended by a preemption as well."""
    stays = [(at % 2, 4, 1) for at in range(2 * turns - 1)]
    for at in range(2):
        stays[-1 - at] = (*stays[-1 - at][:2], int(at < flags))
    one = compared(tmp_path, in_turn(*stays))
    simulated = 2 * turns - 3
    assert row_of(one, "involuntary switches") == (simulated + flags, simulated, expected)


def test_a_task_that_came_later_is_simulated_from_then_on(tmp_path):
    # 3 waited from the start, like 1 and 2; 4 came after 1 had run twice, and before 1's next turn.
    turns = in_turn((1, 4, 1), (2, 4, 0), (3, 4, 0), (1, 4, 1), (4, 4, 0), (1, 4, 0))
    one = compared(tmp_path, turns)
    assert (one.common_prefix, one.is_accepted, one.tasks) == (6, True, 4)
    assert {row_of(one, each.name)[:2] for each in one.comparisons if "demerit" in each.name} == {
        (0, 0)
    }


@pytest.mark.parametrize(
    ("rows", "settings", "reason"),
    [
        (in_turn((2, 4, 1), (1, 4, 1), (2, 4, 0), (1, 4, 0)), {"cpus": 2}, "more than one CPU"),
        (in_turn((2, 4, 0), (1, 4, 0), (2, 4, 0), (1, 4, 0)), {}, "task 1 slept"),
        (in_turn((2, 4, 0), (1, 4, 1), (2, 4, 0), (1, 4, 0)), {"cpus": 1}, "task 2 slept"),
        (in_turn((2, 4, 1), (1, 4, 1), (2, 4, 1), (1, 4, 1)), {}, ""),
        ([(50, 50, 1, 0), (100, 48.1, 2, 0)], {}, ""),
        ([(50, 50, 1, 0), (100, 47.9, 2, 0)], {}, "others had the CPU for 2.1% of the time"),
        ([(50, 50, 1, 0), (100, 52.1, 2, 0)], {}, "others had the CPU for -2.1% of the time"),
        ([(50, 50, 1, 0), (100, 51.9, 2, 0)], {}, ""),
    ],
)
def test_what_cannot_be_judged_is_not_accepted(tmp_path, rows, settings, reason):
    one = compared(tmp_path, rows, **settings)
    assert one.not_judged.startswith(reason) and bool(one.not_judged) == bool(reason)
    last = cpu_validate.lines(one)[-1]
    if reason:
        assert not one.is_accepted and last == f"not judged: {one.not_judged}"
        assert one.as_json()["accepted"] is False
    else:
        assert last == f"accepted: {'yes' if one.is_accepted else 'no'}"


def options(**changes):
    """The options of `sim cpu` as they are without any, but for the changed ones."""
    names = ["tasks", "processes", "time", "calculation", "hz", "kernel", "seed"]
    names += ["to_ns", "width", "measured", "bursts"]
    plain = {"policy": "rr", "quantum": 4 * MS, "cpus": 1, "switch_cost": 0}
    more = {"set": (), "gantt": None, "from_ns": 0, "quiz": False}
    return {**dict.fromkeys(names), **plain, **more, **changes}


def test_settings_are_the_options_that_were_given():
    always = {"quantum": 4 * MS, "cpus": 1, "switch_cost": 0}
    assert cpu_schedule.settings_of("rr", options()) == {**always, "policy": "rr"}
    more = {"hz": 250, "seed": 7, "kernel": "6.6"}
    features = (" eevdf.a = true ", "cfs.b=false", "eevdf.c=x=y")
    features += ("priority.aging=5us", "mlfq.levels = 2", "mlfq.boost=6ms", "cfs.latency=1ns")
    features += ("cfs.wakeup_granularity=8ns",)
    one = options(time=9, calculation=10, set=features, **more)
    assert cpu_schedule.settings_of("eevdf", one) == {
        **always, **more, "policy": "eevdf", "until": 9, "calculation_ns": 10.0,
        "eevdf": {"a": True, "c": "x=y"}, "cfs": {"b": False},
        "aging": 5000, "levels": 2, "boost": 6 * MS, "latency": 1, "wakeup_granularity": 8,
    }  # fmt: skip
    for text in ("mlfq.levels=x", "mlfq.boost=x", "mlfq.levels=-1"):
        with pytest.raises(SpecError):
            cpu_schedule.settings_of("mlfq", options(set=(text,)))
    for text in ("eevdf.a", "eevdf=1", "rr.a=1", ".a=1", "a", "rr.levels=1", "mlfq.aging=1ms"):
        with pytest.raises(SpecError, match=r"expected POLICY\.KEY=VALUE"):
            cpu_schedule.settings_of("eevdf", options(set=(text,)))
    assert cpu_schedule.parse_time("4ms") == 4 * MS
    with pytest.raises(SpecError):
        cpu_schedule.parse_time("soon")


def test_processes_are_equal_tasks():
    def tasks(**changes):
        return cpu_schedule.tasks_of(options(**changes), is_quiz=False)

    assert tasks(processes=1, time=9) == [{"name": "P0", "bursts": [9]}]
    assert [task["name"] for task in tasks(processes=3, time=9)] == ["P0", "P1", "P2"]
    for wrong in (0, -1):
        with pytest.raises(SpecError, match=f"--processes = {wrong}"):
            tasks(processes=wrong, time=9)
    for both in ({"processes": 1, "tasks": "A:0:1", "time": 9}, {"processes": 1}, {}):
        with pytest.raises(SpecError):
            tasks(**both)


def test_files_of_tasks_hold_nothing_but_tasks(tmp_path):
    path = tmp_path / "tasks.toml"
    for text, message in (
        ('[[task]]\nname = "A"\n[more]\n', "unknown key 'more'"),
        ("", r"no \[\[task\]\]"),
        ("task = 3\n", r"no \[\[task\]\]"),
        ("task = [1, {}]\n", r"no \[\[task\]\]"),
        ('[[task]]\nname = "A"\nbursts = ["1ms"]\n[[task]]\nname = "B"\n', "2 has no bursts"),
        ('[[task]]\nname = "A"\nbursts = ["1ms"]\n[[task]]\nbursts = ["1ms"]\n', "2 has no name"),
    ):
        path.write_text(text)
        with pytest.raises(SpecError, match=message):
            cpu_schedule.tasks_of(options(tasks=str(path)), is_quiz=False)


def test_a_quiz_has_three_to_five_small_tasks():
    numbers, gaps, lengths, levels = set(), set(), set(), set()
    for seed in range(150):
        tasks = cpu_schedule.document(options(quiz=True, seed=seed))["tasks"]
        arrivals = [task["arrival"] // MS for task in tasks]
        numbers.add(len(tasks))
        gaps |= {later - sooner for sooner, later in itertools.pairwise(arrivals)}
        lengths |= {length // MS for task in tasks for length in task["bursts"]}
        levels |= {task["priority"] for task in tasks}
        assert arrivals[0] == 0 and {len(task["bursts"]) for task in tasks} == {1}
        assert "".join(task["name"] for task in tasks) == "ABCDE"[: len(tasks)]
    tasks = cpu_schedule.document(options(quiz=True, seed=7))["tasks"]
    shorts = [(task["name"], task["arrival"] // MS, task["priority"]) for task in tasks]
    assert shorts == [("A", 0, 4), ("B", 0, 1), ("C", 2, 2), ("D", 2, 4)]  # as ever
    found = [sorted(values) for values in (numbers, gaps, lengths, levels)]
    assert found == [[3, 4, 5], [*range(5)], [*range(1, 10)], [1, 2, 3, 4]]


def test_a_quiz_shows_its_tasks_and_commands_that_take_them(tmp_path, golden):
    path = tmp_path / "tasks.toml"
    path.write_text(
        '[[task]]\nname = "A"\narrival = "500ns"\nbursts = ["1500us", "2ms", "100ms"]\n'
        "priority = 2\nnice = -3\nweight = 7\n"
        '[[task]]\nname = "BC"\nbursts = ["1ns"]\nslice = "2500us"\n'
    )
    keys = ("cfs.sleepers=true", "priority.aging=4ns", "mlfq.levels=3", "mlfq.boost=5ns")
    chosen = options(
        quiz=True, seed=1, tasks=str(path), quantum=MS // 2, cpus=2, set=keys, switch_cost=3,
        time=6, hz=100, kernel="6.6", calculation=9, policy="rr,cfs",
    )  # fmt: skip
    lines = cpu_schedule.shown(chosen)
    golden("quiz.txt", "\n".join(lines))
    document = cpu_schedule.document(chosen)
    assert (document["seed"], document["schema"]) == (1, 1)
    assert document["find"] == ("turnaround", "waiting", "response")
    tail = lines[lines.index("Answers:") + 1 :]
    assert [line.strip() for line in tail] == list(document["reveal"].values())


def test_without_a_seed_a_quiz_draws_one_and_a_simulation_has_1():
    seeds = {cpu_schedule.document(options(quiz=True))["seed"] for _ in range(20)}
    assert len(seeds) > 15 and all(1 <= seed < 100_000 for seed in seeds)
    plain, one, two = (
        cpu_schedule.document(options(policy="lottery", processes=3, time=100 * MS, seed=seed))
        for seed in (None, 1, 2)
    )
    assert plain == one and plain["schema"] == 1 and plain["results"] != two["results"]


def test_the_seed_of_a_lottery_is_that_of_the_options(tmp_path):
    path = str(bursts(tmp_path, in_turn(*((at % 3, 4, 1) for at in range(90)))))
    one = [cpu_validate.checked(options(policy="lottery", bursts=path, seed=seed), as_json=False)
           for seed in (None, 1, 5)]  # fmt: skip
    assert one[0] == one[1] != one[2]
