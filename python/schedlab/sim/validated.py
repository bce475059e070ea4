"""Whether a simulated scheduler is within what `schedlab sim kernel-check` has validated.

A simulation is of a kind: a disk or an SSD, its scheduler, and whether more requests wait than
there are tags. A kind is validated where a checked cell of it passed and none failed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.sim.host import HostSimulation, process_text
from schedlab.sim.host import presets as shipped_processes

# Schedulers that a current kernel has.
CHECKED = ("none", "mq-deadline", "kyber", "bfq")
# Rotational, scheduler, and whether requests wait for a tag: of Linux 6.18, cells 1-4, 8 and 12.
VALIDATED = frozenset(
    {
        (True, "none", False),
        (True, "mq-deadline", False),
        (True, "mq-deadline", True),
        (True, "kyber", False),
        (True, "kyber", True),
        (True, "bfq", False),
        (True, "bfq", True),
        (False, "mq-deadline", True),
        (False, "kyber", True),
        (False, "bfq", True),
    }
)
# Keys of a process that kernel-check cannot give to a real one.
ONLY_SIMULATED = ("arrivals", "rate", "think", "start", "offset", "span", "weight", "background")


@dataclass(frozen=True)
class Validity:
    """Whether it holds; if not, why."""

    holds: bool
    reason: str = ""


def processes_of(processes: str | Path) -> list[dict[str, Any]]:
    """The processes of a preset or a file, one for each of `count`."""
    text = process_text(processes)["processes"]
    content = tomllib.loads(shipped_processes().get(text, text))
    return [each for each in content["process"] for _ in range(each.get("count", 1))]


def validity_of(simulation: HostSimulation, scheduler: str) -> Validity:
    """Whether figures of `simulation` under a scheduler (`bfq:slice_idle=0`) are validated."""
    if simulation.trace is not None:
        return Validity(False, "kernel-check replays no traces")
    name, _, tunables = scheduler.partition(":")
    if name not in CHECKED:
        return Validity(False, f"no current kernel has {name}")
    processes = processes_of(simulation.processes)
    for process in processes:
        for key in ONLY_SIMULATED:
            if process.get(key):
                return Validity(False, f"kernel-check knows no processes with {key}")
    rotational = bool(simulation.facts()["rotational"])
    if name == "bfq" and idles(tunables, processes, rotational):
        return Validity(False, "bfq idles between processes")
    waiters = sum(process.get("depth", 1) for process in processes)
    contended = waiters > simulation.tags
    if (rotational, name, contended) in VALIDATED:
        return Validity(True)
    device = "a disk" if rotational else "an SSD"
    place = f"{waiters} requests for {simulation.tags} tags"
    return Validity(False, f"{name} on {device}, {place}")


def idles(tunables: str, processes: Sequence[Mapping[str, Any]], rotational: bool) -> bool:
    """Whether bfq may wait for the next request of a process instead of serving another."""
    settings = dict(part.split("=", 1) for part in tunables.split(",") if part)
    is_off = any(settings.get(key) == "0" for key in ("slice_idle", "slice_idle_us"))
    priorities = {process.get("ioprio", "be:4") for process in processes}
    return len(processes) > 1 and not is_off and (rotational or len(priorities) > 1)
