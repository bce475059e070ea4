"""sched_ext schedulers: programs that load a BPF scheduler and hold it while they run.

A scheduler is loaded for one run and unloaded after it. The kernel may eject it at any time (its
watchdog does when a task starves) and continues with EEVDF, so its identity is read again after the
run (Documentation/scheduler/sched-ext.rst).
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.cpu.policy import CpuPolicy
from schedlab.cpu.refusals import SCHED_EXT
from schedlab.errors import HostError
from schedlab.host.devices import text_of
from schedlab.host.safety import owned
from schedlab.nouns import GateFinding
from schedlab.run.command import launch
from schedlab.run.cpu.cpu_policy import is_bpf_object, refuse_ext

START_S, STOP_S = 10.0, 5.0
# Documentation/ABI/testing/dev-kmsg: one record for each read.
KERNEL_LOG, RECORD_BYTES_MAX = Path("/dev/kmsg"), 8192


@dataclass(frozen=True)
class Loaded:
    """A scheduler that was loaded: its name, and what identifies this loading of it."""

    root: Path
    name: str
    enable_seq: str
    rejected: str
    is_partial: bool

    @classmethod
    def read(cls, root: Path) -> Loaded:
        """The kernel's current state."""
        switch_all = text_of(root / "switch_all")
        return cls(root, text_of(root / "root" / "ops"), text_of(root / "enable_seq"),
                   text_of(root / "nr_rejected"), switch_all == "0")  # fmt: skip

    def findings(self) -> tuple[GateFinding, ...]:
        """Whether the run had this scheduler from its start to its end."""
        now, state = Loaded.read(self.root), text_of(self.root / "state")
        if state == "enabled" and now == self:
            return ()
        if state != "enabled" and (reason := _reason()):
            text = f"the kernel ejected the scheduler: {reason}"
        else:
            text = f"the scheduler {self.name} was ejected, or refused tasks (state {state})"
        return (GateFinding("ext-ejected", text),)

    def policy_of(self, policy: CpuPolicy) -> CpuPolicy:
        """The policy of the tasks: a scheduler for all takes ordinary ones as they are."""
        return policy if self.is_partial else replace(policy, policy="other", ext="", ext_args="")


def _reason() -> str:
    """Why the kernel ejected the last scheduler, by its log; "" where that is not known."""
    lines: list[str] = []
    with suppress(OSError):  # at its end: nothing more to read
        log = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while record := os.read(log, RECORD_BYTES_MAX):
                lines += record.decode(errors="replace").splitlines()
        finally:
            os.close(log)
    pattern = re.compile(r'sched_ext: BPF scheduler "[^"]*" disabled \((.+)\)')
    found = [match[1] for line in lines if (match := pattern.search(line))]
    return found[-1] if found else ""


@contextmanager
def loaded(
    group: launch.WorkGroup | None, policy: CpuPolicy
) -> Iterator[tuple[CpuPolicy, Loaded | None]]:
    """A candidate's scheduler loaded meanwhile; (what its tasks ask for, the scheduler if any).

    Its program runs in `group`, so that it always ends with the session.
    """
    if policy.policy != "ext" or group is None:
        yield policy, None
        return
    refuse_ext(SCHED_EXT)
    before = text_of(SCHED_EXT / "enable_seq")
    words = [*_loader_of(policy.ext), *shlex.split(policy.ext_args)]
    order = launch.Launch(words, Path("/"), dict(os.environ))
    with launch.background(order, group) as running:
        try:
            yield _await(running, before, policy)
        finally:
            _stop(running)
            group.end()
    if not owned.wait_until(lambda: text_of(SCHED_EXT / "state") == "disabled", START_S):
        raise HostError(
            f"{policy.ext} has ended, but the kernel still uses its scheduler",
            "see `dmesg`; SysRq-S makes the kernel return to its own",
        )


def _loader_of(scheduler: str) -> list[str]:
    """The program that holds a scheduler: itself, or ours for a compiled BPF object."""
    if is_bpf_object(Path(scheduler)):
        return [sys.executable, "-m", "schedlab.run.cpu.hold_scheduler", scheduler]
    return [scheduler]


def _await(
    running: launch.Running, before: str, policy: CpuPolicy
) -> tuple[CpuPolicy, Loaded | None]:
    """Wait until the scheduler was active, which it may be no more: one that forgets its tasks is
    ejected before anybody can look. HostError with the output of its program."""

    def is_over() -> bool:
        return _was_enabled(before) or running.ended() is not None

    owned.wait_until(is_over, START_S)
    if not _was_enabled(before):
        failure = running.ended()
        why = failure.failure((0,)) or "ended" if failure else f"loaded nothing in {START_S:g} s"
        lines = running.last_lines(10)
        raise HostError(
            f"policy ext: {policy.ext} {why}:\n{lines}".rstrip(":\n"),
            f"run it by hand: {policy.ext} {policy.ext_args}".rstrip(),
        )
    loaded = Loaded.read(SCHED_EXT)
    return loaded.policy_of(policy), loaded


def _was_enabled(before: str) -> bool:
    return text_of(SCHED_EXT / "enable_seq") not in ("", before)


def _stop(running: launch.Running) -> None:
    """Ctrl-C, which such programs take as the order to unload; then TERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        running.kill(number)
        deadline = time.monotonic() + STOP_S
        while running.ended() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if running.ended() is not None:
            return
