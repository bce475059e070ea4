"""Output of time(1) and of the shells' `time`: bash, zsh, POSIX `-p`, GNU `-v`.

Several measurements in one file are repetitions. All other text in the file is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.text import bad, number_at, read_lines

_NUMBER = r"(\d+(?:[.,]\d+)?)"
# real 0m6.95s | real 6.95s | real 6.95
_SHELL = re.compile(rf"\s*(real|user|sys)\s+(?:(\d+)m)?{_NUMBER}s?\s*")
_CPU = re.compile(rf"\s*cpu\s+{_NUMBER}%\s*")
# tar xf a.tar  6.78s user 2.92s system 139% cpu 6.95 total
_ZSH = re.compile(
    rf"(?:.*\s)?{_NUMBER}s user {_NUMBER}s system {_NUMBER}% cpu "
    rf"(?:(\d+):)?(?:(\d+):)?{_NUMBER} total\s*"
)
_GNU = re.compile(rf"\s*(User|System) time \(seconds\): {_NUMBER}\s*")
_GNU_WALL = re.compile(
    rf"\s*Elapsed \(wall clock\) time \(h:mm:ss or m:ss\): (?:(\d+):)?(\d+):{_NUMBER}\s*"
)
_NAMES = {"User": "user", "System": "sys"}
_STARTS = ("real", "\tUser time", "\tElapsed (wall")


def read(files: Sequence[tuple[str, Path]], workload: str, options: Options) -> Imported:
    """The import of (candidate, file) pairs of one workload; SpecError naming file and line."""
    readings = [r for candidate, file in files for r in _readings(candidate, file, workload)]
    return assemble(readings, options, {"format": "time", "file": str(files[0][1])})


def _readings(candidate: str, file: Path, workload: str) -> Iterator[Reading]:
    figures: dict[str, float] = {}
    place = first = f"{file}, line 1"
    count = 0
    for place, line in read_lines(file):
        for name, value in _figures(place, line):
            if name in figures:
                raise bad(place, "user and sys of the measurement before", line)
            if not figures:
                first = place
            figures[name] = value
        if {"real", "user", "sys"} <= figures.keys():
            count += 1
            yield _reading(first, candidate, workload, figures)
            figures = {}
    if figures:
        missing = ", ".join(sorted({"real", "user", "sys"} - figures.keys()))
        raise bad(place, f"{missing} of the measurement at {first}", "the end of the file")
    if not count:
        raise bad(str(file), "output of time (real, user, sys)", "none")


def _figures(place: str, line: str) -> list[tuple[str, float]]:
    """The figures on a line, in seconds."""

    def seconds(text: str, minutes: str | None = None, hours: str | None = None) -> float:
        value = number_at(place, "seconds", text.replace(",", "."))
        value += 60 * number_at(place, "minutes", minutes or "0")
        return value + 3600 * number_at(place, "hours", hours or "0")

    if len(line) > 4096:
        return []
    if match := _SHELL.fullmatch(line):
        return [(match[1], seconds(match[3], match[2]))]
    if match := _ZSH.fullmatch(line):
        hours, minutes = (match[4], match[5]) if match[5] else (None, match[4])
        wall = seconds(match[6], minutes, hours)
        return [("user", seconds(match[1])), ("sys", seconds(match[2])), ("real", wall)]
    if match := _GNU.fullmatch(line):
        return [(_NAMES[match[1]], seconds(match[2]))]
    if match := _GNU_WALL.fullmatch(line):
        return [("real", seconds(match[3], match[2], match[1]))]
    if line.startswith(_STARTS) and not _CPU.fullmatch(line):
        raise bad(place, "a line of time such as `real 0m6.95s`", line)
    return []


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
        },
    )
