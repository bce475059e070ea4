"""Set a scheduler on devices that the user named, verified; it stays after the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlab.design.candidates import parse_candidates
from schedlab.errors import SpecError
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs
from schedlab.nouns import Candidate


def set_scheduler(
    scheduler: str, devices: Sequence[str], report: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """By device: what it was, what it is, and the command that undoes it.

    If one device does not take it, all are restored.
    """
    candidates = parse_candidates(scheduler)
    if len(candidates) != 1:
        raise SpecError(f"{scheduler!r} names {len(candidates)} schedulers", "name one")
    changes = {}
    with Control(named_devices=devices, report=report) as control:
        for name in dict.fromkeys(map(knobs.device_name, devices)):
            changes[name] = _set_one(control, name, candidates[0])
        control.keep()
    return changes


def _set_one(control: Control, device: str, candidate: Candidate) -> dict[str, object]:
    """Set one device: what was, what is, what undoes it."""
    queue = knobs.queue_of(device)
    before = knobs.read_value(knobs.scheduler_file(device))
    original = knobs.snapshot(queue)
    # The same scheduler with the kernel's defaults shows what had been tuned by hand.
    defaults = control.set_scheduler(device, before).queue
    tuned = [
        f"{name.removeprefix('iosched/')}={value}"
        for name, value in original.items()
        if knobs.writable(queue / name) and defaults.get(name) != value
    ]
    tunables = {k: v for k, v in candidate.settings.items() if k != "scheduler"}
    applied = control.set_scheduler(device, str(candidate.settings["scheduler"]), tunables)
    what = f"{before}:{','.join(tuned)}" if tuned else before
    return {
        "before": before,
        "after": applied.scheduler,
        "tunables": dict(applied.tunables),
        "notes": list(applied.notes),
        "undo": f"schedlab io set {what} {device}",
    }
