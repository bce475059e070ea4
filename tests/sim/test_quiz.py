"""A quiz for a class: the key has what the simulator says, the sheets have no answer."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from schedlab.cli.sim.cpu import cpu
from schedlab.errors import SpecError

QUIZ = ("--policy", "fcfs,rr", "--quiz")
MEANS = re.compile(r"mean turnaround (\S+) ms, waiting (\S+) ms, response (\S+) ms")


def run(*words):
    return CliRunner().invoke(cpu, [*words], catch_exceptions=True)


def test_every_sheet_has_other_tasks_and_the_key_has_their_figures(tmp_path):
    file = tmp_path / "class.html"
    done = run(*QUIZ, "--seed", "3", "--count", "5", "--out", str(file))
    assert done.output == f"{file}: 5 sheets of seeds 3 to 7, and the key\n"
    sheets, key = file.read_text().split('<section id="key"')
    parts = re.split(r'<section id="sheet-\d+"', sheets)[1:]
    assert len(parts) == len(set(parts)) == 5
    for part, answers, seed in zip(parts, key.split("<caption>")[1:], range(3, 8), strict=True):
        quiz = json.loads(
            run("--policy", "fcfs,rr", "--quiz", "--seed", str(seed), "--json").output
        )
        for policy, command in quiz["reveal"].items():
            words = [sys.executable, "-m", *command.split(), "--gantt", "none"]
            shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            means = re.search(
                r"mean turnaround (\S+) ms, waiting (\S+) ms, response (\S+) ms", shown
            )
            row = next(r for r in answers.split("<tr>") if re.search(rf"{policy}.*: mean", r))
            assert [float(f) for f in means.groups()] == pytest.approx(
                [float(f) for f in re.findall(r"<td>([\d.]+)", row)], abs=1e-3
            )
        assert part.count("<td>____") == 2 * 3 * (len(quiz["tasks"]) + 1)


@pytest.mark.parametrize(
    "words",
    [
        ("--count", "3", "--out", "x.html"),
        ("--quiz", "--count", "3"),
        ("--quiz", "--out", "x.html"),
        ("--quiz", "--count", "3", "--out", "x.html", "--json"),
        ("--quiz", "--count", "3", "--out", "x.html", "--tasks", "A:0:1"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(run(*words).exception, SpecError)
    assert list(tmp_path.iterdir()) == []
