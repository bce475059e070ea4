"""An option that is typed twice: collected, joined, or refused; nothing typed is dropped."""

import json

import click
import pytest
from click.testing import CliRunner
from test_docs import PARENT, each_command

from schedlab.cli import cli
from schedlab.cli.sections import Group, OneRule, when_repeated
from schedlab.cli.types import Listed, Sizes, Words
from schedlab.errors import SpecError

ALL = [*each_command(cli)]
OPTIONS = {
    path: [one for one in command.params if isinstance(one, click.Option) and one.expose_value]
    for path, command in ALL
}


def values_of(option):
    """Two values that the type of an option takes."""
    kind = option.type
    if isinstance(kind, click.Choice):
        return [str(kind.choices[0]), str(kind.choices[-1])]
    if isinstance(kind, click.IntRange | click.FloatRange):
        least = kind.min or 0
        return [str(least), str(least + 1)]
    texts = {
        "size": "4k 8k",
        "sizes": "4k 8k",
        "duration": "5s 7s",
        "percent": "1% 2%",
        "cpus": "0 0",
        "slices": "1 10",
        "time": "1ms 2ms",
        "integer": "1 2",
        "float": "1 2",
    }
    return texts.get(kind.name, "a b").split()  # fmt: skip


def typed(command, option, words):
    context = click.Context(command, parent=PARENT, info_name=command.name)
    parser = command.make_parser(context)
    return parser.parse_args(list(words))[0][option.name]


def test_every_command_keeps_the_rule():
    assert [path for path, one in ALL if not isinstance(one, OneRule | Group)] == []


@pytest.mark.parametrize(("path", "command"), ALL)
def test_each_option_of_each_command(path, command):
    for option in OPTIONS[path]:
        check(command, option)


def check(command, option):
    rule, name = when_repeated(option), option.opts[-1]
    context = click.Context(command, parent=PARENT, info_name=command.name)
    if option.is_flag:
        twice = [name, (option.secondary_opts or [name])[0]]
        if rule == "the same":
            assert typed(command, option, twice) == typed(command, option, twice[:1])
            return
    else:
        first, second = values_of(option)
        twice = [name, first, name, second]
    if rule == "refused":
        with pytest.raises(SpecError, match=f"{name}.* is typed 2 times") as error:
            command.parse_args(context, twice)
        assert error.value.hint
        return
    raw = typed(command, option, twice)
    assert raw == [first, second]
    value = option.type_cast_value(context, raw)
    if rule == "collected":
        assert len(value) == 2
    else:
        assert value == option.type_cast_value(context, option.type.joined([first, second]))


def test_a_list_is_one_and_a_value_is_not():
    """By name: that none of the first becomes one of the second, or the reverse."""
    all_options = [option for options in OPTIONS.values() for option in options]
    joined = {one.opts[-1] for one in all_options if when_repeated(one) == "joined"}
    assert sorted(joined) == [
        "--block-sizes", "--candidate", "--cpu", "--cpus", "--device", "--groups", "--kernels",
        "--labels", "--modes", "--policies", "--policy", "--processes", "--quanta", "--records",
        "--scheduler", "--schedulers", "--share", "--slices", "--sum", "--switch", "--tests",
        "--tunables", "--workload", "--workloads",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "texts", "value"),
    [
        (Listed(), ["none,bfq:low_latency=0", "kyber"], "none,bfq:low_latency=0,kyber"),
        (Listed(";"), ["none,cfq", "bfq:slice_idle=0,low_latency=0"],
         "none;cfq;bfq:slice_idle=0,low_latency=0"),
        (Listed(";"), ["none,bfq"], "none,bfq"),
        (Words(), ["a,b", "c", "b"], ("a", "b", "c")),
        (Sizes(), ["8k", "1M,8k"], (8192, 1 << 20)),
    ],
)  # fmt: skip
def test_what_is_joined_is_what_one_text_would_have_said(kind, texts, value):
    assert kind.convert(texts, None, None) == value


@pytest.mark.parametrize(
    ("twice", "once"),
    [
        ("sim cpu --tasks A:0:3,B:1:2 --policy fcfs --policy rr,srtf --json",
         "sim cpu --tasks A:0:3,B:1:2 --policy fcfs,rr,srtf --json"),
        ("sim run --device disk7200 --scheduler none,noop --scheduler cfq:quantum=4"
         " --processes readers3 --seconds 1 --seeds 1 --json",
         "sim run --device disk7200 --scheduler none;noop;cfq:quantum=4"
         " --processes readers3 --seconds 1 --seeds 1 --json"),
    ],
)  # fmt: skip
def test_both_are_used(twice, once):
    outputs = [
        json.loads(CliRunner().invoke(cli, words.split(), catch_exceptions=False).output)
        for words in (twice, once)
    ]
    assert outputs[0] == outputs[1]
