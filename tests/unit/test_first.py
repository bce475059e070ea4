"""`schedlab` alone: questions in a terminal, help elsewhere; what it prints is a command."""

import os
import pty
import shlex
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from schedlab.app.first import QUESTIONS, command_of
from schedlab.cli import cli

COMMAND = [sys.executable, "-m", "schedlab"]


def understood(line):
    """Whether the command line has this command with these options."""
    context, words = click.Context(cli), shlex.split(line)[1:]
    command = cli
    while isinstance(command, click.Group):
        command = command.get_command(context, words.pop(0))
        context = click.Context(command, parent=context)
    return command.make_context(command.name, words, parent=context)


@pytest.mark.parametrize("question", QUESTIONS, ids=[one.words for one in QUESTIONS])
def test_the_command_of_every_question_is_understood(question):
    subjects = ["/dev/sdb", "make 'a b'"] if "command" in question.subject else ["/dev/sdb"]
    for subject in [*subjects, *([""] if question.unnamed is not None else [])]:
        line, *more = command_of(question, subject, question.usual, is_root=True)
        assert understood(line) and not more
        line, *more = command_of(question, subject, question.usual, is_root=False)
        assert line.startswith("sudo ") is bool(more) is bool(question.time)
        assert all(understood(each.partition(": ")[2]) for each in more)


def test_answers_become_words_of_the_command():
    def line(number, *answers):
        return command_of(QUESTIONS[number - 1], *answers, is_root=True)[0]

    assert line(1, "", "1m") == "schedlab compare --budget 1m"
    assert line(1, "/dev/my disk", "9m") == (
        "schedlab compare --device '/dev/my disk' --read-only --budget 9m"
    )
    assert line(2, "make -j2 'a b'", "3m") == (
        "schedlab compare --scratch 8G --budget 3m -- make -j2 'a b'"
    )
    assert line(5, "ncq2014", "") == "schedlab sim run --play --device ncq2014 --policy fcfs,tsb"


def test_without_a_terminal_it_prints_the_help():
    assert CliRunner().invoke(cli, []).output == CliRunner().invoke(cli, ["--help"]).output
    piped = subprocess.run(COMMAND, capture_output=True, text=True, check=False, input="1\n")
    assert "Which I/O" not in piped.stdout and "Commands:" in piped.stdout + piped.stderr


def test_three_answers_in_a_terminal_give_one_command():
    master, slave = pty.openpty()
    with os.fdopen(master, "r+b", buffering=0) as terminal:
        asking = subprocess.Popen(COMMAND, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        terminal.write(b"9\n1\n/dev/sdb\nsoon\n10m\n")
        shown = b""
        try:
            while part := terminal.read(4096):
                shown += part
        except OSError:  # the other end is closed
            pass
    assert asking.wait() == 0
    text = shown.decode()
    assert "schedlab compare --device /dev/sdb --read-only --budget 10m" in text
    assert "9 is not in the range" in text and "'soon' is not a duration" in text
