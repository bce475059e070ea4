"""`schedlab predict`: what each scheduler costs on a device that is not there, and how surely.

Devices are drawn from the errors of the device file, each is simulated under every candidate, and
the losses get the errors that the simulation had where it was checked against the kernel.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schedlab.app.measure.virtual import needed_dilation
from schedlab.errors import SpecError
from schedlab.guest import kernels
from schedlab.host.emulated.emulated import Emulation
from schedlab.kinds.fio_processes import processes_of_job
from schedlab.kinds.trace_replay import TraceReplay
from schedlab.store.process_files import (
    ProcessRow,
    is_buffered,
    only_simulated,
    presets,
    processes_of,
    tables_of,
)
from schedlab_sim.checked import (
    HOST,
    CheckedLoad,
    Features,
    checked_cells,
    dies_of,
    features_of,
    interval_90,
    loss_text,
    losses,
    measured,
    nearest,
    outside,
    rates_of,
    with_errors,
)
from schedlab_sim.device import device_text
from schedlab_sim.device import devices as shipped
from schedlab_sim.fit.draws import Draws
from schedlab_sim.pool import run_threads
from schedlab_sim.predict.in_kernel import KernelCell, measured_rates
from schedlab_sim.replay import replay_of
from schedlab_sim.results import HostReport
from schedlab_sim.simulation import Simulation, split_schedulers

#: Devices that are drawn; errors of the instrument for each.
DRAWS, ERRORS = 24, 200
#: Draws that are also measured in the kernel, the seconds of each run there (the second of what
#: rotates), and of a recording at most.
KERNEL_DRAWS, KERNEL_SECONDS, RECORDED_MOST = 3, (4.0, 20.0), 60.0
#: Near the best is within this loss; from this probability on a simulation suffices.
NEAR, SURE = float(np.log(1.05)), 0.95
#: A loss of a choice counts up to this one, a rate of half.
MOST = float(np.log(2))
#: Simulated time: so long, or so many requests; longer, at most `SECONDS_MOST`, where the scheduler
#: that serves a row best would serve fewer than `SERVED` of it: chance would decide.
SECONDS, REQUESTS, SERVED, SECONDS_MOST = 8.0, 20_000, 200, 30.0
MINUTES = {"compare": 5.0, "live": 10.0}


@dataclass(frozen=True)
class SimulatedLoad:
    """A load to simulate, as fields of a `Simulation`; those of a fio job depend on the bytes of
    the device, which `processes_on` takes.
    """

    name: str
    fields: Mapping[str, Any]
    option: str = "--workloads"
    processes_on: Callable[[int], list[dict[str, object]]] | None = None

    def on(self, device: str, draws: Draws) -> SimulatedLoad:
        """The same on a device: its smallest draw has room for it."""
        if self.processes_on is None:
            return self
        changes = [draws.at(seed) for seed in range(DRAWS + 1)]
        drawn = [Simulation(device=device, scheduler="none", device_set=each) for each in changes]
        least = min(each.facts()["size_bytes"] for each in drawn)
        content = {"process": self.processes_on(least)}
        return dataclasses.replace(self, fields={"processes": content}, processes_on=None)

    @property
    def recording(self) -> str:
        """A recording as FILE or FILE:FORMAT; empty for processes."""
        named = (self.fields.get("trace"), self.fields.get("format"))
        return ":".join(str(each) for each in named if each)

    @property
    def recorded_s(self) -> float:
        """The seconds of a recording; SpecError where it cannot be replayed."""
        replay = TraceReplay(trace=self.recording, timing="open")
        return float(replay.summary()["period_ns"] / 1e9)

    @functools.cached_property
    def processes(self) -> Sequence[ProcessRow]:
        """Those of a file that a simulation has read without an error; none of a trace."""
        return processes_of(self.fields["processes"]) if "processes" in self.fields else ()


@dataclass(frozen=True)
class PredictedLoss:
    """A scheduler: the probability to be within 5 % of the best, and its loss (logarithms)."""

    name: str
    near: float | None
    loss: float
    low: float
    high: float


@dataclass(frozen=True)
class Prediction:
    """The prediction of a load on a device. `outside` says why no probability is given;
    `distance` is None where every checked load is of another kind of work. `rates` are those of the
    rows under what is taken; `measure` is the command that would decide most, `left` the expected
    loss after it. Under a `kernel` some of the draws were measured.
    """

    device: str
    load: str
    candidates: tuple[PredictedLoss, ...]
    take: str
    outside: str
    nearest: str
    distance: float | None
    rates: Mapping[str, Sequence[float]]
    measure: str = ""
    left: float = 0.0
    notes: tuple[str, ...] = ()
    kernel: str = ""

    @property
    def code(self) -> str:
        """`outside`, `same` (all are near the best), `best`, or `for-now`; each is predicted."""
        if self.outside:
            return "outside"
        near = {each.name: each.near or 0.0 for each in self.candidates}
        if all(value >= SURE for value in near.values()):
            return "same"
        return "best" if near[self.take] >= SURE else "for-now"


def loads_of(
    workloads: str | None, trace: str | None, job_file: Path | None = None
) -> list[SimulatedLoad]:
    """The loads that the options name: files of processes or shipped ones, a fio job, a trace."""
    given = [each for each in (trace, workloads, job_file) if each]
    if len(given) != 1:
        raise SpecError(
            "a prediction needs one load",
            f"--workloads {','.join(list(presets())[:2])},FILE, --fio JOB, or --trace FILE",
        )
    if job_file:
        return [SimulatedLoad(str(job_file), {}, "--fio", processes_of_job(job_file))]
    if trace:
        # The same addresses where they fit, and modulo the size of a smaller device.
        replay = replay_of(trace, fit="wrap")
        return [SimulatedLoad(str(replay.path), replay.fields(), "--trace")]
    names = [name.strip() for name in str(workloads).split(",")]
    return [SimulatedLoad(name, {"processes": name}) for name in names]


def predictions(
    devices: Sequence[str],
    loads: Sequence[SimulatedLoad],
    schedulers: str,
    progress: Callable[[str], None],
    kernel: str,
) -> tuple[list[dict[str, object]], list[str]]:
    """Those of each load on each device, as documents and as lines; two devices are compared."""
    documents, text = [], []
    for load in loads:
        found = [predict(device, load, schedulers, progress, kernel) for device in devices]
        documents += [{**dataclasses.asdict(one), "code": one.code} for one in found]
        text += [line for one in found for line in (*lines(one), "")]
        if len(found) == 2:
            text += [compared(*found), ""]
    return documents, text[:-1]


def predict(
    device: str,
    load: SimulatedLoad,
    schedulers: str,
    progress: Callable[[str], None] = lambda text: None,
    kernel: str = "",
) -> Prediction:
    """The prediction of a load on the device of a file or a shipped model. SpecError where one of
    the files is wrong.

    With a `kernel` the errors of the simulation are not those of other loads: some of the draws are
    measured under the kernel's own schedulers, in virtual time.
    """
    names = split_schedulers(schedulers)
    if len(names) < 2 or len({*names}) < len(names):
        raise SpecError(
            "a prediction compares different schedulers", "--schedulers none,mq-deadline,kyber,bfq"
        )
    # The simulator reads both files first: it says what is wrong in them.
    rotational = Simulation(device=device, scheduler=names[0]).facts()["rotational"]
    draws = Draws(device_text(device), shipped().values(), device)
    load = load.on(device, draws)
    plain = simulation_of(device, draws, load, names[0])
    tried = _lasting(plain, 0.2).run().host
    features = dataclasses.replace(
        load_features(load, tried, plain.tags, rotational), parallel=dies_of(draws.tables) > 1
    )
    if kernel:
        cells = _measured_here(kernel, device, draws, load, names, features, progress)
    else:
        cells = checked_cells()
    cell, distance = nearest(features, cells)
    why_not = _outside(load, names, features, distance, is_measured=bool(kernel))
    # As short as the rate of a trial makes enough requests, and long enough for the slowest row.
    seconds = min(SECONDS, max(0.3, REQUESTS / max(tried["total"]["iops"], 1.0)))
    progress(f"{load.name}: {(DRAWS + 1) * len(names)} simulations")
    by_draw = _rates(device, draws, load, names, seconds)
    least = min(max(of[row] for of in by_draw[0].values()) for row in by_draw[0][names[0]])
    if load.processes and least * seconds < SERVED:
        by_draw = _rates(device, draws, load, names, min(SERVED / least, SECONDS_MOST))
    drawn = [losses(rates) for rates in by_draw[1:]]
    exact, erring = _spread(drawn, None), _spread(drawn, features, cells)
    take, candidates = _judged(names, exact if why_not else erring, sure=not why_not)
    rates = {row: [of[take][row] for of in by_draw[1:]] for row in by_draw[0][take]}
    measure, left = "", 0.0
    if not any(each.near is not None and each.near >= SURE for each in candidates):
        center = losses(by_draw[0])
        other = min((name for name in names if name != take), key=lambda name: center[name])
        origin = str(draws.fit.get("device", ""))
        on_model = _on_model(device, load, f"{take},{other}") if not kernel else ()
        measure, left = _measure(
            on_model, origin, f"{take},{other}", _regret(erring), _regret(exact)
        )
    return Prediction(
        device, load.name, candidates, take, why_not, cell.name,
        distance if math.isfinite(distance) else None, rates, measure, left, tuple(_notes(draws)),
        kernel,
    )  # fmt: skip


def _measured_here(
    kernel: str, device: str, draws: Draws, load: SimulatedLoad, names: Sequence[str],
    features: Features, progress: Callable[[str], None],
) -> tuple[CheckedLoad, ...]:  # fmt: skip
    """The first draws in the simulation and in the kernel; SpecError for a load that only the
    simulation has, or that is too long.
    """
    if what := _not_in_kernel(load):
        raise SpecError(f"--kernel cannot run {what}", "omit --kernel")
    recording = load.recording
    seconds = load.recorded_s if recording else KERNEL_SECONDS[features.rotational]
    simulations = [
        [_lasting(simulation_of(device, draws, load, name, seed), seconds) for name in names]
        for seed in range(KERNEL_DRAWS)
    ]
    processes = () if recording else tables_of(load.fields["processes"])
    work = [
        KernelCell(
            Emulation(device, None, data="none", settings=draws.at(seed)), processes, names,
            seconds, 1 + seed, some[0].tags, max(each.nr_requests or 0 for each in some), recording,
        )
        for seed, some in enumerate(simulations)
    ]  # fmt: skip
    measured = measured_rates(kernel, work, progress)
    found = []
    for some, figures in zip(simulations, measured, strict=True):
        there = {
            name: rows_of(load, {"scheduler": name, "processes": rows, "total": rows[0]})
            for name, rows in figures.items()
        }
        here = {str(one.scheduler): rows_of(load, run.host)
                for one, run in zip(some, run_threads(some), strict=True)}  # fmt: skip
        found.append(CheckedLoad(load.name, features, losses(there), losses(here)))
    return tuple(found)


def simulation_of(
    device: str, draws: Draws, load: SimulatedLoad, scheduler: str, seed: int = 0
) -> Simulation:
    """One draw under one scheduler, with the queue that the device has."""
    queue = draws.fit.get("queue", {})
    limits = {"max_sectors_kb": queue["max_sectors_kb"]} if "max_sectors_kb" in queue else {}
    depth = draws.tables.get("queue_depth", draws.tables.get("queue", {}).get("depth", 32))
    tags = int(queue.get("tags", min(max(depth, 4), 128)))
    allocated = None if scheduler == "none" else queue.get("nr_requests", 2 * tags)
    times = {} if "trace" in load.fields else {"seconds": SECONDS}
    return Simulation(
        device=device, scheduler=scheduler, tags=tags, nr_requests=allocated, seed=1 + seed,
        device_set=draws.at(seed), settings={**HOST, **limits}, **{**load.fields, **times},
    )  # fmt: skip


def _rates(
    device: str, draws: Draws, load: SimulatedLoad, names: Sequence[str], seconds: float
) -> list[dict[str, dict[str, float]]]:
    """Those of the rows of each draw under each scheduler; the first is no draw."""
    places = [(seed, name) for seed in range(DRAWS + 1) for name in names]
    results = run_threads(
        [_lasting(simulation_of(device, draws, load, name, seed), seconds) for seed, name in places]
    )
    found: list[dict[str, dict[str, float]]] = [{} for _ in range(DRAWS + 1)]
    for (seed, name), result in zip(places, results, strict=True):
        found[seed][name] = rows_of(load, result.host)
    return found


def _lasting(simulation: Simulation, seconds: float) -> Simulation:
    """The same for so long; a trace as a whole."""
    return simulation if simulation.trace else dataclasses.replace(simulation, seconds=seconds)


def rows_of(load: SimulatedLoad, result: HostReport) -> dict[str, float]:
    """The rates of the kinds of processes; of a recording the inverse of the mean response."""
    if not load.processes:
        return {"all": 1e9 / max(result["total"]["latency_ns_mean"], 1.0)}
    return rates_of(load.processes, result["processes"])


def load_features(load: SimulatedLoad, tried: HostReport, tags: int, rotational: bool) -> Features:
    """Those of a load; of a recording from `tried`, a simulation of it."""
    if load.processes:
        return features_of(load.processes, tags, rotational)
    from schedlab import _core

    trace, form = str(load.fields["trace"]), load.fields["format"]
    summary = json.loads(_core.trace_stats(trace, form))["summary"]
    total = tried["total"]
    # Little's law: how many are under way.
    depth = max(1.0, total["iops"] * total["latency_ns_mean"] / 1e9)
    return Features(
        rotational,
        float(np.log2(depth / tags)),
        1 - float(summary["read_share"]),
        float(summary.get("sequential_share") or 0.0),
        classes=False,
        buffered=False,
        processes=len(tried["processes"]),
        recorded=True,
    )


def _not_in_kernel(load: SimulatedLoad) -> str:
    """The part of a load that a guest does not serve; empty where it serves all."""
    if load.recording:
        try:
            is_long = load.recorded_s > RECORDED_MOST
        except SpecError as error:
            return str(error)
        return f"more than {RECORDED_MOST:.0f} s of {load.name}" if is_long else ""
    only_here = [key for key in ("weight", "start") for each in load.processes if each[key]]
    keys = [*filter(None, map(only_simulated, load.processes)), *only_here]
    if is_buffered(load.processes):
        keys.insert(0, "direct = false")
    return f"processes with {keys[0]}" if keys else ""


def _outside(
    load: SimulatedLoad, names: Sequence[str], features: Features, distance: float,
    is_measured: bool,
) -> str:  # fmt: skip
    """Why no probability can be given; empty where one can."""
    if is_measured:
        return ""
    reasons = (outside(name, load.processes, features, distance) for name in names)
    return next(filter(None, reasons), "")


def _spread(
    drawn: Sequence[Mapping[str, float]],
    features: Features | None,
    cells: Sequence[CheckedLoad] = (),
) -> dict[str, np.ndarray[Any, Any]]:
    """Losses over draws and errors of the instrument; without features none of these."""
    parts = []
    for seed, model in enumerate(drawn, 1):
        if features is None:
            parts.append({name: np.array([loss]) for name, loss in model.items()})
        else:
            parts.append(with_errors(model, features, cells, ERRORS, seed))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _judged(
    names: Sequence[str], spread: Mapping[str, np.ndarray[Any, Any]], sure: bool
) -> tuple[str, tuple[PredictedLoss, ...]]:
    """The candidate with the least expected loss, of losses up to `MOST`, the first of equals, and
    all of them.
    """
    least = np.min(list(spread.values()), axis=0)
    behind = {name: spread[name] - least for name in names}
    candidates = tuple(
        PredictedLoss(
            name,
            float(np.mean(behind[name] <= NEAR)) if sure else None,
            float(np.mean(spread[name])),
            *interval_90(spread[name]),
        )
        for name in names
    )
    # Beyond that much it does not matter how much: a few draws would decide.
    mild = {name: round(float(np.mean(np.minimum(behind[name], MOST))), 3) for name in names}
    take = min(names, key=lambda name: (mild[name], names.index(name)))
    return take, candidates


def _regret(spread: Mapping[str, np.ndarray[Any, Any]]) -> float:
    """The least expected loss beyond that of the best."""
    least = np.min(list(spread.values()), axis=0)
    return min(float(np.mean(values - least)) for values in spread.values())


def _on_model(device: str, load: SimulatedLoad, pair: str) -> Sequence[str]:
    """The command that runs the kernel's own schedulers on the model: with this load where a kernel
    is here that can.
    """
    booted = [each.release for each in kernels.every() if each.options and not each.lacks]
    served = not _not_in_kernel(load)
    if booted and served and needed_dilation(Emulation(device, None)) <= 1:
        named = booted[-1].partition("-")[0]
        return ("schedlab", "predict", "--device", device, load.option,
                load.recording or load.name, "--kernel", named)  # fmt: skip
    same = ("--workloads", load.name) if served and load.option == "--workloads" else ()
    return ("schedlab", "compare", "--model", device, *same, "--schedulers", pair)


def _measure(
    on_model: Sequence[str], origin: str, pair: str, now: float, after_model: float
) -> tuple[str, float]:
    """The command after which the least regret is left for each minute, and what is left; `origin`
    is where the device file comes from.

    The kernel on the model has no error of the instrument; on the device it has none at all.
    """
    choices = []
    if on_model:
        choices.append(((now - after_model) / MINUTES["compare"], after_model, on_model))
    if origin.startswith("/dev/"):
        live = ("schedlab", "live", origin, "--schedulers", pair)
        choices.append((now / MINUTES["live"], 0.0, live))
    _, left, command = max(choices, key=lambda each: each[0], default=(0.0, 0.0, ()))
    return shlex.join(command), left


def _notes(draws: Draws) -> list[str]:
    if not draws.is_fitted:
        return ["the device file has no errors: its figures are taken as exact"]
    tests = draws.fit.get("self_test", [])
    worst = max((abs(row["rate_error"]) for row in tests), default=0.0)
    missed = f"the model missed the rate of a held-out load by {worst:.0%} when it was fitted"
    return [missed] if worst > 0.15 else []


def compared(first: Prediction, second: Prediction) -> str:
    """A sentence about two devices for one load: how much faster, and how sure."""
    ratios = [
        np.divide.outer(np.array(second.rates[row]), np.array(first.rates[row])).ravel()
        for row in first.rates
    ]
    faster = np.exp(np.mean(np.log(ratios), axis=0))
    share, better = float(np.mean(faster > 1)), second
    if share < 0.5:
        share, better, faster = 1 - share, first, 1 / faster
    low, mid, high = np.quantile(faster, (0.05, 0.5, 0.95))
    return (
        f"{first.load}: {better.device} is predicted {mid:.2g}× as fast (90 %: {low:.2g} to "
        f"{high:.2g}×), P {share:.0%}"
    )


def lines(prediction: Prediction) -> list[str]:
    """The prediction as text, the answer first."""
    about = measured()
    shown = [f"{prediction.load} on {prediction.device}: {_answer(prediction)}"]
    shown += [f"{'scheduler':<24}{'P(within 5 %)':>14}{'expected loss':>15}{'90 % interval':>18}"]
    for each in prediction.candidates:
        near = "–" if each.near is None else f"{each.near:.0%}"
        interval = f"{loss_text(each.low)} to {loss_text(each.high)}"
        shown.append(f"{each.name:<24}{near:>14}{loss_text(each.loss):>15}{interval:>18}")
    far = prediction.distance
    distance = "another kind of work" if far is None else f"distance {far:.1f}"
    checked = f"nearest checked load: {prediction.nearest} ({distance}; kernel {about['kernel']}, "
    shown.append(
        f"{KERNEL_DRAWS} of {DRAWS} drawn devices measured in virtual time, Linux "
        f"{prediction.kernel}; the others simulated, with the errors of these"
        if prediction.kernel
        else f"{checked}{about['date']})"
    )
    shown += [f"note: {note}" for note in prediction.notes]
    if prediction.code in {"best", "same"}:
        shown.append("Simulation suffices here.")
    elif prediction.measure:
        left = (
            ""
            if prediction.outside
            else f"   # leaves an expected loss of {loss_text(prediction.left)}"
        )
        shown.append(f"Next   {prediction.measure}{left}")
    return shown


def _answer(prediction: Prediction) -> str:
    take = prediction.take
    of = {each.name: each for each in prediction.candidates}[take]
    if prediction.outside:
        return f"outside what was checked: {prediction.outside}; {take} is ahead in the simulation"
    return {
        "same": f"all are predicted to be within 5 % of the best; take {take}",
        "best": f"{take} is predicted to be the best or within 5 % of it (P {of.near:.0%})",
        "for-now": f"take {take} for now: predicted within 5 % of the best with P {of.near:.0%}",
    }[prediction.code]
