"""Every option and argument of every command: what it takes, what it refuses, and its default."""

import re
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from cli_options_known import COMMANDS
from click.testing import CliRunner

from schedlab.cli import cli

# kind -> a text that is one, and what a command gets of it
KINDS = {
    "TEXT": ("a=b", "a=b"), "PATH": ("a/b", Path("a/b")), "DIRECTORY": (".", Path()),
    "FILE": (__file__, Path(__file__)), "SIZE": ("3k", 3072), "TIME": ("2m", 120.0),
    "SHARE": ("5%", 0.05), "SIZES": ("8k,1M,8k", (8192, 1 << 20)), "WORDS": ("b, a,b", ("b", "a")),
    "CPUS": ("0,2-3", (0, 2, 3)), "QUANTA": ("1,10", (1.0, 10.0)), "NS": ("3ms", 3_000_000),
    "INT": ("7", 7), "FLOAT": ("0.5", 0.5),
}  # fmt: skip
# kind -> texts that are none
REFUSED = {
    "SIZE": "3x", "TIME": "2 weeks", "SHARE": "much", "SIZES": "8k,x", "CPUS": "a", "QUANTA": "a",
    "NS": "3 weeks", "INT": "1.5", "FLOAT": "a", "DIRECTORY": __file__, "FILE": ".",
}  # fmt: skip
WORDS = {"SHELL": "bash", "N": "3"}


@dataclass
class Option:
    """One option of `cli_options_known.COMMANDS`."""

    names: tuple[str, ...]
    values: str | None
    is_repeated: bool
    is_required: bool
    shown: str | None
    silent: str | None

    @property
    def default(self):
        return self.shown or self.silent

    @property
    def bounds(self):
        """(low, high) of a range; None at an open end."""
        kind = float if "." in self.values.replace("..", "") else int
        return [kind(end) if end else None for end in self.values.split("..")]

    def sample(self):
        """A text that is valid and not the default, and what the command gets of it."""
        if self.values in KINDS:
            return KINDS[self.values]
        if ".." in self.values:
            low, high = self.bounds
            number = 0.5 if high == 1.0 else low + 2
            return str(number), number
        last = self.values.split("|")[-1]
        return last, last


def options_of(name):
    form = r"(--[^=\s\[(!…]+)(?:=([^\[(!…\s]+))?(…)?(!)?(?:\[(\S+)\]|\((\S+)\))?(?=\s|$)"
    return [
        Option(tuple(names.split("|")), values or None, bool(more), bool(must), shown or None,
               silent or None)
        for names, values, more, must, shown, silent in re.findall(form, COMMANDS[name])
    ]  # fmt: skip


def arguments_of(name):
    return re.findall(r"(?<!\S)\[?[A-Z]+…?\]?(?=\s|$)", COMMANDS[name])


PARENT = click.Context(cli, **cli.context_settings)
every_command = pytest.mark.parametrize("name", COMMANDS)


def command_of(name):
    command = cli
    for word in name.split():
        command = command.get_command(PARENT, word)
    return command


def minimal(name):
    """What must be typed."""
    required = [option for option in options_of(name) if option.is_required]
    words = [word.strip("…") for word in arguments_of(name) if word[0] != "["]
    return [f"{each.names[0]}={each.sample()[0]}" for each in required] + [
        WORDS.get(word, ".") for word in words
    ]


def parsed(name, words):
    return command_of(name).make_context(name, list(words), parent=PARENT).params


def value(name, option, *words):
    """What the command gets of an option."""
    by_name = {text: each for each in command_of(name).params for text in each.opts}
    return parsed(name, [*words, *minimal(name)] if not option.is_required else
                  [*minimal(name), *words])[by_name[option.names[0]].name]  # fmt: skip


def is_equal(found, expected):
    """Paths may come as text."""
    return (Path(found) if isinstance(expected, Path) else found) == expected


def refusal(name, *words):
    with pytest.raises(click.UsageError) as error:
        parsed(name, words)
    assert error.value.exit_code == 2
    return error.value.format_message()


@every_command
def test_an_option_that_is_not_typed_has_its_default(name):
    for option in options_of(name):
        if option.is_required:
            words = [word for word in minimal(name) if not word.startswith(option.names[0])]
            assert f"Missing option '{option.names[0]}'" in refusal(name, *words)
            continue
        found = value(name, option)
        if option.values is None:
            unset = False if len(option.names) == 1 else None
            assert found is ({option.names[0]: True, None: unset}.get(option.default, False))
        elif option.default is None:
            assert found == () if option.is_repeated else found in (None, "", ())
        else:
            assert found == value(name, option, option.names[0], option.default)


@every_command
def test_the_help_shows_the_default(name):
    context = click.Context(command_of(name), parent=PARENT)
    by_name = {text: each for each in context.command.params for text in each.opts}
    for option in options_of(name):
        if option.shown:
            shown = by_name[option.names[0]].get_help_record(context)[1]
            assert f"[default: {option.shown.removeprefix('--')}" in shown


@every_command
def test_an_option_gets_what_is_typed(name):
    for option in options_of(name):
        if option.values is None:
            for flag, expected in zip(option.names, (True, False), strict=False):
                assert value(name, option, flag) is expected
            continue
        text, expected = option.sample()
        typed = [option.names[0], text]
        if option.is_repeated:
            assert value(name, option, *typed) == (expected,)
            assert value(name, option, *typed * 2) == (expected, expected)
        else:
            assert is_equal(value(name, option, *typed), expected)


@every_command
def test_an_option_refuses_what_it_cannot_be(name):
    for option in options_of(name):
        choice = "no such word" if "|" in (option.values or "") else None
        if wrong := REFUSED.get(option.values, choice):
            words = [word for word in minimal(name) if not word.startswith(option.names[0])]
            shown = refusal(name, *words, option.names[0], wrong)
            assert shown.startswith(f"Invalid value for '{option.names[0]}'")


@every_command
def test_a_range_begins_and_ends_where_it_should(name):
    for option in options_of(name):
        if ".." not in (option.values or ""):
            continue
        for bound, beyond in zip(option.bounds, (-1, 1), strict=True):
            if bound is None:
                assert value(name, option, option.names[0], str(10**12)) in (10**12, (10**12,))
                continue
            assert value(name, option, option.names[0], str(bound)) in (bound, (bound,))
            step = beyond if isinstance(bound, int) else beyond / 100
            refused = refusal(name, *minimal(name), f"{option.names[0]}={bound + step}")
            assert "is not in the range" in refused


@pytest.mark.parametrize("name", [name for name in COMMANDS if arguments_of(name)])
def test_a_command_takes_its_words_and_no_more(name):
    words = arguments_of(name)
    required = [word for word in minimal(name) if word.startswith("--")]
    given = [WORDS.get(word.strip("[…]"), ".") for word in words]
    if words[-1].strip("]").endswith("…"):
        many = parsed(name, [*required, *given, ".", "."])
        assert (".", ".", ".") in [tuple(map(str, each)) for each in many.values()
                                   if isinstance(each, tuple)]  # fmt: skip
    else:
        parsed(name, [*required, *given])
        assert "Got unexpected extra argument (.)" in refusal(name, *required, *given, ".")
    needed = sum(word[0] != "[" for word in words)
    parsed(name, [*required, *given[:needed]])
    if needed:
        assert "Missing argument" in refusal(name, *required, *given[: needed - 1])


@every_command
def test_every_command_has_a_help_that_says_what_it_does(name):
    shown = CliRunner().invoke(cli, [*name.split(), "--help"])
    assert shown.exit_code == 0
    for option in options_of(name):
        assert (option.names[0] in shown.output) is (option.names != ("--root",))


def test_a_rate_is_above_zero():
    words = ["--test", "read", "--file", "f", "--rate"]
    assert "0.0 is not in the range x>0" in refusal("io run", *words, "0")
    assert parsed("io run", [*words, "0.001"])["rate"] == 0.001


@pytest.mark.parametrize("name", ["sim run", "sim compare", "sim disk"])
def test_a_closed_loop_has_one_request_unless_it_says_more(name):
    assert parsed(name, ["--closed"])["closed"] == 1
    assert parsed(name, ["--closed", "--skip-bad-lines"])["closed"] == 1
    assert parsed(name, ["--closed", "4"])["closed"] == 4


@pytest.mark.parametrize(("name", "first"), [("trace cpu", ()), ("trace io", ("sda",))])
def test_a_command_to_watch_keeps_its_own_options(name, first):
    assert parsed(name, [*first, "ls", "-l", "--sort", "x"])["command"] == (
        "ls", "-l", "--sort", "x",
    )  # fmt: skip


def test_a_file_that_must_exist_does():
    assert "File 'gone' does not exist" in refusal("compare", "--archive", "gone")
    for name in ("cpu cost", "io timings"):
        assert "Path 'gone' does not exist" in refusal(name, "gone")


def test_a_watch_has_no_end_unless_it_is_typed():
    assert parsed("watch", ["sda"])["seconds"] == 0
    assert parsed("watch", ["sda", "--seconds", "2s"])["seconds"] == 2
    assert "Invalid value for '--seconds'" in refusal("watch", "sda", "--seconds", "0")


def test_a_new_experiment_has_a_name():
    assert parsed("init", [])["file"] == Path("experiment.toml")
