"""Every option and argument of every command: golden files of what it takes and its default, and
what the types of options make of a text.
"""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from commands import COMMANDS, PARENT

from schedlab.cli import cli, types


def described(one):
    """What one option takes, in a line."""
    facts = one.to_info_dict()
    kind = facts["type"]
    if kind["param_type"] == "Choice":
        takes = "|".join(map(str, kind["choices"]))
    elif kind["param_type"].endswith("Range"):
        low, high = ("" if kind[end] is None else f"{kind[end]}" for end in ("min", "max"))
        takes = f"{low}{'<' if kind.get('min_open') else ''}..{high}"
    else:
        takes = "" if facts.get("is_flag") else kind["name"]
    names = "/".join([*one.opts, *one.secondary_opts])
    marks = [
        *(["repeated"] if one.multiple or one.nargs == -1 else []),
        *(["required"] if one.required else []),
        *([] if facts["default"] in (None, False, ()) or callable(one.default)
          else [f"default {facts['default']}"]),
    ]  # fmt: skip
    return "  ".join(filter(None, [names, takes, *marks]))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command_are_those_that_were_reviewed(name, golden):
    lines = [described(one) for one in COMMANDS[name].params]
    golden(f"options/{name.replace(' ', '-')}.txt", "\n".join(lines))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_whole_help_shows_every_option_and_its_default(name):
    context = click.Context(COMMANDS[name], parent=PARENT)
    context.meta["help_all"] = True
    shown = context.command.get_help(context)
    for one in context.command.params:
        if isinstance(one, click.Option) and not one.hidden:
            assert one.opts[0] in shown
            assert not one.show_default or "[default: " in one.get_help_record(context)[1]


# A type, a text and what a command gets of it, and a text that it refuses.
TYPES = [
    (types.Size(), "3k", 3072, "3x"),
    (types.Duration(), "2m", 120.0, "2 weeks"),
    (types.Percent(), "5%", 0.05, "much"),
    (types.Sizes(), "8k,1M,8k", (8192, 1 << 20), "8k,x"),
    (types.Words(), "b, a,b", ("b", "a"), None),
    (types.Cpus(), "0,2-3", (0, 2, 3), "a"),
]


@pytest.mark.parametrize(("kind", "text", "value", "wrong"), TYPES)
def test_a_type_reads_what_is_typed_and_refuses_the_rest(kind, text, value, wrong):
    assert kind.convert(text, None, None) == value
    if wrong:
        with pytest.raises(click.BadParameter):
            kind.convert(wrong, None, None)


def test_a_path_is_a_path_and_a_missing_option_is_named():
    assert parsed("compare", ["--out", "a/b"])["out"] == Path("a/b")
    shown = CliRunner().invoke(cli, ["import", "x"])
    assert (shown.exit_code, "Missing option" in shown.output) == (2, True)


def parsed(name, words):
    return COMMANDS[name].make_context(name, list(words), parent=PARENT).params


def refusal(name, *words):
    with pytest.raises(click.UsageError) as error:
        parsed(name, words)
    return error.value.format_message()


@pytest.mark.parametrize("name", ["sim run", "sim compare"])
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
    assert "Path 'gone' does not exist" in refusal("cpu cost", "gone")


def test_a_watch_has_no_end_unless_it_is_typed():
    assert parsed("status", ["--watch", "sda"])["seconds"] == 0
    assert parsed("status", ["--watch", "sda", "--seconds", "2s"])["seconds"] == 2
    assert "Invalid value for '--seconds'" in refusal("status", "--watch", "sda", "--seconds", "0")
    alone = CliRunner().invoke(cli, ["status", "--seconds", "2s"])
    assert alone.exit_code == 2 and "works with --watch DEVICE" in alone.output


def test_a_new_experiment_has_a_name():
    assert parsed("init", [])["file"] == Path("experiment.toml")
