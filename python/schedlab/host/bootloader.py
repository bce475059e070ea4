"""Which kernel is booted next, once: by GRUB, by systemd-boot, or by a command of the user's.

All three fall back to their default after one boot, so that a kernel that hangs costs a reset and
no repair. Words for the command line become an entry of ours beside that of the kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from schedlab.errors import ANOTHER_KERNEL, HostError, SpecError, as_root, cause_of, nearest

TIMEOUT_S = 60.0
ENTRY = "schedlab-boots"
_OF_LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"  # of all variables of such boot loaders
ONESHOT = Path("/sys/firmware/efi/efivars", f"LoaderEntryOneShot-{_OF_LOADER}")
_BEGIN, _END = f"# {ENTRY} begins\n", f"# {ENTRY} ends\n"
_OURS = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)
_MENU = re.compile(r"\s*(submenu|menuentry)\s+(['\"])(?P<title>.*?)\2(?P<rest>.*)\{\s*")
_ID = re.compile(r"(?:\$menuentry_id_option|--id)[ =]+['\"]?([^'\"\s{]+)")
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+(\S+)(.*)")


class Bootloader(Protocol):
    """The program that chooses the next kernel."""

    def check(self, label: str, kernel: str, cmdline: str) -> str:
        """The entry of this kernel with these words ("": it has no name). SpecError or HostError
        where that cannot be booted.
        """

    def boot_once(self, label: str, kernel: str, cmdline: str) -> None:
        """The next boot, and only that, is this one. HostError with what the program printed."""

    def chosen(self) -> str:
        """The entry of the next boot; "" for the default, and where that is not known."""

    def reset(self, keep: bool = False) -> None:
        """The next boot is the default again, unless `keep`; what `boot_once` made is gone."""


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

    def check(self, label: str, kernel: str, cmdline: str) -> str:
        """Any kernel: only the command knows which ones there are."""
        return ""

    def boot_once(self, label: str, kernel: str, cmdline: str) -> None:
        """Run it with the label, kernel and words of the next boot."""
        about = {"SCHEDLAB_BOOT": label, "SCHEDLAB_KERNEL": kernel, "SCHEDLAB_CMDLINE": cmdline}
        try:
            _output("sh", "-c", self.command, environment=about)
        except HostError as error:
            hint = "correct what --with names: it finds the kernel, or none, in $SCHEDLAB_KERNEL"
            raise HostError(str(error), hint) from error

    def chosen(self) -> str:
        """Only the command knows."""
        return ""

    def reset(self, keep: bool = False) -> None:
        """Run it with empty ones."""
        self.boot_once("", "", "")


class Grub:
    """GRUB, by its own programs: `grub-reboot` sets the entry, `grub.cfg` clears it at boot."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._custom = directory / "custom.cfg"

    def check(self, label: str, kernel: str, cmdline: str) -> str:
        """SpecError unless `grub.cfg` has that kernel, clears the entry, and reads `custom.cfg`."""
        text = (self.directory / "grub.cfg").read_text(errors="replace")
        entry, _ = _named(text, kernel, self.directory)
        for word, use in (("next_entry", "boots an entry once"), ("custom.cfg", "has our entries")):
            if word not in text and (cmdline or word == "next_entry"):
                raise SpecError(
                    f"{self.directory}/grub.cfg has no {word}, which {use}",
                    "make it by grub-mkconfig with all of /etc/grub.d, or use --with COMMAND",
                )
        return ENTRY if cmdline else entry

    def boot_once(self, label: str, kernel: str, cmdline: str) -> None:
        """Set the entry; with words one of ours, a copy of the kernel's, in `custom.cfg`."""
        entry = self.check(label, kernel, cmdline)
        text = (self.directory / "grub.cfg").read_text(errors="replace")
        _, lines = _named(text, kernel, self.directory)
        ours = ""
        if cmdline:
            kernels_own = _LINUX.fullmatch
            body = [f"{line} {cmdline}" if kernels_own(line) else line for line in lines]
            title = f"schedlab: {kernel} {cmdline}".replace("'", "")
            head = f"menuentry '{title}' --id '{ENTRY}' {{"
            ours = "\n".join([_BEGIN + head, *body, "}", _END])
        self._write_custom(ours)
        self._run("reboot", f"--boot-directory={self.directory.parent}", entry)

    def chosen(self) -> str:
        """`next_entry` of the environment block."""
        environment = self.directory / "grubenv"
        listed = self._run("editenv", str(environment), "list") if environment.exists() else ""
        values = dict(line.partition("=")[::2] for line in listed.splitlines())
        return values.get("next_entry", "")

    def reset(self, keep: bool = False) -> None:
        """Unset the entry where it is still there, and remove ours."""
        if not keep and self.chosen():
            self._run("editenv", str(self.directory / "grubenv"), "unset", "next_entry")
        self._write_custom("")

    def _run(self, program: str, *words: str) -> str:
        return _output(f"{self.directory.name}-{program}", *words)

    def _write_custom(self, ours: str) -> None:
        """`custom.cfg` with our entry in the place of an earlier one; gone when we made it."""
        is_there = self._custom.exists()
        before = self._custom.read_text() if is_there else ""
        after = _OURS.sub("", before)
        if ours and is_there and after == before and not before.endswith("\n"):
            after += "\n"  # a user's file, even if it is empty
        after += ours
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

    def check(self, label: str, kernel: str, cmdline: str) -> str:
        """SpecError unless there is an entry of that kernel, with a file where words are added."""
        entry = self._named(kernel, bool(cmdline))
        return f"{ENTRY}.conf" if cmdline else str(entry["id"])

    def boot_once(self, label: str, kernel: str, cmdline: str) -> None:
        """Set the entry; with words one of ours, a copy of the kernel's file."""
        name = self.check(label, kernel, cmdline)
        if cmdline:
            path = Path(self._named(kernel, True)["path"])
            lines = path.read_text().splitlines()
            write_file(path.parent / name, "\n".join([*lines, f"options {cmdline}", ""]))
        _output("bootctl", "set-oneshot", name)

    def chosen(self) -> str:
        """The variable, in UTF-16 behind four bytes of attributes."""
        with contextlib.suppress(OSError):
            return ONESHOT.read_bytes()[4:].decode("utf-16-le", "replace").partition("\0")[0]
        return ""

    def reset(self, keep: bool = False) -> None:
        """Clear the entry, and remove ours."""
        if not keep:
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
    """Replace a file as a whole, on the disk when this returns. HostError with the cause.

    An older one keeps its owner and mode; of a link it is the target.
    """
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w") as file:
            if path.exists():
                os.fchown(file.fileno(), path.stat().st_uid, path.stat().st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        hint = as_root(ANOTHER_KERNEL)
        raise HostError(f"cannot write {path}: {error.strerror}", hint) from error


def _output(
    *command: str, may_fail: bool = False, environment: dict[str, str] | None = None
) -> str:
    """The output of a program; HostError with its last line where it fails."""
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace",
            timeout=TIMEOUT_S, env={**os.environ, "LC_ALL": "C", **(environment or {})},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(
            f"cannot run {command[0]}: {cause_of(error)}", "install it, or use --with"
        ) from error
    if done.returncode and not may_fail:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it failed"]
        hint = as_root(ANOTHER_KERNEL, f"by hand, to see why: sudo {shlex.join(command)}")
        raise HostError(f"`{' '.join(command)}`: {reason[0]}", hint)
    return done.stdout.strip()
