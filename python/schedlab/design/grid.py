"""Grids: a table of an experiment file that means a candidate or a workload for every combination.

    [[workloads]]
    label = "{test} {record_bytes}"
    grid = { test = ["read", "write"], record_bytes = ["8k", "64k"] }

    [[candidates]]                           # without a label: `fcfs, alpha=0.9`
    grid = { policy = ["fcfs", "tsb"], alpha = [0.9, 1.0] }

A value that is a table gives several keys at once, and its `label` is how it is shown.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns.quantities import parse_quantity, size_text


def expanded(table: Mapping[str, Any], inside: str, where: str) -> list[dict[str, Any]]:
    """The tables of a grid, whose values go `inside` (`parameters`, `settings`); without a grid the
    table itself. SpecError naming the place (`where`) for what is no grid.
    """
    usual = {key: value for key, value in table.items() if key != "grid"}
    if not (grid := table.get("grid")):
        return [usual]
    if not isinstance(grid, Mapping):
        raise SpecError(f"{where}.grid = {grid!r}", "grid = { KEY = [VALUE, …] }")
    for key, values in grid.items():
        if not isinstance(values, list | tuple) or not values:
            raise SpecError(f"{where}.grid.{key} = {values!r}", "expected a list of values")
    tables = []
    for values in itertools.product(*grid.values()):
        chosen: dict[str, Any] = {}
        label = str(usual.get("label", ", ".join(map(_named, grid))))
        for key, value in zip(grid, values, strict=True):
            own = {**value} if isinstance(value, Mapping) else {key: value}
            label = label.replace(f"{{{key}}}", str(own.pop("label", _text(key, value))))
            chosen |= own
        tables.append({**usual, "label": label, inside: {**usual.get(inside, {}), **chosen}})
    return tables


def _named(key: str) -> str:
    """A key in a label that nobody wrote."""
    is_name = key in ("policy", "scheduler")
    return f"{{{key}}}" if is_name else f"{key.rpartition('.')[2]}={{{key}}}"


def _text(key: str, value: Any) -> str:
    """A value as a label shows it: sizes with their unit."""
    number = parse_quantity(key, value)
    return size_text(number) if key.endswith("_bytes") and isinstance(number, int) else str(value)
