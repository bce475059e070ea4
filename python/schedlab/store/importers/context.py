"""Lines around figures that name what was measured: a scheduler that was set or shown, a command,
the machine of a prompt.

Text of a terminal has them between the measurements. Those of one file are repetitions only while
nothing around them changes.
"""

from __future__ import annotations

import re

from schedlab.store.importers.text import bad

_NAMES = "none|noop|mq-deadline|deadline|kyber|bfq|cfq|anticipatory"
# echo bfq > /sys/block/sda/queue/scheduler, also by tee, and of each turn of a loop: echo $s > …
_SET = (
    re.compile(
        rf".*(?:echo|printf)\s+(?:-\w+\s+)?[\"']?({_NAMES}|\$\{{?\w+\}}?)(?![\w-])"
        r".*/scheduler\b.*"
    ),
    re.compile(rf".*\bschedlab io set ({_NAMES})(?![\w-]).*"),
)
_DISK = r"(?:/dev/)?(?:[shv]d[a-z]+|xvd[a-z]+|nvme\d+n\d+|mmcblk\d+|loop\d+|md\d+|dm-\d+)"
_SHOWN_SCHEDULER = (
    # A title: `== bfq ==`, `sda: bfq`, or what a shell with -x shows of a setting
    re.compile(rf"\W*(?:{_DISK}\W+)?(?:\+ echo )?({_NAMES})\W*", re.IGNORECASE),
    # none [mq-deadline] bfq
    re.compile(rf"(?:[^\s\[]*:\s*)?(?:(?:{_NAMES})\s+)*\[({_NAMES})\](?:\s+(?:{_NAMES}))*\s*$"),
    re.compile(
        rf".*\b(?:scheduler|elevator)\b\W{{1,3}}(?:is\s+|to\s+)?({_NAMES})(?![\w-]).*",
        re.IGNORECASE,
    ),
)
_UNKNOWN = "an unknown one"
# The signs of shells and of their themes; behind ➜ comes the directory.
_SIGN = r"[$#%>+❯➜»λ›⟩→]"
_COMMAND = re.compile(
    rf"(?:.*{_SIGN}\s+|.*➜\s.*\S\s+|[+]+\s*|\s*)(?:sudo\s+|\w+=\S*\s+)*(?:\\|\S*/)?time\s+"
    r"(?:-\S+\s+)*(?P<command>[^\s\d(].*)"
)
# root@host:~# …, [root@host ~]# …
_PROMPT = re.compile(r"\[?[\w.-]{1,32}@([\w.-]{1,64})[:\s]\S{0,256}\s?[#$%>](?:\s|$)")
_PROMPT_END = re.compile(r"^(?:\S*[$#%>]|\[?[\w.-]{1,32}@\S{1,320}(?: \S{1,256})?\s?[$#%>])\s+")
#: Commands that start another one.
_STARTERS = ("sudo", "numactl", "taskset", "chrt", "nice", "ionice", "time", "env")
# A shell with -x shows each command, but not the word `time`.
_SHOWN = re.compile(r"\++ (?P<command>[^\s\d(].*)")
_TIMED = re.compile(r'\s*Command being timed: "(?P<command>.*)"\s*')


class ContextSeen:
    """Follows the scheduler and the machine that the lines of one file name."""

    def __init__(self, candidate: str, notes: list[str]) -> None:
        self._candidate, self._notes = candidate, notes
        self._now = self._measured = self._machine = self._machine_measured = ""
        self._is_measured = False

    def line(self, line: str) -> None:
        """Look at a line."""
        if match := _PROMPT.match(line):
            self._machine = match[1]
        if len(line) >= 4096:
            return
        if match := next(filter(None, (shape.match(line) for shape in _SET)), None):
            self._now = match[1].lower()
            if self._is_measured:
                self._measured = self._measured or _UNKNOWN
        elif match := next(filter(None, (s.fullmatch(line) for s in _SHOWN_SCHEDULER)), None):
            self._now = match[1].lower()

    def measured(self, place: str) -> None:
        """Check a measurement; SpecError where the one before had another scheduler or machine. A
        label that the file contradicts is a note.
        """
        if self._machine_measured and self._machine != self._machine_measured:
            hint = "split the file, one machine each"
            expected = f"the machine of the figures above, {self._machine_measured}"
            raise bad(place, expected, self._machine, hint)
        self._machine_measured, self._is_measured = self._machine, True
        if not self._now:
            return
        if self._measured and _full(self._measured) != _full(self._now):
            hint = "split the file, one scheduler each: CANDIDATE=FILE"
            raise bad(
                place, f"the scheduler of the figures above, {self._measured}", self._now, hint
            )
        is_turn = self._now.startswith("$")
        is_named = is_turn or _full(self._now) in map(_full, self._candidate.split())
        if not self._measured and not is_named:
            words = f"the file names the scheduler {self._now}, the label {self._candidate}"
            self._notes.append(f"{place}: {words}")
        self._measured = _UNKNOWN if is_turn else self._now


def command_in(line: str) -> str:
    """The command that a line says was timed; empty for any other line."""
    if len(line) > 4096:
        return ""
    match = _TIMED.fullmatch(line) or _COMMAND.fullmatch(line) or _SHOWN.fullmatch(line)
    return match["command"].strip() if match else ""


def arguments_in(line: str, program: str) -> str:
    """The options with which a line of a terminal starts a program; empty for any other line."""
    words = re.split(r"[|<>;&]", _PROMPT_END.sub("", line[:4096].replace("`", " "), 1))[0].split()
    at = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == program), None)
    if at is None or (at and words[0] not in _STARTERS):
        return ""
    arguments = words[at + 1 :]
    # The name of a test may be before the options.
    has_options = any(word.startswith("-") for word in arguments[:2])
    return " ".join(arguments) if has_options else ""


def _full(name: str) -> str:
    """The kernel knows mq-deadline by its old name, too."""
    return "mq-deadline" if name == "deadline" else name
