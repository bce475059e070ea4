"""Emulated devices that outlive the command which made them: `schedlab device up|list|down`.

Each has a keeper, a process in its own session that owns it: `python -m
schedlab.host.emulated.keeper DIRECTORY EMULATION ANNOUNCE`. The keeper is a session like any other,
with its own state directory (`devices/NAME` below the host's), journal and guardian; so its death
ends its device and nothing else. It answers on a socket in that directory: `account`, `down`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, SchedlabError, SpecError
from schedlab.host.emulated.emulated import Emulated, Emulation
from schedlab.host.emulated.emulated_facts import EmulatedFacts, describe
from schedlab.host.safety import descriptors, journal, owned, recover
from schedlab.nouns.reading import opened
from schedlab.package import IMPORT_PATH

DEVICES = "devices"
START_PATIENCE_S = 60.0
DOWN_PATIENCE_S = 60.0
WRITE_BACK_PATIENCE_S = 45.0
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}")
# A path of a socket may have 107 bytes, so it is opened by a short name inside its directory.
_SOCKET = "control"


@dataclass(frozen=True)
class Kept:
    """A kept device: its name, path, facts, start, and account since then."""

    name: str
    path: str
    facts: EmulatedFacts
    since_s: float
    keeper: int
    account: Mapping[str, object] = field(default_factory=dict)

    def line(self) -> str:
        """One line for people: `/dev/loop7: disk7200, 8 GiB, 32 tags, emulated`."""
        return f"{self.path}: {describe(self.facts)}"


def up(emulation: Emulation, name: str = "", state_directory: str | Path | None = None) -> Kept:
    """Make a device that stays until `down`. HostError, SpecError with the reason otherwise."""
    root = journal.state_directory(state_directory)
    if name and not _NAME.fullmatch(name):
        raise SpecError(f"{name!r} is no name", "use small letters, digits, - and _")
    journal.prepare(root)
    journal.prepare(root / DEVICES)
    with journal.HostLock(root / DEVICES) as lock:  # until the name is that of a keeper
        lock.acquire(START_PATIENCE_S)
        name = name or _free_name(root, Path(emulation.model).stem)
        directory = root / DEVICES / name
        if _ask(directory, "account") is not None:
            raise HostError(f"there is an emulated device {name}", f"schedlab device down {name}")
        return _started(emulation, directory)


def _started(emulation: Emulation, directory: Path) -> Kept:
    """The device of a new keeper."""
    name = directory.name
    journal.prepare(directory)
    ready, announce = descriptors.pipe()
    paths = [IMPORT_PATH, *filter(None, [os.environ.get("PYTHONPATH")])]
    config = json.dumps(dataclasses.asdict(emulation))
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(directory), config, str(announce)],
        pass_fds=[announce],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(announce)
    with os.fdopen(ready, "rb") as pipe:
        if not select.select([pipe], [], [], START_PATIENCE_S)[0]:
            process.kill()
            raise HostError(
                f"the keeper of {name} was not ready after {START_PATIENCE_S:g} s and was ended",
                "schedlab device list removes what is left of it; then try again",
            )
        text = pipe.read()
    if not text:
        raise HostError(f"the keeper of {name} ended without a message (status {process.wait()})")
    answer = json.loads(text)
    if "error" in answer:
        process.wait()
        kind = SpecError if answer["kind"] == "SpecError" else HostError
        raise kind(answer["error"], answer["hint"])
    return Kept(**answer)


def kept(state_directory: str | Path | None = None, clear: bool = True) -> list[Kept]:
    """The devices that are up; what is left of those whose keeper died is removed (`clear`)."""
    devices = []
    for directory in _directories(journal.state_directory(state_directory)):
        answer = _ask(directory, "account")
        if answer is not None:
            devices.append(Kept(**answer))
        elif clear:
            _clear(directory).raise_if_failed()
    return devices


def down(name: str, state_directory: str | Path | None = None) -> None:
    """Remove a device. HostError when there is none of that name, or it does not go."""
    directory = journal.state_directory(state_directory) / DEVICES / name
    if not _NAME.fullmatch(name) or not directory.is_dir():
        raise HostError(f"there is no emulated device {name}", "schedlab device list")
    answer = _ask(directory, "down")
    if answer is not None:
        if answer.get("stays"):
            raise HostError(
                f"{name} stays up: its data is in a file, and {'; '.join(answer['lost'])}",
                "copy what you need from it: the kernel may not try again to write it. "
                f"kill {answer['keeper']} removes the device without that data",
            )
        _wait_for_end(answer["keeper"])
    _clear(directory).raise_if_failed()
    if answer and answer.get("lost"):
        raise HostError(
            f"{name} is down, but its server had died: its file lacks what was not written back",
            "fsck shows what is left of a file system in it",
        )


def down_all(
    names: Iterable[str], state_directory: str | Path | None, report: Callable[[str], None]
) -> None:
    """Remove each device; HostError about all that did not go, when the others have gone."""
    errors = []
    for name in names:
        try:
            down(name, state_directory)
            report(name)
        except HostError as error:
            errors.append(error)
    if errors:
        hints = dict.fromkeys(error.hint for error in errors)
        raise HostError("; ".join(map(str, errors)), "; ".join(hints))


def settle_stale(state_directory: str | Path | None = None) -> list[recover.Recovery]:
    """Remove what is left of devices whose keeper died; what was done for each."""
    root = journal.state_directory(state_directory)
    return [_clear(d) for d in _directories(root) if _ask(d, "account") is None]


def _directories(root: Path) -> list[Path]:
    try:
        return sorted(path for path in (root / DEVICES).iterdir() if path.is_dir())
    except OSError:
        return []


def _free_name(root: Path, model: str) -> str:
    taken = {path.name for path in _directories(root)}
    stem = re.sub(r"[^a-z0-9_.-]", "-", model.lower()).lstrip("-_.")[:28] or "device"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    return next(name for name in names if name not in taken)


def _clear(directory: Path) -> recover.Recovery:
    """Restore what a dead keeper left, and remove its directory unless one lives."""
    recovery = recover.Recovery()
    with journal.held(directory, wait_s=DOWN_PATIENCE_S) as got:
        if not got:
            return recovery
        recovery = recover.restore_all(directory)
        if recovery.failed or recovery.refused or journal.exists(directory):
            return recovery  # the last: its keeper is starting
        for file in (directory / _SOCKET, directory / journal.LOCK_NAME):
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()
    return recovery


def _wait_for_end(process: int) -> None:
    if not owned.wait_until(lambda: not journal.is_alive(str(process)), DOWN_PATIENCE_S):
        raise HostError(f"the keeper {process} does not end", f"kill -9 {process}")


@contextlib.contextmanager
def _short_path(directory: Path) -> Iterator[str]:
    with opened(directory, os.O_PATH | os.O_DIRECTORY) as descriptor:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET}"


def _ask(directory: Path, command: str) -> dict[str, Any] | None:
    """The keeper's answer, or nothing when there is no keeper."""
    try:
        with socket.socket(socket.AF_UNIX) as client, _short_path(directory) as path:
            client.settimeout(DOWN_PATIENCE_S)
            client.connect(path)
            client.sendall(f"{command}\n".encode(), socket.MSG_NOSIGNAL)
            with client.makefile() as answers:
                text = answers.readline()
    except OSError:
        return None
    answer: dict[str, object] | None = json.loads(text) if text else None
    return answer


# ---- the keeper itself ----


def main(arguments: list[str]) -> int:
    """Make the device, report it, and keep it until it is asked to end."""
    from schedlab.host.safety.control import Control

    directory, config, announce = Path(arguments[0]), json.loads(arguments[1]), int(arguments[2])
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    os.chdir("/")
    try:
        with Control(state_directory=directory) as control:
            device = control.emulated(Emulation(**config))
            device.mark()
            with socket.socket(socket.AF_UNIX) as listener, _short_path(directory) as path:
                (directory / _SOCKET).unlink(missing_ok=True)
                listener.bind(path)
                listener.listen()
                since_s = time.time()
                _announce(announce, _state(directory.name, device, since_s))
                announce = -1
                _serve(listener, directory.name, device, since_s)
    except SchedlabError as error:
        _announce(
            announce,
            {"error": str(error), "hint": error.hint, "kind": type(error).__name__},
        )
        return error.exit_code
    finally:
        (directory / _SOCKET).unlink(missing_ok=True)
    return 0


def _announce(descriptor: int, content: dict[str, object]) -> None:
    if descriptor >= 0:
        with os.fdopen(descriptor, "wb") as pipe:
            pipe.write(json.dumps(content).encode())


def _state(name: str, device: Emulated, since_s: float) -> dict[str, object]:
    account: Mapping[str, object] = {}
    with contextlib.suppress(HostError):
        account = device.account()
    return {
        "name": name,
        "path": device.path,
        "facts": dict(device.facts),
        "since_s": since_s,
        "keeper": os.getpid(),
        "account": account,
    }


def _serve(listener: socket.socket, name: str, device: Emulated, since_s: float) -> None:
    while True:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5.0)
            command = connection.makefile().readline().strip()
            answer = _state(name, device, since_s)
            if command == "down":
                lost = _lost(device)
                answer |= {"lost": lost, "stays": bool(lost) and device.is_alive()}
            connection.sendall((json.dumps(answer) + "\n").encode())
            if command == "down" and not answer["stays"]:
                return


def _lost(device: Emulated) -> list[str]:
    """Data that would be lost with the device: it cannot be written back to the user's file."""
    if device.facts["data"] in ("memory", "none"):
        return []
    try:
        return device.write_back(WRITE_BACK_PATIENCE_S)
    except HostError as error:
        return [str(error)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
