"""The kernel's I/O schedulers above a simulated device, for scripts and Jupyter.

>>> from schedlab.sim.host import HostSimulation
>>> none = HostSimulation(scheduler="none", processes="random32", tags=4).run()
>>> sorted_ = HostSimulation(scheduler="mq-deadline", processes="random32", tags=4).run()
>>> sorted_["total"]["iops"] > none["total"]["iops"]
True
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.sim.device import device_text
from schedlab.sim.replay import compiled
from schedlab.spec.reading import read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from schedlab._core import SimStop
    from schedlab.sim.validated import Validity

HINT = "see docs/guides/kernel-schedulers.md"
# One row of the log, packed, in the order of completion; times in ns, sectors of 512 bytes;
# `operation` is 0 read, 1 write, 2 discard, `process` a place in the result's `processes`.
HOST_LOG_DTYPE = [
    ("sector", "<u8"),
    ("arrival_ns", "<u8"),
    ("inserted_ns", "<u8"),
    ("dispatched_ns", "<u8"),
    ("completed_ns", "<u8"),
    ("process", "<u4"),
    ("sectors", "<u4"),
    ("bios", "<u4"),
    ("operation", "u1"),
]


@dataclass(frozen=True)
class HostSimulation:
    """Everything that fixes a simulation of the host's queue above a device.

    `device` is a shipped model or the path of a device file, scaled to `size` bytes and `dilate`
    times slower; `window` is the number of commands that it holds and orders by its own `policy`
    (default: first come, first served for a window of one, else the model's). `scheduler` is a
    name with tunables as sysfs has them (`bfq:slice_idle=0`), `processes` a preset or the path of a
    TOML file. `tags` bounds what the driver lets into the device, `nr_requests` what may be
    allocated (default: as the kernel, 2 · min(tags, 128), with `none` the tags). A `trace` takes
    the place of the processes: each of its process ids (blkparse, blktrace), or else of its devices
    or volumes, becomes a process, and it ends with its last request, or after `requests`; `format`
    is else detected from its content, and `trace_set` holds the options of a `Replay`.
    """

    device: str = "disk7200"
    scheduler: str = "none"
    processes: str | Path = "random32"
    tags: int = 32
    nr_requests: int | None = None
    window: int | None = None
    policy: str | None = None
    service: str | None = None
    size: str | None = None
    dilate: int = 1
    seconds: float = 20.0
    warm_up_seconds: float = 0.0
    seed: int = 1
    trace: Path | None = None
    format: str | None = None
    requests: int | None = None
    trace_set: Mapping[str, Any] = field(default_factory=dict)
    device_set: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def run(self, stop: SimStop | None = None) -> dict[str, Any]:
        """Its figures, as crates/sim/src/host/result.rs names them; SpecError names a wrong key
        and the range allowed. Ctrl-C and `stop` end it within 100 ms.
        """
        return self._simulate(stop, log=False)[0]

    def run_logged(self, stop: SimStop | None = None) -> tuple[dict[str, Any], NDArray[Any]]:
        """The same with every request, as a structured array of `HOST_LOG_DTYPE`."""
        import numpy as np

        figures, rows = self._simulate(stop, log=True)
        return figures, np.frombuffer(rows, dtype=np.dtype(HOST_LOG_DTYPE))

    def _simulate(self, stop: SimStop | None, *, log: bool) -> tuple[dict[str, Any], bytes]:
        from schedlab._core import run_host_simulation

        with compiled(HINT):
            text, rows = run_host_simulation(json.dumps(self.job(log=log)), stop)
        return json.loads(text), rows

    def job(self, *, log: bool = False) -> dict[str, Any]:
        """What crates/py/src/host_sim.rs takes."""
        settings = {
            "tags": self.tags,
            "nr_requests": self.nr_requests,
            "seconds": self.seconds if self.trace is None else 1e6,
            "warm_up_seconds": self.warm_up_seconds,
            "seed": self.seed,
            "log": log,
            **self.settings,
        }
        job: dict[str, Any] = {
            "device": self.device_job(),
            **({} if self.dilate == 1 else {"dilate": self.dilate}),
            "scheduler": self.scheduler,
            "settings": settings,
        }
        if self.trace is not None:
            return {
                **job,
                "trace": {
                    "path": str(self.trace),
                    "format": self.format,
                    "requests": self.requests,
                    "options": {"volumes": "region", **self.trace_set},
                },
            }
        return {**job, **process_text(self.processes)}

    def device_job(self) -> dict[str, Any]:
        """What crates/sim/src/model takes."""
        from schedlab.spec.quantities import parse_quantity

        return {
            "device": device_text(self.device),
            "place": self.device,
            "size_bytes": parse_quantity("size_bytes", self.size) if self.size else None,
            "queue_depth": self.window,
            "policy": self.policy or ("fcfs" if self.window == 1 else None),
            "service": self.service,
            "set": dict(self.device_set),
        }

    def facts(self) -> Mapping[str, Any]:
        """What the device is: kind, rotational, size_bytes, queue_depth, policy, service."""
        from schedlab._core import emulated_facts

        facts: Mapping[str, Any] = json.loads(emulated_facts(json.dumps(self.device_job())))
        return facts

    def heading(self) -> str:
        """The device and the queue above it, on one line."""
        facts = self.facts()
        kind = "SSD" if facts["kind"] == "ssd" else facts["kind"]
        service = f", {facts['service']} service" if facts["service"] else ""
        return (
            f"{self.device}: {kind}{service}, window {facts['queue_depth']}, {facts['policy']}; "
            f"{self.tags} tags"
        )


def process_text(processes: str | Path) -> dict[str, str]:
    """A preset by name, or the text of a file."""
    if str(processes) in presets():
        return {"processes": str(processes)}
    path = Path(processes)
    if path.suffix != ".toml":
        known = ", ".join(presets())
        raise SpecError(f"processes {str(processes)!r} is not one of {known}", "or a file.toml")
    text = read_text(path, "name the path of a file of processes")
    return {"processes": text, "place": str(path)}


def presets() -> dict[str, str]:
    """Shipped files of processes by name."""
    from schedlab._core import host_presets

    return dict(host_presets())


def split_schedulers(text: str) -> list[str]:
    """`none;bfq:slice_idle=0,low_latency=0`, or with commas where no tunable is set: each
    scheduler with its tunables, in one spelling; SpecError for one that does not exist.
    """
    from schedlab._core import host_scheduler_text

    between = ";" if ";" in text or ":" in text else ","
    with compiled(HINT):
        return [host_scheduler_text(part.strip()) for part in text.split(between) if part.strip()]


def table(
    runs: Sequence[Mapping[str, Any]], validity: Mapping[str, Validity] | None = None
) -> list[str]:
    """Lines: what each process got under each scheduler, means over the seeds, and which figures
    kernel-check has not validated.
    """
    lines = [f"{'scheduler':<28}{'process':<16}{'MB/s':>9}{'1/s':>10}{'mean ms':>10}{'p99 ms':>10}"]
    schedulers = list(dict.fromkeys(run["scheduler"] for run in runs))
    for scheduler in schedulers:
        same = [run for run in runs if run["scheduler"] == scheduler]
        for index, process in enumerate((*same[0]["processes"], same[0]["total"])):
            each = [(*run["processes"], run["total"])[index] for run in same]
            p99s = [one["latency_ns_p99"] for one in each]
            p99 = "–" if None in p99s else f"{_mean(p99s) / 1e6:.1f}"
            lines.append(
                f"{scheduler:<28}{process['name']:<16}"
                f"{_mean([one['throughput_bytes_per_s'] for one in each]) / 1e6:>9.2f}"
                f"{_mean([one['iops'] for one in each]):>10.1f}"
                f"{_mean([one['latency_ns_mean'] for one in each]) / 1e6:>10.2f}{p99:>10}"
            )
        if validity and not validity[scheduler].holds:
            lines.append(f"  ^ not validated: {validity[scheduler].reason}")
    return lines


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
