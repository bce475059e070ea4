"""The guardian: a process of its own session that puts everything back when its owner dies.

`python -m schedlab.host.guardian STATE_DIRECTORY PIPE LOCK PIDFD`: it ignores INT, HUP and TERM,
waits until the owner's end of the pipe is closed or the owner is gone (a child of the owner may
keep the pipe open), restores what the journal holds and ends. After a normal end of the owner
the journal is empty and there is nothing to do. It shares the owner's lock, so nobody else
touches the host before it is done. It imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from schedlab.errors import HostError
from schedlab.host.journal import HostLock
from schedlab.host.recover import settle

READY = b"r"
START_PATIENCE_S = 30.0


class Guardian:
    """The owner's side: start it, see whether it lives, let it go."""

    def __init__(self, directory: Path, lock: HostLock) -> None:
        self._directory = directory
        self._lock = lock
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    @property
    def process_id(self) -> int:
        """Its process id; 0 when there is none."""
        return self._process.pid if self._process else 0

    def ensure(self) -> bool:
        """Start the guardian unless it runs; whether one had died. HostError if it cannot start.

        When this returns the guardian has its signals ignored and watches.
        """
        if self._process and self._process.poll() is None:
            return False
        died = self._process is not None
        self._close()
        self._start()
        return died

    def _start(self) -> None:
        watched, self._pipe = os.pipe()
        ready, announce = os.pipe()
        passed = [watched, self._lock.descriptor, announce]
        try:
            passed.append(os.pidfd_open(os.getpid()))
        except OSError:
            passed.append(-1)  # the pipe alone must do
        package = str(Path(__file__).resolve().parents[2])
        program = [sys.executable, "-S", "-m", __spec__.name]
        try:
            self._process = subprocess.Popen(
                [*program, str(self._directory.resolve()), *map(str, passed)],
                pass_fds=[descriptor for descriptor in passed if descriptor >= 0],
                env={**os.environ, "PYTHONPATH": package},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            os.close(ready)
            raise HostError(
                f"the guardian cannot be started: {error.filename or ''}: {error.strerror}",
                "let this user run that Python, or install schedlab for all users",
            ) from error
        finally:
            for descriptor in {*passed} - {self._lock.descriptor, -1}:
                os.close(descriptor)
        answered, _, _ = select.select([ready], [], [], START_PATIENCE_S)
        started = bool(answered) and os.read(ready, 1) == READY
        os.close(ready)
        if not started:
            raise HostError(
                "the guardian that puts settings back did not start; nothing was changed",
                f"look at its message above, or try {' '.join(program)}",
            )

    def dismiss(self) -> None:
        """End it at once: the owner has put everything back itself, or has said what it could not.

        Closing the pipe would not do, a forked child may hold a copy of our end.
        """
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._close()

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def main(arguments: list[str]) -> int:
    """Watch the owner, then restore. 3 when something could not be put back."""
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    os.chdir("/")
    directory = Path(arguments[0])
    watched, lock, announce, owner = map(int, arguments[1:])
    with contextlib.suppress(OSError):  # spared when memory runs out, where that is allowed
        Path("/proc/self/oom_score_adj").write_text("-1000", encoding="ascii")
    os.write(announce, READY)
    os.close(announce)
    poll = select.poll()
    for descriptor in (watched, owner):
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
    poll.poll()
    try:
        return _restore(directory)
    except HostError as error:
        _say(str(error))
        return 3
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)  # whoever else holds a copy of the descriptor


def _restore(directory: Path) -> int:
    recovery = settle(directory)
    if lines := recovery.lines():
        _say("the schedlab that changed this host has died; its guardian says:")
        for line in lines:
            _say(f"  {line}")
    for failure in recovery.failed:
        _say(f"by hand: {failure.command}")
    return 3 if recovery.failed else 0


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"schedlab: {line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
