"""Every command with standard input, output or errors closed: no traceback, no changed setting, and
nothing of what it prints in a file that it has open.

MATRIX=all runs every command in all eight combinations; otherwise each gets one of them, and all
combinations occur.
"""

import os
import subprocess
import sys
from itertools import combinations

import click
import pytest
from commands import PARENT

from schedlab.cli import cli
from schedlab.host import journal, knobs

CLOSED = [which for count in range(4) for which in combinations(range(3), count)]
ALL = os.environ.get("MATRIX") == "all"
# Words that let a command do a little of its work; those that need none are not named.
QUICK = {
    "apply": ["bfq", "LOOP"], "compare": ["--scratch", "64M", "--dry-run"],
    "completion": ["bash"], "cpu compare": ["--dry-run"], "cpu cost": ["--cpu", "99999"],
    "cpu run": ["1", "0.1"], "cpu sweep": ["--dry-run"], "device up": ["no-such-model"],
    "docs": ["io-lab"], "init": ["FILE"], "io get": ["LOOP"], "io list": ["LOOP"],
    "io run": ["--test", "write", "--file", "FILE", "--size", "64k"], "io set": ["bfq", "LOOP"],
    "io sweep": ["--dry-run"], "lab run": ["block-size", "--dry-run"],
    "live": ["LOOP", "--dry-run"], "recommend": ["LOOP", "--seconds", "1"], "run": ["EMPTY"],
    "sim compare": ["--requests", "100", "--seeds", "2"],
    "sim ncq-study": ["--requests", "100", "--seeds", "1"],
    "sim validate": ["disk7200", "EMPTY"], "trace cpu": ["true"],
    "trace io": ["LOOP", "--seconds", "0.1"], "tune": ["--scratch", "64M", "--dry-run"],
    "undo": ["--all"], "watch": ["LOOP", "--seconds", "0.1"],
}  # fmt: skip


def commands(command=cli, words=()):
    """The words of every command there is."""
    if not isinstance(command, click.Group):
        return [words]
    names = command.list_commands(PARENT)
    below = [(command.get_command(PARENT, name), (*words, name)) for name in names]
    return [each for one, path in below if one for each in commands(one, path)]


def required(words):
    """Something for each argument and option that a command cannot do without."""
    command = cli
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(PARENT, word)
    assert command is not None
    typed = []
    for parameter in command.params:
        if parameter.required:
            typed += [] if isinstance(parameter, click.Argument) else [parameter.opts[0]]
            choices = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
            typed.append(str(choices[0]) if choices else "EMPTY")
    return typed


CASES = [
    (words, closed)
    for number, words in enumerate(commands())
    for at, closed in enumerate(CLOSED)
    if ALL or at == number % 8
]


@pytest.mark.parametrize(("words", "closed"), CASES, ids=lambda part: " ".join(map(str, part)))
def test_a_command_without_standard_descriptors(loop, state, tmp_path, words, closed):
    (tmp_path / "empty").write_text("", encoding="ascii")
    places = {"LOOP": loop, "EMPTY": str(tmp_path / "empty"), "FILE": str(tmp_path / "file")}
    typed = QUICK.get(" ".join(words), required(words))
    command = [sys.executable, "-m", "schedlab", *words, *(places.get(w, w) for w in typed)]
    queue = knobs.queue_of(loop)
    before = knobs.snapshot(queue)
    shell = "".join(f" {number}>&-" for number in closed)
    result = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@"{shell}', "sh", *command], cwd=tmp_path, check=False,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    text = result.stdout + result.stderr
    assert result.returncode in (0, 1, 2), (command, text)
    assert "Traceback" not in text and "this is a bug" not in text, (command, text)
    if words in (("apply",), ("io", "set")):  # it stays; a guardian that fires would undo it
        assert (result.returncode, knobs.read_value(queue / "scheduler")) == (0, "bfq"), text
    else:
        assert knobs.snapshot(queue) == before, command
    assert journal.sessions(state) == []
    assert not list(state.rglob("*.damaged"))
    assert (tmp_path / "empty").read_bytes() == b"", "it wrote what it prints into an open file"
