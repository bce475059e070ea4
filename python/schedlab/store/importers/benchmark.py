"""Text of a benchmark. One reader; a program is a table, and a file beside this one.

A run begins with a line of the program's own and is whole with another one; several in a file are
repetitions. Figures of 0 are below the printed digits, and omitted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedlab.nouns import METRICS, Metric, latency
from schedlab.store.importers.context import ContextSeen, arguments_in
from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.text import bad, number_at, unquoted_lines

#: A figure in a pattern; factors to bytes and to nanoseconds.
N = r"(\d+(?:\.\d+)?)"
MIB, MS, US = float(1 << 20), 1e6, 1e3
#: Figures that are only parts of others begin with this sign.
_PART = "_"
# What METRICS does not have.
_OWN = {
    "events_per_s": Metric("events_per_s", "1/s", True, "events per second"),
    "queries_per_s": Metric("queries_per_s", "1/s", True, "queries per second"),
}


@dataclass(frozen=True)
class Benchmark:
    """How the lines of a program read. In `figures` a pattern's last group is the number of the
    metric (times a factor); `{0}` in the metric's name is its first group, `{section}` what the
    last line of `sections` stands for, and a `+` adds up. `start` begins a run: where its
    runtime grows it is a later report of the same run, unless `whole` came before. So does a line
    that begins with one of `titles` (whose workload stands there) where the start was cut off.
    """

    name: str
    start: str
    whole: str
    figures: Mapping[str, tuple[tuple[str, float], ...]]
    options: Mapping[str, str]
    workloads: Mapping[str, str] = field(default_factory=dict)
    version: str = r"(?!)"
    titles: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    #: A line that only an interim report has.
    interim: str = r"(?!)"
    #: A line that says that the run failed.
    broken: str = r"(?!)"
    #: Lines with a count that should be 0.
    noted: str = r"(?!)"
    #: Transactions: how many µs it took, and the s and µs of its end.
    logged: str = r"(?!)"
    #: Whether an output without `whole` was cut off.
    has_end: bool = True

    def read(self, files: Sequence[tuple[str, Path]], options: Options) -> Imported:
        """The import of (candidate, file) pairs; SpecError naming file and line."""
        notes: list[str] = []
        readings = [r for candidate, path in files for r in _runs(self, candidate, path, notes)]
        found = dict.fromkeys(name for reading in readings for name in reading.metrics)
        own = {name: _metric(name) for name in found if name not in METRICS}
        options = replace(options, metrics={**own, **options.metrics}).noted(notes)
        return assemble(readings, options, {"format": self.name, "file": str(files[0][1])})


#: The metric of a program that is shown first, where a run has it.
_FIRST = (
    "throughput_bytes_per_s", "transactions_per_s", "events_per_s", "wakeup_ns_p99", "elapsed_s",
)  # fmt: skip
_RUNTIME = re.compile(r" runtime (\d+) \(s\)")


def _metric(name: str) -> Metric:
    """That of a name that METRICS does not have: a percentile of its own."""
    what, _, quantile_ = name.rpartition("_ns_")
    return _OWN.get(name) or Metric(name, "ns", False, f"{what} {quantile_}")


@dataclass
class _OpenRun:
    place: str
    program: str
    at: int
    title: str
    command: str
    #: The last line between it and the run before.
    above: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    workload: str = ""
    is_whole: bool = False
    is_interim: bool = False

    def lacks(self, title: str) -> bool:
        """Whether a title belongs to this run, and does not begin another one."""
        return not self.is_whole and title != self.title


@dataclass
class _Log:
    """Transactions of a log: how many took how long, when the first began and the last ended."""

    took_us: Counter[int] = field(default_factory=Counter)
    start_us: float = math.inf
    end_us: int = 0

    def see(self, took_us: int, end_us: int) -> None:
        """Take one more."""
        self.took_us[took_us] += 1
        self.start_us = min(self.start_us, end_us - took_us)
        self.end_us = max(self.end_us, end_us)


def _runs(program: Benchmark, candidate: str, path: Path, notes: list[str]) -> Iterator[Reading]:
    version, section, command, above = "", "", "", ""
    run: _OpenRun | None = None
    whole: list[_OpenRun] = []
    log = _Log()
    context = ContextSeen(candidate, notes)
    place = str(path)
    for place, line in unquoted_lines(path):
        text = line.strip()
        if len(text) > 4096:
            continue
        context.line(text)
        command = arguments_in(text, program.name) or command
        if match := re.fullmatch(program.logged, text):
            log.see(int(match[1]), int(match[2]) * 1_000_000 + int(match[3]))
            continue
        if re.fullmatch(program.broken, text):
            raise bad(place, f"a run of {program.name} without errors", text, "remove the run")
        if match := re.fullmatch(program.version, text):
            version = f"{program.name} {match[1]}"
        title = next((each for each in program.titles if text.startswith(each)), "")
        if re.fullmatch(program.start, text) or (title and not (run and run.lacks(title))):
            at = int(match[1]) if (match := _RUNTIME.search(text)) else 0
            if run and not run.is_interim and (at <= run.at or run.is_whole):
                whole.append(run)
                yield _reading(program, candidate, run)
            context.measured(place)
            workload = program.titles.get(title, "")
            run = _OpenRun(place, version, at, title, command, above, workload=workload)
            above = ""
        elif (not run or run.is_whole) and re.search(r"[^\W\d_]", text):
            above = "" if re.search(r":\s+[\d.]", text) else text[:80]
        section = next((s for p, s in program.sections.items() if re.fullmatch(p, text)), section)
        if run:
            _see(program, run, section, place, text, notes)
    if run:
        yield _reading(program, candidate, run)
        notes += _other_titles([*whole, run])
    elif log.took_us:
        yield _of_log(candidate, path, log)
    else:
        hint = f"its lines have to be as {program.name} printed them, without a sign before them"
        raise bad(str(path), f"the output of {program.name}", "none", hint)


def _other_titles(runs: Sequence[_OpenRun]) -> Iterator[str]:
    """A note for runs of one workload below lines that differ: they may be candidates."""
    first: dict[str, _OpenRun] = {}
    for run in runs:
        before = first.setdefault(f"{run.workload} {run.options} {run.command} {run.program}", run)
        if run.above != before.above:
            where = f"is above it, {before.above!r} above {before.place.rpartition(', ')[2]}"
            yield f"{run.place}: {run.above!r} {where}: split the file where these are candidates"


def _see(
    program: Benchmark, run: _OpenRun, section: str, place: str, text: str, notes: list[str]
) -> None:
    """Take what a line says of a run."""
    was_whole = run.is_whole
    run.is_whole = was_whole or bool(re.fullmatch(program.whole, text))
    run.is_interim = run.is_interim or bool(re.fullmatch(program.interim, text))
    for pattern, name in program.options.items():
        if match := re.fullmatch(pattern, text):
            run.options[name] = match[1]
    for pattern, name in program.workloads.items():
        if match := re.fullmatch(pattern, text):
            run.workload = name.format(*(group for group in match.groups() if group))
    if (match := re.fullmatch(program.noted, text)) and int(match[1][:18]):
        notes.append(f"{place}: {text.strip()}")
    for pattern, named in program.figures.items():
        if not (match := re.fullmatch(pattern, text)):
            continue
        first = f"{float(match[1]):g}".replace(".", "_")
        for name, factor in named:
            key = name.lstrip("+").format(first, section=section)
            value = number_at(place, key, match[match.lastindex or 0]) * factor
            if was_whole and key in run.figures:
                hint = f"each run begins with a line of {program.name}: paste it, too"
                raise bad(place, f"the start of a run before another figure of {key}", text, hint)
            before = run.figures.get(key, 0.0) if name.startswith("+") else 0.0
            run.figures[key] = before + value


def _reading(program: Benchmark, candidate: str, run: _OpenRun) -> Reading:
    """The reading of a run; SpecError where its end is missing."""
    figures = run.figures
    if not run.is_whole and program.has_end:
        raise bad(run.place, f"a whole run of {program.name}", "an output that was cut off")
    if figures.get("_sum_ns") and figures.get("_events"):
        if not figures.get("latency_ns_mean"):
            figures["latency_ns_mean"] = figures["_sum_ns"] / figures["_events"]
        if figures.get("elapsed_s") and not any(name in figures for name in _FIRST[:3]):
            figures["events_per_s"] = figures["_events"] / figures["elapsed_s"]
    shown = {n: v for n, v in figures.items() if v > 0 and not n.startswith(_PART)}
    order = [name for name in _FIRST if name in shown]
    metrics = {name: shown[name] for name in [*order, *(n for n in shown if n not in order)]}
    if not metrics:
        raise bad(run.place, f"figures of {program.name} above 0", "none")
    return Reading(
        run.place,
        candidate,
        run.workload or program.name,
        metrics,
        settings={"scheduler": candidate},
        parameters=dict(run.options),
        options=run.options,
        subject=run.command,
        program=run.program,
    )


def _of_log(candidate: str, path: Path, log: _Log) -> Reading:
    """The transactions of a log: their rate and response times."""
    count, span_us = log.took_us.total(), log.end_us - log.start_us
    if span_us <= 0:
        raise bad(str(path), "transactions that take time", f"{count} in 0 µs")
    rows = [[us * 1000, us * 1000, number] for us, number in sorted(log.took_us.items())]
    metrics = {
        "transactions_per_s": count / span_us * 1e6,
        "latency_ns_mean": sum(low * number for low, _, number in rows) / count,
        "latency_ns_max": float(rows[-1][0]),
    }
    metrics |= {name: value for name, value in latency.metrics(rows).items() if value}
    return Reading(str(path), candidate, "transactions", metrics, settings={"scheduler": candidate})
