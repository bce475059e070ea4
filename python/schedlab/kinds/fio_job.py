"""A user's fio job file, unchanged: fio does the work, its JSON gives the numbers."""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from schedlab.errors import HostError, SpecError
from schedlab.kinds import latency
from schedlab.kinds.command import COMMAND_METRICS, Command
from schedlab.spec import Metric
from schedlab.spec.reading import read_text

DIRECTIONS = ("read", "write", "trim")
QUANTILES = ("p50", "p90", "p99", "p99_9")
# The metrics of a direction: unit and whether more is better.
GIVEN: Mapping[str, tuple[str, bool]] = {
    "bw_bytes": ("B/s", True),
    "iops": ("1/s", True),
    "lat_ns_mean": ("ns", False),
    "lat_ns_max": ("ns", False),
    **{f"lat_ns_{word}": ("ns", False) for word in QUANTILES},
}
# Options that would do schedlab's part, and what to use instead.
_REFUSED = {
    "ioscheduler": "fio would switch the scheduler itself: use --schedulers",
    "exec_prerun": "use --prepare",
    "exec_postrun": "use --conclude",
}


class FioJob(Command, frozen=True):
    """One run of `fio JOB` in the target's directory.

    Latencies are fio's total latency where the job asks for its percentiles
    (`lat_percentiles=1`), else its completion latency. `job_sha256` refuses another file.
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
        """fio, with the job file."""
        phases = tuple(f"{line} ({name})" for name, line in self.phases().items())
        return (" ".join(self.command()) + self.liberties(), *phases)

    def own_metrics(self) -> Mapping[str, Metric]:
        """`JOB.read.lat_ns_p99` and so on, for every job and direction of the file."""
        metrics = dict(super().own_metrics())
        for job, directions in jobs_of(Path(self.job_file)).items():
            for direction in directions:
                for word, (unit, higher) in GIVEN.items():
                    name = f"{job}.{direction}.{word}"
                    metrics[name] = Metric(name, unit, higher, name)
        return metrics

    def check(self, label: str) -> None:
        """Check that fio is installed and accepts the file, and that its options are allowed."""
        path = Path(self.job_file)
        if self.argv or self.shell:
            raise SpecError(f"{label}: a fio job has no command", "omit argv and shell")
        if shutil.which("fio") is None:
            raise HostError(f"{label}: fio is not installed", "apt install fio")
        for section, options in _sections(path):
            _check_options(f"{label}: {path}: [{section}]", options, self.environment)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if self.job_sha256 and digest != self.job_sha256:
            raise SpecError(
                f"{label}: {path} is not the measured file",
                "restore it, or remove job_sha256 from the experiment",
            )
        parsed = subprocess.run(
            ["fio", "--parse-only", str(path)], capture_output=True, text=True, check=False
        )
        if parsed.returncode:
            raise SpecError(f"{label}: fio does not accept {path}: {parsed.stderr.strip()}",
                            f"fio --parse-only {path}")  # fmt: skip

    def values_of(self, stdout: bytes) -> tuple[dict[str, float], dict[str, str]]:
        """(every metric in fio's JSON, those that are only bounds); bins of several processes of a
        job are added up, and a quantile that too few requests support is given as a lower bound.

        SpecError when the output is not fio's.
        """
        start = stdout.find(b"{")
        try:
            report = json.loads(stdout[max(start, 0) :])
            jobs = report["jobs"]
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(f"the output of fio is not JSON: {error}", "fio --version") from error
        values: dict[str, float] = {}
        bounds: dict[str, str] = {}
        for name in dict.fromkeys(str(job["jobname"]) for job in jobs):
            parts = [job for job in jobs if job["jobname"] == name]
            for direction in DIRECTIONS:
                sides = [part[direction] for part in parts if part[direction]["total_ios"]]
                if sides:
                    metrics, least = _direction(sides)
                    prefix = f"{name}.{direction}."
                    values |= {prefix + word: v for word, v in metrics.items() if v > 0}
                    bounds |= {prefix + word: "at-least" for word in least}
        return values, bounds


def jobs_of(path: Path) -> dict[str, tuple[str, ...]]:
    """The jobs of a file, with the directions in which each moves data."""
    shared: Mapping[str, str] = {}
    jobs = {}
    for section, options in _sections(path):
        if section == "global":
            shared = {**shared, **options}
            continue
        merged = {**shared, **options}
        kind = merged.get("rw") or merged.get("readwrite") or "read"
        jobs[merged.get("name", section)] = _directions(kind)
    return jobs


def _directions(kind: str) -> tuple[str, ...]:
    word = kind.partition(":")[0]
    if word in ("rw", "readwrite", "randrw"):
        return ("read", "write")
    return tuple(each for each in DIRECTIONS if each in word) or ("read",)


def _sections(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """(name, options) of every section of a job file; SpecError when it is none."""
    parser = configparser.ConfigParser(
        allow_no_value=True, strict=False, interpolation=None, delimiters=("=",),
        comment_prefixes=("#", ";"), default_section="\0",
    )  # fmt: skip
    try:
        parser.read_string(read_text(path, "name a fio job file"))
    except configparser.Error as error:
        raise SpecError(f"{path}: {str(error).splitlines()[0]}", "name a fio job file") from error
    for section in parser.sections():
        yield section, {key: value or "1" for key, value in parser.items(section)}


def _check_options(where: str, options: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """SpecError for schedlab's options, and for files elsewhere; fio replaces ${NAME} itself."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] in ("SCHEDLAB_DEVICE", "SCHEDLAB_DIRECTORY"):
            return "."
        return {**os.environ, **environment}.get(match[1], "")

    if any(key.startswith("include ") for key in options):
        raise SpecError(f"{where}: include is refused", "copy its jobs into this file")
    for key, hint in _REFUSED.items():
        if key in options:
            raise SpecError(f"{where}: {key} is refused", hint)
    for key in ("filename", "directory"):
        text = re.sub(r"\$\{(\w+)\}", value_of, options.get(key, ""))
        for name in re.split(r"(?<!\\):", text):
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise SpecError(
                    f"{where}: {key} = {name} is outside the target",
                    f"omit {key}, or use a relative name: fio runs in the target's directory; a "
                    "bare device is ${SCHEDLAB_DEVICE}",
                )


def _direction(sides: list[dict[str, Any]]) -> tuple[dict[str, float], list[str]]:
    """(sums and merged bins of one direction of a job's processes, the lower bounds in it)."""
    which = "lat_ns" if all("bins" in side["lat_ns"] for side in sides) else "clat_ns"
    bins: dict[int, int] = {}
    for side in sides:
        for value, count in side[which].get("bins", {}).items():
            bins[int(value)] = bins.get(int(value), 0) + count
    rows = [[value, value, count] for value, count in sorted(bins.items())]
    total = sum(side["total_ios"] for side in sides)
    metrics = {
        "bw_bytes": float(sum(side["bw_bytes"] for side in sides)),
        "iops": float(sum(side["iops"] for side in sides)),
        "lat_ns_mean": sum(side["lat_ns"]["mean"] * side["total_ios"] for side in sides) / total,
        "lat_ns_max": float(max(side["lat_ns"]["max"] for side in sides)),
    }
    least = []
    for word in QUANTILES:
        value = latency.quantile(rows, latency.QUANTILES[word])
        if value is None:
            value = latency.bound(rows, latency.QUANTILES[word])
            least.append(f"lat_ns_{word}")
        metrics[f"lat_ns_{word}"] = value or 0.0
    return metrics, least
