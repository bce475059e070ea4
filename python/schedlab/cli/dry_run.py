"""What an experiment would do: its plan, every setting that would be written, and the time."""

from __future__ import annotations

import click

from schedlab.spec import Experiment


def show_plan(experiment: Experiment, as_json: bool) -> None:
    """The plan, every setting that would be written, and the time; nothing is touched."""
    import json

    from schedlab.cli.conduct import duration_text
    from schedlab.cli.target import disk_below
    from schedlab.design.plan import arms, blocks_of, make_plan
    from schedlab.host.knobs import planned_writes
    from schedlab.run.backends.io import workload_module
    from schedlab.spec import to_json

    plan = make_plan(experiment)
    works = {w.label: w for w in experiment.workloads}
    # Beside the run itself: setting the scheduler, dropping caches, reading back.
    seconds = sum(
        workload_module(works[c.workload].kind).seconds(works[c.workload]) + 0.1 for c in plan.cells
    )
    if as_json:
        data = {
            "experiment": to_json(experiment),
            "plan": to_json(plan)["cells"],
            "seconds": seconds,
        }
        click.echo(json.dumps(data))
        return
    size = f"{len(plan.cells)} runs in {experiment.stopping.blocks} blocks"
    click.echo(f"{experiment.title}: {size}, about {duration_text(seconds)}")
    click.echo("\ncandidates and the settings that would be written:")
    disk = disk_below(experiment.target) or "loopN"
    for arm in arms(experiment):
        click.echo(f"  {arm.label}")
        tunables = {k: v for k, v in arm.settings.items() if k != "scheduler"}
        if experiment.target.kind != "directory":
            for path, text in planned_writes(disk, str(arm.settings["scheduler"]), tunables):
                click.echo(f"    {path} = {text}")
    click.echo("  before every run: /proc/sys/vm/drop_caches = 3")
    click.echo("\nworkloads (primary metric):")
    for work in experiment.workloads:
        click.echo(f"  {work.label}: {experiment.metric(work).title}")
    click.echo("\nfirst block, in its order:")
    for cell in blocks_of(plan)[0]:
        click.echo(f"  {cell.position + 1:3d}. {cell.workload} under {cell.candidate}")
    for note in experiment.notes:
        click.echo(f"\nnote: {note}")
