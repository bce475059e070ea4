"""`schedlab trace stats|convert|timeline`: block traces in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import PATH, command, json_option, language_option
from schedlab.cli.sections import together

_reading_options = together(
    click.option("--skip-bad-lines", is_flag=True, help="Skip malformed lines and count them."),
    click.option("--reorder", type=click.IntRange(0, 1 << 24),
                 help="Requests held back to put them in order (default: by the format)."),
    click.option("--event", type=click.Choice(["queue", "dispatch", "complete"]), default="queue",
                 show_default=True, help="blkparse, blktrace: the event that is the arrival."),
    json_option,
)  # fmt: skip


@command()
@click.argument("file", metavar="FILE[:FORMAT]")
@_reading_options
def stats(file: str, as_json: bool, **options: Any) -> None:
    """Describe the requests of a block trace.

    FILE may be compressed (gzip, zstd, bzip2, xz). `sda` means all files `sda.blktrace.*`.
    """
    from schedlab.app.trace import files as trace_files
    from schedlab.cli.show import print_result

    figures = trace_files.stats(file, options)
    print_result(as_json, figures, trace_files.stats_lines(figures))


@command()
@click.argument("file", metavar="IN[:FORMAT]")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", required=True, help="Format to write; see `schedlab trace stats --help`.")
@_reading_options
def convert(file: str, out: Path, to: str, as_json: bool, **options: Any) -> None:
    """Write the requests of a trace to OUT in another format; perfetto and ctf are timelines."""
    from schedlab.app.trace import files as trace_files
    from schedlab.cli.show import print_result

    counts = trace_files.convert(file, out, to, options)
    print_result(as_json, counts, trace_files.converted_lines(counts, to))


@command()
@click.argument("files", nargs=-1, required=True, metavar="FILE[:FORMAT]…")
@click.option("--out", type=PATH, required=True, help="The page, such as timeline.html.")
@language_option
def timeline(files: tuple[str, ...], out: Path, lang: str | None) -> None:
    """Draw FILES of trace io, sim run --log or trace cpu over time: a page to explore."""
    from schedlab.app.trace.timeline import write_timeline

    click.echo(f"{out}: {write_timeline(files, out, lang).counts}")
