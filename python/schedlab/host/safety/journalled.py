"""The fields that entries of a journal must hold, and the paths that they may name.

A journal is a file like any other: whatever it names, only settings of schedulers are written, and
only things with our name are removed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from schedlab.host import kernel_paths
from schedlab.host.safety.owned import PREFIX
from schedlab.host.settings import knobs, settings

Entry = dict[str, Any]
THINGS = ("file", "directory", "mount", "cgroup", "emulated", "loop")
_OF_A_QUEUE = r"/[^/]+/queue/(iosched/)?[^/]+"
_OF_A_MODULE = r"/[^/]+/parameters/[^/]+"
_OF_A_GROUP = r"(.*/)?(cpu|cpuset|io|blkio)\.[\w.]+"
# kind of entry -> what it must hold
_SHAPES: dict[str, dict[str, type]] = {
    "queue": {"queue": str, "values": dict},
    "write": {"path": str, "original": str, "new": str},
    "after": {"path": str, "values": dict},
    "own": {"what": str, "path": str},
    "disown": {"path": str},
    "data": {"number": str, "sequence": str, "size_bytes": int, "key": str},
    "command": {"number": int, "undo": str},
    "undone": {"number": int},
    "cleanup": {"label": str, "line": str, "order": dict},
    "cleaned": {"label": str},
}


def is_whole(entry: Entry) -> bool:
    """Whether an entry has what its kind needs; a kind that we do not know is passed over."""
    shape = _SHAPES.get(entry["kind"], {})
    if entry["kind"] == "keep" and "settings" in entry:
        shape = {"record": str, "sha256": str, "settings": list}
    if not all(isinstance(entry.get(key), kind) for key, kind in shape.items()):
        return False
    if "values" in shape:
        return all(isinstance(t, str) for pair in entry["values"].items() for t in pair)
    if entry["kind"] != "own":
        return True
    loop = isinstance(entry.get("index"), int) and isinstance(entry.get("backing"), str)
    return entry["what"] in THINGS and (loop or entry["what"] != "loop")


def foreign(entry: Entry) -> str:
    """A path in a whole entry that is neither a setting nor a thing of ours; empty: none."""
    kind = entry["kind"]
    if kind == "own" and entry["what"] != "loop":
        return "" if Path(entry["path"]).name.startswith(PREFIX) else str(entry["path"])
    paths = [entry["path"]] if kind == "write" else []
    if kind == "queue":
        paths = [f"{entry['queue']}/{name}" for name in ("scheduler", *entry["values"])]
    return next((path for path in paths if not is_knob(path)), "")


def is_knob(path: str) -> bool:
    """Whether a path is that of a setting that schedlab may change (host/settings/settings.py)."""
    file = str(knobs.keyed(path)[0])
    if os.path.normpath(file) != file:
        return False
    directories = (settings.SYSCTL, settings.DEBUG, settings.CPUFREQ)
    if file.startswith(tuple(f"{each}/" for each in directories)):
        return True
    if Path(file) in (settings.NO_TURBO, settings.THP):
        return True
    of_a_queue = re.escape(str(knobs.SYS_BLOCK)) + _OF_A_QUEUE
    of_a_module = re.escape(str(settings.MODULES)) + _OF_A_MODULE
    if re.fullmatch(f"{of_a_queue}|{of_a_module}", file):
        return True
    roots = (f"{each.root}/" for each in kernel_paths.hierarchies())
    inside = (file.removeprefix(root) for root in roots if file.startswith(root))
    return any(re.fullmatch(_OF_A_GROUP, name) for name in inside)
