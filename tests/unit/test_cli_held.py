"""What the command line answers to a terminal and to a script: colour, notes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.cli import cli
from schedlab.cli.show import terminal


@pytest.mark.parametrize(
    ("variables", "has_colour"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
    ],
)
def test_a_terminal_gets_colour_unless_it_or_the_user_refuses(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], has_colour: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "97")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        shown = terminal()
        monkeypatch.undo()
    os.close(ours)
    assert shown == (97, has_colour)


FILE = """
kind = "sim"
seed = 1
notes = ["the device is a model"]
candidates = [
    { label = "fcfs", settings = { policy = "fcfs" } },
    { label = "tsb", settings = { policy = "tsb" } },
]
stopping = { blocks = 1 }
[[workloads]]
kind = "ssd"
metric = "mean_read_ms"
parameters = { requests = 100 }
"""


def test_what_an_experiment_notes_is_said_before_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(FILE)
    done = CliRunner().invoke(cli, ["run", "e.toml", "--out", "r"])
    assert done.exit_code == 0, done.output
    first, *rest = done.stderr.splitlines()
    assert first == "note: the device is a model"
    assert rest and "note: " not in done.stdout
