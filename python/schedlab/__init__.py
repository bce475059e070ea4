"""schedlab: a laboratory for Linux schedulers. Measure, model, decide, apply and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Loaded now, so that importing it later does not take the name of the function below.
from schedlab import run as _run_package  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path

    from schedlab.nouns import Experiment, Objective
    from schedlab.result import Result
    from schedlab.run.admitted import Permission

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`schedlab.sim`: the simulators, which are a package of their own."""
    if name != "sim":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from schedlab.errors import SpecError
    from schedlab.package import offered

    try:
        return offered("backends", "simulators", "schedlab.sim")
    except SpecError as error:  # `hasattr` and `from schedlab import sim` have their own ways
        raise AttributeError(f"{error}: {error.hint}") from error


def load(directory: str | Path, goal: Objective | None = None) -> Result:
    """The result in a folder: `.answer`, `.record`, `.to_pandas()`; a notebook shows its report.

    `goal` chooses the metrics that decide, without it those that were chosen before the first run.
    SpecError when the folder holds no result.
    """
    from schedlab.result import Result

    return Result.load(directory, goal)


def run(
    experiment: Experiment | str | Path,
    out: str | Path | None = None,
    *,
    permission: Permission | None = None,
) -> Result:
    """Measure an experiment, or the file of one, in a new result folder; see `app/measure`.

    >>> import schedlab
    >>> from schedlab.nouns import Candidate, Experiment, Stopping, Target, Workload
    >>> result = schedlab.run(Experiment(
    ...     title="Two policies", kind="sim", target=Target("none"), seed=1, baseline="fcfs",
    ...     candidates=(Candidate("fcfs", {"policy": "fcfs"}), Candidate("tsb", {"policy": "tsb"})),
    ...     workloads=(Workload("A", "ssd", "mean_read_ms", {"requests": 500}),),
    ...     stopping=Stopping(blocks=6), aa_arm=False,
    ... ), out="results/two-policies")  # doctest: +SKIP
    """
    from schedlab.app.measure.measure import run as measure_experiment

    return measure_experiment(experiment, out, permission=permission)


def compare(*command: str, out: str | Path | None = None, **options: object) -> Result:
    """Compare I/O schedulers as `schedlab compare` does: its options by name, `_` for `-`.

    `command` is your own program with its arguments. Without `out` the folder is
    `results/DATE-compare`. A device is written to only if `destroy_data` names it, too.
    SpecError, HostError and Interrupted as `run`.

    >>> result = schedlab.compare(
    ...     scratch="1G", schedulers=["none", "bfq"], blocks=4,
    ... )  # doctest: +SKIP
    """
    from pathlib import Path

    from schedlab.call import compare_as_typed

    return compare_as_typed(command, options, Path(out) if out else None)
