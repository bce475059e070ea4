"""The file tests run by an installed fio instead of our engine: to check one against the other.

The metrics mean the same as in `file_test`; percentiles come from fio's own bins. A test that fio
does not support (a stride that returns for the records it skipped) is refused.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from schedlab.errors import HostError, SpecError
from schedlab.kinds import latency
from schedlab.kinds.file_test import TESTS, FileTest
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.spec import GateFinding
from schedlab.store.exporters.fio import MODES
from schedlab.store.importers import fio
from schedlab.store.importers.imported import Reading

# test -> fio's name of its order; {back} is twice the record size, fio steps from where it ended.
ORDERS = {**MODES, "reverse-read": "read:-{back}", "record-rewrite": "write"}
STARTUP_SECONDS = 30.0


@dataclass(frozen=True)
class Done:
    """One run of fio: its only job, and the bytes that it moved (read, written)."""

    reading: Reading
    moved_bytes: tuple[int, int]


class FioFileTest(FileTest, frozen=True):
    """A file test by fio; parameters as of `file-test`."""

    kind: ClassVar[str] = "fio-file-test"

    def check(self, label: str) -> None:
        """Whether fio can do it and is there; SpecError or HostError otherwise."""
        super().check(label)
        if self.test not in ORDERS:
            raise SpecError(
                f"{label}: fio does not support the test {self.test!r}",
                f"use some of: {','.join(ORDERS)}; or omit --engine fio",
            )
        if self.engine not in ("psync", "io_uring"):
            raise SpecError(
                f"{label}: fio supports only psync and io_uring here",
                "use one of them, or omit --engine fio",
            )
        version()

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """The metrics of `file-test`, as fio sees them."""
        words = command(self, target, seed)
        limit_s = 2 * self.estimate_s() + STARTUP_SECONDS
        primed = TESTS[self.test][2]
        try:
            moved = _run(words, label, limit_s).moved_bytes if primed else (0, 0)
            run = _run(words, label, limit_s)
        except HostError as error:
            return Outcome({}, gates=(GateFinding("command-failed", str(error)),))
        outcome = run.reading
        sides = [rows for name, rows in outcome.histograms.items() if name != "latency_ns"]
        rows = latency.merge(sides or outcome.histograms.values())
        share = float(outcome.properties["cpu_share"]) * self.workers
        rates = ("throughput_bytes_per_s", "iops", "elapsed_s")
        claimed = [moved[i] + run.moved_bytes[i] for i in (0, 1)]
        return Outcome(
            metrics={
                **{name: outcome.metrics[name] for name in rates},
                "cpu_s": share * outcome.metrics["elapsed_s"],
                **latency.metrics(rows),
            },
            properties={
                "engine": f"{version()} {self.engine}",
                "cpu_share": share,
                "claimed_bytes": claimed if self.direct else None,
            },
            histograms={"latency_ns": rows},
        )


def version() -> str:
    """`fio-3.33`; HostError when there is no fio."""
    try:
        process = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise HostError("fio is not installed", "apt install fio, or omit --engine fio") from error
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostError(f"fio --version: {error}", "reinstall fio") from error
    return process.stdout.strip()


def command(test: FileTest, target: ResolvedTarget, seed: int) -> list[str]:
    """The command line of one run."""
    record = test.record_bytes
    span = test.used_bytes(target.size_bytes)
    timed = ["--time_based", f"--runtime={round(test.seconds * 1000)}ms"] if test.seconds else []
    return [
        *("setpriv", "--pdeathsig", "KILL"),  # it dies with us
        "fio",
        f"--name={test.test}",
        "--thread",  # one process
        f"--filename={str(target.path).replace(':', chr(92) + ':')}",
        f"--rw={ORDERS[test.test].format(back=2 * record)}",
        *(["--rwmixread=50"] if test.test == "mixed" else []),
        f"--bs={record}",
        f"--size={record if test.test == 'record-rewrite' else span // record * record}",
        f"--io_size={span // record * record}",
        f"--ioengine={test.engine}",
        f"--iodepth={test.depth}",
        *(["--fixedbufs", "--registerfiles"] if test.engine == "io_uring" else []),
        f"--numjobs={test.workers}",
        "--group_reporting",
        f"--direct={int(test.direct)}",
        *([f"--sync={test.sync}"] if test.sync != "none" else []),
        f"--randseed={seed}",
        *timed,
        "--refill_buffers",
        "--lat_percentiles=1",
        "--clat_percentiles=0",
        "--output-format=json+",
    ]


def _run(words: Sequence[str], label: str, limit_s: float) -> Done:
    """Run fio and read its output; HostError with its first message when it fails."""
    folder = Path(tempfile.mkdtemp(prefix="schedlab-fio-"))
    out = folder / "fio.json"
    try:
        process = subprocess.run(
            [*words, f"--output={out}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
            cwd=folder,
        )
        if process.returncode:
            messages = (process.stderr or process.stdout).strip().splitlines()
            raise HostError(
                f"fio exited {process.returncode}: {messages[0] if messages else 'no reason'}"
            )
        (reading,) = fio.readings("fio", out, [])
        job = fio.load(out)[-1]["jobs"][0]
    except subprocess.TimeoutExpired as error:
        raise HostError(f"fio did not end within {limit_s:.0f} s") from error
    except (SpecError, ValueError) as error:
        raise HostError(f"{label}: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Done(reading, (int(job["read"]["io_bytes"]), int(job["write"]["io_bytes"])))
