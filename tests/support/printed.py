"""What the documents print: command lines, and files to be written, each with its place.

A command line is a line of a block of code, a cell of a table, or code within a sentence. A comment
of Markdown says why one cannot run on any machine: `<!-- not run: it reboots the machine -->`, on
the line itself, or on the one above a block, for all of that block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# CHANGELOG tells what was, and the architecture has no commands.
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELLS = ("sh", "console")
FILES = ("toml", "python", "ini", "rust")
OURS = re.compile(r"(?:sudo )?schedlab (?:--)?[a-z]")
NOT_RUN = re.compile(r"<!-- not run: (.*?) -->", re.DOTALL)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?: {4}.*\n(?:\n(?= {4}))?)+", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Block:
    """`text` without fence or indentation; `number` is the line of the page it begins on."""

    language: str
    text: str
    number: int
    reason: str


@dataclass(frozen=True)
class Line:
    """A command as it is printed; `reason` is why it is not run as such."""

    page: str
    number: int
    text: str
    reason: str = ""

    @property
    def key(self) -> str:
        """The command without what a shell ignores."""
        return key(self.text)


def name(page: Path) -> str:
    """The page as people name it."""
    return str(page.relative_to(ROOT))


def key(text: str) -> str:
    """A command line without comment, `sudo` and line breaks."""
    joined = " ".join(uncommented(text.replace("\\\n", " ")).split())
    return joined.removeprefix("sudo ")


def uncommented(text: str) -> str:
    """A command line without its remark."""
    return re.sub(r"\s+#\s.*", "", text)


def blocks(page: Path) -> list[Block]:
    """The blocks of code of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    found = [(match.start(), match[1], match[2]) for match in FENCE.finditer(text)]
    prose = FENCE.sub(lambda match: re.sub(r"[^\n]", "x", match[0]), text)
    for match in INDENTED.finditer(prose):
        lines = re.sub(r"^ {4}", "", match[0], flags=re.MULTILINE)
        found.append((match.start(), "", lines))
    made = []
    for start, language, content in sorted(found):
        above = text[:start].rstrip().rpartition("\n")[2]
        reason = NOT_RUN.search(above)
        number = text[:start].count("\n") + 1
        made.append(Block(language, content, number, reason[1] if reason else ""))
    return made


def commands(block: Block) -> Iterator[tuple[int, str]]:
    """The command lines of a block with their place in it; none where it is output or a file."""
    joined = block.text.replace("\\\n", "\\\0")
    lines = [line.replace("\0", "\n") for line in joined.split("\n") if line.strip()]
    prompts = r"[$#] \S" if block.language == "console" else r"\$ \S"
    prompted = [line for line in lines if re.match(prompts, line)]
    if block.language in FILES or block.language == "text":
        return
    if block.language in SHELLS or any(map(OURS.match, prompted or lines)) or prompted:
        is_typed = block.language != "console" and not any(line[:2] == "$ " for line in lines)
        for line in lines:
            place = block.text[: block.text.find(line)].count("\n")
            if is_typed:
                yield place, line
            elif line in prompted:
                yield place, line[2:]


def lines(page: Path) -> list[Line]:
    """Every command line of a page, also those of tables and of sentences."""
    where, found = name(page), []
    for block in blocks(page):
        for place, text in commands(block):
            found.append(Line(where, block.number + place, text, block.reason))
    return found + list(_in_prose(page))


def _in_prose(page: Path) -> Iterator[Line]:
    text = page.read_text(encoding="utf-8")
    blank = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    blank = INDENTED.sub(lambda match: "\n" * match[0].count("\n"), blank)
    number = 1
    for paragraph in re.split(r"(?<=\n)(?=\||\n)", blank):
        reason = NOT_RUN.search(paragraph)
        for place, command in _spans(paragraph):
            at = number + paragraph[:place].count("\n")
            yield Line(name(page), at, command, reason[1] if reason else "")
        number += paragraph.count("\n")


def _spans(paragraph: str) -> Iterator[tuple[int, str]]:
    """Code that is a command; in a row of a table what follows one is another form of it."""
    is_row, before = paragraph.startswith("|"), ""
    for match in CODE.finditer(paragraph):
        span = " ".join(match[1].split())
        if not OURS.match(span):
            if not is_row or not before or not re.match(r"--[a-z]|[a-z]+( |$)", span):
                continue
            started = before.partition(" -- ")[0]
            span = f"{started} {span}" if span.startswith("--") else f"schedlab {span}"
        before = span
        yield from ((match.start(), each) for each in _alternatives(span))


def _alternatives(span: str) -> list[str]:
    """`import csv\\|fio` names two commands."""
    for word in span.split():
        if r"\|" in word:
            return [span.replace(word, each) for each in word.split(r"\|")]
    return [span]


def is_name(text: str) -> bool:
    """Whether it only names a command, and perhaps options: no value, no argument."""
    return all(re.fullmatch(r"[a-z-]+", word) for word in key(text).split())


def lines_of(page: str) -> list[Line]:
    """The command lines of the page of this name; `help` are those of the help texts."""
    return help_lines() if page == "help" else lines(ROOT / page)


def block_of(page: str, block: str) -> str:
    """The text of `python 2`, the second block of that language on the page."""
    language, number = block.split()
    return [each for each in blocks(ROOT / page) if each.language == language][int(number) - 1].text


def help_lines() -> list[Line]:
    """The command lines that help texts give as examples."""
    from commands import COMMANDS

    from schedlab.cli import cli

    found = []
    for name, command in {"": cli, **COMMANDS}.items():
        text = command.help or ""
        for paragraph in text.split("\n\n"):
            shown = paragraph.replace("\b\n", "").replace("\\\n", "\\\0")
            shown = "\n".join(map(str.strip, shown.split("\n")))
            spans = CODE.findall(paragraph) + re.findall(r"For example: (.*)", " ".join(
                paragraph.split()))  # fmt: skip
            spans += [line.replace("\0", "\n") for line in shown.split("\n")
                      if OURS.match(line)]  # fmt: skip
            found += [Line(f"help of {name}", 0, span) for span in spans if OURS.match(span)]
    return found
