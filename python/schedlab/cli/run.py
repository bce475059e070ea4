"""`schedlab run FILE`: measure an experiment file, or resume or extend a result folder."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.options import PATH, dry_run_option, json_option, out_option, trust_option
from schedlab.cli.types import Duration
from schedlab.errors import SpecError


@click.command()
@click.argument("file", type=PATH, required=False)
@trust_option
@click.option("--destroy-data", type=PATH, metavar="DEVICE", help="Allow writes to this device.")
@click.option("--resume", type=PATH, metavar="DIR", help="Measure what is left of this folder.")
@click.option("--blocks", type=click.IntRange(1, 10_000), help="With --resume: so many blocks.")
@click.option("--budget", type=Duration(), help="With --resume: so much more time.")
@out_option
@dry_run_option
@json_option
def run(
    file: Path | None,
    trust: bool,
    destroy_data: Path | None,
    resume: Path | None,
    blocks: int | None,
    budget: float | None,
    out: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Measure the experiment in FILE (write one with `schedlab init`)."""
    from schedlab.app import measure
    from schedlab.app.files import read_experiment
    from schedlab.cli.show import measuring, present, run_and_present
    from schedlab.host.consent import consent_to
    from schedlab.run.admitted import Permission

    if (file is None) == (resume is None):
        raise SpecError("name either FILE or --resume DIR", "schedlab run experiment.toml")
    consents = (consent_to(destroy_data),) if destroy_data else ()
    permission = Permission(consents, trust or resume is not None, in_use=trust)
    if resume:
        with measuring() as observer:
            result = measure.resume(
                resume, blocks=blocks, budget_s=budget, permission=permission, observer=observer
            )
        present(result, as_json)
        return
    assert file is not None
    run_and_present(
        read_experiment(file),
        permission,
        out=out,
        name=file.stem,
        dry_run=dry_run,
        as_json=as_json,
    )
