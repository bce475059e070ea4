"""Cells on a block device: set the scheduler, drop the caches, run the workload, read back."""

from __future__ import annotations

import importlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from schedlab.design.plan import arms
from schedlab.errors import GateError, HostError
from schedlab.host import devices
from schedlab.run import gates
from schedlab.run.outcome import Outcome
from schedlab.run.place import Place
from schedlab.spec import Candidate, Cell, Experiment, GateFinding, Target, Workload

if TYPE_CHECKING:
    from schedlab.host.control import Control

# kind of workload -> its file in run/workloads/
WORKLOADS = {
    "file-test": "schedlab.run.workloads.file_test",
    "interference": "schedlab.run.workloads.interference",
}


def workload_module(kind: str) -> ModuleType:
    """The file of a kind of workload."""
    return importlib.import_module(WORKLOADS[kind])


class IoSession:
    """A place made ready, under a control that puts everything back."""

    def __init__(self, place: Place, control: Control, sets_scheduler: bool) -> None:
        self.place = place
        self.control = control
        self.sets_scheduler = sets_scheduler

    def rehearse(self, experiment: Experiment) -> None:
        """Set every candidate once, so that what cannot be set is said before the first run."""
        if self.sets_scheduler:
            for candidate in arms(experiment):
                self._set(candidate)

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """One run; the gates are looked at before and after, whatever the outcome."""
        effective = self._set(candidate) if self.sets_scheduler else {}
        os.sync()
        self.control.drop_caches()
        before = gates.snapshot(self.place.device)
        outcome: Outcome = workload_module(workload.kind).measure(self.place, workload, cell.seed)
        after = gates.snapshot(self.place.device)
        found = (
            *outcome.gates,
            *(self.control.check() if self.sets_scheduler else ()),
            *gates.findings(before, after, self._claimed(outcome)),
        )
        if errors := outcome.properties.get("errors"):
            found = (*found, GateFinding("io-errors", f"{errors} requests failed"))
        return Outcome(
            outcome.metrics,
            {**outcome.properties, **gates.cpu_facts(before, after), "effective": effective},
            found,
            outcome.histograms,
        )

    def _claimed(self, outcome: Outcome) -> tuple[int, int] | None:
        """Bytes that the device must have counted, where that can be told."""
        claimed = outcome.properties.get("claimed_bytes")
        if claimed is None or not self.place.counts_alone:
            return None
        return int(claimed[0]), int(claimed[1])

    def _set(self, candidate: Candidate) -> dict[str, str]:
        assert self.place.device is not None
        tunables = {k: str(v) for k, v in candidate.settings.items() if k != "scheduler"}
        scheduler = str(candidate.settings["scheduler"])
        return dict(self.control.set_scheduler(self.place.device, scheduler, tunables))


@contextmanager
def open_session(
    experiment: Experiment, control: Control | None, report: Callable[[str], None]
) -> Iterator[IoSession]:
    """The experiment's target made ready; everything of ours is removed at the end."""
    if control is None:
        raise GateError("block I/O is measured under host control only")
    with open_place(experiment.target, control, report) as place:
        sets = any(c.settings.get("scheduler") for c in experiment.candidates)
        session = IoSession(place, control, sets)
        session.rehearse(experiment)
        yield session


@contextmanager
def open_place(target: Target, control: Control, report: Callable[[str], None]) -> Iterator[Place]:
    """The device or file of a target."""
    if target.kind == "scratch":
        report(f"filling a scratch device of {target.size_bytes >> 20} MiB with random data")
        with control.scratch(target.size_bytes, Path(target.path)) as device:
            yield _device_place(Path(device), counts_alone=True)
    elif target.kind == "device":
        device = Path(target.path)
        if target.destroy_data and (reason := devices.raw_write_refusal(device)):
            raise HostError(
                f"{device}: refused to write: {reason}",
                "name an empty device, or leave --destroy-data out to measure reads only",
            )
        yield _device_place(device, counts_alone=not devices.in_use(device))
    else:
        with control.scratch_file(target.size_bytes, Path(target.path)) as file:
            disk = devices.disk_of(file)
            block = devices.logical_block_bytes(disk) if disk else 512
            yield Place(file, target.size_bytes, disk, block, False, file.parent)


def _device_place(path: Path, counts_alone: bool) -> Place:
    if not stat.S_ISBLK(path.stat().st_mode):
        raise HostError(f"{path}: is not a block device", "name one that `lsblk` lists")
    name = path.resolve().name
    return Place(
        path, devices.size_bytes(path), name, devices.logical_block_bytes(name), counts_alone
    )
