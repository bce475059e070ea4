"""Cells on a block device: set the scheduler, drop the caches, run the workload, read back."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from schedlab.design.plan import arms
from schedlab.errors import GateError, HostError
from schedlab.host import devices, knobs, scratch
from schedlab.run import gates
from schedlab.run.outcome import Outcome
from schedlab.run.place import Place
from schedlab.spec import Candidate, Cell, Experiment, GateFinding, Target, Workload

if TYPE_CHECKING:
    from schedlab.host.control import Control

# kind of workload -> its file in run/workloads/
WORKLOADS = {
    "archive-extraction": "schedlab.run.workloads.archive_extraction",
    "device-timings": "schedlab.run.workloads.device_timings",
    "file-test": "schedlab.run.workloads.file_test",
    "fio-file-test": "schedlab.run.workloads.fio_file_test",
    "interference": "schedlab.run.workloads.interference",
    "startup": "schedlab.run.workloads.startup",
}
# Kinds that work on files, not on a bare device.
NEED_FILES = {"archive-extraction", "startup"}


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
        """Set every candidate once, so that what cannot be set is said before the first run.

        Then what workloads need beside the place, such as an archive, is put there.
        """
        if self.sets_scheduler:
            for candidate in arms(experiment):
                self._set(candidate)
        for workload in experiment.workloads:
            module = workload_module(workload.kind)
            if hasattr(module, "prepare"):
                module.prepare(self.place, workload)

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """One run; the gates are looked at before and after, whatever the outcome."""
        effective = self._set_again(candidate) if self.sets_scheduler else {}
        dropped = os.geteuid() == 0
        if dropped:
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
            {
                **outcome.properties,
                **gates.cpu_facts(before, after),
                "effective": effective,
                "caches_dropped": dropped,
            },
            found,
            outcome.histograms,
        )

    def _set_again(self, candidate: Candidate) -> dict[str, str]:
        """Set what was set in the rehearsal: if it fails now, somebody else meddles."""
        try:
            return self._set(candidate)
        except HostError as error:
            if not self.place.path.exists():
                raise
            raise GateError("knob-changed", str(error)) from error

    def _claimed(self, outcome: Outcome) -> tuple[int, int] | None:
        """Bytes that the device must have counted, where that can be told."""
        claimed = outcome.properties.get("claimed_bytes")
        if claimed is None or not self.place.counts_alone:
            return None
        return int(claimed[0]), int(claimed[1])

    def _set(self, candidate: Candidate) -> dict[str, str]:
        assert self.place.device is not None
        tunables = {k: v for k, v in candidate.settings.items() if k != "scheduler"}
        applied = self.control.set_scheduler(
            self.place.device, str(candidate.settings["scheduler"]), tunables
        )
        return {"scheduler": applied.scheduler, **applied.tunables}


@contextmanager
def open_session(
    experiment: Experiment, control: Control | None, report: Callable[[str], None]
) -> Iterator[IoSession]:
    """The experiment's target made ready; `control` removes everything of ours at the end."""
    if control is None:
        raise HostError("block I/O is measured under host control only")
    files = any(workload.kind in NEED_FILES for workload in experiment.workloads)
    place = make_place(experiment.target, control, report, files)
    session = IoSession(place, control, sets_scheduler=experiment.target.kind != "directory")
    session.rehearse(experiment)
    yield session


def make_place(
    target: Target, control: Control, report: Callable[[str], None], files: bool
) -> Place:
    """The device or file of a target; what it makes is journalled as ours.

    With `files` a scratch device gets a file system, and file tests go to a file of half its size.
    """
    size = target.size_bytes
    if target.kind == "scratch":
        report(f"filling a scratch device of {size >> 20} MiB with random data")
        made = control.scratch(size, target.path)
        if not made.direct_io:
            report(f"{made.path}: the file below takes no direct I/O; its page cache takes part")
        bare = _device_place(Path(made.path), counts_alone=True)
        return _with_files(bare, control.filesystem(made)) if files else bare
    if target.kind == "device":
        if target.destroy_data:
            devices.require_destroyable(target.path, True)
        alone = not devices.reasons_against_writing(target.path)
        return _device_place(Path(target.path), counts_alone=alone)
    directory = Path(target.path)
    scratch.check_space(directory, size)
    own = control.directory(directory)
    report(f"filling a file of {size >> 20} MiB in {own} with random data")
    scratch.fill(own / "data", size)
    disks = devices.disks_below(directory)
    disk = disks[0] if len(disks) == 1 else None
    block = logical_block_bytes(disk) if disk else 512
    raw = Path("/dev") / disk if disk else own / "data"
    raw_size = devices.size_bytes(raw) if disk else size
    return Place(own / "data", size, disk, block, False, raw, raw_size, own)


def _with_files(bare: Place, mounted: Path) -> Place:
    """The file system made on a scratch device, with a file for the file tests."""
    size = bare.size_bytes // 2 & -(1 << 20)
    scratch.fill(mounted / "data", size)
    return dataclasses.replace(
        bare, path=mounted / "data", size_bytes=size, counts_alone=False, directory=mounted
    )


def logical_block_bytes(disk: str) -> int:
    """The unit that O_DIRECT is aligned to."""
    return int(knobs.read_value(knobs.queue_of(disk) / "logical_block_size"))


def _device_place(path: Path, counts_alone: bool) -> Place:
    disk = knobs.device_name(str(path))
    size = devices.size_bytes(path)
    return Place(path, size, disk, logical_block_bytes(disk), counts_alone, path, size)
