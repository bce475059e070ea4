"""`schedlab io extract`: unpack an archive from a cold cache; real, user, sys and CPU share."""

from __future__ import annotations

import json
from pathlib import Path

import click

from schedlab.cli.types import Size
from schedlab.errors import SpecError


@click.command()
@click.argument("archive", type=click.Path(path_type=Path))
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="Where to unpack; an own subdirectory is made and removed.",
)
@click.option(
    "--make-archive", is_flag=True, help="Make ARCHIVE first, with files like a source tree."
)
@click.option(
    "--size", type=Size(), default="256M", show_default=True, help="Its size before packing."
)
@click.option(
    "--decompressor",
    type=click.Choice(["none", "gzip", "xz", "zstd"]),
    default="none",
    show_default=True,
    help="How to pack it.",
)
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def extract(
    archive: Path,
    directory: Path,
    make_archive: bool,
    size: int,
    decompressor: str,
    repeat: int,
    as_json: bool,
) -> None:
    """Unpack ARCHIVE from a cold cache and tell real, user and system time, and the CPU share.

    Writing everything to the disk counts as well. Caches are dropped before every repetition.
    """
    from schedlab.cli.show import say, signals_interrupt
    from schedlab.host.control import Control
    from schedlab.kinds import source_tree
    from schedlab.kinds.archive_extraction import extraction

    if make_archive and archive.exists():
        raise SpecError(f"{archive}: exists", "leave --make-archive out, or name another file")
    if make_archive:
        say(
            f"made {archive}: "
            f"{source_tree.write_archive(archive, size, decompressor, seed=1)} files"
        )
    if not archive.is_file():
        raise SpecError(f"{archive}: is not a file", "name a tar archive, or add --make-archive")
    rows = []
    with signals_interrupt(), Control(report=say) as control:
        own = control.directory(directory)
        for _ in range(repeat):
            control.drop_caches()
            real, user, system, status, message = extraction(archive, own)
            if status:
                raise SpecError(f"{archive}: {message}", "is it a tar archive?")
            rows.append(
                {
                    "real_s": real,
                    "user_s": user,
                    "system_s": system,
                    "cpu_share": (user + system) / real,
                }
            )
            if not as_json:
                row = rows[-1]
                click.echo(
                    f"real {real:.3f} s   user {user:.3f} s   sys {system:.3f} s   "
                    f"CPU {row['cpu_share']:.0%}"
                )
    if as_json:
        click.echo(json.dumps({"schema": 1, "runs": rows}))
    elif min(row["cpu_share"] for row in rows) >= 0.9:
        say("note: bound by the CPU: this extraction cannot tell schedulers apart")
