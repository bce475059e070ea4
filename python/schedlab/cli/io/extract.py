"""`schedlab io extract`: unpack an archive from a cold cache; real, user, sys and CPU share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import PATH, command, json_option, typed_options
from schedlab.cli.sections import heeded
from schedlab.cli.types import Size


@command()
@click.argument("archive", type=PATH)
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False), default=".",
              show_default=True,
              help="Where to unpack; a temporary subdirectory is used.")  # fmt: skip
@click.option("--make-archive", is_flag=True,
              help="Make ARCHIVE first, with files like a source tree.")  # fmt: skip
@heeded("--make-archive", "--size", type=Size(), default="256M", show_default=True,
        help="Its size before packing.")  # fmt: skip
@heeded("--make-archive", "--decompressor", type=click.Choice(["none", "gzip", "xz", "zstd"]),
        default="none", show_default=True, help="How to pack it.")  # fmt: skip
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, show_default=True)
@json_option
def extract(archive: Path, directory: Path, repeat: int, as_json: bool, **typed: Any) -> None:
    """Unpack ARCHIVE from a cold cache; print real, user and system time, and the CPU share.

    The time includes writing everything to the disk. Caches are dropped before every repetition.
    """  # fmt: skip
    from schedlab.app.measure.extraction import extractions
    from schedlab.app.options import check_heeded
    from schedlab.cli.show import print_message, signals_interrupt

    options = typed_options(click.get_current_context())
    check_heeded(options, options.keys())
    archive_to_make = (typed["size"], typed["decompressor"]) if typed["make_archive"] else None
    rows = []
    with signals_interrupt():
        for row in extractions(archive, directory, repeat, archive_to_make, print_message):
            rows.append(row)
            if not as_json:
                click.echo(
                    f"real {row['real_s']:.3f} s   user {row['user_s']:.3f} s   "
                    f"sys {row['system_s']:.3f} s   CPU {row['cpu_share']:.0%}"
                )
    if as_json:
        click.echo(json.dumps({"schema": 1, "runs": rows}))
    elif min(row["cpu_share"] for row in rows) >= 0.9:
        print_message("note: limited by the CPU: this extraction cannot separate schedulers")
