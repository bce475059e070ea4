"""`schedlab export`: a result folder in the format of another tool."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.options import command
from schedlab.errors import SpecError


@command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["fio", "iozone"]), required=True,
              help="fio: json+ with bins, named for fio-plot; iozone: text of -R.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the file names as JSON.")
def export(folder: Path, form: str, out: Path, as_json: bool) -> None:
    """Write the runs of the result FOLDER for other tools."""
    from schedlab.cli.show import print_result
    from schedlab.result import Result
    from schedlab.store.exporters import fio, iozone

    result = Result.load(folder)
    record, parameters = result.record, result.parameters
    try:
        written = {"fio": fio, "iozone": iozone}[form].write(record, parameters, out)
    except OSError as error:
        raise SpecError(f"{out}: {error.strerror}", "name a writable folder") from error
    if not written:
        raise SpecError(f"{folder}: has no run with a throughput", "look at runs.jsonl")
    files = [str(path) for path in written]
    print_result(as_json, {"files": files}, files)
