"""`schedlab fleet`: measure on many machines over ssh, apply the answer there, undo it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.options import PATH, json_option, out_option, trust_option
from schedlab.cli.sections import Group, together

if TYPE_CHECKING:
    from schedlab.app.fleet.fleet import HostState

inventory_options = together(
    click.option(
        "-i", "--inventory", type=PATH, required=True, help="Ansible's inventory of the machines."
    ),
    click.option("--limit", default="", metavar="PATTERN", help="Only these hosts or groups."),
)


@click.group(cls=Group)
def fleet() -> None:
    """Measure on many machines over ssh, apply what the answer is, and undo it.

    Ansible reaches the machines: pip install 'schedlab[fleet]'.
    """


@fleet.command()
@click.argument("file", type=PATH)
@inventory_options
@click.option("--wheel", type=PATH, help="Install this wheel of schedlab on the machines.")
@trust_option
@out_option
@json_option
def run(file: Path, wheel: Path | None, trust: bool, out: Path | None, as_json: bool,
        **typed: Any) -> None:  # fmt: skip
    """Measure the experiment in FILE on every machine, and join what comes home.

    The same command with --out of the last time measures what is missing.
    """
    from schedlab.app.fleet.fleet import Machines, joined, measure
    from schedlab.cli.show import present, print_message
    from schedlab.errors import HostError

    variables: dict[str, object] = {"schedlab_options": ["--trust"]} if trust else {}
    if wheel:
        variables["schedlab_wheel"] = str(wheel.resolve())
    with host_lines() as show:
        place, measured = measure(file, Machines(**typed, variables=variables), out, show)
    again = ["schedlab", "fleet", "run", str(file), "-i", str(typed["inventory"])]
    again += ["--limit", typed["limit"]] if typed["limit"] else []
    again += ["--wheel", str(wheel)] if wheel else []
    again += [*(["--trust"] if trust else []), "--out", str(place)]
    hint = f"when they are well again: {shlex.join(again)}"
    for host, why in measured.missing.items():
        print_message(f"missing: {host}: {why}")
    if len(measured.folders) < 2:
        total = len(measured.folders) + len(measured.missing)
        came = f"{len(measured.folders)} of {total} machines measured it"
        raise HostError(f"{came}: an answer needs two", hint)
    if measured.missing:
        print_message(f"hint: {hint}")
    present(joined(place, measured.folders, len(measured.missing)), as_json)
    if measured.missing:
        raise SystemExit(1)


@fleet.command()
@click.argument("what", metavar="RESULT|SCHEDULER")
@inventory_options
@click.option("--persist", is_flag=True, help="Keep it after a reboot.")
@click.option("--dry-run", is_flag=True, help="Print what each machine would change.")
@json_option
def apply(what: str, persist: bool, dry_run: bool, as_json: bool, **typed: Any) -> None:
    """Set on each machine what the answer of RESULT says for its kind of device.

    RESULT is `answer` of `fleet run`, or of `merge --hosts`. A machine on which the opposite is
    proven is left alone. A SCHEDULER[:TUNABLE=VALUE,…] is set on all.
    """
    from schedlab.app.fleet.fleet import settings
    from schedlab.cli.show import print_message

    flags = [*(["--persist"] if persist else []), *(["--dry-run"] if dry_run else [])]
    variables: dict[str, object] = {"schedlab_apply_options": flags}
    if Path(what).is_dir():
        variables["schedlab_settings"], left = settings(Path(what))
        for host, why in left.items():
            print_message(f"{host}: left as it is: {why}")
        if not variables["schedlab_settings"]:
            return
    else:
        variables["schedlab_setting"] = what
    _play("apply", typed, as_json, variables)


@fleet.command()
@inventory_options
@json_option
def undo(as_json: bool, **typed: Any) -> None:
    """Restore on each machine what was set before `apply`."""
    _play("undo", typed, as_json, {})


@fleet.command()
@inventory_options
@json_option
def status(as_json: bool, **typed: Any) -> None:
    """Show what is applied on each machine; exit with 1 unless all is still set."""
    _play("status", typed, as_json, {})


def _play(playbook: str, typed: dict[str, Any], as_json: bool, variables: dict[str, Any]) -> None:
    """Run a playbook, and print what its command printed on each machine."""
    from schedlab.app.fleet.fleet import Machines, play
    from schedlab.cli.show import print_result

    states: dict[str, HostState] = play(playbook, Machines(**typed, variables=variables), _silent)
    lines = [f"{host}: {line}" for host, state in sorted(states.items())
             for line in (state.output or state.text).splitlines()]  # fmt: skip
    document = {"hosts": {host: vars(state) for host, state in states.items()}}
    print_result(as_json, document, lines)
    if any(state.failed for state in states.values()):
        raise SystemExit(1)


def _silent(host: str, text: str) -> None:
    pass


@contextmanager
def host_lines() -> Iterator[Callable[[str, str], None]]:
    """A line for each host, rewritten on a terminal; elsewhere a line for each change."""
    from schedlab.cli.show import print_message

    if not sys.stderr.isatty():
        yield lambda host, text: print_message(f"{host}: {text}")
        return
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    from schedlab.nouns.printable import printable

    texts: dict[str, str] = {}
    with Live(console=Console(stderr=True), auto_refresh=False) as live:

        def show(host: str, text: str) -> None:
            texts[host] = text
            table = Table.grid(padding=(0, 2))
            for row in sorted(texts.items()):
                table.add_row(*(Text(printable(word)) for word in row))
            live.update(table, refresh=True)

        yield show
