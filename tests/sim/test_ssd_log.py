"""`sim run --log`: the same requests as CSV and as Arrow, units in the names of the columns."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.errors import SpecError
from schedlab_sim.cli.run import run
from schedlab_sim.simulation import Simulation

WRITES = ["--workload", "randwrite4k", "--policy", "fcfs,tsb", "--seeds", "2", "--requests", "200"]

DISK = ["--device", "disk7200", "--policy", "sstf", "--seeds", "1", "--requests", "50"]
ABOVE = ["--device", "disk7200", "--scheduler", "none;bfq", "--processes", "copy-direct,levels"]


def logged(path: Path, *arguments: str) -> dict:
    result = CliRunner().invoke(
        run, [*arguments, "--log", str(path), "--json"], catch_exceptions=False
    )
    return json.loads(result.stdout)


@pytest.mark.parametrize("options", [WRITES, DISK, [*ABOVE, "--seconds", "0.2", "--seeds", "2"]])
def test_csv_and_arrow_hold_every_request_of_every_run(tmp_path, options) -> None:
    ipc = pytest.importorskip("pyarrow.ipc")
    runs = logged(tmp_path / "log.csv", *options)["runs"]
    logged(tmp_path / "log.arrow", *options)
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = ipc.open_file(str(tmp_path / "log.arrow")).read_all()
    filled = [{k: "" if v is None else str(v) for k, v in row.items()} for row in table.to_pylist()]
    assert filled == rows
    if options is DISK:  # no trace states a response time
        assert {row["measured_ns"] for row in rows} == {""}
        return
    if options is not WRITES:
        every = [process for of_file in runs.values() for run in of_file
                 for process in run["processes"]]  # fmt: skip
        assert {row["process"] for row in rows} == {process["name"] for process in every}
        assert len(rows) > 100
        return
    assert len(rows) == 2 * 2 * 200 and {row["operation"] for row in rows} == {"write"}
    assert [n for n in rows[0] if n.endswith("_ns")] == [
        "arrival_ns",
        "admitted_ns",
        "dispatched_ns",
        "completed_ns",
    ]


def test_the_log_explains_the_metrics(tmp_path: Path) -> None:
    (figures,) = logged(tmp_path / "log.csv", "--seeds", "1", "--requests", "300")["runs"]
    with (tmp_path / "log.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["operation"] == "read"]
    times = [int(row["completed_ns"]) - int(row["arrival_ns"]) for row in rows]
    assert figures["mean_read_ms"] == pytest.approx(sum(times) / len(times) / 1e6)
    assert figures["max_read_ms"] == pytest.approx(max(times) / 1e6)


def test_a_log_of_another_kind_is_refused_before_simulating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Simulation, "run", lambda *_: pytest.fail("it was simulated"))
    with pytest.raises(SpecError, match=r"ends in \.csv or \.arrow"):
        logged(tmp_path / "log.parquet")
