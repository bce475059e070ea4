"""The tunables that a search draws from, with range, scale and unit, and the space of a search.

A range is where a setting can make sense (of a scheduler: crates/model/src/tunables.toml); the
limits of the kernel and the device are probed before the search (app/tune/tune.py).
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedlab._core import host_tunables
from schedlab.errors import SpecError

QUEUE = "queue"
Settings = dict[str, str | int | float]
# Wider unknown ranges than this are searched on a logarithmic scale.
LOG_FROM = 50


@dataclass(frozen=True)
class Tunable:
    """A whole number `low` … `high` in `unit`; `log`: searched on a logarithmic scale.

    `unsafe` is why it is searched only if it is named. `default` is the kernel's value after
    the scheduler was set (None: not known before the search).
    """

    name: str
    low: int
    high: int
    log: bool = False
    unit: str = ""
    unsafe: str = ""
    default: int | None = None


def _row(name: str, low: int, high: int, unit: str = "", unsafe: str = "") -> Tunable:
    return Tunable(name, low, high, 10 * low < high and low > 0, unit, unsafe)


# scheduler (or the queue itself, under any scheduler) -> its tunables
TABLE: Mapping[str, tuple[Tunable, ...]] = {
    **{
        scheduler: tuple(
            _row(row["name"], low, high, row["unit"])
            for row in rows
            if row["search"]
            for low, high in [row["search"]]
        )
        for scheduler, rows in json.loads(host_tunables()).items()
    },
    QUEUE: (
        _row("read_ahead_kb", 4, 16384, "KiB"),
        _row("wbt_lat_usec", 500, 200_000, "µs"),
        _row("rq_affinity", 0, 2),
        _row("nomerges", 0, 2),
        _row("rotational", 0, 1, unsafe="file systems and swap act by it, too"),
        _row("nr_requests", 4, 1024),
    ),
}


@dataclass(frozen=True)
class SchedulerSpace:
    """One scheduler and its tunables, in the order in which they are set."""

    scheduler: str
    tunables: tuple[Tunable, ...]


@dataclass(frozen=True)
class Space:
    """Every scheduler that is searched, each with its tunables."""

    schedulers: tuple[SchedulerSpace, ...]

    def tunables_of(self, scheduler: str) -> tuple[Tunable, ...]:
        """The tunables of a scheduler."""
        return next(s.tunables for s in self.schedulers if s.scheduler == scheduler)

    @property
    def size(self) -> int:
        """The number of tunables, over all schedulers."""
        return sum(len(each.tunables) for each in self.schedulers)


@dataclass(frozen=True)
class Range:
    """`--space NAME=LOW..HIGH`: a range of the user's."""

    name: str
    low: int
    high: int


def parse_range(text: str) -> Range:
    """`fifo_batch=1..64`; SpecError for anything else."""
    match = re.fullmatch(r"([A-Za-z0-9_][\w.-]*)=(\d+)\.\.(\d+)", text.strip())
    if not match or int(match[2]) > int(match[3]):
        raise SpecError(f"--space {text!r} is not understood", "write --space fifo_batch=1..64")
    return Range(match[1], int(match[2]), int(match[3]))


def table_space(
    schedulers: Sequence[str], ranges: Sequence[Range] = (), only: Sequence[str] = ()
) -> Space:
    """The space by the table, with the user's ranges; `only` these tunables, if any are named.

    The ranges of the user may name tunables that the table does not have; they are tried under
    every scheduler, and probing removes them where the kernel does not offer them.
    """
    known = {t.name for each in TABLE.values() for t in each} | {r.name for r in ranges}
    if missing := [name for name in only if name not in known]:
        raise SpecError(
            f"tunable {missing[0]!r} is not in the table", f"--space {missing[0]}=LOW..HIGH"
        )
    return Space(tuple(SchedulerSpace(s, _tunables(s, ranges, only)) for s in schedulers))


def _tunables(scheduler: str, ranges: Sequence[Range], only: Sequence[str]) -> tuple[Tunable, ...]:
    tunables = {t.name: t for t in (*TABLE.get(scheduler, ()), *TABLE[QUEUE])}
    elsewhere = {t.name for each in TABLE.values() for t in each} - set(tunables)
    named = {r.name for r in ranges} | set(only)
    for each in ranges:
        if each.name in elsewhere:
            continue
        log = each.low > 0 and each.high / each.low >= LOG_FROM
        usual = tunables.get(each.name, Tunable(each.name, 0, 0, log))
        scale = usual.log and each.low > 0
        tunables[each.name] = replace(usual, low=each.low, high=each.high, log=scale)
    chosen = [
        t
        for t in tunables.values()
        if (t.name in only or not only or t.name in {r.name for r in ranges})
        and (not t.unsafe or t.name in named)
    ]
    # The kernel resets nr_requests with other settings, so it is set last.
    return tuple(sorted(chosen, key=lambda t: t.name == "nr_requests"))


def settings_of(space: Space, scheduler: str, values: Mapping[str, int]) -> Settings:
    """The settings of a candidate; a value that is the kernel's default is not set."""
    settings: Settings = {"scheduler": scheduler}
    for tunable in space.tunables_of(scheduler):
        value = values.get(tunable.name, tunable.default)
        if value is not None and value != tunable.default:
            settings[tunable.name] = value
    return settings


def few_changes(space: Space, scheduler: str, rng: random.Random) -> dict[str, int]:
    """Values of a random half of the tunables, at least one, so that effects come apart."""
    tunables = space.tunables_of(scheduler)
    count = rng.randint(1, max(1, math.ceil(len(tunables) / 2))) if tunables else 0
    return {t.name: _random_value(t, rng) for t in rng.sample(tunables, count)}


def _random_value(tunable: Tunable, rng: random.Random) -> int:
    if not tunable.log:
        return rng.randint(tunable.low, tunable.high)
    low, high = math.log(tunable.low), math.log(tunable.high)
    value = round(math.exp(rng.uniform(low, high)))
    return min(max(value, tunable.low), tunable.high)
