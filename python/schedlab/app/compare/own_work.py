"""The user's own work as an experiment: a command, or a fio job file, under every I/O scheduler."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import msgspec

from schedlab.app import targets
from schedlab.app.compare.comparison import (
    Design,
    Place,
    candidates_of,
    experiment_of,
    target_of,
)
from schedlab.app.measure.measure import SILENT, Observer, opened
from schedlab.errors import SpecError
from schedlab.kinds import KINDS
from schedlab.kinds.brought import sha256_of
from schedlab.kinds.fio_job import FioJob
from schedlab.kinds.launching import sha256_of_program
from schedlab.nouns import Experiment, Workload, durability
from schedlab.nouns.output_metrics import BUILT_IN, parse_output_metric
from schedlab.run.admitted import Admitted
from schedlab.store import fio_output

#: Further metrics of own work that can be a price: a program may move more for the same result.
MOVED = ("read_bytes", "written_bytes", "major_faults")


@dataclass(frozen=True)
class OwnWork:
    """Typed work: a command or a job file, metrics as typed, and the kind's parameters."""

    argv: Sequence[str] = ()
    shell: bool = False
    job_file: str = ""
    metrics: Sequence[str] = ()
    label: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


def usual_user() -> str:
    """The user who called sudo, so that no file of root is left in a tree; empty when none did."""
    uid = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not uid.isdigit() or uid == "0":
        return ""
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except KeyError:
        return ""


def workload_of(work: OwnWork, kind: str = "command") -> Workload:
    """The workload; its primary metric is the first requested one."""
    if work.job_file and work.argv:
        raise SpecError("--fio and a COMMAND cannot be used together", "use one of them")
    parameters = {key: value for key, value in work.parameters.items() if value not in (None, ())}
    names, extract = metrics_of(work.metrics)
    if extract:
        parameters["extract"] = extract
    if work.job_file:
        kind, label = "fio-job", Path(work.job_file).name
        path = Path(work.job_file).resolve()
        parameters["job_file"] = str(path)
        keys = ("job_file", "environment", "clear_environment", "extract")
        shared = {key: parameters[key] for key in keys if key in parameters}
        job = msgspec.convert(shared, FioJob)
        usual_fio, synced = _fio_metrics(job, names)
        parameters["job_sha256"] = job.read().digest()
        names = [*(names or [usual_fio]), *(name for name in synced if name not in names)]
    elif work.shell:
        parameters["shell"], label = " ".join(work.argv), "command"
    elif work.argv:
        parameters["argv"], label = list(work.argv), Path(work.argv[0]).name
        if digest := sha256_of_program(work.argv):
            parameters["program_sha256"] = digest
    else:
        raise SpecError("there is no command", "write it last: schedlab compare … -- COMMAND ARG…")
    copied = Path(str(parameters.get("copy_in") or ""))
    if parameters.get("copy_in") and copied.exists():
        parameters["copy_in_sha256"] = sha256_of(copied)
    usual = KINDS[kind].metrics
    metric = names[0] if names else (usual[0] if usual else "")
    further = () if any(f".{fio_output.SYNC}." in name for name in names) else durability.USUAL
    others = [*names[1:], *(name for name in (*usual[:3], *MOVED, *further) if name in usual)]
    return Workload(
        label=work.label or label,
        kind=kind,
        metric=metric,
        parameters=parameters,
        secondary=tuple(name for name in dict.fromkeys(others) if name != metric),
    )


def _fio_metrics(kind: FioJob, names: Sequence[str]) -> tuple[str, list[str]]:
    """(the metric of a job file with one job and direction, those of its calls of fsync); SpecError
    when one must be named.
    """
    # A file that is refused needs no metric.
    kind.check("--fio")
    jobs = kind.jobs()
    prefixes = [
        f"{job}.{way}" for job, ways in jobs.items() for way in ways if way != fio_output.SYNC
    ]
    if not prefixes:
        raise SpecError(f"{kind.job_file}: no job moves data", "add a job that reads or writes")
    if len(prefixes) > 1 and not names:
        (job, ways), *more = jobs.items()
        several = "several jobs" if more else f"[{job}] has figures of {' and '.join(ways)}"
        raise SpecError(
            f"{kind.job_file}: {several}: name the metric that decides",
            f"--metric {prefixes[0]}.lat_ns_p99 (or of {', '.join(prefixes[1:])})",
        )
    for name in names:
        if name not in (*kind.own_metrics(), *kind.metrics):
            known = [name for name in kind.own_metrics() if name not in kind.metrics]
            raise SpecError(
                f"--metric {name}: this job does not measure it",
                f"one of {', '.join((*known, *BUILT_IN))}",
            )
    synced = [job for job, ways in jobs.items() if fio_output.SYNC in ways]
    rows = [f"{job}.{fio_output.SYNC}.lat_ns_{word}" for job in synced for word in ("p50", "p99")]
    return f"{prefixes[0]}.iops", rows


def metrics_of(typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """(names in the order typed, specifications of those that are read from output)."""
    names, extract = [], []
    for text in typed:
        name = BUILT_IN.get(text, text)
        if "=" in text:
            name = parse_output_metric(text).name
            extract.append(text)
        if name in names:
            raise SpecError(f"--metric {text}: {name} is named twice", "rename one of them")
        names.append(name)
    return names, extract


def comparison_of(
    place: Place,
    work: OwnWork | Workload,
    *,
    schedulers: str | None = None,
    labels: str | None = None,
    candidates: Sequence[str] = (),
    **design: Unpack[Design],
) -> Experiment:
    """The experiment of one workload; SpecError or HostError naming what cannot be."""
    if isinstance(work, OwnWork) and place.device and not place.destroy_data:
        raise SpecError(
            f"--device {place.device}: nothing can stop a command from writing to it",
            f"--destroy-data {place.device} lets its data be lost; --directory DIR works on files",
        )
    target = target_of(place)
    named = candidates_of(schedulers, labels, target, candidates)
    workload = workload_of(work) if isinstance(work, OwnWork) else work
    title = f"{workload.label} under I/O schedulers on {targets.describe(target)}"
    return experiment_of("io", title, target, named.candidates, (workload,), named.notes, **design)


def rehearse(admitted: Admitted, observer: Observer = SILENT) -> None:
    """Open the target and run every command once, unmeasured; `observer` gets the findings."""
    with opened(admitted, observer):
        pass
