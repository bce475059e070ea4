"""`schedlab reproduce`: measure a stored experiment again, and check that it still holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import (
    PATH,
    command,
    destroy_option,
    json_option,
    out_option,
    trust_option,
)


@command()
@click.argument("directory", type=PATH)
@trust_option
@destroy_option
@out_option
@json_option
@click.pass_context
def reproduce(ctx: click.Context, /, directory: Path, as_json: bool, **typed: Any) -> None:
    """Measure the experiment of DIRECTORY again, with the same plan and seeds, in a new folder.

    Exits 0 when no pair of candidates contradicts the first result, 1 when one does. In virtual
    time the runs must be identical to the bit.
    """  # fmt: skip
    from schedlab.app.compare.contradict import contradictions
    from schedlab.app.measure import virtual
    from schedlab.app.measure.measure import default_folder
    from schedlab.app.measure.measure import reproduce as measure_again
    from schedlab.app.options import permission
    from schedlab.cli.show import measuring, present, print_message, print_result

    if virtual.is_virtual(directory):
        with measuring() as observer:
            out = Path(typed["out"] or default_folder("reproduce"))
            text, is_same = virtual.identity(*virtual.reproduce(directory, out, observer))
        print_result(as_json, {"identical": is_same, "again": str(out), "text": text}, [text])
        ctx.exit(0 if is_same else 1)
    trust = typed["trust"]
    allowed = permission(typed["destroy_data"], trust=trust, in_use=trust)
    with measuring() as observer:
        first, again = measure_again(directory, typed["out"], permission=allowed, observer=observer)
    lines = contradictions(first.answer, again.answer)
    if as_json:
        files = {"first": str(directory), "again": str(again.folder.path)}
        click.echo(json.dumps({"schema": 1, "contradictions": lines, **files}))
    else:
        present(again, as_json=False)
    for line in lines:
        print_message(f"not reproduced: {line}")
    if not lines:
        print_message(f"nothing contradicts {directory}")
    ctx.exit(1 if lines else 0)
