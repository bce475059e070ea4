"""Boots as blocks: `schedlab boots` measures one experiment under kernels and boot parameters.

    DIR/boots.json           the plan: every boot in its order, and the experiment
    DIR/boots.jsonl          what happened, a line each: chosen, measuring, done, foreign, killed, …
    DIR/boots/KIND/ROUND/    the result folder of a boot; DIR/killed/ has those that did not end
    DIR/result/              all whole rounds as one result: kinds are candidates, rounds sessions

A boot is measured only if it began after the plan chose it, with the kernel and the command line
that the plan names. What outlives a reboot (the next boot entry, the unit) is written to the
lasting directory before it is done, so that `boots end` and `recover` undo it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schedlab.app.admit import admit, require_unchanged
from schedlab.app.measure import measure
from schedlab.app.measure.measure import SILENT, Observer
from schedlab.design.boots import BootPlan, is_other, parse_kind, plan_boots
from schedlab.errors import HostError, Interrupted, SchedlabError, SpecError, cause_of
from schedlab.host import bootloader as loaders
from schedlab.host.safety import journal, origin
from schedlab.host.safety.boots_held import Held, give_back, held, held_file
from schedlab.nouns import ATTEMPTS_MAX, Experiment, Plan, Record, from_json, to_json
from schedlab.nouns.checked_line import decode, encode
from schedlab.result import Result
from schedlab.run.admitted import Permission
from schedlab.store.files import make_directory, read_beneath, write_atomic
from schedlab.store.folder import EXPERIMENT, Folder
from schedlab.store.lines import LineFile

PLAN, HISTORY = "boots.json", "boots.jsonl"
BOOTS, RESULT, KILLED = "boots", "result", "killed"
UNIT = Path("etc/systemd/system/schedlab-boots.service")
WANTED = Path("etc/systemd/system/multi-user.target.wants/schedlab-boots.service")
#: Events after which a boot is no fresh one.
USED = ("init", "measuring", "done", "foreign")


def planned(experiment: Experiment, texts: Sequence[str], rounds: int, command: str) -> BootPlan:
    """The boots of kinds as typed, `rounds` of each, beside the kernel that runs now. The `command`
    that boots them is run where it was typed, from wherever the plan goes on.
    """
    release, usual = running()
    command = command and f"cd {shlex.quote(str(Path.cwd()))} && {command}"
    kinds = [parse_kind(text, release) for text in texts]
    return plan_boots(experiment, kinds, rounds, usual, command)


def create(path: Path, plan: BootPlan, permission: Permission, root: Path = Path("/")) -> Boots:
    """A new plan in `path`; SpecError or HostError before anything is written.

    The experiment must be admitted, and the boot loader must know every kernel; a command is tried.
    """
    plan = replace(plan, experiment=admit(plan.experiment, permission).experiment)
    loader = loaders.bootloader(plan.command, root)
    for kind in plan.kinds:
        loader.check(kind.label, kind.kernel, kind.cmdline)
    if (other := held()) and Path(other.directory) != path.resolve():
        raise SpecError(f"boots of {other.directory} are under way", "schedlab boots end")
    if path.exists() and any(path.iterdir()):
        raise SpecError(f"{path}: is not empty", "name another folder with --out")
    if plan.command:
        loader.reset()
    make_directory(path)
    _write_plan(path, plan)
    boots = Boots(path, root)
    boots.append("init")
    boots.hold()
    return boots


class Boots:
    """A plan of boots on disk."""

    def __init__(self, path: Path | None = None, root: Path = Path("/")) -> None:
        """That in `path`, else the one under way. SpecError where there is none."""
        known = held()
        if path is None and known is None:
            raise SpecError("no boots are under way", "name their folder: schedlab boots next DIR")
        self.path = (path or Path(known.directory)).resolve()  # type: ignore[union-attr]
        self.root = Path(known.root) if known else root
        file = self.path / PLAN
        try:
            data = decode(read_beneath(self.path, PLAN).removesuffix(b"\n"))
        except (OSError, ValueError) as error:
            message = f"{self.path}: has no plan of boots: {cause_of(error)}"
            raise SpecError(message, "schedlab boots init FILE") from error
        plain, self.is_ours = origin.unsealed(data)
        self.plan = from_json(BootPlan, plain, str(file))
        self._history = LineFile(self.path / HISTORY)
        self.events = self._history.read()

    def append(self, event: str, number: int | None = None, **more: str) -> None:
        """Note what happened in this boot, durably."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        entry: dict[str, object] = {"event": event, "boot": journal.boot_id(), "at": at, **more}
        if number is not None:
            entry["number"] = number
        self._history.append(entry)
        self.events.append(entry)

    @property
    def done(self) -> set[int]:
        """The boots that were measured."""
        return {event["number"] for event in self.events if event["event"] == "done"}

    @property
    def due(self) -> int | None:
        """The boot that is to be measured next; None when all are."""
        return next((n for n in range(self.plan.boots) if n not in self.done), None)

    @property
    def rounds(self) -> int:
        """The rounds that are whole."""
        return (self.plan.boots if self.due is None else self.due) // len(self.plan.kinds)

    def extend(self, rounds: int) -> None:
        """Announce more rounds; SpecError for fewer."""
        ends = self.plan.ends
        if rounds <= ends[-1]:
            raise SpecError(f"{ends[-1]} boots of each are planned", f"--boots {ends[-1] + 2}")
        self.plan = replace(self.plan, ends=(*ends, rounds))
        _write_plan(self.path, self.plan)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Held by one process at a time; HostError where another works on it."""
        handle = os.open(self.path / PLAN, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            message = f"{self.path}: another `schedlab boots next` is measuring"
            raise HostError(message, "schedlab boots status") from error
        finally:
            os.close(handle)

    def next(
        self, permission: Permission, observer: Observer = SILENT, rounds: int | None = None
    ) -> Result | None:
        """Measure what is due if this is its boot, then choose the next boot: None, reboot now.

        After the last one: the result, and the machine boots its default again. HostError when a
        boot failed three times; the default is restored then, too. SpecError for a plan from
        elsewhere without trust; more `rounds` are announced before that.
        """
        origin.check(self.path, self.is_ours, permission.trust)
        if rounds:
            self.extend(rounds)
        with self.alone():
            due = self.due
            if due is not None and self._is_here(due, observer):
                self._measure(due, permission, observer)
            if self.due is None:
                return self.end(observer)
            self._choose(self.due)
            return None

    def end(self, observer: Observer = SILENT) -> Result | None:
        """Restore the boot loader, and join the whole rounds; None where there is none yet."""
        if (of := held()) and Path(of.directory) == self.path:
            observer.report(give_back()[0])
        return Result(joined(self)) if self.rounds else None

    def hold(self, *files: Path, entry: str | None = None) -> None:
        """Note what outlives a reboot before it is done: files, the entry of the next boot."""
        known = held() or Held(str(self.path), self.plan.command, str(self.root))
        if Path(known.directory) != self.path:
            raise SpecError(f"boots of {known.directory} are under way", "schedlab boots end")
        names = dict.fromkeys([*known.files, *map(str, files)])
        chosen = known.entry if entry is None else entry
        file = held_file()
        make_directory(file.parent)
        noted = replace(known, files=tuple(names), entry=chosen)
        write_atomic(file, encode(to_json(noted)) + "\n")

    def install_unit(self, words: Sequence[str]) -> None:
        """Have systemd go on after every reboot: `schedlab boots next DIR --reboot WORDS`."""
        unit, wanted = self.root / UNIT, self.root / WANTED
        self.hold(wanted, unit)
        loaders.write_file(unit, unit_text(self.path, words))
        wanted.parent.mkdir(parents=True, exist_ok=True)
        wanted.unlink(missing_ok=True)
        wanted.symlink_to(f"../{unit.name}")

    def lines(self, words: Sequence[str] = ()) -> list[str]:
        """Where the plan is, what went wrong, and what to do next: `next` with these WORDS."""
        plan, due = self.plan, self.due
        lines = [f"{len(self.done)} of {plan.boots} boots of {self.path} are measured"]
        for event in self.events:
            if "number" in event and event["event"] not in ("chosen", "measuring", "done"):
                label, boot = plan.kind_of(event["number"]).label, event.get("of", event["boot"])
                what = f"{event['event']} in boot {boot[:8]}"
                detail = f": {event['detail']}" if "detail" in event else ""
                lines.append(f"  {event['number'] + 1} {label}: {what}{detail}")
        if due is None:
            return [*lines, f"Result  {self.path / RESULT}"]
        kind, command = plan.kind_of(due), ["schedlab", "boots", "next", str(self.path), *words]
        what = f"Linux {kind.kernel} {kind.cmdline}".strip()
        # None where a kill cut `init` short.
        chosen = [(event["event"], event["boot"]) for event in self.events[-1:]]
        is_chosen = chosen == [("chosen", journal.boot_id())]
        then = "reboot, then " if is_chosen else ""
        name = "" if kind.label == kind.kernel else f"{kind.label}: "
        return [*lines, f"Next    {name}{what}: {then}{shlex.join(command)}"]

    def as_json(self) -> dict[str, object]:
        """As plain JSON types."""
        plan, due = self.plan, self.due
        order = [plan.kind_of(number).label for number in range(plan.boots)]
        return {"directory": str(self.path), "order": order, "done": sorted(self.done),
                "due": due, "kinds": to_json(plan.kinds), "events": self.events}  # fmt: skip

    def _is_here(self, due: int, observer: Observer) -> bool:
        """Whether this boot is the due one; notes a killed one before it, and a foreign one."""
        kind, boot = self.plan.kind_of(due), journal.boot_id()
        last: dict[str, object] = next(
            (e for e in reversed(self.events) if e.get("number") == due), {}
        )
        if last.get("event") in ("measuring", "failed"):
            if last["boot"] == boot:
                return True
            self._set_aside(due, last)
            observer.report(f"boot {due + 1} ({kind.label}) did not end; it is repeated")
        if any(e["event"] in USED and e["boot"] == boot for e in self.events):
            return False
        reason = is_other(self.plan, kind, *running())
        # After a killed boot comes the default, which nobody chose.
        if reason and last.get("event") == "chosen" and last["boot"] != boot:
            self.append("foreign", due, detail=reason)
            observer.report(f"this is not boot {due + 1} ({kind.label}): {reason}")
        return not reason

    def _set_aside(self, number: int, begun: dict[str, Any]) -> None:
        """Move the folder of a boot that was killed away, and note that."""
        folder = self.path / BOOTS / self.plan.folder_of(number)
        if folder.exists():
            aside = self.path / KILLED / f"{number + 1:03d}-{begun['boot'][:8]}"
            make_directory(aside.parent)
            folder.rename(aside)
        self.append("killed", number, of=begun["boot"])

    def _measure(self, number: int, permission: Permission, observer: Observer) -> None:
        """Measure a boot, or the rest of it when only the process was killed."""
        kind = self.plan.kind_of(number)
        admitted = require_unchanged(admit(self.plan.experiment_of(number), permission))
        observer.report(f"boot {number + 1} of {self.plan.boots}: {kind.label}")
        self.append("measuring", number)
        path = self.path / BOOTS / self.plan.folder_of(number)
        try:
            if (path / EXPERIMENT).is_file():
                folder = Folder.open(path)
                measure.check_resumable(folder, observer)
            else:
                shutil.rmtree(path, ignore_errors=True)
                folder = measure.create(admitted, path)
            measure.measure(admitted, folder, observer=observer)
        except Interrupted as error:
            raise Interrupted(str(error), f"schedlab boots next {self.path}") from error
        except SchedlabError as error:
            self.append("failed", number, detail=str(error))
            raise
        self.append("done", number)

    def _choose(self, number: int) -> None:
        """Have this boot be the next one; HostError when that failed too often."""
        kind = self.plan.kind_of(number)
        tried = [e for e in self.events if e.get("number") == number]
        given_up = [i for i, e in enumerate(tried) if e["event"] == "given-up"]
        failed = [e for e in tried[given_up[-1] + 1 if given_up else 0 :]
                  if e["event"] in ("foreign", "killed")]  # fmt: skip
        if len(failed) >= ATTEMPTS_MAX:
            self.append("given-up", number)
            give_back()
            reason = failed[-1].get("detail", "it did not end")
            raise HostError(
                f"boot {number + 1} ({kind.label}) failed {len(failed)} times: {reason}",
                f"the default is booted again; try again: schedlab boots next {self.path}",
            )
        loader = loaders.bootloader(self.plan.command, self.root)
        self.hold(entry=loader.check(kind.label, kind.kernel, kind.cmdline))
        self.append("chosen", number)
        loader.boot_once(kind.label, kind.kernel, kind.cmdline)


def _write_plan(path: Path, plan: BootPlan) -> None:
    write_atomic(path / PLAN, encode(origin.sealed(to_json(plan))) + "\n")


def running() -> tuple[str, str]:
    """(release, command line) of the kernel that runs."""
    return platform.release(), Path("/proc/cmdline").read_text().strip()


def reboot() -> None:
    """Reboot this machine now."""
    command = ["systemctl", "reboot"] if Path("/run/systemd/system").exists() else ["reboot"]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostError(f"cannot reboot: {cause_of(error)}", "reboot by hand") from error


def unit_text(path: Path, words: Sequence[str]) -> str:
    """The unit of systemd that measures the next boot, and reboots."""
    command = [sys.executable, "-m", "schedlab", "boots", "next", str(path), "--reboot", *words]
    settings = {name: os.environ.get(name) for name in
                (journal.STATE_VARIABLE, journal.LASTING_VARIABLE)}  # fmt: skip

    def quoted(word: str) -> str:
        plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
        return f'"{plain.replace("$", "$$")}"'

    environment = [f"Environment={quoted(f'{name}={value}')}\n"
                   for name, value in settings.items() if value]  # fmt: skip
    return (
        f"# Made by: {shlex.join(['schedlab', *sys.argv[1:]])}\n"
        "# Removed by: schedlab boots end\n"
        "[Unit]\nDescription=schedlab: measure this boot, then the next\nAfter=multi-user.target\n"
        f"\n[Service]\nType=oneshot\nWorkingDirectory={str(Path.cwd()).replace('%', '%%')}\n"
        f"{''.join(environment)}ExecStart={' '.join(map(quoted, command))}\n"
        "\n[Install]\nWantedBy=multi-user.target\n"
    )


def joined(boots: Boots) -> Folder:
    """The whole rounds as one result, made again; SpecError where there is none."""
    plan, rounds = boots.plan, boots.rounds
    if not rounds:
        raise SpecError("no round of boots is whole: there is no result", "schedlab boots next")
    numbers = range(rounds * len(plan.kinds))
    folders = [Folder.open(boots.path / BOOTS / plan.folder_of(number)) for number in numbers]
    shutil.rmtree(boots.path / RESULT, ignore_errors=True)
    return join(plan, folders, boots.path / RESULT)


def join(
    plan: BootPlan, folders: Sequence[Folder], out: Path, facts: Mapping[str, Any] | None = None
) -> Folder:
    """The folders of the first boots of a plan, of whole rounds, as one; `facts` of its own."""
    numbers, rounds = range(len(folders)), len(folders) // len(plan.kinds)
    records = [folder.record() for folder in folders]
    blocks = plan.experiment.stopping.blocks
    moved = [_moved(plan, n, record) for n, record in zip(numbers, records, strict=True)]
    stopping = replace(plan.experiment.stopping, blocks=rounds * blocks, sessions=rounds)
    experiment = replace(
        plan.experiment, candidates=plan.candidates, stopping=stopping,
        baseline=plan.label(plan.kinds[0], plan.experiment.baseline),
    )  # fmt: skip
    cells = tuple(cell for record in moved for cell in record.plan.cells)
    ends = tuple(end * blocks for end in plan.ends)
    host = {**_facts(plan, numbers, records), **(facts or {})}
    result = Folder.create(out, experiment, Plan(cells, ends), host)
    for folder, record, own in zip(folders, moved, records, strict=True):
        for run, old in zip(record.runs, own.runs, strict=True):
            result.append(run, folder.raw_of(old))
    return result


def _moved(plan: BootPlan, number: int, record: Record) -> Record:
    """The cells and runs of a boot, where the joined result has them: the round is the session."""
    kind, place = plan.kind_of(number), number % len(plan.kinds)
    arms = len(record.experiment.candidates) * len(record.experiment.workloads)
    first = plan.round_of(number) * plan.experiment.stopping.blocks
    cells = tuple(
        replace(
            cell, block=cell.block + first, position=cell.position + place * arms,
            candidate=plan.label(kind, cell.candidate),
        )
        for cell in record.plan.cells
    )  # fmt: skip
    runs = tuple(
        replace(
            run, block=run.block + first, position=run.position + place * arms, raw={},
            candidate=plan.label(kind, run.candidate), session=f"round{plan.round_of(number) + 1}",
            properties={**run.properties, "boot": run.session.partition("-")[0]},
        )
        for run in record.runs
    )  # fmt: skip
    return replace(record, plan=Plan(cells), runs=runs)


def _facts(plan: BootPlan, numbers: Sequence[int], records: Sequence[Record]) -> dict[str, object]:
    """Facts that all boots share, and those of each of several kinds, from its first boot."""
    common = _common([record.host for record in records])
    if len(plan.kinds) == 1:
        return common
    kinds = {plan.kind_of(n).label: dict(records[n].host) for n in reversed(numbers)}
    return {**common, "boots": kinds}


def _common(tables: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """The entries that are equal in all tables, and in the tables inside them."""
    common: dict[str, object] = {}
    for key, value in tables[0].items():
        others = [table.get(key) for table in tables]
        if all(isinstance(other, Mapping) for other in others):
            common[key] = _common(others)  # type: ignore[arg-type]
        elif all(other == value for other in others):
            common[key] = value
    return common
