"""`schedlab sim compare`: policies against each other, with a verdict: seeds are blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.errors import SpecError
from schedlab.spec import METRICS, Candidate, Experiment, Stopping, Target, Workload

SECONDARY = ("mean_write_ms", "max_read_ms", "max_write_ms", "mean_read_ncq_ms", "iops")


@click.command()
@click.option("--device", default="ncq2014", show_default=True, help="A device or its file.")
@click.option("--workloads", default="A,B,C,D", show_default=True, help="Names, comma-separated.")
@click.option("--trace", metavar="FILE[:FORMAT]", help="Replay a trace instead of workloads.")
@click.option(
    "--policies",
    default="fcfs,s,ts,tsb",
    show_default=True,
    help="The first is the baseline; parameters follow a colon: tsb:alpha=0.95.",
)
@click.option("--buffer", help="Size of the page buffer, such as 64MiB.")
@click.option("--service", type=click.Choice(["serial", "parallel"]), default="serial")
@click.option("--requests", type=click.IntRange(min=1), default=20_000, show_default=True)
@click.option("--seeds", type=click.IntRange(2, 1000), default=8, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--metric", default="mean_read_ms", show_default=True, help="The primary metric.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a device key.")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def compare(out: Path | None, as_json: bool, **typed: Any) -> None:
    """Say which policy of the command queue is better on which workload, and by how much."""
    from schedlab.cli.show import run_and_present
    from schedlab.run.admitted import Permission

    how: Any = {"out": out, "name": "sim", "dry_run": False, "as_json": as_json}
    run_and_present(experiment_of(**typed), Permission(), **how)


def experiment_of(
    device: str,
    workloads: str,
    trace: str | None,
    policies: str,
    buffer: str | None,
    service: str,
    requests: int,
    seeds: int,
    seed: int,
    metric: str,
    changes: tuple[str, ...],
) -> Experiment:
    """The experiment that the options mean; SpecError naming what cannot be."""
    from schedlab.cli.sim.run import changed, trace_source

    device_set = dict(changed(text) for text in changes)
    if buffer is not None:
        device_set["buffer.size"] = buffer
    common: dict[str, Any] = {"device": device, "service": service, "requests": requests}
    common["device_set"] = device_set
    if trace:
        path, workload_set = trace_source(trace)
        sources = {path.name: {"trace": str(path.resolve()), "workload_set": workload_set}}
    else:
        sources = {name.strip(): {"workload": name.strip()} for name in workloads.split(",")}
    if metric not in METRICS:
        raise SpecError(f"--metric {metric} is not known", f"one of: {', '.join(METRICS)}")
    candidates = policy_candidates(policies)
    return Experiment(
        title=f"Command-queue policies on the simulated {device}, {service}",
        kind="sim",
        target=Target("none"),
        candidates=candidates,
        workloads=tuple(
            Workload(
                label=label,
                kind="ssd",
                metric=metric,
                parameters={**common, **source},
                secondary=tuple(name for name in SECONDARY if name != metric),
            )
            for label, source in sources.items()
        ),
        baseline=candidates[0].label,
        seed=seed,
        stopping=Stopping("fixed", seeds),
        aa_arm=False,
        objective="latency",
    )


def policy_candidates(text: str) -> tuple[Candidate, ...]:
    """`fcfs,tsb:alpha=0.95,aging=every-arrival` as candidates."""
    from schedlab.design.candidates import parse_candidates

    def as_policy(candidate: Candidate) -> Candidate:
        settings = dict(candidate.settings)
        return Candidate(candidate.label, {"policy": settings.pop("scheduler"), **settings})

    return tuple(as_policy(candidate) for candidate in parse_candidates(text))
