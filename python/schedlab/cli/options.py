"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from schedlab.cli.types import Size

if TYPE_CHECKING:
    from schedlab.app.comparison import Place
    from schedlab.run.admitted import Permission

F = TypeVar("F", bound=Callable[..., Any])
PATH: Any = click.Path(path_type=Path)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order of `--help`."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


target_options = together(
    click.option("--scratch", type=Size(), help="A temporary loop device of this size (1G)."),
    click.option(
        "--scratch-directory",
        type=PATH,
        default=Path("/var/tmp"),
        show_default=True,
        help="Where the temporary file is: the disk below takes part.",
    ),
    click.option(
        "--fs", type=click.Choice(["ext4", "xfs", "btrfs", "none"]), help="What is on it."
    ),
    click.option("--model", help="An emulated device (see `schedlab device list`)."),
    click.option("--queue-depth", type=click.IntRange(1, 128), help="Its commands at a time."),
    click.option("--dilate", type=click.FloatRange(1), default=1.0, help="Its time, so slowed."),
    click.option("--rotational", type=click.Choice(["0", "1", "as-is"]), help="What it claims."),
    click.option("--device", type=PATH, help="One of your disks."),
    click.option("--read-only", is_flag=True, help="Only reads on it, also while it is in use."),
    click.option(
        "--destroy-data", type=PATH, metavar="DEVICE", help="Allow writes to it: name it again."
    ),
    click.option("--allow-unknown-data", is_flag=True, help="… also over data of unknown kind."),
    click.option("--directory", type=PATH, help="A file in this directory."),
    click.option("--size", type=Size(), default="1G", show_default=True, help="Size of that file."),
    click.option(
        "--switch", metavar="QUEUES", help="Disks below it that may be switched: sda,sdb."
    ),
)
out_option = click.option("--out", type=PATH, help="Result folder (default: results/DATE-NAME).")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the plan, every setting and the time; measure nothing."
)
seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), help="Fixes orders and offsets."
)
trust_option = click.option(
    "--trust", is_flag=True, help="Allow the programs, devices and queues that the file names."
)
goal_option = click.option(
    "--goal",
    type=click.Choice(["throughput", "latency", "fairness", "responsiveness"]),
    help="Which metrics decide (default: those chosen before the first run).",
)


def place_of(typed: dict[str, Any]) -> Place:
    """The target options, taken out of what was typed."""
    from schedlab.app.comparison import Place

    def text(value: object) -> str | None:
        return None if value is None else str(value)

    return Place(
        scratch_bytes=typed.pop("scratch"),
        scratch_directory=str(typed.pop("scratch_directory")),
        device=text(typed.pop("device")),
        destroy_data=text(typed.pop("destroy_data")),
        read_only=typed.pop("read_only"),
        allow_unknown_data=typed.pop("allow_unknown_data"),
        directory=text(typed.pop("directory")),
        size_bytes=typed.pop("size"),
        switch=tuple(filter(None, (typed.pop("switch") or "").split(","))),
        model=typed.pop("model"),
        queue_depth=typed.pop("queue_depth") or 0,
        dilate=typed.pop("dilate"),
        rotational=typed.pop("rotational") or "",
        filesystem=typed.pop("fs") or "",
    )


def permission_of(place: Place, *, trust: bool = True) -> Permission:
    """What the typed options agree to; holds the device of --destroy-data from now on."""
    from schedlab.host.consent import consent_to
    from schedlab.run.admitted import Permission

    over = place.allow_unknown_data
    device = place.destroy_data
    consents = (consent_to(device, allow_unknown_data=over),) if device else ()
    return Permission(consents, trust, in_use=place.read_only)
