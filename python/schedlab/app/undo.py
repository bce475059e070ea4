"""Undo what was applied, and report what is applied and whether it still holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab.app import applied, apply_cpu, apply_tuned
from schedlab.app.applied import HEADER, Applied
from schedlab.app.apply import RULES, rule_text
from schedlab.errors import HostError, SpecError
from schedlab.host import knobs, setters, udev, udev_service
from schedlab.host.control import Control
from schedlab.store.files import write_atomic

Report = Callable[[str], None]
# What the kernel sets again when the scheduler changes, besides the scheduler's tunables.
SWITCHED = ("scheduler", "nr_requests", "wbt_lat_usec", "async_depth")


def undo(devices: Sequence[str], everything: bool, report: Report) -> list[str]:
    """Restore what was before `apply`; the devices that were undone.

    A value that another program set since is kept and reported. After a reboot only our files are
    removed: the old kernel's values are gone.
    """
    applied.remove_half_records()
    records = applied.load_all()
    if everything:
        chosen = records
    else:
        names = [knobs.device_name(device) if "/" in device else device for device in devices]
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


def _undo(record: Applied, report: Report) -> None:
    """Files first, so that no event in between applies them again; then the knobs."""
    if record.device == apply_cpu.DEVICE:
        apply_cpu.undo(record, report)
        return
    _remove_files(record, report)
    if udev_service.runs() and any(Path(name).name == RULES.name for name in record.files):
        udev_service.reload((), report)
    if not (knobs.SYS_BLOCK / record.device).exists():
        report(f"note: {record.device} is not present: only the files of schedlab were removed")
    elif applied.is_in_effect(record):
        _restore(record, report)
    elif record.boot_id == applied.boot_id():
        report(f"note: {record.device} was connected again since: its former settings are gone")


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


def _restore(record: Applied, report: Report) -> None:
    """Every knob that still has our value gets its original; parents before children."""
    queue = knobs.queue_of(record.device)
    originals, ours = (
        {str(Path(path).relative_to(queue)): value for path, value in values.items()}
        for values in (record.originals, record.values)
    )
    with Control(named_devices=(record.device,), report=report) as control:
        now = knobs.snapshot(queue)
        scheduler = originals.get("scheduler", now["scheduler"])
        if now["scheduler"] not in (scheduler, ours.get("scheduler")):
            place = queue / "scheduler"
            report(f"{place} is {now['scheduler']}, which another program set: it is kept")
            wanted = {name: v for name, v in originals.items() if not _goes_with_scheduler(name)}
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


def _goes_with_scheduler(name: str) -> bool:
    """Whether the kernel sets a file of `queue/` when the scheduler changes."""
    return name.startswith("iosched/") or name in SWITCHED


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
    """What neither was so before, nor is ours, nor the kernel's default: name -> value."""
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
class Status:
    """One applied setting: whether it holds now, and what sets the device at the next boot."""

    record: Applied
    now: str
    holds: bool
    after_reboot: str


def status(root: Path = Path("/")) -> list[Status]:
    """Every applied setting."""
    return [_status(record, root) for record in applied.load_all()]


def status_lines(statuses: Sequence[Status]) -> list[str]:
    """What `schedlab status` prints."""
    lines = []
    for each in statuses:
        record = each.record
        state = "holds" if each.holds else f"changed: it is now {each.now}"
        lines.append(f"{record.device}: {record.setting} since {record.applied_at}, {state}")
        lines.append(f"  after a reboot: {each.after_reboot}")
        if record.result:
            lines.append(f"  by {record.result}: {record.headline}")
    return lines or ["nothing is applied"]


def _status(record: Applied, root: Path) -> Status:
    if record.device == apply_cpu.DEVICE:
        return _cpu_status(record, root)
    wanted = record.setting.partition(":")[0]
    device = applied.present_name(record)
    try:
        queue = knobs.queue_of(device)
        current = knobs.snapshot(queue)
        now = current["scheduler"]
    except (HostError, OSError, KeyError):
        return Status(record, "the device is not present", False, "unknown")
    same_boot = record.boot_id == applied.boot_id()
    checked = {path.partition("/queue/")[2]: value for path, value in record.values.items()}
    holds = now == wanted and (
        not same_boot or all(knobs.same(current.get(k, ""), v) for k, v in checked.items())
    )
    last = setters.winner_at_boot(setters.of(udev.disk(device), root))
    after = f"{last.value} ({last.file.name})" if last else "the kernel's default"
    return Status(record, now, holds, after)


def _cpu_status(record: Applied, root: Path) -> Status:
    """Settings of the CPU scheduler: their values now, and the file that sets each at boot."""
    now, after, holds = [], [], True
    for path, value in record.values.items():
        name = Path(path).name
        current = knobs.read_value(path) if Path(path).exists() else "absent"
        holds = holds and knobs.same(current, value)
        settings = apply_cpu.settings_in(root, Path(path))
        then = f"{settings[-1][1]} ({settings[-1][0].name})" if settings else "the kernel's default"
        now.append(f"{name}={current}")
        after.append(then if len(record.values) == 1 else f"{name}: {then}")
    return Status(record, ", ".join(now), holds, ", ".join(after))
