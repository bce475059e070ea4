"""Apply what was decided: set it now, keep it after a reboot, undo it byte by byte.

Order: host journal → scheduler → tunables → read back → record. A kill before the record is undone
by the guardian; a kill after it leaves a setting that `undo` knows.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.app import targets
from schedlab.app.apply import applied
from schedlab.app.apply import machine as apply_machine
from schedlab.app.apply.applied import HEADER, RULES, Applied, rule_text
from schedlab.app.setting_checks import check_allowed, planned_writes
from schedlab.design.candidates import is_one, parse_candidate, parse_candidates
from schedlab.errors import HostError, SpecError
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs, setters, settings, udev, udev_service
from schedlab.host.settings.settings import SettingScope
from schedlab.nouns import Candidate, Target
from schedlab.nouns.results import kernel_release
from schedlab.result import Result
from schedlab.run.candidate_settings import AS_IS

Report = Callable[[str], None]


@dataclass(frozen=True)
class ToApply:
    """The settings of a candidate to apply, and the result that decided, if one did.

    `caveats` say why the result may not hold here.
    """

    candidate: Candidate
    result: str = ""
    headline: str = ""
    caveats: tuple[str, ...] = ()


#: Codes of answers that name nothing to take.
NO_ANSWER = ("nothing", "one-run", "unbounded", "doubt")


def choice_of(
    what: str,
    changes: Sequence[str],
    anyway: bool = False,
    devices: Sequence[str] = (),
    switch: Sequence[str] = (),
) -> ToApply:
    """`what` is a result folder whose verdict names a winner, or settings.

    SpecError saying what a result would need; `anyway` takes its best candidate all the same.
    What that sets beyond the devices, `switch` must name; settings that are typed are allowed.
    """
    if (Path(what) / "experiment.toml").is_file():
        return _with(choice_of_result(Path(what), anyway, devices, switch), changes)
    if switch:
        raise SpecError("--switch is for a RESULT: what is typed is allowed", "omit it")
    name = what.partition("=")[0]
    if (settings.SYSCTL / name.replace(".", "/")).is_file():
        settings.family_of(name)  # raises with the name that it has here
    if settings.is_machine(name):
        return _with(ToApply(Candidate("machine", {})), [what, *changes])
    if is_one(what):
        return _with(ToApply(parse_candidate(what)), changes)
    candidates = parse_candidates(what)
    if len(candidates) != 1:
        raise SpecError(f"{what!r} names {len(candidates)} schedulers", "name one")
    return _with(ToApply(candidates[0]), changes)


def choice_of_result(
    folder: Path, anyway: bool, devices: Sequence[str] = (), switch: Sequence[str] = ()
) -> ToApply:
    """The winner of a result; SpecError where it names none or is of something else."""
    result = Result.load(folder)
    experiment, answer = result.record.experiment, result.answer
    objections = []
    is_kept = answer.keeps and answer.code not in NO_ANSWER and not answer.open_requirements
    if not (answer.applies or is_kept):
        objections.append(result.first_sentence("en").rstrip("."))
    if experiment.kind not in ("io", "cpu"):
        objections.append(f"it is of kind {experiment.kind!r}, not measured on this kernel")
    objections += _measured_elsewhere(experiment.target, devices)
    release = kernel_release(result.record.host)
    if release and release != platform.release():
        objections.append(f"it was measured on Linux {release}, this is {platform.release()}")
    if objections and not anyway:
        raise SpecError(
            f"{folder}: {'; '.join(objections)}",
            "name a scheduler yourself, or add --anyway to apply its best candidate",
        )
    candidate = next((c for c in experiment.candidates if c.label == answer.take), None)
    if candidate is None:
        raise SpecError(f"{folder}: names no best candidate", "name a scheduler yourself")
    names = list(filter(settings.is_beyond, candidate.settings))
    check_allowed(settings.beyond_target(names), switch)
    if unused := [name for name in switch if name not in names]:
        raise SpecError(f"--switch {unused[0]} would change nothing", "omit it")
    if experiment.kind == "cpu":
        candidate = apply_machine.of_result(candidate)
    headline = f"{result.headline()} ({result.reach()})"
    return ToApply(candidate, str(folder.resolve()), headline, tuple(objections))


def _measured_elsewhere(target: Target, devices: Sequence[str]) -> list[str]:
    """Why a result may not hold on these devices."""
    if target.kind == "emulated":
        return ["it was measured on an emulated device, which answers as its model does"]
    names = list(dict.fromkeys(map(knobs.device_name, devices)))
    if target.kind == "scratch" and names:
        return [f"it was measured on a temporary loop device, which answers unlike {names[0]}"]
    measured = targets.disks_named(target)
    known = {Path(name).name for name in measured}
    with contextlib.suppress(HostError):  # a disk that is not here any more
        known |= set(map(knobs.device_name, measured))
    others = [name for name in names if name not in known]
    if others and known:
        return [f"it was measured on {', '.join(sorted(known))}, not on {others[0]}"]
    return []


def _with(choice: ToApply, changes: Sequence[str]) -> ToApply:
    """The choice with `--set KEY=VALUE` on top."""
    values = dict(choice.candidate.settings)
    for text in changes:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise SpecError(f"--set {text!r} is not understood", "write --set nr_requests=64")
        values[key] = value
    return replace(choice, candidate=Candidate(choice.candidate.label, values))


@dataclass(frozen=True)
class Request:
    """Where and how a choice is applied; `root` holds the rule directories (a test's tree).

    `persist` keeps it by a udev rule.
    """

    devices: tuple[str, ...]
    persist: bool = False
    root: Path = Path("/")
    dry_run: bool = False


def apply(choice: ToApply, request: Request, report: Report) -> list[Applied]:
    """Set a choice on devices; with `persist` by a udev rule too. HostError restores everything."""
    for caveat in choice.caveats:
        report(f"note: it may not hold here: {caveat}")
    machine, disks = _divided(choice)
    if machine and request.devices and not disks:
        raise SpecError(f"{next(iter(machine))} belongs to no device", "omit the devices")
    if disks is None:
        return _apply_machine(machine, choice, request, report)
    if not request.devices:
        raise SpecError("no device is named", "name one: schedlab apply bfq /dev/sdb")
    if not machine:
        return _apply_disks(disks, request, report)
    apply_machine.knobs_of(machine)
    records = _apply_disks(disks, request, report)
    return [*records, *_apply_machine(machine, choice, request, report)]


def _divided(choice: ToApply) -> tuple[dict[str, str], ToApply | None]:
    """(settings of the machine, the choice for disks if it has any); SpecError for all others."""
    values = apply_machine.values_of(choice.candidate)
    rest = {k: v for k, v in choice.candidate.settings.items() if k not in values}
    if rest.get("scheduler") == AS_IS:
        del rest["scheduler"]
    if other := [name for name in rest if settings.scope_of(name) != "queue"]:
        raise SpecError(
            f"apply cannot set {', '.join(other)}: it ends with what it was set for",
            "set it where that is started, such as IOWeight= of its systemd unit",
        )
    if rest and "scheduler" not in rest and values:
        raise SpecError(f"{next(iter(rest))} is no setting of the machine", "name a scheduler, too")
    disks = replace(choice, candidate=Candidate(choice.candidate.label, rest)) if rest else None
    return values, disks


def _apply_disks(choice: ToApply, request: Request, report: Report) -> list[Applied]:
    names = tuple(dict.fromkeys(map(knobs.device_name, request.devices)))
    for name in names:
        _check(name, choice, request)
    if request.dry_run:
        for line in planned(names, choice, request):
            report(line)
        return []
    records = []
    with Control(named_devices=names, report=report) as control:
        for name in names:
            queue = knobs.queue_of(name)
            before = knobs.snapshot(queue)
            tunables = dict(choice.candidate.settings)
            change = control.set_scheduler(name, str(tunables.pop("scheduler")), tunables)
            for note in change.notes:
                report(f"note: {name}: {note}")
            records.append(_record(name, choice, before, change.queue))
        records = [_onto(record, applied.find(record.device)) for record in records]
        _keep_after_reboot(records, request, report, control)
    records = [current for name in names if (current := applied.find(name))]
    if ruled := _kept_by(request.root / RULES, records):
        udev_service.reload([record.device for record in ruled], report)
    for record in records:
        for line in warnings(record.device, record.setting, request):
            report(line)
    return records


def _keep_after_reboot(
    records: list[Applied], request: Request, report: Report, control: Control
) -> None:
    """Store the records, and write the rules that keep them.

    A rule that keeps a device from an earlier apply gets the new setting, too: it has no other.
    """
    records = _with_files(records, request)
    with applied.stored(records, control):
        if ruled := _kept_by(request.root / RULES, records):
            _write_rules(ruled, request, report)


def _kept_by(file: Path, records: list[Applied]) -> list[Applied]:
    return [record for record in records if str(file) in record.files]


def _apply_machine(
    values: dict[str, str], choice: ToApply, request: Request, report: Report
) -> list[Applied]:
    """Settings that belong to no device."""
    if request.dry_run:
        for line in apply_machine.planned(values, request.persist, request.root):
            report(line)
        return []
    result = (choice.result, choice.headline)
    return [apply_machine.apply(values, result, request.persist, request.root, report)]


def _check(name: str, choice: ToApply, request: Request) -> None:
    """Refuse what the device does not offer, rules that could not last, and the name of a disk
    that now is another's: its record keeps that one's setting.
    """
    earlier = applied.find(name)
    if earlier and earlier.files and earlier.identity != applied.identity(name):
        raise SpecError(
            f"{name} was another disk ({earlier.identity}), whose setting schedlab keeps at boot",
            f"schedlab undo {name}, then apply to this disk, and again to that one",
        )
    scheduler = knobs.canonical(name, str(choice.candidate.settings.get("scheduler", "")))
    if scheduler not in knobs.offered(name):
        raise knobs.unknown_scheduler(name, scheduler)
    settings.refuse_zoned(knobs.queue_of(name), scheduler)
    for key in choice.candidate.settings:
        if key != "scheduler":
            settings.check_tunable(key, scheduler, knobs.queue_of(name))
    if request.persist and setters.is_nixos(request.root):
        raise SpecError(
            "NixOS makes its udev rules from its configuration: schedlab cannot add a rule",
            f'hardware.block.scheduler = {{ "{name}" = "{scheduler}"; }}; in configuration.nix',
        )
    if request.persist and name.startswith(applied.UNLASTING):
        raise SpecError(
            f"{name}: schedlab writes no lasting rule for a device of this kind",
            "omit --persist, or apply it to the disk below",
        )


def _record(name: str, choice: ToApply, before: dict[str, str], after: object) -> Applied:
    values = dict(after) if isinstance(after, dict) else knobs.snapshot(knobs.queue_of(name))
    queue = knobs.queue_of(name)
    return applied.record_now(
        name,
        applied.identity(name),
        _setting(name, choice.candidate),
        result=choice.result,
        headline=choice.headline,
        originals={str(queue / name): before[name] for name in sorted(before)},
        values={str(queue / name): values[name] for name in sorted(values)},
        instance=applied.instance(name),
    )


def _onto(record: Applied, earlier: Applied | None) -> Applied:
    """A second apply keeps what was before the first.

    What another program set in between, and this apply left alone, stays that program's.
    """
    if earlier is None or earlier.identity != record.identity:
        return record
    record = replace(record, files=earlier.files, written=earlier.written, made=earlier.made)
    if not applied.is_in_effect(earlier):
        return record
    queue = knobs.SYS_BLOCK / record.device / "queue"
    set_now = applied.settings_of(record)
    beside = {p: v for p, v in record.originals.items() if "/iosched/" not in p}
    foreign = {
        path: value
        for path, value in beside.items()
        if earlier.values.get(path, value) != value == record.values.get(path)
        and (name := str(Path(path).relative_to(queue))) not in set_now
        and not applied.goes_with_scheduler(name)  # the kernel's, when another was set in between
    }
    return replace(record, originals={**beside, **earlier.originals, **foreign})


def _setting(device: str, candidate: Candidate) -> str:
    """`SCHEDULER:TUNABLES`, the scheduler as this kernel calls it: files at boot need that name."""
    values = dict(candidate.settings)
    scheduler = knobs.canonical(device, str(values.pop("scheduler")))
    tunables = ",".join(f"{key}={value}" for key, value in values.items())
    return f"{scheduler}:{tunables}" if tunables else scheduler


def _with_files(records: list[Applied], request: Request) -> list[Applied]:
    """The records, which now name the file that keeps them; refuse one that is not ours."""
    if request.persist:
        records = [applied.with_file(record, request.root / RULES) for record in records]
    for name in {name for record in records for name in record.files}:
        applied.refuse_foreign(Path(name))
    return records


def _rules_of(records: list[Applied], path: Path) -> str:
    """Our rule file with these records, and with those of other devices that are in it."""
    every = (*applied.others_in(path, records), *records)
    return HEADER + "\n".join(map(rule_text, every)) + "\n"


def _write_rules(records: list[Applied], request: Request, report: Report) -> None:
    """Write our rule file, whole, and have it checked."""
    path = request.root / RULES
    applied.write_file(path, _rules_of(records, path))
    for line in udev_service.objections(path):
        report(f"note: {line}")


def warnings(
    name: str, setting: str, request: Request, written: Mapping[Path, str] | None = None
) -> list[str]:
    """Who else sets this device, and who wins after a reboot.

    `written` are our files and their texts, where they are still to be written.
    """
    scheduler, _, tunables = setting.partition(":")
    disk = udev.disk(name)
    found = setters.setters_of(disk, request.root, written)
    ours = request.root / RULES
    lines = []
    for each in found:
        if each.file == ours:
            continue
        if each.source == "boot parameter":
            lines.append(f"elevator={each.value} on the kernel command line: Linux ignores it")
            continue
        lines.append(f"also sets it{_unsure(each)}: {each.place} ({each.value})")
    last, plugged = setters.winner_at_boot(found), setters.winner_of_udev(found)
    if last is not None and last.file != ours and last.value != scheduler:
        when = "at the next boot or hot-plug" if last is plugged else "at the next boot"
        lines.append(f"{last.place} wins {when} and sets {last.value}")
    if plugged and plugged is not last and plugged.file != ours and plugged.value != scheduler:
        lines.append(f"{plugged.place} wins at the next hot-plug and sets {plugged.value}")
    mine = {text.partition("=")[0] for text in tunables.split(",")}
    for each in setters.others(disk, request.root):
        if each.file != ours:
            key = each.name.removeprefix("iosched/")
            too = ", as this does" if key in mine else ""
            lines.append(f"{each.place} sets {key} to {each.value}{_unsure(each)}{too}")
    return lines


def _unsure(setter: setters.Setter) -> str:
    return "" if setter.certain else " (perhaps)"


def planned(names: Sequence[str], choice: ToApply, request: Request) -> list[str]:
    """The planned writes as lines."""
    records = [_onto(_record(name, choice, {}, {}), applied.find(name)) for name in names]
    records = _with_files(records, request)
    lines = []
    for name in names:
        writes = planned_writes(choice.candidate, [SettingScope(name)])
        lines += [f"{path} = {value}" for path, value in writes]
    rules, written = request.root / RULES, {}
    if ruled := _kept_by(rules, records):
        written[rules] = _rules_of(ruled, rules)
    lines += [f"{rules}: {rule_text(record)}" for record in ruled]
    for record in records:
        lines += warnings(record.device, record.setting, request, written)
    return lines
