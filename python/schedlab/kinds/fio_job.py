"""A user's fio job file, unchanged: fio does the work, its JSON gives the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from schedlab.errors import SpecError
from schedlab.kinds import fio_files, fio_reading
from schedlab.kinds.brought import programs_of
from schedlab.kinds.command import COMMAND_METRICS, Command
from schedlab.nouns import Metric
from schedlab.store import fio_output

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

    def brought(self) -> tuple[str, ...]:
        """fio, the job and what it includes, and what the phases start."""
        return (*super().brought(), *programs_of(self.command()), *map(str, self.read().files))

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
                for word in SYNC_GIVEN if direction == fio_output.SYNC else GIVEN:
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
        return fio_output.moved_bytes(_report_in(stdout))

    def values_of(self, stdout: bytes) -> tuple[dict[str, float], dict[str, str]]:
        """(every metric in fio's JSON, those that are only bounds); bins of several processes of a
        job are added up, and a quantile that too few requests support is given as a lower bound.

        SpecError when the output is not fio's, a job failed, or none moved any data.
        """
        values: dict[str, float] = {}
        bounds: dict[str, str] = {}
        # Jobs that only compute move none.
        needs_io = bool(self.job_file and self.jobs())
        jobs = fio_output.measured("fio's output", _report_in(stdout), needs_io=needs_io)
        labels = fio_output.numbered([(job.name,) for job, _ in jobs])
        for (_, directions), label in zip(jobs, labels, strict=True):
            for direction, figures in directions.items():
                prefix = f"{label}.{direction}."
                known = {word: v for word, v in figures.values.items() if word in GIVEN and v > 0}
                values |= {prefix + word: value for word, value in known.items()}
                bounds |= {prefix + word: "at-least" for word in figures.least if word in GIVEN}
        return values, bounds


def _report_in(stdout: bytes) -> dict[str, object]:
    """The report of a run; SpecError when there is none, or more than one."""
    try:
        report, *more = fio_output.reports("fio's output", stdout.decode(errors="replace"))
    except SpecError as error:
        raise SpecError(f"the output of fio is not JSON: {error}", "fio --version") from error
    if more:
        raise SpecError(f"fio printed {len(more) + 1} reports, not one", "fio --version")
    return report
