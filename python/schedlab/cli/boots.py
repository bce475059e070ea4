"""`schedlab boots`: compare kernels and boot parameters, a reboot between two measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli import LazyGroup
from schedlab.cli.apply import root_option
from schedlab.cli.options import (
    PATH,
    command,
    destroy_option,
    json_option,
    out_option,
    trust_option,
)
from schedlab.cli.types import Words

if TYPE_CHECKING:
    from schedlab.app.fleet.boots import Boots

BOOTS = {
    "init": "schedlab.cli.boots:init",
    "next": "schedlab.cli.boots:next_",
    "status": "schedlab.cli.boots:status",
    "end": "schedlab.cli.boots:end",
}
folder_argument = click.argument("folder", type=PATH, required=False)


@click.group(cls=LazyGroup, commands_by_name=BOOTS)
def boots() -> None:
    """Compare kernels and boot parameters: each is booted several times, in random order."""


@command()
@click.argument("file", type=PATH)
@click.option("--kernels", type=Words(), metavar="NAMES", help="Releases, as `uname -r` has them.")
@click.option(
    "--candidate", "candidates", multiple=True, metavar="TEXT",
    help="One with boot parameters: 'one-cpu=6.1.0-18-amd64 cmdline=maxcpus=1'.",
)  # fmt: skip
@click.option("--boots", type=click.IntRange(1, 1000), default=6, show_default=True,
              help="Boots of each.")  # fmt: skip
@click.option("--with", "command", default="", metavar="COMMAND",
              help="Sets the next boot (default: GRUB or systemd-boot).")  # fmt: skip
@click.option("--unit", is_flag=True, help="Go on after each reboot, by a unit of systemd.")
@trust_option
@destroy_option
@root_option
@out_option
@json_option
def init(
    file: Path, kernels: tuple[str, ...] | None, candidates: tuple[str, ...], unit: bool,
    root: Path, out: Path | None, as_json: bool, **typed: Any,
) -> None:  # fmt: skip
    """Plan boots that each measure the experiment in FILE. The first kernel is the baseline.

    COMMAND finds $SCHEDLAB_BOOT, $SCHEDLAB_KERNEL and $SCHEDLAB_CMDLINE, empty for the default.
    """
    from schedlab.app.fleet import boots as plans
    from schedlab.app.measure.files import read_experiment
    from schedlab.app.measure.measure import default_folder
    from schedlab.app.options import permission

    texts = (*(kernels or ()), *candidates)
    plan = plans.planned(read_experiment(file), texts, typed["boots"], typed["command"])
    trust, device = typed["trust"], typed["destroy_data"]
    allowed = permission(device, trust=trust, in_use=trust)
    made = plans.create(out or default_folder(file.stem), plan, allowed, root)
    words = _consent(trust, device)
    if unit:
        made.install_unit(words)
    _show(made, as_json, words)


@command("next")
@folder_argument
@click.option("--reboot", is_flag=True, help="Reboot afterwards, unless all is measured.")
@click.option("--boots", type=click.IntRange(1, 1000), help="Extend the plan: boots of each.")
@trust_option
@destroy_option
@json_option
def next_(
    folder: Path | None, reboot: bool, boots: int | None, trust: bool, destroy_data: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Measure what is due in this boot, and have the boot loader boot what is next, once.

    FOLDER is that of `boots init` (default: the plan under way). After the last boot the default
    is booted again, and the result is shown.
    """
    from schedlab.app.fleet.boots import Boots
    from schedlab.app.fleet.boots import reboot as reboot_now
    from schedlab.app.options import permission
    from schedlab.cli.show import measuring, present

    plan = Boots(folder)
    with measuring() as observer:
        result = plan.next(permission(destroy_data, trust=trust, in_use=trust), observer, boots)
    if result:
        present(result, as_json)
        return
    _show(plan, as_json, _consent(trust, destroy_data))
    if reboot:
        reboot_now()


@command()
@folder_argument
@json_option
def status(folder: Path | None, as_json: bool) -> None:
    """Show which boots were measured, which were killed or foreign, and what is next."""
    from schedlab.app.fleet.boots import Boots

    _show(Boots(folder), as_json)


def _consent(trust: bool, device: Path | None) -> list[str]:
    """The words of a command that allow what was allowed here."""
    return [*(["--trust"] if trust else []), *(["--destroy-data", str(device)] if device else [])]


def _show(plan: Boots, as_json: bool, words: Sequence[str] = ()) -> None:
    """Print where a plan is; WORDS belong to its next command."""
    from schedlab.cli.show import print_result

    print_result(as_json, plan.as_json(), plan.lines(words))


@command()
@folder_argument
@json_option
def end(folder: Path | None, as_json: bool) -> None:
    """Boot the default again, remove the unit, and show the result of the whole rounds.

    An entry that another program has chosen for the next boot stays.
    """
    from schedlab.app.fleet.boots import Boots
    from schedlab.cli.show import measuring, present, print_result

    with measuring() as observer:
        result = Boots(folder).end(observer)
    if result is None:
        print_result(as_json, {"result": None}, ["No round of boots is whole: no result yet."])
    else:
        present(result, as_json)
