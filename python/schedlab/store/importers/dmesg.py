"""Kernel logs with a line per CPU burst.

A patched kernel prints it at each `sched_info_depart()`.

    [71725.470964] [Pid: 4129], CPUBurst: 100214270, rt_priority:10

Bursts are in ns; `CPUburst` is the same. Other lines of the log are passed over. The log is a ring
that loses its oldest lines, so a note states how much of the time the lines cover.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.nouns import Metric
from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.text import bad, read_lines

MARK = re.compile(r"cpuburst", re.IGNORECASE)
LINE = re.compile(
    r"(?:\[\s*(?P<at_s>\d{1,12}\.\d{1,9})\]\s*)?\[Pid:\s*(?P<pid>\d{1,10})\],\s*"
    r"CPU[Bb]urst:\s*(?P<burst_ns>\d{1,19}),\s*rt_priority:\s*(?P<priority>\d{1,3})\s*$"
)
MEAN_BURST = Metric("burst_ms_mean", "ms", False, "mean CPU burst")
BURSTS_MAX = 5_000_000
COVERED_ENOUGH = 0.95

Files = Sequence[tuple[str, Path]]


@dataclass(frozen=True)
class LoggedBurst:
    """One burst: its end (None where the log has no times), its process, its length."""

    at_ns: int | None
    pid: int
    burst_ns: int


def read(files: Files, options: Options) -> Imported:
    """The import of (candidate, file) pairs, one run each; SpecError naming file and line."""
    notes: list[str] = []
    readings = []
    for candidate, path in files:
        lines = lines_of(path)
        if note := _gap(path, lines):
            notes.append(note)
        readings.append(reading_of(candidate, path, lines, {}))
    return imported_bursts(readings, options, notes, "dmesg", files)


def imported_bursts(
    readings: Sequence[Reading], options: Options, notes: Sequence[str], name: str, files: Files
) -> Imported:
    """The import of runs of bursts from files of the format `name`."""
    merged = replace(options, metrics={**options.metrics, MEAN_BURST.name: MEAN_BURST}).noted(notes)
    return assemble(readings, merged, {"format": name, "file": str(files[0][1])})


def lines_of(path: Path) -> list[LoggedBurst]:
    """The bursts of a log in its order; SpecError for a burst line that is not understood."""
    lines: list[LoggedBurst] = []
    for place, text in read_lines(path):
        if not MARK.search(text):
            continue
        match = LINE.search(text)
        if not match:
            raise bad(place, "[SECONDS] [Pid: N], CPUBurst: NS, rt_priority:N", text.strip()[:80])
        at_s = match["at_s"]
        at_ns = None if at_s is None else round(float(at_s) * 1e9)
        lines.append(LoggedBurst(at_ns, int(match["pid"]), int(match["burst_ns"])))
        if len(lines) > BURSTS_MAX:
            raise bad(place, f"at most {BURSTS_MAX} bursts", "more", "import a part of the log")
    if not lines:
        raise bad(str(path), "lines with CPUBurst", "none", "is it the log of the patched kernel?")
    return lines


def reading_of(
    candidate: str, path: Path, lines: Sequence[LoggedBurst], names: Mapping[int, str]
) -> Reading:
    """A run of bursts; `names` of the processes where they are known."""
    pids = list(dict.fromkeys(line.pid for line in lines))
    counts: Counter[int] = Counter(line.pid for line in lines)
    times: Counter[int] = Counter()
    for line in lines:
        times[line.pid] += line.burst_ns
    workers = [
        {"worker": number, "pid": pid, "bursts": counts[pid], "cpu_burst_s": times[pid] / 1e9}
        | ({"name": names[pid]} if names.get(pid) else {})
        for number, pid in enumerate(pids)
    ]
    lengths = Counter(line.burst_ns for line in lines)
    return Reading(
        place=str(path),
        candidate=candidate,
        workload="CPU bursts",
        metrics={
            MEAN_BURST.name: times.total() / len(lines) / 1e6,
            "cpu_s": times.total() / 1e9,
        },
        properties={"workers": workers, "capture": "events" if names else "dmesg"},
        histograms={
            "burst_ns": [(length, length, count) for length, count in sorted(lengths.items())],
            "timeline": _timeline(lines, pids),
        },
    )


def _timeline(lines: Sequence[LoggedBurst], pids: Sequence[int]) -> list[tuple[int, int, int]]:
    """Rows (process, start, duration) in ns since the first burst began."""
    timed = [(line.at_ns, line) for line in lines if line.at_ns is not None]
    if not timed:
        return []
    first = min(at - line.burst_ns for at, line in timed)
    number = {pid: index for index, pid in enumerate(pids)}
    return [(number[line.pid], at - line.burst_ns - first, line.burst_ns) for at, line in timed]


def _gap(path: Path, lines: Sequence[LoggedBurst]) -> str:
    """A sentence when the lines cover too little of the time that they span."""
    total_ns = sum(line.burst_ns for line in lines)
    ends = [line.at_ns for line in lines if line.at_ns is not None]
    if len(ends) < 2:
        return ""
    span = max(ends) - min(ends) + lines[0].burst_ns
    if span <= 0 or total_ns >= COVERED_ENOUGH * span:
        return ""
    return (
        f"{path}: the bursts cover {total_ns / span:.0%} of the time between the first and the "
        "last line: lines were lost (the kernel's log is a ring), or the CPU did something else"
    )
