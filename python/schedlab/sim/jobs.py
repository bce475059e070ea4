"""What the options of `schedlab sim run|compare|disk` mean: one job, whatever is simulated.

A job is a device, the kernel's schedulers above it or none, a source of requests (a workload,
processes, a trace) and policies of the device's queue. Every option changes it or is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schedlab.errors import SpecError
from schedlab.sim.device import device_text
from schedlab.sim.replay import Replay, replay_of
from schedlab.sim.settings import device_changes
from schedlab.spec import Experiment

Typed = Mapping[str, Any]
SEEDS = 8
SSD, DISK = "for an SSD", "for a disk"
PLAIN, SCHEDULED = "without --scheduler", "with --scheduler"
GENERATED, TRACED = "without --trace", "with --trace"
# Where an option changes something: one of the alternatives holds. Others change every job.
NEEDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "workload": ((PLAIN, GENERATED),),
    "workloads": ((PLAIN, GENERATED),),
    "volumes": ((TRACED,),),
    "fit": ((TRACED,),),
    "time_scale": ((TRACED,),),
    "closed": ((TRACED, PLAIN),),
    "skip_bad_lines": ((TRACED,),),
    "rate": ((TRACED,), (DISK, PLAIN)),
    "buffer": ((SSD,),),
    "service": ((SSD,),),
    "alpha": ((SSD, PLAIN),),
    "aging": ((SSD, PLAIN),),
    "warm_up": ((SSD, PLAIN), (SCHEDULED, GENERATED)),
    "record": ((DISK, PLAIN, GENERATED),),
    "span": ((DISK, PLAIN, GENERATED),),
    "depth": ((DISK, PLAIN, GENERATED),),
    "requests": ((PLAIN,), (TRACED,)),
    "seeds": ((GENERATED,),),
    "seed": ((GENERATED,),),
    "processes": ((SCHEDULED, GENERATED),),
    "seconds": ((SCHEDULED, GENERATED),),
    "tags": ((SCHEDULED,),),
    "nr_requests": ((SCHEDULED,),),
    "window": ((SCHEDULED,),),
    "size": ((SCHEDULED,),),
    "gantt": ((SCHEDULED,),),
}
REPLAYING = ("volumes", "fit", "time_scale", "closed", "skip_bad_lines", "rate")


@dataclass(frozen=True)
class Shown:
    """What a command shows: a table, the same as JSON, and what the reader is warned of."""

    lines: Sequence[str]
    document: Mapping[str, Any]
    warnings: Sequence[str]


class Job(Protocol):
    """Simulations that can be run at once, or as an experiment with a verdict."""

    def run(self) -> Shown:
        """Simulate everything."""

    def experiment(self) -> tuple[Experiment, list[str]]:
        """The same as an experiment, and warnings; SpecError where there can be no verdict."""


def job_of(typed: Typed) -> Job:
    """The job that the options of a command mean; SpecError for one that would do nothing."""
    model = model_of(typed["device"])
    check_options(typed, model)
    if typed["scheduler"] is not None:
        from schedlab.sim.host_job import HostJob

        return HostJob.of(typed)
    if model == "disk":
        from schedlab.sim.disk_job import DiskJob

        return DiskJob.of(typed)
    from schedlab.sim.ssd_job import SsdJob

    return SsdJob.of(typed)


def model_of(device: str) -> str:
    """`ssd`, `disk` or `fixed`: the model of a shipped device or of a device file."""
    try:
        return str(tomllib.loads(device_text(device)).get("model", "ssd"))
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{device}: {error}", "see the shipped device files") from None


def check_options(typed: Typed, model: str) -> None:
    """SpecError for an option that would change nothing."""
    is_given = {
        name
        for name, value in typed.items()
        if value is not None and value is not False and value != ()
    }
    if model == "fixed" and "scheduler" not in is_given:
        raise SpecError(
            f"--device {typed['device']}: a device of fixed times has no queue to order",
            "add --scheduler, the kernel's queue above it",
        )
    here = {
        {"ssd": SSD, "disk": DISK}.get(model, "for a device of fixed times"),
        SCHEDULED if "scheduler" in is_given else PLAIN,
        TRACED if "trace" in is_given else GENERATED,
    }
    for name in sorted(is_given & set(NEEDS)):
        alternatives = NEEDS[name]
        if not any(set(needs) <= here for needs in alternatives):
            needed = ", or ".join(" and ".join(needs) for needs in alternatives)
            option = f"--{name.replace('_', '-')}"
            missing = [need for needs in alternatives for need in needs if need not in here]
            raise SpecError(
                f"{option} would change nothing here: it works only {missing[0]}",
                f"omit {option}; it works {needed}",
            )


def replay_from(typed: Typed) -> Replay | None:
    """The trace, with what is done to its requests."""
    if typed["trace"] is None:
        return None
    changes = {name: typed[name] for name in REPLAYING if typed[name] is not None}
    return replay_of(typed["trace"], **changes)


def changes_of(typed: Typed) -> dict[str, Any]:
    """The changed keys of the device."""
    return device_changes(typed["changes"], typed["buffer"])


def seeds_of(typed: Typed) -> range:
    """The seeds; a trace is the same whatever the seed."""
    first = 1 if typed["seed"] is None else typed["seed"]
    return range(first, first + (1 if typed["trace"] else typed["seeds"] or SEEDS))


def given(typed: Typed, *names: str) -> dict[str, Any]:
    """Those of the options that were named, by name."""
    return {name: typed[name] for name in names if typed.get(name) is not None}
