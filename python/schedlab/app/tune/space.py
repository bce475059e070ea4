"""The tunables of a device: its default, and every tunable tried at both ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from schedlab.app import targets
from schedlab.app.compare.comparison import queues_of
from schedlab.errors import HostError, SpecError
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs, settings
from schedlab.nouns import Target
from schedlab.run.io.io import IoSession
from schedlab.tune.space import SchedulerSpace, Space, Tunable


def default_scheduler(target: Target, schedulers: Sequence[str]) -> str:
    """The scheduler that the target has without us; SpecError where none is named to be tuned.

    A temporary target has no default: where one scheduler is tuned, it is that one as
    the kernel sets it up.
    """
    if target.kind in ("scratch", "emulated"):
        if len(schedulers) == 1:
            return schedulers[0]
        # An idle loop device keeps an old setting, so the most common one counts.
        idle = [p for p in knobs.SYS_BLOCK.glob("loop*") if not (p / "loop").exists()]
        files = [p / "queue" / "scheduler" for p in idle]
        counts = Counter(knobs.read_value(file) for file in files if file.exists())
        return counts.most_common(1)[0][0] if counts else "none"
    queues = queues_of(target)
    if not queues:
        raise SpecError(
            f"{target.path}: no request queue to tune is named",
            "name it: --switch NAME",
        )
    return knobs.read_value(knobs.scheduler_file(queues[0]))


def schedulers_of(target: Target, text: str) -> tuple[str, ...]:
    """The schedulers to tune: `all` that the target offers, or those named."""
    offered = targets.offered(target, queues_of(target))
    names = offered if text == "all" else tuple(filter(None, text.split(",")))
    return tuple(dict.fromkeys(targets.todays_name(name, offered, target) for name in names))


def probe(session: IoSession, space: Space) -> tuple[Space, list[str]]:
    """The space as the device takes it, with the kernel's defaults; notes on what is missing."""
    notes: list[str] = []
    queue = session.queues[0]
    spaces = []
    for each in space.schedulers:
        offered = []
        for tunable in each.tunables:
            usable = _probed(session.control, queue, each.scheduler, tunable)
            if usable is not None:
                offered.append(usable)
        spaces.append(SchedulerSpace(each.scheduler, tuple(offered)))
    if not any(each.tunables for each in spaces) and len(spaces) < 2:
        raise SpecError(
            f"nothing can be tuned under {spaces[0].scheduler}", "name others: --scheduler all"
        )
    for scheduler_space, got in zip(space.schedulers, spaces, strict=True):
        lacking = {t.name for t in scheduler_space.tunables} - {t.name for t in got.tunables}
        if lacking:
            names = ", ".join(sorted(lacking))
            notes.append(f"not tuned, because the kernel refuses it under {got.scheduler}: {names}")
    return Space(tuple(spaces)), notes


def _probed(control: Control, queue: str, scheduler: str, tunable: Tunable) -> Tunable | None:
    """The tunable with its default and the part of its range that the kernel takes, else None."""
    control.set_scheduler(queue, scheduler)
    try:
        if settings.is_machine(tunable.name):
            path = settings.resolve(tunable.name, tunable.low, settings.SettingScope())[0][0]
        else:
            path = knobs.tunable_path(knobs.queue_of(queue), tunable.name)
        default = int(knobs.read_value(path))
    except (HostError, OSError, ValueError):
        return None
    low, high = tunable.low, tunable.high
    if not _takes(control, queue, scheduler, tunable.name, high):
        high = default
    if not _takes(control, queue, scheduler, tunable.name, low):
        low = default
    if tunable.log and low < 1:
        low = 1
    if low >= high:
        return None
    return replace(tunable, low=low, high=high, default=default)


def _takes(control: Control, queue: str, scheduler: str, name: str, value: int) -> bool:
    try:
        if not settings.is_machine(name):
            control.set_scheduler(queue, scheduler, {name: value})
            return True
        for path, text in settings.resolve(name, value, settings.SettingScope()):
            found = knobs.read_value(path)
            control.write_knob(path, text)
            control.write_knob(path, found)
    except HostError:
        return False
    return True
