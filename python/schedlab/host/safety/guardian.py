"""The guardian: a process in its own session that restores everything when its owner dies.

`python -m schedlab.host.safety.guardian JOURNAL DESCRIPTOR PIPE ANNOUNCE PIDFD`: it leaves the
owner's control groups, so that killing those (a container's stop, `cgroup.kill`) does not end it.
It ignores INT, HUP and TERM. It waits until the owner's end of the pipe is closed or the owner is
gone, because a child of the owner may keep the pipe open. Then it restores everything in the
journal and ends. An owner that announced in the pipe when it will be heard of again, and is not
(stopped by Ctrl-Z, or hung), is killed first: nobody watches what it set. A guardian that never saw
its owner alive restores nothing. It shares the lock on the owner's journal, so no other session
touches what is claimed there before it has finished. It imports nothing heavy."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

from schedlab.errors import HostError
from schedlab.host.safety import descriptors, shelter
from schedlab.host.safety.journal import Journal
from schedlab.host.safety.recover import restore_session
from schedlab.package import IMPORT_PATH

READY, CONFINED = b"r", b"c"
# In the pipe before the guardian starts: it watches its owner, not whatever has that number.
ALIVE = b"a"
START_PATIENCE_S = 120.0
# An announcement: seconds as a float, 0 for none.
SECONDS = struct.Struct("<f")


class Guardian:
    """The owner's side: start it, see whether it lives, let it go."""

    def __init__(self, log: Journal) -> None:
        self._log = log
        self.is_confined = False
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
        watched, self._pipe = descriptors.pipe()
        os.write(self._pipe, ALIVE)
        os.set_blocking(self._pipe, False)  # the owner never waits for its guardian
        ready, announce = descriptors.pipe()
        passed = [self._log.descriptor, watched, announce]
        try:
            passed.append(descriptors.above_standard(os.pidfd_open(os.getpid())))
        except OSError:
            passed.append(-1)  # the pipe alone must do
        program = [sys.executable, "-S", "-m", __spec__.name]
        try:
            self._process = subprocess.Popen(
                [*program, str(self._log.path.resolve()), *map(str, passed)],
                pass_fds=[descriptor for descriptor in passed if descriptor >= 0],
                env={**os.environ, "PYTHONPATH": IMPORT_PATH},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            os.close(ready)
            raise HostError(
                f"the guardian cannot be started: {error.filename or ''}: {error.strerror}",
                "allow this user to run that Python, or install schedlab for all users",
            ) from error
        finally:
            for descriptor in {*passed} - {self._log.descriptor, -1}:
                os.close(descriptor)
        answered, _, _ = select.select([ready], [], [], START_PATIENCE_S)
        answer = os.read(ready, 1) if answered else b""
        os.close(ready)
        self.is_confined = answer == CONFINED
        if answer not in (READY, CONFINED):
            raise HostError(
                "the guardian, which restores settings, did not start; nothing was changed",
                f"read its message above, or try {' '.join(program)}",
            )

    def expect(self, within_s: float) -> None:
        """Have this process killed unless it calls this again in time; 0: no longer."""
        with contextlib.suppress(OSError):  # it has died, or is stopped itself
            os.write(self._pipe, SECONDS.pack(within_s))

    def dismiss(self) -> None:
        """End it at once: the owner has restored everything itself, or reported what it could not.

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
    """Watch the owner, then restore. 3 when something could not be restored."""
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    os.chdir("/")
    path = Path(arguments[0])
    descriptor, watched, announce, owner = map(int, arguments[1:])
    descriptors.open_standard()
    if os.read(watched, len(ALIVE)) != ALIVE:
        _say("the guardian never saw the program that started it: it restores nothing")
        return 2
    with contextlib.suppress(OSError):  # spared when memory runs out, where that is allowed
        Path("/proc/self/oom_score_adj").write_text("-1000", encoding="ascii")
    os.write(announce, READY if shelter.leave_groups() else CONFINED)
    os.close(announce)
    _await_end(watched, owner)
    log = Journal(path, descriptor)
    try:
        return _restore(log)
    except HostError as error:
        _say(str(error))
        return 3
    finally:
        log.release()  # also for other holders of a copy of the descriptor


def _await_end(watched: int, owner: int) -> None:
    """Return when the owner is gone; end it when it is silent for longer than it announced."""
    poll = select.poll()
    for each in (watched, owner):
        if each >= 0:
            poll.register(each, select.POLLIN)
    until_s = 0.0
    while True:
        left_s = max(until_s - time.monotonic(), 0.0)
        ready = [each for each, _ in poll.poll(1e3 * left_s if until_s else None)]
        if not ready:
            _say("a run was stopped, or hung, so that nobody watched its load: it is ended")
            until_s = 0.0
            if owner >= 0:
                signal.pidfd_send_signal(owner, signal.SIGKILL)
        elif owner in ready or not (news := os.read(watched, 1024 * SECONDS.size)):
            return
        else:
            (within_s,) = SECONDS.unpack(news[-SECONDS.size :])
            until_s = time.monotonic() + within_s if within_s else 0.0


def _restore(log: Journal) -> int:
    if not log.path.exists():
        return 0  # the owner has restored everything itself
    recovery = restore_session(log)
    if lines := recovery.lines():
        _say("the schedlab that changed this host has died; its guardian reports:")
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
