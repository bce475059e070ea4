"""A fleet: measure on many machines, join what comes home, apply what the answer is. The roles of
the collection in `ansible/` do the work on the machines; this starts its playbooks and reads what
happened.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab import report
from schedlab.app.fleet.merge import merge
from schedlab.app.measure.measure import default_folder
from schedlab.design.candidates import parse_candidates
from schedlab.errors import HostError, Interrupted, SchedlabError, SpecError, cause_of, to_install
from schedlab.host.settings.settings import is_beyond
from schedlab.nouns import Experiment
from schedlab.nouns.names import is_kernel_name, safe_name
from schedlab.package import tree
from schedlab.result import Result
from schedlab.store.files import DATA_FILTER, DEPTH_MAX
from schedlab.store.folder import Folder

# Events of ansible-runner that end the work on a host.
FAILED = {"runner_on_failed": "failed", "runner_on_unreachable": "not reached"}
# A connection for each task instead of three, and more hosts at a time, unless the user says else.
FASTER = {"ANSIBLE_PIPELINING": "True", "ANSIBLE_FORKS": "20"}
# What a host does while tasks of a role run.
DOES = {"install": "installing", "measure": "measuring", "fetch": "fetching"}
# `runs DONE TOTAL` or `died DONE TOTAL`, as a machine prints it.
COUNTS = re.compile(r"(runs|died) (\d{1,9}) (\d{1,9})\b")
# A machine may print and send anything: as much of it is taken.
OUTPUT_MAX, REASON_MAX = 1 << 20, 1000
UNPACKED_MAX_BYTES, MEMBERS_MAX = 512 << 20, 100_000
Show = Callable[[str, str], None]  # name of a host, what it does


@dataclass(frozen=True)
class Machines:
    """Which machines, and with which variables of the roles."""

    inventory: Path
    limit: str = ""
    variables: Mapping[str, Any] | None = None


@dataclass
class HostState:
    """The result of a playbook on one host; `output` is that of its last command."""

    text: str = ""
    failed: bool = False
    output: str = ""


@dataclass(frozen=True)
class Measured:
    """`folders` came home; `missing` are the other hosts, each with the reason."""

    folders: tuple[Path, ...]
    missing: Mapping[str, str]


def playbook(name: str) -> Path:
    """The file of a playbook of the collection."""
    return tree("ansible") / "playbooks" / f"{name}.yml"


def play(name: str, ask: Machines, show: Show) -> dict[str, HostState]:
    """Run a playbook of the collection; the state of each host, whatever became of the others.

    SpecError without ansible-runner or without a host, HostError where Ansible itself fails.
    """
    try:
        import ansible  # noqa: F401  # ansible-runner only starts its programs
        import ansible_runner
    except ImportError as error:
        raise SpecError(
            f"a fleet needs {error.name}, which is not installed",
            to_install("ansible-core", "ansible-runner"),
        ) from error
    if not ask.inventory.exists():
        raise SpecError(f"{ask.inventory}: there is no such inventory", "--inventory FILE")
    hosts: dict[str, HostState] = {}
    roles = tree("ansible") / "roles"
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_ROLES_PATH": str(roles),
        **{key: os.environ.get(key, value) for key, value in FASTER.items()},
    }
    if "ANSIBLE_CONFIG" not in os.environ and Path("ansible.cfg").is_file():
        environment["ANSIBLE_CONFIG"] = str(Path("ansible.cfg").resolve())
    with tempfile.TemporaryDirectory(prefix="schedlab-fleet-") as private:
        write_variables(Path(private, "env"), ask.variables or {})
        runner = ansible_runner.run(
            private_data_dir=private,
            playbook=str(playbook(name)),
            inventory=str(ask.inventory.resolve()),
            envvars=environment,
            event_handler=lambda event: note(hosts, event, show),
            quiet=True,
            **({"limit": ask.limit} if ask.limit else {}),
        )
        said = runner.stdout.read() if not hosts else ""
    if runner.status == "canceled":
        raise Interrupted("interrupted; what runs on the machines goes on", "start it again")
    if not hosts:
        lines = [line for line in said.splitlines() if line.strip()]
        raise HostError(f"Ansible did nothing: {lines[-1] if lines else runner.status}",
                        f"ansible-inventory --inventory {ask.inventory} --list")  # fmt: skip
    return hosts


def write_variables(directory: Path, variables: Mapping[str, Any]) -> None:
    """The file of variables that ansible-runner hands on. All are data, some of it from measured
    machines: Ansible evaluates no template in them."""
    lines = [f"{name}: !unsafe {json.dumps(value, ensure_ascii=False)}\n"
             for name, value in variables.items()]  # fmt: skip
    directory.mkdir()
    (directory / "extravars").write_text("".join(lines) or "{}\n")


def note(hosts: dict[str, HostState], event: Mapping[str, Any], show: Show) -> None:
    """Take an event of ansible-runner into the states, and show what changed."""
    kind, data = str(event.get("event")), event.get("event_data") or {}
    if not (host := data.get("host")) or data.get("ignore_errors"):
        return
    state = hosts.setdefault(host, HostState())
    result = data.get("res") or {}
    text = state.text
    if kind in FAILED:
        state.failed = True
        text = f"{FAILED[kind]}: {reason(str(data.get('task', '')), result)}"
    elif kind == "runner_on_start" and not state.failed:
        text = DOES.get(str(data.get("role")), text)
    elif kind == "runner_retry" and (counts := COUNTS.match(str(result.get("stdout", "")))):
        _, done, total = counts.groups()
        text = f"{done} of {total} runs" if total != "0" else text
    if kind in ("runner_on_ok", *FAILED) and "cmd" in result:
        state.output = str(result.get("stdout", ""))[:OUTPUT_MAX]
    if text != state.text:
        state.text = text
        show(host, text)


def reason(task: str, result: Mapping[str, Any]) -> str:
    """Why a task failed, in one line: what the program printed last, else Ansible's message."""
    output = str(result.get("stdout") or "")[-OUTPUT_MAX:]
    if (counts := COUNTS.match(output)) and counts[1] == "died":
        _, done, total = counts.groups()
        return f"the measurement was killed, or the machine restarted, after {done} of {total} runs"
    lines = [*output.splitlines(), *str(result.get("stderr") or "").splitlines()]
    errors = [line for line in lines if line.startswith("error: ")]
    message = errors[-1].removeprefix("error: ") if errors else str(result.get("msg", "")).strip()
    return " ".join(message[:REASON_MAX].removeprefix("Task failed: ").split()) or task


def measure(file: Path, ask: Machines, out: Path | None, show: Show) -> tuple[Path, Measured]:
    """Measure a file on every host of an inventory; a second time in one folder, what is missing.

    The folder gets `archives/`, and `hosts/` with a result folder of each host.
    """
    if not file.is_file():
        raise SpecError(f"{file}: there is no such file", "write one: schedlab init fleet.toml")
    out = (out or default_folder(f"fleet-{file.stem}")).resolve()
    archives, homes = out / "archives", out / "hosts"
    for directory in (archives, homes):
        directory.mkdir(parents=True, exist_ok=True)
    variables = {
        "schedlab_file": str(file.resolve()),
        "schedlab_run": safe_name(out.name),
        "schedlab_home_dir": str(archives),
        **(ask.variables or {}),
    }
    states = play("run", Machines(ask.inventory, ask.limit, variables), show)
    missing = {host: state.text for host, state in states.items() if state.failed}
    folders = []
    for host in sorted(states.keys() - missing.keys()):
        try:
            folders.append(unpacked(archives / f"{host}.tar.gz", homes / safe_name(host)))
        except (SchedlabError, OSError) as error:
            missing[host] = f"refused: {cause_of(error)}"
    return out, Measured(tuple(folders), missing)


def unpacked(archive: Path, home: Path) -> Path:
    """The result folder of an archive, read whole; SpecError where something in it was changed."""
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".") as place:
        _unpack(archive, Path(place))
        folder = Path(place) / "result"
        Folder.open(folder).record()
        shutil.rmtree(home, ignore_errors=True)
        folder.rename(home)
    return home


class _Unzipped(gzip.GzipFile):
    """The content of a file of gzip, which cannot be larger than `UNPACKED_MAX_BYTES`."""

    def __init__(self, archive: Path) -> None:
        super().__init__(archive)
        self.left = UNPACKED_MAX_BYTES

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(self.left + 1 if size is None or size < 0 else size)
        self.left -= len(data)
        if self.left < 0:
            raise SpecError(f"it unpacks to more than {UNPACKED_MAX_BYTES >> 20} MiB")
        return data


def _unpack(archive: Path, place: Path) -> None:
    """Files and directories of an archive; SpecError where it has others, or too much."""
    try:
        _unpack_checked(archive, place)
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError) as error:
        raise SpecError(f"it is no archive of a result: {error}") from error


def _unpack_checked(archive: Path, place: Path) -> None:
    left = UNPACKED_MAX_BYTES
    with _Unzipped(archive) as content, tarfile.open(fileobj=content, mode="r|") as packed:
        for number, member in enumerate(packed):
            left -= member.size
            if number >= MEMBERS_MAX or left < 0:
                raise SpecError(f"it has more than {MEMBERS_MAX} files, or they are too large")
            if not (member.isreg() or member.isdir()) or member.issparse():
                raise SpecError(f"{member.name!r:.80} is neither a file nor a directory")
            if member.name.count("/") > DEPTH_MAX:
                raise SpecError(f"{member.name!r:.80} is too deep")
            if member.name.startswith("/") or ".." in member.name.split("/"):
                raise SpecError(f"{member.name!r:.80} is outside of the archive")
            packed.extract(member, place, **DATA_FILTER)


def joined(out: Path, folders: Collection[Path], missing: int = 0) -> Result:
    """The answer of the folders that came home, in `answer/`, which is always made anew.

    The inventory is the plan: without `missing` hosts they are its end.
    """
    answer = out / "answer"
    shutil.rmtree(answer, ignore_errors=True)
    planned = len(folders) + missing
    return Result(merge(sorted(folders), answer, hosts=True, of=planned))


def settings(folder: Path) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """By host (setting and device) what the answer of its group says, and why others are left."""
    result = Result.load(folder)
    record, answer = result.record, result.answer
    if not (facts := record.host.get("hosts")):
        raise SpecError(f"{folder}: is not of several machines", "schedlab merge --hosts DIR DIR…")
    group = {host: of.answer for of in answer.kinds for host in of.hosts}
    have = {(run.host, run.candidate) for run in record.analysed_runs}
    chosen, left = {}, {}
    for host, of in facts.items():
        own = group.get(host, answer)
        if not own.applies:
            sentence = report.first_sentence(record, own).rstrip(".")
            left[host] = f"keep {own.take}" if own.keeps and not own.doubt else sentence
        elif (host, own.take) not in have:
            left[host] = f"{own.take} was not measured there"
        elif host in report.opposed(record, own):
            left[host] = f"{own.base} is proven better than {own.take} there"
        elif not (setting := _setting_of(record.experiment, own.take)):
            left[host] = f"{own.take} is no setting of a device alone"
        elif (device := _device_of(of)) and not is_kernel_name(device):
            left[host] = f"{device!r:.80} is no name of a device"
        else:
            chosen[host] = {"setting": setting, "device": device}
    return chosen, left


def _device_of(facts: Mapping[str, Any]) -> str:
    """The name of the measured device, as the machine says; empty where it names none."""
    measured = facts.get("measured_device")
    return str(measured.get("name", "")) if isinstance(measured, Mapping) else ""


def _setting_of(experiment: Experiment, label: str) -> str:
    """A candidate as `apply` takes it; empty where it sets more than a device, or its words, read
    again, would set anything else."""
    setting = report.setting_of(experiment, label)
    (candidate,) = (each for each in experiment.candidates if each.label == label)
    own = {key: str(value) for key, value in candidate.settings.items()}
    if any(map(is_beyond, own)) or not re.fullmatch(r"[\w.:,=+-]+", setting):
        return ""
    own.setdefault("scheduler", label)
    with contextlib.suppress(SpecError):
        read = [{key: str(value) for key, value in each.settings.items()}
                for each in parse_candidates(setting)]  # fmt: skip
        return setting if read == [own] else ""
    return ""
