"""A measured CPU schedule beside a simulated one: `schedlab sim cpu --validate BURSTS.csv`.

The bursts are those of `schedlab trace cpu --out`, or of the kernel's events. BPF knows when a task
was woken, its nice value and its slice: a task is simulated with these, and sleeps between two
bursts for as long as it slept. Other files say nothing of it, and a sleep and a wait look the same:
there, only tasks count that leave the CPU against their will, and others that hardly ran, such as
the shell that waits for its commands, count as CPU time that the tasks did not get.
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.errors import SpecError
from schedlab.store import bursts as measured
from schedlab.store.bursts import EXPECTED, Scheduling
from schedlab_sim.tables import aligned

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from schedlab.nouns.schedule import Task
    from schedlab_sim.cpu_schedule import CpuOptions, ScheduleSettings

SHARE_POINTS = 0.01
SWITCHES_SHARE = 0.05
IDLE_MAX = 0.02
DEFAULT_HZ = 250
WAKE_UPS_MIN = 10
IDLE = (
    "tasks", "processes", "calculation", "measured", "from_ns", "to_ns", "width", "gantt", "quiz",
)  # fmt: skip
SCHED_IDLE = 5
SCHED_IDLE_WEIGHT = 3  # WEIGHT_IDLEPRIO of kernel/sched/sched.h


@dataclass(frozen=True)
class Stay:
    """A stretch of one task on the CPU, ns."""

    task: int
    start_ns: int
    end_ns: int
    is_preempted: bool
    woken_ns: int | None = None  # when it could run again after a sleep, or first
    scheduling: Scheduling | None = None

    @property
    def length_ns(self) -> int:
        """How long it was."""
        return self.end_ns - self.start_ns


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

    def as_json(self) -> dict[str, object]:
        """Everything, in plain JSON types."""
        return asdict(self) | {"accepted": self.is_accepted}


def read_stays(path: Path) -> list[Stay]:
    """Stays in their order from time 0, when the first task could run or ran; neighbours of one
    task are one stay where it did not sleep between them.
    """
    stays = _stays(path, measured.read(path)[0])
    if not any(stay.scheduling for stay in stays):
        stays = without_light_sleepers(stays)
    return _from_0(stays)


def tasks_of(path: Path) -> list[Task]:
    """Tasks for the simulator that compute and sleep as long as those of a file of bursts. Where it
    does not say when a task woke, its sleep lasts until it ran.
    """
    bursts, names = measured.read(path)
    stays = _from_0([
        replace(stay, woken_ns=stay.start_ns) if slept and stay.woken_ns is None else stay
        for stay, slept in _with_sleeps(_stays(path, bursts))
    ])  # fmt: skip
    return _tasks(stays, None, measured.labels_of(names))


def _with_sleeps(stays: Sequence[Stay]) -> Iterator[tuple[Stay, bool]]:
    """Each stay, and whether its task slept before it."""
    slept: dict[int, bool] = {}
    for stay in stays:
        yield stay, slept.get(stay.task, False)
        slept[stay.task] = not stay.is_preempted


def _stays(path: Path, bursts: list[measured.Burst]) -> list[Stay]:
    if not bursts:
        raise SpecError(f"{path}: no bursts", EXPECTED)
    bursts.sort(key=lambda burst: burst.end_ns - burst.duration_ns)
    stays = []
    slept: dict[int, bool] = {}
    for burst in bursts:
        # One that was about to sleep when it was preempted can be woken while it waits.
        woken_ns = burst.scheduling.woken_ns if burst.scheduling else 0
        woken = woken_ns if woken_ns and slept.get(burst.task, True) else None
        slept[burst.task] = not burst.is_preempted
        start_ns = burst.end_ns - burst.duration_ns
        stay = Stay(burst.task, start_ns, burst.end_ns, burst.is_preempted, woken, burst.scheduling)
        stays.append(stay)
    return stays


def _from_0(stays: Sequence[Stay]) -> list[Stay]:
    first_ns = min(stay.start_ns if stay.woken_ns is None else stay.woken_ns for stay in stays)
    return merged([_moved(stay, -first_ns) for stay in stays])


def _moved(stay: Stay, by_ns: int) -> Stay:
    woken_ns = None if stay.woken_ns is None else stay.woken_ns + by_ns
    start_ns, end_ns = stay.start_ns + by_ns, stay.end_ns + by_ns
    return replace(stay, start_ns=start_ns, end_ns=end_ns, woken_ns=woken_ns)


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
        ran[stay.task] = ran.get(stay.task, 0) + stay.length_ns
    slept_ns = sum(ran[task] for task in sleepers)
    if slept_ns >= IDLE_MAX * sum(ran.values()) or sleepers == set(ran):
        return list(stays)
    return [stay for stay in stays if stay.task not in sleepers]


def merged(stays: Sequence[Stay]) -> list[Stay]:
    """Stays of which no two neighbours belong to one task that did not sleep between them."""
    result: list[Stay] = []
    for stay in stays:
        last = result[-1] if result else None
        if last and last.task == stay.task and stay.woken_ns is None:
            result[-1] = replace(last, end_ns=stay.end_ns, is_preempted=stay.is_preempted)
        else:
            result.append(stay)
    return result


def _by_task(stays: Sequence[Stay]) -> dict[int, list[Stay]]:
    """The stays of each task, in the order of their first ones."""
    tasks: dict[int, list[Stay]] = {}
    for stay in stays:
        tasks.setdefault(stay.task, []).append(stay)
    return tasks


def _arrivals(stays: Sequence[Stay]) -> dict[int, int]:
    """When each task came, in the order of their first stays, ns: when it was woken or forked.

    Where that is unknown, a task that ran before any task ran twice was there from the start; the
    others came when they first ran.
    """
    arrivals: dict[int, int] = {}
    has_repeated = False
    for stay in stays:
        if stay.task in arrivals:
            has_repeated = True
        elif stay.woken_ns is not None:
            arrivals[stay.task] = stay.woken_ns
        else:
            arrivals[stay.task] = stay.start_ns if has_repeated or stay.scheduling else 0
    return arrivals


def _work(own: Sequence[Stay]) -> list[int]:
    """CPU time and sleep of a task in turn, ns: begins and ends with work."""
    work = [own[0].length_ns]
    for before, stay in itertools.pairwise(own):
        if stay.woken_ns is not None:
            work += [max(stay.woken_ns - before.end_ns, 1), 0]
        work[-1] += stay.length_ns
    return [max(time_ns, 1) for time_ns in work]


def _own_settings(own: Sequence[Stay]) -> Counter[tuple[int, int, int]]:
    """CPU time of a task by (policy, nice, slice in ns), ns; empty where they are unknown."""
    times: Counter[tuple[int, int, int]] = Counter()
    for stay in own:
        if stay.scheduling:
            times[stay.scheduling[2:]] += stay.length_ns
    return times


def _weigh(task: Task, own: Sequence[Stay], settings: ScheduleSettings | None) -> None:
    """Give a simulated task its weight, and under eevdf its slice unless all have one."""
    known = _own_settings(own)
    if not known:
        return
    ((policy, nice, slice_ns), _), *_ = known.most_common(1)
    if policy == SCHED_IDLE:
        task["weight"] = SCHED_IDLE_WEIGHT
    else:
        task["nice"] = nice
    is_eevdf = settings and settings["policy"] == "eevdf"
    if settings and is_eevdf and slice_ns and "slice" not in settings.get("eevdf", {}):
        task["slice"] = slice_ns


def _tasks(
    stays: Sequence[Stay], settings: ScheduleSettings | None, labels: Mapping[int, str]
) -> list[Task]:
    """The tasks of stays, as crates/sim/src/cpu/task.rs has them."""
    arrivals, tasks = _arrivals(stays), []
    for number, own in _by_task(stays).items():
        name = labels.get(number, f"T{number}")
        task: Task = {"name": name, "arrival": arrivals[number], "bursts": [*_work(own)]}
        _weigh(task, own, settings)
        tasks.append(task)
    return tasks


def _simulated(stays: Sequence[Stay], settings: ScheduleSettings) -> list[Stay]:
    """The stays of a simulation of tasks that compute and sleep as long as was measured."""
    from schedlab_sim.cpu_schedule import simulate

    names = list(_by_task(stays))
    result = simulate(_tasks(stays, settings, {}), settings)
    ran = [segment for segment in result["segments"] if "task" in segment]
    ran.sort(key=lambda segment: segment["start_ns"])
    sleeps = [dict(task["io"]) for task in result["tasks"]]
    wakes: list[int | None] = [task["arrival_ns"] for task in result["tasks"]]
    simulated = []
    for segment in ran:
        row, end_ns = segment["task"], segment["end_ns"]
        is_preempted = end_ns != result["tasks"][row]["finish_ns"] and end_ns not in sleeps[row]
        times = (segment["start_ns"], end_ns)
        simulated.append(Stay(names[row], *times, is_preempted, wakes[row]))
        wakes[row] = sleeps[row].get(end_ns)
    return merged(simulated)


def _lengths(stays: Sequence[Stay]) -> list[float]:
    return [stay.length_ns / 1e6 for stay in stays]


def _waits(stays: Sequence[Stay]) -> list[float]:
    """Time from a task's stay, or from the end of its sleep, to its next one, ms."""
    waits = []
    for own in _by_task(stays).values():
        for before, stay in itertools.pairwise(own):
            since_ns = before.end_ns if stay.woken_ns is None else stay.woken_ns
            waits.append((stay.start_ns - since_ns) / 1e6)
    return waits


def _waits_after_sleep(stays: Sequence[Stay]) -> list[float]:
    """Those of the waits that followed a sleep, ms."""
    after = [stay for own in _by_task(stays).values() for stay in own[1:]]
    return [(s.start_ns - s.woken_ns) / 1e6 for s in after if s.woken_ns is not None]


def _share(stays: Sequence[Stay], task: int, until_ns: int) -> float:
    """Share of the CPU time up to a time that a task got."""
    times: dict[int, int] = {}
    for stay in stays:
        ran = min(stay.end_ns, until_ns) - min(stay.start_ns, until_ns)
        times[stay.task] = times.get(stay.task, 0) + ran
    return times.get(task, 0) / max(sum(times.values()), 1)


def _wanted_ns(stays: Sequence[Stay]) -> int:
    """For how long any task ran or waited to run, ns."""
    arrivals = _arrivals(stays)
    spans: list[tuple[int, int]] = []
    for task, own in _by_task(stays).items():
        starts = [arrivals[task], *(s.woken_ns for s in own[1:] if s.woken_ns is not None)]
        ends = [one.end_ns for one, after in itertools.pairwise(own) if after.woken_ns is not None]
        spans += zip(starts, [*ends, own[-1].end_ns], strict=True)
    wanted_ns = until_ns = 0
    for start_ns, end_ns in sorted(spans):
        wanted_ns += max(0, end_ns - max(start_ns, until_ns))
        until_ns = max(until_ns, end_ns)
    return wanted_ns


def _reason(stays: Sequence[Stay], settings: ScheduleSettings) -> str:
    """Why the schedule cannot be checked; empty where it can."""
    if settings.get("cpus", 1) != 1:
        return "more than one CPU: each has its own queue, and the model has one"
    ran_ns = sum(stay.length_ns for stay in stays)
    cpus: Counter[int] = Counter()
    for stay in stays:
        if stay.scheduling:
            cpus[stay.scheduling.cpu] += stay.length_ns
    if cpus and ran_ns - max(cpus.values()) > IDLE_MAX * ran_ns:
        names = ", ".join(map(str, sorted(cpus)))
        return f"the tasks ran on CPUs {names}: start them with taskset -c {min(cpus)}"
    for task, own in sorted(_by_task(stays).items()):
        if any(not a.is_preempted and b.woken_ns is None for a, b in itertools.pairwise(own)):
            return f"task {task} slept: the bursts do not say when it woke"
        known = _own_settings(own)
        if known.total() - max(known.values(), default=0) > IDLE_MAX * ran_ns:
            return f"task {task} changed its policy, nice value or slice"
    idle = 1 - ran_ns / max(_wanted_ns(stays), 1)
    if abs(idle) > IDLE_MAX:
        return f"others had the CPU for {idle:.1%} of the time"
    return ""


def demerit(simulated: ArrayLike, measured: ArrayLike) -> float:
    """Root mean square of the horizontal distance of two samples' distributions, in their unit
    (Ruemmler and Wilkes, *An introduction to disk drive modeling*, IEEE Computer 27(3), 1994).

    Equal counts: of the sorted samples. Else of both quantile functions at (j − ½)/N, N the larger
    count, linear between the sorted values.
    """
    import numpy as np

    one, other = (np.sort(np.asarray(x, dtype=float)) for x in (simulated, measured))
    if not len(one) or not len(other):
        return float("nan")
    if len(one) != len(other):
        count = max(len(one), len(other))
        at = (np.arange(count) + 0.5) / count
        one, other = (np.interp(at, (np.arange(len(x)) + 0.5) / len(x), x) for x in (one, other))
    return float(np.sqrt(np.mean((one - other) ** 2)))


def validate(path: Path, settings: ScheduleSettings) -> CpuValidation:
    """The measured schedule of a file beside the simulated one of the same tasks."""
    measured = read_stays(path)
    simulated = _simulated(measured, settings)
    both = (measured, simulated)
    own = _by_task(measured)
    ran_ns = {task: sum(stay.length_ns for stay in stays) for task, stays in own.items()}
    heavy = [task for task in sorted(own) if ran_ns[task] >= IDLE_MAX * sum(ran_ns.values())]
    # While all of them are there: after the first end, shares do not depend on the policy alone.
    ends = [
        max((s.end_ns for s in stays if s.task == t), default=0) for stays in both for t in heavy
    ]
    comparisons = []
    for task in heavy:
        shares = [_share(stays, task, min(filter(None, ends))) for stays in both]
        close = abs(shares[0] - shares[1]) <= SHARE_POINTS
        comparisons.append(Agreement(f"share of {task}", shares[0], shares[1], "1 point", close))
    tick_ms = 1e3 / settings.get("hz", DEFAULT_HZ)
    tolerance = f"{tick_ms:g} ms"
    medians = [statistics.median(_lengths(stays)) for stays in both]
    close = abs(medians[0] - medians[1]) <= tick_ms
    comparisons.append(Agreement("median stay, ms", medians[0], medians[1], tolerance, close))
    woken = [_waits_after_sleep(stays) for stays in both]
    if min(map(len, woken)) >= WAKE_UPS_MIN:
        medians = [statistics.median(waits) for waits in woken]
        close = abs(medians[0] - medians[1]) <= tick_ms
        name = "median wait after a sleep, ms"
        comparisons.append(Agreement(name, medians[0], medians[1], tolerance, close))
    counts = [sum(stay.is_preempted for stay in stays) for stays in both]
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
    return CpuValidation(settings["policy"], len(own), tuple(comparisons), prefix, reason)


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


def checked(options: CpuOptions, as_json: bool) -> tuple[list[str], bool]:
    """The lines of `schedlab sim cpu --validate`, and whether the simulation is close enough."""
    from schedlab_sim.cpu_schedule import settings_of

    typed: Mapping[str, object] = options
    idle = [name for name in IDLE if typed[name] not in (None, False, 0)]
    if idle:
        option = f"--{idle[0].removesuffix('_ns')}"
        raise SpecError(f"{option} would change nothing beside --validate", f"omit {option}")
    settings = settings_of(options["policy"], {**options, "seed": options["seed"] or 1})
    validation = validate(Path(options["bursts"] or ""), settings)
    shown = [json.dumps(validation.as_json())] if as_json else lines(validation)
    return shown, validation.is_accepted
