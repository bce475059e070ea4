"""Reading back what a report prints of losses, in every language."""

from __future__ import annotations

import math
import re

import pytest

from schedlab.report import words
from schedlab.report.texts import Texts
from schedlab.spec.answer import CellAnswer

NUMBER = r"(\d[\d,. \u00a0\u202f]*\d|\d)"
# Amounts and intervals as each language prints them; the ends may share the unit behind them.
FORMS = {
    "en": rf"(?:{NUMBER}(%|×)? to )?{NUMBER}(%|×)",
    "ko": rf"(?:{NUMBER}(%|배)?~)?{NUMBER}(%|배)",
    "ru": rf"(?:{NUMBER}(%| раза?)?(?:–| … в | … ))?{NUMBER}(%| раза?)",
}


def losses(text: str, language: str) -> list[float]:
    """Every amount in a text as a log."""
    plain = text.replace("\u00a0%", "%").replace("\u00a0", " ")
    found = []
    for match in re.finditer(FORMS[language], plain):
        low, low_unit, high, unit = match.groups()
        found += [log(low, low_unit or unit, language)] if low else []
        found.append(log(high, unit, language))
    return found


def log(number: str, unit: str, language: str) -> float:
    thousands, decimal = (",", ".") if language != "ru" else (" ", ",")
    number = re.sub(r"[\u00a0\u202f ]", "", number) if language == "ru" else number
    value = float(number.replace(thousands, "").replace(decimal, "."))
    # The best itself, as the low end of an interval, is 0 in either unit.
    return math.log1p(value / 100) if "%" in unit or not value else math.log(value)


def agrees(note: str, of: CellAnswer, language: str) -> None:
    texts = Texts(language)
    """A printed cell says what was worked out: no end is inside the numbers, nor far outside."""
    assert (words.BEHIND in note) == (of.low > 0)
    assert (note == texts("cell.best")) == of.best
    ends = losses(note, language)
    if of.best or (of.open and of.low == 0):
        assert not ends
    elif of.open:
        assert ends == [pytest.approx(ends[0])] and ends[0] <= of.low + 1e-9
    elif words.bounded(of.up) is None:
        assert len(ends) == (of.loss > 0)
    elif of.loss == 0:
        assert len(ends) == 1 and ends[0] >= of.up - 1e-9
    else:
        point, low, up = ends
        assert low <= of.low + 1e-9 and up >= of.up - 1e-9 and low <= point <= up
        step = 0.0105 if words.is_times(of.up) else 0.002  # of a ratio, printed as 1.27×
        assert up <= of.up * 1.12 + 0.002 and low >= of.low * 0.88 - step
