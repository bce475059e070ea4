"""A quiz for a class: the key has what the simulator says, the sheets have no answer."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from schedlab.errors import SpecError
from schedlab_sim._simulators import sim_names
from schedlab_sim.cli.cpu import cpu

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
            words = [sys.executable, "-m", *command.split()]
            shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            means = re.search(
                r"mean turnaround (\S+) ms, waiting (\S+) ms, response (\S+) ms", shown
            )
            row = next(r for r in answers.split("<tr>") if re.search(rf"{policy}.*: mean", r))
            assert [float(f) for f in means.groups()] == pytest.approx(
                [float(f) for f in re.findall(r"<td>([\d.]+)", row)], abs=1e-3
            )
        assert part.count("<td>____") == 2 * 3 * (len(quiz["tasks"]) + 1)


ALL = ",".join(name for name, _ in sim_names("cpu policy"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [3, 1, 20_000, 99_941])
@pytest.mark.parametrize(
    "more",
    [
        ("fcfs,rr",),
        (ALL,),
        (ALL, "--cpus", "2", "--switch-cost", "100us"),
        (ALL, "--time", "6ms"),
        (ALL, "--time", "1ms", "--cpus", "3"),
    ],
    ids=["guide", "all", "two-cpus", "stopped", "stopped-early"],
)
def test_a_class_of_60_whatever_the_cpus_do_and_whoever_ends(seed, more, tmp_path):
    """Gaps in which a CPU idles, switches, several CPUs, tasks that never ran or never ended."""
    file = tmp_path / "class.html"
    words = ("--quiz", "--policy", *more, "--seed", str(seed), "--count", "60", "--out", str(file))
    assert run(*words).exception is None
    key = file.read_text().split('<section id="key"')[1]
    assert key.count("<caption>") == 60
    if more == ("fcfs,rr",):
        assert key.count("idle") > 10
        # Each part begins where the one before ended, so nothing is missing from the order.
        for order in re.findall(r"A 0 to [^<]*", key):
            times = re.findall(r"([\d.]+) to ([\d.]+)", order)
            assert [end for _, end in times[:-1]] == [start for start, _ in times[1:]]


def test_the_key_names_the_cpu_of_each_part_when_there_are_several(tmp_path):
    file = tmp_path / "class.html"
    run(*QUIZ, "--seed", "3", "--count", "60", "--cpus", "2", "--out", str(file))
    key = file.read_text().split('<section id="key"')[1]
    assert re.search(r"CPU 0: A 0 to [\d.]+.*?; CPU 1: B", key)


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


def test_a_class_of_60_in_three_languages_has_the_same_figures(tmp_path):
    keys = {}
    for language, word in (("en", "Sheet 60"), ("ko", "문제지 60"), ("ru", "Лист 60")):
        file = tmp_path / f"{language}.html"
        words = ("--seed", "3", "--count", "60", "--lang", language, "--out", str(file))
        assert run(*QUIZ, *words).exception is None
        sheets, key = file.read_text().split('<section id="key"')
        assert sheets.count('<section id="sheet-') == key.count("<caption>") == 60
        assert f'<html lang="{language}">' in sheets and word in sheets
        assert ("Draw" in sheets) is ("idle" in key) is (language == "en")
        keys[language] = re.findall(r"<td>([\d.,]+)", key)
    assert len(keys["en"]) > 1000
    assert keys["en"] == keys["ko"] == keys["ru"]
