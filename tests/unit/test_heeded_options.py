"""Options that would change nothing are refused, and those that change something are not."""

import click
import pytest
from click.testing import CliRunner
from commands import COMMANDS, PARENT, typed

from schedlab.app import options
from schedlab.cli import cli
from schedlab.cli.options import typed_options
from schedlab.design.io_families import FAMILIES
from schedlab.errors import HostError, SpecError
from schedlab.host.queues import queues_below


def refused(words):
    """The message and the hint of the error of a command, which would measure nothing."""
    own, separator, program = words.partition(" -- ")
    typed = f"{own} --dry-run{separator}{program}".split()
    with pytest.raises(SpecError) as raised:
        CliRunner().invoke(cli, typed, catch_exceptions=False)
    return str(raised.value), raised.value.hint


ON_TARGETS = [
    f"{command} {words}"
    for command in ("compare", "tune", "io sweep", "lab run block-size")
    for words in (
        "--switch sda", "--directory . --fs xfs", "--directory . --rotational 1",
        "--directory . --scratch-directory /x", "--model disk7200 --scratch-directory /x",
        "--model disk7200 --scratch 1G --switch sda", "--allow-unknown-data",
        "--device /dev/x --allow-unknown-data", "--device /dev/x --size 1G", "--read-only",
        "--destroy-data /dev/x",
    )
]  # fmt: skip
OF_WORK = [
    "compare --size 3G", "compare --scratch 1G --size 3G", "compare --depth 3",
    "compare --workloads readers --workers 3", "compare --buffered", "compare --records 4k",
    "compare --workloads readers --tests read", "tune --depth 3", "compare --buffered -- true",
    "tune --fio job --records 4k", "compare --program ls", "compare --archive-size 9M",
    "compare --explain -- true", "compare --explain --fio job", "compare --rehearse",
    "tune --rehearse", "cpu compare --seconds 3 -- true",
    "cpu compare --workloads pipe --seconds 3", "cpu compare --directory .",
    "cpu compare --explain -- true",
]  # fmt: skip


@pytest.mark.parametrize(("name", "lines"), [("targets", ON_TARGETS), ("work", OF_WORK)])
def test_options_that_would_change_nothing_are_refused(name, lines, golden):
    told = ("{}\n  {}\n  hint: {}\n".format(words, *refused(words)) for words in lines)
    golden(f"refusals/unheeded-{name}.txt", "\n".join(told))


@pytest.mark.parametrize(
    "words",
    [
        "sim run --log l.csv --dry-run", "sim run --log l.csv --out o",
        "sim run --scheduler none --gantt g.svg --dry-run", "sim cpu --quiz --gantt g.svg",
        "sim cpu --validate b.csv --from 1ms", "sim cpu --validate b.csv --gantt g.svg",
        "sim cpu --tasks A:0:8 --play --json", "sim cpu --validate b.csv --play",
        "sim cpu --quiz --count 2 --out o --play", "sim run --play --json",
        "cpu sweep --budget 9s --dry-run", "cpu sweep --precision --time 9s --dry-run",
        "cpu sweep --precision --repeat 9 --dry-run",
        "report . --csv", "report . --json --xlsx x.xlsx",
    ],
)  # fmt: skip
def test_what_a_command_would_not_write_or_use_is_refused(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one").mkdir()
    (tmp_path / "one/experiment.toml").touch()
    with pytest.raises(SpecError, match=r"would change nothing|only its index|a quiz") as raised:
        CliRunner().invoke(cli, words.split(), catch_exceptions=False)
    assert raised.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize(
    "words",
    ["--scratch 1G", "--scratch 1G --fs xfs --rotational 1", "--model m --size 1G --fs xfs",
     "--directory . --size 1G --switch sda", "--device /d --destroy-data /d --allow-unknown-data",
     "--device /d --read-only --rotational 0", "--tests read --depth 2 --records 4k --buffered",
     "--workloads file-tests --workers 2", "--seconds 3",
     "--workloads startup,newcomer --program ls"],
)  # fmt: skip
def test_options_that_change_something_are_heeded(words):
    command, context = COMMANDS["compare"], click.Context(COMMANDS["compare"], parent=PARENT)
    command.parse_args(context, words.split())
    options.check_work(typed_options(context), (), context.params)


def works_with(command):
    """Options of a command that need something, but no other option, to change anything."""
    needs = {p.opts[0]: getattr(p, "works_with", ()) for p in COMMANDS[command].params}
    return {name: words for name, words in needs.items() if words and words[0][0] != "-"}


CHANGES = {
    "--records": "512", "--depth": "9", "--workers": "9", "--buffered": "", "--tests": "write",
    "--archive": __file__, "--archive-size": "4k", "--decompressor": "xz", "--program": "ls",
    "--seconds": "9",
}  # fmt: skip
OF_OTHER_WORK = {"--explain", "--rehearse", "--timing", "--fit", "--think-limit", "--cgroups"}


@pytest.mark.parametrize("option", sorted({*CHANGES} - {"--seconds"}))
def test_each_option_changes_exactly_the_families_that_it_names(option):
    assert {*works_with("compare")} == {*CHANGES, *OF_OTHER_WORK}
    usual, mine = (
        options.load_of(typed("compare", "--tests", "read", *words))
        for words in ((), f"{option} {CHANGES[option]}".split())
    )
    changed = {
        name
        for name, family in FAMILIES.items()
        if family(usual, "throughput") != family(mine, "throughput")
    }
    assert changed == set(works_with("compare")[option])


def test_a_search_rehearses_its_command_and_stops(monkeypatch):
    from schedlab.app.compare import own_work
    from schedlab.app.tune import question as tune_question
    from schedlab.app.tune import tune

    rehearsed = []
    base = object()
    monkeypatch.setattr(tune_question, "typed_question", lambda *_: (base, None))
    monkeypatch.setattr("schedlab.app.admit.admit", lambda experiment, permission: experiment)
    monkeypatch.setattr(own_work, "rehearse", lambda admitted, _: rehearsed.append(admitted))
    monkeypatch.setattr(tune, "start", lambda *_: pytest.fail("a search was started"))
    words = ["tune", "--rehearse", "--", "true"]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0
    assert rehearsed == [base]


def test_a_directory_without_a_disk_to_switch_asks_for_one(tmp_path):
    """Not minutes of the present scheduler against itself."""
    try:
        below = queues_below(tmp_path).queues
    except HostError as error:
        pytest.skip(str(error))
    message, hint = refused(f"compare --directory {tmp_path}")
    assert "no disk is named" in message
    assert hint.startswith(f"--switch {','.join(below)} ")
    words = ["compare", "--directory", str(tmp_path), "--size", "8M", "--schedulers", "as-is"]
    words += ["--workloads", "readers", "--dry-run"]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0
