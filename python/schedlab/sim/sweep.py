"""Sweeps: every combination of parameters × seeds, from a TOML file.

```toml
seeds = 8                                  # or a list
[fixed]
workload = "A"
[parameters]                               # each key a list; all combinations
policy = ["fcfs", "tsb"]
"policy.alpha" = [0.9, 0.95, 1.0]
"device.buffer.size" = ["32MiB", "64MiB"]
```

A sweep with the key `scheduler` has the fields of `schedlab.sim.host.HostSimulation` as keys.

Keys of other sweeps: `device`, `policy`, `workload`, `trace`, `service`, `requests`, and with a dot
any key of the device file (`device.flash.channels`), the policy (`policy.alpha`) or the workload
(`workload.inter_arrival_ms`). A trace is one sample, the same at every seed: its sweep has one.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.sim.judge import refuse_idle_parameters
from schedlab.sim.runs import Simulation
from schedlab.spec import to_json
from schedlab.spec.reading import read_toml

if TYPE_CHECKING:
    from schedlab._core import SimStop
    from schedlab.sim.host import HostSimulation

WHOLE_KEYS = ("device", "policy", "workload", "service", "requests")
# Of a sweep of the kernel's schedulers: what a trace replaces, and what works only with one.
PROCESS_KEYS = {"processes", "seconds"}
TRACE_KEYS = {"format", "requests", "trace_set"}
TABLES = {"device": "device_set", "policy": "policy_set", "workload": "workload_set"}


@dataclass(frozen=True)
class Point:
    """One simulation of a sweep: its settings by key, and its seed."""

    settings: Mapping[str, Any]
    seed: int

    @property
    def key(self) -> str:
        """The identity of the point, independent of its place in the sweep."""
        return json.dumps([dict(self.settings), self.seed], sort_keys=True)

    def simulation(self) -> Simulation:
        """The simulation that these settings mean; SpecError for a key that is none."""
        arguments: dict[str, Any] = {"seed": self.seed}
        for key, value in self.settings.items():
            table, dot, inner = key.partition(".")
            if key == "trace":
                arguments["workload"] = Path(value)
            elif key in WHOLE_KEYS:
                arguments[key] = value
            elif dot and table in TABLES:
                arguments.setdefault(TABLES[table], {})[inner] = value
            else:
                known = ", ".join((*WHOLE_KEYS, "trace", *(f"{table}.…" for table in TABLES)))
                raise SpecError(f"sweep: unknown key {key!r}", f"known keys: {known}")
        return Simulation(**arguments)


@dataclass(frozen=True)
class Sweep:
    """All points of a sweep file in their order, and its text."""

    points: tuple[Point, ...]
    text: str
    title: str = ""


def read_sweep(path: Path) -> Sweep:
    """The sweep of a TOML file; SpecError names an error in it."""
    tree, text = read_toml(path, "name a sweep file; see docs/concepts/ssd-simulator.md")
    if unknown := sorted(set(tree) - {"title", "seeds", "fixed", "parameters"}):
        raise SpecError(
            f"{path}: unknown key {unknown[0]!r}", "known keys: title, seeds, fixed, parameters"
        )
    kinds: dict[str, Any] = {"title": str, "seeds": (int, list), "fixed": dict, "parameters": dict}
    for key, kind in kinds.items():
        if key in tree and not isinstance(tree[key], kind):
            raise SpecError(f"{path}: {key} = {tree[key]!r}", "see docs/concepts/ssd-simulator.md")
    parameters = tree.get("parameters", {})
    for key, values in parameters.items():
        if not isinstance(values, list) or not values:
            raise SpecError(f"{path}: parameters.{key} = {values!r}", "expected a list")
    is_trace = "trace" in {**tree.get("fixed", {}), **parameters}
    seeds = tree.get("seeds", 1 if is_trace else 8)
    seeds = list(range(1, seeds + 1)) if isinstance(seeds, int) else seeds
    if is_trace and len(seeds) > 1:
        raise SpecError(f"{path}: a trace is one sample, the same at every seed", "seeds = 1")
    points = tuple(
        Point({**tree.get("fixed", {}), **dict(zip(parameters, values, strict=True))}, seed)
        for values in itertools.product(*parameters.values())
        for seed in seeds
    )
    for point in points:
        host_simulation(point) if "scheduler" in point.settings else point.simulation()
    _refuse_idle([point.settings for point in points])
    return Sweep(points, text, tree.get("title", ""))


def _refuse_idle(all_settings: Sequence[Mapping[str, Any]]) -> None:
    """SpecError for a key that changes nothing in any simulation of the sweep."""
    keys = {key for settings in all_settings for key in settings}
    policies = [str(settings.get("policy", "fcfs")) for settings in all_settings]
    own = {key: key.removeprefix("policy.") for key in sorted(keys) if key.startswith("policy.")}
    refuse_idle_parameters(own, policies)
    idle = {"workload.name"} if "workload" in keys else set()
    if "trace" in keys:
        idle |= {"workload", *PROCESS_KEYS}
    elif "scheduler" in keys:
        idle |= TRACE_KEYS
    if found := sorted(keys & idle):
        source = "a trace" if "trace" in keys else "no trace" if "scheduler" in keys else "workload"
        raise SpecError(f"sweep: {found[0]} would change nothing with {source}", "omit it")


def host_simulation(point: Point) -> HostSimulation:
    """The same where the kernel's schedulers are compared."""
    from schedlab.sim.host import HostSimulation, split_schedulers

    names = {each.name for each in dataclasses.fields(HostSimulation)} - {"seed"}
    if unknown := sorted(set(point.settings) - names):
        raise SpecError(f"sweep: unknown key {unknown[0]!r}", f"known keys: {', '.join(names)}")
    split_schedulers(str(point.settings["scheduler"]))
    return HostSimulation(**point.settings, seed=point.seed)


def run_point(
    settings: Mapping[str, Any], seed: int, stop: SimStop | None = None
) -> dict[str, Any]:
    """Simulate one point: `settings`, `seed`, `metrics`, the same wherever it ran."""
    point = Point(settings, seed)
    if "scheduler" in settings:
        run = host_simulation(point).run(stop)
        metrics: Any = {"order": run["order"]}
        for process in (run["total"], *run["processes"]):
            metrics[process["name"]] = {k: v for k, v in process.items() if k != "latency_bins"}
    else:
        metrics = to_json(point.simulation().run(stop).metrics)
    return {"settings": dict(settings), "seed": seed, "metrics": metrics}
