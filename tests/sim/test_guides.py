"""Guides of the simulators say what is there, and show what their commands print; tests/tour types
their lines.
"""

import re
import shlex
from pathlib import Path

import pytest
from calls import run

from schedlab.errors import SpecError
from schedlab.host.emulated.emulated import shipped_models
from schedlab_sim.simulation import Simulation, policies

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / "guides" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def printed(command: str) -> str:
    """What a line of a guide prints, in the directory of now."""
    program, *words = shlex.split(command)
    assert program == "schedlab"
    return run(*words).stdout


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


def test_the_answers_of_the_class_are_those_of_its_commands() -> None:
    answers = blocks("a-class.md", "text")
    tasks = blocks("a-class.md", "sh")
    assert len(tasks) == len(answers) == 3
    for commands, answer in zip(tasks, answers, strict=True):
        outputs = "".join(map(printed, commands.splitlines()))
        for line in answer.splitlines():
            assert line.split() in [each.split() for each in outputs.splitlines()], line


def test_cpu_simulator_prints_what_its_guide_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (shown, *_) = [block for block in blocks("cpu-simulator.md", "") if block.startswith("$ ")]
    command, expected = shown.split("\n", 1)
    assert printed(command.removeprefix("$ ")).startswith(expected)


def test_cpu_simulator_validates_a_schedule_as_its_guide_says() -> None:
    rows = [f"{(i + 1) * 4_000_000},4000000,{i % 2},{int(i < 8)}" for i in range(10)]
    text = "\n".join(["end_ns,duration_ns,task,preempted", *rows])
    Path("bursts.csv").write_text(text + "\n")
    (commands,) = blocks("cpu-simulator.md", "sh")
    for command in commands.splitlines():
        assert "accepted: yes" in printed(command)


def test_the_disk_model_prints_what_its_page_shows() -> None:
    text = (ROOT / "docs" / "concepts" / "disk-model.md").read_text()
    (shown, *_) = re.findall(r"^```\n\$ (.*?)^```", text, re.MULTILINE | re.DOTALL)
    command, expected = shown.split("\n", 1)
    assert printed(command).startswith(expected)


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
