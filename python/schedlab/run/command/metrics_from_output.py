"""Numbers from the output of a command: by regular expression, or by a path into JSON."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import stat
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns import GateFinding
from schedlab.nouns.output_metrics import OutputMetric, converted
from schedlab.nouns.reading import opened, read_bytes

NEAREST_LINES = 3
_STEP = re.compile(
    r"""\.?(?P<key>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<all>\*)\]|\["(?P<quoted>[^"]*)"\]
    |\[\?(?P<filter>[^=\]]+)==(?P<equals>[^\]]*)\]""",
    re.VERBOSE,
)


class Missing(Exception):
    """A number is missing or invalid; the text is the reason."""


@dataclass
class Reader:
    """Reads the metrics of one workload from run to run.

    A number printed without its unit must be followed by the same word in every run: tools that
    change their unit with the magnitude would otherwise be misread. `zero_is_a_value` of counters.
    """

    metrics: Sequence[OutputMetric]
    zero_is_a_value: bool = False
    _following: dict[str, str] = field(default_factory=dict)

    def read(
        self, stdout: bytes, stderr: bytes, files: Callable[[str], bytes | None]
    ) -> tuple[dict[str, float], list[GateFinding]]:
        """(value by metric, failed gates). `files` returns the text of a run's file, or None."""
        values: dict[str, float] = {}
        findings: list[GateFinding] = []
        for metric in self.metrics:
            text = {"stdout": stdout, "stderr": stderr}.get(metric.source)
            if metric.path:
                text = files(metric.path)
            if text is None:
                why = f"{metric.name}: {metric.path} cannot be read, or was not written by this run"
                findings.append(GateFinding("no-value", why))
                continue
            try:
                number = taken(self._numbers(metric, text, findings), metric.take)
                if not math.isfinite(number) or number < 0 or not (number or self.zero_is_a_value):
                    raise Missing(f"its value is {number}, which has no logarithm")
                values[metric.name] = number
            except Missing as error:
                findings.append(GateFinding("no-value", f"{metric.name}: {error}"))
        return values, findings

    def _numbers(
        self, metric: OutputMetric, text: bytes, findings: list[GateFinding]
    ) -> list[float]:
        if metric.is_json:
            return [number_of(value) for value in json_values(text, metric.pattern)]
        numbers = []
        from schedlab import _core

        for value, unit, following in _core.match_output(metric.pattern, text):
            number = number_of(value)
            if unit is not None:
                in_unit = converted(number, unit, metric.unit)
                if in_unit is None:
                    raise Missing(f"{value} {unit} is not a unit of {metric.unit or 'no unit'}")
                number = in_unit
            elif finding := self._changed(metric, following):
                findings.append(finding)
            numbers.append(number)
        if not numbers:
            raise Missing(f"no line matches {metric.pattern!r}; {_nearest(metric.pattern, text)}")
        return numbers

    def _changed(self, metric: OutputMetric, following: str) -> GateFinding | None:
        match = re.match(r"[ \t]?([A-Za-zµ%/]*)", following)
        word = match[1] if match else ""
        first = self._following.setdefault(metric.name, word)
        if word == first:
            return None
        text = f"{metric.name}: the number was followed by {first!r}, now by {word!r}"
        return GateFinding("unit-changed", f"{text}: capture it as (?<unit>…)")


def taken(numbers: Sequence[float], take: str) -> float:
    """One number of several; Missing when `only` finds more than one."""
    if not numbers:
        raise Missing("there is no value")
    if take == "only" and len(numbers) > 1:
        raise Missing(f"there are {len(numbers)} values, but exactly one is expected")
    pick: Mapping[str, Callable[[Sequence[float]], float]] = {
        "last": lambda n: n[-1],
        "first": lambda n: n[0],
        "only": lambda n: n[0],
        "sum": math.fsum,
        "mean": statistics.fmean,
        "min": min,
        "max": max,
    }
    return pick[take](numbers)


def number_of(value: Any) -> float:
    """A number, or a text that is one (`1,234.5` too); Missing otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Missing(f"{str(value)[:40]!r} is not a number")
    try:
        return float(value.replace(",", "") if isinstance(value, str) else value)
    except (ValueError, OverflowError) as error:
        raise Missing(f"{str(value)[:40]!r} is not a number") from error


def json_values(text: bytes, path: str) -> list[Any]:
    """The values at a path in the first JSON value of a text; Missing naming the step."""
    start = min((at for at in (text.find(b"{"), text.find(b"[")) if at >= 0), default=-1)
    if start < 0:
        raise Missing("the output has no JSON")
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:].decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise Missing(f"the output is not JSON: {error}") from error
    values = [value]
    for step in _steps(path):
        values = [item for each in values for item in _follow(each, step)]
        if not values:
            keys = ", ".join(list(value)[:8]) if isinstance(value, dict) else ""
            raise Missing(f"{path!r} finds nothing at {step[0]!r}; the first keys are {keys}")
    return values


def _steps(path: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or match.end() == at:
            raise Missing(f"{path!r} is not a path at {path[at:]!r}")
        yield match
        at = match.end()


def _follow(value: Any, step: re.Match[str]) -> list[Any]:
    key = step["key"] if step["key"] is not None else step["quoted"]
    if key is not None:
        return [value[key]] if isinstance(value, dict) and key in value else []
    if step["index"] is not None:
        number = int(step["index"])
        return [value[number]] if isinstance(value, list) and number < len(value) else []
    members = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(members, list):
        return []
    if step["all"]:
        return members
    name, wanted = step["filter"].strip(), step["equals"].strip().strip('"')
    return [m for m in members if isinstance(m, dict) and str(m.get(name)) == wanted]


def _nearest(pattern: str, text: bytes) -> str:
    """The lines that are most like the pattern, for the person who mends it."""
    lines = [line.strip() for line in text[-65536:].decode(errors="replace").splitlines()]
    lines = [line[:120] for line in lines if line]
    if not lines:
        return "the output is empty"
    plain = re.sub(r"\(\?<\w+>|[\\^$()\[\]?*+.]", "", pattern).lower()

    def likeness(line: str) -> float:
        return difflib.SequenceMatcher(None, plain, line.lower()).ratio()

    best = sorted(dict.fromkeys(lines), key=likeness, reverse=True)[:NEAREST_LINES]
    return "the nearest lines are " + "; ".join(map(repr, best))


def written_file(directory: Path, began: float, limit_bytes: int) -> Callable[[str], bytes | None]:
    """Reads a file below `directory` (or at a whole path elsewhere) if it was written since `began`
    and has at most `limit_bytes`. A program made it: a link that leads out of the directory, a FIFO
    and a device are None as well, and never opened."""

    def read(name: str) -> bytes | None:
        path = directory / name
        try:
            with opened(path, os.O_PATH) as found:
                status, real = os.fstat(found), Path(f"/proc/self/fd/{found}").readlink()
                leads_out = path.is_relative_to(directory) and not real.is_relative_to(directory)
                # File times are of the kernel's last tick.
                is_old = status.st_mtime < began - 0.02
                if leads_out or is_old or not stat.S_ISREG(status.st_mode):
                    return None
                return read_bytes(Path(f"/proc/self/fd/{found}"), "", limit_bytes)
        except (OSError, SpecError):
            return None

    return read
