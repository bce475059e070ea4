"""`schedlab diff` and `schedlab.load` on result folders with known content."""

import json
import math
import random
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from experiments import experiment, run_of

import schedlab
from schedlab.analyse.answer import answer
from schedlab.app.compare.difference import boots_needed
from schedlab.cli.diff import diff
from schedlab.design.plan import make_plan
from schedlab.errors import SpecError
from schedlab.nouns import AA_SUFFIX, METRICS, Samples, Stopping, Workload
from schedlab.store.folder import Folder

TIME = METRICS["elapsed_s"]
HOST = {"kernel": {"release": "6.1"}, "cpu": {"model": "A", "usable": 2}}


def result(path, speed, host=HOST, seed=1, record_bytes=4096, starved=(), layouts=False):
    work = Workload("w", "file-test", "iops", {"record_bytes": record_bytes})
    asked = experiment(workloads=(work,), seed=seed, stopping=Stopping(blocks=12))
    folder = Folder.create(path, asked, make_plan(asked), host)
    rng = random.Random(seed)
    for cell in folder.plan.cells:
        level = speed.get(cell.candidate.removesuffix(AA_SUFFIX), 1.0)
        value = 1000 * level * rng.lognormvariate(0, 0.01)
        is_bound = (cell.candidate, cell.block) in starved
        bounds = {"iops": "at-most"} if is_bound else {}
        half = layouts and f"{path.name}-{cell.block // 6}"
        folder.append(run_of(cell, {"iops": value}, bounds=bounds, session=half or ""))
    return path


def run(*words):
    return CliRunner().invoke(diff, [str(word) for word in words], standalone_mode=False)


@pytest.mark.parametrize("layouts", [False, True])
def test_one_session_a_side_holds_for_these_two_boots(tmp_path, layouts):
    """Two layouts of the files within a boot make no second boot of it."""
    newer = {**HOST, "kernel": {"release": "6.2"}}
    first = result(tmp_path / "a", {}, layouts=layouts)
    second = result(tmp_path / "b", {"bfq": 0.8}, newer, seed=2, layouts=layouts)
    data = json.loads(run(first, second, "--json", "--fail-on", "never").stdout)
    assert data["differences"] == {"kernel.release": ["6.1", "6.2"]} and data["units"] == "blocks"
    bfq = data["candidates"]["bfq"]
    assert bfq["cells"]["w"]["b"]["loss"] == pytest.approx(math.log(1.25), abs=0.02)
    assert data["candidates"]["bfq / none"]["cells"]["w"]["b"]["low"] > 0
    text = run(first, second).stdout
    scope = "This holds for these boots only (a (1 boot) and b (1 boot))"
    assert scope in (flat := " ".join(text.replace("\u00a0", " ").split()))
    assert data["one_boot"] and f"{data['boots_needed']} boots of each would decide it" in flat
    page = (second / "diff.html").read_text()
    assert "This holds for these boots only" in page and "What changed from a to b" in page
    assert "kernel.release: 6.1 → 6.2" in page and "<script" not in page


ALL_SAME, ALL_SLOWER = {}, {"none": 0.7, "bfq": 0.7}


@pytest.mark.parametrize(
    ("speed", "code", "worse", "beside"),
    [
        (ALL_SAME, 0, [], False),
        (ALL_SLOWER, 1, ["bfq", "none"], False),
        ({"none": 0.7}, 1, ["none"], True),
        ({"bfq": 0.7}, 1, ["bfq"], True),
        ({"none": 1.4, "bfq": 0.7}, 1, ["bfq"], True),
        ({"none": 1.4, "bfq": 1.4}, 0, [], False),
    ],
)
def test_the_change_itself_decides_and_that_beside_the_baseline_is_told(
    tmp_path, speed, code, worse, beside
):
    first, second = result(tmp_path / "a", {}), result(tmp_path / "b", speed, seed=2)
    junit = tmp_path / "junit.xml"
    assert run(first, second).exit_code == 0  # Two boots differ by this much without any change.
    assert run(first, second, "--fail-on", "changed").exit_code == 0
    ended = run(first, second, "--junit", junit, "--fail-on", "this-boot")
    assert ended.exit_code == code
    assert run(first, second, "--fail-on", "never").exit_code == 0
    said = dict(line.split(": ", 1) for line in ended.stdout.splitlines() if ": " in line)
    for label in ("none", "bfq"):
        is_open = speed.get(label, 1.0) == 1.0
        assert said[label].startswith("No change is proven") == is_open
        slower = "b is" if speed.get(label, 1.0) < 1 else "a is"
        assert is_open or said[label].startswith(slower)
    assert said["bfq / none"].startswith("No change is proven") != beside
    suite = ElementTree.parse(junit).getroot()
    failed = [case.get("classname") for case in suite if case.find("failure") is not None]
    assert sorted(failed) == worse and suite.get("failures") == str(len(worse))
    assert len(suite) == int(suite.get("tests")) == 3
    text = run(first, second, "--markdown").stdout
    assert text.startswith("## What changed from a to b\n\n* none: ") and "\n| --- |" in text


def several(path, speed, levels, seed):
    """A folder with a session for every level, by which all its runs are shifted."""
    folder = Folder.open(result(path, speed, seed=seed))
    runs = folder.runs()
    (path / "runs.jsonl").write_text("")
    rows = Folder.open(path)
    for run in runs:
        session = run.block * len(levels) // 12
        value = run.metrics["iops"] * levels[session]
        rows.append(replace(run, metrics={"iops": value}, session=f"{path.name}{session}"))
    return path


def test_sessions_are_the_units_and_the_level_of_a_session_drops_out(tmp_path):
    """A boot that is 20 % faster for all candidates is no change of bfq."""
    first = several(tmp_path / "a", {}, (1.0, 1.2, 0.9), 1)
    second = several(tmp_path / "b", {"bfq": 0.8}, (1.1, 0.95, 1.3), 2)
    data = json.loads(run(first, second, "--json").stdout)["candidates"]
    beside = data["bfq / none"]["cells"]["w"]
    assert beside["b"]["loss"] == pytest.approx(math.log(1.25), abs=0.02) and beside["b"]["low"] > 0
    assert data["bfq / none"]["units"] == 3
    base = data["none"]["cells"]["w"]  # itself: between its levels nothing is seen
    assert all(cell["low"] == 0 and cell["up"] > 0 for cell in base.values())
    text = run(first, second).stdout
    assert "bfq / none: b is " in text and "none: No change is proven" in text
    one = run(first, result(tmp_path / "c", {})).stdout.replace("\u00a0", " ")
    assert "only (a (3 boots) and c (1 boot)): another may differ" in one


def without(path, *labels):
    """A folder whose runs of these candidates all failed a check."""
    folder = Folder.open(result(path, {}))
    runs = folder.runs()
    (path / "runs.jsonl").write_text("")
    for run in runs:
        status = "discarded" if run.candidate.split(" ")[0] in labels else "ok"
        Folder.open(path).append(replace(run, status=status))
    return path


def first_block(path, seed):
    """A folder that has only the runs of its first block."""
    runs = [run for run in Folder.open(result(path, {}, seed=seed)).runs() if run.block == 0]
    (path / "runs.jsonl").write_text("")
    for run in runs:
        Folder.open(path).append(run)
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spread", [0.03, 0.05])
def test_boots_that_differ_are_no_change(tmp_path, spread):
    """Nothing changed but the boot: 20 pairs of them, none of which fails."""
    rng = random.Random(4)
    for pair in range(20):
        speeds = [{c: rng.lognormvariate(0, spread) for c in ("none", "bfq")} for _ in "ab"]
        folders = [result(tmp_path / f"{pair}{side}", speed, seed=pair)
                   for side, speed in zip("ab", speeds, strict=True)]  # fmt: skip
        assert run(*folders).exit_code == 0


def test_the_boots_that_would_decide_are_enough():
    """As many of each, which differ by 5 %, find a difference of 20 % nearly always."""
    needed = boots_needed({"a": answer([difference_of(0.2)], baseline="x", blocked=False)})
    assert 2 < needed < 10
    rng, found = np.random.default_rng(2), 0
    for _ in range(200):
        logs = math.log1p(0.05) * rng.standard_normal((2, needed)) + [[0.0], [0.2]]
        names = tuple("x" * needed + "y" * needed)
        sample = Samples("w", TIME, names, tuple([*range(needed)] * 2), tuple(np.exp(logs).ravel()))
        found += answer([sample], baseline="x", blocked=False, ends=None).cells["w"]["y"].low > 0
    assert 0.4 < found / 200 < 0.95


def test_what_is_noise_in_a_boot_takes_more_boots():
    """The same change of 20 %, within 0.01 % and within 20 % of itself; and without a bound."""
    of = answer([difference_of(0.2)], baseline="x", blocked=False)
    own = of.cells["w"]["y"]

    def needed(up):
        cells = {"w": {**of.cells["w"], "y": replace(own, up=up)}}
        return boots_needed({"a": replace(of, cells=cells)})

    assert needed(own.loss + 0.4) > needed(own.loss + 1e-4)
    assert needed(own.loss + 10) is None and needed(None) is None


def difference_of(log):
    values = (1.0, 1.0001, math.exp(log), 1.0001 * math.exp(log))
    return Samples("w", TIME, ("x", "x", "y", "y"), (0, 1, 0, 1), values)


def test_only_what_was_measured_once_on_both_sides_is_said_to_be(tmp_path):
    once = [first_block(tmp_path / name, seed) for seed, name in enumerate("ab")]
    assert "none: Each was measured once, so" in run(*once).stdout
    said = run(once[0], result(tmp_path / "c", {})).stdout
    assert "none: No change is proven, and no bound can be given." in said


def test_a_run_that_is_only_a_bound_is_one_in_a_difference(tmp_path):
    """Its candidate may be as slow as anything: b is not at most so far behind a."""
    first = result(tmp_path / "a", {})
    second = result(tmp_path / "b", {"bfq": 0.8}, seed=2, starved={("bfq", 3)})
    data = json.loads(run(first, second, "--json", "--fail-on", "never").stdout)["candidates"]
    for name in ("bfq", "bfq / none"):
        cell = data[name]["cells"]["w"]["b"]
        assert (cell["starved"], cell["open"], cell["up"]) == (1, True, None)
    assert data["none"]["cells"]["w"]["b"]["starved"] == 0


@pytest.mark.parametrize("gone", ["bfq", "none"])
def test_a_candidate_without_a_value_is_skipped_and_named(tmp_path, gone):
    completed = run(result(tmp_path / "a", {}), without(tmp_path / "b", gone))
    assert completed.exception is None
    (left,) = {"none", "bfq"} - {gone}
    assert f"{left}: " in completed.stdout and f"{gone}: " not in completed.stdout
    assert f"not compared: {gone}, which has no value in one of the two" in completed.stderr


def test_without_a_value_in_both_nothing_is_compared(tmp_path):
    refused = run(without(tmp_path / "a", "none"), without(tmp_path / "b", "bfq"))
    assert str(refused.exception) == "no candidate has a value in both"
    assert "schedlab reproduce DIR" in refused.exception.hint


def test_other_machines_and_other_work_are_refused(tmp_path):
    first = result(tmp_path / "a", {})
    other = result(tmp_path / "b", {}, {**HOST, "cpu": {"model": "B", "usable": 2}})
    refused = run(first, other)
    assert isinstance(refused.exception, SpecError)
    assert "cpu.model" in str(refused.exception)
    assert run(first, other, "--despite").exception is None
    changed = run(first, result(tmp_path / "c", {}, record_bytes=8192))
    assert "'w' differs between the two" in str(changed.exception)


def test_a_result_loads_into_a_notebook(tmp_path):
    loaded = schedlab.load(result(tmp_path / "a", {"bfq": 2.0}))
    frame = loaded.to_pandas()
    assert set(frame.columns) >= {"block", "workload", "candidate", "iops"}
    assert len(frame) == 36
    assert loaded.answer.take == "bfq"
    run = loaded.record.runs[0]
    loaded.folder.append(replace(run, attempt=run.attempt + 1, status="discarded"))
    again = schedlab.load(loaded.folder.path)
    assert len(again.to_pandas()) == 36
    assert list(again.to_pandas(discarded=True).status).count("discarded") == 1
    assert "<iframe" in loaded._repr_html_()
