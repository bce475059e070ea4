"""Which kernel is booted next, once: by GRUB, by systemd-boot, or by a command of the user's.

All three fall back to their default after one boot, so that a kernel that hangs costs a reset and
no repair. Words for the command line become an entry of ours beside that of the kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from schedlab.errors import HostError, SpecError, nearest

TIMEOUT_S = 60.0
ENTRY = "schedlab-boots"
_BEGIN, _END = f"# {ENTRY} begins\n", f"# {ENTRY} ends\n"
_OURS = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)
_MENU = re.compile(r"\s*(submenu|menuentry)\s+(['\"])(?P<title>.*?)\2(?P<rest>.*)\{\s*")
_ID = re.compile(r"(?:\$menuentry_id_option|--id)[ =]+['\"]?([^'\"\s{]+)")
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+(\S+)(.*)")


class Bootloader(Protocol):
    """What chooses the next kernel."""

    def check(self, label: str, kernel: str, cmdline: str) -> None:
        """SpecError or HostError where this kernel, with these words, cannot be booted."""

    def boot_once(self, label: str, kernel: str, cmdline: str) -> None:
        """The next boot, and only that, is this one. HostError with what the program printed."""

    def reset(self) -> None:
        """The next boot is the default again, and what `boot_once` made is gone."""


def bootloader(command: str = "", root: Path = Path("/")) -> Bootloader:
    """The user's command, else what this machine has below `root`; HostError for neither."""
    if command:
        return ByCommand(command)
    for name in ("grub", "grub2"):
        if (root / "boot" / name / "grub.cfg").exists():
            return Grub(root / "boot" / name)
    if shutil.which("bootctl") and _output("bootctl", "is-installed", may_fail=True) == "yes":
        return SystemdBoot()
    raise HostError(
        "this machine has neither GRUB (below /boot) nor systemd-boot",
        "say what boots it: --with COMMAND, which finds $SCHEDLAB_KERNEL and $SCHEDLAB_CMDLINE",
    )


@dataclass(frozen=True)
class ByCommand:
    """A shell line: it has the kernel of the next boot in its environment, or none for the default.

    For machines that boot over the network (PXE), and guests whose kernel the host names.
    """

    command: str

    def check(self, label: str, kernel: str, cmdline: str) -> None:
        """Any kernel: only the command knows which ones there are."""

    def boot_once(self, label: str, kernel: str, cmdline: str) -> None:
        """Run it with the label, kernel and words of the next boot."""
        about = {"SCHEDLAB_BOOT": label, "SCHEDLAB_KERNEL": kernel, "SCHEDLAB_CMDLINE": cmdline}
        _output("sh", "-c", self.command, environment=about)

    def reset(self) -> None:
        """Run it with empty ones."""
        self.boot_once("", "", "")


class Grub:
    """GRUB, by its own programs: `grub-reboot` sets the entry, `grub.cfg` clears it at boot."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._custom = directory / "custom.cfg"

    def check(self, label: str, kernel: str, cmdline: str) -> None:
        """SpecError unless `grub.cfg` has that kernel, clears the entry, and reads `custom.cfg`."""
        text = (self.directory / "grub.cfg").read_text(errors="replace")
        _named(text, kernel, self.directory)
        for word, use in (("next_entry", "boots an entry once"), ("custom.cfg", "has our entries")):
            if word not in text and (cmdline or word == "next_entry"):
                raise SpecError(
                    f"{self.directory}/grub.cfg has no {word}, which {use}",
                    "make it by grub-mkconfig with all of /etc/grub.d, or use --with COMMAND",
                )

    def boot_once(self, label: str, kernel: str, cmdline: str) -> None:
        """Set the entry; with words one of ours, a copy of the kernel's, in `custom.cfg`."""
        self.check(label, kernel, cmdline)
        text = (self.directory / "grub.cfg").read_text(errors="replace")
        entry, lines = _named(text, kernel, self.directory)
        ours = ""
        if cmdline:
            entry, kernels_own = ENTRY, _LINUX.fullmatch
            body = [f"{line} {cmdline}" if kernels_own(line) else line for line in lines]
            title = f"schedlab: {kernel} {cmdline}".replace("'", "")
            head = f"menuentry '{title}' --id '{ENTRY}' {{"
            ours = "\n".join([_BEGIN + head, *body, "}", _END])
        self._write_custom(ours)
        self._run("reboot", f"--boot-directory={self.directory.parent}", entry)

    def reset(self) -> None:
        """Unset the entry where it is still there, and remove ours."""
        environment = self.directory / "grubenv"
        if environment.exists():
            self._run("editenv", str(environment), "unset", "next_entry")
        self._write_custom("")

    def _run(self, program: str, *words: str) -> None:
        _output(f"{self.directory.name}-{program}", *words)

    def _write_custom(self, ours: str) -> None:
        """`custom.cfg` with our entry in the place of an earlier one; gone when nothing is left."""
        before = self._custom.read_text() if self._custom.exists() else ""
        after = _OURS.sub("", before) + ours
        if after == before:
            return
        if after:
            write_file(self._custom, after)
        else:
            self._custom.unlink()


def _named(text: str, kernel: str, directory: Path) -> tuple[str, list[str]]:
    """The first entry of a kernel in a `grub.cfg`, as `SUBMENU>ENTRY`, and its lines."""
    found: dict[str, tuple[str, list[str]]] = {}
    path: list[str] = []  # of the braces that are open: an id, or "" of a function
    lines: list[str] = []
    for line in text.splitlines():
        if menu := _MENU.fullmatch(line):
            own = _ID.search(menu["rest"])
            path.append(own[1] if own else menu["title"])
            lines = []
        elif line.strip().endswith("{"):
            path.append("")
        elif line.strip() == "}" and path:
            path.pop()
        elif path and path[-1]:
            lines.append(line)
            if image := _LINUX.fullmatch(line):
                release = Path(image[1]).name.partition("-")[2]
                found.setdefault(release, (">".join(path), lines))
    if kernel not in found:
        raise SpecError(f"{directory}/grub.cfg has no entry of Linux {kernel}",
                        nearest(kernel, found))  # fmt: skip
    return found[kernel]


class SystemdBoot:
    """systemd-boot, by `bootctl`: the next entry is an EFI variable that the firmware forgets."""

    def __init__(self) -> None:
        # Up to systemd 253 an object on each line, then an array.
        values = map(json.loads, _output("bootctl", "list", "--json=short").splitlines())
        lists = (value if isinstance(value, list) else [value] for value in values)
        self._entries = [entry for entries in lists for entry in entries]

    def check(self, label: str, kernel: str, cmdline: str) -> None:
        """SpecError unless there is an entry of that kernel, with a file where words are added."""
        self._named(kernel, bool(cmdline))

    def boot_once(self, label: str, kernel: str, cmdline: str) -> None:
        """Set the entry; with words one of ours, a copy of the kernel's file."""
        entry = self._named(kernel, bool(cmdline))
        name = str(entry["id"])
        if cmdline:
            path = Path(entry["path"])
            lines = path.read_text().splitlines()
            name = f"{ENTRY}.conf"
            write_file(path.parent / name, "\n".join([*lines, f"options {cmdline}", ""]))
        _output("bootctl", "set-oneshot", name)

    def reset(self) -> None:
        """Clear the entry, and remove ours."""
        _output("bootctl", "set-oneshot", "")
        for each in self._entries:
            if each.get("path"):
                (Path(each["path"]).parent / f"{ENTRY}.conf").unlink(missing_ok=True)

    def _named(self, kernel: str, as_file: bool) -> dict[str, str]:
        versions = {str(each.get("version")): each for each in reversed(self._entries)
                    if each.get("id") != f"{ENTRY}.conf"}  # fmt: skip
        if kernel not in versions:
            raise SpecError(f"bootctl lists no Linux {kernel}", nearest(kernel, versions))
        if as_file and not str(versions[kernel].get("path")).endswith(".conf"):
            raise SpecError(f"the entry of Linux {kernel} is one image: its command line is fixed",
                            "use --with COMMAND")  # fmt: skip
        return dict(versions[kernel])


def write_file(path: Path, text: str) -> None:
    """Replace a file as a whole, on the disk when this returns. HostError with the cause."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise HostError(f"cannot write {path}: {error.strerror}", "run it as root") from error


def _output(
    *command: str, may_fail: bool = False, environment: dict[str, str] | None = None
) -> str:
    """What a program printed; HostError with its last line where it fails."""
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace",
            timeout=TIMEOUT_S, env={**os.environ, "LC_ALL": "C", **(environment or {})},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"cannot run {command[0]}: {error}", "install it, or use --with") from error
    if done.returncode and not may_fail:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it failed"]
        raise HostError(f"`{' '.join(command)}`: {reason[0]}", "run it as root")
    return done.stdout.strip()
