"""Restore by hand what sessions that died left changed."""

from __future__ import annotations

from schedlab.host.emulated import keeper
from schedlab.host.safety import boots_held, journal, recover


def recover_all(
    state_directory: str | None, dry_run: bool, forget_undo: bool = False
) -> recover.Recovery:
    """Restore, or list (`dry_run`), what dead sessions and a reboot left behind.

    `forget_undo` takes commands that dead sessions ran for undone, and runs no `undo`. Running
    sessions are not touched. RestoreError is up to the caller: `raise_if_failed`.
    """
    directory = journal.state_directory(state_directory)
    if dry_run and not directory.exists():
        return recover.restore_all(directory, dry_run)
    journal.prepare(directory)
    with journal.HostLock(directory) as lock:
        lock.acquire(30.0)
        if forget_undo and not dry_run:
            recover.forget_commands(directory)
        recovery = recover.restore_all(directory, dry_run)
    for left in [] if dry_run else keeper.settle_stale(directory):
        recovery.add(left)
    # Last: it raises where the boot loader of its note is gone.
    recovery.removed += boots_held.give_back(dry_run, directory)
    return recovery
