"""fio's JSON and json+ output.

There may be text around it, and old latencies in µs. A file may hold several reports: those of
separate runs are repetitions; those that `--status-interval` prints on the way are replaced by the
last one, which has all of their I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedlab.nouns.foreign import QUOTED
from schedlab.nouns.latency import merge
from schedlab.nouns.reading import read_bytes
from schedlab.store import fio_output
from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.text import WHOLE_HINT, decoded

BYTES_MAX = 64 << 20
_CPU = ("usr_cpu", "sys_cpu")
_SUBJECT = ("filename", "directory")
# Options that do not change the load: names, places, what is printed, the seed.
_NOT_LOAD = re.compile(
    r"name|description|filename|directory|filename_format|ioscheduler|randseed|group_reporting"
    r"|(write_)?\w*_log|log_\w+|\w*percentiles?(_list)?|status_interval|eta\w*|minimal|output\w*"
)


def read(files: Sequence[tuple[str, Path]], options: Options) -> Imported:
    """The import of (candidate, file) pairs: a workload per job; SpecError naming file and job."""
    notes: list[str] = []
    numbered = [each for candidate, file in files for each in readings(candidate, file, notes)]
    options = options.noted(notes)
    return assemble(numbered, options, {"format": "fio", "file": str(files[0][1])})


def load(file: Path) -> list[dict[str, object]]:
    """The reports of an output, between any other text."""
    text = QUOTED.sub("", decoded(str(file), read_bytes(file, WHOLE_HINT, BYTES_MAX)))
    return fio_output.reports(str(file), text)


def readings(candidate: str, file: Path, notes: list[str]) -> Iterator[Reading]:
    """The jobs of one output, in its order; SpecError naming file and job."""
    reports = load(file)
    last = [
        report
        for report, following in zip(reports, [*reports[1:], None], strict=True)
        if following is None or not _continues(report, following)
    ]
    if interim := len(reports) - len(last):
        notes.append(f"{file}: {interim} interim reports (--status-interval) were skipped")
    for number, report in enumerate(last, 1):
        which = f", report {number}" if len(last) > 1 else ""
        yield from _jobs(candidate, f"{file}{which}", report, notes)


def _continues(report: Mapping[str, Any], following: Mapping[str, Any]) -> bool:
    """Whether `following` is a later report of the same run: it has all I/O of `report`, and its
    process and its jobs had started when that was printed.
    """
    jobs, later = ([j for j in r["jobs"] if isinstance(j, dict)] for r in (report, following))
    if [j.get("jobname") for j in jobs] != [j.get("jobname") for j in later]:
        return False

    def figure(part: Any, name: str) -> float:
        value = part.get(name) if isinstance(part, dict) else None
        return float(value) if isinstance(value, int) and 0 <= value < 1 << 63 else 0.0

    def grown(name: str) -> list[float]:
        return [
            figure(after.get(d), name) - figure(before.get(d), name)
            for before, after in zip(jobs, later, strict=True)
            for d in (*fio_output.DIRECTIONS, fio_output.MIXED)
        ]

    ios, runtime = grown("total_ios"), grown("runtime")
    if min([*ios, *runtime, *grown("io_bytes"), *grown("io_kbytes")], default=0) < 0:
        return False
    if any(ios) and not any(runtime):
        return False  # what did more in no time is another run

    def printed_s(r: Mapping[str, Any]) -> float:
        return figure(r, "timestamp_ms") / 1e3 or figure(r, "timestamp")

    def elapsed_s(each: Sequence[Any]) -> float:
        return max((figure(j, "elapsed") for j in each), default=0.0)

    run_s = max((figure(j, "job_runtime") for j in later), default=0.0) / 1e3
    between_s = printed_s(following) - printed_s(report)
    # `elapsed` is in whole seconds, rounded up.
    same_start = abs(between_s - (elapsed_s(later) - elapsed_s(jobs))) < 2
    return same_start and (not run_s or run_s > between_s)


def _jobs(
    candidate: str, place: str, report: Mapping[str, Any], notes: list[str]
) -> Iterator[Reading]:
    jobs = fio_output.measured(place, report)
    loads = [
        {k: v for k, v in job.options.items() if not _NOT_LOAD.fullmatch(k)} for job, _ in jobs
    ]
    keys = [
        (job.name, *map(str, sorted(load.items())))
        for (job, _), load in zip(jobs, loads, strict=True)
    ]
    labels = fio_output.numbered(keys)
    for (job, figures), options, label in zip(jobs, loads, labels, strict=True):
        if not figures:
            notes.append(f"{place}: did no I/O: {label}")
            continue
        scheduler = job.options.get("ioscheduler")
        if scheduler and scheduler not in candidate.split():
            notes.append(f"{place}: the file says ioscheduler={scheduler}, the label {candidate}")
        if job.loses_percentiles():
            processes = f"{place}: {job.name}: percentiles of its {len(job.parts)} processes"
            notes.append(f"{processes} cannot be added up: run fio with --output-format=json+")
        yield replace(
            _reading(candidate, job, figures),
            workload=label,
            parameters=job.options,
            options=options,
            subject=next((job.options[k] for k in _SUBJECT if job.options.get(k)), ""),
            program=str(report.get("fio version", "")),
        )


def _reading(
    candidate: str, job: fio_output.ReportedJob, figures: dict[str, fio_output.Figures]
) -> Reading:
    mixed, synced = figures.pop(fio_output.MIXED, None), figures.pop(fio_output.SYNC, None)
    trims = figures.pop("trim", None)
    sides = [each.values for each in (figures.values() or filter(None, [mixed or trims]))]
    rates = {"throughput_bytes_per_s": "bw_bytes", "iops": "iops"} if sides else {}
    metrics = {name: sum(side[key] for side in sides) for name, key in rates.items()}
    metrics |= {f"{d}_bytes_per_s": each.values["bw_bytes"] for d, each in figures.items()}
    # The latency of one direction is not that of all.
    whole = mixed or (next(iter(figures.values()), trims) if len(figures) < 2 else None)
    groups = {f"{d}_": each for d, each in figures.items()} if len(figures) > 1 else {}
    bounds: dict[str, str] = {}
    for prefix, each in {"": whole, **groups, "fsync_": synced}.items():
        if each:
            named = {n: n.replace("lat_ns", f"{prefix}latency_ns") for n in each.values}
            metrics |= {named[n]: v for n, v in each.values.items() if n.startswith("lat_ns")}
            bounds |= {named[name]: "at-least" for name in each.least}
    if elapsed_s := job.largest("runtime") / 1e3:
        metrics["elapsed_s"] = elapsed_s
    bins = {f"{prefix}latency_ns": each.rows for prefix, each in groups.items() if each.rows}
    if whole and whole.rows:
        bins = {"latency_ns": whole.rows, **bins}
    elif bins and len(bins) == len(groups):
        bins = {"latency_ns": merge(bins.values()), **bins}
    shares = [fio_output.number(job.place, p, k, 0.0) for k in _CPU for p in job.parts]
    cpu = [sum(shares[: len(job.parts)]), sum(shares[len(job.parts) :])]
    return Reading(
        job.place,
        candidate,
        "",
        metrics,
        settings={"scheduler": candidate},
        properties={"cpu_share": sum(cpu) / 100, "usr_cpu": cpu[0], "sys_cpu": cpu[1]},
        histograms=bins,
        bounds=bounds,
    )
