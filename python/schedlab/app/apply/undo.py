"""Undo what was applied, and report what is applied and whether it still holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab.app.apply import applied
from schedlab.app.apply import machine as apply_machine
from schedlab.app.apply.applied import HEADER, RULES, Applied, goes_with_scheduler, rule_text
from schedlab.errors import HostError, SpecError
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs, setters, settings, udev, udev_service
from schedlab.store.files import write_atomic

Report = Callable[[str], None]


def undo(devices: Sequence[str], everything: bool, report: Report) -> list[str]:
    """Restore what was before `apply`; the devices that were undone.

    A value that another program set since is kept and reported. After a reboot only our files are
    removed: the old kernel's values are gone.
    """
    applied.remove_half_records()
    records = applied.load_all()
    if everything or (not devices and len(records) == 1):
        chosen = records
    elif not devices:
        raise _unnamed([record.device for record in records])
    else:
        names = [_record_name(device) for device in devices]
        chosen = [record for record in records if record.device in names]
        if missing := [name for name in names if name not in {r.device for r in chosen}]:
            sudo = "sudo " if os.geteuid() else ""  # records of root are not everybody's to read
            message = f"{missing[0]}: schedlab applied nothing there"
            raise SpecError(message, f"{sudo}schedlab status")
    for record in chosen:
        _undo(record, report)
        applied.remove_traces(record)
        applied.forget(record.device)
    return [record.device for record in chosen]


def _unnamed(devices: Sequence[str]) -> SpecError:
    """The error where it is not clear what is to be undone."""
    if not devices:
        return SpecError("nothing is applied", "schedlab status")
    text = f"{', '.join(devices)} are applied: name one"
    return SpecError(text, f"schedlab undo {devices[0]}, or --all")


def _record_name(device: str) -> str:
    if "/" in device:
        return knobs.device_name(device)
    is_machine = device in apply_machine.NAMES and applied.find(device) is None
    return apply_machine.DEVICE if is_machine else device


def _undo(record: Applied, report: Report) -> None:
    """Files first, so that no event in between applies them again; then the knobs."""
    if record.device in apply_machine.NAMES:
        apply_machine.undo(record, report)
        return
    _remove_files(record, report)
    if udev_service.runs() and any(Path(name).name == RULES.name for name in record.files):
        udev_service.reload((), report)
    if not (knobs.SYS_BLOCK / record.device).exists():
        report(f"note: {record.device} is not present: only the files of schedlab were removed")
    elif applied.is_in_effect(record):
        _restore(record, report, applied.has_medium(record.device))
    elif record.boot_id == applied.boot_id():
        report(f"note: {record.device} was connected again since: its former settings are gone")


def _remove_files(record: Applied, report: Report) -> None:
    """Our rule file without this device's line; removed when no line is left."""
    for name in record.files:
        path = Path(name)
        if path.name != RULES.name:
            if path.exists():
                report(f"note: {path} stays: an earlier version of schedlab wrote it; remove it")
            continue
        others = applied.others_in(path, [record])
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            report(f"note: {path} no longer exists")
            continue
        if not applied.is_ours(text):
            report(f"note: {path} was changed by another program; it is kept")
        elif others:
            write_atomic(path, HEADER + "\n".join(map(rule_text, others)) + "\n")
        else:
            applied.remove_file(path)


def _restore(record: Applied, report: Report, has_medium: bool) -> None:
    """Every knob that still has our value gets its original; parents before children.

    Without a medium (a loop device without a file) the kernel has reset the limits of the device:
    only the scheduler and what goes with it are left to restore.
    """
    queue = knobs.queue_of(record.device)
    originals, ours = (
        {str(Path(path).relative_to(queue)): value for path, value in values.items()}
        for values in (record.originals, record.values)
    )
    if not has_medium:
        originals = {name: v for name, v in originals.items() if goes_with_scheduler(name)}
    with Control(named_devices=(record.device,), report=report) as control:
        now = knobs.snapshot(queue)
        scheduler = originals.get("scheduler", now["scheduler"])
        if now["scheduler"] not in (scheduler, ours.get("scheduler")):
            place = queue / "scheduler"
            report(f"{place} is {now['scheduler']}, which another program set: it is kept")
            wanted = {name: v for name, v in originals.items() if not goes_with_scheduler(name)}
            foreign = _foreign(now, (wanted, ours))
        else:
            defaults = _made_fresh(control, record.device, originals, now)
            wanted = originals
            foreign = _foreign(now, (originals, ours, defaults))
            if now["scheduler"] != scheduler:  # the tunables ended with our scheduler
                foreign = {k: v for k, v in foreign.items() if not k.startswith("iosched/")}
        for name in sorted(foreign):
            report(f"{queue / name} was changed by another program since: it is kept")
        _write_all(control, queue, {**wanted, **foreign})
        control.keep()
    left = knobs.snapshot(queue)
    for name, value in wanted.items():
        if name not in foreign and name in left and left[name] != value:
            path = queue / name
            raise HostError(f"{path} could not be restored to {value}", f"echo {value} > {path}")


def _made_fresh(
    control: Control, device: str, originals: Mapping[str, str], now: Mapping[str, str]
) -> dict[str, str]:
    """Set the original scheduler if it or a tunable differs; the kernel's defaults of these."""
    names = [n for n in originals if n == "scheduler" or n.startswith("iosched/")]
    if all(now.get(name) == originals[name] for name in names):
        return {}
    fresh = control.set_scheduler(device, originals.get("scheduler", now["scheduler"])).queue
    return {name: value for name, value in fresh.items() if name.startswith("iosched/")}


def _foreign(now: Mapping[str, str], known: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Values that are neither the old ones, nor ours, nor the kernel's defaults: name -> value."""
    return {
        name: value
        for name, value in now.items()
        if name in known[0]
        and name != "scheduler"
        and not any(knobs.same(value, each[name]) for each in known if name in each)
    }


def _write_all(control: Control, queue: Path, wanted: Mapping[str, str]) -> None:
    """Write what differs; `nr_requests` last, because other settings reset it."""
    now = knobs.snapshot(queue)
    for name in sorted(wanted, key=lambda name: (name == "nr_requests", name)):
        differs = name in now and not knobs.same(now[name], wanted[name])
        if differs and name != "scheduler" and knobs.writable(queue / name):
            control.write_knob(queue / name, wanted[name])


@dataclass(frozen=True)
class Drift:
    """A setting that is not as it was applied: its name, the value that was set, what it reads."""

    key: str
    wanted: str
    found: str


@dataclass(frozen=True)
class Status:
    """One applied setting: whether it holds now, and what sets the device at the next boot.

    `gone` is why it ended with its device or boot; else `drift` is what has changed since.
    """

    record: Applied
    holds: bool
    after_reboot: str
    drift: tuple[Drift, ...] = ()
    gone: str = ""


def status(root: Path = Path("/")) -> list[Status]:
    """Every applied setting."""
    return [_status(record, root) for record in applied.load_all()]


def status_lines(statuses: Sequence[Status]) -> list[str]:
    """The lines of `schedlab status`."""
    lines = []
    for each in statuses:
        record = each.record
        state = "holds" if each.holds else each.gone or "changed since:"
        lines.append(f"{record.device}: {record.setting} since {record.applied_at}, {state}")
        lines += [f"  {d.key}: {d.wanted} was set, it is {d.found}" for d in each.drift]
        lines.append(f"  after a reboot: {each.after_reboot}")
        if record.result:
            lines.append(f"  by {record.result}: {record.headline}")
    return lines or ["nothing is applied"]


def _status(record: Applied, root: Path) -> Status:
    if record.device in apply_machine.NAMES:
        return _machine_status(record, root)
    device = applied.present_name(record)
    queue = knobs.SYS_BLOCK / device / "queue"
    try:
        now = knobs.snapshot(queue)
        last = setters.winner_at_boot(setters.setters_of(udev.disk(device), root))
    except (HostError, OSError):
        now, last = {}, None
    after = f"{last.value} ({last.file.name})" if last else "the kernel's default"
    if gone := _gone(record, device):
        return Status(record, False, after if now else "unknown", gone=gone)
    if applied.is_in_effect(record):
        wanted = {path.partition("/queue/")[2]: value for path, value in record.values.items()}
    else:  # set again at this boot by its rule: only what the rule sets
        wanted = applied.settings_of(record)
    drift = _drift(wanted, now)
    return Status(record, not drift, after, drift)


def _gone(record: Applied, device: str) -> str:
    """Why a setting ended with its device or its boot; empty where it should still hold."""
    home = knobs.SYS_BLOCK / device
    if not (home / "queue").is_dir():
        return "the device is not present"
    if not applied.has_medium(device):
        return "no file is attached to the device any more"
    if applied.is_in_effect(record) or record.files:
        return ""
    if record.boot_id != applied.boot_id():
        return "it ended with the last boot"
    return "the device was connected again since"


def _drift(wanted: Mapping[str, str], now: Mapping[str, str]) -> tuple[Drift, ...]:
    """Settings that differ; of another scheduler only its name: its tunables are its own."""
    drift = [
        Drift(key, value, now.get(key, "absent"))
        for key, value in wanted.items()
        if not knobs.same(now.get(key, ""), value)
    ]
    if any(each.key == "scheduler" for each in drift):
        drift = [d for d in drift if d.key == "scheduler" or not goes_with_scheduler(d.key)]
    return tuple(sorted(drift, key=lambda d: (d.key != "scheduler", d.key)))


def _machine_status(record: Applied, root: Path) -> Status:
    """Settings of the machine: their values now, and the file that sets each at boot."""
    drift, after = [], []
    values = knobs.one_of_each(record.values)
    for path, value in values.items():
        name = settings.name_of(Path(path))
        current = knobs.read_value(path) if Path(path).exists() else "absent"
        if not knobs.same(current, value):
            drift.append(Drift(name, value, current))
        found = apply_machine.settings_in(root, Path(path))
        then = f"{found[-1][1]} ({found[-1][0].name})" if found else "the kernel's default"
        after.append(then if len(values) == 1 else f"{name}: {then}")
    gone = ""
    if drift and record.boot_id != applied.boot_id() and not record.files:
        gone, drift = "it ended with the last boot", []
    return Status(record, not (drift or gone), ", ".join(after), tuple(drift), gone)
