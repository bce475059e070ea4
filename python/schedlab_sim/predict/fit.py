"""`schedlab device fit`: timed reads of a device, the model that follows from them, its test."""

from __future__ import annotations

import contextlib
import os
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schedlab.errors import HostError
from schedlab.host import devices
from schedlab.host.settings import knobs
from schedlab.run.io.io import driver_tags, logical_block_bytes
from schedlab.store.files import made
from schedlab_sim.checked import HOST
from schedlab_sim.device import devices as shipped
from schedlab_sim.fit.datasheet import INTERFACES, of_datasheet, stated
from schedlab_sim.fit.disk import fit_disk, probe_disk
from schedlab_sim.fit.fitted import Fitted, SelfTest
from schedlab_sim.fit.flash import fit_flash, probe_flash
from schedlab_sim.fit.reads import Reads
from schedlab_sim.results import ProcessFigures
from schedlab_sim.simulation import Simulation

#: A device that works for others for more than this share of the time is busy. Below it they add
#: to some times, and low quantiles stay.
BUSY_SHARE, LOOK_S = 0.15, 4.0
LEAST_BYTES = 64 << 20
#: Held-out loads: name, bytes, depth (0: all tags), whether sequential; seconds of each.
HELD_OUT = (
    ("random 4k ×2", 4096, 2, False),
    ("random 16k ×8", 16384, 8, False),
    ("random 64k ×3", 65536, 3, False),
    ("random 4k ×tags", 4096, 0, False),
    ("sequential 128k", 131072, 1, True),
)
HELD_OUT_S = 8.0


@dataclass(frozen=True)
class FittedFile:
    """A fitted device and the file that it was written to."""

    fitted: Fitted
    path: Path
    seconds: float
    reads: int


def fit_device(path: Path, out: Path | None, progress: Callable[[str], None]) -> FittedFile:
    """Fit a device with reads only, test the model on loads that it has not seen, write the file.

    HostError where it is busy, too small, or cannot be opened.
    """
    name = knobs.device_name(str(path))
    began = time.monotonic()
    device = str(knobs.device_file(name))
    try:
        size_bytes = devices.size_bytes(name)
    except OSError as error:
        raise HostError(f"{device}: {error.strerror}") from error
    if size_bytes < LEAST_BYTES:
        raise HostError(f"{device}: {size_bytes >> 20} MiB are too few to fit", "64 MiB at least")
    _refuse_busy(name, progress)
    before = _counts(name)
    reads = Reads(device, size_bytes, logical_block_bytes(name), progress=progress)
    queue = knobs.queue_of(name)
    scheduler = knobs.read_value(queue / "scheduler")
    tags = _tags(name, scheduler)
    with _first_of_all():
        if knobs.read_value(queue / "rotational") == "1":
            fitted = fit_disk(probe_disk(reads, tags))
        else:
            fitted = fit_flash(probe_flash(reads, tags))
        if scheduler not in ("none", ""):
            fitted.notes.append(f"{scheduler} was in force: the order of requests was also its own")
        target = made(out or Path(f"{name}.toml"))
        allocated = 2 * min(driver_tags(name) or tags, 128)
        most_kb = int(knobs.read_value(queue / "max_sectors_kb"))
        limits = {"tags": max(tags, 4), "nr_requests": allocated, "max_sectors_kb": most_kb}
        origin: dict[str, object] = {"device": device, "queue": limits}
        target.write_text(fitted.text(origin), encoding="utf-8")
        fitted.self_test = _self_test(reads, target, tags)
    after = _counts(name)
    others = after[0] - before[0] - reads.count
    if others > 0.05 * reads.count:
        fitted.notes.append(f"others read as well: {others:,} requests beside {reads.count:,}")
    if written := after[1] - before[1]:
        fitted.notes.append(f"others wrote {written:,} requests meanwhile")
    seconds = time.monotonic() - began
    origin |= {"reads": reads.count, "seconds": round(seconds, 1)}
    target.write_text(fitted.text(origin), encoding="utf-8")
    return FittedFile(fitted, target, seconds, reads.count)


def fit_datasheet(text: str, out: Path | None) -> FittedFile:
    """The device file of what a data sheet states."""
    values = stated(text)
    model = INTERFACES[values["interface"]]
    base = tomllib.loads(shipped()[model])
    size_bytes = Simulation(device=model, scheduler="none").facts()["size_bytes"]
    fitted = of_datasheet(values, base, size_bytes)
    target = made(out or Path(f"{values['interface']}.toml"))
    target.write_text(fitted.text({"device": "data sheet"}), encoding="utf-8")
    return FittedFile(fitted, target, 0.0, 0)


def closing(made: FittedFile) -> list[str]:
    """How long it took, and what to do with the file."""
    took = f" ({made.reads:,} reads in {made.seconds:.0f} s, no write)" if made.reads else ""
    return [f"{made.path}{took}", f"Next   schedlab predict --device {made.path} --workloads FILE"]


def _tags(name: str, scheduler: str) -> int:
    """Requests that the driver takes; with `none` so many may be allocated and no more."""
    tags = driver_tags(name)
    if scheduler == "none":
        allocated = int(knobs.read_value(knobs.queue_of(name) / "nr_requests"))
        tags = min(tags or allocated, allocated)
    return max(1, min(tags or 32, 128))


def _counts(name: str) -> tuple[int, int]:
    """Reads and writes that the device has completed."""
    fields = _stat(name)
    return fields[0], fields[4]


def _stat(name: str) -> list[int]:
    """The counters of a device (Documentation/block/stat.rst): the tenth is the time, in ms, for
    which it has had a request.
    """
    return [*map(int, knobs.read_value(knobs.SYS_BLOCK / name / "stat").split())]


def _refuse_busy(name: str, progress: Callable[[str], None]) -> None:
    progress("is it idle?")
    before, began = _stat(name), time.monotonic()
    time.sleep(LOOK_S)
    looked_s = time.monotonic() - began
    reads, _, _, _, writes, *_ = done = [b - a for a, b in zip(before, _stat(name), strict=True)]
    rate, share = (reads + writes) / looked_s, done[9] / 1e3 / looked_s
    if share > BUSY_SHARE:
        users = devices.reasons_in_use(knobs.SYS_BLOCK / name) or ["who does them is not known"]
        raise HostError(
            f"{name} is busy for {min(share, 1):.0%} of the time with {rate:,.0f} requests/s of "
            "others, whose times a fit would measure: " + "; ".join(users),
            "fit it while it is idle, or an equal device elsewhere",
        )


@contextlib.contextmanager
def _first_of_all() -> Iterator[None]:
    """Run before other programs, where that is allowed: a wake-up is then a short one."""
    try:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def _self_test(reads: Reads, file: Path, tags: int) -> list[SelfTest]:
    """Rate, mean and p99 of held-out reads on the device and on the model of `file`."""
    rows = []
    for label, record, asked, is_sequential in HELD_OUT:
        reads.progress(f"self-test: {label}")
        depth = asked or tags
        spent, times, rate = 0.0, [], 0.0
        first = at = int(reads.places(1, record, reads.size_bytes // 2)[0])
        batch = 16 * depth
        while spent < HELD_OUT_S:
            if is_sequential:
                room = reads.size_bytes // record * record
                offsets = (at + record * np.arange(batch)) % room
                at = int(offsets[-1]) + record
            else:
                offsets = reads.places(batch, record)
            done = reads.timed(offsets, record, depth)
            times.append((done[:, 1] - done[:, 0]).astype(float))
            ends = np.sort(done[:, 1])
            # Without the beginning and the end, at which fewer are under way.
            spent += (ends[-1] - ends[0]) / 1e9
            rate += len(ends) - 1
            batch = min(2 * batch, 64 * depth)
        measured = np.concatenate(times)
        process = held_out(label, record, depth, reads.size_bytes, first if is_sequential else None)
        simulated = twin_of(file, tags, process).run().host["total"]
        rows.append(_compared(label, rate / max(spent, 1e-9), measured, simulated))
    return rows


def held_out(
    label: str, record: int, depth: int, size_bytes: int, first: int | None
) -> dict[str, object]:
    """A held-out load as a process: random, or sequential from byte `first` on, as zones of a disk
    differ in their rates.
    """
    process: dict[str, object] = {"name": label, "record": record, "depth": depth}
    if first is not None:
        span = size_bytes // 4 // record * record
        process |= {"pattern": "sequential", "offset": first, "span": span}
    return process


def twin_of(file: Path, tags: int, process: Mapping[str, object]) -> Simulation:
    """The simulation of a held-out load: one process, whose requests get their tags in order."""
    return Simulation(
        device=str(file), scheduler="none", tags=max(tags, 4), seconds=20.0,
        processes=process, settings=HOST,
    )  # fmt: skip


def _compared(
    label: str, rate: float, measured_ns: np.ndarray[Any, Any], simulated: ProcessFigures
) -> SelfTest:
    mean, p99 = float(measured_ns.mean()), float(np.quantile(measured_ns, 0.99))
    model_p99 = simulated.get("latency_ns_p99") or simulated["latency_ns_mean"]
    return {
        "load": label,
        "rate_per_s": round(rate, 2),
        "model_rate_per_s": round(simulated["iops"], 2),
        "rate_error": round(simulated["iops"] / rate - 1, 4),
        "mean_error": round(simulated["latency_ns_mean"] / mean - 1, 4),
        "p99_error": round(model_p99 / p99 - 1, 4),
    }
