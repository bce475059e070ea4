"""`schedlab trace convert`: a block trace in another format."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import click

from schedlab.cli.trace.common import as_spec_error, options_json, reading_options, split_format
from schedlab.errors import SpecError


@click.command()
@click.argument("file", metavar="IN[:FORMAT]")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", required=True, help="Format to write; see `schedlab trace stats --help`.")
@reading_options
def convert(
    file: str,
    out: Path,
    to: str,
    skip_bad_lines: bool,
    reorder: int | None,
    event: str,
    as_json: bool,
) -> None:
    """Write the requests of a block trace to OUT in another format, in order of arrival."""
    from schedlab import _core

    writable = [name for name, _, can_write in _core.trace_formats() if can_write]
    if to not in writable:
        raise SpecError(f"cannot write trace format {to!r}", f"--to one of {', '.join(writable)}")
    path, name = split_format(file)
    options = options_json(skip_bad_lines, reorder, event)
    # Beside the target under another name, so that nothing half-written is ever called OUT.
    try:
        handle, temporary = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
        os.close(handle)
    except OSError as error:
        raise SpecError(f"{out}: {error.strerror}", "name a writable file") from error
    try:
        text = _core.trace_convert(path, temporary, to, name, options)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(out)
    except ValueError as error:
        raise as_spec_error(error) from None
    finally:
        Path(temporary).unlink(missing_ok=True)
    told = json.loads(text)
    if as_json:
        click.echo(json.dumps({"schema": 1, "file": path, "out": str(out), **told}, indent=1))
        return
    done = told["done"]
    click.echo(f"{done['requests']:,} requests from {told['format']} to {to}: {out}")
    for key, words in (("trims_left_out", "trims left out"), ("bad", "bad lines passed over")):
        count = done.get(key, done["skipped"].get(key, 0))
        if count:
            click.echo(f"warning: {count:,} {words}", err=True)
