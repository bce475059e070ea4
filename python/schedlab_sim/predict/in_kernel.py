"""Rates of processes under the kernel's own schedulers on emulated devices, in virtual time.

One boot of a guest measures all cells; what it prints are the figures of each process, as those of
a simulation.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from schedlab.app.measure.virtual import check_speed, kernels_named
from schedlab.errors import SpecError
from schedlab.guest.machine import BootSettings, Message
from schedlab.guest.place import Boot, Job
from schedlab.host.emulated.emulated import Emulation, model_text
from schedlab.host.safety.control import Control
from schedlab.kinds.actors import Actors, run_actors
from schedlab.kinds.processes import engine_groups, mean_ns
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.kinds.trace_replay import TraceReplay, file_of
from schedlab.store.process_files import processes_of, unique_names
from schedlab_sim.results import ProcessFigures

CELLS = "cells.json"


@dataclass(frozen=True)
class KernelCell:
    """Processes on an emulated device, under each of the schedulers for so many seconds.

    `processes` are the tables of a file of processes; a `recording` (FILE or FILE:FORMAT) takes
    their place, at its own times. The driver has so
    many `tags`, and a scheduler may allocate `nr_requests` (None: what the device and the kernel
    have).
    """

    emulation: Emulation
    processes: Sequence[Mapping[str, object]]
    schedulers: Sequence[str]
    seconds: float
    seed: int
    tags: int | None = None
    nr_requests: int | None = None
    recording: str = ""


def measured_rates(
    kernel: str, cells: Sequence[KernelCell], progress: Callable[[str], None]
) -> list[dict[str, list[ProcessFigures]]]:
    """Of each cell by scheduler: `iops` and `latency_ns_mean` of each process, of a recording those
    of all its requests.

    SpecError for a kernel that lacks a scheduler and for a device that is too fast for a guest,
    HostError where none can be booted.
    """
    files: dict[str, bytes] = {}
    for cell in cells:
        check_speed(cell.emulation, "omit --kernel: the simulated schedulers serve it")
        name, text = model_text(cell.emulation.model)
        files[f"devices/{name}.toml"] = text.encode()
        if cell.recording:
            recorded = file_of(cell.recording).resolve()
            files[f"files{recorded}"] = recorded.read_bytes()
    files[CELLS] = json.dumps([_as_json(cell) for cell in cells]).encode()
    named = kernels_named(kernel)
    if len(named) > 1:
        raise SpecError(f"--kernel {kernel}: a prediction is of one kernel", "name one")
    (booted,) = named.values()
    for name in {name.partition(":")[0] for cell in cells for name in cell.schedulers}:
        if name not in booted.schedulers:
            offered = ", ".join(booted.schedulers)
            raise SpecError(f"Linux {booted.release} has no {name}", f"it offers {offered}")
    found: list[dict[str, list[ProcessFigures]]] = [{} for _ in cells]
    runs, done = sum(len(cell.schedulers) for cell in cells), 0

    def heed(message: Message) -> None:
        nonlocal done
        if message.rates is not None:
            done += 1
            rates = cast("list[ProcessFigures]", message.rates)
            found[message.cell][message.scheduler] = rates
            progress(f"Linux {booted.release} in virtual time: {done} of {runs} runs")

    progress(f"Linux {booted.release} in virtual time: it boots")
    Boot.of(booted, Job("rates", files), BootSettings()).run(heed)
    return found


def _as_json(cell: KernelCell) -> dict[str, Any]:
    fields = dataclasses.asdict(cell)
    fields["emulation"]["model"] = model_text(cell.emulation.model)[0]
    return fields


def measure_in_guest(job: Path, tell: Callable[..., None]) -> None:
    """Inside: measure the cells of a job, and tell the figures of each scheduler."""
    for number, fields in enumerate(json.loads((job / CELLS).read_text(encoding="utf-8"))):
        emulation = Emulation(**fields["emulation"])
        path = job / "devices" / f"{emulation.model}.toml"
        cell = KernelCell(
            **{**fields, "emulation": dataclasses.replace(emulation, model=str(path))}
        )
        with Control() as control:
            for scheduler, rates in _rates(control, cell):
                tell(cell=number, scheduler=scheduler, rates=rates)


def _rates(control: Control, cell: KernelCell) -> Iterator[tuple[str, list[ProcessFigures]]]:
    device = control.emulated(cell.emulation)
    path = control.hold(device.path)
    for scheduler in cell.schedulers:
        name, _, tunables = scheduler.partition(":")
        settings = dict(part.split("=") for part in tunables.split(",") if part)
        if allocated := cell.tags if name == "none" else cell.nr_requests:
            settings["nr_requests"] = str(allocated)
        control.set_scheduler(device.path, name, settings)
        device.reset()
        target = _bare(Path(path), device.size_bytes)
        if cell.recording:
            replay = TraceReplay(trace=cell.recording, timing="open", fit="wrap",
                                 seconds=cell.seconds, ramp_seconds=0.0)  # fmt: skip
            actors, seen = replay.replayed(target, cell.seed)
            yield scheduler, [_figures(actors, [each["name"] for each in seen["streams"]])]
            continue
        rows = processes_of({"process": cell.processes}, device.size_bytes, cell.seed)
        jobs = engine_groups(rows, target)
        actors = run_actors(target, jobs, cell.seconds)
        yield scheduler, [_figures(actors, [name]) for name in unique_names(rows)]


def _bare(path: Path, size_bytes: int) -> ResolvedTarget:
    """A device of which only requests are wanted."""
    return ResolvedTarget(path, size_bytes, None, 4096, True, path, size_bytes)


def _figures(actors: Actors, names: Sequence[str]) -> ProcessFigures:
    ways = ("reads", "writes")
    sides = [actors.side(name, way) for name in names for way in ways]
    rate = sum(actors.rate(names, way, operations=True) for way in ways)
    return {"iops": rate, "latency_ns_mean": mean_ns(sides) or 0.0}
