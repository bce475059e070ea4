"""Guides of the simulators, followed to the letter: their files are written, their commands run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from schedlab.errors import SpecError
from schedlab.host.emulated import shipped_models
from schedlab.sim import Simulation, policies

ROOT = Path(__file__).parents[2]


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / "guides" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line of a guide, with this interpreter's schedlab."""
    assert command.startswith("schedlab ")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    arguments = [sys.executable, "-m", "schedlab", *shlex.split(command)[1:]]
    return subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_policy_in_python(tmp_path: Path) -> None:
    first, second = blocks("policy-in-python.md", "python")
    (tmp_path / "reads_first.py").write_text(first + "\n\n" + second)
    (commands,) = blocks("policy-in-python.md", "sh")
    outputs = []
    for command in commands.splitlines():
        result = run(command, tmp_path)
        assert result.returncode == 0, result.stderr
        outputs.append(result.stdout)
    assert "ReadsFirst" in outputs[0] and "ReadsFirst" in outputs[1]
    assert (tmp_path / "verdict" / "report.html").is_file()
    result = run("schedlab sim run --policy reads_first.py:Tsb --requests 500 --seeds 1", tmp_path)
    assert result.returncode == 0, result.stderr


def test_add_a_policy_names_targets_that_exist_and_the_tested_file() -> None:
    source = (ROOT / "crates/sim/tests/add_a_policy/reads_by_wait.rs").read_text()
    (page, *_) = blocks("add-a-policy.md", "rust")
    same = [line for line in page.splitlines() if line.strip() and not line.startswith("use ")]
    assert all(line in source for line in same), "the page and the tested policy differ"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks("add-a-policy.md", "sh"):
        for line in block.splitlines():
            if line.startswith("make "):
                assert line.split()[1] in targets, line


def test_the_answers_of_the_class_are_those_of_its_commands(tmp_path: Path) -> None:
    answers = blocks("a-class.md", "text")
    tasks = blocks("a-class.md", "sh")
    assert len(tasks) == len(answers) == 3
    for commands, answer in zip(tasks, answers, strict=True):
        outputs = "".join(run(command, tmp_path).stdout for command in commands.splitlines())
        for line in answer.splitlines():
            assert line.split() in [printed.split() for printed in outputs.splitlines()], line


def test_cpu_simulator_prints_what_its_guide_shows(tmp_path: Path) -> None:
    (shown, *_) = [block for block in blocks("cpu-simulator.md", "") if block.startswith("$ ")]
    command, expected = shown.split("\n", 1)
    arguments = shlex.split(command.removeprefix("$ schedlab "))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "COLUMNS": "80"}
    result = subprocess.run(
        [sys.executable, "-m", "schedlab", *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.startswith(expected), result.stderr


def test_cpu_simulator_validates_a_schedule_as_its_guide_says(tmp_path: Path) -> None:
    rows = [f"{(i + 1) * 4_000_000},4000000,{i % 2},{int(i < 8)}" for i in range(10)]
    text = "\n".join(["end_ns,duration_ns,task,preempted", *rows])
    (tmp_path / "bursts.csv").write_text(text + "\n")
    (commands,) = blocks("cpu-simulator.md", "sh")
    for command in commands.splitlines():
        result = run(command, tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "accepted: yes" in result.stdout


def test_the_disk_model_prints_what_its_page_shows(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "concepts" / "disk-model.md").read_text()
    (shown, *_) = re.findall(r"^```\n\$ (.*?)^```", text, re.MULTILINE | re.DOTALL)
    command, expected = shown.split("\n", 1)
    result = run(command, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(expected), result.stdout


def test_kernel_schedulers(tmp_path: Path) -> None:
    first, second = blocks("kernel-schedulers.md", "sh")
    for command in (first + second).splitlines():
        result = run(command, tmp_path)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "requests.svg").read_text().startswith("<svg")
    assert (tmp_path / "verdict" / "report.html").is_file()
    (processes,) = blocks("kernel-schedulers.md", "toml")
    (tmp_path / "own.toml").write_text(processes)
    line = "schedlab sim run --device disk7200 --scheduler cfq --processes own.toml"
    line += " --window 1 --seconds 2 --seeds 1"
    result = run(line, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "writer-2" in result.stdout


def first_cells(page: str, heading: str) -> tuple[set[str], str]:
    """The names in the first column of the table below a heading, and the whole section."""
    text = (ROOT / "docs" / page).read_text().partition(f"\n## {heading}\n")[2]
    section = text.partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([a-z0-9-]+)`", cell)}, section


def test_every_policy_and_parameter_is_on_the_page_of_the_simulated_ssd() -> None:
    named, section = first_cells("concepts/ssd-simulator.md", "Policies")
    assert named == set(policies())
    with pytest.raises(SpecError) as error:
        Simulation(policy_set={"no": 1}, requests=1).run()
    known = set(re.findall(r"`(\w+)`", str(error.value))) - {"no", "name"}
    assert {"alpha", "read_limit"} <= known
    assert {name for name in known if f"`{name}`" not in section} == set()


def test_every_model_is_in_the_table_of_emulated_devices() -> None:
    assert first_cells("guides/emulated-devices.md", "The models")[0] == set(shipped_models())
