"""Predictions against hidden devices: `python benches/predict/battery.py FOLDER --seeds 0-7`.

Three stages, each resumable and independent of the others but for `predict`, which needs the fits:

* `fit`: the device of each seed is emulated on this host and fitted by reads (needs root). A line
  of `fit.jsonl` has each key beside the true one, and loads on the true model and on the fitted;
* `truth`: six loads under the kernel's own schedulers on the device, in virtual time; processes
  begin up to `--starts` times, in another order and at other places, where schedulers were `CLOSE`
  at first; a recording is replayed once, as a second replay differs by 1 %;
* `predict`: what `schedlab predict` says of these loads, from the fitted file alone.

`--report` prints the figures of all lines; `--document` also writes them into
docs/concepts/prediction.md. `--hogs 2` fits beside two programs that use all the time they get.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from battery_report import figures, table, write
from hidden import Hidden, hidden, loads
from planted import planted
from true_keys import keys_of, twins

from schedlab.errors import HostError
from schedlab.host.emulated.emulated import Emulated, Emulation
from schedlab.host.safety.control import Control
from schedlab_sim.checked import CHECKED, HOST, losses
from schedlab_sim.predict.fit import fit_device
from schedlab_sim.predict.in_kernel import KernelCell, measured_rates
from schedlab_sim.predict.predict import SimulatedLoad, predict, rows_of

KERNEL, NR_REQUESTS = "6.12", 256
#: Seconds of processes: so long that of each kind the scheduler that serves it best serves so many
#: requests, at least and at most; of 40 the rate itself was off by 10 %. A cell that is too short
#: for half of them decides nothing, and is not run where the simulation says so.
SERVED, SECONDS_LEAST, SECONDS_MOST = 200, 1.5, 30.0
#: Processes that wait for their own answers may keep the order in which they began, so chance set
#: schedulers 5 to 12 % apart in one start: where a loss is between these there are more.
STARTS, CLOSE = 2, (0.01, 0.2)
#: The way from and to a program. A busy host would measure its own as too long, and replies would
#: come too early; beside a disk an idle one sleeps deeper between them, and measures it itself.
LEAD_US, IDLE_CPUS = 40.0, 0.2
TRIES = 9
STAGES = ("fit", "truth", "predict")


def say(*words: Any) -> None:
    """A line for whoever watches."""
    print(f"{datetime.now(UTC):%H:%M:%S}", *words, file=sys.stderr, flush=True)


class Lines:
    """A file of JSON lines; what is in it is not done again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]

    def add(self, **row: Any) -> None:
        """Append a row."""
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def has(self, **keys: Any) -> bool:
        """Whether a row with these values is there."""
        return any(all(row.get(name) == value for name, value in keys.items()) for row in self.rows)


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """So many programs that use all the time they get."""
    spin = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(spin) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def made(control: Control, emulation: Emulation) -> Emulated:
    """The emulated device; a host that is too busy for it in one moment may not be in the next."""
    for _ in range(TRIES):
        try:
            return control.emulated(emulation)
        except HostError as error:
            say(error)
    return control.emulated(emulation)


def first_of_all(emulated: Emulated) -> None:
    """Serve the device before other programs: a real one does not wait for a CPU."""
    if emulated.server:
        for thread in Path(f"/proc/{emulated.server.process_id}/task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(10))


def busy_s() -> float:
    """Seconds for which the CPUs of this host have worked."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    user, nice, system, _, _, irq, soft, steal = map(int, first[:8])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def fit(seed: int, folder: Path, lines: Lines, beside: int) -> None:
    """Fit the device of a seed on this host, and compare it with the true one."""
    if lines.has(seed=seed, hogs=beside):
        return
    device = hidden(seed, folder)
    out = folder / (f"fit{seed}.toml" if not beside else f"fit{seed}-hogs{beside}.toml")
    before_s = busy_s()
    time.sleep(1.0)
    is_idle = not beside and busy_s() - before_s <= IDLE_CPUS
    lead_us = None if is_idle and device.kind == "disk" else LEAD_US
    row: dict[str, Any] = {"seed": seed, "kind": device.kind, "hogs": beside,
                           "dilate": device.dilate, "lead_us": lead_us}  # fmt: skip
    emulation = dataclasses.replace(device.emulation(), lead_us=lead_us)
    with Control() as control, hogs(beside):
        emulated = made(control, emulation)
        first_of_all(emulated)
        stat = Path("/sys/block") / Path(emulated.path).name / "stat"
        before, began, used = stat.read_text().split(), time.monotonic(), busy_s()
        try:
            fit_device(Path(emulated.path), out, partial(say, seed))
        except Exception as error:
            row["error"] = "".join(traceback.format_exception_only(error)).strip()
        seconds = time.monotonic() - began
        row |= {
            "seconds": round(seconds, 1),
            "busy_cpus": round((busy_s() - used) / seconds, 2),
            "load": round(os.getloadavg()[0], 1),
            "writes": int(stat.read_text().split()[4]) - int(before[4]),
        }
    if "error" not in row:
        row |= {"keys": keys_of(device, out), "twins": twins(device, out)}
    lines.add(**row)
    say("fit", seed, device.kind, row.get("error", ""), f"load {row['load']}")


def cells_of(device: Hidden, folder: Path) -> Iterator[tuple[str, SimulatedLoad, KernelCell]]:
    """The loads of a device as work for a guest, each with its processes on it."""
    size_bytes = int(device.simulation("none").facts()["size_bytes"])
    for drawn in loads(device, folder):
        tables = drawn.processes(size_bytes)
        load = drawn.load
        if not drawn.recording:
            load = SimulatedLoad(drawn.name, {"processes": {"process": tables}})
        cell = KernelCell(
            device.emulation(), tables, CHECKED, drawn.seconds or seconds_of(device, load), 1,
            max(device.depth, 4), NR_REQUESTS, drawn.recording,
        )  # fmt: skip
        yield drawn.name, load, cell


def simulated(device: Hidden, load: SimulatedLoad, seconds: float) -> dict[str, dict[str, float]]:
    """Rates of the rows of a load under the simulated schedulers, on the true device."""
    rates = {}
    for name in CHECKED:
        length = {} if "trace" in load.fields else {"seconds": seconds}
        one = device.simulation(
            name, nr_requests=None if name == "none" else NR_REQUESTS,
            settings={**HOST, "max_sectors_kb": 1024, "start_spread_ns": 200_000},
            **load.fields, **length,
        )  # fmt: skip
        rates[name] = rows_of(load, one.run())
    return rates


def seconds_of(device: Hidden, load: SimulatedLoad) -> float:
    """How long processes run in the guest; 0 where nothing can be decided."""
    rates = simulated(device, load, SECONDS_MOST)
    rows = next(iter(rates.values()))
    least = min(max(of[row] for of in rates.values()) for row in rows)
    if least * SECONDS_MOST < SERVED / 2:
        return 0.0
    return round(min(max(SERVED / least, SECONDS_LEAST), SECONDS_MOST), 1)


def is_close(row: Mapping[str, Any]) -> bool:
    """Whether chance may decide in a cell."""
    if not row["decided"]:
        return False
    least = min(row["losses"].values())
    return any(CLOSE[0] < loss - least < CLOSE[1] for loss in row["losses"].values())


def truth(seed: int, folder: Path, lines: Lines, starts: int) -> None:
    """The losses of the kernel's schedulers on the device of a seed, all first starts in one boot;
    the seed of the guest's processes is the number of the start.
    """
    device = hidden(seed, folder)
    todo = []
    for name, load, cell in cells_of(device, folder):
        if not cell.seconds:
            if not lines.has(seed=seed, load=name):
                lines.add(seed=seed, kind=device.kind, load=name, seconds=0.0, decided=False)
            continue
        done = [row for row in lines.rows if (row["seed"], row["load"]) == (seed, name)]
        wanted = starts if done and not cell.recording and is_close(done[0]) else 1
        todo += [
            (name, load, dataclasses.replace(cell, seed=start))
            for start in range(len(done) + 1, wanted + 1)
        ]
    if not todo:
        return
    began = time.monotonic()
    found = measured_rates(KERNEL, [cell for _, _, cell in todo], partial(say, seed))
    for (name, load, cell), by_scheduler in zip(todo, found, strict=True):
        figures = {
            scheduler: {"processes": rows, "total": rows[0]}
            for scheduler, rows in by_scheduler.items()
        }
        rates = {scheduler: rows_of(load, each) for scheduler, each in figures.items()}
        rows = next(iter(rates.values()))
        served = min(max(of[row] for of in rates.values()) for row in rows) * cell.seconds
        lines.add(
            seed=seed, kind=device.kind, load=name, start=cell.seed, losses=losses(rates),
            rates=rates, seconds=cell.seconds,
            decided=bool(cell.recording or served >= SERVED / 2),
        )  # fmt: skip
    say("truth", seed, device.kind, f"{time.monotonic() - began:.0f} s")
    truth(seed, folder, lines, starts)


def predicted(seed: int, folder: Path, lines: Lines) -> None:
    """What is predicted of the loads of a seed from the fitted file."""
    device, fitted = hidden(seed, folder), folder / f"fit{seed}.toml"
    if not fitted.exists():
        return
    for drawn in loads(device, folder):
        if lines.has(seed=seed, load=drawn.name):
            continue
        found = predict(str(fitted), drawn.load, ",".join(CHECKED))
        lines.add(
            seed=seed, kind=device.kind, load=drawn.name, code=found.code, take=found.take,
            outside=found.outside, nearest=found.nearest, distance=found.distance,
            candidates={
                each.name: [each.near, each.loss, each.low, each.high] for each in found.candidates
            },
        )  # fmt: skip
    say("predict", seed, device.kind)


def seeds_of(text: str) -> list[int]:
    """`3`, `0-7`, or several with commas."""
    parts = (part.partition("-") for part in text.split(","))
    return [n for first, _, last in parts for n in range(int(first), int(last or first) + 1)]


def main() -> None:
    """Do what is missing of the stages, or print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("0-7"))
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--hogs", type=int, default=0)
    parser.add_argument("--starts", type=int, default=STARTS)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--document", action="store_true")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: Lines(folder / f"{name}.jsonl") for name in STAGES}
    if options.report or options.document:
        chosen = {name: [row for row in each.rows if row["seed"] in options.seeds]
                  for name, each in files.items()}  # fmt: skip
        found = figures(chosen["fit"], chosen["truth"], chosen["predict"])
        found["planted"] = planted()
        print(json.dumps(found, indent=1))
        if options.document:
            write("battery", table(found))
        return
    work: dict[str, Callable[[int], None]] = {
        "fit": lambda seed: fit(seed, folder, files["fit"], options.hogs),
        "truth": lambda seed: truth(seed, folder, files["truth"], options.starts),
        "predict": lambda seed: predicted(seed, folder, files["predict"]),
    }
    for seed in options.seeds:
        for stage in options.stages.split(","):
            work[stage](seed)


if __name__ == "__main__":
    main()
