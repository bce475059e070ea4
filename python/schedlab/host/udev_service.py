"""The udev of this machine, where it runs: check a rule file, read the rules again, trigger."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from schedlab.host import udev

CONTROL = Path("/run/udev/control")
# The first version that has `udevadm verify`.
VERIFIES_FROM = 254
WAIT_S = 10


def program() -> str | None:
    """The path of udevadm, also where PATH of an ordinary user does not have it."""
    usual = "/usr/bin:/bin:/usr/sbin:/sbin"
    return shutil.which("udevadm", path=f"{os.environ.get('PATH', '')}:{usual}")


def runs() -> bool:
    """Whether a udev daemon answers here."""
    return program() is not None and CONTROL.exists()


def objections(path: Path) -> list[str]:
    """What is wrong with a rule file: by `udevadm verify` where it exists, else by our parser."""
    found = program()
    if found and _version(found) >= VERIFIES_FROM:
        done = _run([found, "verify", "--no-summary", str(path)])
        return done.stderr.strip().splitlines() if done.returncode else []
    wrong = (rule for rule in udev.rules(path) if not rule.readable)
    return [f"{path}:{rule.line}: not understood" for rule in wrong]


def _version(found: str) -> int:
    text = _run([found, "--version"]).stdout.split(maxsplit=1)
    return int(text[0]) if text and text[0].isdigit() else 0


def reload(names: Sequence[str], report: Callable[[str], None]) -> None:
    """Have udev read its rules again and trigger only these disks; a note where none runs."""
    found = program()
    if found is None or not CONTROL.exists():
        report("note: udev does not run here: the rule acts when it does")
        return
    commands = [[found, "control", "--reload"]]
    commands += [[found, "trigger", "--action=change", f"/sys/block/{name}"] for name in names]
    commands.append([found, "settle", f"--timeout={WAIT_S}"])
    for command in commands:
        done = _run(command)
        if done.returncode:
            report(f"note: {shlex.join(command)}: {done.stderr.strip()}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=4 * WAIT_S)
