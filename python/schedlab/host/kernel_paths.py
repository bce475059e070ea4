"""Paths as the kernel prints them: mounts, swap areas, files of loop devices, control groups.

A path is bytes. Here alone it becomes text, as Python decodes names of files, so that it leads to
the same file again; and here alone the octal escapes of the kernel are decoded.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from schedlab.host.settings import knobs
from schedlab.nouns.printable import printable
from schedlab.nouns.reading import opened

_ESCAPED = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A mount: `number` is the device's, `super_options` those of its file system."""

    identity: str = ""
    number: str = ""
    source: str = ""
    target: str = ""
    kind: str = ""
    options: str = ""
    super_options: tuple[str, ...] = ()

    def facts(self) -> dict[str, str]:
        """The part that a result stores."""
        options = ",".join(self.super_options)
        facts = {"number": self.number, "source": self.source, "target": self.target,
                 "kind": self.kind, "options": self.options, "super_options": options}  # fmt: skip
        return {name: shown(text) for name, text in facts.items()}


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy of control groups; in v1 `controllers` are its options of mounting."""

    root: Path
    controllers: frozenset[str]
    is_v2: bool


def mounts(process: int | str = "self") -> list[Mount]:
    """Every mount that a process sees, in the order of mounting. OSError as is."""
    rows = []
    for line in _lines(f"/proc/{process}/mountinfo"):
        first, _, second = line.partition(b" - ")
        identity, _, number, _, target, options, *_ = map(_decoded, first.split(b" "))
        kind, source, *more = second.split(b" ")
        words = tuple(map(_decoded, more[0].split(b","))) if more else ()
        of_system = (_decoded(source), target, _decoded(kind), options, words)
        rows.append(Mount(identity, number, *of_system))
    return rows


def mounts_of_loop(index: int) -> list[Mount]:
    """Where /dev/loopINDEX is mounted, the last mounted first."""
    number = ""
    with contextlib.suppress(OSError):
        number = (knobs.SYS_BLOCK / f"loop{index}" / "dev").read_text(encoding="ascii").strip()
    known = (number, f"/dev/loop{index}")  # btrfs has a number of its own, but names the device
    return [each for each in reversed(mounts()) if each.number in known or each.source in known]


def is_on_top(mount: Mount) -> bool:
    """Whether its path leads to it, and not to another one above it. OSError as is."""
    with opened(mount.target, os.O_PATH) as descriptor:
        return f"mnt_id:\t{mount.identity}" in _texts(f"/proc/self/fdinfo/{descriptor}")


def swap_areas() -> list[Path]:
    """The devices and files that the kernel swaps to."""
    with contextlib.suppress(OSError):
        return [Path(_decoded(line.split()[0])) for line in _lines("/proc/swaps")[1:]]
    return []


def backing_file(device: Path) -> str:
    """The file behind a loop device (its directory in sysfs), also one that was deleted."""
    with contextlib.suppress(OSError):
        name = (device / "loop" / "backing_file").read_bytes()
        return os.fsdecode(name.removesuffix(b"\n")).removesuffix(" (deleted)")
    return ""


def hierarchies() -> list[Hierarchy]:
    """The hierarchies of control groups that are mounted where we can see them."""
    seen = []
    for mount in mounts():
        root = Path(mount.target)
        if mount.kind == "cgroup":
            seen.append(Hierarchy(root, frozenset(mount.super_options), is_v2=False))
        elif mount.kind == "cgroup2":
            controllers = ""
            with contextlib.suppress(OSError):
                controllers = (root / "cgroup.controllers").read_text(encoding="ascii")
            seen.append(Hierarchy(root, frozenset(controllers.split()), is_v2=True))
    return seen


def groups_of(process: int | str = "self") -> dict[Path, str]:
    """The control groups of a process: root of each hierarchy -> path of the group in it.

    OSError as is.
    """
    known = hierarchies()
    groups = {}
    for line in _texts(f"/proc/{process}/cgroup"):
        _, controllers, path = line.split(":", 2)
        name = controllers.split(",")[0]
        roots = [h.root for h in known if (name in h.controllers if name else h.is_v2)]
        if roots:
            groups[roots[0]] = path
    return groups


def shown(path: str | Path) -> str:
    """A path on one line of a message, with what is no text written out."""
    return printable(str(path)).replace("\n", "\\n").replace("\t", "\\t")


def _texts(path: str) -> list[str]:
    return [os.fsdecode(line) for line in _lines(path)]


def _lines(path: str) -> list[bytes]:
    return Path(path).read_bytes().removesuffix(b"\n").split(b"\n")


def _decoded(field: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8) & 255]), field))
