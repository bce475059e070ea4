"""`schedlab io set`: set a scheduler, verified, on the devices that are named and no other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from schedlab.errors import SpecError

if TYPE_CHECKING:
    from schedlab.host.control import Control
    from schedlab.spec import Candidate


@click.command("set")
@click.argument("scheduler")
@click.argument("devices", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def set_(scheduler: str, devices: tuple[str, ...], as_json: bool) -> None:
    """Set SCHEDULER, or SCHEDULER:TUNABLE=VALUE,…, on DEVICES, and read it back.

    It stays until the next boot; what it was, and the command that takes it back, is printed. If
    one device does not take it, or the command is killed half-way, all are put back.
    """
    from schedlab.design.candidates import parse_candidates
    from schedlab.host.control import Control
    from schedlab.host.knobs import device_name

    candidates = parse_candidates(scheduler)
    if len(candidates) != 1:
        raise SpecError(f"{scheduler!r} names {len(candidates)} schedulers", "name one")
    done = {}
    with Control(named_devices=devices, report=lambda line: click.echo(line, err=True)) as control:
        for name in dict.fromkeys(map(device_name, devices)):
            done[name] = _set_one(control, name, candidates[0])
        control.keep()
    if as_json:
        click.echo(json.dumps({"schema": 1, "devices": done}, indent=2))
        return
    for name, facts in done.items():
        click.echo(f"{name}:\t{facts['before']} -> {facts['after']}")
        for note in facts["notes"]:
            click.echo(f"note: {name}: {note}", err=True)
        click.echo(f"take back: {facts['take_back']}", err=True)


def _set_one(control: Control, device: str, candidate: Candidate) -> dict[str, Any]:
    """Set one device; what was, is, and takes it back."""
    from schedlab.host import knobs

    queue = knobs.queue_of(device)
    before = knobs.read_value(knobs.scheduler_file(device))
    found = knobs.snapshot(queue)
    # The same scheduler with the kernel's defaults shows what had been tuned by hand.
    defaults = control.set_scheduler(device, before).queue
    tuned = [
        f"{name.removeprefix('iosched/')}={value}"
        for name, value in found.items()
        if knobs.writable(queue / name) and defaults.get(name) != value
    ]
    tunables = {k: v for k, v in candidate.settings.items() if k != "scheduler"}
    applied = control.set_scheduler(device, str(candidate.settings["scheduler"]), tunables)
    what = f"{before}:{','.join(tuned)}" if tuned else before
    return {
        "before": before,
        "after": applied.scheduler,
        "tunables": dict(applied.tunables),
        "notes": list(applied.notes),
        "take_back": f"schedlab io set {what} {device}",
    }
