"""One simulation: device, policy, workload and seed become a result."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.sim.device import device_text
from schedlab.sim.policy_file import QUEUE_DTYPE, is_policy_file, load_policy
from schedlab.sim.replay import compiled
from schedlab.sim.results import SimResult

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from schedlab._core import SimStop

HINT = "see `schedlab sim run --help` and docs/concepts/ssd-simulator.md"


@dataclass(frozen=True)
class Requests:
    """Requests from arrays of one length instead of a workload.

    `arrival_ns` ascending, `offset_bytes`, `length_bytes`: unsigned integers. `operation`: 0 read,
    1 write, 2 trim.
    """

    arrival_ns: ArrayLike
    offset_bytes: ArrayLike
    length_bytes: ArrayLike
    operation: ArrayLike

    def columns(self) -> tuple[bytes, bytes, bytes, bytes]:
        """The four columns as little-endian bytes; SpecError when one holds a negative number."""
        import numpy as np

        def packed(name: str, kind: str) -> bytes:
            column = np.asarray(getattr(self, name))
            if column.size and column.min() < 0:
                raise SpecError(f"{name} = {column.min()}: expected a number of at least 0", HINT)
            return np.ascontiguousarray(column.astype(kind)).tobytes()

        return (
            packed("arrival_ns", "<u8"),
            packed("offset_bytes", "<u8"),
            packed("length_bytes", "<u8"),
            packed("operation", "u1"),
        )


@dataclass(frozen=True)
class Simulation:
    """Everything that fixes a simulation.

    `device` is a shipped name or the path of a device file; `device_set` changes keys of it
    (`{"buffer.size": "64MiB"}`). `policy` is a name of `policies()` or `FILE.py:Class` (see
    `schedlab.sim.policy_file`); `policy_set` holds its parameters (`alpha`, `aging`, …).
    `workload` is a name of `workloads()`, the path of a trace, or `Requests`; `workload_set`
    changes keys of a named one (`{"inter_arrival_ms": 2.0}`) or holds the `settings()` of a
    `Replay`. `service` is `serial` or `parallel`; nothing is that of the device file. `warm_up` is
    not reported: `{"requests": 1000}` or `{"time": "2s"}`.
    """

    device: str = "ncq2014"
    policy: str = "fcfs"
    workload: str | Path | Requests = "A"
    service: str | None = None
    requests: int | None = None
    seed: int = 1
    log: bool = False
    device_set: Mapping[str, Any] = field(default_factory=dict)
    policy_set: Mapping[str, Any] = field(default_factory=dict)
    workload_set: Mapping[str, Any] = field(default_factory=dict)
    warm_up: Mapping[str, Any] = field(default_factory=dict)

    def config(self) -> str:
        """The JSON that the simulator takes."""
        workload: dict[str, Any] = dict(self.workload_set)
        if isinstance(self.workload, Path):
            workload["trace"] = str(self.workload)
        elif isinstance(self.workload, str):
            workload["name"] = self.workload
        whole = {
            "device": device_text(self.device),
            "path": self.device,
            "set": dict(self.device_set),
            "service": self.service,
            "policy": {
                "name": "fcfs" if is_policy_file(self.policy) else self.policy,
                **self.policy_set,
            },
            "workload": workload,
            "requests": self.requests,
            "seed": self.seed,
            "log": self.log,
            "warm_up": dict(self.warm_up),
        }
        return json.dumps(_plain(whole), sort_keys=True)

    def run(self, stop: SimStop | None = None) -> SimResult:
        """Carry it out without the GIL; SpecError names a wrong key and its range. Ctrl-C and
        `stop` end it within 100 ms.
        """
        from schedlab import _core

        columns = self.workload.columns() if isinstance(self.workload, Requests) else None
        policy = None
        if is_policy_file(self.policy):
            import numpy as np

            policy = (self.policy, load_policy(self.policy), np.dtype(QUEUE_DTYPE))
        with compiled(HINT):
            return SimResult(*_core.simulate(self.config(), columns, stop, policy))


def run(
    *,
    device: str = "ncq2014",
    policy: str = "fcfs",
    workload: str | Path | Requests = "A",
    buffer: str | int | None = None,
    alpha: float | None = None,
    aging: str | None = None,
    service: str | None = None,
    requests: int | None = None,
    seed: int = 1,
    log: bool = False,
    **device_set: Any,
) -> SimResult:
    """Simulate once. Further keywords change keys of the device file, with `__` for the dot:
    `run(service="parallel", ftl__collect="fifo")`. See `Simulation` for the rest.
    """
    changes = {key.replace("__", "."): value for key, value in device_set.items()}
    if buffer is not None:
        changes["buffer.size"] = buffer
    options = {"alpha": alpha, "aging": aging}
    return Simulation(
        device=device,
        policy=policy,
        workload=workload,
        service=service,
        requests=requests,
        seed=seed,
        log=log,
        device_set=changes,
        policy_set={key: value for key, value in options.items() if value is not None},
    ).run()


def policies() -> dict[str, str]:
    """The policies of the command queue with a line about each."""
    return _names("policy")


def workloads() -> dict[str, str]:
    """The named workloads with a line about each."""
    return _names("workload")


def _names(kind: str) -> dict[str, str]:
    from schedlab import _core

    return dict(_core.sim_names(kind))


def _plain(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they go as text, and the range check refuses them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
