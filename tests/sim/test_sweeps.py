"""Sweeps: experiments whose candidates and workloads are grids, on all cores or on a cluster."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from schedlab.app.admit import admit
from schedlab.app.measure import measure
from schedlab.app.measure.files import experiment_of, read_experiment
from schedlab.app.measure.labs import lab_experiment, lab_named
from schedlab.app.measure.measure import Observer
from schedlab.cli import cli
from schedlab.errors import Interrupted, SpecError
from schedlab.nouns import Stopping
from schedlab.report import html, screen
from schedlab.report.handin import study_tables
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.run.admitted import Permission
from schedlab.run.executor import Progress
from schedlab_sim.session import outcome_of
from schedlab_sim.simulation import Simulation

SWEEP = """
title = "Buffers"
kind = "sim"
seed = 3
stopping = { blocks = 10 }
[[candidates]]
grid = { policy = ["fcfs", "tsb"], alpha = [0.5, 0.8, 0.9, 0.95, 1.0] }
[[workloads]]
label = "{workload}"
kind = "ssd"
parameters = { requests = 300, "device_set.buffer.size" = "8MiB" }
grid = { workload = ["A", "D"] }
"""


def written(path: Path, text: str = SWEEP) -> Path:
    path.write_text(text)
    return path


def figures(result: Any) -> dict[Any, Any]:
    """Everything that a run's cell fixes."""
    return {run.key: (run.metrics, run.properties) for run in result.record.runs}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """The sweep, simulated at once in threads of this process."""
    place = tmp_path_factory.mktemp("whole")
    return figures(measure.run(written(place / "sweep.toml"), place / "out"))


@pytest.mark.sampled(3)
def test_200_points_on_two_workers_one_of_which_dies_are_those_of_threads(
    tmp_path: Path, whole: dict[Any, Any]
) -> None:
    from distributed import Client, LocalCluster

    experiment = read_experiment(written(tmp_path / "sweep.toml"))
    killed: list[int] = []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        workers = client.run(os.getpid)

        def kill_one(now: Progress) -> None:
            if now.done >= 50 and not killed:
                killed.append(next(iter(workers.values())))
                os.kill(killed[0], signal.SIGKILL)

        address = cluster.scheduler_address
        observer = Observer(watch=kill_one)
        many = measure.run(experiment, tmp_path / "dask", observer=observer, dask=address)
    assert killed and len(whole) == 200 and figures(many) == whole
    stored = whole[9, "D", "tsb, alpha=0.95"][0]
    one = Simulation(
        policy="tsb", policy_set={"alpha": 0.95}, workload="D", requests=300, seed=3 + 9,
        device_set={"buffer.size": "8MiB"},
    )  # fmt: skip
    assert stored["mean_read_ms"] == one.run().metrics["mean_read_ms"]


def test_a_sweep_is_resumed_after_an_interruption(tmp_path: Path, whole: dict[Any, Any]) -> None:
    file, parts = written(tmp_path / "sweep.toml"), tmp_path / "parts"

    def interrupt(now: Progress) -> None:
        if now.done == 70:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        measure.run(file, parts, observer=Observer(watch=interrupt))
    assert caught.value.hint == f"schedlab run --resume {parts}"
    assert (parts / "runs.jsonl").read_bytes().count(b"\n") == 70
    with (parts / "runs.jsonl").open("a") as out:
        out.write('{"block": 7')  # a crash in the middle of a line
    seen: list[int] = []
    rest = measure.resume(parts, observer=Observer(watch=lambda now: seen.append(now.done)))
    assert seen[0] == 70 and figures(rest) == whole


def test_policies_in_python_are_swept_in_processes(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(
        "import os\n\n\nclass First:\n    def select(self, queue, now_ns, device):\n"
        f"        open(f'{tmp_path}/{{os.getpid()}}.pid', 'w').close()\n        return 0\n"
    )
    policy = f"{tmp_path}/first.py:First"
    text = SWEEP.replace('"tsb"', f'"{policy}"').replace(", alpha = [0.5, 0.8, 0.9, 0.95, 1.0]", "")
    file = written(tmp_path / "sweep.toml", text.replace("blocks = 10", "blocks = 2"))
    found = figures(measure.run(file, tmp_path / "out", permission=Permission()))
    for block, workload in ((0, "A"), (1, "D")):
        mine, fcfs = (found[block, workload, name][0] for name in (policy, "fcfs"))
        assert mine == fcfs
    # One is this process, which simulates the first request of each cell beforehand.
    assert len({int(each.stem) for each in tmp_path.glob("*.pid")} - {os.getpid()}) >= 1


def sweep(**changes: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "kind": "sim", "candidates": [{"label": "c", "settings": {"policy": "tsb"}}],
        "workloads": [{"label": "w", "kind": "ssd"}],
    }  # fmt: skip
    return usual | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": [{"label": "c", "settings": {"policy": "fcfs", "alpha": 0.5}}]},
         "alpha would change nothing under fcfs"),
        ({"workloads": [{"label": "w", "kind": "ssd", "parameters": {"policy_set.read_limit": 1}}]},
         "policy_set.read_limit would change nothing under tsb"),
        ({"candidates": [{"label": "c", "settings": {"policy": "sptf", "depth": 2}}],
          "workloads": [{"label": "w", "kind": "disk"}]}, "'depth' would change nothing"),
        ({"workloads": [{"label": "w", "kind": "ssd", "parameters": {"trace": "t.spc"}}]},
         "w: a trace is one sample"),
        ({"workloads": [{"label": "w", "kind": "ssd", "parameters": {"colour": "red"}}]},
         "ssd has no parameter 'colour'"),
        ({"workloads": [{"label": "w", "kind": "ssd", "parameters": {"requests.x": 3}}]},
         "requests: expected"),
        ({"workloads": [{"label": "w", "kind": "ssd", "parameters": {"requests": 9},
                         "chosen": {"request": 9}}]}, "chosen request = 9: it has no such"),
        ({"workloads": [{"label": "w {requests}", "kind": "ssd", "chosen": {"requests": 9},
                         "grid": {"requests": [7, 8]}}]}, "measured at the chosen requests = 9"),
        ({"candidates": [{"grid": {"policy": "fcfs"}}]}, "grid.policy = 'fcfs'"),
        ({"candidates": [{"grid": ["fcfs"]}]}, r"candidates\[0\].grid = "),
        ({"fixed": {}, "parameters": {}}, "'fixed' is a key of the sweeps of earlier versions"),
    ],
)  # fmt: skip
def test_a_sweep_that_cannot_be_meant_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        admit(experiment_of(sweep(**changes), "e"))
    assert caught.value.hint


def test_a_cluster_is_refused_where_nothing_is_simulated() -> None:
    words = ["lab", "run", "interference", "--schedulers", "none", "--dask", "local:1", "--dry-run"]
    with pytest.raises(SpecError, match="--dask would change nothing: the work is io"):
        CliRunner().invoke(cli, words, catch_exceptions=False)


def test_an_overloaded_device_is_noted(tmp_path: Path) -> None:
    text = SWEEP.replace("requests = 300", "requests = 3000").replace("blocks = 10", "blocks = 1")
    runs = measure.run(written(tmp_path / "a.toml", text), tmp_path / "out").record.runs
    noted = {run.workload for run in runs for gate in run.gates if gate.gate == "overloaded"}
    assert noted == {run.workload for run in runs if run.properties["steady"] == "overloaded"}
    assert "D" in noted and all(run.status == "ok" for run in runs)


def test_a_policy_in_python_of_a_file_is_not_run_without_trust(tmp_path: Path) -> None:
    policy = f"{tmp_path}/first.py:First"
    (tmp_path / "first.py").write_text(f"open('{tmp_path}/ran', 'w').close()\n")
    file = written(tmp_path / "sweep.toml", SWEEP.replace('"tsb"', f'"{policy}"'))
    with pytest.raises(SpecError, match="this experiment wants to run ") as caught:
        CliRunner().invoke(cli, ["run", str(file)], catch_exceptions=False)
    assert "--trust" in caught.value.hint and not (tmp_path / "ran").exists()


def test_a_sweep_says_how_near_its_loads_are_to_checked_ones() -> None:
    both = {"grid": {"scheduler": ["none", "noop"], "workload.tags": [8, 16]}}
    work = {"kind": "host-queue", "parameters": {"processes": "readers3", "seconds": 1}}
    experiment = experiment_of(sweep(candidates=[both], workloads=[work], notes=["mine"]), "e")
    admitted = admit(admit(experiment).experiment).experiment
    unknown = "readers3: noop was never checked against a kernel"
    assert admitted.notes[0] == "mine" and admitted.notes.count(unknown) == 1
    assert not any(": none is not" in note for note in admitted.notes)


def test_a_process_may_be_written_into_the_workload(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text('[[process]]\nname = "it"\ncount = 2\nrecord = 8192\npattern = "reverse"\n')
    keys = {"processes.record": 8192, "processes.pattern": "reverse", "processes.count": 2}
    found = []
    for parameters in ({"processes": str(file)}, {"processes": {"name": "it"}} | keys):
        work = {"kind": "host-queue", "parameters": {**parameters, "seconds": 0.2, "tags": 2}}
        experiment = experiment_of(sweep(workloads=[work], candidates=[{"label": "none"}]), "e")
        found.append(outcome_of((experiment.workloads[0], experiment.candidates[0]), 1))
    assert found[0] == found[1] and found[0].metrics["iops"] > 0


@pytest.mark.sampled(2)
def test_the_ncq_study_answers_at_the_chosen_buffer_and_alpha(tmp_path: Path) -> None:
    """A buffer, alpha and parallel dies are parameters: a curve, and no part of a worst case. What
    was published is beside the figures; those of the whole study are in tests/tour.
    """
    study = lab_experiment(lab_named("ncq-ssd"), "small")
    works = tuple(replace(work, parameters={**work.parameters, "requests": 500})
                  for work in study.workloads)  # fmt: skip
    small = replace(study, workloads=works, stopping=Stopping(blocks=2))
    result = measure.run(small, tmp_path / "out", permission=Permission())
    answer = result.answer
    assert answer.counted == ("A 64 MiB", "B 64 MiB", "C 64 MiB", "D 64 MiB")
    assert sum(row.why == "parameter" and row.role == "primary" for row in answer.rows) == 27
    assert {answer.row(loss.row).workload for loss in answer.prices} <= set(answer.counted)
    view = View(result.record, answer, Texts("en"))
    assert {row.workload for row in screen.rows_of(view)} == set(answer.counted)
    (curve,) = (t for t in study_tables(view) if t.name == "means-max_write_ms-A-32-MiB-alpha")
    alphas = [row.cells[0].number for row in curve.rows]
    assert (alphas[0], alphas[-1]) == (0.1, 1.0) and 0.9 in alphas
    assert (curve.columns[0].title, curve.chart) == ("alpha", "lines")
    judged = [each.comes_out for each in answer.statements if each.comes_out is not None]
    assert len(judged) > 10 and 0 < sum(judged) < len(judged)
    told = f"{sum(judged)} of {len(judged)} statements that were published come out."
    assert all(each.figure and each.figure > 0 for each in answer.statements)
    page = html(result.record, answer)
    assert all(each.says in page for each in answer.statements)
    assert told in page and told in " ".join(result.text().split())
    # Of A the buffer is a line of the means, an axis with a logarithm.
    assert "Mean read response: means: A" in page
