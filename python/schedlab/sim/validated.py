"""Whether a simulated scheduler is within what `tools/kernel_check.py` has validated.

A simulation is of a kind: a disk or an SSD, its scheduler, whether more requests wait than there
are tags, whether bfq idles, and whether the page cache is between. `kernel_check.json` has the
verdicts of the last run; a kind is validated where none of its rows failed and more passed than
are undecided. To store another run:
`python tools/kernel_check.py --json | python -m schedlab.sim.validated`
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from schedlab.package import PACKAGE
from schedlab.sim.simulation import Simulation, process_text
from schedlab.sim.simulation import presets as shipped_processes
from schedlab.spec.quantities import parse_size

# Schedulers that a current kernel has.
CHECKED = ("none", "mq-deadline", "kyber", "bfq")
MEASURED = PACKAGE / "sim" / "kernel_check.json"
# Keys of a process that kernel-check cannot give to a real one.
ONLY_SIMULATED = ("arrivals", "rate", "think", "start", "offset", "span", "weight", "background")
# Settings of a simulation that it takes from the real device and load; it changes no other.
SAME_IN_BOTH = {
    "page_copy_ns", "start_spread_ns", "max_sectors_kb", "read_ahead_kb", "warm_up_seconds",
}  # fmt: skip


@dataclass(frozen=True)
class Validity:
    """Whether it holds; if not, why."""

    holds: bool
    reason: str = ""


def processes_of(processes: str | Path | Mapping[str, Any]) -> list[dict[str, Any]]:
    """The processes of a preset or a file, one for each of `count`: a region that the file gives
    them is split among these, as in the simulation (`each` in crates/sim/src/host/process.rs).
    """
    text = process_text(processes)["text"]
    content = tomllib.loads(shipped_processes().get(text, text))
    return [each for process in content["process"] for each in _every(process)]


def _every(process: dict[str, Any]) -> list[dict[str, Any]]:
    count = process.get("count", 1)
    span = bytes_of(process.get("span", 0)) // count
    if count == 1 or not span:
        return [process] * count
    if "offset" not in process:
        return [{**process, "span": span}] * count
    first = bytes_of(process["offset"])
    return [{**process, "offset": first + n * span, "span": span} for n in range(count)]


def bytes_of(size: str | int) -> int:
    """A size of a file of processes, which may be 0."""
    text = str(size)
    if text.isdigit():
        return int(text)
    return parse_size(text) if set(text) & set("123456789") else 0


@dataclass(frozen=True)
class Kind:
    """Simulations that are validated together; `contended`: more requests wait than there are tags;
    `buffered`: processes go through the page cache.
    """

    rotational: bool
    scheduler: str
    contended: bool
    idles: bool
    buffered: bool


def kind_of(simulation: Simulation) -> Kind:
    """The kind of a simulation under a scheduler."""
    name, _, tunables = str(simulation.scheduler).partition(":")
    processes = processes_of(simulation.processes)
    rotational = bool(simulation.facts()["rotational"])
    does_idle = name == "bfq" and idles(tunables, processes, rotational)
    contended = waiters_of(processes) > simulation.tags
    return Kind(rotational, name, contended, does_idle, is_buffered(processes))


def waiters_of(processes: Sequence[Mapping[str, Any]]) -> int:
    """Requests that wait at most at the same time."""
    return sum(process.get("depth", 1) for process in processes)


def is_buffered(processes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of them goes through the page cache."""
    return any(process.get("direct") is False for process in processes)


def only_simulated(process: Mapping[str, Any]) -> str:
    """The key that a real process cannot have, such as `weight`; "" where it can have all."""
    keys = [key for key in ONLY_SIMULATED if process.get(key)]
    keys += ["pattern"] if process.get("pattern") == "reverse" else []
    keys += ["read_share"] if process.get("read_share", 1) not in (0, 1) else []
    return keys[0] if keys else ""


def validated_kinds(rows: Sequence[Mapping[str, Any]]) -> set[Kind]:
    """The kinds of which no row failed and more passed than are undecided; rows of kernel-check."""
    verdicts: dict[Kind, list[str]] = {}
    for row in rows:
        verdicts.setdefault(Kind(**row["kind"]), []).append(row["verdict"])
    return {
        kind
        for kind, of_kind in verdicts.items()
        if "fails" not in of_kind and of_kind.count("pass") > len(of_kind) / 2
    }


def stored(document: Mapping[str, Any]) -> str:
    """The part of a document of kernel-check that is kept: its verdicts, a row a line."""
    keys = ("cell", "scheduler", "process", "kind", "verdict")
    rows = ",\n".join(json.dumps({key: row[key] for key in keys}) for row in document["rows"])
    return f'{{"measured": {json.dumps(document["measured"])}, "rows": [\n{rows}\n]}}\n'


@cache
def shipped_kinds() -> frozenset[Kind]:
    """Those of the stored run of kernel-check."""
    return frozenset(validated_kinds(json.loads(MEASURED.read_text())["rows"]))


def validity_of(simulation: Simulation) -> Validity:
    """Whether figures of a simulation under a scheduler are validated."""
    if simulation.trace is not None:
        return Validity(False, "kernel-check replays no traces")
    name, _, tunables = str(simulation.scheduler).partition(":")
    if name not in CHECKED:
        return Validity(False, f"no current kernel has {name}")
    if own := next((part for part in tunables.split(",") if part.startswith("x_")), ""):
        return Validity(False, f"the kernel's {name} has no {own.partition('=')[0]}")
    if other := sorted({*simulation.settings} - SAME_IN_BOTH):
        return Validity(False, f"kernel-check does not change {other[0]}")
    processes = processes_of(simulation.processes)
    if key := next(filter(None, map(only_simulated, processes)), ""):
        return Validity(False, f"kernel-check knows no processes with {key}")
    waiters, held = waiters_of(processes), simulation.nr_requests or 2 * min(simulation.tags, 128)
    if name != "none" and waiters > held:
        return Validity(False, f"{waiters} requests, of which {name} holds at most {held}")
    kind = kind_of(simulation)
    if kind in shipped_kinds():
        return Validity(True)
    if kind.idles:
        return Validity(False, "bfq idles between processes")
    device = "a disk" if kind.rotational else "an SSD"
    cache = " through the page cache" if kind.buffered else ""
    place = f"{waiters} requests for {simulation.tags} tags"
    return Validity(False, f"{name} on {device}{cache}, {place}")


def doubt_of(simulation: Simulation) -> str:
    """A sentence about figures that are not validated; "" of those that are."""
    validity = validity_of(simulation)
    if validity.holds:
        return ""
    processes = simulation.processes
    named = processes.get("name", "one") if isinstance(processes, Mapping) else processes
    load = simulation.trace or named
    return f"{load}: {simulation.scheduler} is not validated against the kernel: {validity.reason}"


def idles(tunables: str, processes: Sequence[Mapping[str, Any]], rotational: bool) -> bool:
    """Whether bfq may wait for the next request of a process instead of serving another."""
    settings = dict(part.split("=", 1) for part in tunables.split(",") if part)
    is_off = any(settings.get(key) == "0" for key in ("slice_idle", "slice_idle_us"))
    priorities = {process.get("ioprio", "be:4") for process in processes}
    return len(processes) > 1 and not is_off and (rotational or len(priorities) > 1)


if __name__ == "__main__":
    MEASURED.write_text(stored(json.load(sys.stdin)))
