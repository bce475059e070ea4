"""Undo what was applied, and report what is applied and whether it still holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab.app import applied, apply_cpu, apply_tuned
from schedlab.app.applied import HEADER, Applied
from schedlab.app.apply import RULES, UDEV_CONTROL, reload_rules, rule_text
from schedlab.errors import HostError, SpecError
from schedlab.host import knobs, udev
from schedlab.host.control import Control
from schedlab.store.files import write_atomic

Report = Callable[[str], None]


def undo(devices: Sequence[str], everything: bool, report: Report) -> list[str]:
    """Restore what was before `apply`; the devices that were undone.

    A value that somebody else set since is left and reported. After a reboot only our files are
    removed: the old kernel's values are gone.
    """
    records = applied.load_all()
    if everything:
        chosen = records
    else:
        names = [knobs.device_name(device) if "/" in device else device for device in devices]
        chosen = [record for record in records if record.device in names]
        if missing := [name for name in names if name not in {r.device for r in chosen}]:
            raise SpecError(f"{missing[0]}: nothing of ours is applied there", "schedlab status")
    for record in chosen:
        if record.device == apply_cpu.DEVICE:
            apply_cpu.undo(record, report)
            applied.forget(record.device)
            continue
        _remove_files(record, report)
        if UDEV_CONTROL.exists() and any(Path(name).name == RULES.name for name in record.files):
            reload_rules((), report)
        if not (knobs.SYS_BLOCK / record.device).exists():
            report(f"note: {record.device} is not there: only our files were removed")
        elif record.boot_id == applied.boot_id():
            _restore(record, report)
        applied.forget(record.device)
    return [record.device for record in chosen]


def _remove_files(record: Applied, report: Report) -> None:
    """Our rule file without this device's line; removed when no line is left."""
    for name in record.files:
        path = Path(name)
        if apply_tuned.is_profile(path):
            apply_tuned.remove(record, path, report)
        if path.name != RULES.name:
            continue
        others = [r for r in applied.load_all() if name in r.files and r.device != record.device]
        try:
            found = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            report(f"note: {path} was removed by somebody else")
            continue
        if not found.startswith(HEADER):
            report(f"note: {path} was changed by somebody else and is left")
        elif others:
            write_atomic(path, HEADER + "\n".join(map(rule_text, others)) + "\n")
        else:
            path.unlink()


def _restore(record: Applied, report: Report) -> None:
    """Every knob that still has our value gets its original; parents before children."""
    queue = knobs.queue_of(record.device)
    current = knobs.snapshot(queue)
    paths = {path: Path(path).relative_to(queue) for path in record.originals}
    foreign = [
        path
        for path, name in paths.items()
        if path in record.values and not knobs.same(current.get(str(name), ""), record.values[path])
    ]
    scheduler = str(queue / "scheduler")
    if scheduler in foreign:
        report(f"{scheduler} is {current['scheduler']}, which somebody else set: it is left")
        return
    for path in foreign:
        report(f"{path} was changed by somebody else since: it is left")
    with Control(named_devices=(record.device,), report=report) as control:
        if scheduler in record.originals:
            control.set_scheduler(record.device, record.originals[scheduler])
        now = knobs.snapshot(queue)
        # nr_requests last: other settings reset it.
        for path in sorted(record.originals, key=lambda p: (p.endswith("nr_requests"), p)):
            name = str(paths[path])
            wanted = record.originals[path]
            if path == scheduler or path in foreign or name not in now or now[name] == wanted:
                continue
            if knobs.writable(path):
                control.write_knob(path, wanted)
        control.keep()
    left = knobs.snapshot(queue)
    wrong = [
        path
        for path, name in paths.items()
        if path not in foreign and left.get(str(name)) != record.originals[path]
    ]
    if wrong:
        raise HostError(
            f"{wrong[0]} could not be restored to {record.originals[wrong[0]]}",
            f"echo {record.originals[wrong[0]]} > {wrong[0]}",
        )


@dataclass(frozen=True)
class Status:
    """One applied setting: whether it holds now, and what sets the device at the next boot."""

    record: Applied
    now: str
    holds: bool
    after_reboot: str


def status(root: Path = Path("/")) -> list[Status]:
    """Every applied setting."""
    return [_status(record, root) for record in applied.load_all()]


def _status(record: Applied, root: Path) -> Status:
    if record.device == apply_cpu.DEVICE:
        return _slice_status(record, root)
    wanted = record.setting.partition(":")[0]
    try:
        queue = knobs.queue_of(record.device)
        current = knobs.snapshot(queue)
        now = current["scheduler"]
    except (HostError, OSError, KeyError):
        return Status(record, "device is not there", False, "unknown")
    same_boot = record.boot_id == applied.boot_id()
    checked = {str(Path(path).relative_to(queue)): value for path, value in record.values.items()}
    holds = now == wanted and (
        not same_boot or all(knobs.same(current.get(k, ""), v) for k, v in checked.items())
    )
    last = udev.winner(udev.scheduler_settings(udev.disk(record.device), root))
    after = f"{last.value} ({last.file.name})" if last else "the kernel's default"
    return Status(record, now, holds, after)


def _slice_status(record: Applied, root: Path) -> Status:
    """The CPU's slice: its value now, and the sysctl.d file that sets it at the next boot."""
    ((path, value),) = record.values.items()
    now = knobs.read_value(path)
    settings = apply_cpu.settings_in(root)
    after = f"{settings[-1][1]} ({settings[-1][0].name})" if settings else "the kernel's default"
    return Status(record, now, knobs.same(now, value), after)
