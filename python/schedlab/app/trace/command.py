"""The CPU bursts of a command and of all that it forks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from schedlab._core import Launched
from schedlab.cpu.bursts import RING_BYTES, Bursts, Capture, Check, check
from schedlab.errors import HostError, SpecError
from schedlab.kinds.brought import program_path
from schedlab.nouns.load_result import Ending
from schedlab.store.bursts import as_csv
from schedlab.store.files import write_atomic

TASKS_SHOWN = 20
RING_BYTES_MIN = 4096  # a page


@dataclass(frozen=True)
class Traced:
    """The bursts, how they agree with the kernel's own account, and that account."""

    bursts: Bursts
    checks: tuple[Check, ...]
    account: Ending


def trace_command(
    command: Sequence[str], method: str | None, ring_bytes: int = RING_BYTES
) -> Traced:
    """Run a command to its end under capture; SpecError when there is no such program, HostError
    when the kernel does not execute it."""
    program = program_path(command[0])
    if program is None:
        raise SpecError(f"{command[0]}: no such command", "name a program in PATH, or its path")
    if ring_bytes < RING_BYTES_MIN:
        raise SpecError(f"a ring of {ring_bytes} bytes", f"choose at least {RING_BYTES_MIN}")
    order = {
        "program": program, "argv": list(command), "directory": str(Path.cwd()), "held": True,
        "environment": [f"{name}={value}" for name, value in os.environ.items()],
        "same_session": True,
    }  # fmt: skip
    held = Launched(json.dumps(order))
    capture = Capture([held.pid()], method, ring_bytes)
    try:
        held.release()
    except OSError as error:
        raise HostError(f"cannot execute {program}: {error.strerror}", f"file {program}") from error
    ended = None
    while ended is None:
        try:
            ended = held.wait(0.05)
        except KeyboardInterrupt:
            continue  # the terminal interrupted the command as well; its end is awaited
    ending = msgspec.json.decode(ended, type=Ending)
    bursts = capture.finish()
    return Traced(bursts, check(bursts, ending.cpu_ns, ending.switches), ending)


def write_bursts(out: Path, bursts: Bursts) -> None:
    """Every burst as CSV; HostError when the file cannot be written."""
    write_atomic(out, as_csv(bursts.records))


def as_json(traced: Traced) -> dict[str, object]:
    """Everything, in plain JSON types."""
    bursts = traced.bursts
    return {
        "schema": 1,
        "method": bursts.method,
        "passed_over": bursts.passed_over,
        "tasks": bursts.tasks,
        "lost": bursts.lost,
        "lost_tasks": bursts.lost_tasks,
        "account": {
            name: getattr(traced.account, name)
            for name in ("exit_status", "cpu_ns", "voluntary_switches", "involuntary_switches")
        },
        "checks": [
            {"name": c.name, "found": c.found, "expected": c.expected, "deviation": c.deviation}
            for c in traced.checks
        ],
    }


def lines(traced: Traced) -> Iterator[str]:
    """The result in words: notes first, then a table of the tasks with most CPU time."""
    bursts, checks, account = traced.bursts, traced.checks, traced.account
    for reason in bursts.passed_over:
        yield f"note: {reason}"
    yield (f"method: {bursts.method}, {bursts.lost} records lost")
    if not bursts.has_bursts:
        yield (f"CPU time {account.cpu_ns / 1e6:.3f} ms in {account.switches} bursts")
        return
    yield ("task      bursts  preempted     sum ms    mean ms     max ms")
    by_time = sorted(bursts.tasks, key=lambda task: -task["total_ns"])
    for task in by_time[:TASKS_SHOWN]:
        total_ms, count = task["total_ns"] / 1e6, task["bursts"]
        longest_ms = task["histogram"][-1][1] / 1e6 if task["histogram"] else 0.0
        yield (
            f"{task['task']:<8} {count:>7} {task['preempted']:>10} {total_ms:>10.3f} "
            f"{total_ms / count if count else 0:>10.3f} {longest_ms:>10.3f}"
        )
    if len(by_time) > TASKS_SHOWN:
        yield (f"… and {len(by_time) - TASKS_SHOWN} more tasks (--json has all)")
    for one in checks:
        yield (one.sentence())
    if bursts.untraced_starts:
        charged = bursts.method == "bpf"
        what = "count with the CPU time that it charged" if charged else "add no time"
        yield (f"{bursts.untraced_starts} bursts whose start the kernel did not trace {what}")
    if bursts.lost_tasks:
        yield (f"{bursts.lost_tasks} forked tasks could not be followed")
