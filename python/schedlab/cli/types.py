"""Option types of the command line: sizes, durations, lists of sizes."""

from __future__ import annotations

import re
from typing import Any

import click

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIMES = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class Size(click.ParamType[int]):
    """`64k`, `1G`, `4KiB`: bytes, in powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", str(value).strip().lower())
        if not match or float(match[1]) <= 0:
            self.fail(f"{value!r} is not a size; write e.g. 64k, 16M, 1G", param, ctx)
        return round(float(match[1]) * _SIZES[match[2]])


class Sizes(click.ParamType[tuple[int, ...]]):
    """`8k,64k,1M`: several sizes."""

    name = "sizes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Bytes, in the order typed, each once."""
        if isinstance(value, tuple):
            return value
        sizes = [Size().convert(part, param, ctx) for part in str(value).split(",")]
        return tuple(dict.fromkeys(sizes))


class Duration(click.ParamType[float]):
    """`500ms`, `30s`, `10m`, `1h`; a bare number is seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds."""
        if isinstance(value, int | float):
            return float(value)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip().lower())
        if not match or match[2] not in _TIMES or float(match[1]) <= 0:
            self.fail(f"{value!r} is not a duration; write e.g. 500ms, 30s, 10m", param, ctx)
        return float(match[1]) * _TIMES[match[2]]


class Percent(click.ParamType[float]):
    """`2%` or `0.02`: a fraction."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The fraction, above 0 and below 1."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", str(value).strip())
        fraction = float(match[1]) / (100 if match[2] else 1) if match else 0.0
        if not 0 < fraction < 1:
            self.fail(f"{value!r} is not a share; write e.g. 2%", param, ctx)
        return fraction


class Names(click.ParamType[tuple[str, ...]]):
    """`a,b`: several of the known names."""

    name = "names"

    def __init__(self, known: tuple[str, ...]) -> None:
        self.known = known

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names, each once, in the order typed."""
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(part.strip() for part in str(value).split(",")))
        if unknown := [name for name in names if name not in self.known]:
            self.fail(f"{unknown[0]!r} is not one of {', '.join(self.known)}", param, ctx)
        return names


goal_option = click.option(
    "--goal",
    type=click.Choice(["throughput", "latency", "fairness", "responsiveness"]),
    help="Judge by the metrics of this goal (default: those chosen before the first run).",
)
