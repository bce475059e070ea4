"""The base of workloads that start a user's program: argv, user, environment, phases."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypedDict

import msgspec
from msgspec import Meta

from schedlab.errors import HostError, SpecError, as_root
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.brought import PATH, program_path, programs_of, programs_of_line
from schedlab.nouns import Metric
from schedlab.nouns.output_metrics import OutputMetric, parse_output_metric

PHASES = ("setup", "prepare", "conclude", "cleanup")
SHELL = "/bin/sh"
# Shell characters; a program gets them unchanged.
_SHELL_ONLY = re.compile(r"[|&;<>()$`*?#~]|\s")
OUTPUT_LIMIT_BYTES = 64 << 20
# What a command gets in its environment, by the name of the token.
VARIABLES = {"dir": "SCHEDLAB_DIRECTORY", "device": "SCHEDLAB_DEVICE", "run": "SCHEDLAB_RUN",
             "seed": "SCHEDLAB_SEED"}  # fmt: skip
Tokens = TypedDict("Tokens", {"dir": Path, "device": str, "run": str, "seed": str})
# What changes the quoting of a shell line, and tokens.
_PIECE = re.compile(r"""(@[a-z]+@|\\.|['"]|\$\(|\))""", re.DOTALL)
# Variables whose values are stored: no secret is in them.
_TOLD = re.compile(r"PATH|LANG|(?:LC|OMP|MALLOC|LD)_.*")


class Launching(WorkloadKind, frozen=True):
    """A command and its phases, all started with the same directory, user and environment.

    `argv` is started without a shell; `shell` is a line for /bin/sh instead. `setup` and `cleanup`
    are shell lines that run once around each opening of the target, `prepare_run` and
    `conclude_run` around each run; their time is in no metric. `@dir@`, `@device@`, `@run@` and
    `@seed@` are replaced in all of them; a shell takes the value as it is. `timeout_s` 0 is 20
    times the rehearsal, at least a minute. `warm_up` runs of every candidate come before the first
    block and are not measured.
    `confine` is what the kernel keeps it from (run/command/confinement.py): other block devices,
    all files outside of its target but `writable`, or nothing. `extract` are metrics in the output
    (nouns/output_metrics.py). `program_sha256` is the digest of the program when it was first
    measured; a changed program is reported.
    """

    brings_files: ClassVar[bool] = True

    argv: tuple[str, ...] = ()
    shell: str = ""
    user: str = ""
    timeout_s: Annotated[float, Meta(ge=0)] = 0.0
    setup: str = ""
    prepare_run: str = ""
    conclude_run: str = ""
    cleanup: str = ""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    clear_environment: bool = False
    stdin: str = ""
    ok_exit: tuple[Annotated[int, Meta(ge=0, le=255)], ...] = (0,)
    ignore_exit: bool = False
    keep_daemons: bool = False
    output_limit_bytes: Annotated[int, Meta(ge=4096)] = OUTPUT_LIMIT_BYTES
    warm_up: Annotated[int, Meta(ge=0, le=100)] = 0
    confine: Literal["devices", "files", "nothing"] = "devices"
    writable: tuple[str, ...] = ()
    extract: tuple[str, ...] = ()
    program_sha256: str = ""

    def command(self) -> tuple[str, ...]:
        """The commands that are executed."""
        return (SHELL, "-c", self.shell) if self.shell else self.argv

    def phases(self) -> Mapping[str, str]:
        """The shell line of each phase that there is."""
        lines = (self.setup, self.prepare_run, self.conclude_run, self.cleanup)
        return {name: line for name, line in zip(PHASES, lines, strict=True) if line}

    def programs(self) -> tuple[str, ...]:
        """The command and its phases."""
        user = f" as {self.user}" if self.user else ""
        return (
            f"{self.shell or shlex.join(self.argv)}{user}{self.liberties()}",
            *(f"{line}{user} ({name})" for name, line in self.phases().items()),
        )

    def brought(self) -> tuple[str, ...]:
        """The programs that the command and its phases start, and the file of its input."""
        of_command = (
            programs_of_line(self.shell)
            if self.shell
            else programs_of(self.argv, self.environment.get("PATH"))
        )
        of_phases = (each for line in self.phases().values() for each in programs_of_line(line))
        return (*of_command, *of_phases, *filter(None, [self.stdin]))

    def liberties(self) -> str:
        """Its permissions beyond the usual ones, in words."""
        if self.confine == "nothing":
            return ", which nothing confines"
        return f", which may write to {', '.join(self.writable)}" if self.writable else ""

    def used_bytes(self, target_bytes: int) -> int:
        """Unknown: a command uses what it wants."""
        return 0

    def knows_its_time(self) -> bool:
        """A command takes the time that it takes."""
        return False

    def output_metrics(self) -> tuple[OutputMetric, ...]:
        """The metrics that are read from its output."""
        return tuple(map(parse_output_metric, self.extract))

    def own_metrics(self) -> Mapping[str, Metric]:
        """The metrics that are read from its output, by name."""
        return {each.name: each.metric() for each in self.output_metrics()}

    def check(self, label: str) -> None:
        """Check that the command can be started, and that its metrics make sense."""
        if bool(self.argv) == bool(self.shell):
            raise SpecError(
                f"{label}: needs either argv or shell", 'argv = ["program", "argument"]'
            )
        if self.user and self.user != pwd.getpwuid(os.geteuid()).pw_name:
            self._check_user(label)
        if self.argv:
            self._check_program(label)
        if self.stdin and not Path(self.stdin).is_file():
            raise SpecError(f"{label}: stdin {self.stdin} is not a file", "name a readable file")
        if self.writable and self.confine != "files":
            raise SpecError(
                f"{label}: writable = {self.writable[0]!r} changes nothing: its files are not held",
                "add --confine, or omit --writable",
            )
        for path in self.writable:
            if not Path(path).is_absolute() or not Path(path).exists():
                raise SpecError(f"{label}: writable: there is no {path}", "name an absolute path")
        self._check_metrics(label)

    def notes(self, label: str) -> tuple[str, ...]:
        """Whether the program is another one than was measured."""
        if not self.program_sha256 or self.program_sha256 == sha256_of_program(self.argv):
            return ()
        return (f"{label}: {self.argv[0]} is not the program measured first",)

    def environment_of(self, facts: Mapping[str, str]) -> dict[str, str]:
        """All that the command gets; `facts` are the SCHEDLAB_… of the run."""
        kept = {} if self.clear_environment else dict(os.environ)
        kept.setdefault("PATH", PATH)
        if self.user:
            entry = pwd.getpwnam(self.user)
            kept |= {"HOME": entry.pw_dir, "USER": self.user, "LOGNAME": self.user,
                     "SHELL": entry.pw_shell}  # fmt: skip
        return {**kept, "LC_ALL": "C.UTF-8", **self.environment, **facts}

    def environment_facts(self) -> dict[str, object]:
        """The stored environment: all names, but values only of variables that change speed."""
        environment = self.environment_of({})
        shown = {
            k: v for k, v in environment.items() if k in self.environment or _TOLD.fullmatch(k)
        }
        return {"names": sorted(environment), "values": shown}

    def _check_user(self, label: str) -> None:
        try:
            pwd.getpwnam(self.user)
        except KeyError as error:
            raise SpecError(
                f"{label}: there is no user {self.user!r}", "getent passwd lists the users"
            ) from error
        if os.geteuid() != 0:
            raise HostError(f"{label}: only root can run as {self.user}", as_root("omit --user"))

    def _check_program(self, label: str) -> None:
        program = self.argv[0]
        path = program_path(program, self.environment.get("PATH"))
        if path is not None:
            return
        if len(self.argv) == 1 and _SHELL_ONLY.search(program):
            raise SpecError(
                f"{label}: {program!r} is one word with spaces or shell characters",
                "write the arguments as separate words, or add --shell",
            )
        if Path(program).is_file():
            raise SpecError(f"{label}: {program} is not executable", f"chmod +x {program}")
        searched = self.environment.get("PATH") or os.environ.get("PATH", PATH)
        raise SpecError(
            f"{label}: program {program!r} is not found in {searched}",
            "use its full path, or install it",
        )

    def _check_metrics(self, label: str) -> None:
        from schedlab import _core

        metrics = self.output_metrics()
        twice = [name for name, n in Counter(m.name for m in metrics).items() if n > 1]
        if twice:
            raise SpecError(f"{label}: two metrics are called {twice[0]!r}", "rename one of them")
        for metric in metrics:
            if metric.is_json:
                continue
            try:
                groups, has_value = _core.pattern_groups(metric.pattern)
            except ValueError as error:
                reason = str(error).strip().splitlines()[-1]
                raise SpecError(
                    f"{label}: metric {metric.name}: {metric.pattern!r} is not a regular "
                    f"expression: {reason}",
                    "the syntax is that of the Rust crate regex",
                ) from error
            if groups > 1 and not has_value:
                raise SpecError(
                    f"{label}: metric {metric.name}: {metric.pattern!r} has {groups} groups, and "
                    "none is named value",
                    "write (?<value>…) around the number, (?:…) around the rest",
                )


def sha256_of_program(argv: Sequence[str]) -> str:
    """The SHA-256 of the file that is executed; empty where there is none to read."""
    path = program_path(argv[0]) if argv else None
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""
    except OSError:
        return ""


def replaced(text: str, tokens: Mapping[str, object]) -> str:
    """`text` with every `@name@` replaced."""
    return _token(tokens).sub(lambda found: str(tokens[found[1]]), text)


def replaced_in_line(line: str, tokens: Mapping[str, object]) -> str:
    """A shell line with every `@name@` replaced, so that the shell takes the value as it is.

    A value with blanks or quotes becomes the variable that holds it: the shell does not parse it
    again. SpecError within apostrophes, where a variable is not expanded.
    """
    quotes = [""]  # of the line, and of each command within it
    parts = []
    for part in _PIECE.split(line):
        if _token(tokens).fullmatch(part):
            parts.append(
                _for_shell(part.strip("@"), str(tokens[part.strip("@")]), quotes[-1], line)
            )
            continue
        if part == quotes[-1] or (quotes[-1] == "'" and part == "\\'"):  # no escape in apostrophes
            quotes[-1] = ""
        elif not quotes[-1] and part in ("'", '"'):
            quotes[-1] = part
        elif quotes[-1] != "'" and part == "$(":
            quotes.append("")
        elif not quotes[-1] and part == ")" and len(quotes) > 1:
            quotes.pop()
        parts.append(part)
    return "".join(parts)


def _for_shell(name: str, value: str, quote: str, line: str) -> str:
    variable = VARIABLES[name]
    if not value or shlex.quote(value) == value:
        return value
    if quote == "'":
        raise SpecError(
            f"{line!r}: @{name}@ is within apostrophes, and {value!r} has characters that a shell "
            "would act on",
            f'write "@{name}@" or "${variable}", with double quotes around it',
        )
    return f"${{{variable}}}" if quote else f'"${{{variable}}}"'


def _token(tokens: Mapping[str, object]) -> re.Pattern[str]:
    return re.compile(f"@({'|'.join(map(re.escape, tokens))})@")
