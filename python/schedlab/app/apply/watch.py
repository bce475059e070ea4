"""Who changes the settings of a device or of the machine, one entry per change.

fanotify names the process that wrote (host/settings/writers.py). Without it, and for what the
kernel does by itself, the files are read every `interval_s`, and nobody is named. What the kernel
sets when a scheduler changes is no change of its own.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from schedlab.app.apply import machine as apply_machine
from schedlab.app.apply.applied import goes_with_scheduler
from schedlab.host.settings import knobs, settings
from schedlab.host.settings.writers import Writer, Writers
from schedlab.nouns import to_json

#: How long the event of a write may come after its effect.
EVENT_S = 0.05
Values = Mapping[Path, str]


@dataclass(frozen=True)
class SettingChange:
    """One setting that changed: when (local clock time, ISO 8601), and who wrote it.

    `writer` is who wrote; None where the kernel did not say.
    """

    at: str
    device: str
    setting: str
    before: str
    after: str
    writer: Writer | None = None

    def line(self) -> str:
        """The change as one line."""
        time_of_day = self.at[11:19]
        by = "writer not seen"
        if self.writer:
            command = self.writer.command or "a process that is gone"
            by = f"by {command} (process {self.writer.process_id})"
        place = f"{time_of_day} {self.device}"
        return f"{place}: {self.setting} {self.before} -> {self.after}, {by}"

    def json_line(self) -> str:
        """The change as one line of JSON."""
        return json.dumps(to_json(self))


def watch(
    device: str,
    seconds: float,
    interval_s: float = 0.2,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[str], None] = lambda line: None,
) -> Iterator[SettingChange]:
    """Every change of `queue/` of a device, as it is noticed, for so many seconds (0: for ever).

    `machine` (or `cpu`) are the settings of the CPU scheduler and those that were applied.
    `report` gets a line once it has begun.
    """
    is_machine = device in apply_machine.NAMES
    name = apply_machine.DEVICE if is_machine else knobs.device_name(device)
    look = _of_machine if is_machine else (lambda: _of_queue(knobs.queue_of(name)))
    writers = Writers()
    try:
        began, before = time.monotonic(), look()
        writers.mark(before)
        unnamed = "" if writers.is_told else "; who writes is not seen: only root is told"
        report(f"watching {name}{unnamed}")
        while not stop() and (not seconds or time.monotonic() - began < seconds):
            writers.wait(interval_s)
            now = look()
            writers.mark(path for path in now if path not in before)
            written = writers.take()
            if now != before and writers.is_told and not written:
                writers.wait(EVENT_S)
                written = writers.take()
            yield from _changes(name, before, now, written)
            before = now
    finally:
        writers.close()


def _changes(
    name: str, before: Values, now: Values, written: Mapping[str, Writer]
) -> Iterator[SettingChange]:
    at = datetime.now().astimezone().isoformat(timespec="milliseconds")
    changed = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    if any(path.name == "scheduler" for path in changed):
        changed = [p for p in changed if p.name == "scheduler" or not _follows(p)]
    by = {path: written[str(path.resolve())] for path in changed if str(path.resolve()) in written}
    for path in by or changed:  # beside what was written, the rest are its effects
        yield SettingChange(
            at,
            name,
            _called(path),
            before.get(path, "(absent)"),
            now.get(path, "(absent)"),
            by.get(path),
        )


def _follows(path: Path) -> bool:
    """Whether the kernel sets a file of `queue/` when the scheduler changes."""
    return goes_with_scheduler(_called(path))


def _called(path: Path) -> str:
    queue = knobs.queue_above(path)
    return str(path.relative_to(queue)) if queue else settings.name_of(path)


def _of_queue(queue: Path) -> dict[Path, str]:
    return {queue / name: value for name, value in knobs.snapshot(queue).items()}


def _of_machine() -> dict[Path, str]:
    from schedlab.app.apply import applied

    record = applied.find(apply_machine.DEVICE)
    paths = [
        *(settings.SYSCTL / "kernel").glob("sched_*"),
        *map(Path, record.values if record else ()),
    ]
    paths += [settings.DEBUG / name for name in settings.DEBUG_NAMES]
    values = {}
    for path in paths:
        with contextlib.suppress(OSError):
            values[path] = knobs.read_value(path)
    return values
