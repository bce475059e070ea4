"""Logs of a kernel patched to print every CPU burst: a line at each `sched_info_depart()`.

    [71725.470964] [Pid: 4129], CPUBurst: 100214270, rt_priority:10

Bursts are in ns; `CPUburst` is the same. Other lines of the log are passed over. The log is a ring
that loses its oldest lines, so a note states how much of the time the lines cover.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.spec import Metric
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


@dataclass(frozen=True)
class LoggedBurst:
    """One burst: its end (None where the log has no times), its process, its length."""

    at_ns: int | None
    pid: int
    burst_ns: int


def read(files: Sequence[tuple[str, Path]], options: Options) -> Imported:
    """The import of (candidate, file) pairs, one run each; SpecError naming file and line."""
    notes: list[str] = []
    readings = [_reading(candidate, path, notes) for candidate, path in files]
    merged = replace(
        options,
        metrics={**options.metrics, MEAN_BURST.name: MEAN_BURST},
        notes=(*options.notes, *notes),
    )
    source = {"format": "dmesg", "file": ", ".join(str(path) for _, path in files)}
    return assemble(readings, merged, source)


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


def _reading(candidate: str, path: Path, notes: list[str]) -> Reading:
    lines = lines_of(path)
    pids = list(dict.fromkeys(line.pid for line in lines))
    total_ns = sum(line.burst_ns for line in lines)
    workers = []
    for number, pid in enumerate(pids):
        own = [line.burst_ns for line in lines if line.pid == pid]
        workers.append(
            {"worker": number, "pid": pid, "bursts": len(own), "cpu_burst_s": sum(own) / 1e9}
        )
    if note := _gap(path, lines, total_ns):
        notes.append(note)
    lengths = Counter(line.burst_ns for line in lines)
    return Reading(
        place=str(path),
        candidate=candidate,
        workload="CPU bursts",
        metrics={
            MEAN_BURST.name: total_ns / len(lines) / 1e6,
            "cpu_s": total_ns / 1e9,
        },
        properties={"workers": workers, "capture": "dmesg"},
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


def _gap(path: Path, lines: Sequence[LoggedBurst], total_ns: int) -> str:
    """A sentence when the lines cover too little of the time that they span."""
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
