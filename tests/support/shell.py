"""A shell as a reader has one: what a line sets, the next one sees; also without root."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
# Root's /etc and /srv, and all that it mounts, are gone with the shell.
OWN_PLACES = """
cp -a /etc {place}/etc && mount --bind {place}/etc /etc
mount -t tmpfs tour /srv && mkdir /srv/db /srv/test /srv/home
mount -t tmpfs tour /mnt
"""


@dataclass(frozen=True)
class Ran:
    """Its exit status, and all that it printed."""

    status: int
    output: str


def _reached(paths: Iterable[Path]) -> str:
    """Shell lines that bind these where they are, below directories that only root may enter."""
    hidden = {}
    for path in paths:
        closed = [each for each in path.parents if not each.stat().st_mode & 0o001]
        if closed:
            hidden[path] = closed[-1]
    lines = ["mount -t tmpfs -o mode=755 tour /mnt"]
    for number, path in enumerate(hidden):
        lines.append(f"mkdir /mnt/{number} && mount --bind {path} /mnt/{number}")
    lines += [f"mount -t tmpfs -o mode=755 tour {top}" for top in sorted(set(hidden.values()))]
    for number, path in enumerate(hidden):
        lines.append(f"mkdir -p {path} && mount --bind /mnt/{number} {path}")
    return "\n".join(lines)


class Shell:
    """A bash in `work` of a place; with `reach` one of a user without rights, who can read these
    paths. Close it.
    """

    def __init__(
        self, place: Path, environment: dict[str, str], reach: Iterable[Path] | None
    ) -> None:
        self.place, self.number = place, 0
        command = ["bash", "--noprofile", "--norc"]
        if os.geteuid() == 0:
            start, who = OWN_PLACES.format(place=place), ""
            if reach is not None:
                start = _reached(reach)
                who = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "
            script = f"set -eu\n{start}\ncd {place}/work\nexec {who}{' '.join(command)}"
            command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script]
        with (place / "shell.txt").open("w") as errors:
            self.process = subprocess.Popen(
                command, cwd=place / "work", env=environment, text=True, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    def run(self, line: str, limit_s: float) -> Ran:
        """Type a line, and wait for its end. Raises AssertionError when it takes too long."""
        self.number += 1
        output = self.place / "output" / str(self.number)
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{{ {line}\n}} >{output} 2>&1 </dev/null; echo $?\n")
        self.process.stdin.flush()
        ends = time.monotonic() + limit_s
        while not select.select([self.process.stdout], [], [], 1.0)[0]:
            if time.monotonic() > ends:
                raise AssertionError(f"no end after {limit_s} s: {line}\n{self._printed(output)}")
        status = self.process.stdout.readline()
        assert status, f"the shell ended: {(self.place / 'shell.txt').read_text()}"
        return Ran(int(status), self._printed(output))

    def _printed(self, output: Path) -> str:
        return output.read_text(errors="replace") if output.exists() else ""

    def close(self) -> None:
        """End the shell and what it left in the background."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()
