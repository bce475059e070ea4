"""A measured CPU schedule beside a simulated one: `schedlab sim cpu --validate BURSTS.csv`.

The bursts are those of `schedlab trace cpu --out`. Without the time of wake-ups a sleep and a wait
look the same, so that only tasks count that leave the CPU against their will: all of a task's
bursts but the last are preempted. Others that hardly ran, such as the shell that waits for its
commands, count as CPU time that the tasks did not get.
"""

from __future__ import annotations

import csv
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.sim.validate import aligned, demerit
from schedlab.spec.reading import read_text

SHARE_POINTS = 0.01
SWITCHES_SHARE = 0.05
IDLE_MAX = 0.02
DEFAULT_HZ = 250
EXPECTED = "expected the CSV of schedlab trace cpu --out: end_ns,duration_ns,task,preempted"


@dataclass(frozen=True)
class Stay:
    """A stretch of one task on the CPU, ns."""

    task: int
    start_ns: int
    end_ns: int
    is_preempted: bool


@dataclass(frozen=True)
class Agreement:
    """One comparison with its tolerance; `is_close` is missing where it is only shown."""

    name: str
    measured: float
    simulated: float
    tolerance: str
    is_close: bool | None


@dataclass(frozen=True)
class CpuValidation:
    """How far a simulated schedule is from a measured one."""

    policy: str
    tasks: int
    comparisons: tuple[Agreement, ...]
    common_prefix: int
    not_judged: str

    @property
    def is_accepted(self) -> bool:
        """Whether every checked figure is within its tolerance."""
        return not self.not_judged and all(one.is_close is not False for one in self.comparisons)

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON types."""
        return asdict(self) | {"accepted": self.is_accepted}


def read_stays(path: Path) -> list[Stay]:
    """Stays in their order, the first from time 0; neighbours of one task are one stay."""
    text = read_text(path, EXPECTED, limit_bytes=64 << 20)
    rows = list(csv.DictReader(text.splitlines()))
    stays = []
    for number, row in enumerate(rows, 2):
        try:
            end_ns, length_ns = int(row["end_ns"]), int(row["duration_ns"])
            stays.append(
                Stay(int(row["task"]), end_ns - length_ns, end_ns, row["preempted"] == "1")
            )
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(f"{path}:{number}: {row}", EXPECTED) from error
    if not stays:
        raise SpecError(f"{path}: no bursts", EXPECTED)
    stays.sort(key=lambda stay: stay.start_ns)
    stays = without_light_sleepers(stays)
    first_ns = stays[0].start_ns
    return merged(
        [Stay(s.task, s.start_ns - first_ns, s.end_ns - first_ns, s.is_preempted) for s in stays]
    )


def without_light_sleepers(stays: Sequence[Stay]) -> list[Stay]:
    """The stays without those of tasks that slept and that together had less than `IDLE_MAX` of
    the CPU time; all of them where there is no other task.
    """
    ran: dict[int, int] = {}
    last: dict[int, Stay] = {}
    sleepers: set[int] = set()
    for stay in stays:
        if stay.task in last and not last[stay.task].is_preempted:
            sleepers.add(stay.task)
        last[stay.task] = stay
        ran[stay.task] = ran.get(stay.task, 0) + stay.end_ns - stay.start_ns
    slept_ns = sum(ran[task] for task in sleepers)
    if slept_ns >= IDLE_MAX * sum(ran.values()) or sleepers == set(ran):
        return list(stays)
    return [stay for stay in stays if stay.task not in sleepers]


def merged(stays: Sequence[Stay]) -> list[Stay]:
    """Stays of which no two neighbours belong to one task."""
    groups = [list(group) for _, group in itertools.groupby(stays, key=lambda stay: stay.task)]
    return [
        Stay(group[0].task, group[0].start_ns, group[-1].end_ns, group[-1].is_preempted)
        for group in groups
    ]


def _arrivals(stays: Sequence[Stay]) -> dict[int, int]:
    """When each task came, in the order of their first stays, ns.

    A task that ran before any task ran twice was there from the start; the others came when they
    first ran, because the file does not record how long they had waited.
    """
    arrivals: dict[int, int] = {}
    has_repeated = False
    for stay in stays:
        if stay.task in arrivals:
            has_repeated = True
        else:
            arrivals[stay.task] = stay.start_ns if has_repeated else 0
    return arrivals


def _simulated(stays: Sequence[Stay], settings: Mapping[str, Any]) -> list[Stay]:
    """The stays of a simulation of tasks that want as much CPU time as was measured."""
    from schedlab.sim.cpu_schedule import simulate

    arrivals = _arrivals(stays)
    names = list(arrivals)
    tasks = [
        {
            "name": f"T{name}",
            "arrival": arrivals[name],
            "bursts": [sum(stay.end_ns - stay.start_ns for stay in stays if stay.task == name)],
        }
        for name in names
    ]
    result = simulate(tasks, settings)
    ran = [segment for segment in result["segments"] if "task" in segment]
    ran.sort(key=lambda segment: segment["start_ns"])
    ends = {row: task["finish_ns"] for row, task in enumerate(result["tasks"])}
    return merged(
        [
            Stay(
                names[segment["task"]],
                segment["start_ns"],
                segment["end_ns"],
                segment["end_ns"] != ends[segment["task"]],
            )
            for segment in ran
        ]
    )


def _lengths(stays: Sequence[Stay]) -> list[float]:
    return [(stay.end_ns - stay.start_ns) / 1e6 for stay in stays]


def _waits(stays: Sequence[Stay]) -> list[float]:
    """Time between a task's neighbouring stays, ms."""
    waits = []
    for task in {stay.task for stay in stays}:
        own = [stay for stay in stays if stay.task == task]
        waits += [(b.start_ns - a.end_ns) / 1e6 for a, b in itertools.pairwise(own)]
    return waits


def _share(stays: Sequence[Stay], task: int, until_ns: int) -> float:
    """Share of the CPU time up to a time that a task got."""
    times: dict[int, int] = {}
    for stay in stays:
        ran = min(stay.end_ns, until_ns) - min(stay.start_ns, until_ns)
        times[stay.task] = times.get(stay.task, 0) + ran
    return times.get(task, 0) / max(sum(times.values()), 1)


def _reason(stays: Sequence[Stay], settings: Mapping[str, Any]) -> str:
    """Why the schedule cannot be checked; empty where it can."""
    if settings.get("cpus", 1) != 1:
        return "more than one CPU: the bursts do not say on which they were"
    for task in sorted({stay.task for stay in stays}):
        own = [stay for stay in stays if stay.task == task]
        if any(not stay.is_preempted for stay in own[:-1]):
            return f"task {task} slept: the bursts do not say when it woke"
    span_ns = stays[-1].end_ns
    ran_ns = sum(stay.end_ns - stay.start_ns for stay in stays)
    idle = 1 - ran_ns / max(span_ns, 1)
    if abs(idle) > IDLE_MAX:
        return f"others had the CPU for {idle:.1%} of the time"
    return ""


def validate(path: Path, settings: Mapping[str, Any]) -> CpuValidation:
    """The measured schedule of a file beside the simulated one of the same tasks."""
    measured = read_stays(path)
    simulated = _simulated(measured, settings)
    # While all tasks want the CPU: after the first end, shares do not depend on the policy alone.
    tasks = sorted({stay.task for stay in measured})
    both_ns = min(
        max(stay.end_ns for stay in stays if stay.task == task)
        for stays in (measured, simulated)
        for task in {stay.task for stay in stays}
    )
    comparisons = []
    for task in tasks:
        shares = [_share(stays, task, both_ns) for stays in (measured, simulated)]
        close = abs(shares[0] - shares[1]) <= SHARE_POINTS
        comparisons.append(Agreement(f"share of {task}", shares[0], shares[1], "1 point", close))
    tick_ms = 1e3 / settings.get("hz", DEFAULT_HZ)
    medians = [statistics.median(_lengths(stays)) for stays in (measured, simulated)]
    close = abs(medians[0] - medians[1]) <= tick_ms
    tolerance = f"{tick_ms:g} ms"
    comparisons.append(Agreement("median stay, ms", medians[0], medians[1], tolerance, close))
    counts = [sum(stay.is_preempted for stay in stays) for stays in (measured, simulated)]
    close = abs(counts[0] - counts[1]) <= SWITCHES_SHARE * max(counts[0], 1)
    comparisons.append(Agreement("involuntary switches", counts[0], counts[1], "5 %", close))
    for name, of in (("stays", _lengths), ("waits", _waits)):
        one, other = of(measured), of(simulated)
        if one and other:
            comparisons.append(
                Agreement(f"demerit of {name}, ms", 0.0, demerit(other, one), "", None)
            )
    order = zip([s.task for s in measured], [s.task for s in simulated], strict=False)
    prefix = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], order))
    reason = _reason(measured, settings)
    return CpuValidation(settings["policy"], len(tasks), tuple(comparisons), prefix, reason)


def lines(validation: CpuValidation) -> list[str]:
    """The table that `sim cpu --validate` prints."""
    verdict = {True: "yes", False: "no", None: ""}
    rows = [("", "measured", "simulated", "tolerance", "within")]
    rows += [
        (
            one.name,
            f"{one.measured:.4g}",
            f"{one.simulated:.4g}",
            one.tolerance,
            verdict[one.is_close],
        )
        for one in validation.comparisons
    ]
    last = f"not judged: {validation.not_judged}"
    if not validation.not_judged:
        last = f"accepted: {verdict[validation.is_accepted]}"
    prefix = f"the first {validation.common_prefix} stays are of the same tasks in the same order"
    return [f"{validation.policy}, {validation.tasks} tasks", *aligned(rows), prefix, last]


def checked(options: Mapping[str, Any], as_json: bool) -> tuple[list[str], bool]:
    """What `schedlab sim cpu --validate` prints, and whether the simulation is close enough."""
    from schedlab.sim.cpu_schedule import settings_of

    settings = settings_of(options["policy"], {**options, "seed": options["seed"] or 1})
    validation = validate(Path(options["bursts"]), settings)
    shown = [json.dumps(validation.as_json())] if as_json else lines(validation)
    return shown, validation.is_accepted
