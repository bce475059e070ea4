"""A fleet: measure on many machines, join what comes home, apply what the answer is. The roles of
the collection in `ansible/` do the work on the machines; this starts its playbooks and reads what
happened.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab import report
from schedlab.app.fleet.merge import merge
from schedlab.app.measure.measure import default_folder
from schedlab.errors import HostError, Interrupted, SchedlabError, SpecError, to_install
from schedlab.result import Result
from schedlab.spec.names import safe_name
from schedlab.store.folder import Folder

PACKAGE = Path(__file__).resolve().parents[1]
# Events of ansible-runner that end the work on a host.
FAILED = {"runner_on_failed": "failed", "runner_on_unreachable": "not reached"}
# A connection for each task instead of three, and more hosts at a time, unless the user says else.
FASTER = {"ANSIBLE_PIPELINING": "True", "ANSIBLE_FORKS": "20"}
# What a host does while tasks of a role run.
DOES = {"install": "installing", "measure": "measuring", "fetch": "fetching"}
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


def collection() -> Path:
    """Where the collection is: inside an installed package, or beside the sources."""
    shipped = PACKAGE / "ansible"
    return shipped if shipped.is_dir() else PACKAGE.parents[1] / "ansible"


def play(playbook: str, ask: Machines, show: Show) -> dict[str, HostState]:
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
    root = collection()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_ROLES_PATH": str(root / "roles"),
        **{key: os.environ.get(key, value) for key, value in FASTER.items()},
    }
    if "ANSIBLE_CONFIG" not in os.environ and Path("ansible.cfg").is_file():
        environment["ANSIBLE_CONFIG"] = str(Path("ansible.cfg").resolve())
    with tempfile.TemporaryDirectory(prefix="schedlab-fleet-") as private:
        runner = ansible_runner.run(
            private_data_dir=private,
            playbook=str(root / "playbooks" / f"{playbook}.yml"),
            inventory=str(ask.inventory.resolve()),
            extravars=dict(ask.variables or {}),
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
    elif kind == "runner_retry" and (counts := str(result.get("stdout", "")).split())[:1] == [
        "runs"
    ]:
        text = f"{counts[1]} of {counts[2]} runs" if counts[2] != "0" else text
    if kind in ("runner_on_ok", *FAILED) and "cmd" in result:
        state.output = str(result.get("stdout", ""))
    if text != state.text:
        state.text = text
        show(host, text)


def reason(task: str, result: Mapping[str, Any]) -> str:
    """Why a task failed, in one line: what the program printed last, else Ansible's message."""
    output = str(result.get("stdout") or "")
    if output.startswith("died"):
        _, done, total = output.split()[:3]
        return f"the measurement was killed, or the machine restarted, after {done} of {total} runs"
    lines = [*output.splitlines(), *str(result.get("stderr") or "").splitlines()]
    errors = [line for line in lines if line.startswith("error: ")]
    message = errors[-1].removeprefix("error: ") if errors else str(result.get("msg", "")).strip()
    return " ".join(message.removeprefix("Task failed: ").split()) or task


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
        except (SchedlabError, OSError, tarfile.TarError) as error:
            missing[host] = f"refused: {error}"
    return out, Measured(tuple(folders), missing)


def unpacked(archive: Path, home: Path) -> Path:
    """The result folder of an archive, read whole; SpecError where something in it was changed."""
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".") as place:
        with tarfile.open(archive) as packed:
            packed.extractall(place, filter="data")
        folder = Path(place) / "result"
        Folder.open(folder).record()
        shutil.rmtree(home, ignore_errors=True)
        folder.rename(home)
    return home


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
        elif setting := report.setting_of(record.experiment, own.take):
            device = (of.get("measured_device") or {}).get("name", "")
            chosen[host] = {"setting": setting, "device": device}
        else:
            left[host] = f"{own.take} is no setting of a device"
    return chosen, left
