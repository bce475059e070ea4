"""`tools/validate_disk.py`: the demerit by hand, closed loops, volumes of a trace."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from small_disks import measured_trace, small_disk
from validate_disk import Comparison, validate_disk

from schedlab.errors import SpecError
from schedlab_sim.cli.sim import sim
from schedlab_sim.simulation import Simulation


def validated(*arguments: str) -> dict:
    result = CliRunner().invoke(validate_disk, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_services_by_hand(tmp_path: Path) -> None:
    # A turn is 8 ms, a sector 1 ms. Sector 2 passes from 2 to 3 ms, and takes 0.1 ms on the bus.
    # The next comes 1 ms after that, at 4.1 ms: it is in the cache, 0.2 + 0.1 ms.
    lines = ["R A 2 1 3100 1000", "R A 2 1 300 5000"]
    report = validated(small_disk(tmp_path), measured_trace(tmp_path, lines))
    assert report["parts"]["all"]["demerit_ms"] == pytest.approx(0)
    assert report["kinds"]["read-hit"] == report["kinds"]["read-miss"] == 1
    shifted = ["R A 2 1 2100 1000", "R A 2 1 1300 5000"]
    report = validated(small_disk(tmp_path), measured_trace(tmp_path, shifted))
    assert report["parts"]["reads"]["demerit_ms"] == pytest.approx(1)


def test_a_cached_write_is_complete_after_overhead_and_bus(tmp_path: Path) -> None:
    cache = 'write_cache = {segments = 1, segment = "2KiB"}\n'
    # The second write finds the only extent dirty: it waits for the destage, which begins 0.5 ms
    # after the first write came and ends when sector 5 has passed, at 6 ms.
    lines = ["W A 5 1 500 1000", "W A 20 1 4600 90000", "R A 20 1 300 0"]
    path = small_disk(tmp_path, cache)
    report = validated(path, measured_trace(tmp_path, lines))
    rows = {row["index"]: row for row in report["worst"]}
    assert rows[0]["simulated_ms"] == pytest.approx(0.5)
    assert (rows[0]["kind"], rows[1]["kind"]) == ("write-cached", "write-waited")
    assert rows[1]["simulated_ms"] == pytest.approx(6 - 1.5 + 0.1)
    simulation = Simulation(device=path, workload="randwrite4k", record="512", requests=300)
    with_cache = simulation.run()
    used = with_cache["write_cache"]
    written = used["overwritten_sectors"] + used["destaged_sectors"]
    assert written == used["written_sectors"] == 300
    assert with_cache["busy_ns"] <= with_cache["elapsed_ns"]


def test_endless_writes_are_as_fast_as_without_a_cache(tmp_path: Path) -> None:
    figures = {
        name: Simulation(
            device="disk7200",
            workload="randwrite4k",
            requests=4000,
            device_set=changes,
            policy="fcfs",
        ).run()["iops"]
        for name, changes in (
            ("without", {}),
            ("with", {"write_cache": {"segments": 8, "segment": "64KiB"}}),
        )
    }
    assert figures["with"] == pytest.approx(figures["without"], rel=0.02)


def test_no_measured_response_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.spc"
    path.write_text("0,1,512,r,0\n")
    with pytest.raises(SpecError, match="no measured response times") as caught:
        CliRunner().invoke(
            validate_disk, [small_disk(tmp_path), f"{path}:spc"], catch_exceptions=False
        )
    assert "disksim-validate" in str(caught.value.hint)


def test_volumes_of_a_trace_are_chosen_as_the_error_says(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = (f"128166372003061629,usr,{disk},Read,{disk * 8192},4096,4000" for disk in (0, 1, 0))
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(SpecError, match=r"2 volumes, usr\.0, usr\.1") as caught:
        validated("disk7200", f"{path}:msr")
    assert "--volumes select=" in caught.value.hint
    assert (
        validated("disk7200", f"{path}:msr", "--volumes", "select=usr.0")["parts"]["all"][
            "requests"
        ]
        == 2
    )
    assert (
        validated("disk7200", f"{path}:msr", "--volumes", "region")["parts"]["all"]["requests"] == 3
    )


def test_fail_above_is_exit_code_1(tmp_path: Path) -> None:
    words = ["disk7200", measured_trace(tmp_path, ["R A 2 1 8000 1000"])]
    share = validated(*words)["parts"]["all"]["demerit_share"]
    for factor, code in ((1.01, 0), (1, 0), (0.99, 1)):
        asked = [*words, "--fail-above", repr(share * factor)]
        assert CliRunner().invoke(validate_disk, asked).exit_code == code


def test_a_log_and_set_of_a_disk(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    arguments = [
        "run",
        "--device",
        "disk7200",
        "--requests",
        "50",
        "--seeds",
        "1",
        "--set",
        "rpm=3600",
    ]
    result = CliRunner().invoke(sim, [*arguments, "--log", str(log), "--json"])
    (run,) = json.loads(result.stdout)["runs"]
    lines = log.read_text().splitlines()
    assert len(lines) == 51 and lines[0].startswith("policy,seed,index,arrival_ns")
    assert 7_000_000 < run["rotation_ns_mean"] < 9_500_000
    with pytest.raises(SpecError, match="unknown field `colour`"):
        Simulation(device="disk7200", device_set={"colour": 1}).run()


def test_the_share_of_the_demerit_is_of_the_measured_mean() -> None:
    """A model that is too slow must not look better by its own slowness."""
    one = Comparison.of(np.array([12.0, 14.0]), np.array([2.0, 4.0]))
    assert (one.demerit_ms, one.demerit_share) == (10.0, pytest.approx(10 / 3))
