"""The page of a validated device: both distributions as a chart, figures, the worst requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.report import frame
from schedlab.report.ncq_page import TEXTS, figure, line_chart, table

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

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "validation.json").write_text(json.dumps(document, indent=1) + "\n")
    shares = (np.arange(POINTS) + 0.5) / POINTS
    rows = [
        {"response time (ms)": float(value), "share of requests": float(share), "source": source}
        for source, times in (("measured", measured_ms), ("simulated", simulated_ms))
        for share, value in zip(shares, np.quantile(times, shares), strict=True)
    ]
    whole = document["parts"]["all"]
    note = (
        f"{whole['requests']} requests; demerit {whole['demerit_ms']:.3f} ms, "
        f"{whole['demerit_share']:.1%} of the measured mean of {whole['measured_mean_ms']:.2f} ms."
    )
    svg = line_chart(rows, "response time (ms)", "share of requests", "source")
    parts = [{"requests of": name, **part} for name, part in document["parts"].items()]
    worst = table(document["worst"], "The worst requests")
    page = frame.Page(
        headline=[f"Simulated: {title}"],
        kicker="Validation of a simulated device",
        lead=[note],
        first=table(parts, "Demerit by kind of request"),
        sections=[
            ("figures", "Figures", figure("Distributions of response time", note, svg, rows)),
            ("worst", "The worst requests", worst),
        ],
    )
    path = folder / "report.html"
    frame.write(page, TEXTS, path)
    return path
