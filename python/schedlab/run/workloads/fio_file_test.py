"""The file tests carried out by an installed fio instead of our engine: to check one by the other.

Parameters as in `file_test`; the metrics mean the same, percentiles come from fio's own bins. What
fio cannot do (a stride that comes back to what it left out) is refused.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import HostError, SpecError
from schedlab.run import latency
from schedlab.run.outcome import Outcome
from schedlab.run.place import Place
from schedlab.run.workloads import file_test
from schedlab.spec import GateFinding, Workload
from schedlab.store.exporters.fio import MODES
from schedlab.store.importers import fio
from schedlab.store.importers.imported import Reading

writes = file_test.writes
seconds = file_test.seconds
# test -> fio's name of its order; {back} is twice the record size, fio steps from where it ended.
ORDERS = {**MODES, "reverse-read": "read:-{back}", "record-rewrite": "write"}
STARTUP_SECONDS = 30.0


@dataclass(frozen=True)
class Done:
    """One run of fio: its only job, and the bytes that it moved (read, written)."""

    reading: Reading
    moved_bytes: tuple[int, int]


def check(workload: Workload) -> None:
    """Whether fio can do it and is there; SpecError or HostError otherwise."""
    test, _ = workload.parameters.get("test"), file_test.test_of(workload)
    if test not in ORDERS:
        raise SpecError(
            f"{workload.label}: fio cannot do the test {test!r}",
            f"use some of: {','.join(ORDERS)}; or leave --engine fio out",
        )
    if workload.parameters.get("engine", "psync") not in ("psync", "io_uring"):
        raise SpecError(
            f"{workload.label}: fio carries out only psync and io_uring here",
            "use one of them, or leave --engine fio out",
        )
    version()


def version() -> str:
    """`fio-3.33`; HostError when there is no fio."""
    try:
        done = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise HostError(
            "fio is not installed", "apt install fio, or leave --engine fio out"
        ) from error
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostError(f"fio --version: {error}", "reinstall fio") from error
    return done.stdout.strip()


def prepare(place: Place, workload: Workload) -> None:
    """Refuse what cannot be carried out before the first run."""
    check(workload)


def measure(place: Place, workload: Workload, seed: int) -> Outcome:
    """The metrics of `file_test`, as fio sees them."""
    words = command(place, workload, seed)
    primed = file_test.test_of(workload)[2]
    limit = 2 * seconds(workload) + STARTUP_SECONDS
    try:
        moved = _run(words, workload.label, limit).moved_bytes if primed else (0, 0)
        done = _run(words, workload.label, limit)
    except HostError as error:
        return Outcome({}, gates=(GateFinding("command-failed", str(error)),))
    found = done.reading
    sides = [rows for name, rows in found.histograms.items() if name != "latency_ns"]
    rows = latency.merge(sides or found.histograms.values())
    workers = int(workload.parameters.get("workers", 1))
    share = float(found.properties["cpu_share"]) * workers
    rates = ("throughput_bytes_per_s", "iops", "elapsed_s")
    direct = bool(workload.parameters.get("direct", True))
    return Outcome(
        metrics={
            **{name: found.metrics[name] for name in rates},
            "cpu_s": share * found.metrics["elapsed_s"],
            **latency.metrics(rows),
        },
        properties={
            "engine": f"{version()} {workload.parameters.get('engine', 'psync')}",
            "cpu_share": share,
            "claimed_bytes": [moved[i] + done.moved_bytes[i] for i in (0, 1)] if direct else None,
        },
        histograms={"latency_ns": rows},
    )


def command(place: Place, workload: Workload, seed: int) -> list[str]:
    """The command line of one run."""
    check(workload)
    given = workload.parameters
    test, record = str(given["test"]), int(given["record_bytes"])
    span = min(int(given.get("span_bytes", place.size_bytes)), place.size_bytes)
    window = float(given.get("seconds", 0))
    timed = ["--time_based", f"--runtime={round(window * 1000)}ms"] if window else []
    sync = str(given.get("sync", "none"))
    engine = str(given.get("engine", "psync"))
    return [
        *("setpriv", "--pdeathsig", "KILL"),  # it dies with us
        "fio",
        f"--name={test}",
        "--thread",  # one process
        f"--filename={str(place.path).replace(':', chr(92) + ':')}",
        f"--rw={ORDERS[test].format(back=2 * record)}",
        *(["--rwmixread=50"] if test == "mixed" else []),
        f"--bs={record}",
        f"--size={record if test == 'record-rewrite' else span // record * record}",
        f"--io_size={span // record * record}",
        f"--ioengine={engine}",
        f"--iodepth={int(given.get('depth', 1))}",
        *(["--fixedbufs", "--registerfiles"] if engine == "io_uring" else []),
        f"--numjobs={int(given.get('workers', 1))}",
        "--group_reporting",
        f"--direct={int(bool(given.get('direct', True)))}",
        *([f"--sync={sync}"] if sync != "none" else []),
        f"--randseed={seed}",
        *timed,
        "--refill_buffers",
        "--lat_percentiles=1",
        "--clat_percentiles=0",
        "--output-format=json+",
    ]


def _run(words: Sequence[str], label: str, limit_s: float) -> Done:
    """Run fio and read what it says; HostError with its first complaint when it fails."""
    folder = Path(tempfile.mkdtemp(prefix="schedlab-fio-"))
    out = folder / "fio.json"
    try:
        done = subprocess.run(
            [*words, f"--output={out}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
            cwd=folder,
        )
        if done.returncode:
            told = (done.stderr or done.stdout).strip().splitlines()
            raise HostError(f"fio exited {done.returncode}: {told[0] if told else 'no reason'}")
        (reading,) = fio.readings("fio", out)
        job = fio.load(out)["jobs"][0]
    except subprocess.TimeoutExpired as error:
        raise HostError(f"fio did not end within {limit_s:.0f} s") from error
    except (SpecError, ValueError) as error:
        raise HostError(f"{label}: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Done(reading, (int(job["read"]["io_bytes"]), int(job["write"]["io_bytes"])))
