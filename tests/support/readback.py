"""Reading back what a report prints of losses, in every language."""

from __future__ import annotations

import math
import re

import pytest

from schedlab.nouns import Metric
from schedlab.nouns.answer import CellAnswer
from schedlab.report import words
from schedlab.report.texts import Texts

NUMBER = r"(\d[\d,. \u00a0\u202f]*\d|\d)"
# Amounts and intervals as each language prints them; the ends may share the unit behind them.
FORMS = {
    "en": rf"(?:{NUMBER}(%|×)? to )?{NUMBER}(%|×)",
    "ko": rf"(?:{NUMBER}(%|배)?~)?{NUMBER}(%|배)",
    "ru": rf"(?:{NUMBER}(%|×| раза?)?(?:–| … в | … ))?{NUMBER}(%|×| раза?)",
}

FORM_OF_TWO = {"en": "2.0×", "ko": "2.0배", "ru": "2,0 раза"}


def losses(text: str, language: str, shrinks: bool = False) -> list[float]:
    """Every amount in a text as a log; `shrinks`: a percentage is of what is lost."""
    plain = text.replace("\u00a0%", "%").replace("\u00a0", " ")
    found = []
    for match in re.finditer(FORMS[language], plain):
        low, low_unit, high, unit = match.groups()
        found += [log(low, low_unit or unit, language, shrinks)] if low else []
        found.append(log(high, unit, language, shrinks))
    return found


def log(number: str, unit: str, language: str, shrinks: bool) -> float:
    thousands, decimal = (",", ".") if language != "ru" else (" ", ",")
    number = re.sub(r"[\u00a0\u202f ]", "", number) if language == "ru" else number
    value = float(number.replace(thousands, "").replace(decimal, "."))
    # The best itself, as the low end of an interval, is 0 in either unit.
    if "%" in unit or not value:
        return -math.log1p(-value / 100) if shrinks else math.log1p(value / 100)
    return math.log(value)


def agrees(
    note: str,
    of: CellAnswer,
    language: str,
    metric: Metric | None,
    few: bool = False,
    exact: bool = False,
) -> None:
    """A printed cell says what was worked out: no end is inside the numbers, nor far outside."""
    texts, shrinks = Texts(language), words.way(metric).shrinks
    assert (words.BEHIND in note) == (of.low > 0)
    assert (note == texts("cell.best")) == of.best
    ends = losses(note.replace(texts("change.half"), FORM_OF_TWO[language]), language, shrinks)
    if of.best or (of.open and of.low == 0):
        assert not ends
    elif of.open:
        assert ends == [pytest.approx(ends[0])] and ends[0] <= of.low + 1e-9
    elif exact or few or words.bounded(of.up) is None or (of.up > math.log(10) and of.low == 0):
        assert ends == ([pytest.approx(of.loss, rel=0.06, abs=0.01)] if of.loss else [])
    elif of.loss == 0:
        assert len(ends) == 1 and ends[0] >= of.up - 1e-9
    else:
        point, low, up = ends
        assert low <= of.low + 1e-9 and up >= of.up - 1e-9 and low <= point <= up
        step = 0.0105 if words.is_times(of.up, shrinks) else 0.002  # of a ratio, printed as 1.27×
        wide = 0.02 if shrinks else 0.002  # near a half a per cent is more of a log
        assert up <= of.up * 1.12 + wide and low >= of.low * 0.88 - max(step, wide)
