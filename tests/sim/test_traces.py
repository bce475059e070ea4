"""Traces in `sim run`: volumes, fit, times, malformed lines."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.errors import SpecError
from schedlab_sim.cli.sim import sim


def msr(folder: Path, disks: list[int], offset: int = 0) -> str:
    path = folder / "t.csv"
    path.write_text(
        "".join(
            f"{128166372003061629 + i * 10**6},host,{disk},Read,{offset},4096,41286\n"
            for i, disk in enumerate(disks)
        )
    )
    return f"{path}:msr"


def run(*arguments: str) -> dict:
    result = CliRunner().invoke(sim, ["run", *arguments, "--json"], catch_exceptions=False)
    return {**json.loads(result.stdout), "stderr": result.stderr}


def test_equal_addresses_of_two_volumes_never_hit(tmp_path: Path) -> None:
    text = msr(tmp_path, [0, 1, 2])
    with pytest.raises(SpecError, match=r"3 volumes, host.0, host.1, host.2") as caught:
        run("--trace", text)
    assert "--volumes region" in str(caught.value.hint)
    result = run("--trace", text, "--volumes", "region")
    assert result["runs"][0]["read_hit_ratio"] == 0
    assert [v["base_bytes"] for v in result["trace"]["volumes"]] == [0, 1 << 20, 2 << 20]
    result = run("--trace", text, "--volumes", "select=host.1")
    assert result["runs"][0]["requests"] == 1


def test_a_trace_beyond_the_device_fits_when_asked(tmp_path: Path) -> None:
    text = msr(tmp_path, [0, 0], offset=1 << 37)
    with pytest.raises(SpecError, match="the device's end") as caught:
        run("--trace", text)
    assert "--fit" in str(caught.value.hint)
    for fit in ("wrap", "compact", "scale"):
        result = run("--trace", text, "--fit", fit)
        assert result["runs"][0]["requests"] == 2
        assert "moved to fit" in result["stderr"]


def test_times_and_closed_loops(tmp_path: Path) -> None:
    text = msr(tmp_path, [0] * 11)
    whole = run("--trace", text)["runs"][0]["iops"]
    assert run("--trace", text, "--time-scale", "2")["runs"][0]["iops"] == pytest.approx(
        2 * whole, rel=0.01
    )
    assert run("--trace", text, "--rate", "1000")["trace"]["time_scale"] == pytest.approx(
        1000 / 11, rel=1e-6
    )
    assert run("--trace", text, "--closed")["runs"][0]["iops"] > 100 * whole


def test_malformed_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    text = msr(tmp_path, [0] * 50)
    path = Path(text.removesuffix(":msr"))
    path.write_text(path.read_text() + "nonsense\n")
    with pytest.raises(SpecError, match="line 51"):
        run("--trace", text)
    result = run("--trace", text, "--skip-bad-lines")
    assert result["trace"]["skipped"]["bad"] == 1
    assert "more than 1 %" in result["stderr"]
