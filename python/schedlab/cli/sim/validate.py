"""`schedlab sim validate`: a simulated disk against the response times of a measured trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from schedlab.cli.sim.options import json_option, warn
from schedlab.spec import SCHEMA_VERSION


@click.command()
@click.argument("device")
@click.argument("trace", metavar="TRACE[:FORMAT]")
@click.option("--policy", default="fcfs", show_default=True)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a device key.")
@click.option(
    "--arrivals",
    type=click.Choice(["trace", "measured"]),
    default="trace",
    help="measured: at the measured times, also of a disksim-validate trace.",
)
@click.option("--closed", is_flag=True, help="Keep the measured think times, not the arrivals.")
@click.option("--requests", type=click.IntRange(min=1), help="At most so many.")
@click.option("--event", type=click.Choice(["queue", "dispatch", "complete"]), default="complete")
@click.option("--skip-bad-lines", is_flag=True, help="Skip malformed lines and count them.")
@click.option("--fail-above", help="Exit 1 when the demerit is above this share, such as 8%.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for figures and report.html.")
@json_option
def validate(
    device: str,
    trace: str,
    policy: str,
    changes: tuple[str, ...],
    fail_above: str | None,
    out: Path | None,
    as_json: bool,
    requests: int | None,
    **typed: Any,
) -> None:
    """Compare the response times of DEVICE with those that TRACE states (demerit)."""
    from schedlab.report.validation_page import write_validation
    from schedlab.sim import validate as rules
    from schedlab.sim.replay import replay_warnings
    from schedlab.sim.settings import device_changes

    limit = rules.parse_share(fail_above)
    simulation = rules.simulation_of(
        device, trace, policy, device_changes(changes), requests, **typed
    )
    found = rules.validate(simulation)
    if out is not None:
        title = f"{Path(device).name} and {Path(trace).name}"
        measured, simulated = found.measured_ms.tolist(), found.simulated_ms.tolist()
        write_validation(out, found.to_json(), measured, simulated, title)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA_VERSION, "device": device, **found.to_json()}))
    else:
        click.echo("\n".join(rules.show(found)))
    warn(replay_warnings(found.figures.get("trace")))
    if limit is not None and not found.parts["all"].demerit_share <= limit:
        raise SystemExit(1)
