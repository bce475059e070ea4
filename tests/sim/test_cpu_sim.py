"""`schedlab sim cpu`: forms of input and output, the quiz, the chart with measured bursts."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.errors import SpecError
from schedlab.store.bursts import read_bursts
from schedlab_sim.cli.sim import sim
from schedlab_sim.cpu_validate import tasks_of


def run(*arguments: str) -> str:
    result = CliRunner().invoke(sim, ["cpu", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def simulated(*arguments: str) -> list[dict]:
    return json.loads(run(*arguments, "--json"))["results"]


def refused(*arguments: str) -> SpecError:
    result = CliRunner().invoke(sim, ["cpu", *arguments])
    assert isinstance(result.exception, SpecError), result.output
    assert result.exception.hint
    return result.exception


def test_text_and_toml_describe_the_same_tasks(tmp_path):
    path = tmp_path / "tasks.toml"
    path.write_text(
        '[[task]]\nname = "A"\nbursts = ["8ms"]\n'
        '[[task]]\nname = "B"\narrival = "1ms"\nbursts = ["4ms", "2000us", "1ms"]\npriority = 2\n'
    )
    from_text = simulated("--tasks", "A:0:8,B:1:4/2/1:prio=2", "--policy", "rr,srtf")
    assert from_text == simulated("--tasks", str(path), "--policy", "rr,srtf")
    assert [result["policy"] for result in from_text] == ["rr", "srtf"]


def test_the_guide_shows_what_is_printed():
    guide = Path(__file__).parents[2] / "docs/guides/cpu-simulator.md"
    block = guide.read_text().split("```\n")[1].splitlines()
    command, shown = shlex.split(block[0])[2:], block[1:]
    assert command[:2] == ["sim", "cpu"]
    assert run(*command[2:]).splitlines()[: len(shown)] == shown


def test_a_list_of_tasks_may_be_longer_than_the_name_of_a_file():
    tasks = ",".join(f"T{number}:{number}:8" for number in range(999))
    (result,) = simulated("--tasks", tasks)
    assert len(result["tasks"]) == 999


def test_quiz_hides_the_answers_and_its_command_reveals_them():
    arguments = ("--quiz", "--policy", "srtf", "--seed", "7")
    text = run(*arguments)
    assert text == run(*arguments)
    assert "____" in text
    command = next(line for line in text.splitlines() if line.startswith("  schedlab sim cpu"))
    answer = run(*shlex.split(command)[3:])
    assert "mean turnaround" in answer
    quiz = json.loads(run(*arguments, "--json"))
    assert set(quiz) == {"schema", "seed", "tasks", "find", "reveal"}
    assert quiz["reveal"]["srtf"] == command.strip()


def test_quiz_reveals_tasks_of_a_file_too(tmp_path):
    path = tmp_path / "tasks.toml"
    path.write_text('[[task]]\nname = "A B"\nbursts = ["1500us"]\nnice = -3\nslice = "2ms"\n')
    quiz = json.loads(run("--quiz", "--policy", "eevdf", "--tasks", str(path), "--json"))
    command = shlex.split(quiz["reveal"]["eevdf"])[3:]
    revealed = simulated(*command)[0]["tasks"]
    assert revealed == simulated("--policy", "eevdf", "--tasks", str(path))[0]["tasks"]


def test_svg_is_xml_with_measured_bursts(tmp_path):
    path = tmp_path / "bursts.jsonl"
    lines = [
        {"process": 71, "start_ns": 5_000_000, "duration_ns": 4_000_000},
        {"process": 70, "start_ns": 9_000_000, "duration_ns": 2_000_000},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    arguments = ("--tasks", "A:0:8,B:1:4", "--measured", str(path))
    chart = tmp_path / "chart.svg"
    assert "mean turnaround" in run(*arguments, "--gantt", str(chart))
    svg = ET.fromstring(chart.read_text())
    titles = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert "measured: 0 to 4 ms" in titles
    assert "measured: 4 ms to 6 ms" in titles
    simulated("--tasks", "A<1>:0:5,B:2:2", "--gantt", str(chart), "--width", "500")
    text = chart.read_text()
    assert "A&lt;1&gt; runs: 0 to 4 ms" in text and "A<1>" not in text and "href" not in text
    assert 'viewBox="0 0 500 ' in text


def test_measured_bursts_in_every_form_that_is_written(tmp_path):
    path = tmp_path / "bursts"
    forms = [
        "end_ns,duration_ns,task,preempted\n9000000,4000000,71,1\n11000000,2000000,72,0\n",
        json.dumps({"timeline": [[0, 0, 4_000_000], [1, 4_000_000, 2_000_000]], "burst_ns": []}),
        '{"process": "A", "start_ns": 1, "duration_ns": 4000000}\n'
        '{"process": "B", "start_ns": 4000001, "duration_ns": 2000000}\n',
    ]
    charts = []
    for form in forms:
        path.write_text(form)
        chart = ["--gantt", str(tmp_path / "chart.svg"), "--measured", str(path)]
        run("--tasks", "A:0:8,B:1:4", *chart)
        charts.append((tmp_path / "chart.svg").read_text())
    assert "measured: 0 to 4 ms" in charts[0]
    assert charts[0] == charts[1] == charts[2]


def test_measured_threads_of_one_name_are_those_of_the_tasks_made_of_them(tmp_path):
    switch = "x-1 [000] d..2. 1.00000{}: sched_switch: x:{} [120] {} ==> x:{} [120]\n"
    path = tmp_path / "switches.txt"
    path.write_text("".join(switch.format(*each) for each in (
        (0, 9, "S", 7), (2, 7, "R", 8), (3, 8, "S", 7), (7, 7, "S", 9),
    )))  # fmt: skip
    assert [each["name"] for each in tasks_of(path)] == ["x:7", "x:8"]
    bursts = [(b["task"], b["duration_ns"]) for b in read_bursts(path, ["x:7", "x:8"])]
    assert bursts == [(0, 2000), (1, 1000), (0, 4000)]
    assert {b["task"] for b in read_bursts(path, ["w", "x"])} == {1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--policy", "fair", "--tasks", "A:0:1"],
            '"fair" is not known: expected one of fcfs, sjf',
        ),
        (["--tasks", "A:0"], "; a part is missing"),
        (["--tasks", "A:0:1", "--quantum", "0"], "quantum = 0 ns: expected"),
        (["--tasks", "A:0:1", "--cpus", "0"], "cpus = 0: expected 1 to 1024"),
        (["--tasks", "A:0:1", "--hz", "0"], "hz = 0: expected 1 to 1000000"),
        (
            ["--tasks", "A:0:1", "--gantt", "g.svg", "--from", "9ms"],
            "from = 9000000: expected less",
        ),
        (["--tasks", "A:0:1", "--gantt", "g.svg", "--width", "3"], "width = 3: expected 300"),
        (["--tasks", "A:0:1", "--from", "9ms"], "--from would change nothing without --gantt"),
        (["--quiz", "--gantt", "g.svg"], "--gantt would show the answers"),
        (["--tasks", "A:0:1", "--processes", "2"], "cannot be used together"),
        (["--processes", "2"], "runs until a time"),
        (["--tasks", "no-such-file.toml"], "no-such-file.toml: No such file"),
        (["--tasks", "A:0:1", "--gantt", "g.svg", "--policy", "rr,sjf"], "draws one schedule"),
        ([], "no tasks"),
    ],
)
def test_bad_input_names_its_place(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in str(refused(*arguments))
    assert not list(tmp_path.iterdir()), "a refusal left a file"


def test_bad_lines_of_measured_bursts_name_their_line(tmp_path):
    path = tmp_path / "bursts.jsonl"
    chart = ["--tasks", "A:0:1", "--gantt", str(tmp_path / "g.svg"), "--measured", str(path)]
    for text in (
        '{"process": 1, "start_ns": 0, "duration_ns": 5}\n{"process": 1}\n',
        "end_ns,duration_ns,task,preempted\n9,x,7,1\n",
    ):
        path.write_text(text)
        assert f"{path}:2" in str(refused(*chart))
    path.write_text(
        "".join(f'{{"process": {i}, "start_ns": 0, "duration_ns": 5}}\n' for i in (1, 2))
    )
    assert "2 processes for 1 tasks" in str(refused(*chart))


def test_ctrl_c_ends_a_long_simulation():
    # 9 days in quanta of 1 ns would take years.
    arguments = ["--processes", "2", "--time", "400000s", "--quantum", "1ns", "--json"]
    code = (
        "import sys, threading, time, os, signal\n"
        "from schedlab.cli import main\n"
        "import schedlab_sim.cli.cpu, schedlab._core\n"
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "sim", "cpu", *arguments],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert result.returncode in (130, -signal.SIGINT), result
    assert "interrupted" in result.stderr
