"""The kernel's schedulers as candidates of a simulated experiment; seeds are blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from schedlab.errors import SpecError
from schedlab.sim.host import HostSimulation
from schedlab.spec import METRICS, Candidate, Experiment, Stopping, Target, Workload

HOST_METRICS = ("throughput_bytes_per_s", "iops", "latency_ns_mean", "latency_ns_p99")


def host_experiment(
    first: HostSimulation,
    names: Sequence[str],
    processes: Sequence[str],
    seeds: int,
    metric: str | None = None,
) -> Experiment:
    """Schedulers on one or several files of processes: a workload for each process and one for all
    of them together. The first scheduler is the baseline.
    """
    metric = metric or HOST_METRICS[0]
    if metric not in METRICS:
        raise SpecError(f"--metric {metric} is not known", f"one of: {', '.join(HOST_METRICS)}")
    if len(names) < 2 or len(set(names)) < len(names):
        hint = "for example --schedulers 'none;mq-deadline;bfq:slice_idle=0'"
        raise SpecError("a verdict needs at least two different schedulers", hint)
    fixed = {"scheduler", "processes", "seed", "trace", "format", "requests", "trace_set", "dilate"}
    parameters = {
        name: value
        for name, value in dataclasses.asdict(first).items()
        if name not in fixed and value is not None and value != {}
    }
    workloads = []
    for file in processes:
        everybody = process_names(file, first)
        for process in (*everybody, "") if len(everybody) > 1 else ("",):
            workloads.append(
                Workload(
                    label=f"{file} {process}".strip(),
                    kind="host-queue",
                    metric=metric,
                    parameters={**parameters, "processes": file, "process": process},
                    secondary=tuple(name for name in HOST_METRICS if name != metric),
                )
            )
    return Experiment(
        title=f"I/O schedulers above the simulated {first.device}",
        kind="sim",
        target=Target("none"),
        candidates=tuple(Candidate(name, {"scheduler": name}) for name in names),
        workloads=tuple(workloads),
        baseline=names[0],
        seed=first.seed,
        stopping=Stopping("fixed", seeds),
        aa_arm=False,
        objective="throughput",
    )


def process_names(file: str, first: HostSimulation | None = None) -> list[str]:
    """Names of the processes of a preset or file, from a result: the first nanosecond of a
    simulation. SpecError for a file that is none of processes.
    """
    moment = dataclasses.replace(
        first or HostSimulation(), processes=file, seconds=1e-9, warm_up_seconds=0.0
    )
    return [process["name"] for process in moment.run()["processes"]]


def host_run(
    workload: Workload, candidate: Candidate, seed: int
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A run, and the figures of the process that the workload names."""
    parameters: dict[str, Any] = dict(workload.parameters)
    wanted = parameters.pop("process", "")
    scheduler = str(candidate.settings["scheduler"])
    run = HostSimulation(**parameters, scheduler=scheduler, seed=seed).run()
    for process in (run["total"], *run["processes"]):
        if process["name"] == (wanted or "total"):
            return run, process
    known = ", ".join(process["name"] for process in run["processes"])
    raise SpecError(f"process {wanted!r} is not in {parameters['processes']}", f"one of: {known}")
