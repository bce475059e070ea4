"""time(1) and the time of bash, zsh and POSIX.

Several measurements of one command in one file are repetitions. Lines that name the command or the
scheduler count (context.py); all other text in the file is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from schedlab.store.importers.context import ContextSeen, command_in
from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.tables import last_digit
from schedlab.store.importers.text import bad, number_at, unquoted_lines

#: The workload's name where the user says none.
WORKLOAD = "command"
#: What is read, for errors and for the documents.
SHAPES = (
    "bash `real 0m6.95s`, POSIX -p `real 6.95`, GNU `6.78user 2.92system 0:06.95elapsed`, GNU -v, "
    "zsh `6.78s user 2.92s system 139% cpu 6.950 total`, tcsh `6.780u 2.920s 0:06.95 139.5%`, "
    "BSD `6.95 real 6.78 user 2.92 sys`, ksh, BusyBox `real 0m 6.95s`, fish"
)
_NUMBER = r"\d+(?:[.,]\d+)?"
# 6.95 | 0m6.95s | 1h2m3.5s | 0m 6.95s
_SPAN = rf"(?:(?:\d+h\s*)?\d+m\s*)?{_NUMBER}s?"
# 6.95 | 0:06.95 | 1:02:03
_CLOCK = rf"(?:\d+:)?(?:\d+:)?{_NUMBER}"
_FISH = rf"{_NUMBER} (?:secs?|millis|micros|mins?|hours?)"


def _shape(pattern: str, **kinds: str) -> re.Pattern[str]:
    """A pattern in which each word in angle brackets is that kind of time."""
    for name in ("real", "user", "sys"):
        pattern = pattern.replace(f"<{name}>", f"(?P<{name}>{kinds.get(name, kinds['all'])})")
    return re.compile(pattern)


# Each line has one of the figures, or all of them.
_LINES = (
    _shape(r"\s*real\s+<real>\s*", all=_SPAN),
    _shape(r"\s*user\s+<user>\s*", all=_SPAN),
    _shape(r"\s*sys\s+<sys>\s*", all=_SPAN),
    # mksh: `    0m2.00s real     0m1.50s user     0m0.25s system`; BSD has no minutes.
    _shape(r"\s*<real>\s+real\s+<user>\s+user\s+<sys>\s+sys(?:tem)?\s*", all=_SPAN),
    _shape(r"(?:.*\s)?<user> user <sys> system \S+% cpu <real> total\s*", all=_SPAN, real=_CLOCK),
    _shape(r"(?:.*\s)?<user>user <sys>system <real>elapsed .*", all=_NUMBER, real=_CLOCK),
    _shape(r"(?:.*\s)?<user>u <sys>s <real> [\d.,]+%\s.*", all=_NUMBER, real=_CLOCK),
    _shape(r"\s*User time \(seconds\): <user>\s*", all=_NUMBER),
    _shape(r"\s*System time \(seconds\): <sys>\s*", all=_NUMBER),
    # BusyBox has `0m 2.00s` there.
    _shape(
        r"\s*Elapsed \(wall clock\) time \(h:mm:ss or m:ss\): <real>\s*", all=f"{_CLOCK}|{_SPAN}"
    ),
    _shape(r"\s*Executed in\s+<real>\s.*", all=_FISH),
    _shape(r"\s*usr time\s+<user>\s.*", all=_FISH),
    _shape(r"\s*sys time\s+<sys>\s.*", all=_FISH),
)
_STARTS = re.compile(r"real\s|\s*User time|\s*Elapsed \(wall")
# GNU and BusyBox, above the figures or below those of -v.
_FAILED = re.compile(
    r"Command exited with non-zero status \d+|Command (?:terminated|stopped) by signal \d+"
    r"|\s*Exit status: [1-9]\d*"
)
# zsh prints the command before the figures.
_OF_ZSH = re.compile(rf"\s*(?P<command>\S.*?)\s+{_SPAN} user {_SPAN} system ")
#: Beside the figures: what the last digit of `real` is worth.
STEP = "step"
_FISH_S = {"mic": 1e-6, "mil": 1e-3, "sec": 1.0, "min": 60.0, "hou": 3600.0}


def read(files: Sequence[tuple[str, Path]], workload: str, options: Options) -> Imported:
    """The import of (candidate, file) pairs of one workload; SpecError naming file and line."""
    notes: list[str] = []
    readings = [r for candidate, file in files for r in _readings(candidate, file, workload, notes)]
    commands = {r.subject for r in readings}
    if workload == WORKLOAD and len(commands) > 1 and "" not in commands:
        readings = [replace(r, workload=r.subject, subject="") for r in readings]
    options = options.noted(notes)
    return assemble(readings, options, {"format": "time", "file": str(files[0][1])})


def _readings(candidate: str, file: Path, workload: str, notes: list[str]) -> Iterator[Reading]:
    scheduler, command = ContextSeen(candidate, notes), ""
    figures: dict[str, float] = {}
    place = first = f"{file}, line 1"
    count = 0
    for place, line in unquoted_lines(file):
        scheduler.line(line)
        command = command_in(line) or command
        if _FAILED.fullmatch(line):
            raise bad(place, "a command without errors", line.strip(), "remove its measurement")
        for name, value in _figures(place, line).items():
            if name in figures:
                raise bad(place, "user and sys of the measurement before", line)
            if not figures:
                first = place
            figures[name] = value
        if {"real", "user", "sys"} <= figures.keys():
            count += 1
            scheduler.measured(first)
            own = _OF_ZSH.match(line)
            reading = _reading(first, candidate, workload, figures)
            yield replace(reading, subject=own["command"] if own else command)
            figures = {}
    if figures:
        missing = ", ".join(sorted({"real", "user", "sys"} - figures.keys()))
        raise bad(place, f"{missing} of the measurement at {first}", "the end of the file")
    if not count:
        raise bad(str(file), "output of time (real, user, sys)", "none", f"read are: {SHAPES}")


def _figures(place: str, line: str) -> dict[str, float]:
    """The figures on a line, in seconds."""
    if len(line) > 4096:
        return {}
    for shape in _LINES:
        if match := shape.fullmatch(line):
            own = match.groupdict()
            steps = {STEP: _step(own["real"])} if own.get("real") else {}
            return {name: _seconds(place, text) for name, text in own.items()} | steps
    if _STARTS.match(line):
        raise bad(place, "a line of time such as `real 0m6.95s`", line, f"read are: {SHAPES}")
    return {}


def _seconds(place: str, text: str) -> float:
    """`1h2m3.5s`, `1:02:03.5`, `6.95` or fish's `6.95 secs` in seconds."""
    number, _, unit = text.replace(",", ".").partition(" ")
    if unit[:3] in _FISH_S:
        return number_at(place, "a time", number) * _FISH_S[unit[:3]]
    total = 0.0
    for part in _parts(text):
        total = 60 * total + number_at(place, "a time", part)
    return number_at(place, "a time", str(total))


def _step(text: str) -> float:
    """The value of one unit of the last digit of a time, in seconds."""
    number, _, unit = text.replace(",", ".").partition(" ")
    if unit[:3] in _FISH_S:
        return last_digit(number) * _FISH_S[unit[:3]]
    return last_digit(_parts(text)[-1])


def _parts(text: str) -> list[str]:
    """Hours, minutes and seconds of `1h2m3.5s` or `1:02:03.5`, as far as they are there."""
    return re.split(r"[hm:]\s*", text.rstrip("s").replace(",", "."))


def _reading(place: str, candidate: str, workload: str, figures: dict[str, float]) -> Reading:
    real = figures["real"]
    if not real > 0:
        raise bad(place, "a real time above 0", str(real))
    cpu_s = figures["user"] + figures["sys"]
    return Reading(
        place,
        candidate,
        workload,
        {"elapsed_s": real, "cpu_s": cpu_s},
        settings={"scheduler": candidate},
        properties={
            "user_s": figures["user"],
            "sys_s": figures["sys"],
            "cpu_share": cpu_s / real,
            "steps": {"elapsed_s": figures[STEP]},
        },
    )
