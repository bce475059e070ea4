"""Policies as candidates, seeds as blocks: through executor, folder and analysis to a verdict."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.app.admit import admit
from schedlab.errors import SpecError
from schedlab.store.folder import Folder
from schedlab_sim.cli.run import compare


def test_a_verdict_on_policies(tmp_path: Path) -> None:
    arguments = ["--workloads", "A", "--policies", "fcfs,tsb,tsb:alpha=0.95", "--seeds", "6"]
    arguments += ["--requests", "2000", "--buffer", "64MiB", "--json"]
    out = ["--out", str(tmp_path / "out")]
    result = CliRunner().invoke(compare, arguments + out, catch_exceptions=False)
    cells = json.loads(result.stdout)["cells"]["A"]
    assert cells["fcfs"]["low"] > 0
    assert cells["fcfs"]["loss"] - cells["tsb"]["loss"] > -math.log(0.95)
    runs = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").open()]
    seeds = {(run["block"], run["properties"]["simulation_seed"]) for run in runs}
    assert len(runs) == 18 and len(seeds) == 6
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_policy_that_is_none_is_refused_before_the_first_run(tmp_path: Path) -> None:
    arguments = ["--policies", "fcfs,lifo", "--out", str(tmp_path / "out")]
    with pytest.raises(SpecError, match="lifo"):
        CliRunner().invoke(compare, arguments, catch_exceptions=False)
    assert not list(tmp_path.glob("out/runs.jsonl")) or not (
        (tmp_path / "out" / "runs.jsonl").read_text()
    )


@pytest.mark.parametrize("requests", [4000, 12_000])
def test_overloaded_arms_are_named_and_judged_by_their_rate(tmp_path: Path, requests: int) -> None:
    arguments = ["--workloads", "A,B", "--policies", "fcfs,tsb", "--seeds", "4"]
    arguments += ["--requests", str(requests), "--buffer", "32MiB", "--json"]
    out = ["--out", str(tmp_path / "out")]
    result = CliRunner().invoke(compare, arguments + out, catch_exceptions=False)
    (note,) = [line for line in result.stderr.splitlines() if "overloaded" in line]
    assert "B: fcfs, tsb overloaded, none stable: no verdict on response times" in note
    rows = json.loads(result.stdout)["rows"]
    of = {row["name"]: row["metric"]["name"] for row in rows}
    assert (of["A"], of["B"]) == ("mean_read_ms", "iops")
    assert "B: mean_write_ms" not in of


DIRECTIONS = {"A": "read", "randwrite4k": "write", "randread4k": "read", "seqwrite": "write"}


@pytest.mark.parametrize("sources", ["randwrite4k", "A,randwrite4k", "randwrite4k,A,randread4k"])
def test_a_load_that_only_writes_is_compared_by_its_writes(sources: str, tmp_path: Path) -> None:
    """Chosen before the first run, for each workload."""
    words = ["--device", "nvme", "--workloads", sources, "--policies", "fcfs,ts", "--json"]
    words += ["--requests", "300", "--seeds", "2", "--out", str(tmp_path / "r")]
    result = CliRunner().invoke(compare, words, catch_exceptions=False)
    assert result.exit_code in (0, 1)
    experiment = Folder.open(tmp_path / "r").experiment
    assert {w.label: w.metric for w in experiment.workloads} == {
        name: f"mean_{DIRECTIONS[name]}_ms" for name in sources.split(",")
    }
    write_only = [w for w in experiment.workloads if DIRECTIONS[w.label] == "write"]
    assert all("read" not in name for work in write_only for name in work.secondary)
    # A file names its metrics itself; the last of its workloads is looked at, too.
    last = replace(write_only[-1], metric="mean_read_ms")
    works = (*(w for w in experiment.workloads if w.label != last.label), last)
    with pytest.raises(SpecError, match=f"{last.label}: metric mean_read_ms") as error:
        admit(replace(experiment, workloads=works))
    assert error.value.hint == 'for example metric = "mean_write_ms"'


def test_a_metric_that_a_load_cannot_have_is_refused_before_it_runs(tmp_path: Path) -> None:
    words = ["--device", "nvme", "--workloads", "A,randwrite4k", "--policies", "fcfs,ts"]
    words += ["--metric", "mean_read_ms", "--out", str(tmp_path / "r")]
    with pytest.raises(SpecError, match="randwrite4k has no such requests") as error:
        CliRunner().invoke(compare, words, catch_exceptions=False)
    assert error.value.hint == "for example --metric mean_write_ms"
    assert not (tmp_path / "r").exists()
