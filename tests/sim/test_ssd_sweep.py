"""Sweeps: the same bytes in threads and on a cluster; nothing is lost when a worker dies."""

import json
import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.cli.sim.sweep import sweep as sweep_command
from schedlab.errors import SpecError
from schedlab.result import Result
from schedlab.sim import read_sweep, run_sweep
from schedlab.sim.sweep import Point

SWEEP = """
seeds = 10
[fixed]
requests = 300
"device.buffer.size" = "8MiB"
[parameters]
workload = ["A", "D"]
policy = ["fcfs", "tsb"]
"policy.alpha" = [0.5, 0.8, 0.9, 0.95, 1.0]
"""


def written(path: Path, text: str = SWEEP) -> Path:
    path.write_text(text)
    return path


def test_200_points_in_threads_and_on_two_workers_one_of_which_dies(tmp_path: Path) -> None:
    sweep = read_sweep(written(tmp_path / "sweep.toml"))
    assert len(sweep.points) == 200
    run_sweep(sweep, tmp_path / "threads")

    from distributed import Client, LocalCluster

    killed: list[int] = []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        workers = client.run(os.getpid)

        def kill_one(count: int, _total: int) -> None:
            if count >= 50 and not killed:
                killed.append(next(iter(workers.values())))
                os.kill(killed[0], signal.SIGKILL)

        run_sweep(sweep, tmp_path / "dask", kill_one, client.get_executor(retries=10, pure=False))
    assert killed
    one, other = (tmp_path / name / "results.jsonl" for name in ("threads", "dask"))
    assert one.read_bytes() == other.read_bytes()


def test_a_point_is_on_the_disk_before_it_counts_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SWEEP.replace("seeds = 10", "seeds = 1").replace('"A", "D"', '"A"')
    sizes: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.name == "done.jsonl":
            sizes.append(path.stat().st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    counts: list[int] = []

    def report(count: int, _total: int) -> None:
        counts.append(count)
        assert len(sizes) == count

    run_sweep(read_sweep(written(tmp_path / "sweep.toml", text)), tmp_path / "out", report)
    assert counts == list(range(11))
    assert sizes == sorted(set(sizes)) and sizes[-1] == (tmp_path / "out/done.jsonl").stat().st_size


def test_a_sweep_resumes_after_an_interruption(tmp_path: Path) -> None:
    sweep = read_sweep(written(tmp_path / "sweep.toml"))
    run_sweep(sweep, tmp_path / "whole")

    def interrupt(count: int, _total: int) -> None:
        if count == 70:
            raise KeyboardInterrupt

    with pytest.raises(BaseException, match="interrupted"):
        run_sweep(sweep, tmp_path / "parts", interrupt)
    assert len((tmp_path / "parts" / "done.jsonl").read_text().splitlines()) == 70
    with (tmp_path / "parts" / "done.jsonl").open("a") as out:
        out.write('{"settings": {"pol')  # a crash in the middle of a line
    seen: list[int] = []
    run_sweep(sweep, tmp_path / "parts", lambda count, _total: seen.append(count))
    assert seen[0] == 70
    one, other = (tmp_path / name / "results.jsonl" for name in ("whole", "parts"))
    assert one.read_bytes() == other.read_bytes()


def test_a_folder_of_another_sweep_is_refused(tmp_path: Path) -> None:
    small = "seeds = 1\n[fixed]\nrequests = 10\n[parameters]\npolicy = ['fcfs']\n"
    run_sweep(read_sweep(written(tmp_path / "a.toml", small)), tmp_path / "out")
    other = read_sweep(written(tmp_path / "b.toml", small.replace("fcfs", "s")))
    with pytest.raises(SpecError, match="another sweep"):
        run_sweep(other, tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[parameters]\npolicy = 'fcfs'\n", "parameters.policy"),
        ("[parameters]\ncolour = ['red']\n", "unknown key 'colour'"),
        ("[grid]\n", "unknown key 'grid'"),
        ("seeds = \n", "sweep.toml"),
        ("seeds = 2\n[fixed]\ntrace = 't.spc'\n", "a trace is one sample"),
    ],
)
def test_a_wrong_sweep_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_sweep(written(tmp_path / "sweep.toml", text))


def test_a_sweep_of_a_trace_has_one_seed(tmp_path: Path) -> None:
    text = "[fixed]\ntrace = 't.spc'\n[parameters]\npolicy = ['fcfs', 's']\n"
    assert [point.seed for point in read_sweep(written(tmp_path / "a.toml", text)).points] == [1, 1]


def test_dotted_keys_reach_device_policy_and_workload() -> None:
    settings = {"device.flash.channels": 4, "policy.alpha": 0.5, "workload.inter_arrival_ms": 2.0}
    simulation = Point({**settings, "policy": "tsb", "trace": "x.csv"}, 3).simulation()
    assert simulation.device_set == {"flash.channels": 4}
    assert simulation.policy_set == {"alpha": 0.5}
    assert simulation.workload_set == {"inter_arrival_ms": 2.0}
    assert (simulation.workload, simulation.seed) == (Path("x.csv"), 3)


def test_a_kill_at_any_byte_loses_at_most_the_line_in_progress(tmp_path: Path) -> None:
    small = "seeds = 3\n[fixed]\nrequests = 10\n[parameters]\npolicy = ['fcfs', 's']\n"
    sweep = read_sweep(written(tmp_path / "a.toml", small))
    run_sweep(sweep, tmp_path / "out")
    whole = (tmp_path / "out" / "results.jsonl").read_bytes()
    file = tmp_path / "out" / "done.jsonl"
    text = file.read_bytes()
    for cut in range(0, len(text), 97):
        file.write_bytes(text[:cut])
        seen: list[int] = []
        run_sweep(sweep, tmp_path / "out", lambda count, _total, seen=seen: seen.append(count))
        whole_lines = text[: text[:cut].rfind(b"\n") + 1]
        assert seen[0] == whole_lines.count(b"\n")
        assert file.read_bytes().startswith(whole_lines)
        assert (tmp_path / "out" / "results.jsonl").read_bytes() == whole


def test_a_sweep_ends_in_a_result_with_its_figures(tmp_path: Path) -> None:
    text = """
seeds = 4
title = "Buffers"
[fixed]
requests = 1500
policy = "tsb"
[parameters]
workload = ["A", "D"]
"device.buffer.size" = ["8MiB", "64MiB"]
"""
    path = written(tmp_path / "sweep.toml", text)
    printed = CliRunner().invoke(sweep_command, [str(path)], catch_exceptions=False).output
    folder = tmp_path / "sweep/result"
    assert f"schedlab analyse {folder}" in printed
    result = Result.load(folder).record
    assert result.experiment.title == "Buffers"
    labels = [candidate.label for candidate in result.experiment.candidates]
    assert labels == ["device.buffer.size=8MiB", "device.buffer.size=64MiB"]
    rows = [json.loads(line) for line in (tmp_path / "sweep/results.jsonl").open()]
    means = [row["metrics"]["mean_read_ms"] for row in rows]
    stored = {(r.workload, r.candidate, r.block): r.metrics["mean_read_ms"] for r in result.runs}
    assert len(stored) == 16 and list(stored.values()) == means
    assert {run.block for run in result.runs} == {0, 1, 2, 3}
    # Finished already: nothing is simulated again, and the result stays.
    before = (folder / "runs.jsonl").stat()
    again = CliRunner().invoke(sweep_command, [str(path)], catch_exceptions=False).output
    assert "16/16 points" in again and (folder / "runs.jsonl").stat() == before
