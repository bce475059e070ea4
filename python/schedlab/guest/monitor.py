"""Commands to a running qemu, over a socket that it inherits (docs/interop/qmp-spec of qemu)."""

from __future__ import annotations

import array
import contextlib
import json
import socket
import time
from pathlib import Path
from typing import Any, Self

from schedlab.errors import HostError

_LOOK_S, _PATIENCE_S = 0.02, 300.0
_STOPPED = "guest-panicked"  # as the guest stops itself
_FAST = 1 << 40  # bytes/s: the default is that of a network


class MachineGone(HostError):
    """It ended meanwhile: why is in its log."""


class Monitor:
    """The way to one qemu; `theirs` is the end that it inherits, closed by `is_started`."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ours.settimeout(_PATIENCE_S)
        self._lines = self._ours.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._lines, self._ours, self.theirs):
            each.close()

    @property
    def words(self) -> list[str]:
        """For the command line of qemu."""
        device = f"socket,id=monitor,fd={self.theirs.fileno()}"
        return ["-chardev", device, "-mon", "chardev=monitor,mode=control"]

    def is_started(self) -> None:
        """It has its end: ours then sees that it is gone."""
        self.theirs.close()

    def ask(self, command: str, *files: int, **arguments: object) -> Any:
        """The answer to a command, which takes descriptors along; HostError for an error."""
        names = {name.replace("_", "-"): value for name, value in arguments.items()}
        line = json.dumps({"execute": command, "arguments": names}).encode()
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        with contextlib.suppress(BrokenPipeError):
            self._ours.sendmsg([line], passed)
        while "event" in (answer := self._read()):
            pass
        if "error" in answer:
            raise HostError(f"qemu: {command}: {answer['error']['desc']}", "update qemu")
        return answer["return"]

    def save(self, path: Path) -> None:
        """Wait until the machine has stopped itself; then write its devices to a file. Its memory
        is a file already."""
        self._greet()
        self._await("query-status", _STOPPED)
        self._prepare(path, "xb")
        self.ask("migrate", uri="fd:state")
        self._await("query-migrate", "completed")
        self.ask("quit")

    def load(self, path: Path) -> None:
        """Start a machine that waits for its devices (`-incoming defer`) with those of a file."""
        self._greet()
        self._prepare(path, "rb")
        self.ask("migrate-incoming", uri="fd:state")
        self._await("query-status", _STOPPED)
        self.ask("cont")

    def _greet(self) -> None:
        self._read()
        self.ask("qmp_capabilities")

    def _prepare(self, path: Path, mode: str) -> None:
        shared = [{"capability": "x-ignore-shared", "state": True}]
        self.ask("migrate-set-capabilities", capabilities=shared)
        self.ask("migrate-set-parameters", max_bandwidth=_FAST)
        with path.open(mode) as file:
            self.ask("getfd", file.fileno(), fdname="state")

    def _await(self, command: str, wanted: str) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while (status := self.ask(command).get("status")) != wanted:
            if status == "failed" or time.monotonic() > end_s:
                raise HostError(f"qemu: {command}: {status}, expected {wanted}", "update qemu")
            time.sleep(_LOOK_S)

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._lines.readline() or b"{}")
        except (TimeoutError, ConnectionResetError):
            found = {}
        if not found:
            raise MachineGone("qemu ended", "schedlab kernel check shows a boot")
        return found
