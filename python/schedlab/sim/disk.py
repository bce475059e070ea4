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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import Interrupted, SpecError

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class DiskSimulation:
    """Everything that fixes a simulation of a disk.

    `device` is a shipped name or the path of a device file, `workload` a name of `WORKLOADS` or
    the path of a trace, whose `format` is else told from its content. `record` and `span` (from
    the start of the disk; 0: all of it) are sizes in bytes such as `4k`. Arrivals are Poisson with
    `rate` a second, or a closed loop with `depth` always outstanding. `requests` defaults to
    10,000, of a trace to all. A trace fixes its own sizes and arrivals, and knows no seed.
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

    def run(self, stop: SimStop | None = None) -> dict[str, Any]:
        """Its figures, as crates/sim/src/disk/result.rs names them; SpecError names a wrong key
        and the range allowed. Ctrl-C and `stop` end it within 100 ms.
        """
        from schedlab._core import run_disk_simulation

        try:
            result: dict[str, Any] = json.loads(run_disk_simulation(self.job(), stop))
        except ValueError as error:
            raise SpecError(str(error), HINT) from None
        except RuntimeError as error:
            raise Interrupted(str(error)) from None
        return result

    def job(self) -> str:
        """The JSON that crates/py/src/disk_sim.rs takes."""
        if self.requests is not None and self.requests < 1:
            raise SpecError(f"requests = {self.requests}: expected at least 1", HINT)
        job: dict[str, Any] = {**_device(self.device), "policy": self.policy}
        if isinstance(self.workload, Path):
            if (self.record, self.span, self.depth, self.rate) != (None, "0", None, None):
                hint = "leave --record, --span, --depth and --rate away"
                raise SpecError("a trace fixes its own sizes and arrivals", hint)
            trace = {"path": str(self.workload), "format": self.format}
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
            raise SpecError("--depth and --rate exclude each other", "leave one away")
        if not math.isfinite(self.rate):
            raise SpecError(f"rate = {self.rate}: expected a positive number", HINT)
        return {"kind": "poisson", "rate_per_s": self.rate}


def _size(text: str) -> int | str:
    """Digits as a number: the simulator reads `4k` as text and `4096` as a number."""
    return int(text) if text.isdigit() else text


def _device(name_or_path: str) -> dict[str, str]:
    """A shipped name, or the content of a device file with its path."""
    from schedlab._core import disk_devices

    path = Path(name_or_path)
    if name_or_path in disk_devices() or path.suffix != ".toml":
        return {"device": name_or_path}
    try:
        return {"device": path.read_text(encoding="utf-8"), "path": str(path)}
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: {error}", "give the path of a device file") from error
