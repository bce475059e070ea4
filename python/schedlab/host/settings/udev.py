"""Which udev rule sets the scheduler of a disk, or another file of its `queue/`: the rule files,
read as udev reads them.

Files of one name override each other by directory (etc, run, usr/local/lib, usr/lib), all files are
read in the order of their names, and later assignments win: of an ATTR, `:=` says no more than `=`;
see udev(7). A match that cannot be evaluated here (PROGRAM, an unknown property) makes the
assignment uncertain: it is shown, not guessed.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedlab.host.settings import knobs

DIRECTORIES = ("etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d",
               "usr/lib/udev/rules.d", "lib/udev/rules.d")  # fmt: skip
_TOKEN = re.compile(
    r'\s*([A-Z_]+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*([ei]{0,2})"((?:[^"\\]|\\.)*)"\s*,?'
)
_SUBSTITUTION = re.compile(r"\$\$|%%|\$([a-z]+)(?:\{([^}]*)\})?|%([a-zA-Z])(?:\{([^}]*)\})?|[$%]")
# With another operator udev ignores the whole line.
_COMPARED = """
    ACTION ATTRS CONST DEVPATH DRIVER DRIVERS KERNEL KERNELS RESULT SUBSYSTEM SUBSYSTEMS TEST
    """
_OPERATORS = {
    **dict.fromkeys(_COMPARED.split(), ("==", "!=")),
    **dict.fromkeys(("GOTO", "LABEL"), ("=",)),
    "ATTR": ("==", "!=", "=", "+=", ":="),
}
# All of these of a rule have to hold for one device, the disk or one above it.
_OF_PARENTS = ("KERNELS", "SUBSYSTEMS", "DRIVERS", "ATTRS")
_QUEUE = "queue/"
_QUEUE_FILE = re.compile(r"queue/((?:iosched/)?\w+)")


@dataclass(frozen=True)
class Token:
    """One `KEY{attribute}OPERATORvalue` of a rule."""

    key: str
    attribute: str
    operator: str
    value: str
    ignores_case: bool = False

    @property
    def is_match(self) -> bool:
        """Whether it is a condition: what a program or an import gives is one however it is
        written.
        """
        return self.operator in ("==", "!=") or self.key in ("PROGRAM", "IMPORT")


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
    name: str = "scheduler"


@dataclass(frozen=True)
class Disk:
    """A disk as udev knows it: kernel name, properties, and its directory in sysfs.

    `is_known`: udev has stored its properties, so that a missing one is empty. `cmdline` has the
    parameters of the kernel's command line, `changed` the files that rules before have set.
    """

    name: str
    properties: Mapping[str, str | None] = field(default_factory=dict)
    sysfs: Path = Path("/sys")
    action: str = "change"
    is_known: bool = False
    cmdline: Mapping[str, str] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

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
    its label is uncertain. One without a label below it is ignored.
    """
    settings: list[Setting] = []
    properties: dict[str, str | None] = dict(target.properties)
    words = [w.partition("=") for w in (knobs.text(root / "proc/cmdline") or "").split()]
    cmdline = {name: value or "1" for name, _, value in words}
    here = replace(target, properties=properties, cmdline=cmdline, changed=set())
    planned = planned or {}
    for file in rule_files(root, planned):
        skip_to, unsure_to = "", ""
        numbered = list(enumerate(rules(file, planned.get(file))))
        last = {t.value: n for n, rule in numbered for t in rule.tokens if t.key == "LABEL"}
        for number, rule in numbered:
            labels = [t.value for t in rule.tokens if t.key == "LABEL"]
            skip_to = "" if skip_to in labels else skip_to
            unsure_to = "" if unsure_to in labels else unsure_to
            holds = False if skip_to else _holds(rule, here)
            if holds is False:
                continue
            if unsure_to:
                holds = None
            _set_properties(rule, holds, here, properties)  # before files, as udev does
            new = list(_settings(rule, holds, here))
            settings += new
            here.changed.update(_QUEUE + each.name for each in new)
            gotos = [t.value for t in rule.tokens if t.key == "GOTO"
                     and last.get(t.value, 0) > number]  # fmt: skip
            if gotos and holds is True:
                skip_to = gotos[0]
            elif gotos:
                unsure_to = gotos[0]
    return settings


def _set_properties(
    rule: Rule, holds: bool | None, target: Disk, properties: dict[str, str | None]
) -> None:
    """Apply a rule's ENV and its imports from the kernel command line; None: not known."""
    for token in rule.tokens:
        if token.key == "ENV" and not token.is_match:
            is_plain = holds is True and token.operator in ("=", ":=")
            value = substituted(token.value, target) if is_plain else None
            # It is known what udev stored in the end: a rule that may say the same changes nothing.
            if value is not None or properties.get(token.attribute) != token.value:
                properties[token.attribute] = value
        elif token.key == "IMPORT" and token.attribute == "cmdline":
            properties[token.value] = target.cmdline.get(token.value, "")


def _rule(file: Path, line: int, text: str) -> Rule:
    tokens: list[Token] = []
    at, readable = 0, True
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            return Rule(file, line, tuple(tokens), readable=not text[at:].strip())
        key, attribute, operator, prefix, value = match.groups()
        value = value.replace('\\"', '"')
        if operator not in _OPERATORS.get(key, (operator,)):
            return Rule(file, line, ())
        readable = readable and not ("e" in prefix and "\\" in value)
        tokens.append(Token(key, attribute or "", operator, value, "i" in prefix))
        at = match.end()
    return Rule(file, line, tuple(tokens), readable)


def _settings(rule: Rule, holds: bool | None, target: Disk) -> Iterator[Setting]:
    for token in rule.tokens:
        certain = holds is True and rule.readable
        name = token.attribute
        if token.key == "ATTR" and (another := re.match(r"\[block/([^]]*)\]/?", name)):
            # The file of a named disk, whatever disk the rule acts on.
            text = substituted(another[1], target)
            name = name[another.end() :] if text in (target.name, None) else ""
            certain = certain and text == target.name
        if token.key == "ATTR" and not token.is_match and name.startswith(_QUEUE):
            value = substituted(token.value, target)
            shown = token.value if value is None else value
            certain = certain and value is not None
            knob = name.removeprefix(_QUEUE)
            yield Setting(rule.file, rule.line, shown, certain, knob)
        elif token.key in ("RUN", "PROGRAM") and (match := _QUEUE_FILE.search(token.value)):
            yield Setting(rule.file, rule.line, token.value, certain=False, name=match[1])


def substituted(text: str, target: Disk) -> str | None:
    """A text with what udev puts in place of `$kernel`, `%k`, `$env{NAME}`, `$attr{FILE}`, `$$` and
    `%%`; None where it has a substitution that is not known here.
    """

    def value(match: re.Match[str]) -> str:
        word, name = match[1] or match[3], match[2] or match[4]
        if word in ("kernel", "k"):
            return target.name
        if word in ("env", "E") and target.properties.get(name):
            return str(target.properties[name])
        if word in ("attr", "s") and (read := knobs.text(target.path / name)):
            return read.strip()
        return match[0][0] if match[0] in ("$$", "%%") else "\0"

    result = _SUBSTITUTION.sub(value, text)
    return None if "\0" in result else result


def _holds(rule: Rule, target: Disk) -> bool | None:
    """Whether all matches of a rule hold; None where one is unknown and none is false."""
    conditions = [token for token in rule.tokens if token.is_match]
    # udev before 256 does not read a rule with letters of any case.
    unknown = not rule.readable or any(token.ignores_case for token in conditions)
    for token in conditions:
        if token.key in _OF_PARENTS:
            continue
        values = _values(token, target)
        if values is None:
            unknown = True
        elif not _agrees(token, values):
            return False
    above = [token for token in conditions if token.key in _OF_PARENTS]
    own = target.path.resolve()
    devices = [own, *(each for each in own.parents if (each / "uevent").exists())]
    if not any(all(_agrees(token, _of_device(token, each)) for token in above) for each in devices):
        return False
    return None if unknown else True


def _agrees(token: Token, values: Sequence[str]) -> bool:
    """Whether a match holds; a file that is not there is neither equal to a text nor different."""
    wanted = token.value.lower() if token.ignores_case else token.value
    texts = map(str.lower, values) if token.ignores_case else values
    is_there = bool(values) or token.key not in ("ATTR", "ATTRS")
    return is_there and any(_matches(text, wanted) for text in texts) != (token.operator == "!=")


def _of_device(token: Token, device: Path) -> list[str]:
    """The texts that a match of a parent is compared with, of one of them."""
    if token.key == "ATTRS":
        text = knobs.text(device / token.attribute)
        return [] if text is None else [text]
    if token.key == "KERNELS":
        return [device.name]
    link = device / token.key.removesuffix("S").lower()
    return [link.resolve().name if link.exists() else ""]


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
        if attribute in target.changed or re.search(r"[$%\[]", attribute):
            return None
        text = knobs.text(target.path / attribute)
        return [] if text is None else [text]
    if key == "TEST":
        place = substituted(token.value, target)
        if place is None or token.attribute:
            return None
        if not re.search(r"[*?\[]", place):
            return [token.value] if (target.path / place).exists() else []
    if key == "IMPORT" and attribute == "cmdline":
        # It fails where the kernel's command line does not have it.
        return [token.value] if token.value in target.cmdline else []
    return None


def pattern(value: str) -> str:
    """A pattern for a rule that matches a value: any character in place of each that udev would not
    take as itself, or that would end the text or the line.
    """
    return re.sub(r"""[*?|\[\]"\\$%\x00-\x1f\x7f]""", "?", value)


def _matches(value: str, pattern: str) -> bool:
    """Shell patterns with alternatives separated by |."""
    return any(fnmatch.fnmatchcase(value, part) for part in pattern.split("|"))
