"""The NCQ study as a lab: a page with charts, their tables, and what is not reproduced."""

import json
from pathlib import Path

from click.testing import CliRunner

from schedlab.app.measure.labs import lab_named
from schedlab.cli.sim.ncq_study import ncq_study


def test_the_study_writes_its_page(tmp_path: Path) -> None:
    arguments = ["--requests", "200", "--seeds", "1", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(ncq_study, arguments, catch_exceptions=False)
    document = json.loads(result.stdout)
    page = Path(document["page"]).read_text()
    assert page.count("<figure") == 7
    assert "Not reproduced" in page and "Paper and model side by side" in page
    assert all(row["result"] in page.replace("&quot;", '"') for row in document["statements"])
    assert "https://" not in page.replace('xmlns="http', "")


def test_the_lab_calls_the_study() -> None:
    assert "ncq_study" in lab_named("ncq-ssd").scaled("full")


def synthetic(better: bool) -> list[dict]:
    """Rows of a sweep in which TSB is better than all, or worse; and nothing else matters."""
    from schedlab.sim.ncq_study import study_sweep

    rows = []
    for point in study_sweep(100, 3).points:
        settings = point.settings
        factor = (0.2 if better else 5.0) if settings["policy"] == "tsb" else 1.0
        grows = 1.0 + int(settings["device.buffer.size"].removesuffix("MiB")) / 64
        value = 10 * factor * (1 / grows if better else grows) * (1 + point.seed / 1000)
        metrics = {
            f"{which}_{way}{at}_ms": value
            for which in ("mean", "max")
            for way in ("read", "write")
            for at in ("", "_ncq")
        }
        metrics |= {"iops": 500 / factor, "utilisation": 0.5, "overloaded": float(not better)}
        rows.append({"settings": settings, "seed": point.seed, "metrics": metrics})
    return rows


def test_no_sentence_survives_when_the_figures_are_turned_round() -> None:
    from schedlab.sim.ncq_figures import figures
    from schedlab.sim.ncq_study import Study

    up, down = (Study(synthetic(better)) for better in (True, False))
    for one, other in zip(figures(up), figures(down), strict=True):
        if "α" not in one.x:
            assert one.note != other.note, one.title
    assert list(up.cannot()) != list(down.cannot())
    assert up.basis(100, 3) != down.basis(100, 3)
    for one, other in zip(up.rows(), down.rows(), strict=True):
        of_alpha = "α = 1" in one["result"] or "over the best" in one["result"]
        if "TSB" in one["result"] and "IOPS" not in one["result"] and not of_alpha:
            assert (one["model"], one["remark"]) != (other["model"], other["remark"]), one["result"]


def test_close_calls_are_reported_as_close() -> None:
    from schedlab.sim.ncq_study import Study

    rows = synthetic(True)
    for row in rows:
        row["metrics"] = {**row["metrics"], "mean_read_ms": 10.0 + row["seed"]}
    best, text, left_out = Study(rows).best_buffer("mean_read_ms", "A", relative=True)
    assert best is None and "too close to call" in text and left_out == ()
