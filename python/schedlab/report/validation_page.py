"""The page of a validated device: both distributions as a chart, figures, the worst requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.report import charts, frame, markup
from schedlab.report.tables import from_mappings
from schedlab.report.texts import Texts
from schedlab.store.files import made, make_directory

POINTS = 100
TEXTS = Texts("en")
Rows = Sequence[Mapping[str, Any]]


def write_validation(
    folder: Path,
    document: Mapping[str, Any],
    measured_ms: Sequence[float],
    simulated_ms: Sequence[float],
    title: str,
) -> Path:
    """Write `validation.json` (`document`) and `report.html` into `folder`; gives the page."""
    import numpy as np

    make_directory(folder)
    made(folder / "validation.json").write_text(json.dumps(document, indent=1) + "\n")
    shares = (np.arange(POINTS) + 0.5) / POINTS
    rows = [
        {"response time (ms)": float(value), "share of requests": float(share), "source": source}
        for source, times in (("measured", measured_ms), ("simulated", simulated_ms))
        for share, value in zip(shares, np.quantile(times, shares), strict=True)
    ]
    whole = document["parts"]["all"]
    note = TEXTS(
        "validation.demerit",
        requests=TEXTS.number(whole["requests"], 0),
        demerit=TEXTS.quantity(whole["demerit_ms"], "ms"),
        share=TEXTS.margin(whole["demerit_share"]),
        mean=TEXTS.quantity(whole["measured_mean_ms"], "ms"),
    )
    svg = _shares_chart(rows)
    parts = [{"requests of": name, **part} for name, part in document["parts"].items()]
    headline = TEXTS("answer.medium", medium=TEXTS("medium.simulated"), sentence=title)
    worst, distributions = (TEXTS(f"validation.{key}") for key in ("worst", "distributions"))
    page = frame.Page(
        headline=[headline],
        kicker=TEXTS("validation.kicker"),
        lead=[note],
        first=_table(parts, TEXTS("validation.parts")),
        sections=[
            ("figures", TEXTS("section.figures"), _figure(distributions, note, svg, rows)),
            ("worst", worst, _table(document["worst"], worst)),
        ],
    )
    path = folder / "report.html"
    frame.write(page, TEXTS, path)
    return path


def _shares_chart(rows: Rows) -> str:
    """SVG of the share of requests over the response time, a line for each source."""
    x, y = "response time (ms)", "share of requests"
    names = list(dict.fromkeys(str(row["source"]) for row in rows))
    lines = [
        charts.ChartLine(i, [(row[x], row[y]) for row in rows if row["source"] == name], name=name)
        for i, name in enumerate(names)
    ]
    values = sorted({float(row[x]) for row in rows})
    chart = charts.Chart(lines, x, y, ticks_x=[(value, f"{value:g}") for value in values])
    return charts.line_chart(chart, TEXTS, f"{y} over {x}")


def _figure(title: str, note: str, svg: str, rows: Rows) -> str:
    """A chart with its sentence, and the same numbers as a table."""
    return markup.figure(title, note, svg, from_mappings(TEXTS, title, title, rows), TEXTS)


def _table(rows: Rows, caption: str) -> str:
    """The rows as a table; nothing where a value is None."""
    return markup.drawn_table(from_mappings(TEXTS, caption, caption, rows))
