"""The page of a validated device: both distributions as a chart, figures, the worst requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.report import frame
from schedlab.report.ncq_page import TEXTS, figure, line_chart, table
from schedlab.store.files import made, make_directory

POINTS = 100


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
    svg = line_chart(rows, "response time (ms)", "share of requests", "source")
    parts = [{"requests of": name, **part} for name, part in document["parts"].items()]
    headline = TEXTS("answer.medium", medium=TEXTS("medium.simulated"), sentence=title)
    worst, distributions = (TEXTS(f"validation.{key}") for key in ("worst", "distributions"))
    page = frame.Page(
        headline=[headline],
        kicker=TEXTS("validation.kicker"),
        lead=[note],
        first=table(parts, TEXTS("validation.parts")),
        sections=[
            ("figures", TEXTS("section.figures"), figure(distributions, note, svg, rows)),
            ("worst", worst, table(document["worst"], worst)),
        ],
    )
    path = folder / "report.html"
    frame.write(page, TEXTS, path)
    return path
