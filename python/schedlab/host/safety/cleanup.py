"""The cleanup of a user's command, when the program that started it has died.

Its order (run/command/launch.py) is in the journal before the setup begins, so that the guardian or
a later command starts it as it would have been started: same user, directory, environment,
confinement.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from schedlab.host import processes
from schedlab.host.safety import owned
from schedlab.host.safety.journal import Entry

PATIENCE_S = 30.0
_LAST_BYTES = 300


def run_all(pending: list[Entry], things: list[Entry]) -> list[str]:
    """End the command of a dead session, then run its cleanups; a sentence for each.

    Servers of its setup go on meanwhile: their control group is that of the cleanup.
    """
    servers = {above for each in pending for file in _groups(each["order"])
               for above in Path(file).parents}  # fmt: skip
    sentences = []
    cgroups = [Path(thing["path"]) for thing in things if pending and thing["what"] == "cgroup"]
    for path in (each for cgroup in cgroups for each in (cgroup, *cgroup.glob(f"{owned.PREFIX}*"))):
        if path not in servers:
            try:
                owned.remove_cgroup(str(path))
            except OSError as error:
                sentences.append(f"{path} is in use: {error.strerror}")
    for each in reversed(pending):
        failure = _run(each["order"])
        what = f"{each['label']}: cleanup {each['line']!r}"
        sentences.append(f"{what} {failure}: run it by hand" if failure else f"{what} was run")
    return sentences


def _groups(order: dict[str, object]) -> list[str]:
    groups = order.get("cgroups")
    return [str(file) for file in groups] if isinstance(groups, list) else []


def _room(order: dict[str, Any], groups: list[str]) -> int | None:
    """The room of the servers, if it is still there: its keeper is in their control group."""
    room = order.get("room")
    return room if any(room in processes.below(Path(file).parent) for file in groups) else None


def _run(order: dict[str, object]) -> str:
    """Run one; why it failed, in words."""
    from schedlab import _core

    there = [file for file in _groups(order) if Path(file).exists()]
    with tempfile.TemporaryFile() as output, Path(os.devnull).open("rb") as nothing:
        streams = [nothing.fileno(), output.fileno(), output.fileno()]
        try:
            now = {"cgroups": there, "streams": streams, "room": _room(order, there)}
            child = _core.Launched(json.dumps({**order, **now}))
            ending = child.wait(PATIENCE_S)
        except (OSError, ValueError) as error:
            return f"could not be started ({error})"
        if ending is None:
            return f"did not end in {PATIENCE_S:g} s"
        report = json.loads(ending)
        if report["status"] == 0:
            return ""
        how = f"was killed by signal {report['signal']}"
        if report["signal"] is None:
            how = f"exited with status {report['status']}"
        output.seek(max(0, output.seek(0, os.SEEK_END) - _LAST_BYTES))
        return f"{how} ({output.read().decode(errors='replace').strip()})"
