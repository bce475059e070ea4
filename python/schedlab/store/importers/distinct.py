"""Differences between runs that have one label: other options, another disk, another program.

Runs of one candidate and workload are repetitions only where the same thing was measured. Options
of the load that differ make other workloads. So does the subject (a disk, a file), or the program
with its version, where one candidate has several. Where each candidate has its own, it is a note:
the comparison may be of disks instead of schedulers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Reading


def tell_apart(readings: Sequence[Reading]) -> tuple[list[Reading], list[str]]:
    """The readings, with labels that differ where the load does, and notes."""
    groups: dict[str, list[Reading]] = {}
    for reading in readings:
        groups.setdefault(reading.workload, []).append(reading)
    labels: dict[int, str] = {}
    notes: list[str] = []
    for label, group in groups.items():
        names = dict.fromkeys(name for each in group for name in each.options)
        differing = [n for n in names if len({each.options.get(n) for each in group}) > 1]
        with_subject = _varies(label, group, "subject", "on different disks or files", notes)
        with_program = _varies(label, group, "program", "by different programs", notes)
        for each in group:
            parts = [_option(name, each.options.get(name)) for name in differing]
            text = label + (f" ({', '.join(parts)})" if parts else "")
            text += f" of {each.subject or 'an unnamed one'}" if with_subject else ""
            text += f" by {each.program or 'an unnamed program'}" if with_program else ""
            labels[id(each)] = text
    return [replace(each, workload=labels[id(each)]) for each in readings], notes


def _option(name: str, value: str | None) -> str:
    return f"{name} default" if value is None else f"{name}={value}"


def _varies(
    label: str, group: Sequence[Reading], name: str, differently: str, notes: list[str]
) -> bool:
    """Whether one candidate has several of what the field `name` says; a note where only the
    candidates differ in it.
    """
    values: dict[str, dict[str, None]] = {}
    for each in group:
        values.setdefault(each.candidate, {})[getattr(each, name)] = None
    if any(len(each) > 1 for each in values.values()):
        return True
    single = {candidate: next(iter(each)) for candidate, each in values.items()}
    if len(set(single.values())) > 1:
        joint = "on" if name == "subject" else "by"
        listed = ", ".join(f"{c} {joint} {s or 'an unnamed one'}" for c, s in single.items())
        notes.append(f"{label}: the candidates were measured {differently}: {listed}")
    return False
