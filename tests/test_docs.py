"""The documents: links resolve, and every command in them is one that schedlab understands."""

import re
import shlex
from collections import Counter
from pathlib import Path

import click
import printed
import pytest
from commands import COMMANDS
from stops import scenes

from schedlab.cli import cli

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# Placeholders on a page.
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*\b|…|\.\.\.")
OUR_FILE = re.compile(
    r"(?<![\w./{~-])(?:\$PWD/)?"
    r"((?:ansible|benches|crates|docs|fuzz|packaging|python|tests|tools)/[\w./-]*\w)"
)
TO_BE_MADE = {"crates/sim/src/policy/reads_by_wait.rs"}
# A command keeps the names of its help option from the first context that it is used in.
PARENT = click.Context(cli, info_name="schedlab", **cli.context_settings)


SCENES = scenes()


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors that renderers make of headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    for text, link in re.findall(r"\[([^\]]+)\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"[{text}]({link})"
        if anchor:
            assert anchor in anchors(target), f"[{text}]({link}): no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page: Path) -> None:
    """Placeholders (`NAME.txt`) and what a reader makes are none."""
    named = set(OUR_FILE.findall(page.read_text())) - TO_BE_MADE
    gone = [path for path in named if not (ROOT / path).exists() and not Path(path).stem.isupper()]
    assert not gone


def understood(words: list[str]) -> None:
    """Follow the words through the command tree; unknown commands and options are errors."""
    command: click.Command = cli
    context = PARENT
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        subcommand = command.get_command(context, words[0])
        if subcommand is None and (PLACEHOLDER.match(words[0]) or words[0].isdigit()):
            return  # a placeholder, or `cpu N TIME`
        assert subcommand, f"no command {words[0]!r}"
        command, words = subcommand, words[1:]
        context = click.Context(command, parent=context)
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    known |= {"--help", "-h", "--help-all"}
    for word in words:
        if word == "--":
            return
        if re.match(r"--?[a-z]", word):
            assert word.partition("=")[0] in known, f"{command.name} has no option {word}"


def options_of(text: str) -> list[str]:
    """The words of a command line without those that choose: `[a|b]`."""
    line = re.sub(r"\s[>|&].*", "", printed.key(text))
    return shlex.split(re.sub(r"[\[\]|]", " ", line))[1:]


@pytest.mark.parametrize("page", [*map(printed.name, printed.PAGES), "help"])
def test_commands_are_understood(page: str) -> None:
    wrong = []
    for line in printed.lines_of(page):
        try:
            if line.key.startswith("schedlab "):
                understood(options_of(line.text))
        except (AssertionError, ValueError) as error:
            wrong.append(f"{line.number}: {line.text}: {error}")
    assert not wrong, "\n".join(wrong)


def names(short: str, full: str) -> bool:
    """Whether a command line has the words of this name of a command, with its options."""
    words = short.split()
    command = [word for word in words if word[0] != "-"]
    begins = full.split()[: len(command)] == command
    return short == full or (begins and set(words) <= set(full.split()))


def has_dry_run(text: str) -> bool:
    """Whether the command can show what it would do."""
    command: click.Command = cli
    for word in options_of(text) if printed.OURS.match(text) else ():
        if isinstance(command, click.Group):
            command = command.get_command(PARENT, word) or cli
    return any("--dry-run" in option.opts for option in command.params)


@pytest.mark.parametrize("page", [*map(printed.name, printed.PAGES), "help"])
def test_the_tour_runs_every_line(page: str) -> None:
    """What several pages print alike is run once. A line with a reason not to run it is run with
    --dry-run where its command has that.
    """
    named = {stop.line.key for scene in SCENES for stop in scene.stops}
    missed = []
    for line in printed.lines_of(page):
        if printed.is_name(line.text):
            is_run = any(names(line.key, key) for key in named)
        else:
            is_run = line.key in named
        if not is_run and not (line.reason and not has_dry_run(line.text)):
            missed.append(f"{line.number}: {line.text}")
    assert not missed, "tests/tour/stops has no\n" + "\n".join(missed)


@pytest.mark.parametrize("page", printed.PAGES, ids=printed.name)
def test_the_tour_uses_every_block(page: Path) -> None:
    """A block is a command, output, or a file; a file is one of a scene."""
    used = {block for scene in SCENES if scene.page == printed.name(page) for block in scene.blocks}
    missed, seen = [], Counter()
    for block in printed.blocks(page):
        seen[block.language] += 1
        is_run = block.language == "text" or any(printed.commands(block))
        is_used = f"{block.language} {seen[block.language]}" in used
        if not (is_run or is_used or block.reason):
            missed.append(f"{block.number}: {block.text.splitlines()[0]}")
    assert not missed, "neither commands, nor `text`, nor a file of a scene:\n" + "\n".join(missed)


def test_the_tour_runs_every_command() -> None:
    keys = [re.sub(r"^schedlab cpu \d+ ", "schedlab cpu run ", stop.line.key)
            for scene in SCENES for stop in scene.stops]  # fmt: skip
    missed = [name for name in COMMANDS if not any(names(f"schedlab {name}", key) for key in keys)]
    assert not missed


def test_the_reader_of_commands_finds_a_wrong_one() -> None:
    with pytest.raises(AssertionError, match="no option --no-such"):
        understood(["compare", "--no-such"])
    with pytest.raises(AssertionError, match="no command"):
        understood(["compares"])


def each_command(command: click.Command, path: str = "schedlab"):
    """Every command below `command`, with what is typed for it."""
    yield path, command
    if isinstance(command, click.Group):
        for word in command.list_commands(PARENT):
            yield from each_command(command.get_command(PARENT, word), f"{path} {word}")


def test_no_command_has_an_option_twice() -> None:
    for path, command in each_command(cli):
        names = [name for one in command.params for name in (*one.opts, *one.secondary_opts)]
        assert sorted(set(names)) == sorted(names), path


def test_no_help_breaks_inside_a_word_on_a_screen_of_80_columns() -> None:
    for path, command in each_command(cli):
        context = click.Context(
            command, parent=PARENT, info_name=path, terminal_width=80, max_content_width=80
        )
        context.meta["help_all"] = True
        whole = command.get_help(context)
        assert not re.search(r"[a-z]\.\.\.$", whole, re.MULTILINE), f"{path}: a line is cut"
        words = set(re.sub(r"-\n\s+", "-", whole).split())
        for option in command.params:
            typed = set((getattr(option, "help", None) or "").split())
            broken = {word for word in typed - words if word.rstrip(".") not in words}
            assert not broken, f"{path} {option.opts[0]}"
