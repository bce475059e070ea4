"""A simulated disk against measured response times, by the demerit of Ruemmler and Wilkes:
`python tools/validate_disk.py --help`.

The demerit is the root mean square of the horizontal distance between the distributions of
response time (*An introduction to disk drive modeling*, IEEE Computer 27(3), 1994), here from
exact responses, in ms and as a share of the measured mean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli import main
from schedlab.cli.options import json_option
from schedlab.cli.types import Percent
from schedlab.errors import SpecError
from schedlab.nouns import SCHEMA_VERSION
from schedlab.store.compiled import compiled
from schedlab_sim.cli.options import set_option, show, volumes_option
from schedlab_sim.cpu_validate import demerit
from schedlab_sim.device import device_changes
from schedlab_sim.replay import replay_of, replay_warnings
from schedlab_sim.results import KINDS, NOT_MEASURED
from schedlab_sim.simulation import Simulation
from schedlab_sim.simulation_set import Shown
from schedlab_sim.tables import aligned

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Formats whose requests can have a measured response time.
FORMATS_WITH_RESPONSE = ("disksim-validate", "msr", "systor", "blkparse", "blktrace")
WORST = 10
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Comparison:
    """Measured and simulated response times of some requests, in ms."""

    requests: int
    measured_mean_ms: float
    simulated_mean_ms: float
    measured_percentiles_ms: tuple[float, ...]
    simulated_percentiles_ms: tuple[float, ...]
    demerit_ms: float
    demerit_share: float

    @classmethod
    def of(cls, simulated_ms: NDArray[Any], measured_ms: NDArray[Any]) -> Comparison:
        """The comparison of two arrays."""
        import numpy as np

        distance = demerit(simulated_ms, measured_ms)
        mean = float(measured_ms.mean())
        return cls(
            requests=len(measured_ms),
            measured_mean_ms=mean,
            simulated_mean_ms=float(simulated_ms.mean()),
            measured_percentiles_ms=tuple(np.percentile(measured_ms, PERCENTILES).tolist()),
            simulated_percentiles_ms=tuple(np.percentile(simulated_ms, PERCENTILES).tolist()),
            demerit_ms=distance,
            demerit_share=distance / mean if mean else float("nan"),
        )


@dataclass(frozen=True)
class Validation:
    """The result of a comparison of a disk with a measured trace.

    `parts`: `all`, `reads` and `writes` (where there are any). `kinds`: requests by the way they
    were served. `worst`: the rows of the log with the largest error, worst first.
    """

    parts: dict[str, Comparison]
    kinds: dict[str, int]
    worst: tuple[dict[str, Any], ...]
    simulated_ms: NDArray[Any]
    measured_ms: NDArray[Any]
    figures: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Everything but the response times, for a machine to read."""
        return {
            "parts": {name: dataclasses.asdict(part) for name, part in self.parts.items()},
            "percentiles": list(PERCENTILES),
            "kinds": self.kinds,
            "worst": list(self.worst),
            "trace": self.figures.get("trace"),
        }


def validate(simulation: Simulation) -> Validation:
    """Simulate a trace with measured responses; SpecError where it has none."""
    result = simulation.run()
    log = result.log
    known = log[log["measured_ns"] != NOT_MEASURED]
    if not len(known):
        formats = ", ".join(FORMATS_WITH_RESPONSE)
        raise SpecError(
            f"{simulation.trace}: the trace has no measured response times",
            f"formats that can have one: {formats} (of blktrace with --event complete)",
        )
    measured = known["measured_ns"] / 1e6
    simulated = (known["completed_ns"] - known["arrival_ns"]) / 1e6
    is_write = known["operation"] == 1
    parts = {"all": Comparison.of(simulated, measured)}
    for name, rows in (("reads", ~is_write), ("writes", is_write)):
        if rows.any():
            parts[name] = Comparison.of(simulated[rows], measured[rows])
    order = abs(simulated - measured).argsort()[::-1][:WORST]
    worst = [
        {
            "index": int(known["index"][i]),
            "operation": "write" if is_write[i] else "read",
            "offset_bytes": int(known["offset_bytes"][i]),
            "length_bytes": int(known["length_bytes"][i]),
            "kind": KINDS[known["kind"][i]],
            "measured_ms": float(measured[i]),
            "simulated_ms": float(simulated[i]),
        }
        for i in order
    ]
    kinds = {name: int((known["kind"] == place).sum()) for place, name in enumerate(KINDS)}
    return Validation(parts, kinds, tuple(worst), simulated, measured, result.report)


def tables(validation: Validation) -> Sequence[str]:
    """The figures of both, and the worst requests."""
    head: tuple[str, ...] = ("", "n", "mean", "p50", "p95", "p99", "demerit", "share")
    rows: list[tuple[str, ...]] = [head]
    for name, part in validation.parts.items():
        for source in ("measured", "simulated"):
            mean = getattr(part, f"{source}_mean_ms")
            percentiles = getattr(part, f"{source}_percentiles_ms")
            last = source == "simulated"
            rows.append(
                (
                    f"{name}, {source}",
                    f"{part.requests}",
                    *(f"{value:.2f}" for value in (mean, *percentiles)),
                    f"{part.demerit_ms:.3f}" if last else "",
                    f"{part.demerit_share:.1%}" if last else "",
                )
            )
    lines = aligned(rows)
    lines.append("times in ms; share: demerit over the measured mean")
    lines.append(", ".join(f"{name} {count}" for name, count in validation.kinds.items() if count))
    head = ("worst", "", "offset", "bytes", "kind", "measured", "simulated")
    rows = [
        (
            str(row["index"]),
            row["operation"],
            str(row["offset_bytes"]),
            str(row["length_bytes"]),
            row["kind"],
            f"{row['measured_ms']:.2f}",
            f"{row['simulated_ms']:.2f}",
        )
        for row in validation.worst
    ]
    return [*lines, *aligned([head, *rows])]


def simulation_of(
    device: str,
    trace: str,
    policy: str,
    device_set: Mapping[str, Any],
    requests: int | None,
    *,
    arrivals: str = "trace",
    volumes: str | None = None,
    closed: bool = False,
    event: str = "complete",
    skip_bad_lines: bool = False,
) -> Simulation:
    """The simulation of a measured trace. A disksim-validate trace is a closed loop: each request
    follows the simulated completion before it, unless `arrivals` are those `measured`.
    """
    replay = replay_of(trace, volumes=volumes, event=event, skip_bad_lines=skip_bad_lines)
    form = replay.format or trace_format(replay.path)
    think = closed or (form == "disksim-validate" and arrivals == "trace")
    if closed and arrivals == "measured":
        raise SpecError(
            "--closed and --arrivals measured cannot be used together", "omit one of them"
        )
    replay = dataclasses.replace(replay, think=think)
    return Simulation(
        device=device,
        policy=policy,
        device_set=dict(device_set),
        requests=requests,
        log=True,
        **replay.fields(),
    )


def trace_format(path: Path) -> str:
    """The format that the content of a trace has; SpecError where it fits none or several."""
    from schedlab import _core

    with compiled("check the file with `file` and `head`"):
        return _core.trace_format_of(str(path))


@click.command("validate-disk")
@click.argument("device")
@click.argument("trace", metavar="TRACE[:FORMAT]")
@click.option("--policy", default="fcfs", show_default=True)
@set_option
@click.option("--arrivals", type=click.Choice(["trace", "measured"]), default="trace",
              help="measured: use the measured times, also for a disksim-validate trace.",
)  # fmt: skip
@volumes_option
@click.option("--closed", is_flag=True, help="Keep the measured think times, not the arrivals.")
@click.option("--requests", type=click.IntRange(min=1), help="At most this number.")
@click.option("--event", type=click.Choice(["queue", "dispatch", "complete"]), default="complete")
@click.option("--skip-bad-lines", is_flag=True, help="Skip malformed lines and count them.")
@click.option("--fail-above", type=Percent(),
              help="Exit 1 when the demerit is above this share, such as 8%.")  # fmt: skip
@json_option
def validate_disk(
    fail_above: float | None, as_json: bool, changes: Sequence[str], **typed: Any
) -> None:
    """Compare the response times of DEVICE with those recorded in TRACE (demerit)."""
    validation = validate(simulation_of(device_set=device_changes(changes), **typed))
    document = {"schema": SCHEMA_VERSION, "device": typed["device"], **validation.to_json()}
    warnings = replay_warnings(validation.figures.get("trace"))
    show(Shown(tables(validation), document, warnings), as_json)
    if fail_above is not None and not validation.parts["all"].demerit_share <= fail_above:
        raise SystemExit(1)


if __name__ == "__main__":
    main(validate_disk)
