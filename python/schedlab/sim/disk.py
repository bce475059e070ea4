"""Simulated disks with heads, for scripts and Jupyter.

>>> from schedlab.sim.disk import DiskSimulation
>>> fcfs = DiskSimulation(policy="fcfs", depth=32).run()
>>> sptf = DiskSimulation(policy="sptf", depth=32).run()
>>> sptf["iops"] > fcfs["iops"]
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.sim.device import device_text
from schedlab.sim.replay import Replay, compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from schedlab._core import SimStop

HINT = "see `schedlab sim disk --help` and docs/concepts/disk-model.md"
READ, WRITE = {"kind": "read"}, {"kind": "write"}
RANDOM = {"kind": "random", "replacement": True}
# name: (pattern, direction, record), as schedlab_model::Workload has them
WORKLOADS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "random4k": (RANDOM, READ, "4k"),
    "random64k": (RANDOM, READ, "64k"),
    "randwrite4k": (RANDOM, WRITE, "4k"),
    "mixed4k": (RANDOM, {"kind": "mixed", "read_percent": 70}, "4k"),
    "seqread": ({"kind": "sequential"}, READ, "128k"),
    "seqwrite": ({"kind": "sequential"}, WRITE, "128k"),
}
KINDS = ("read-hit", "read-miss", "write-cached", "write-waited", "write-through")
# One row of the log, packed, in the order of completion; `kind` is a place in `KINDS`,
# `measured_ns` the response time that a trace states (2^64 − 1: none).
DISK_LOG_DTYPE = [
    ("index", "<u8"),
    ("arrival_ns", "<u8"),
    ("dispatched_ns", "<u8"),
    ("completed_ns", "<u8"),
    ("offset_bytes", "<u8"),
    ("length_bytes", "<u8"),
    ("measured_ns", "<u8"),
    ("operation", "u1"),
    ("kind", "u1"),
]
NOT_MEASURED = 2**64 - 1


@dataclass(frozen=True)
class DiskSimulation:
    """Everything that fixes a simulation of a disk.

    `device` is a shipped name or the path of a device file; `device_set` changes keys of it
    (`{"cache.segments": 4}`). `workload` is a name of `WORKLOADS` or the path of a trace, whose
    `format` is else detected from its content and which `trace_set` fits to the disk (`Replay`).
    `record` and `span` (from the start of the disk; 0: all of it) are sizes in bytes such as `4k`.
    Arrivals are Poisson with `rate` per second, or a closed loop with `depth` always outstanding.
    `requests` defaults to 10,000, of a trace to all. A trace fixes its own sizes and arrivals, and
    knows no seed.
    """

    device: str = "disk7200"
    policy: str = "fcfs"
    workload: str | Path = "random4k"
    format: str | None = None
    record: str | None = None
    span: str = "0"
    depth: int | None = None
    rate: float | None = None
    requests: int | None = None
    seed: int = 1
    device_set: Mapping[str, Any] = field(default_factory=dict)
    trace_set: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_trace(cls, replay: Replay, **fields: Any) -> DiskSimulation:
        """The simulation of a trace."""
        fields |= {"format": replay.format, "trace_set": replay.options()}
        return cls(workload=replay.path, **fields)

    def run(self, stop: SimStop | None = None) -> dict[str, Any]:
        """Its figures, as crates/sim/src/disk/result.rs names them; SpecError names a wrong key
        and the range allowed. Ctrl-C and `stop` end it within 100 ms.
        """
        return self.run_logged(stop, log=False)[0]

    def run_logged(
        self, stop: SimStop | None = None, *, log: bool = True
    ) -> tuple[dict[str, Any], NDArray[Any]]:
        """The same with every request, as a structured array of `DISK_LOG_DTYPE`."""
        import numpy as np

        from schedlab._core import run_disk_simulation

        job = json.dumps({**json.loads(self.job()), "log": log})
        with compiled(HINT):
            text, rows = run_disk_simulation(job, stop)
        return json.loads(text), np.frombuffer(rows, dtype=np.dtype(DISK_LOG_DTYPE))

    def job(self) -> str:
        """The JSON that crates/py/src/disk_sim.rs takes."""
        if self.requests is not None and self.requests < 1:
            raise SpecError(f"requests = {self.requests}: expected at least 1", HINT)
        job: dict[str, Any] = {
            "device": device_text(self.device),
            "path": self.device,
            "set": dict(self.device_set),
            "policy": self.policy,
        }
        if isinstance(self.workload, Path):
            if (self.record, self.span, self.depth, self.rate) != (None, "0", None, None):
                hint = "omit --record, --span and --depth"
                raise SpecError("a trace fixes its own sizes and arrivals", hint)
            trace = {
                "path": str(self.workload),
                "format": self.format,
                "options": dict(self.trace_set),
            }
            return json.dumps({**job, "requests": self.requests, "trace": trace})
        if self.workload not in WORKLOADS:
            hint = f"one of: {', '.join(WORKLOADS)}"
            raise SpecError(f"workload = {self.workload!r} is not known", hint)
        pattern, direction, record = WORKLOADS[self.workload]
        described = {
            "pattern": pattern,
            "direction": direction,
            "record": _size(self.record or record),
            "span": _size(self.span),
            "arrivals": self.arrivals(),
            "seed": self.seed,
        }
        return json.dumps({**job, "requests": self.requests or 10_000, "workload": described})

    def arrivals(self) -> Mapping[str, Any]:
        """How requests arrive, as `schedlab_model::Arrivals` has it."""
        if self.rate is None:
            if self.depth is not None and self.depth < 1:
                raise SpecError(f"depth = {self.depth}: expected at least 1", HINT)
            return {"kind": "closed", "depth": self.depth or 1}
        if self.depth is not None:
            raise SpecError("--depth and --rate cannot be used together", "omit one of them")
        if not math.isfinite(self.rate):
            raise SpecError(f"rate = {self.rate}: expected a positive number", HINT)
        return {"kind": "poisson", "rate_per_s": self.rate}


def _size(text: str) -> int | str:
    """Digits as a number: the simulator reads `4k` as text and `4096` as a number."""
    return int(text) if text.isdigit() else text
