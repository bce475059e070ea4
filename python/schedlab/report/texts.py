"""The report's words and numbers in one language: a catalogue file and how numbers are written."""

from __future__ import annotations

import copy
import functools
import math
import os
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns import Metric
from schedlab.nouns.reading import dotted
from schedlab.package import PACKAGE

LANGUAGES = ("en", "ko", "ru")
_VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
# A time of requests, with the quantile that its name ends in.
TIMED = re.compile(r"((?:[a-z]+_)?(?:latency|response|wakeup|lateness))_ns_(mean|max|p[0-9_]+)")
MINUS, NO_BREAK = "\u2212", "\u00a0"
# Smaller numbers are printed as 3.0e−9.
PLAIN_FROM = 1e-5
# The shortest time of `duration`.
SHORTEST_S = 0.1
# unit -> ((factor, shown unit), ...) from small to large
SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "B": ((1, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")),
    "B/s": ((1, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")),
    "ns": ((1, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")),
    "s": ((1e-6, "µs"), (1e-3, "ms"), (1, "s")),
    "1/s": ((1, "/s"), (1e3, "k/s"), (1e6, "M/s")),
    "1": ((1, ""),),  # a count: 17, not "17 1"
}


def preferred_language() -> str:
    """The language of messages that the environment asks for, as for gettext; else English."""
    asked = next(filter(None, map(os.environ.get, _VARIABLES)), "")
    language = re.split("[:_.@]", asked)[0]
    return language if language in LANGUAGES else "en"


class UnitScale:
    """One unit for a whole column or axis: `value / factor` is shown with `unit`."""

    def __init__(self, factor: float, unit: str) -> None:
        self.factor, self.unit = factor, unit

    @classmethod
    def fitting(cls, values: Sequence[float], unit: str) -> UnitScale:
        """The scale of `unit` in which the geometric middle of `values` has 1 to 4 digits."""
        finite = [abs(v) for v in values if math.isfinite(v) and v]
        steps = SCALES.get(unit, ((1, unit),))
        if not finite:
            return cls(*steps[0])
        middle = math.exp(sum(map(math.log, finite)) / len(finite))
        return cls(*max((s for s in steps if s[0] <= middle * 1.0001), default=steps[0]))


class Texts:
    """The texts of one language (`None`: the environment's); call it with a key."""

    def __init__(self, language: str | None) -> None:
        language = language or preferred_language()
        if language not in LANGUAGES:
            raise SpecError(f"language {language!r} is not known", f"use {', '.join(LANGUAGES)}")
        self.language = language
        self.entries = catalogue(language)
        self.decimal = str(self.entries["format.decimal"])
        self.thousands = str(self.entries["format.thousands"])

    def __call__(self, key: str, **values: object) -> str:
        """The text of `key` with its placeholders filled."""
        return str(self.entries[key]).format(**values)

    def of_medium(self, medium: str) -> Texts:
        """The same, with the entries that a medium has for itself: in virtual time nothing is
        proven for a machine."""
        prefix = f"{medium}."
        own = {key.removeprefix(prefix): text for key, text in self.entries.items()
               if medium and key.startswith(prefix)}  # fmt: skip
        if not own:
            return self
        other = copy.copy(self)
        other.entries = {**self.entries, **own}
        return other

    def maybe(self, key: str, fallback: str) -> str:
        """The text of `key`, or `fallback` where the catalogue has none."""
        return str(self.entries.get(key, fallback))

    def counted(self, key: str, count: int) -> str:
        """`3 blocks`: a number with its noun in the right form."""
        forms = self.entries[key]
        noun = forms[plural_form(self.language, count)]
        text = self("format.counted", number=self.number(count, 0), noun=noun)
        return text.replace(" ", NO_BREAK)

    def form(self, key: str, count: int) -> str:
        """The form of a noun that goes with a count."""
        return str(self.entries[key][plural_form(self.language, count)])

    def fraction_form(self, key: str) -> str:
        """The form of a noun that goes with a number such as 2.4."""
        forms = self.entries[key]
        return str(forms[min(1, len(forms) - 1)])

    def nouns(self, kind: str) -> str:
        """The noun for candidates in this kind of experiment, such as `schedulers`."""
        return str(self.entries[f"noun.{kind}"][-1])

    def number(self, value: float, decimals: int) -> str:
        """1234.5 as `1,234.5` in this language, with a true minus sign."""
        if not math.isfinite(value):
            return self("verdict.none")
        text = f"{abs(value):,.{decimals}f}"
        text = text.translate({ord(","): self.thousands, ord("."): self.decimal})
        return (MINUS if value < 0 and float(f"{value:.{decimals}f}") else "") + text

    def figure(self, value: float, digits: int = 3) -> str:
        """A number with so many significant digits, and never fewer than its whole ones."""
        size = float(f"{abs(value):.{digits}g}") if math.isfinite(value) else 0.0
        if size == 0:
            return self.number(value, 0)
        if size < PLAIN_FROM:
            sign = MINUS if value < 0 else ""
            mantissa, exponent = f"{size:.{digits - 1}e}".split("e")
            return f"{sign}{mantissa.replace('.', self.decimal)}e{MINUS}{abs(int(exponent))}"
        decimals = max(0, digits - 1 - math.floor(math.log10(size)))
        return self.number(value, min(decimals, 6))

    def scale(self, values: Sequence[float], unit: str) -> UnitScale:
        """The scale in which these values read best, with its unit in this language."""
        fitting = UnitScale.fitting(values, unit)
        return UnitScale(fitting.factor, self.maybe(f"unit.{fitting.unit}", fitting.unit))

    def quantity(self, value: float, unit: str, digits: int = 3) -> str:
        """A value in the unit that reads best: 0.00123 s as `1.23 ms`, 999.7 µs as `1.00 ms`."""
        rounded = float(f"{value:.{max(3, digits)}g}")
        scale = self.scale([rounded], unit)
        number = self.figure(value / scale.factor, digits)
        return f"{number}{NO_BREAK}{scale.unit}".rstrip(NO_BREAK)

    def duration(self, seconds: float) -> str:
        """`less than 0.1 s`, `0.5 s`, `96 s`, `3 min`, `2 h 5 min`."""
        if 0 < seconds < SHORTEST_S / 2:
            shortest = self._unit("seconds", self.number(SHORTEST_S, 1))
            return self("format.less_than", amount=shortest).replace(" ", NO_BREAK)
        if seconds < 100:
            return self._unit("seconds", self.number(seconds, 1 if 0 < seconds < 9.95 else 0))
        minutes = round(seconds / 60)
        if minutes < 120:
            return self._unit("minutes", self.number(minutes, 0))
        hours, rest = (self.number(part, 0) for part in divmod(minutes, 60))
        return self("format.hours", hours=hours, minutes=rest).replace(" ", NO_BREAK)

    def _unit(self, unit: str, number: str) -> str:
        return self(f"format.{unit}", number=number).replace(" ", NO_BREAK)

    def percent(self, fraction: float, signed: bool = True) -> str:
        """0.0361 as `+3.6 %`; from tenfold on as a factor, `× 12`."""
        if signed and fraction >= 9:
            return f"×{NO_BREAK}{self.figure(1 + fraction)}"
        value = 100 * fraction
        if value == 0:
            return self.margin(0.0)
        number = self.number(value, percent_decimals(value))
        sign = "+" if signed and value > 0 and any(c in "123456789" for c in number) else ""
        return self("format.percent", number=sign + number).replace(" ", NO_BREAK)

    def margin(self, fraction: float) -> str:
        """0.02 as `2 %`."""
        digits = f"{100 * fraction:.{1 if fraction >= 0.01 else 2}f}"
        number = (digits.rstrip("0").rstrip(".") or "0").replace(".", self.decimal)
        return self("format.percent", number=number).replace(" ", NO_BREAK)

    def listed(self, names: Sequence[str]) -> str:
        """`a, b and c`."""
        if len(names) < 2:
            return "".join(names)
        first = self("format.list_separator").join(names[:-1])
        return self("format.list_and", first=first, last=names[-1])

    def metric(self, metric: Metric) -> str:
        """The metric's name in this language."""
        fallback = metric.title or metric.name.replace("_", " ")
        if timed := TIMED.fullmatch(metric.name):
            # "response" alone is the response of a simulated disk, in milliseconds.
            name = "response_time" if timed[1] == "response" else timed[1]
            key, quantile = f"metric.{name}", timed[2]
            shown = self.maybe(f"metric.{quantile}", quantile.replace("_", self.decimal))
            return self(key, quantile=shown) if key in self.entries else fallback
        if metric.name.endswith("_ms") and (parts := metric.name.split("_"))[0] in ("mean", "max"):
            key = "metric.response_ncq" if "ncq" in parts else "metric.response"
            words = {"which": parts[0], "direction": parts[1]}
            return self(key, **{k: self.maybe(f"metric.{v}", v) for k, v in words.items()})
        return self.maybe(f"metric.{metric.name}", fallback)


def percent_decimals(value: float) -> int:
    """How many decimals a percentage needs: two below 0.1, none from 100 on."""
    size = abs(value)
    return 0 if size >= 100 else 1 if size >= 0.095 or size == 0 else 2


def plural_form(language: str, count: int) -> int:
    """The index of the plural form (CLDR cardinal rules): en 0-1, ru 0-2, ko 0."""
    if language == "ru":
        last, last_two = count % 10, count % 100
        if last == 1 and last_two != 11:
            return 0
        return 1 if 2 <= last <= 4 and not 12 <= last_two <= 14 else 2
    return 0 if language == "ko" or count == 1 else 1


@functools.cache
def catalogue(language: str) -> dict[str, Any]:
    """All entries of a language by dotted key: texts, and lists of plural forms."""
    folder = PACKAGE / "report" / "catalogue"
    names = ("", "outcomes.", "timeline.")
    files = [folder / f"{name}{language}.toml" for name in names]
    return dict(pair for file in files for pair in dotted(tomllib.loads(file.read_text("utf-8"))))
