"""Devices and loads that no part of a prediction has: drawn from a seed.

Ranges are wider than those of the shipped models. A device whose requests are too short for a
guest is so many times slower, everywhere: what is fitted, predicted and measured is the slow one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from schedlab.app.measure.virtual import needed_dilation
from schedlab.host.emulated.emulated import Emulation
from schedlab_sim.fit.fitted import of_one_curve, time_text
from schedlab_sim.predict.predict import SimulatedLoad, loads_of
from schedlab_sim.simulation import Simulation

KINDS = ("disk", "sata", "nvme", "card")
#: Loads that are shipped and have neither classes nor a page cache.
OWN = ("random32", "readers3", "readers3-deep", "sequential-random", "reader-writers",
       "reader-writers-deep", "small-writes")  # fmt: skip
RECORDS = ("4KiB", "8KiB", "16KiB", "64KiB", "128KiB")
#: Short sequential requests are more than the server of a device can answer in a guest.
STREAMED = RECORDS[3:]
SECTOR = 512
#: Seconds of a recording, of which the last fifth has no arrivals: all is served then.
RECORDED_S = {True: 25.0, False: 2.5}
#: What was recorded kept up with its arrivals: a mean response of so many reads.
KEEPS_UP = 12


@dataclass(frozen=True)
class Hidden:
    """A drawn device: its file, the commands that it holds, the order in which it serves them, and
    how many times slower it is.
    """

    seed: int
    kind: str
    path: Path
    depth: int
    policy: str | None
    dilate: int

    def emulation(self) -> Emulation:
        """The device to emulate, on this host and in a guest."""
        return Emulation(
            str(self.path), None, queue_depth=self.depth, policy=self.policy, data="none",
            dilate=self.dilate,
        )  # fmt: skip

    def simulation(self, scheduler: str, **fields: Any) -> Simulation:
        """The device below a simulated scheduler."""
        return Simulation(
            device=str(self.path), scheduler=scheduler, tags=max(self.depth, 4), policy=self.policy,
            window=self.depth, dilate=self.dilate, **fields,
        )  # fmt: skip


@dataclass(frozen=True)
class DrawnLoad:
    """A load as a prediction takes it; of a recording its file and format, and its seconds."""

    name: str
    load: SimulatedLoad
    recording: str = ""
    seconds: float = 0.0

    def processes(self, size_bytes: int) -> Sequence[dict[str, Any]]:
        """Its processes on a device, as tables of a file of processes."""
        from schedlab.store.process_files import tables_of

        if self.load.processes_on is not None:
            return self.load.processes_on(size_bytes)
        return () if self.recording else tables_of(self.load.fields["processes"])


def hidden(seed: int, folder: Path) -> Hidden:
    """The device of a seed; its file is written into `folder`."""
    rng, kind = random.Random(seed), KINDS[seed % len(KINDS)]
    tables = {"disk": _disk, "sata": _sata, "nvme": _nvme, "card": _card}[kind](rng)
    path = folder / f"hidden{seed}.toml"
    path.write_text(tomli_w.dumps(tables), encoding="utf-8")
    policy, depth = None, 1
    if kind == "disk":
        depth = rng.choice((4, 8, 16, 32))
        policy = rng.choice(("fcfs", "sptf"))
    elif kind != "card":
        depth = rng.choice((8, 32)) if kind == "sata" else rng.choice((32, 64, 128))
    device = Hidden(seed, kind, path, depth, policy, 1)
    needed = needed_dilation(device.emulation())
    return Hidden(seed, kind, path, depth, policy, max(1, math.ceil(1.1 * needed)))


def _disk(rng: random.Random) -> dict[str, Any]:
    heads, outer = rng.randint(1, 8), rng.uniform(800, 2600)
    parts, inner = rng.randint(3, 10), rng.uniform(0.42, 0.7)
    per_track = [round(outer * (1 - (1 - inner) * n / (parts - 1))) for n in range(parts)]
    size_bytes = 10 ** rng.uniform(10, 11.7)
    cylinders = max(500, round(size_bytes / SECTOR / heads / sum(per_track)))
    single_ns, full_ns = rng.uniform(0.4e6, 2e6), rng.uniform(11e6, 26e6)
    least, most = (2 * single_ns + full_ns) / 3, (7 * single_ns + 8 * full_ns) / 15
    seek = of_one_curve((single_ns, rng.uniform(least, most), full_ns))
    switch_ns = rng.uniform(0.4, 1.0) * single_ns
    rpm = rng.choice((4200, 5400, 5900, 7200, 10000))
    turns_per_s = rpm / 60
    segment = rng.choice((128, 256, 512, 1024, 2048))
    tables: dict[str, Any] = {
        "model": "disk", "sector": "512", "rpm": rpm,
        "heads": heads,
        "zones": [{"cylinders": cylinders, "sectors_per_track": each} for each in per_track],
        **{f"seek_{name}": time_text(time_ns)
           for name, time_ns in zip(("single", "average", "full"), seek, strict=True)},
        "write_settle": time_text(rng.uniform(0.2e6, 1.2e6)),
        "head_switch": time_text(switch_ns),
        "track_skew": time_text(switch_ns / rng.uniform(0.7, 0.9)),
        "cylinder_skew": time_text(single_ns / rng.uniform(0.7, 0.9)),
        "overhead": time_text(rng.uniform(0.05e6, 0.3e6)),
        "interface_bytes_per_s": round(rng.uniform(1.2, 3) * outer * SECTOR * turns_per_s),
        "queue_depth": 32,
        "cache": {"segments": rng.choice((4, 8, 12, 16, 32)), "segment": f"{segment}KiB",
                  "read_ahead": f"{segment // rng.choice((1, 2, 2, 4))}KiB"},
    }  # fmt: skip
    if rng.random() < 0.4:
        tables["write_cache"] = {"segments": rng.choice((8, 16, 32)), "segment": "128k"}
    return tables


def _flash(rng: random.Random, name: str, size_bytes: float, **parts: Any) -> dict[str, Any]:
    flash = {"packages_per_channel": 1, "pages_per_block": 256, **parts}
    page_bytes = int(str(flash["page"]).removesuffix("KiB")) << 10
    planes = flash["channels"] * flash["dies_per_package"] * flash["planes_per_die"]
    blocks = max(200, round(size_bytes / (planes * 256 * page_bytes)))
    read_ns = rng.uniform(40e3, 110e3)
    return {
        "name": name, "service": "parallel",
        "flash": {
            **flash, "blocks_per_plane": blocks, "page_read": time_text(read_ns),
            "page_write": time_text(read_ns * rng.uniform(6, 16)),
            "block_erase": time_text(read_ns * rng.uniform(30, 70)),
        },
        "buffer": {"size": f"{rng.choice((1, 4, 8, 16, 64))}MiB", "keeps": "write-only"},
        "ftl": {"over_provisioning": rng.uniform(0.07, 0.25), "allocation": "cwdp",
                "collect": "greedy", "precondition": "none"},
    }  # fmt: skip


def _sata(rng: random.Random) -> dict[str, Any]:
    tables = _flash(
        rng, "sata", rng.uniform(4e9, 3e10), channels=rng.choice((2, 4, 8)),
        dies_per_package=rng.choice((1, 2, 4)), planes_per_die=rng.choice((1, 2)),
        page=rng.choice(("4KiB", "8KiB", "16KiB")), page_transfer=time_text(rng.uniform(1e4, 5e4)),
    )  # fmt: skip
    tables["queue"] = {"depth": 32}
    tables["ftl"]["in_flight"] = 32
    return tables


def _nvme(rng: random.Random) -> dict[str, Any]:
    tables = _flash(
        rng, "nvme", rng.uniform(8e9, 6e10), channels=rng.choice((4, 8, 16)),
        dies_per_package=rng.choice((2, 4)), planes_per_die=rng.choice((1, 2)),
        page=rng.choice(("4KiB", "16KiB")), page_transfer=time_text(rng.uniform(4e3, 2e4)),
    )  # fmt: skip
    tables["queue"] = {"depth": 128}
    tables["ftl"]["in_flight"] = 128
    command_ns = rng.uniform(0.5e3, 3e3)
    tables["controller"] = {"cores": 2, "command": time_text(command_ns), "completion": "500ns"}
    tables["link"] = {"bytes_per_s": rng.uniform(1.5e9, 6e9), "latency": "1us"}
    return tables


def _card(rng: random.Random) -> dict[str, Any]:
    read_ns = rng.uniform(1.5e5, 6e5)
    tables = _flash(
        rng, "card", rng.uniform(4e9, 3e10), channels=1, dies_per_package=1,
        planes_per_die=rng.choice((1, 2)), page=rng.choice(("8KiB", "16KiB")),
        page_transfer=time_text(rng.uniform(2e5, 1e6)),
    )  # fmt: skip
    tables["flash"] |= {
        "page_read": time_text(read_ns), "page_write": time_text(read_ns * rng.uniform(4, 12)),
        "block_erase": time_text(read_ns * rng.uniform(10, 30)),
    }  # fmt: skip
    tables["buffer"]["size"] = "0"
    tables["queue"] = {"depth": 1}
    tables["ftl"]["in_flight"] = 1
    return tables


def loads(device: Hidden, folder: Path) -> list[DrawnLoad]:
    """Six loads for a device: two shipped ones, a file of processes, a fio job, two recordings."""
    rng = random.Random(device.seed * 7919 + 1)
    drawn = []
    for name in rng.sample(OWN, 2):
        drawn.append(DrawnLoad(name, loads_of(name, None)[0]))
    own = folder / f"own{device.seed}.toml"
    own.write_text(tomli_w.dumps({"process": _processes(rng)}), encoding="utf-8")
    drawn.append(DrawnLoad("processes", loads_of(str(own), None)[0]))
    job = folder / f"job{device.seed}.fio"
    job.write_text(_fio_job(rng), encoding="utf-8")
    drawn.append(DrawnLoad("fio", loads_of(None, None, job)[0]))
    size_bytes = int(device.simulation("none").facts()["size_bytes"])
    seconds = RECORDED_S[device.kind == "disk"]
    alone = _reading(device, 1)
    for name, made in (("recorded-reads", _reads_and_log), ("recorded-mix", _reads_and_stream)):
        trace, rate = folder / f"{name}{device.seed}.blkparse", _reading(device, 8)["iops"]
        start = rng.random()
        while True:
            rows = made(random.Random(start), rate, size_bytes, seconds)
            trace.write_text(rows, encoding="utf-8")
            load = DrawnLoad(
                name, loads_of(None, f"{trace}:blkparse")[0], f"{trace}:blkparse", seconds
            )
            mean_ns = device.simulation("none", **load.load.fields).run()["total"][
                "latency_ns_mean"
            ]
            if mean_ns < KEEPS_UP * alone["latency_ns_mean"]:
                break
            rate *= 0.8
        drawn.append(load)
    return drawn


def _reading(device: Hidden, depth: int) -> Any:
    """Figures of random reads, so many at a time."""
    process = {"name": "r", "depth": depth}
    return device.simulation("none", processes=process, seconds=5.0).run()["total"]


def _processes(rng: random.Random) -> list[dict[str, Any]]:
    found = []
    for number in range(rng.randint(2, 3)):
        is_random = rng.random() < 0.5
        process: dict[str, Any] = {
            "name": f"p{number}", "count": rng.randint(1, 2),
            "record": rng.choice(RECORDS if is_random else STREAMED),
            "depth": rng.choice((1, 2, 4, 8, 16)),
            "read_share": rng.choice((0, 1, 1, 1)),
        }  # fmt: skip
        found.append(process if is_random else {**process, "pattern": "sequential"})
    return found


def _fio_job(rng: random.Random) -> str:
    lines = ["[global]", "ioengine=io_uring", "direct=1", "time_based=1", "runtime=10"]
    ways = rng.choice((("randread", "write"), ("read", "randread"), ("randread", "randread"),
                       ("read", "write"), ("randwrite", "randread")))  # fmt: skip
    for number, way in enumerate(ways):
        records = RECORDS if way.startswith("rand") else STREAMED
        lines += [
            f"[job{number}]", f"rw={way}", f"bs={rng.choice(records).removesuffix('iB').lower()}",
            f"iodepth={rng.choice((1, 4, 16))}", f"numjobs={rng.randint(1, 2)}",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _blkparse(rows: list[tuple[float, int, bool, int, int]]) -> str:
    lines = [
        f"  8,0    0 {number:8d} {time_s:14.9f} {process:5d}  Q  {'R' if reads else 'W'} "
        f"{sector} + {sectors} [p{process}]"
        for number, (time_s, process, reads, sector, sectors) in enumerate(sorted(rows), 1)
    ]
    return "\n".join(lines) + "\n"


def _bursts(rng: random.Random, rate: float, seconds: float) -> list[float]:
    """Times of Poisson arrivals whose rate is twice the mean in every other tenth of the time."""
    at, times = 0.0, []
    while at < 0.8 * seconds:
        is_high = int(at / seconds * 10) % 2 == 0
        at += rng.expovariate(rate * (2.0 if is_high else 0.5))
        times.append(at)
    return [each for each in times if each < 0.8 * seconds]


Place = Callable[[random.Random], int]


def _anywhere(size_bytes: int, record: int) -> Place:
    count = (size_bytes - (1 << 20)) // record
    return lambda rng: rng.randrange(count) * (record // SECTOR)


def _end(size_bytes: int, seconds: float) -> tuple[float, int, bool, int, int]:
    return (seconds, 100, True, (size_bytes // SECTOR) // 2 // 8 * 8, 8)


def _reads_and_log(rng: random.Random, rate: float, size_bytes: int, seconds: float) -> str:
    """A data base: random reads by several tasks beside a log that is written on and on."""
    record = rng.choice((4096, 8192, 16384))
    place, share = _anywhere(size_bytes, record), rng.uniform(0.3, 0.6)
    rows = [
        (at, rng.randint(100, 103), True, place(rng), record // SECTOR)
        for at in _bursts(rng, share * rate, seconds)
    ]
    log = (size_bytes // SECTOR) * 3 // 4 // 8 * 8
    for number, at in enumerate(_bursts(rng, 0.1 * rate, seconds)):
        rows.append((at, 200, False, log + 32 * number, 32))
    return _blkparse([*rows, _end(size_bytes, seconds)])


def _reads_and_stream(rng: random.Random, rate: float, size_bytes: int, seconds: float) -> str:
    """A file server: two tasks read on and on in pieces, others read and write anywhere."""
    place, share = _anywhere(size_bytes, 4096), rng.uniform(0.2, 0.4)
    rows = [
        (at, rng.randint(100, 101), rng.random() < 0.7, place(rng), 8)
        for at in _bursts(rng, share * rate, seconds)
    ]
    for task in (300, 301):
        start = (size_bytes // SECTOR) // 5 * (task - 299) // 8 * 8
        for number, at in enumerate(_bursts(rng, 0.15 * rate, seconds)):
            rows.append((at, task, True, start + 128 * number, 128))
    return _blkparse([*rows, _end(size_bytes, seconds)])
