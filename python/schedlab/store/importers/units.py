"""Units of foreign figures, and which of our metrics they are."""

from __future__ import annotations

from dataclasses import dataclass

from schedlab.errors import SpecError
from schedlab.nouns import METRICS, Metric

_THROUGHPUT, _TIME, _RATE = "throughput_bytes_per_s", "elapsed_s", "iops"

# unit -> (metric, how many of the metric's own units it is)
_UNITS: dict[str, tuple[str, float]] = {
    "B/s": (_THROUGHPUT, 1.0),
    "KiB/s": (_THROUGHPUT, 1024.0),
    "MiB/s": (_THROUGHPUT, 1024.0**2),
    "GiB/s": (_THROUGHPUT, 1024.0**3),
    "s": (_TIME, 1.0),
    "min": (_TIME, 60.0),
    "ms": (_TIME, 1e-3),
    "us": (_TIME, 1e-6),
    "µs": (_TIME, 1e-6),
    "ns": (_TIME, 1e-9),
    "1/s": (_RATE, 1.0),
    "IOPS": (_RATE, 1.0),
    "ops/s": (_RATE, 1.0),
}
# These mean powers of 1000 or of 1024, depending on who wrote them.
_AMBIGUOUS = {
    "kB/s": 1, "KB/s": 1, "kB/sec": 1, "MB/s": 2, "MB/sec": 2, "GB/s": 3, "GB/sec": 3,
}  # fmt: skip


@dataclass(frozen=True)
class Quantity:
    """The meaning of a column of figures: `metric` in its own unit is `factor` times the figure."""

    metric: Metric
    factor: float = 1.0
    note: str = ""


def quantity(
    unit: str, higher_is_better: bool | None, name: str = "", binary: bool = False, column: str = ""
) -> Quantity:
    """The quantity of a column in `unit`; `name` forces the metric, `column` names a new one.

    A known unit implies its metric and direction; an unknown unit makes a new metric, named after
    the column, and needs an explicit direction. `binary` reads kB, MB, GB as powers
    of 1024. SpecError on a direction that contradicts the metric, or where it is missing.
    """
    known, factor, note = _known(unit, binary)
    if name in METRICS:
        metric = METRICS[name]
        factor = _factor_to(metric, unit, known, factor)
    elif known and not name:
        metric = METRICS[known]
    elif higher_is_better is None:
        raise SpecError(
            f"unit {unit!r} does not define whether higher or lower is better",
            "add --higher-is-better or --lower-is-better",
        )
    else:
        return Quantity(Metric(name or column or "value", unit, higher_is_better, name or column))
    if higher_is_better is not None and higher_is_better != metric.higher_is_better:
        direction = "higher" if metric.higher_is_better else "lower"
        raise SpecError(
            f"{metric.name} in {unit or metric.unit} is {direction}-is-better",
            f"omit the option, or define a new metric with --metric my_{metric.name}",
        )
    return Quantity(metric, factor, note)


def is_known(unit: str) -> bool:
    """Whether a unit defines a metric and its direction."""
    return unit in _UNITS or unit in _AMBIGUOUS


def _known(unit: str, binary: bool) -> tuple[str, float, str]:
    """(metric name or "", factor, note) of a unit."""
    if unit in _AMBIGUOUS:
        base = 1024 if binary else 1000
        power = _AMBIGUOUS[unit]
        return _THROUGHPUT, float(base**power), f"{unit} was read as {base**power} bytes per second"
    metric, factor = _UNITS.get(unit, ("", 1.0))
    return metric, factor, ""


def _factor_to(metric: Metric, unit: str, known: str, factor: float) -> float:
    """Factor from `unit` to the unit of `metric`; SpecError when they are of different kinds."""
    if unit in ("", metric.unit):
        return 1.0
    scale = {"s": 1.0, "ms": 1e3, "ns": 1e9}.get(metric.unit)
    if known == _TIME and scale is not None:
        return factor * scale
    if known and METRICS[known].unit == metric.unit:
        return factor
    raise SpecError(
        f"{unit!r} cannot be converted to {metric.unit!r}, the unit of {metric.name}",
        "set the unit of the figures with --unit, or another --metric",
    )
