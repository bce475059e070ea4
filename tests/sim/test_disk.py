"""Simulated disks: runs per policy and seed, device files, errors that name the key."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.errors import SpecError
from schedlab_sim._simulators import sim_names
from schedlab_sim.cli.sim import sim
from schedlab_sim.results import NOT_MEASURED
from schedlab_sim.simulation import Simulation


def words(arguments: tuple[str, ...]) -> list[str]:
    device = [] if "--device" in arguments else ["--device", "disk7200"]
    return ["run", *device, *arguments]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(sim, words(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def runs(*arguments: str) -> list[dict]:
    return json.loads(run(*arguments, "--json"))["runs"]


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(sim, words(arguments))
    assert isinstance(result.exception, SpecError), result.output
    assert result.exception.hint
    return str(result.exception)


def test_poisson_arrivals_set_the_throughput():
    (one,) = runs("--rate", "40", "--requests", "20000", "--seeds", "1", "--policy", "clook")
    assert one["iops"] == pytest.approx(40, rel=0.03)
    assert one["utilisation"] == pytest.approx(40 * one["service_ns_mean"] / 1e9, rel=0.03)
    assert one["latency_ns_mean"] > one["service_ns_mean"]


def test_a_device_file_replaces_the_shipped_one(tmp_path):
    path = tmp_path / "slow.toml"
    path.write_text(dict(sim_names("device"))["disk7200"].replace("rpm = 7200", "rpm = 3600"))
    arguments = ("--requests", "3000", "--seeds", "1")
    (slow,) = runs("--device", str(path), *arguments)
    (shipped,) = runs(*arguments)
    assert slow["rotation_ns_mean"] == pytest.approx(2 * shipped["rotation_ns_mean"], rel=0.05)


def test_bad_values_name_key_and_range(tmp_path):
    assert "one of fcfs, sstf, scan, clook, sptf" in refused("--policy", "cscan")
    assert "device 'disk9' is not known" in refused("--device", "disk9")
    assert refused("--requests", "0").startswith("requests = 0: expected at least 1")
    assert refused("--depth", "0").startswith("depth = 0: expected at least 1")
    assert refused("--rate", "nan").startswith("rate_per_s = NaN: expected")
    assert refused("--rate", "-1").startswith("rate_per_s = -1: expected a positive number")
    assert "cannot be used together" in refused("--rate", "1", "--depth", "1")
    assert refused("--record", "0").startswith("record = 0 B: expected at least 1 byte")
    assert "ending within the disk" in refused("--span", "900G", "--requests", "100")
    assert "missing.toml" in refused("--device", str(tmp_path / "missing.toml"))
    path = tmp_path / "broken.toml"
    path.write_text(dict(sim_names("device"))["disk7200"].replace("heads = 4", "heads = 0"))
    assert refused("--device", str(path)) == "heads = 0: expected 1 to 1000"
    path.write_text(dict(sim_names("device"))["disk7200"].replace("rpm", "rounds"))
    message = refused("--device", str(path))
    assert str(path) in message
    assert "rounds" in message
    assert '"random9k" is not known' in refused("--workload", "random9k")


def test_a_verdict_on_policies(tmp_path):
    arguments = ("--policy", "fcfs,sptf", "--depth", "32", "--requests", "500", "--seeds", "6")
    out = tmp_path / "out"
    answer = json.loads(run(*arguments, "--out", str(out), "--json"))
    cells = answer["cells"]["random4k"]
    assert (answer["code"], answer["take"]) == ("best", "sptf")
    assert cells["fcfs"]["loss"] > math.log(1.3) and cells["fcfs"]["low"] > 0
    measured = [json.loads(line) for line in (out / "runs.jsonl").open()]
    assert {(one["block"], one["properties"]["simulation_seed"]) for one in measured} == {
        (block, block + 1) for block in range(6)
    }
    simulated = runs(*arguments)[0]
    first = next(one for one in measured if (one["block"], one["candidate"]) == (0, "fcfs"))
    assert first["metrics"]["iops"] == simulated["iops"]
    assert first["metrics"]["latency_ns_max"] == simulated["latency_ns_max"]
    assert (out / "report.html").is_file()


def written(folder: Path, lines: str) -> str:
    path = folder / "made.spc"
    path.write_text(lines)
    return f"{path}:spc"


def test_a_trace_is_replayed_at_its_times(tmp_path):
    far = [0, 900_000_000, 1_000, 900_001_000]
    trace = written(
        tmp_path, "".join(f"0,{sector},4096,r,0.00{i}\n" for i, sector in enumerate(far))
    )
    fcfs, sstf = runs("--trace", trace, "--policy", "fcfs,sstf")
    assert (fcfs["requests"], fcfs["bytes"]) == (4, 4 * 4096)
    assert fcfs["seek_cylinders_mean"] > 1.2 * sstf["seek_cylinders_mean"]
    alone = runs("--trace", trace, "--requests", "1")[0]
    assert alone["latency_ns_max"] == alone["elapsed_ns"]
    late = written(tmp_path, "0,0,4096,r,0\n0,0,4096,r,2.5\n")
    assert runs("--trace", late)[0]["elapsed_ns"] > 2_500_000_000


def test_the_log_has_the_response_times_that_a_trace_states(tmp_path):
    path = tmp_path / "made.csv"
    lines = ["0,0.001,R,0,0,4096", "1,,R,0,8192,4096", "2,0,W,0,0,4096"]
    path.write_text("Timestamp,Response,IOType,LUN,Offset,Size\n" + "\n".join(lines) + "\n")
    log = Simulation(device="disk7200", trace=path, format="systor", log=True).run().log
    assert log["measured_ns"].tolist() == [1_000_000, NOT_MEASURED, 0]


def test_a_wrong_trace_is_refused(tmp_path):
    beyond = written(tmp_path, "0,0,4096,r,0\n0,99000000000,4096,r,1\n")
    assert "ending within the disk's" in refused("--trace", beyond)
    assert "line 2" in refused("--trace", written(tmp_path, "0,0,4096,r,0\n0,x,4096,r,1\n"))
    good = written(tmp_path, "0,0,4096,r,0\n")
    assert "--depth would change nothing" in refused("--trace", good, "--depth", "4")
    assert "one sample" in refused("--trace", good, "--out", str(tmp_path / "out"))
    assert "no such file" in refused("--trace", str(tmp_path / "none"))
