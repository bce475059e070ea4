"""Of several files, groups, rows, hosts or recordings of a folder each is stored and read."""

import json
from dataclasses import replace

import pytest
from experiments import experiment
from test_store import ram, run_of  # noqa: F401

from schedlab.design.candidates import parse_candidates
from schedlab.design.plan import make_plan
from schedlab.errors import SpecError
from schedlab.nouns import RateSeries, Stopping, Workload
from schedlab.nouns.results import LatencySeries, Recording
from schedlab.store.folder import EXPLANATIONS, FIGURES, HOST, RAW, Folder

GROUPS = ("reads", "writes")


@pytest.fixture
def two(ram):  # noqa: F811
    """Three blocks of two workloads with two candidates, and nothing measured yet."""
    works = tuple(Workload(name, "file-test", "iops", {"record_bytes": 4096}) for name in "vw")
    asked = experiment(
        candidates=parse_candidates("none,bfq"), workloads=works, aa_arm=False,
        stopping=Stopping(blocks=3),
    )  # fmt: skip
    facts = {name: {"cpu": {"model": name}} for name in ("h0", "h1")}
    return Folder.create(ram / "r", asked, make_plan(asked), {"hosts": facts})


def bulk(cell):
    """Two equal rows and another; two groups of rates and of latencies, of two rows each."""
    at = 10 * cell.block + (cell.candidate == "bfq")
    return {
        "latency_ns": [[1, 2, 3], [1, 2, 4], [5 + cell.block, 9, 1]],
        **{f"series {group}": [[n + at, 0], [2 * n + at, 0]] for n, group in enumerate(GROUPS)},
        **{f"latencies {group}": [[0, 1, 2, 5 + at], [500, 3, 4, 6 + n]]
           for n, group in enumerate(GROUPS)},
    }  # fmt: skip


def test_everything_of_every_run_survives_the_disk(two):
    # The baseline was at its median in block 2 of one workload, and in block 0 of the other.
    values = {"v": (1.0, 3.0, 2.0), "w": (2.0, 1.0, 3.0)}
    for cell in two.plan.cells:
        run = replace(run_of(cell, values[cell.workload][cell.block]),
                      properties={"measured_from_s": 1.5})  # fmt: skip
        two.append(run, bulk(cell))
    record = Folder.open(two.path).record()
    assert record.notices == () and len(record.runs) == 12
    pairs = [(work, name) for work in "vw" for name in ("none", "bfq")]
    assert record.histograms == dict.fromkeys(pairs, ((1, 2, 21), (5, 9, 1), (6, 9, 1), (7, 9, 1)))
    for work, name in pairs:
        later = [run for run in record.runs if (run.workload, run.candidate) == (work, name)]
        wanted = []
        for run in later:
            rows = bulk(run)
            wanted += [
                RateSeries(run.block, group, "1/s", 0.1,
                           tuple(float(row[1]) / 0.1 for row in rows[f"series {group}"]), 1.5)
                for group in GROUPS
            ]  # fmt: skip
        assert list(record.series[work, name]) == wanted
        (at,) = [run for run in later if run.block == {"v": 2, "w": 0}[work]]
        assert record.latencies[work, name] == tuple(
            LatencySeries(at.block, group, tuple(map(tuple, bulk(at)[f"latencies {group}"])))
            for group in GROUPS
        )


@pytest.mark.parametrize("row", [[1, 2, "x"], [3, 2, 1], [1, 2, -1]])
def test_a_later_row_may_be_the_damaged_one(two, row):
    for cell in two.plan.cells[:2]:
        two.append(run_of(cell), {"latency_ns": [[1, 2, 3], row]})
    record = two.record()
    assert len(record.notices) == 2 and record.histograms == {}


@pytest.mark.parametrize("rows", [[[1, 2], [1, "x"]], [[1, 2], ["x", 1]], [[1, 2], 3]])
def test_a_later_row_of_rates_or_latencies_may_be_the_damaged_one(two, rows):
    first, second = two.plan.cells[:2]
    for cell in (first, second):
        good = bulk(cell)
        two.append(run_of(cell), {**good, "series reads": rows} if cell is first else good)
    assert [*two.record().series] == [(second.workload, second.candidate)]


@pytest.mark.parametrize("row", [[1, 2, 3], [1, 2, 3, -1], [1, 2, 3, "x"]])
def test_a_later_row_of_latencies_may_be_the_damaged_one(two, row):
    (cell,) = [c for c in two.plan.cells if (c.block, c.workload, c.candidate) == (0, "v", "none")]
    two.append(run_of(cell), {**bulk(cell), "latencies writes": [[0, 1, 2, 3], row]})
    assert two.record().latencies == {}


def test_every_output_of_a_command_is_kept(two):
    run = run_of(two.plan.cells[0])
    two.keep_output(run, {"out": b"one", "err": b"two"})
    kept = {path.suffix: path.read_text() for path in (two.path / RAW / "output").iterdir()}
    assert kept == {".out": "one", ".err": "two"}


def test_every_damaged_file_has_its_notice(two):
    (two.path / HOST).write_text(json.dumps({"hosts": {"h0": 1, "h1": {}, "h2": 2}}))
    (two.path / EXPLANATIONS).write_text("{")
    (two.path / FIGURES).mkdir(exist_ok=True)
    for name in ("a", "b"):
        (two.path / FIGURES / f"{name}.svg").write_bytes(b"\xff")
    for cell in two.plan.cells[:2]:
        two.append(run_of(cell), {"latency_ns": [3]})
    begins = [notice.rpartition(":")[0].split(": ")[0] for notice in two.record().notices]
    expected = (
        "the environment of h0", "the environment of h2", "the histogram", "the histogram",
        "the figure 'a.svg'", "the figure 'b.svg'", EXPLANATIONS,
    )  # fmt: skip
    assert len(begins) == len(expected)
    assert all(map(str.startswith, begins, expected)), begins
    assert Folder.open(two.path).host["hosts"] == {"h0": {}, "h1": {}, "h2": {}}


def test_every_recording_has_the_groups_of_all_its_tasks(two):
    rows = []
    for number, name in enumerate(("none", "bfq")):
        two.recording_path(number).write_text("")
        tasks = {"reads": [10 * number, 10 * number + 1], "writes": [10 * number + 2]}
        rows.append({"workload": "w", "candidate": name, "zero_ns": number, "tasks": tasks,
                     "requests": two.recording_path(number).name, "groups": []})  # fmt: skip
    two.write_explanations(rows)
    assert two.record().recordings == {
        ("w", name): Recording(two.recording_path(number), number,
                               {10 * number: "reads", 10 * number + 1: "reads",
                                10 * number + 2: "writes"})
        for number, name in enumerate(("none", "bfq"))
    }  # fmt: skip
    away = two.path / "away"
    (two.path / RAW).rename(away)
    (two.path / RAW).symlink_to(away)
    assert two.record().recordings == {}


@pytest.mark.parametrize("at", [0, 1, 2])
def test_any_run_may_be_one_that_is_not_of_the_experiment(two, at):
    for number, cell in enumerate(two.plan.cells[:3]):
        run = run_of(cell)
        two.append(replace(run, workload="other") if number == at else run)
    with pytest.raises(SpecError, match=f"line {at + 1}: workload 'other' is not in"):
        two.record()
