"""The udev of this machine, where it runs: check a rule file, read the rules again, trigger."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from schedlab.host.settings import udev

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
    """Errors in a rule file: by `udevadm verify` where it exists, else by our parser."""
    program_path = program()
    if program_path and _version(program_path) >= VERIFIES_FROM:
        process = _run([program_path, "verify", "--no-summary", str(path)])
        return process.stderr.strip().splitlines() if process.returncode else []
    wrong = (rule for rule in udev.rules(path) if not rule.readable)
    return [f"{path}:{rule.line}: not understood" for rule in wrong]


def _version(program_path: str) -> int:
    text = _run([program_path, "--version"]).stdout.split(maxsplit=1)
    return int(text[0]) if text and text[0].isdigit() else 0


def reload(names: Sequence[str], report: Callable[[str], None]) -> None:
    """Have udev read its rules again and trigger only these disks; a note where none runs."""
    program_path = program()
    if program_path is None or not CONTROL.exists():
        report("note: udev does not run here: the rule acts when it does")
        return
    commands = [[program_path, "control", "--reload"]]
    commands += [
        [program_path, "trigger", "--action=change", f"/sys/block/{name}"] for name in names
    ]
    commands.append([program_path, "settle", f"--timeout={WAIT_S}"])
    for command in commands:
        process = _run(command)
        if process.returncode:
            report(f"note: {shlex.join(command)}: {process.stderr.strip()}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The output of a command of udev; without an answer it counts as failed, with the reason."""
    limit_s = 4 * WAIT_S
    try:
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=limit_s
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        message = f"{command[0]} did not answer within {limit_s} s"
        return subprocess.CompletedProcess(command, 1, "", message)
