"""Of several runs, sessions, cells, settings, tasks or seeds each counts: rooms that plan,
simulate and store."""

import json
import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import load_engine
import pytest
from experiments import experiment, run_of

from schedlab.design.boots import BootKind, plan_boots
from schedlab.design.grid import expanded
from schedlab.design.plan import make_plan
from schedlab.design.planning import PilotRun, _pooled_variance
from schedlab.errors import SpecError
from schedlab.kinds import traits, typed
from schedlab.kinds.file_access import outcome_of
from schedlab.kinds.traits import parameters_of, with_traits
from schedlab.nouns import (
    AA_SUFFIX,
    Candidate,
    Cell,
    Metric,
    Plan,
    Record,
    Stopping,
    Workload,
    convert,
)
from schedlab.nouns.durability import Chain
from schedlab.nouns.printable import all_printable
from schedlab.store import bursts as cpu_bursts
from schedlab.store import files, history, table
from schedlab.store.exporters import fio as exported_fio
from schedlab.store.folder import Folder
from schedlab.store.importers import imported, iozone
from schedlab.store.importers.distinct import tell_apart
from schedlab.store.importers.imported import Options, Reading, assemble
from schedlab.store.importers.tables import Decimals
from schedlab.store.process_files import is_buffered, processes_of
from schedlab_sim import cpu_schedule, cpu_validate, pool, tables
from schedlab_sim.checked import CheckedLoad, Features, features_of, losses, stored
from schedlab_sim.cpu_validate import Stay
from schedlab_sim.judge import PARAMETERS, refuse_idle_parameters
from schedlab_sim.simulation import NEEDS, refuse_idle

ORDERS = [(0, 1), (1, 0)]


def record_of(*runs, **changes):
    return Record(experiment(**changes), Plan(()), tuple(runs))


def cell(block, workload="w", candidate="none"):
    return Cell(block, 10 * block, workload, candidate, 1)


def test_every_cell_that_failed_three_times_is_missing():
    def failed(at, times):
        return [run_of(at, {}, status="discarded", attempt=n) for n in range(times)]

    keys = [(0, "v", "none"), (0, "w", "bfq"), (1, "v", "bfq"), (2, "w", "none")]
    runs = [run for key in keys for run in failed(cell(*key), 3)]
    runs += [*failed(cell(3), 2), *failed(cell(4), 3), run_of(cell(4), {"iops": 1.0}, attempt=3)]
    assert record_of(*runs).missing_cells == tuple(keys)


def test_every_text_at_any_depth_is_printable():
    value = {"a\x1b": ["b\x1b", ["c\x1b", {"d": "e\x07", "f\x07": 1}]], "g": "h\x1b"}
    assert all_printable(value) == {
        "a\\x1b": ["b\\x1b", ["c\\x1b", {"d": "e\\x07", "f\\x07": 1}]], "g": "h\\x1b"
    }  # fmt: skip


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("wrong", [[], 3])
def test_every_key_of_a_grid_has_values(at, wrong):
    grid = {key: [1, 2] for key in "abc"}
    grid["abc"[at]] = wrong
    with pytest.raises(SpecError, match=f"grid.{'abc'[at]} = "):
        expanded({"grid": grid}, "parameters", "x")


@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_name_of_every_boot_is_checked(at):
    kinds = [BootKind(label, "6.1") for label in "abc"]
    kinds[at] = BootKind("x" * 500, "6.1")
    with pytest.raises(SpecError, match="boot"):
        plan_boots(experiment(kind="cpu", stopping=Stopping(blocks=2)), kinds, 2, "ro")


def pilot(workload, candidate, log, bins=(), **more):
    fields = {"overhead_s": 1.0, "measured_s": 2.0, "shortest_s": 0.5} | more
    return PilotRun(workload=workload, candidate=candidate, log_value=log, bins=bins, **fields)


@pytest.mark.parametrize("order", ORDERS)
def test_the_variance_of_a_pilot_is_that_of_all_its_pairs(order):
    pairs = [[pilot("v", "none", 1.0), pilot("v", "none" + AA_SUFFIX, 1.2)],
             [pilot("w", "none", 1.0), pilot("w", "none" + AA_SUFFIX, 1.6)]]  # fmt: skip
    runs = [run for at in order for run in pairs[at]]
    assert _pooled_variance(runs) == (pytest.approx((0.02 + 0.18) / 2), 2)
    assert _pooled_variance(runs[::-1]) == (pytest.approx(0.1), 2)
    for last in pairs:  # wherever the arm of the baseline is
        runs = [pilot("x", name, value) for name, value in (("none", 0.0), ("bfq", 9.0))] + last
        assert _pooled_variance(runs)[1] == 1


@pytest.mark.parametrize("order", ORDERS)
def test_a_metric_is_as_fine_as_the_finest_run_and_a_quantile_counts_where_all_have_no_mean(order):
    runs = [run_of(cell(0), {"iops": 1.0}, properties={"steps": {"iops": 0.5}}),
            run_of(cell(1), {"iops": 1.0}, properties={"steps": {"iops": 0.1}})]  # fmt: skip
    assert table._step([runs[at] for at in order], "iops") == 0.1
    runs.append(run_of(cell(2), {"iops": 1.0}))
    assert table._step(runs, "iops") == table._step(runs[::-1], "iops") == 0.0
    work = Workload("w", "x", "latency_ns_p99")
    mean, quantile = "latency_ns_mean", "latency_ns_p99"
    bounded = {"bounds": {quantile: "at-least"}}
    runs = [run_of(cell(0), {mean: 1.0, quantile: 2.0}, **bounded),
            run_of(cell(1), {quantile: 2.0}, **bounded)]  # fmt: skip
    record = record_of(*(runs[at] for at in order), workloads=(work,))
    assert table._deciding(record, work) == quantile
    runs[1] = run_of(cell(1), {mean: 1.0, quantile: 2.0})
    record = record_of(*(runs[at] for at in order), workloads=(work,))
    assert table._deciding(record, work) == mean


def test_every_workload_has_its_traits_and_every_pair_its_parameters():
    works = tuple(Workload(name, "file-test", "iops", {"direct": direct, "record_bytes": size})
                  for name, direct, size in (("u", False, 512), ("v", True, 1024),
                                             ("w", False, 2048), ("x", True, 4096)))  # fmt: skip
    runs = [run_of(cell(0, work.label, name), {"iops": 1.0})
            for work in works for name in ("none", "bfq")]  # fmt: skip
    candidates = tuple(Candidate(name, {"workload.record_bytes": 7} if name == "bfq" else {})
                       for name in ("none", "bfq"))  # fmt: skip
    record = with_traits(record_of(*runs, workloads=works, candidates=candidates))
    assert record.buffered == {"u", "w"} and record.unordered == {"v", "x"}
    found = parameters_of(record)
    assert {key: of["record_bytes"] for key, of in found.items()} == {
        (work.label, name): 7 if name == "bfq" else work.parameters["record_bytes"]
        for work in works for name in ("none", "bfq")
    }  # fmt: skip


def test_sessions_of_all_results_beside_it_count_for_all_their_workloads(tmp_path):
    works = tuple(Workload(name, "file-test", "iops", {"record_bytes": size})
                  for name, size in (("v", 512), ("w", 1024)))  # fmt: skip
    facts = {"kernel": {"release": "6.1"}, "cpu": {"model": "c"}}
    made = []
    for number, name in enumerate(("a", "b", "c", "d")):
        asked = experiment(workloads=works, aa_arm=False, stopping=Stopping(blocks=2))
        host = {**facts, "cpu": {"model": "other"}} if name == "d" else facts
        folder = Folder.create(tmp_path / name, asked, make_plan(asked), host)
        for each in folder.plan.cells:
            value = math.exp(number + (each.workload == "w") + each.block)
            folder.append(run_of(each, {"iops": value}, session=f"s{each.block}"))
        made.append(folder)
    found = history.history(made[0], made[0].record())
    for work, more in (("v", 0), ("w", 1)):
        means = {(each.result, each.name): each.means["none"] for each in found[work]}
        assert means == {
            (name, f"s{block}"): pytest.approx(number + more + block)
            for number, name in enumerate(("", "b", "c")) for block in range(2)
        }  # fmt: skip


def test_every_missing_directory_is_made_and_is_the_users(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(files, "_give_directory", lambda name, above: given.append(name))
    files.make_directory(tmp_path / "a" / "b" / "c")
    assert given == ["a", "b", "c"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_candidate_with_two_disks_or_programs_has_a_workload_for_each(order):
    of = [("none", "a", "x"), ("none", "b", "x"), ("bfq", "a", "x"), ("bfq", "a", "y")]
    readings = [reading("p", name, "w", subject=disk, program=by) for name, disk, by in of[::order]]
    told, notes = tell_apart(readings)
    assert [each.workload for each in told] == [f"w of {d} by {p}" for _, d, p in of[::order]]
    assert notes == []


def reading(place, candidate, workload, **more):
    return Reading(place, candidate, workload, {"iops": 1.0}, **more)


def test_an_import_names_all_candidates_workloads_and_notes(tmp_path):
    names = ("none", "bfq", "none", "bfq")
    rows = [reading("p", name, work) for work in ("v", "w") for name in names]
    made = assemble(rows, Options(notes=("n1", "n2")), {"format": "x", "file": "y"})
    shown = made.as_json(tmp_path)
    assert (shown["candidates"], shown["workloads"]) == (["none", "bfq"], ["v", "w"])
    assert shown["notes"] == ["n1", "n2"]
    assert made.lines(tmp_path)[1:] == ["note: n1", "note: n2"]
    orders = {"v": "aabb", "w": "abab"}
    for order in ("vw", "wv"):
        rows = [reading("p", name, work) for work in order for name in orders[work]]
        assert imported._notes(rows) == []
    assert len(imported._notes([reading("p", name, work) for work in "vw" for name in "aabb"])) == 1


def test_a_later_row_may_be_the_one_that_is_there_twice():
    rows = [reading("p0", "a", "w", block="1"), reading("p1", "b", "w", block="1"),
            reading("p2", "b", "w", block="1")]  # fmt: skip
    with pytest.raises(SpecError, match=r"p2: b, w, repetition .* is already in p1"):
        assemble(rows, Options(), {"format": "x", "file": "y"})


def test_candidates_that_differ_in_a_later_option_are_told_apart():
    rows = [reading("p", "a", "w", options={"bs": "4k", "rw": way, "depth": depth})
            for way, depth in (("read", "1"), ("write", "1"), ("read", "2"))]  # fmt: skip
    made = assemble(rows, Options(), {"format": "x", "file": "y"})
    assert [work.label for work in made.experiment.workloads] == [
        "w (rw=read, depth=1)", "w (rw=write, depth=1)", "w (rw=read, depth=2)"
    ]  # fmt: skip


def test_any_figure_may_show_what_a_comma_is():
    for texts in (["1,234", "1.5"], ["1.5", "1,234"]):
        assert Decimals([(f"p{at}", text) for at, text in enumerate(texts)], {})._sign == "."
    for texts in (["1.5", "1,5"], ["1,25", "2", "1.25"]):
        with pytest.raises(SpecError, match="decimal commas"):
            Decimals([(f"p{at}", text) for at, text in enumerate(texts)], {})


def stay(task, start_ms, end_ms, preempted=True, woken_ms=None):
    woken_ns = None if woken_ms is None else woken_ms * 10**6
    return Stay(task, start_ms * 10**6, end_ms * 10**6, preempted, woken_ns)


def test_waits_and_lengths_are_those_of_all_stays_of_all_tasks():
    stays = [stay(0, 0, 2), stay(1, 2, 5), stay(0, 5, 6), stay(1, 9, 10, woken_ms=7),
             stay(0, 11, 12, woken_ms=10)]  # fmt: skip
    assert cpu_validate._lengths(stays) == [2, 3, 1, 1, 1]
    assert sorted(cpu_validate._waits(stays)) == [1, 2, 3]
    assert sorted(cpu_validate._waits_after_sleep(stays)) == [1, 2]
    assert cpu_validate._waits([stay(2, *of) for of in ((0, 2), (5, 6), (9, 10))]) == [3, 3]
    assert cpu_validate._share(stays, 0, 11 * 10**6) == pytest.approx(3 / 7)


def test_a_table_of_bursts_has_every_one_and_what_all_of_them_know():
    known = (4, 5, 6)
    bursts = [(1, 2, 0, True, known), (3, 4, 1, False, known)]
    assert len(cpu_bursts.as_csv(bursts).splitlines()[2].split(",")) == 7
    for lost in range(2):
        one = [(*b[:4], None if at == lost else known) for at, b in enumerate(bursts)]
        assert [len(line.split(",")) for line in cpu_bursts.as_csv(one).splitlines()] == [4, 4, 4]


@pytest.mark.parametrize("at", range(len(cpu_schedule.OF_CHART)))
def test_no_option_of_a_chart_is_taken_without_one(at):
    options = dict.fromkeys(cpu_schedule.OF_CHART) | {"gantt": None, "quiz": False}
    options[cpu_schedule.OF_CHART[at]] = 5
    with pytest.raises(SpecError, match="without --gantt"):
        cpu_schedule.inputs(options)


@pytest.mark.parametrize("text", ["task = [{name='a', bursts=['1ms']}, 3]", "task = [3]"])
def test_every_task_of_a_file_is_a_table(tmp_path, text):
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(SpecError, match=r"no \[\[task\]\]"):
        cpu_schedule._tasks_from_file(tmp_path / "x.toml")


def test_every_parameter_and_every_policy_is_looked_at():
    owners = [name for name, own in PARAMETERS.items() if "bundle_pages" in own]
    assert len(owners) > 1
    for name in owners:
        for policies in (["fcfs", name], [name, "fcfs"]):
            refuse_idle_parameters({"--bundle": "bundle_pages"}, policies)
    typed = {"--bundle": "bundle_pages", "--read": "read_limit"}
    with pytest.raises(SpecError, match="--read would change nothing under irbw-fifo") as refused:
        refuse_idle_parameters(typed, ["irbw-fifo"])
    with pytest.raises(SpecError) as refused:
        refuse_idle_parameters({"--bundle": "bundle_pages"}, ["fcfs"])
    assert refused.value.hint.endswith(", ".join(owners))


def test_features_and_losses_are_those_of_all_processes_rows_and_schedulers():
    changes = [{"depth": 1}, {"depth": 3, "read_share": 0.5, "pattern": "sequential"}]
    plain, late = processes_of({"process": changes})
    for pair in ([plain, late], [late, plain]):
        found = features_of(pair, 4, rotational=True)
        assert (found.writes, found.sequential) == pytest.approx((0.375, 0.75))
        assert found.processes == 2 and not found.classes
    for other in ({"ioprio": "be:0"}, {"weight": 3}):
        for pair in ([plain, plain | other], [plain | other, plain]):
            assert features_of(pair, 4, rotational=True).classes
        assert features_of([plain | {"weight": 3}] * 2, 4, rotational=True).classes
    rates = {"a": {"x": 8.0, "y": 1.0}, "b": {"x": 1.0, "y": 4.0}, "c": {"x": 8.0, "y": 4.0}}
    assert losses(rates) == pytest.approx({"a": math.log(4), "b": math.log(8), "c": 0.0})
    assert set(losses({"a": {"x": 1.0, "y": 0.0}, "b": {"x": 1.0, "y": 0.0}}).values()) == {0.0}
    cells = [CheckedLoad(name, found, {"a": 1.0}, {"a": 2.0}) for name in "xyz"]
    text = json.loads(stored(cells, {"kernel": "6.1", "date": "d"}))
    assert [each["name"] for each in text["cells"]] == ["x", "y", "z"]
    assert text["measured"] == {"kernel": "6.1", "date": "d"} and isinstance(found, Features)


@pytest.mark.parametrize("order", ORDERS)
def test_policies_in_python_run_in_processes_wherever_they_are(monkeypatch, order):
    class Pool:
        def map(self, work, simulations):
            return ["in a process" for _ in simulations]

    made = [SimpleNamespace(policy="x.py", run=lambda stop=None: 1),
            SimpleNamespace(policy="fcfs", run=lambda stop=None: 2)]  # fmt: skip
    monkeypatch.setattr(pool, "processes", lambda: nullcontext(Pool()))
    monkeypatch.setattr(pool, "is_policy_file", lambda name: name == "x.py")
    assert pool.run_threads([made[at] for at in order]) == ["in a process"] * 2
    assert pool.run_threads([made[1]] * 2) == [2, 2]


def test_a_table_of_policies_is_of_all_seeds():
    runs = [{"policy": name, "iops": value} for name, values in (("a", (1, 3)), ("b", (2, 10)))
            for value in values]  # fmt: skip
    for column in tables.DISK_COLUMNS.values():
        for values in ((1.0, None), (None, 1.0)):
            both = iter(values)
            assert tables._mean([{}, {}], column[0], lambda run, of=both: next(of)) == "-"
    known = iter((1.0, 3.0))
    assert tables._mean([{}, {}], ".1f", lambda run: next(known)) == "2.0"
    columns = {"iops": (".1f", lambda run: run["iops"])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "DISK_COLUMNS", columns)
        rows = [line.split() for line in tables.disk_table(runs, 2)]
    assert rows == [["policy", "iops", "ratio"], ["a", "2.0", "1.00"], ["b", "6.0", "3.00"]]


def test_the_reason_of_waits_is_who_wrote_most_of_all():
    for order in (1, -1):
        written = dict([("cp", 3), ("dd", 5), ("", 1), ("ext4lazyinit", 90)][::order])
        chain = Chain(1, 1.0, 1.0, 1.0, written)
        assert chain.front == ("dd", pytest.approx(5 / 9))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_every_key_of_a_table_is_known_and_built(at):
    for kinds in ((int, str), (str, int)):
        assert convert._build_union(list(kinds), "3", "x") == "3"
        assert convert._build_union(list(kinds), 3, "x") == 3
    value = {"a": {"b": [1, {"c": 2}]}, "d": 3, "e": 4}
    assert convert._any(value, "x") == value
    fields = {"name": "n", "unit": "u", "higher_is_better": True, "title": "t"}
    missing = ("name", "unit", "higher_is_better")[at]
    with pytest.raises(SpecError, match=f"key '{missing}' is missing"):
        convert.convert(Metric, {k: v for k, v in fields.items() if k != missing}, "x")
    assert convert.convert(Metric, fields, "x") == Metric("n", "u", True, "t")


def test_an_option_that_needs_one_of_several_is_taken_with_any_of_them():
    name, several = next((key, of) for key, of in NEEDS.items() if len(of) > 1)
    for needs in several:
        refuse_idle({"--x": name}, {*needs})
    with pytest.raises(SpecError) as refused:
        refuse_idle({"--x": name}, set())
    assert all(need in refused.value.hint for needs in several for need in needs)


def test_direct_processes_are_not_buffered_where_none_is():
    direct, cached = {"direct": True}, {"direct": False}
    assert is_buffered([direct, cached]) and is_buffered([cached, direct])
    assert not is_buffered([direct] * 2)


def test_every_process_and_every_option_of_a_program_may_be_the_wrong_one(tmp_path):
    run = [run_of(cell(n), {"iops": 1.0}, properties={"sys_cpu": 100.0 * n}) for n in range(3)]
    assert exported_fio._property(run, "sys_cpu") == pytest.approx(1.0)
    rows = [(10, 20, 1), (5_000, 6_000, 2), (3_000_000, 4_000_000, 1)]
    shares = exported_fio._distribution(rows)
    assert {key: sum(of.values()) for key, of in shares.items() if any(of.values())} == {
        "latency_ns": 25.0, "latency_us": 50.0, "latency_ms": 25.0
    }  # fmt: skip
    crowds = [("-t", "2"), ("-t", "4"), ("-l", "3"), ("-u", "5"), ("-t", "x")]
    assert iozone._crowds(crowds) == iozone._crowds(crowds[1:] + crowds[:1])[::-1] == [2, 4]
    assert iozone._crowds(crowds[2:]) == iozone._crowds(crowds[:1:-1]) == [3, 4, 5]


def test_every_pattern_of_a_commands_output_is_checked():
    metrics = [f"{name}:1/s=stdout~{name} ([0-9]+)" for name in ("a", "b")]
    for at in range(2):
        own = list(metrics)
        own[at] = own[at].replace("([0-9]+)", "([0-9]+")
        with pytest.raises(SpecError):
            typed(Workload("w", "command", "a", {"argv": ["true"], "metrics": own})).check("w")


@pytest.mark.parametrize("at", [0, 1])
def test_every_parameter_has_to_be_known(at):
    parameters = dict([("record_bytes", 4096), ("record_byte", 1)][:: 1 - 2 * at])
    with pytest.raises(SpecError, match="no parameter 'record_byte'"):
        typed(Workload("w", "file-test", "iops", parameters))


def test_a_job_is_the_sum_of_both_directions_in_its_latencies():
    def side(count):
        stats = {"count": count, "mean": 1.0, "bins": [[1, 2, count]]}
        return {"operations": count, "bytes": count, "errors": 1, "short": 2, "latency": stats}

    for reads, writes in ((3, 5), (5, 3)):
        (group,) = load_engine.result(
            load_engine.group("w", reads=side(reads), writes=side(writes))
        ).groups
        made = outcome_of(group, (0, 0), True, False)
        assert made.histograms["latency_ns"] == [[1, 2, 8]]
        assert (made.properties["errors"], made.properties["short"]) == (2, 4)


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_are_numbered_from_the_least_of_all_runs(order):
    runs = [run_of(cell(block), {"iops": 1.0}) for block in (3, 5)]
    record = record_of(*(runs[at] for at in order))
    assert [record.number_of(block) for block in (3, 5)] == [1, 3]


@pytest.mark.parametrize(
    "name", ["depth", "workers", "processes", "jobs", "readers", "writers", "clients"]
)
def test_any_parameter_may_put_several_requests_in_flight(name):
    alone = dict.fromkeys(traits.AT_ONCE, 1) | {"direct": True}
    work = Workload("w", "file-test", "iops", alone)
    assert traits.nothing_to_order(work)
    assert not traits.nothing_to_order(replace(work, parameters={**alone, name: 4}))
