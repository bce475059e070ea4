"""Devices drawn from the errors of a device file: what the device may be."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from schedlab.nouns.convert import convert
from schedlab_sim.fit.fitted import UNKNOWN, number_of, of_one_curve, time_text, value_at

#: Sizes of blocks, pages and cylinders fix what the device holds, and skews what a stream of these
#: gets, which was measured: they are not drawn.
FIXED = ("flash.pages_per_block", "flash.page", "zones", "heads", "track_skew", "cylinder_skew")
WRITE_CACHE = "write_cache"
#: Times that reads do not show are drawn as multiples of that of a read.
PAGE_READ, WITH_READS = "flash.page_read", ("flash.page_write", "flash.block_erase")
PAGE_TRANSFER = "flash.page_transfer"
BUFFER, DEPTH = "buffer.size", "queue.depth"
#: Where reads waited for each other their product was seen: which there are more of is no matter.
PARTS = ("flash.channels", "flash.dies_per_package", "flash.planes_per_die")
#: Keys of the table `fit` that decide something.
FIT = {
    "device?": str,
    "queue?": {"tags?": int, "nr_requests?": int, "max_sectors_kb?": int},
    "error?": Mapping[str, float | Literal["unknown"]],
    "self_test?": [{"rate_error": float}],
}


class Draws:
    """Changes of a device file's keys, one set for each draw.

    A key with an error is drawn log-normally, one that is `unknown` from the range of `others`, the
    shipped models of its kind. SpecError where its table `fit` is not one of `schedlab device fit`;
    `place` names the file.
    """

    def __init__(self, text: str, others: Iterable[str], place: str) -> None:
        self.tables = tomllib.loads(text)
        self.fit = convert(FIT, self.tables.get("fit", {}), f"{place}: fit")
        self.errors: Mapping[str, float | str] = self.fit.get("error", {})
        kind = self.tables.get("model", "ssd")
        parsed = [tomllib.loads(other) for other in others]
        self.others = [each for each in parsed if each.get("model", "ssd") == kind]

    @property
    def is_fitted(self) -> bool:
        """Whether the file has errors to draw from."""
        return bool(self.errors)

    def at(self, seed: int) -> dict[str, object]:
        """The changes of one draw; the file itself at seed 0."""
        if seed == 0:
            return {}
        draws, changes = np.random.default_rng(seed), {}
        for key, error in self.errors.items():
            value = value_at(self.tables, key)
            kept = (*PARTS, PAGE_TRANSFER) if error == UNKNOWN else PARTS
            is_kept = key in kept and self._are_parts_seen
            if key in FIXED or is_kept or error == 0 or value is None:
                continue
            if error == UNKNOWN:
                new = self._within(key, draws)
            else:
                new = number_of(value) * math.exp(float(error) * draws.standard_normal())
            if math.isfinite(new):
                changes[key] = _as(value, new)
        if self._is_sum_known:
            changes |= self._split(draws)
        if self.errors and self.tables.get("model") == "disk" and WRITE_CACHE not in self.tables:
            cache = self.others[draws.integers(len(self.others))].get(WRITE_CACHE)
            changes |= {WRITE_CACHE: cache} if cache else {}
        return _possible(changes, self.tables)

    @property
    def _is_sum_known(self) -> bool:
        """Whether reads show only the sum of reading and moving a page, of parts that are known."""
        times = {self.errors.get(PAGE_READ), self.errors.get(PAGE_TRANSFER)}
        return times == {UNKNOWN} and self._are_parts_seen

    @property
    def _are_parts_seen(self) -> bool:
        """Whether reads waited for each other, though not all parts could be told apart."""
        channels, _, planes = (self.errors.get(key) for key in PARTS)
        return {channels, planes, self.errors.get(PAGE_READ)} != {UNKNOWN}

    def _split(self, draws: np.random.Generator) -> dict[str, object]:
        times = [(number_of(value_at(each, PAGE_READ)), number_of(value_at(each, PAGE_TRANSFER)))
                 for each in (self.tables, *self.others)]  # fmt: skip
        shares = [read / (read + transfer) for read, transfer in times if read + transfer > 0]
        share, total = draws.uniform(min(shares), max(shares)), sum(times[0])
        if (value_at(self.tables, PARTS[2]) or 1) > 1:
            # By turns: which of the two takes longer is not seen, but how long.
            share = draws.choice((shares[0], 1 - shares[0]))
        return {PAGE_READ: time_text(share * total), PAGE_TRANSFER: time_text((1 - share) * total)}

    def _within(self, key: str, draws: np.random.Generator) -> float:
        others = self.others
        if key == BUFFER:
            # What serves one command at a time, as cards do, has none.
            is_one = value_at(self.tables, DEPTH) == 1
            others = [each for each in others if (value_at(each, DEPTH) == 1) == is_one]
        known = [number_of(value_at(other, key)) for other in others]
        if key in WITH_READS:
            # Slow flash is slow in all it does.
            reads = [number_of(value_at(other, PAGE_READ)) for other in self.others]
            own = number_of(value_at(self.tables, PAGE_READ))
            known = [own * each / read for each, read in zip(known, reads, strict=True)]
        values = [each for each in known if each > 0]
        if not values:
            return math.nan
        low, high = math.log(min(values)), math.log(max(values))
        return math.exp(draws.uniform(low, high))


def _as(value: Any, new: float) -> Any:
    """The number as the file has such a key."""
    if isinstance(value, float):
        return new
    if isinstance(value, str) and value.endswith("s"):
        return time_text(new)
    return max(round(new), 1)


def _possible(changes: dict[str, Any], tables: Mapping[str, object]) -> dict[str, object]:
    """The three seek times ascend and are those of one curve (as the simulator checks them), what
    is read ahead fits into a segment, and a skew that hid a way hides it in every draw.
    """
    ahead, segment = changes.get("cache.read_ahead", 0), changes.get("cache.segment", 0)
    if ahead > segment > 0:
        changes["cache.segment"] = ahead
    for way, skew in (("seek_single", "cylinder_skew"), ("head_switch", "track_skew")):
        own_ns, skew_ns = (number_of(value_at(tables, key)) for key in (way, skew))
        if way in changes and own_ns <= skew_ns < number_of(changes[way]):
            changes[way] = time_text(skew_ns)
    names = ("seek_single", "seek_average", "seek_full")
    values = [changes.get(name, value_at(tables, name)) for name in names]
    times_ns = [number_of(value) for value in values]
    if changes.keys() & {*names} and all(map(math.isfinite, times_ns)):
        curve = of_one_curve(times_ns)
        changes |= {name: _as(value, each) for name, value, each in
                    zip(names, values, curve, strict=True)}  # fmt: skip
    return changes
