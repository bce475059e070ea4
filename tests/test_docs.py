"""The documents: links resolve, and every command in them is one that schedlab understands."""

import re
import shlex
from pathlib import Path

import click
import pytest

from schedlab.cli import cli

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# Placeholders on a page.
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*\b|…|\.\.\.")
# A command keeps the names of its help option from the first context that it is used in.
PARENT = click.Context(cli, info_name="schedlab", **cli.context_settings)


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


def commands(page: Path) -> list[str]:
    """Command lines that begin with `schedlab`, from blocks of code and from inline code."""
    text = page.read_text().replace("\\\n", " ")
    fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    indented = "\n".join(re.findall(r"^    (.*)$", text, re.MULTILINE))
    lines = re.findall(r"^(?:\$ )?(?:sudo )?(schedlab [a-z].*)$", fenced + "\n" + indented, re.M)
    lines += re.findall(r"`(?:sudo )?(schedlab [a-z][^`\n]*)`", text)
    return [re.sub(r"(\s#.*|\s[>|&].*)$", "", line).replace("\\|", "|") for line in lines]


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


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=name)
def test_commands_are_understood(page: Path) -> None:
    wrong = []
    for line in commands(page):
        try:
            understood(shlex.split(re.sub(r"[\[\]|]", " ", line))[1:])
        except (AssertionError, ValueError) as error:
            wrong.append(f"{line}: {error}")
    assert not wrong, "\n".join(wrong)


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
        words = set(re.sub(r"-\n\s+", "-", command.get_help(context)).split())
        for option in command.params:
            typed = set((getattr(option, "help", None) or "").split())
            broken = {word for word in typed - words if word.rstrip(".") not in words}
            assert not broken, f"{path} {option.opts[0]}"
