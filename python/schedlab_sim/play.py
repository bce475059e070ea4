"""Play a queue: what waits at each decision, what the policy picks, and why.

Decisions are those of the simulator's log. Of an SSD the log fixes the picks of a second run, which
shows the queue at each of them: pages that are not in the buffer, how often a command was
overtaken. That run must give the same log again. Of a disk and of a CPU the log says who waits.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.nouns.quantities import milliseconds_text
from schedlab.nouns.schedule import Schedule, Segment, Task
from schedlab.report.play import Pick, Play, Queued
from schedlab_sim.device import device_text

if TYPE_CHECKING:
    from schedlab_sim.simulation import Simulation

OPERATIONS = ("read", "write", "trim")
# Decisions that are kept of each policy.
PICKS_MAX = 2000


def refuse_unplayed(typed: Mapping[str, object], options: Mapping[str, str]) -> None:
    """SpecError for the first of these options that is typed: it would be ignored."""
    if idle := [option for name, option in options.items() if typed[name]]:
        raise SpecError(f"{idle[0]} would change nothing beside --play", f"omit {idle[0]}")


def play_of(simulation: Simulation, label: str) -> Play:
    """The decisions of the queue policy of an SSD or a disk."""
    logged = dataclasses.replace(simulation, log=True)
    return (_disk_play if simulation.model == "disk" else _ssd_play)(logged, label)


# Of a policy of an SSD: the estimate of each row of the queue, and its unit in words.
Estimate = tuple[Callable[[Any], Any], str]
ESTIMATES: Mapping[str, Estimate] = {
    "s": (lambda queue: queue["pages"] * 1.0, "pages"),
    "sb": (lambda queue: queue["missing"] * 1.0, "missing"),
    "ts": (lambda queue: queue["pages"] * queue["unit_ns"], "pages"),
    "tsb": (lambda queue: queue["missing"] * queue["unit_ns"], "missing"),
}
SSD_COLUMNS = ("request", "kind", "pages", "missing", "age", "score")


class _Follower:
    """A policy that picks what the log of another run says, and keeps the queue at each pick."""

    def __init__(self, log: Any, estimate: Callable[[Any], Any] | None) -> None:
        times = log["dispatched_ns"].tolist()
        self.dispatched = dict(zip(log["index"].tolist(), times, strict=True))
        self.order = {index: at for at, index in enumerate(log["index"].tolist())}
        self.estimate = estimate
        self.queues: list[tuple[int, Any, Any, int]] = []

    def select(self, queue: Any, now_ns: int, _device: Any) -> int:
        """The row whose request the log dispatches now; of several the least, then the first."""
        import numpy as np

        scores = np.full(len(queue), math.nan)
        if self.estimate is not None:
            scores = np.where(queue["is_trim"] == 1, 0.0, self.estimate(queue)) * queue["power"]
        indexes = queue["index"].tolist()
        due = [row for row, index in enumerate(indexes) if self.dispatched[index] == now_ns]
        if not due:
            raise ValueError("the log has no request that is dispatched now")
        if self.estimate is not None:
            row = min(due, key=lambda each: (scores[each], each))
        else:
            row = min(due, key=lambda each: self.order[indexes[each]])
        if len(self.queues) < PICKS_MAX:
            self.queues.append((now_ns, queue.copy(), scores, row))
        return row


def _ssd_play(simulation: Simulation, label: str) -> Play:
    import numpy as np

    policy = (simulation.policy or "fcfs").lower()
    estimate, unit = ESTIMATES.get(policy, (None, ""))
    first = simulation.run()
    follower = _Follower(first.log, estimate)
    again = simulation.run(chooser=follower)
    if not np.array_equal(first.log, again.log):
        raise SpecError(
            f"{label}: requests that are dispatched at one instant hide its order",
            "add --service serial, where the device takes one after the other",
        )
    flash = _flash(simulation)
    planes = math.prod(flash.values())
    alpha = float(str(simulation.policy_set.get("alpha", 0.9)))
    picks = []
    for at_ns, queue, scores, row in follower.queues:
        waiting = tuple(
            _of_ssd(each, float(score), planes, (policy, unit, alpha))
            for each, score in zip(queue, scores, strict=True)
        )
        picks.append(Pick(at_ns, waiting, row))
    rule = _rules("policy").get(policy, "its own rule")
    columns = SSD_COLUMNS if estimate else SSD_COLUMNS[:-1]
    return Play(label, rule, columns, tuple(picks), planes, flash.get("channels", 1))


PLANES = ("channels", "packages_per_channel", "dies_per_package", "planes_per_die")


def _flash(simulation: Simulation) -> dict[str, int]:
    """How many channels, packages, dies and planes the device has, where a page has its plane by
    its number: 0 planes otherwise.
    """
    device, changed = tomllib.loads(device_text(simulation.device)), simulation.device_set
    if changed.get("ftl.allocation", device["ftl"]["allocation"]) != "cwdp":
        return {"none": 0}
    return {name: int(str(changed.get(f"flash.{name}", device["flash"][name]))) for name in PLANES}


def _of_ssd(row: Any, score: float, planes: int, policy: tuple[str, str, float]) -> Queued:
    name, unit, alpha = policy
    operation = "trim" if row["is_trim"] else OPERATIONS[int(row["is_write"])]
    pages, missing, overtaken = int(row["pages"]), int(row["missing"]), int(row["overtaken"])
    places = []
    if planes:
        first = int(row["first_page"]) % planes
        end = first + min(pages, planes)
        places = [(first / planes, min(end, planes) / planes)]
        places += [(0.0, (end - planes) / planes)] if end > planes else []
    shown, why = "", ""
    if not math.isnan(score):
        is_time = name in ("ts", "tsb")
        shown = f"{score / 1e6:.3f} ms" if is_time else f"{score:.2f}"
        time = f" x {row['unit_ns'] / 1e6:g} ms" if is_time else ""
        why = f"{pages if unit == 'pages' else missing} {unit}{time} x {alpha:g}^{overtaken}"
    cells = [operation, str(pages), str(missing), str(overtaken), *([shown] if shown else [])]
    return Queued(str(row["index"]), tuple(cells), tuple(places), why)


DISK_COLUMNS = ("request", "kind", "place", "distance", "waited")


def _disk_play(simulation: Simulation, label: str) -> Play:
    """The queue at each start of a disk: who had arrived, as many as it may choose from."""
    import numpy as np

    facts = simulation.facts()
    depth, size = facts["queue_depth"], facts["size_bytes"]
    result = simulation.run()
    log = np.sort(result.log, order=["dispatched_ns", "completed_ns"])
    arrivals = sorted((int(row["arrival_ns"]), int(row["index"])) for row in log)
    rows = {int(row["index"]): row for row in log}
    queue: list[int] = []
    came, head, picks = 0, 0, []
    for row in log[:PICKS_MAX]:
        at_ns = int(row["dispatched_ns"])
        while len(queue) < depth and came < len(arrivals) and arrivals[came][0] <= at_ns:
            queue.append(arrivals[came][1])
            came += 1
        waiting = tuple(_of_disk(rows[index], at_ns, head, size) for index in queue)
        chosen = queue.index(int(row["index"]))
        picks.append(Pick(at_ns, waiting, chosen, head / size))
        del queue[chosen]
        head = int(row["offset_bytes"] + row["length_bytes"])
    policy = simulation.policy or "fcfs"
    return Play(label, _rules("disk policy")[policy], DISK_COLUMNS, tuple(picks))


def _of_disk(row: Any, at_ns: int, head: int, size: int) -> Queued:
    offset, length = int(row["offset_bytes"]), int(row["length_bytes"])
    distance = offset - head
    sign = "-" if distance < 0 else "+"
    cells = (
        OPERATIONS[int(row["operation"])],
        f"{offset / 2**30:.2f} GiB",
        f"{sign}{abs(distance) / 2**30:.2f} GiB",
        f"{milliseconds_text(at_ns - int(row['arrival_ns']))} ms",
    )
    return Queued(str(row["index"]), cells, ((offset / size, (offset + length) / size),))


# Policies that take the CPU from a task for a better one at most.
WITHOUT_QUANTUM = {"fcfs", "sjf", "srtf", "priority", "priority-preemptive"}
# Policies that give each task the same quantum.
WITH_ONE_QUANTUM = {"rr", "lottery", "stride"}
CPU_COLUMNS = ("task", "waited", "had", "left", "priority")


def cpu_play(tasks: Sequence[Task], result: Schedule) -> Play:
    """The run queue at each decision of a CPU schedule (crates/sim/src/cpu/result.rs)."""
    decisions = _decisions(result["segments"])[:PICKS_MAX]
    ready = [_ReadyTask(task, result, number) for number, task in enumerate(tasks)]
    longest_ns = max(burst for one in ready for burst in one.bursts_ns)
    picks = []
    for at_ns, number in decisions:
        there = [one for one in ready if one.number == number or one.is_ready(at_ns)]
        there.sort(key=lambda one: (one.since(at_ns), one.number))
        waiting = tuple(one.waiting(at_ns, longest_ns) for one in there)
        chosen = next(at for at, one in enumerate(there) if one.number == number)
        picks.append(Pick(at_ns, waiting, chosen))
    policy, quantum_ns = result["policy"], result["quantum_effective"]
    quantum = "" if policy in WITHOUT_QUANTUM else milliseconds_text(quantum_ns)
    share = quantum_ns / longest_ns if policy in WITH_ONE_QUANTUM else 0.0
    rule = _rules("cpu policy")[policy]
    return Play(policy, rule, CPU_COLUMNS, tuple(picks), quantum_ms=quantum, quantum=share)


def _decisions(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """(when, which task) of each pick: a switch begins where its task is picked."""
    decisions, switching = [], {}
    for segment in segments:
        cpu = segment["cpu"]
        if "switch" in segment:
            switching[cpu] = segment["switch"]
            decisions.append((segment["start_ns"], segment["switch"]))
        elif "task" in segment and switching.pop(cpu, None) != segment["task"]:
            decisions.append((segment["start_ns"], segment["task"]))
    return sorted(decisions, key=lambda each: each[0])


class _ReadyTask:
    """A task over time, from the log of its schedule."""

    def __init__(self, task: Task, result: Schedule, number: int) -> None:
        own = result["tasks"][number]
        self.number, self.name, self.own = number, task["name"], own
        self.priority = str(task.get("priority", 0))
        self.bursts_ns = [_ns(burst) for burst in task["bursts"][::2]]
        self.runs = [
            (s["start_ns"], s["end_ns"])
            for s in result["segments"]
            if number in (s.get("task"), s.get("switch"))
        ]
        own_work = (s for s in result["segments"] if s.get("task") == number)
        self.work = [(s["start_ns"], s["end_ns"]) for s in own_work]

    def is_ready(self, at_ns: int) -> bool:
        """Whether it can run and does not."""
        own = self.own
        ended = own["finish_ns"] is not None and own["finish_ns"] <= at_ns
        is_busy = any(start <= at_ns < end for start, end in (*self.runs, *own["io"]))
        return own["arrival_ns"] <= at_ns and not ended and not is_busy

    def since(self, at_ns: int) -> int:
        """Since when it waits."""
        ends = [end for _, end in (*self.runs, *self.own["io"]) if end <= at_ns]
        return max([self.own["arrival_ns"], *ends])

    def waiting(self, at_ns: int, longest_ns: int) -> Queued:
        """It in the queue: what it had of the CPU, and what is left of this burst, drawn as a share
        of the longest one.
        """
        had_ns = sum(min(end, at_ns) - start for start, end in self.work if start < at_ns)
        left_ns, rest = 0, had_ns
        for burst in self.bursts_ns:
            if rest < burst:
                left_ns = burst - rest
                break
            rest -= burst
        times = (at_ns - self.since(at_ns), had_ns, left_ns)
        cells = (*(f"{milliseconds_text(ns)} ms" for ns in times), self.priority)
        return Queued(self.name, cells, ((0.0, left_ns / longest_ns),))


def _ns(time: str | int) -> int:
    from schedlab_sim._simulators import parse_time_ns

    return parse_time_ns(time) if isinstance(time, str) else int(time)


def _rules(registry: str) -> dict[str, str]:
    from schedlab_sim._simulators import sim_names

    return dict(sim_names(registry))
