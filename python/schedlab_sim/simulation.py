"""One simulation: device, scheduler of the kernel or none, source of requests, policy, seed."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from schedlab.errors import SpecError
from schedlab.host.emulated.emulated_facts import DeviceFacts
from schedlab.nouns.names import is_policy_file
from schedlab.store.compiled import compiled
from schedlab.store.process_files import process_text
from schedlab_sim.device import device_text
from schedlab_sim.policy_file import QUEUE_DTYPE, load_policy
from schedlab_sim.results import SimResult

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from schedlab_sim._simulators import SimStop

SSD, DISK = "for an SSD", "for a disk"
PLAIN, SCHEDULED = "without --scheduler", "with --scheduler"
GENERATED, TRACED = "without --trace", "with --trace"
# Where an option or a field changes something: one of the alternatives holds. Others change every
# simulation.
NEEDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "workload": ((PLAIN, GENERATED),),
    "workloads": ((PLAIN, GENERATED),),
    "volumes": ((TRACED,),),
    "fit": ((TRACED,),),
    "time_scale": ((TRACED,),),
    "closed": ((TRACED, PLAIN),),
    "skip_bad_lines": ((TRACED,),),
    "format": ((TRACED,),),
    "trace_set": ((TRACED,),),
    "rate": ((TRACED,), (DISK, PLAIN)),
    "buffer": ((SSD,),),
    "service": ((SSD,),),
    "alpha": ((SSD, PLAIN),),
    "aging": ((SSD, PLAIN),),
    "policy_set": ((SSD, PLAIN),),
    "warm_up": ((SSD, PLAIN), (SCHEDULED, GENERATED)),
    "record": ((DISK, PLAIN, GENERATED),),
    "span": ((DISK, PLAIN, GENERATED),),
    "depth": ((DISK, PLAIN, GENERATED),),
    "requests": ((PLAIN,), (TRACED,)),
    "seeds": ((GENERATED,),),
    "seed": ((GENERATED,),),
    "processes": ((SCHEDULED, GENERATED),),
    "seconds": ((SCHEDULED, GENERATED),),
    "warm_up_seconds": ((SCHEDULED,),),
    "tags": ((SCHEDULED,),),
    "nr_requests": ((SCHEDULED,),),
    "window": ((SCHEDULED,),),
    "size": ((SCHEDULED,),),
    "dilate": ((SCHEDULED,),),
    "settings": ((SCHEDULED,),),
    "gantt": ((SCHEDULED,),),
}
HINTS = {
    "ssd": "see `schedlab sim run --help` and docs/concepts/ssd-simulator.md",
    "disk": "see `schedlab sim run --help` and docs/concepts/disk-model.md",
    SCHEDULED: "see docs/guides/kernel-schedulers.md",
}


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
                hint = HINTS["ssd"]
                raise SpecError(f"{name} = {column.min()}: expected a number of at least 0", hint)
            return np.ascontiguousarray(column.astype(kind)).tobytes()

        return (
            packed("arrival_ns", "<u8"),
            packed("offset_bytes", "<u8"),
            packed("length_bytes", "<u8"),
            packed("operation", "u1"),
        )


@dataclass(frozen=True)
class Simulation:
    """Everything that fixes a simulation. A field that would change nothing is refused.

    `device` is a shipped name or the path of a device file; `device_set` changes keys of it
    (`{"buffer.size": "64MiB"}`). `policy` orders the device's queue: of an SSD a name of
    `policies()` with the parameters `policy_set` (`alpha`, `aging`, …), or `FILE.py:Class` (see
    `schedlab_sim.policy_file`); of a disk fcfs, sstf, scan, clook or sptf.

    Requests come from a `workload`. Of an SSD it is a name of `workloads()`, of which
    `workload_set` changes keys (`{"inter_arrival_ms": 2.0}`), or `Requests`; of a disk a name such
    as `random4k` with `record` and `span` (from its start; 0: all of it), sizes such as `4k`, and
    arrivals that are Poisson with `rate` per second, or a closed loop with `depth` always
    outstanding. `requests` defaults to 20,000, of a disk to 10,000. A `trace` takes the place of
    the workload; its `format` is else detected from its content, and `trace_set` holds options of a
    `Replay`. Of an SSD, `warm_up` is not reported: `{"requests": 1000}` or `{"time": "2s"}`.

    With a `scheduler` of the kernel, a name with tunables as sysfs has them (`bfq:slice_idle=0`),
    `processes`, a preset, the path of a TOML file, its content or the keys of one process, issue
    requests for `seconds`; of a trace each process id (blkparse, blktrace), or else each device or
    volume, becomes a process. The device below is scaled to `size` bytes and `dilate` times slower,
    and holds and orders `window` commands (`policy`: first come, first served for a window of one,
    else the model's). `tags` bounds what the driver lets into the device, `nr_requests` what may be
    allocated (default: as the kernel, 2 · min(tags, 128), with `none` the tags).
    """

    device: str = "ncq2014"
    scheduler: str | None = None
    policy: str | None = None
    workload: str | Path | Requests | None = None
    processes: str | Path | Mapping[str, object] = "random32"
    trace: str | Path | None = None
    format: str | None = None
    service: str | None = None
    requests: int | None = None
    seed: int = 1
    log: bool = False
    record: str | None = None
    span: str = "0"
    depth: int | None = None
    rate: float | None = None
    tags: int = 32
    nr_requests: int | None = None
    window: int | None = None
    size: str | None = None
    dilate: int = 1
    seconds: float = 20.0
    warm_up_seconds: float = 0.0
    warm_up: Mapping[str, object] = field(default_factory=dict)
    device_set: Mapping[str, object] = field(default_factory=dict)
    policy_set: Mapping[str, str | int | float] = field(default_factory=dict)
    workload_set: Mapping[str, object] = field(default_factory=dict)
    trace_set: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A path as workload is that of a trace."""
        if isinstance(self.workload, Path):
            object.__setattr__(self, "trace", self.workload)
            object.__setattr__(self, "workload", None)

    @property
    def model(self) -> str:
        """`ssd`, `disk` or `fixed`."""
        return model_of(self.device)

    def job(self) -> dict[str, object]:
        """The input of `Job` in crates/sim/src/job.rs. SpecError for a field that would change
        nothing.
        """
        changed = [name for name, value in _usual().items() if getattr(self, name) != value]
        here = conditions(self.model, self.scheduler is not None, self.trace is not None)
        refuse_idle({name: name for name in changed if name != "seed"}, here)
        named = "fcfs" if is_policy_file(self.policy) else self.policy or "fcfs"
        job: dict[str, object] = {
            "device": self.device_job(),
            "requests": self.requests,
            "seed": self.seed,
            "log": self.log,
        }
        if self.scheduler is None:
            job |= {
                "policy": {"name": named, **self.policy_set},
                "warm_up": dict(self.warm_up),
                "workload": self._workload_job(),
            }
        else:
            job |= {
                "scheduler": self.scheduler,
                "dilate": self.dilate,
                "settings": {
                    "tags": self.tags,
                    "nr_requests": self.nr_requests,
                    "seconds": self.seconds,
                    "warm_up_seconds": self.warm_up_seconds,
                    **self.settings,
                },
            }
            if self.trace is None:
                job["processes"] = process_text(self.processes)
        if self.trace is not None:
            options = {**self.trace_set, **self.workload_set}
            if self.scheduler is not None:
                options = {"volumes": "region", **options}
            form = options.pop("format", self.format)
            job["trace"] = {"path": str(self.trace), "format": form, "options": options}
        plain: dict[str, object] = _plain(job)
        return plain

    def _workload_job(self) -> dict[str, object]:
        own = {
            "name": self.workload if isinstance(self.workload, str) else None,
            "record": _size(self.record) if self.record else None,
            "span": _size(self.span) if self.span != "0" else None,
            "depth": self.depth,
            "rate": self.rate,
            **({} if self.trace is not None else self.workload_set),
        }
        return {key: value for key, value in own.items() if value is not None}

    def device_job(self) -> dict[str, object]:
        """The input of `DeviceConfig` in crates/sim/src/model."""
        from schedlab.nouns.quantities import parse_quantity

        below = self.policy or ("fcfs" if self.window == 1 else None)
        return {
            "device": device_text(self.device),
            "place": self.device,
            "size_bytes": parse_quantity("size_bytes", self.size) if self.size else None,
            "queue_depth": self.window,
            "policy": None if self.scheduler is None else below,
            "service": self.service,
            "set": dict(self.device_set),
        }

    def run(self, stop: SimStop | None = None, chooser: Any = None) -> SimResult:
        """Carry it out without the GIL; SpecError names a wrong key and its range. Ctrl-C and
        `stop` end it within 100 ms. A `chooser` is an object as in a policy file, which chooses in
        place of the policy.
        """
        from schedlab_sim import _simulators

        subject = self.model if self.scheduler is None else SCHEDULED
        with compiled(HINTS.get(subject, HINTS["ssd"])):
            columns = self.workload.columns() if isinstance(self.workload, Requests) else None
            policy = None
            if chooser is None and is_policy_file(self.policy):
                chooser = load_policy(self.policy)
            if chooser is not None:
                import numpy as np

                policy = (self.policy or "fcfs", chooser, np.dtype(QUEUE_DTYPE))
            job = json.dumps(self.job(), sort_keys=True)
            return SimResult(*_simulators.simulate(job, columns, stop, policy))

    def facts(self) -> DeviceFacts:
        """Facts of the device below a scheduler: kind, rotational, size_bytes, queue_depth, policy,
        service. SpecError names a wrong key and its range.
        """
        from schedlab_sim._simulators import emulated_facts

        with compiled(HINTS.get(self.model, HINTS["ssd"])):
            return msgspec.json.decode(
                emulated_facts(json.dumps(self.device_job())), type=DeviceFacts
            )


@functools.cache
def _usual() -> dict[str, object]:
    """The defaults of the fields."""
    return dict(vars(Simulation()))


def run(*, buffer: str | int | None = None, alpha: float | None = None, aging: str | None = None,
        **options: Any) -> SimResult:  # fmt: skip
    """Simulate once. Keywords are fields of `Simulation`; others change keys of the device file,
    with `__` for the dot: `run(service="parallel", ftl__collect="fifo")`.
    """
    own = {each.name for each in dataclasses.fields(Simulation)}
    fields = {key: value for key, value in options.items() if key in own}
    changes = {k.replace("__", "."): value for k, value in options.items() if k not in own}
    if buffer is not None:
        changes["buffer.size"] = buffer
    aged = {k: v for k, v in (("alpha", alpha), ("aging", aging)) if v is not None}
    fields["device_set"] = {**fields.get("device_set", {}), **changes}
    fields["policy_set"] = {**fields.get("policy_set", {}), **aged}
    return Simulation(**fields).run()


def conditions(model: str, is_scheduled: bool, is_traced: bool) -> set[str]:
    """Those of `NEEDS` that hold."""
    return {
        {"ssd": SSD, "disk": DISK}.get(model, "for a device of fixed times"),
        SCHEDULED if is_scheduled else PLAIN,
        TRACED if is_traced else GENERATED,
    }


def refuse_idle(given: Mapping[str, str], here: set[str]) -> None:
    """SpecError for an option or a field that would change nothing; `given` names it as it was
    written (`--nr-requests`: `nr_requests`).
    """
    for written, name in given.items():
        alternatives = NEEDS.get(name, ((),))
        if not any(set(needs) <= here for needs in alternatives):
            needed = ", or ".join(" and ".join(needs) for needs in alternatives)
            missing = [need for needs in alternatives for need in needs if need not in here]
            raise SpecError(
                f"{written} would change nothing here: it works only {missing[0]}",
                f"omit {written}; it works {needed}",
            )


def model_of(device: str) -> str:
    """`ssd`, `disk` or `fixed`: the model of a shipped device or of a device file. What is wrong
    with a text that is no TOML, the simulator says.
    """
    return _model_in(device_text(device))


@functools.lru_cache(maxsize=64)
def _model_in(text: str) -> str:
    try:
        return str(tomllib.loads(text).get("model", "ssd"))
    except tomllib.TOMLDecodeError:
        return "ssd"


def policies() -> dict[str, str]:
    """The policies of an SSD's command queue with a line about each."""
    return _names("policy")


def workloads() -> dict[str, str]:
    """The named workloads of an SSD with a line about each."""
    return _names("workload")


def _names(registry: str) -> dict[str, str]:
    from schedlab_sim import _simulators

    return dict(_simulators.sim_names(registry))


def split_schedulers(text: str) -> list[str]:
    """`none;bfq:slice_idle=0,low_latency=0`, or with commas where no tunable is set: each
    scheduler with its tunables, in one spelling; SpecError for one that does not exist.
    """
    from schedlab_sim._simulators import host_scheduler_text

    between = ";" if ";" in text or ":" in text else ","
    with compiled(HINTS[SCHEDULED]):
        return [host_scheduler_text(part.strip()) for part in text.split(between) if part.strip()]


def _size(text: str) -> int | str:
    """Digits as a number: the simulator reads `4k` as text and `4096` as a number."""
    return int(text) if text.isdigit() else text


def _plain(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they go as text, and the range check refuses them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
