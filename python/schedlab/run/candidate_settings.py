"""Settings of a candidate on every layer: its queues, control groups, the machine, a command.

Each candidate starts from the same state: the kernel's defaults of its scheduler (of `as-is` the
values that were found with it), and of everything else that any candidate sets the value that was
found. All is journalled, and goes back at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path

from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs, settings
from schedlab.host.settings.control_groups import cpu_hierarchy, io_hierarchy
from schedlab.kinds import OVERRIDE
from schedlab.nouns import Candidate
from schedlab.run.command.launch import WorkGroup

AS_IS = "as-is"
Values = Mapping[str, str | int | float]


def host_settings(candidate: Candidate) -> dict[str, str | int | float]:
    """The candidate's settings of the host, without those that change a workload."""
    return {k: v for k, v in candidate.settings.items() if not k.startswith(OVERRIDE)}


def of_queue(values: Values) -> dict[str, str | int | float]:
    """Those that are files below `queue/`, in order."""
    return {k: v for k, v in values.items() if k != "scheduler" and settings.scope_of(k) == "queue"}


class CandidateSettings:
    """Puts one candidate after another onto the host."""

    def __init__(
        self,
        control: Control,
        queues: Iterable[str],
        candidates: Iterable[Candidate],
        group: Callable[[str], Path] | None = None,
    ) -> None:
        """`queues` are kernel names; `group` gives the control group of the measured work."""
        self._control = control
        self._queues = tuple(queues)
        self._command = 0
        # A limit of a control group has a line for each device.
        self._places = [settings.SettingScope(queue, group) for queue in self._queues or ("",)]
        self._queues_found = {
            queue: knobs.snapshot(path)
            for queue in self._queues
            if ((path := knobs.SYS_BLOCK / queue / "queue") / "scheduler").exists()
        }
        self._found: dict[Path, str] = {}
        self._sets_queues = False
        for each in candidates:
            self._find(host_settings(each))

    def apply(self, candidate: Candidate) -> tuple[dict[str, str], float]:
        """Set all that the candidate names; (what it reads now, seconds of the longest switch)."""
        values = host_settings(candidate)
        wanted = self._find(values)  # of a search, whose candidates come one by one
        self._leave_alone({path for _, path, _ in wanted})
        effective, switch_s = self._set_queues(values)
        for name, path, text in wanted:
            effective[name] = self._control.write_knob(path, text)
        if "run" in values:
            run, undo = str(values["run"]), str(values["undo"])
            self._command = self._control.run_command(run, undo)
            effective["run"] = run
        return effective, switch_s

    def as_found(self) -> None:
        """Set all as it was found, so that what comes next does not depend on a candidate."""
        self._leave_alone(set())
        self._set_queues({})

    def _find(self, values: Values) -> list[tuple[str, Path, str]]:
        """The knobs of a candidate, after a note of what they read before any has set them."""
        wanted = self._knobs(values)
        for _, path, _ in wanted:
            for each in filter(None, (path, knobs.companion(path))):
                if each not in self._found:
                    self._found[each] = settings.read(each)
        self._sets_queues |= values.get("scheduler", AS_IS) != AS_IS or any(
            settings.scope_of(name) == "device" for name in values
        )
        return wanted

    def _leave_alone(self, wanted: Set[Path]) -> None:
        """Undo the last command, and set what others may have set and this candidate does not.

        It is written even where it reads so: the first time this proves the way back.
        """
        if self._command:
            self._control.undo_command(self._command)
            self._command = 0
        found = self._as_found_beside(wanted)
        for path in sorted(found, key=knobs.is_late):
            self._control.write_knob(path, found[path])

    def _set_queues(self, values: Values) -> tuple[dict[str, str], float]:
        """Schedulers, tunables, and what the root of the control groups has for each device.

        So long no request passes: the kernel freezes a queue while its scheduler is changed.
        """
        effective: dict[str, str] = {}
        longest_s = 0.0
        scheduler = str(values.get("scheduler", AS_IS))
        for queue in self._queues:
            found = self._queues_found.get(queue, {}) if scheduler == AS_IS else {}
            if scheduler != AS_IS or (found and self._sets_queues):
                began = time.monotonic()
                applied = self._control.set_scheduler(
                    queue, found.get("scheduler", scheduler), of_queue(values), found
                )
                longest_s = max(longest_s, time.monotonic() - began)
                effective |= {"scheduler": applied.scheduler, **applied.tunables}
            for name, value in values.items():
                if settings.scope_of(name) == "device":
                    for path, text in settings.resolve(name, value, settings.SettingScope(queue)):
                        effective[name] = self._control.write_knob(path, text)
        return effective, longest_s

    def _as_found_beside(self, wanted: Set[Path]) -> dict[Path, str]:
        """Settings that this candidate leaves as they were; of two views of one setting one."""
        taken = {*wanted, *filter(None, map(knobs.companion, wanted))}
        return knobs.one_of_each({p: text for p, text in self._found.items() if p not in taken})

    def _knobs(self, values: Values) -> list[tuple[str, Path, str]]:
        """(name, knob, text) of what is no file of a queue; limits have one for each device."""
        named = {k: v for k, v in values.items() if k != "scheduler"}
        knobs_ = [
            (name, path, text)
            for name, value in named.items()
            if settings.scope_of(name) in ("machine", "group", "work")
            for place in self._places
            for path, text in settings.resolve(name, value, place)
        ]
        return sorted(dict.fromkeys(knobs_), key=lambda each: knobs.is_late(each[1]))


def groups_of_work(control: Control, *works: WorkGroup) -> Callable[[str], Path]:
    """Gives the control group of a controller that all these processes join, made when needed."""
    made: dict[Path, Path] = {}

    def group(controller: str) -> Path:
        root = cpu_hierarchy() if controller == "cpu" else io_hierarchy().root
        if root not in made:
            made[root] = control.cgroup("work", root)
            for work in works:
                work.join(made[root])
        return made[root]

    return group
