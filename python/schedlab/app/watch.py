"""Who changes the settings of a device or of the CPU scheduler: they are read again and again.

sysfs raises no event when a value is written (inotify does not fire for it), so the files are read
every `interval_s`; at a change the processes that are running are named, newest first.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from schedlab.app import apply_cpu
from schedlab.host import knobs

SUSPECTS = ("udev", "tuned", "tlp", "systemd", "sh", "bash", "tee", "python", "schedlab")


@dataclass(frozen=True)
class Change:
    """One setting that changed, and the command lines that may have done it."""

    at_s: float
    setting: str
    before: str
    after: str
    suspects: tuple[str, ...]


def watch(
    device: str, seconds: float, interval_s: float = 0.2, stop: Callable[[], bool] = lambda: False
) -> Iterator[Change]:
    """Every change of `queue/` of a device, as it is noticed, for so many seconds (0: for ever).

    `cpu` are the settings of the CPU scheduler.
    """
    look: Callable[[], dict[str, str]] = _settings_of_cpu
    if device != apply_cpu.DEVICE:
        look = functools.partial(knobs.snapshot, knobs.queue_of(knobs.device_name(device)))
    began = time.monotonic()
    before = look()
    while not stop() and (not seconds or time.monotonic() - began < seconds):
        time.sleep(interval_s)
        now = look()
        changed = [name for name in {*before, *now} if before.get(name) != now.get(name)]
        if changed:
            suspects = running_suspects()
            for name in sorted(changed):
                yield Change(
                    time.monotonic() - began,
                    name,
                    before.get(name, "(absent)"),
                    now.get(name, "(absent)"),
                    suspects,
                )
        before = now


def _settings_of_cpu() -> dict[str, str]:
    paths = [*apply_cpu.SYSCTLS.glob("sched_*")]
    paths += [apply_cpu.DEBUG / name for name in apply_cpu.debug_settings()]
    settings = {}
    for path in paths:
        with contextlib.suppress(OSError):
            settings[path.name] = knobs.read_value(path)
    return settings


def running_suspects(most: int = 5) -> tuple[str, ...]:
    """Command lines of running processes that are known to set schedulers, newest first."""
    suspects = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            name = (directory / "comm").read_text().strip()
            words = (directory / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(name.startswith(suspect) for suspect in SUSPECTS):
            line = b" ".join(words).decode(errors="replace").strip() or name
            suspects.append((int(directory.name), f"{directory.name} {line}"))
    return tuple(line for _, line in sorted(suspects, reverse=True)[:most])
