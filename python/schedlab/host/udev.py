"""Which udev rule sets the scheduler of a disk, or another file of its `queue/`: the rule files,
read as udev reads them.

Files of one name override each other by directory (etc, run, usr/local/lib, usr/lib), all files are
read in the order of their names, and later assignments win unless one is final (`:=`); see
udev(7). A match that cannot be evaluated here (PROGRAM, an unknown property) makes the assignment
uncertain: it is shown, not guessed.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedlab.host import knobs

DIRECTORIES = ("etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d",
               "usr/lib/udev/rules.d", "lib/udev/rules.d")  # fmt: skip
_TOKEN = re.compile(
    r'\s*([A-Z_]+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*e?"((?:[^"\\]|\\.)*)"\s*,?'
)
_QUEUE = "queue/"
_QUEUE_FILE = re.compile(r"queue/((?:iosched/)?\w+)")


@dataclass(frozen=True)
class Token:
    """One `KEY{attribute}OPERATORvalue` of a rule."""

    key: str
    attribute: str
    operator: str
    value: str

    @property
    def is_match(self) -> bool:
        """Whether it is a condition."""
        return self.operator in ("==", "!=")


@dataclass(frozen=True)
class Rule:
    """One rule: where it is written, and its tokens; `readable` is False for what is not a rule."""

    file: Path
    line: int
    tokens: tuple[Token, ...]
    readable: bool = True


@dataclass(frozen=True)
class Setting:
    """A rule that sets a file of `queue/`; `certain` unless a match is unknown."""

    file: Path
    line: int
    value: str
    certain: bool
    final: bool = False
    name: str = "scheduler"


@dataclass(frozen=True)
class Disk:
    """A disk as udev knows it: kernel name, properties, and its directory in sysfs.

    `is_known`: udev has stored its properties, so that a missing one is empty.
    """

    name: str
    properties: Mapping[str, str | None] = field(default_factory=dict)
    sysfs: Path = Path("/sys")
    action: str = "change"
    is_known: bool = False

    @property
    def path(self) -> Path:
        """The directory of the disk."""
        return self.sysfs / "block" / self.name


def disk(name: str, sysfs: Path = Path("/sys"), run: Path = Path("/run")) -> Disk:
    """A disk with the properties that udev stored for it."""
    properties: dict[str, str | None] = {"DEVTYPE": "disk", "SUBSYSTEM": "block"}
    properties["DEVNAME"] = f"/dev/{name}"
    number = knobs.text(sysfs / "block" / name / "dev")
    stored = knobs.text(run / "udev" / "data" / f"b{number}")
    for line in (stored or "").splitlines():
        if line.startswith("E:"):
            key, _, value = line[2:].partition("=")
            properties[key] = value
    return Disk(name, properties, sysfs, is_known=stored is not None)


def rule_files(root: Path, planned: Mapping[Path, str]) -> list[Path]:
    """The rule files that count, in the order in which udev reads them; also those `planned`."""
    files: dict[str, Path] = {}
    for directory in DIRECTORIES:
        home = root / directory
        ours = [path for path in planned if path.parent == home and path.suffix == ".rules"]
        for path in (*home.glob("*.rules"), *ours):
            files.setdefault(path.name, path)
    return [files[name] for name in sorted(files)]


def rules(file: Path, text: str | None = None) -> Iterator[Rule]:
    """The rules of a file, or of the text that it is to hold; continued lines are joined."""
    text = (knobs.text(file) or "") if text is None else text
    pending, start = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not pending:
            start = number
        if line.lstrip().startswith("#"):
            continue
        if line.endswith("\\"):
            pending += line[:-1]
            continue
        whole, pending = (pending + line).strip(), ""
        if whole:
            yield _rule(file, start, whole)


def queue_settings(
    target: Disk, root: Path, planned: Mapping[Path, str] | None = None
) -> list[Setting]:
    """Every rule that sets, or may set, the scheduler or another file of `queue/`, in order.

    `planned` are files that are not written yet, and their texts. What rules before set as
    properties counts. After a GOTO of which it is not known whether it is taken, everything up to
    its label is uncertain.
    """
    settings: list[Setting] = []
    properties: dict[str, str | None] = dict(target.properties)
    here = replace(target, properties=properties)
    planned = planned or {}
    for file in rule_files(root, planned):
        skip_to, unsure_to = "", ""
        for rule in rules(file, planned.get(file)):
            labels = [t.value for t in rule.tokens if t.key == "LABEL"]
            skip_to = "" if skip_to in labels else skip_to
            unsure_to = "" if unsure_to in labels else unsure_to
            holds = False if skip_to else _holds(rule, here)
            if holds is False:
                continue
            if unsure_to:
                holds = None
            settings += _settings(rule, holds)
            _set_properties(rule, holds, properties, root)
            gotos = [t.value for t in rule.tokens if t.key == "GOTO"]
            if gotos and holds is True:
                skip_to = gotos[0]
            elif gotos:
                unsure_to = gotos[0]
    return settings


def _set_properties(
    rule: Rule, holds: bool | None, properties: dict[str, str | None], root: Path
) -> None:
    """Apply a rule's ENV and its imports from the kernel command line; None: not known."""
    for token in rule.tokens:
        if token.key == "ENV" and not token.is_match:
            is_plain = holds is True and token.operator in ("=", ":=") and "$" not in token.value
            properties[token.attribute] = token.value if is_plain else None
        elif token.key == "IMPORT" and token.attribute == "cmdline":
            pairs = [w.partition("=") for w in (knobs.text(root / "proc/cmdline") or "").split()]
            values = [value or "1" for name, _, value in pairs if name == token.value]
            properties[token.value] = values[-1] if values else ""


def _rule(file: Path, line: int, text: str) -> Rule:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            return Rule(file, line, tuple(tokens), readable=not text[at:].strip())
        key, attribute, operator, value = match.groups()
        tokens.append(Token(key, attribute or "", operator, value.replace('\\"', '"')))
        at = match.end()
    return Rule(file, line, tuple(tokens))


def _settings(rule: Rule, holds: bool | None) -> Iterator[Setting]:
    for token in rule.tokens:
        if token.is_match:
            continue
        certain = holds is True and rule.readable
        if token.key == "ATTR" and token.attribute.startswith(_QUEUE):
            name = token.attribute.removeprefix(_QUEUE)
            is_final = token.operator == ":="
            yield Setting(rule.file, rule.line, token.value, certain, is_final, name)
        elif token.key in ("RUN", "PROGRAM") and (match := _QUEUE_FILE.search(token.value)):
            yield Setting(rule.file, rule.line, token.value, certain=False, name=match[1])


def _holds(rule: Rule, target: Disk) -> bool | None:
    """Whether all matches of a rule hold; None where one is unknown and none is false."""
    unknown = not rule.readable
    for token in rule.tokens:
        if not token.is_match:
            continue
        values = _values(token, target)
        if values is None:
            unknown = True
            continue
        matches = any(_matches(value, token.value) for value in values)
        if matches != (token.operator == "=="):
            return False
    return None if unknown else True


def _values(token: Token, target: Disk) -> list[str] | None:
    """The values that a match is compared with; None where they are not known here."""
    key, attribute = token.key, token.attribute
    if key == "ACTION":
        return ["add", "change"] if token.operator == "==" else [target.action]
    if key == "SUBSYSTEM":
        return ["block"]
    if key == "KERNEL":
        return [target.name]
    if key == "ENV":
        known = target.properties.get(attribute, "" if target.is_known else None)
        return [known] if known is not None else None
    if key == "ATTR":
        return [knobs.text(target.path / attribute) or ""]
    if key == "ATTRS":
        own = target.path.resolve()
        parents = [own, *own.parents]
        present = [parent for parent in parents if (parent / "uevent").exists()]
        texts = [knobs.text(parent / attribute) for parent in present]
        return [text for text in texts if text is not None]
    if key == "KERNELS":
        own = target.path.resolve()
        return [own.name, *(parent.name for parent in own.parents)]
    if key == "TEST":
        there = (target.path / token.value).exists()
        return [token.value] if there else []
    return None


def pattern(value: str) -> str:
    """A pattern for a rule that matches a value: any character in place of each that udev would not
    take as itself, or that would end the text or the line.
    """
    return re.sub(r"""[*?|\[\]"\\$%\x00-\x1f\x7f]""", "?", value)


def _matches(value: str, pattern: str) -> bool:
    """Shell patterns with alternatives separated by |."""
    return any(fnmatch.fnmatchcase(value, part) for part in pattern.split("|"))
