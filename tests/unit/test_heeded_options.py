"""Options that would change nothing are refused, and those that change something are not."""

from __future__ import annotations

from typing import Any

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

FILE_TESTS = "omit it; it works only with --workloads file-tests"
BUILT_IN = "omit it; it works only with built-in workloads"
COMMAND = "omit it; it works only with a COMMAND"
WORKLOADS, OWN = "with these workloads", "with a COMMAND"
CPU_TIMED = "omit it; it works only with --workloads groups, mixed or wakeup"


def refused(words: str) -> tuple[str, str]:
    """The message and the hint of the error of a command, which would measure nothing."""
    own, separator, program = words.partition(" -- ")
    typed = f"{own} --dry-run{separator}{program}".split()
    with pytest.raises(SpecError) as raised:
        CliRunner().invoke(cli, typed, catch_exceptions=False)
    return str(raised.value), raised.value.hint


@pytest.mark.parametrize("command", ["compare", "tune", "io sweep", "lab run block-size"])
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--switch sda", "--directory"),
        ("--directory . --fs xfs", "--scratch or --model"),
        ("--directory . --rotational 1", "--scratch, --model or --device"),
        ("--directory . --scratch-directory /x", "--scratch"),
        ("--model disk7200 --scratch-directory /x", "--scratch"),
        ("--model disk7200 --scratch 1G --switch sda", "--directory"),
        ("--allow-unknown-data", "--destroy-data"),
        ("--device /dev/x --allow-unknown-data", "--destroy-data"),
        ("--device /dev/x --size 1G", "--directory or --model"),
        ("--read-only", "--device"),
        ("--destroy-data /dev/x", "--device"),
    ],
)
def test_target_options_that_the_target_ignores_are_refused(
    command: str, words: str, hint: str
) -> None:
    option = words[words.rindex("--") + 2 :].partition(" ")[0]
    assert refused(f"{command} {words}") == (
        f"--{option} would change nothing on this target", f"omit it; it works only with {hint}"
    )  # fmt: skip


@pytest.mark.parametrize("words", ["", "--scratch 1G "])
def test_the_size_of_a_temporary_device_is_that_of_scratch(words: str) -> None:
    assert refused(f"compare {words}--size 3G") == (
        "--size would change nothing on a temporary device", "use --scratch SIZE"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "option", "where", "hint"),
    [
        ("compare --depth 3", "--depth", WORKLOADS, FILE_TESTS),
        ("compare --workloads readers --workers 3", "--workers", WORKLOADS, FILE_TESTS),
        ("compare --buffered", "--buffered", WORKLOADS, FILE_TESTS),
        ("compare --records 4k", "--records", WORKLOADS, FILE_TESTS),
        ("compare --workloads readers --tests read", "--tests", WORKLOADS, FILE_TESTS),
        ("tune --depth 3", "--depth", WORKLOADS, FILE_TESTS),
        ("compare --buffered -- true", "--buffered", OWN, FILE_TESTS),
        ("tune --fio job --records 4k", "--records", OWN, FILE_TESTS),
        ("compare --program ls", "--program", WORKLOADS,
         "omit it; it works only with --workloads startup"),
        ("compare --archive-size 9M", "--archive-size", WORKLOADS,
         "omit it; it works only with --workloads extraction"),
        ("compare --explain -- true", "--explain", OWN, BUILT_IN),
        ("compare --explain --fio job", "--explain", OWN, BUILT_IN),
        ("compare --rehearse", "--rehearse", WORKLOADS, COMMAND),
        ("tune --rehearse", "--rehearse", WORKLOADS, COMMAND),
        ("cpu compare --seconds 3 -- true", "--seconds", OWN, CPU_TIMED),
        ("cpu compare --workloads pipe --seconds 3", "--seconds", WORKLOADS, CPU_TIMED),
        ("cpu compare --directory .", "--directory", WORKLOADS, COMMAND),
        ("cpu compare --explain -- true", "--explain", OWN, BUILT_IN),
    ],
)  # fmt: skip
def test_options_that_the_work_ignores_are_refused(
    words: str, option: str, where: str, hint: str
) -> None:
    assert refused(words) == (f"{option} would change nothing {where}", hint)


@pytest.mark.parametrize(
    "words",
    ["--scratch 1G", "--scratch 1G --fs xfs --rotational 1", "--model m --size 1G --fs xfs",
     "--directory . --size 1G --switch sda", "--device /d --destroy-data /d --allow-unknown-data",
     "--device /d --read-only --rotational 0", "--tests read --depth 2 --records 4k --buffered",
     "--workloads file-tests --workers 2", "--seconds 3",
     "--workloads startup,newcomer --program ls"],
)  # fmt: skip
def test_options_that_change_something_are_heeded(words: str) -> None:
    command, context = COMMANDS["compare"], click.Context(COMMANDS["compare"], parent=PARENT)
    command.parse_args(context, words.split())
    options.check_work(typed_options(context), (), context.params)


def works_with(command: str) -> dict[str, tuple[str, ...]]:
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
def test_each_option_changes_exactly_the_families_that_it_names(option: str) -> None:
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


def test_a_search_rehearses_its_command_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    from schedlab.app.compare import own_work
    from schedlab.app.tune import question as tune_question
    from schedlab.app.tune import tune

    rehearsed: list[Any] = []
    base = object()
    monkeypatch.setattr(tune_question, "typed_question", lambda *_: (base, None))
    monkeypatch.setattr("schedlab.app.admit.admit", lambda experiment, permission: experiment)
    monkeypatch.setattr(own_work, "rehearse", lambda admitted, _: rehearsed.append(admitted))
    monkeypatch.setattr(tune, "start", lambda *_: pytest.fail("a search was started"))
    words = ["tune", "--rehearse", "--", "true"]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0
    assert rehearsed == [base]


def test_a_directory_without_a_disk_to_switch_asks_for_one(tmp_path: Any) -> None:
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
