"""Of several rows, claims, groups, columns, files, runs or gates each counts: rooms of the answer,
its texts, imports and captures, with complete outcomes of two or three of each."""

import json
import math
import re
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import answers
import pytest
import reports
from click.testing import CliRunner
from test_import_csv import run as import_csv

from schedlab.analyse.answer_check import check
from schedlab.analyse.contradictions import Claim, _Place, _wandering, claims_of
from schedlab.analyse.scaling import curves
from schedlab.app.fleet.boots import _moved
from schedlab.app.trace.block_io import durable_facts
from schedlab.cli import cli
from schedlab.design.boots import BootKind, plan_boots
from schedlab.errors import SpecError
from schedlab.host.settings import knobs
from schedlab.nouns import (
    Candidate,
    Cell,
    Experiment,
    GateFinding,
    Plan,
    Record,
    Run,
    Samples,
    Stopping,
    Target,
    Workload,
)  # fmt: skip
from schedlab.nouns.metrics import METRICS
from schedlab.report import handin
from schedlab.report.view import View
from schedlab.result import _with_absent
from schedlab.run.live.live_figures import Flow, Look
from schedlab.store import importers
from schedlab.store.folder import Folder
from schedlab.store.importers.imported import Options
from schedlab_sim.fit.disk import find_zones
from schedlab_sim.session import SimSession

NEWCOMER, READER, SEQ = answers.NEWCOMER, answers.READER, answers.SEQ
DATA = Path(__file__).parents[1] / "data"


def with_cell(answer, row, label, **changes):
    cells = {name: dict(of) for name, of in answer.cells.items()}
    cells[row][label] = replace(cells[row][label], **changes)
    return replace(answer, cells=cells)


def two_rows(answer):
    """An answer on one row, with the same cells on another."""
    second = replace(answer.rows[0], name="w1", workload="w1")
    cells = {"w0": answer.cells["w0"], "w1": dict(answer.cells["w0"])}
    return replace(answer, rows=(*answer.rows, second), counted=("w0", "w1"), cells=cells)


@pytest.mark.parametrize("row", [NEWCOMER, READER, SEQ])
def test_a_contradiction_on_any_row_is_found(row):
    assert check(answers.TRADE) == []
    further = with_cell(answers.TRADE, row, "bfq", up=2.0)
    assert any(found.startswith(f"{row}: bfq may be further") for found in check(further))
    for label in answers.NAMES:
        assert any(found.startswith(f"{row}, {label}: ")
                   for found in check(with_cell(answers.TRADE, row, label, low=9.0)))  # fmt: skip


@pytest.mark.parametrize("row", ["w0", "w1"])
def test_what_is_said_of_all_rows_holds_on_each(row):
    same, best, keep = map(two_rows, (answers.SAME, answers.BEST, answers.KEEP))
    assert not any(map(check, (same, best, keep)))
    for label in ("a", "b"):
        wide = with_cell(same, row, label, up=0.5)
        assert f"{label} is the same, and yet may be further behind" in check(wide)
    close = with_cell(best, row, "a", low=0.0)
    assert "b is best on every row, and yet a may be" in check(close)
    both = ["best without a bound", "b is best on every row, and yet a may be"]
    assert {*both} <= {*check(replace(close, bound=None))}
    told = with_cell(keep, row, "a", low=0.01)
    assert "nothing is proven better than a, and yet it is proven behind" in check(told)
    for at in range(2):
        prices = list(answers.TRADE.prices)
        prices[at] = replace(prices[at], up=3.0)
        found = check(replace(answers.TRADE, prices=tuple(prices)))
        assert f"bfq on {prices[at].row}: not its cell" in found


def test_each_claim_of_an_answer_is_one():
    claims = claims_of(answers.TRADE)
    assert [(claim.row, claim.ahead, claim.behind) for claim in claims] == [
        (NEWCOMER, "bfq", "none"), (NEWCOMER, "bfq", "mq-deadline"), (NEWCOMER, "bfq", "kyber"),
        (READER, "kyber", "none"), (READER, "kyber", "bfq"), (SEQ, "none", "bfq"),
    ]  # fmt: skip
    place = SimpleNamespace(claims=(Claim("r", "a", "b", 0.1), Claim("r", "c", "d", 0.2)))
    pairs = [("a", "b"), ("d", "c"), ("a", "c")]
    assert [_Place.claims_of(place, names) for names in pairs] == [True, True, False]


FLAGS = {
    "unbalanced": ({"runs": {"none": 5, "bfq": 7}}, "none 5 and bfq 7"),
    "missing-cells": ({"filled": {"none": 3, "bfq": 6}, "of": 7}, "none 3 and bfq 6"),
    "starved": ({"counts": {"none": 3, "bfq": 6}}, "none 3 and bfq 6"),
    "gates-unbalanced": ({"counts": {"none": 3, "bfq": 6}}, "none 3 and bfq 6"),
    "lacks-workload": ({"workloads": ("w0", "w1", "w2")}, "w0, w1 and w2"),
    "cold-first-run": ({"difference": {"none": 0.5, "bfq": 0.25}, "unit": "s"}, "250 to 500 ms"),
    "wrong-mean": ({"unit": "s", "published": 1.5, "mean": 1.75, "difference": 0.1},
                   "1.50000 s, the mean of its rows (9) is 1.75000 s"),
}  # fmt: skip


def test_candidates_without_a_run_that_counts_are_each_named_with_their_reasons():
    record = reports.record_of(answers.KEEP)
    more = tuple(Candidate(name, {"scheduler": name}) for name in ("c", "d"))
    fatal = {"c": ("late", "others", "late"), "d": ("clock", "clock")}
    runs = [Run(0, 0, "w0", name, 7, 1, "discarded", "", 1.0, {},
                gates=tuple(GateFinding(gate, "x", True) for gate in gates))
            for name, gates in fatal.items() for _ in range(2)]  # fmt: skip
    wider = replace(record.experiment, candidates=(*record.experiment.candidates, *more))
    found = _with_absent(
        answers.KEEP, replace(record, experiment=wider, runs=(*record.runs, *runs))
    )
    assert found.candidates == ("a", "b", "c", "d")
    assert [(each.candidate, each.reasons) for each in found.unfit] == [
        ("c", ("late", "others")), ("d", ("clock",))
    ]  # fmt: skip


def test_a_workload_has_a_series_where_any_candidate_has_a_value():
    view = reports.view_of(answers.KEEP)
    runs = tuple(run for run in view.record.runs if run.candidate == "b")
    of = View(replace(view.record, runs=runs), view.answer, view.texts)
    (series,) = handin.every_series(of)
    assert series.values["a"] == {} and len(series.values["b"]) == answers.KEEP.blocks


def test_the_figures_of_a_period_are_those_of_all_its_groups():
    flows = {("db", "read"): Flow(2, 8192, 4000), ("backup", "read"): Flow(1, 4096, 9000),
             ("db", "write"): Flow(4, 512, 400)}  # fmt: skip
    values = Look(2.0, flows).metrics(["db", "backup"])
    assert values["requests_per_s"] == 3.5
    assert values["read_bytes_per_s"] == 6144 and values["write_bytes_per_s"] == 256
    means = {name: value for name, value in values.items() if "db" in name or "backup" in name}
    assert sorted(means.values()) == [100, 2000, 9000]
    earlier = {key: Flow(1, 256, 100) for key in flows}
    left = (Look(2.0, flows) - Look(1.0, earlier)).flows
    assert {key: flow.requests for key, flow in left.items()} == {
        ("db", "read"): 1, ("db", "write"): 3
    }  # fmt: skip


@pytest.mark.parametrize("name", ["dirty", "dirty_background"])
def test_bytes_and_ratio_are_one_setting(name):
    pair = [Path("/proc/sys/vm") / f"{name}_{what}" for what in ("bytes", "ratio")]
    assert [knobs.companion(path) for path in pair] == pair[::-1]


def test_the_facts_of_a_capture_have_every_caller_and_every_bound():
    calls = {(process, (8, 0), "fsync"): SimpleNamespace(sum_ns=ns, returned=2)
             for process, ns in (("b", 60), ("a", 20))}  # fmt: skip
    durable = SimpleNamespace(chain=lambda: None, metrics=lambda: ({"x": 1.0}, {"q", "p"}),
                              identity={"entered": 4, "returned": 4}, calls=calls)  # fmt: skip
    facts = durable_facts(durable, {})
    assert facts["at_least"] == ["p", "q"] and facts["identity"] == durable.identity
    assert [(each["process"], each["latency_ns_mean"]) for each in facts["by_process"]] == [
        ("a", 10), ("b", 30)
    ]  # fmt: skip


def test_no_simulation_that_waits_begins_once_the_session_ends():
    begun = []
    pool = SimpleNamespace(submit=lambda *_: begun.append(Future()) or begun[-1])
    session = SimSession(pool, None, 1)
    for block in range(3):
        session.begin(Cell(block, 0, "w", "c", 1), (None, None))
    session.end()
    assert [future.cancelled() for future in begun] == [True] * 3


def test_a_boot_is_moved_to_its_round_with_all_cells_and_runs():
    work = Workload("w", "random-reads", "iops")
    arms = tuple(Candidate(name, {"scheduler": name}) for name in ("none", "bfq"))
    asked = Experiment("t", "io", Target("scratch"), arms, (work,), "none", 1,
                       stopping=Stopping(blocks=2))  # fmt: skip
    plan = plan_boots(asked, [BootKind("a", "6.1"), BootKind("b", "6.2")], 2, "")
    cells = tuple(Cell(block, at, "w", arm.label, 1)
                  for block in range(2) for at, arm in enumerate(arms))  # fmt: skip
    runs = tuple(Run(c.block, c.position, "w", c.candidate, 1, 1, "ok", "", 1.0, {}, session="s-1")
                 for c in cells)  # fmt: skip
    moved = _moved(plan, 3, Record(asked, Plan(cells), runs))
    kind = plan.kind_of(3)
    expected = [(2 + block, 2 + at, plan.label(kind, arm.label))
                for block in range(2) for at, arm in enumerate(arms)]  # fmt: skip
    assert [(c.block, c.position, c.candidate) for c in moved.plan.cells] == expected
    assert [(r.block, r.position, r.candidate) for r in moved.runs] == expected
    assert {(run.session, run.properties["boot"]) for run in moved.runs} == {("round2", "s")}


def test_a_table_is_read_by_all_columns_that_make_up_a_run(tmp_path):
    """Candidates, workloads, and parts that are added up, each of two columns."""
    lines, sums = ["os,scheduler,test,record_bytes,phase,part,kib,rep"], {}
    for number in range(96):
        rep, (rest, part) = number % 2 + 1, divmod(number // 2, 3)
        os, scheduler, test, record = (
            names[rest >> bit & 1] for bit, names in enumerate(
                (("A", "B"), ("none", "bfq"), ("read", "write"), ("4096", "65536"))))  # fmt: skip
        phase = ("x,1", "x,2", "y,1")[part]
        lines.append(f"{os},{scheduler},{test},{record},{phase},{number + 1},{rep}")
        size = "4 KiB" if record == "4096" else "64 KiB"
        key = (f"{os} {scheduler}", f"{test} {size}", rep - 1)
        sums[key] = sums.get(key, 0) + 1024.0 * (number + 1)
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    import_csv(
        tmp_path / "table.csv", "--candidate", "os,scheduler", "--workload", "test,record_bytes",
        "--value", "kib", "--unit", "KiB/s", "--higher-is-better", "--block", "rep",
        "--sum", "phase,part", "--out", tmp_path / "out",
    )  # fmt: skip
    record = Folder.open(tmp_path / "out").record()
    assert {(run.candidate, run.workload, run.block): run.metrics["throughput_bytes_per_s"]
            for run in record.runs} == sums  # fmt: skip
    assert {each.label: each.settings for each in record.experiment.candidates} == {
        f"{os} {name}": {"os": os, "scheduler": name} for os in "AB" for name in ("none", "bfq")
    }
    assert {each.label: each.parameters for each in record.experiment.workloads} == {
        f"{test} {size >> 10} KiB": {"test": test, "record_bytes": size}
        for test in ("read", "write") for size in (4096, 65536)
    }  # fmt: skip


def test_a_curve_has_the_values_of_all_sizes_and_blocks():
    works = tuple(Workload(f"read {k} KiB", "file-test", "iops",
                           {"test": "read", "record_bytes": k << 10}) for k in (4, 16))  # fmt: skip
    arms = tuple(Candidate(name, {"scheduler": name}) for name in ("none", "bfq"))
    made = [Samples(work.label, METRICS["iops"], ("none", "none", "bfq", "bfq"), (0, 1, 0, 1),
                    tuple(float(10 * at + each) for each in range(4)))
            for at, work in enumerate(works, 1)]  # fmt: skip
    found = [*curves(works, arms, made)]
    assert [(of.candidate, of.sizes, of.values) for of in found] == [
        ("none", (4096, 4096, 16384, 16384), (10, 11, 20, 21)),
        ("bfq", (4096, 4096, 16384, 16384), (12, 13, 22, 23)),
    ]  # fmt: skip


def test_a_disk_has_a_zone_for_each_rate():
    rates = [(0.0, 200e6), (0.25, 202e6), (0.5, 160e6), (0.75, 158e6), (1.0, 100e6)]
    probes = SimpleNamespace(rates=rates, size_bytes=10**12)
    tracks = SimpleNamespace(heads=2, track_skew_ms=0.0, cylinder_skew_ms=0.0)
    zones = find_zones(probes, 10.0, tracks)
    # Sectors of a track: bytes in a turn of 10 ms. A zone ends midway to the next rate, and its
    # first place is as fast as the second.
    sectors = [round(rate / 100 / 512) for rate in (202e6, 159e6, 100e6)]
    shares = [0.375, 0.5, 0.125]
    assert zones == [
        {"cylinders": math.ceil(share * 1e12 / 512 / (count * 2)), "sectors_per_track": count}
        for share, count in zip(shares, sectors, strict=True)
    ]


def test_the_second_option_that_is_typed_twice_is_refused_too():
    words = ["compare", "--dry-run", "--seed", "1", "--blocks", "2", "--blocks", "3"]
    error = CliRunner().invoke(cli, words).exception
    assert isinstance(error, SpecError) and "--blocks is typed 2 times" in str(error)


FILES = {
    "iozone": "imports/{1,3}.txt", "fio": "imports/{1,2}.json", "dmesg": "imports/rr-{1,10}.log",
    "hdparm": "imports/{none,bfq}-hdparm.txt", "time": "imports/{none,bfq}-time.txt",
    "sched": "kernel-text/{switches,switches}.txt", "sysbench": "benchmarks/sysbench-{cpu,cpu}.txt",
    "pgbench": "benchmarks/pgbench-{13,13}.txt", "schbench": "benchmarks/{schbench,schbench}.txt",
    "hackbench": "benchmarks/{hackbench,hackbench}.txt",
    "iostat": "benchmarks/iostat-{x,x}.json",
}  # fmt: skip


def test_every_file_of_every_candidate_is_imported(golden):
    """Two files of the first candidate, and two of the second in the other order."""
    lines = []
    for name, pattern in FILES.items():
        head, names, tail = re.split("[{}]", pattern)
        paths = [DATA / f"{head}{each}{tail}" for each in names.split(",")]
        files = [*(("none", path) for path in paths), *(("bfq", path) for path in paths[::-1])]
        more = ["extract"] if name == "time" else []
        made = importers.IMPORTERS[name].read(files, *more, Options())
        lines.append(f"# {name}")
        lines += [f"{each.label}: {json.dumps(dict(each.parameters))}"
                  for each in made.experiment.workloads]  # fmt: skip
        lines += [f"{run.candidate}, {run.workload}, {run.block}: "
                  + ", ".join(f"{key} {value:.6g}" for key, value in run.metrics.items())
                  for run in made.runs]  # fmt: skip
    golden("imports/several-files.txt", "\n".join(lines))


def test_any_claim_may_be_that_of_one_half_of_the_blocks():
    part = SimpleNamespace(findings=SimpleNamespace(unsteady=True))
    steady = SimpleNamespace(findings=SimpleNamespace(unsteady=False))
    claims = (Claim("r", "a", "b", 0.1), Claim("r", "c", "d", 0.2))
    place = SimpleNamespace(name="r", parts=(steady, part), claims=claims,
                            turns=lambda names: names == ("c", "d"))  # fmt: skip
    (doubt,) = _wandering(place)
    assert ("c", "d") in vars(doubt).values()
