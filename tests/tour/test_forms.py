"""Every command that a message, a hint or a `Next` names: its words are those of the command."""

import ast
import re
import tomllib

import click
import pytest
from commands import PARENT
from printed import ROOT

from schedlab.cli import cli

PYTHON = ROOT / "python"
# What follows the name of the program in sentences about it.
PROSE = (
    "applied", "can", "cannot", "changes", "checks", "command", "decided", "did", "for",
    "holds", "is", "keeps", "never", "on", "reads", "refuses", "result", "that", "were", "writes",
    "wrote",
)  # fmt: skip
FORM = re.compile(r"\bschedlab ((?:[a-z]|\x01)[^`\n;]*)")
NUMBERS = ("blocks", "boots", "count")
RESUMED_BY = ("compare", "live", "run")


def texts(path):
    """The texts of a module that are no docstrings, with \\x01NAME\\x02 for what is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else
                     f"\x01{ast.unparse(part.value)}\x02" for part in node.values]  # fmt: skip
            yield node.lineno, "".join(parts)


def catalogue(path):
    def each(table):
        for value in table.values():
            if isinstance(value, dict):
                yield from each(value)
            elif isinstance(value, str):
                yield 0, re.sub(r"\{(\w+)\}", "\x01\\1\x02", value)

    yield from each(tomllib.loads(path.read_text(encoding="utf-8")))


def forms():
    """(place, words after `schedlab`) of every text."""
    for path in sorted(PYTHON.rglob("*.py")):
        for line, text in texts(path):
            for match in FORM.finditer(text):
                yield f"{path.relative_to(PYTHON)}:{line}", match[1]
    for path in sorted(PYTHON.glob("schedlab/report/catalogue/*.toml")):
        for _, text in catalogue(path):
            for match in FORM.finditer(text):
                yield f"{path.relative_to(PYTHON)}", match[1]


def completed(form, place):
    """The words of a form, with a folder, or a number, for what is filled in."""

    def fill(match):
        if match[1] == "place":
            return f"--directory {place} --switch sda"
        return "3" if match[1].split(".")[-1] in NUMBERS else str(place)

    form = re.split(r", | \(|\. ", form)[0]
    form = re.sub(r"^import \x01name\x02", "import fio", form)
    filled = re.sub("\x01(.*?)\x02", fill, form).replace("…", "")
    filled = re.sub(r'"?\$\w+(\.html)?"?', f"{place}\\1", filled)
    filled = re.sub(r"--blocks N\b", "--blocks 3", filled)
    return [re.sub(r"^[A-Z]{2,}$", str(place), word.rstrip(".,:")) for word in filled.split()]


def command_of(words):
    """(the command that these words name, its context, the words behind it)"""
    command, context = cli, PARENT
    while isinstance(command, click.Group) and words:
        known = command.get_command(context, words[0])
        if known is None:
            break
        command, context, words = known, click.Context(known, parent=context), words[1:]
    return command, context, words


def is_taken(command, words):
    """Whether the command takes these words; an option that it does not have is an error."""
    try:
        command.make_context("form", list(words), parent=PARENT)
    except click.NoSuchOption:
        raise
    except click.exceptions.Exit:  # of --help
        return True
    except click.UsageError:
        return False
    return True


def checked(where, form, place):
    """Words of a sentence may follow the command; what is filled in and options are its own."""
    words = completed(form, place)
    if not words or words[0] in PROSE or form[0] == "\x01":
        return
    command, _, rest = command_of(words)
    is_group = isinstance(command, click.Group) and rest
    assert not is_group, f"{where}: there is no command {' '.join(words)!r}"
    for count in range(len(rest), 0, -1):
        # An option may be named without its value, and a command without what it starts.
        tails = ([], [str(place)], [str(place), "true"])
        if any(is_taken(command, [*rest[:count], *tail]) for tail in tails):
            break
    else:
        count = 0
    left = [word for word in rest[count:] if word[0] == "-" or word.startswith(str(place))]
    assert not left, f"{where}: `{form}`: {command.name} does not take {left}"


def test_named_commands_take_what_is_printed(tmp_path):
    found = {
        (where, form.replace(match[0], by) if match else form)
        for where, form in forms()
        for match in [re.match("\x01[^\x02]*resumed_by\x02", form)]
        for by in (RESUMED_BY if match else [""])
    }
    assert len(found) > 90
    wrong = []
    for where, form in sorted(found):
        try:
            checked(where, form, tmp_path)
        except (AssertionError, click.ClickException) as error:
            wrong.append(f"{where}: {form}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_wrong_form_is_found(tmp_path):
    with pytest.raises(click.NoSuchOption):
        checked("here", "compare --resumes DIR", tmp_path)
    for wrong in ("compares DIR", "status DIR", "boots nexts DIR"):
        with pytest.raises(AssertionError):
            checked("here", wrong, tmp_path)


def test_what_resumes_is_in_the_table():
    source = (PYTHON / "schedlab" / "nouns" / "experiment.py").read_text(encoding="utf-8")
    body = source.partition("def resumed_by")[2].partition("@property")[0]
    assert all(f'"{word}"' in body for word in RESUMED_BY)
    assert len(re.findall(r'return "|else "', body)) == len(RESUMED_BY)
