"""Nonsense is refused with the key and the range; a running simulation can be stopped."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import refusals
from click.testing import CliRunner

from schedlab.cli import cli
from schedlab.errors import Interrupted, SpecError
from schedlab_sim import _simulators
from schedlab_sim.simulation import Requests, Simulation

WRONG = (
    {"device_set": {"flash.dies_per_package": 0}}, {"device_set": {"buffer.size": "65GiB"}},
    {"device_set": {"flash.colour": 1}}, {"device_set": {"queue.depth": 0}},
    {"policy_set": {"alpha": 0}}, {"policy_set": {"alpha": 1.5}},
    {"policy_set": {"alpha": float("nan")}}, {"policy": "lifo"}, {"workload": "Z"},
    {"workload_set": {"read_share": 2}}, {"workload_set": {"inter_arrival_ms": 0}},
    {"workload": "A", "workload_set": {"first_file": "1TiB"}}, {"device": "ncq3000"},
    {"service": "parallel", "device_set": {"ftl.over_provisioning": 0.0001}},
    {"service": "parallel", "device_set": {"ftl.allocation": "cwdd"}},
    {"workload": Requests([0], [1 << 36], [4096], [0])},  # beyond the end
    {"workload": Requests([5, 4], [0, 0], [4096, 4096], [0, 1])},  # out of order
)  # fmt: skip


def test_nonsense_names_the_key_and_the_range(golden: Callable[[str, str], None]) -> None:
    cases = [(each,) for each in WRONG]
    golden("refusals/ssd.txt", refusals(lambda fields: Simulation(**fields).run(), cases))


def test_errors_name_the_file_and_the_option_and_no_line_of_ours(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("a = [")
    with pytest.raises(SpecError, match=rf"^{broken}: TOML parse error at line 1") as refused:
        Simulation(device=str(broken)).run()
    assert "--help" in refused.value.hint
    with pytest.raises(SpecError, match=r"unknown field `alpa`, expected .*`$") as refused:
        Simulation(policy_set={"alpa": 0.5}).run()
    assert "--skip-bad-lines" not in refused.value.hint
    trace = tmp_path / "trace.csv"
    trace.write_text("1,2\n")
    with pytest.raises(SpecError, match=rf"^{trace}, line 1: ") as refused:
        Simulation(workload=trace, workload_set={"format": "msr"}).run()
    assert "--skip-bad-lines" in refused.value.hint


@pytest.mark.parametrize(
    "words",
    [["sim", "cpu", "--seed", "-1"], ["sim", "cpu", "--width", "-1"], ["sim", "cpu", "--hz", "-1"],
     ["sim", "run", "--depth", "-1"], ["sim", "run", "--seed", "18446744073709551616"]],
)  # fmt: skip
def test_numbers_beyond_an_option_are_refused_before_a_simulation(words: list[str]) -> None:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert f"Invalid value for '{words[2]}'" in result.stderr


def test_the_runs_of_an_experiment_are_cut_alike() -> None:
    with pytest.raises(SpecError, match="warm-up auto") as refused:
        CliRunner().invoke(
            cli, ["sim", "compare", "--warm-up", "auto"],
            standalone_mode=False, catch_exceptions=False,
        )  # fmt: skip
    assert refused.value.hint.startswith("none, a number of requests, or a time")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--buffer", "65GiB"], "buffer.size = 65 GiB: expected 0 to the device's size, 64 GiB"),
        (["--policy", "tsb", "--alpha", "nan"], "alpha = NaN: expected a number above 0 and at"),
        (["--trace", "beyond.csv"], "request 0: offset = 68719472640: expected 0 to 68719476736"),
    ],
)
def test_the_command_says_what_is_wrong_and_what_helps(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    text = "arrival_ms,is_write,first_page,pages\n0,0,16777215,2\n"
    (tmp_path / "beyond.csv").write_text(text)
    command = [sys.executable, "-m", "schedlab", "sim", "run", *arguments]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    error, hint = result.stderr.splitlines()
    assert error.startswith("error: ") and message in error
    assert hint.startswith("hint: ")


def test_a_running_simulation_stops_within_100_ms() -> None:
    stop = _simulators.SimStop()
    endless = Simulation(workload="randread4k", requests=10**12)
    outcome: list[BaseException] = []

    def work() -> None:
        try:
            endless.run(stop)
        except Interrupted as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    stop.set()
    thread.join(10)
    assert outcome and not thread.is_alive()


def test_ctrl_c_ends_a_run_with_130() -> None:
    command = [sys.executable, "-m", "schedlab", "sim", "run", "--seeds", "1"]
    command += ["--workload", "randread4k", "--requests", "1000000000000"]
    # The caller of the tests may ignore SIGINT, and children inherit that.
    process = subprocess.Popen(
        command,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    try:
        deadline = time.monotonic() + 20
        # It simulates once it has a thread of the pool and one of the simulator.
        threads = Path(f"/proc/{process.pid}/task")
        while len(list(threads.iterdir())) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    finally:
        process.kill()
        process.wait()
