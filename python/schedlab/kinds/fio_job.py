"""A user's fio job file, unchanged: fio does the work, its JSON gives the numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from schedlab.errors import SpecError
from schedlab.kinds import fio_files, fio_reading
from schedlab.kinds.command import COMMAND_METRICS, Command
from schedlab.spec import Metric, latency

DIRECTIONS = ("read", "write", "trim")
#: Calls of fsync, fdatasync and sync_file_range, beside the directions of a job.
SYNC = "sync"
QUANTILES = ("p50", "p90", "p99", "p99_9")
# The metrics of a direction: unit and whether more is better.
GIVEN: Mapping[str, tuple[str, bool]] = {
    "bw_bytes": ("B/s", True),
    "iops": ("1/s", True),
    "lat_ns_mean": ("ns", False),
    "lat_ns_max": ("ns", False),
    **{f"lat_ns_{word}": ("ns", False) for word in QUANTILES},
}
SYNC_GIVEN = tuple(word for word in GIVEN if word.startswith("lat_"))


class FioJob(Command, frozen=True):
    """One run of `fio JOB` in the target's directory.

    Latencies are fio's total latency where the job asks for its percentiles
    (`lat_percentiles=1`), else its completion latency. `job_sha256` refuses other
    files.
    """

    kind: ClassVar[str] = "fio-job"
    metrics: ClassVar[tuple[str, ...]] = COMMAND_METRICS

    confine: Literal["devices", "files", "nothing"] = "files"
    job_file: str = ""
    job_sha256: str = ""

    def command(self) -> tuple[str, ...]:
        """The commands that are executed."""
        return ("fio", "--output-format=json+", self.job_file)

    def programs(self) -> tuple[str, ...]:
        """The jobs as fio reads them, one command line each."""
        phases = tuple(f"{line} ({name})" for name, line in self.phases().items())
        return (*(job.line() + self.liberties() for job in self.read().jobs), *phases)

    def read(self) -> fio_reading.JobFile:
        """The file as fio reads it."""
        return fio_reading.read(Path(self.job_file), self.environment_of({}))

    def jobs(self) -> dict[str, tuple[str, ...]]:
        """Its jobs by their names in fio's output, with the directions that move data, and `sync`
        where a job syncs.
        """
        return self.read().reported()

    def estimate_s(self) -> float:
        """The time by the options of the jobs; a job without a limit of time counts a second."""
        return max(self.read().seconds(), 1.0) if self.job_file else 1.0

    def knows_its_time(self) -> bool:
        """Whether options of the jobs limit it."""
        return bool(self.job_file) and self.read().seconds() > 0

    def own_metrics(self) -> Mapping[str, Metric]:
        """`JOB.read.lat_ns_p99` and so on, for every job and direction of the file."""
        metrics = dict(super().own_metrics())
        for job, directions in self.jobs().items():
            for direction in directions:
                for word in SYNC_GIVEN if direction == SYNC else GIVEN:
                    unit, higher = GIVEN[word]
                    name = f"{job}.{direction}.{word}"
                    metrics[name] = Metric(name, unit, higher, name)
        return metrics

    def check(self, label: str) -> None:
        """Check that fio accepts the file, and that it only measures."""
        path = Path(self.job_file)
        if self.argv or self.shell:
            raise SpecError(f"{label}: a fio job has no command", "omit argv and shell")
        jobs = self.read()
        fio_reading.check(label, path, jobs)
        if self.job_sha256 and jobs.digest() != self.job_sha256:
            others = "".join(f" or {file.name}" for file in jobs.files[1:])
            raise SpecError(
                f"{label}: {path}{others} is not the measured file",
                "restore it, or remove job_sha256 from the experiment",
            )

    def check_files(self, label: str, directory: Path, *, is_ours: bool) -> None:
        """SpecError for a file in the directory that the job would change, and that neither we
        made nor the user allowed; `is_ours`: none of its files is the user's."""
        jobs = self.read()
        fio_files.check_includes(label, jobs, directory)
        if not is_ours:
            fio_files.check(label, jobs, directory, self.writable)

    def mark_files(self, directory: Path) -> None:
        """Mark the files that the job made, for the next time."""
        fio_files.mark(self.read(), directory, self.writable)

    def claimed_bytes(self, stdout: bytes) -> float:
        """The bytes that fio says its jobs moved."""
        sides = (job[way] for job in _jobs_in(stdout) for way in ("read", "write"))
        return float(sum(side.get("io_bytes", 0) for side in sides))

    def values_of(self, stdout: bytes) -> tuple[dict[str, float], dict[str, str]]:
        """(every metric in fio's JSON, those that are only bounds); bins of several processes of a
        job are added up, and a quantile that too few requests support is given as a lower bound.

        SpecError when the output is not fio's.
        """
        jobs = _jobs_in(stdout)
        values: dict[str, float] = {}
        bounds: dict[str, str] = {}
        for name in dict.fromkeys(str(job["jobname"]) for job in jobs if "jobname" in job):
            parts = [job for job in jobs if job.get("jobname") == name]
            for direction in DIRECTIONS:
                sides = [part[direction] for part in parts if part[direction]["total_ios"]]
                if sides:
                    metrics, least = _direction(sides)
                    prefix = f"{name}.{direction}."
                    values |= {prefix + word: v for word, v in metrics.items() if v > 0}
                    bounds |= {prefix + word: "at-least" for word in least}
            synced = [part[SYNC]["lat_ns"] for part in parts if _syncs(part)]
            if synced:
                metrics, least = _latencies(synced)
                values |= {f"{name}.{SYNC}.{word}": v for word, v in metrics.items() if v > 0}
                bounds |= {f"{name}.{SYNC}.{word}": "at-least" for word in least}
        return values, bounds


def _jobs_in(stdout: bytes) -> list[dict[str, Any]]:
    """The jobs of fio's JSON; SpecError when it is none."""
    start = stdout.find(b"{")
    try:
        jobs: list[dict[str, Any]] = json.loads(stdout[max(start, 0) :])["jobs"]
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(f"the output of fio is not JSON: {error}", "fio --version") from error
    return jobs


def _direction(sides: list[dict[str, Any]]) -> tuple[dict[str, float], list[str]]:
    """(sums and merged bins of one direction of a job's processes, the lower bounds in it)."""
    which = "lat_ns" if all("bins" in side["lat_ns"] for side in sides) else "clat_ns"
    blocks = [
        {**side["lat_ns"], "N": side["total_ios"], "bins": side[which].get("bins", {})}
        for side in sides
    ]
    latencies, least = _latencies(blocks)
    rates = {
        "bw_bytes": float(sum(side["bw_bytes"] for side in sides)),
        "iops": float(sum(side["iops"] for side in sides)),
    }
    return {**rates, **latencies}, least


def _syncs(job: Mapping[str, Any]) -> bool:
    """Whether fio says how long its calls of fsync took."""
    return bool(job.get(SYNC, {}).get("lat_ns", {}).get("N"))


def _latencies(blocks: list[dict[str, Any]]) -> tuple[dict[str, float], list[str]]:
    """(mean, maximum and quantiles of several blocks of latencies, the lower bounds in them)."""
    bins: dict[int, int] = {}
    for block in blocks:
        for value, count in block.get("bins", {}).items():
            bins[int(value)] = bins.get(int(value), 0) + count
    rows = [[value, value, count] for value, count in sorted(bins.items())]
    total = sum(block["N"] for block in blocks)
    metrics = {
        "lat_ns_mean": sum(block["mean"] * block["N"] for block in blocks) / total,
        "lat_ns_max": float(max(block["max"] for block in blocks)),
    }
    least = []
    for word in QUANTILES:
        value = latency.quantile(rows, latency.QUANTILES[word])
        if value is None:
            value = latency.bound(rows, latency.QUANTILES[word])
            least.append(f"lat_ns_{word}")
        metrics[f"lat_ns_{word}"] = value or 0.0
    return metrics, least
