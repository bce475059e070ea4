"""A fitted device: the keys of its file, each with its error, and the file."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from schedlab.errors import SchedlabError
from schedlab.nouns.quantities import parse_size, parse_time_ns

#: The error of a key that reads do not show: the shipped models say where it can be.
UNKNOWN = "unknown"


# Held-out reads of the device beside the model's; errors are shares.
SelfTest = TypedDict(
    "SelfTest",
    {
        "load": str, "rate_per_s": float, "model_rate_per_s": float, "rate_error": float,
        "mean_error": float, "p99_error": float,
    },
)  # fmt: skip


@dataclass
class Fitted:
    """A device file in the making.

    `tables` is its content. `errors` has the standard error of the logarithm of each key, so .02
    is about 2 %, 0 for what was counted, or `unknown`. `notes` are sentences for people;
    `self_test` compares held-out reads of the device with the model's.
    """

    size_bytes: int
    tables: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, float | str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    self_test: list[SelfTest] = field(default_factory=list)

    def put(self, key: str, value: Any, error: float | str) -> None:
        """Set a key, `table.name` being a name of a table."""
        *tables, name = key.split(".")
        at = self.tables
        for table in tables:
            at = at.setdefault(table, {})
        at[name] = value
        self.errors[key] = error if isinstance(error, str) else round(float(error), 4)

    def value(self, key: str) -> Any:
        """The value of a key; None where it is absent."""
        return value_at(self.tables, key)

    def text(self, origin: Mapping[str, object]) -> str:
        """The device file; `origin` says where it comes from (device, reads, seconds)."""
        import tomli_w

        fit = {
            **origin,
            "date": datetime.date.today().isoformat(),
            "size_bytes": self.size_bytes,
            "notes": self.notes,
            "error": self.errors,
            "self_test": self.self_test,
        }
        head = "# Fitted by `schedlab device fit`. [fit.error]: standard error of ln(value).\n"
        return head + tomli_w.dumps({**self.tables, "fit": fit})


def value_at(tables: Mapping[str, Any], key: str) -> Any:
    """The value of `table.name`; None where it is absent."""
    at: Any = tables
    for part in key.split("."):
        at = at.get(part) if isinstance(at, Mapping) else None
    return at


def number_of(value: Any) -> float:
    """A size in bytes, a time in ns, or a number; NaN for what is none."""
    if isinstance(value, int | float):
        return float(value)
    parse = parse_time_ns if str(value).endswith("s") else parse_size
    try:
        return float(parse(str(value)))
    except (SchedlabError, ValueError):
        return math.nan


def of_one_curve(times_ns: Iterable[float]) -> tuple[int, int, int]:
    """Seek times over one cylinder, the mean one and over all, of whole ns: ascending, and the mean
    one where a curve goes through the three (`check_times` in crates/sim/src/disk/check.rs).
    """
    single, average, full = sorted(max(round(each), 1) for each in times_ns)
    least, most = -(-(2 * single + full) // 3), (7 * single + 8 * full) // 15
    return single, min(max(average, least), most), full


def time_text(time_ns: float) -> str:
    """A time as device files have it."""
    return f"{max(round(time_ns), 0)}ns"


def error_text(error: float | str) -> str:
    """An error beside its value."""
    if isinstance(error, str):
        return error
    return "counted" if error == 0 else f"± {error:.1%}"


def lines(fitted: Fitted) -> list[str]:
    """Every key with its error, and the self-test, for people."""
    width = max(map(len, fitted.errors))
    shown = [
        f"{key:<{width}}  {_shown(fitted.value(key)):<24} {error_text(error)}"
        for key, error in fitted.errors.items()
    ]
    if fitted.self_test:
        shown += ["", f"{'self-test':<20}{'device 1/s':>12}{'model 1/s':>12}{'rate':>8}{'p99':>8}"]
        shown += [
            f"{row['load']:<20}{row['rate_per_s']:>12,.0f}{row['model_rate_per_s']:>12,.0f}"
            f"{row['rate_error']:>+8.1%}{row['p99_error']:>+8.1%}"
            for row in fitted.self_test
        ]
    return [*shown, *(f"note: {note}" for note in fitted.notes)]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} entries"
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    if isinstance(value, str) and value.endswith("ns"):
        time_ns = int(value.removesuffix("ns"))
        return f"{time_ns / 1e6:.3g} ms" if time_ns >= 100_000 else f"{time_ns / 1e3:.3g} us"
    return f"{value:,}" if isinstance(value, int) else f"{value}"
