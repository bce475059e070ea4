"""`schedlab apply`, `undo`, `status`: set the winner, keep it, undo it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import command, json_option
from schedlab.cli.types import Duration, Words

root_option = click.option(
    "--root", type=click.Path(path_type=Path), default=Path("/"), hidden=True
)


@command()
@click.argument("what", metavar="RESULT|SCHEDULER|SETTING=VALUE")
@click.argument("devices", nargs=-1)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A tunable as well.")
@click.option(
    "--persist", is_flag=True, help="Keep it after a reboot, by a udev rule (CPU: sysctl.d)."
)
@click.option(
    "--switch",
    type=Words(),
    metavar="NAMES",
    help="Settings of the machine that RESULT may set, too.",
)
@click.option("--anyway", is_flag=True, help="Apply a result that names no winner for this place.")
@click.option("--dry-run", is_flag=True, help="Print the changes; write nothing.")
@root_option
@json_option
def apply(what: str, changes: tuple[str, ...], anyway: bool, switch: tuple[str, ...] | None,
          as_json: bool, **typed: Any) -> None:  # fmt: skip
    """Set the winner of RESULT, or a SCHEDULER[:TUNABLE=VALUE,…], on DEVICES and keep it set.

    SETTING is one of the machine (no DEVICES): sysctl.NAME, governor, thp, base_slice_ns, …

    `schedlab undo` restores the old settings byte by byte; `schedlab status` shows what is applied.
    """
    from schedlab.app.apply.apply import Request, choice_of
    from schedlab.app.apply.apply import apply as apply_choice
    from schedlab.cli.show import print_message, print_result
    from schedlab.nouns import to_json

    choice = choice_of(what, changes, anyway, typed["devices"], switch or ())
    records = apply_choice(
        choice, Request(**typed), click.echo if typed["dry_run"] else print_message
    )
    lines = []
    for record in records:
        lasting = "also after a reboot" if record.files else "until the next reboot"
        lines.append(f"{record.device}: {record.setting}, {lasting}")
        lines.append(f"undo: schedlab undo {record.device}")
    print_result(as_json, {"applied": to_json(records)}, lines)


@command()
@click.argument("devices", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Everything that was applied.")
@json_option
def undo(devices: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Restore what was set before `schedlab apply` on DEVICES (if only one is applied: there)."""
    from schedlab.app.apply.undo import undo as undo_applied
    from schedlab.cli.show import print_message, print_result
    from schedlab.errors import SpecError

    if devices and everything:
        raise SpecError("name devices, or --all", "schedlab status shows what is applied")
    undone = undo_applied(devices, everything, print_message)
    print_result(as_json, {"undone": undone}, [f"undone: {each}" for each in undone or ["nothing"]])


@command()
@root_option
@click.option(
    "--watch",
    metavar="DEVICE",
    help="Instead: print every change of its settings (or of the `machine`'s), and who made it.",
)
@click.option(
    "--seconds", type=Duration(), default=0.0, help="How long to watch (default: until Ctrl-C)."
)
@json_option
def status(root: Path, watch: str | None, seconds: float, as_json: bool) -> None:
    """Show what is applied, since when, by which result; exit with 1 unless all is still set.

    --watch with --json prints one line of JSON for each change.
    """
    from schedlab.app.apply.undo import status as status_of
    from schedlab.app.apply.undo import status_lines
    from schedlab.cli.show import print_result
    from schedlab.nouns import to_json

    if seconds and not watch:
        raise click.UsageError("--seconds works with --watch DEVICE only")
    if watch:
        _watch(watch, seconds, as_json)
        return
    applied = status_of(root)
    print_result(as_json, {"applied": to_json(applied)}, status_lines(applied))
    if not all(each.holds for each in applied):
        raise SystemExit(1)


def _watch(device: str, seconds: float, as_json: bool) -> None:
    from schedlab.app.apply.watch import watch as changes_of
    from schedlab.cli.show import print_message

    try:
        for change in changes_of(device, seconds, report=print_message):
            click.echo(change.json_line() if as_json else change.line())
    except KeyboardInterrupt:
        return
