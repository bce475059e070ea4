"""`schedlab trace cpu -- COMMAND`: the CPU bursts of a command and of all that it forks."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.errors import SpecError

if TYPE_CHECKING:
    from schedlab.cpu.bursts import Bursts, Check

TASKS_SHOWN = 20


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--method", type=click.Choice(["bpf", "perf", "schedstat"]), help="Only this source.")
@click.option("--out", type=click.Path(path_type=Path), help="Write every burst to this CSV file.")
@click.option("--ring-bytes", type=int, default=8 << 20, show_default=True, help="Kernel's ring.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def cpu(
    ctx: click.Context,
    command: tuple[str, ...],
    method: str | None,
    out: Path | None,
    ring_bytes: int,
    as_json: bool,
) -> None:
    """Run COMMAND and tell how long it and what it forks stayed on a CPU each time.

    Write `--` before the command. Exits with the command's own status.
    """
    from schedlab._core import HeldCommand
    from schedlab.cpu.bursts import Capture, check

    program = shutil.which(command[0])
    if program is None:
        raise SpecError(f"{command[0]}: no such command", "name a program in PATH, or its path")
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    held = HeldCommand(program, list(command), environment)
    capture = Capture([held.pid()], method, ring_bytes)
    sys.stdout.flush()
    held.release()
    ended = None
    while ended is None:
        try:
            ended = held.wait(0.05)
        except KeyboardInterrupt:
            continue  # the terminal told the command as well; its end is awaited
    account = json.loads(ended)
    bursts = capture.finish()
    switches = account["voluntary_switches"] + account["involuntary_switches"]
    checks = check(bursts, account["cpu_ns"], switches)
    if out:
        _write_bursts(out, bursts)
    if as_json:
        click.echo(json.dumps(_as_json(bursts, checks, account)))
    else:
        _print(bursts, checks, account)
    ctx.exit(account["exit_status"])


def _write_bursts(out: Path, bursts: Bursts) -> None:
    lines = ["end_ns,duration_ns,task,preempted"]
    lines += [f"{end},{length},{task},{int(pre)}" for end, length, task, pre in bursts.records]
    try:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{out}: {error.strerror}", "name a writable file with --out") from error


def _as_json(
    bursts: Bursts, checks: tuple[Check, ...], account: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "schema": 1,
        "method": bursts.method,
        "passed_over": bursts.passed_over,
        "tasks": bursts.tasks,
        "lost": bursts.lost,
        "lost_tasks": bursts.lost_tasks,
        "account": account,
        "checks": [
            {"name": c.name, "found": c.found, "expected": c.expected, "deviation": c.deviation}
            for c in checks
        ],
    }


def _print(bursts: Bursts, checks: tuple[Check, ...], account: Mapping[str, Any]) -> None:
    for reason in bursts.passed_over:
        click.echo(f"note: {reason}", err=True)
    click.echo(f"method: {bursts.method}, {bursts.lost} records lost")
    if not bursts.has_bursts:
        switches = account["voluntary_switches"] + account["involuntary_switches"]
        click.echo(f"CPU time {account['cpu_ns'] / 1e6:.3f} ms in {switches} bursts")
        return
    click.echo("task      bursts  preempted     sum ms    mean ms     max ms")
    by_time = sorted(bursts.tasks, key=lambda task: -int(task["total_ns"]))
    for task in by_time[:TASKS_SHOWN]:
        total_ms, count = task["total_ns"] / 1e6, task["bursts"]
        longest_ms = task["histogram"][-1][1] / 1e6 if task["histogram"] else 0.0
        click.echo(
            f"{task['task']:<8} {count:>7} {task['preempted']:>10} {total_ms:>10.3f} "
            f"{total_ms / count if count else 0:>10.3f} {longest_ms:>10.3f}"
        )
    if len(by_time) > TASKS_SHOWN:
        click.echo(f"… and {len(by_time) - TASKS_SHOWN} more tasks (--json has all)")
    for one in checks:
        click.echo(one.sentence())
    if bursts.untraced_starts:
        charged = bursts.method == "bpf"
        what = "count with the CPU time that it charged" if charged else "add no time"
        click.echo(
            f"{bursts.untraced_starts} bursts whose beginning the kernel did not trace {what}"
        )
    if bursts.lost_tasks:
        click.echo(f"{bursts.lost_tasks} forked tasks could not be followed")
