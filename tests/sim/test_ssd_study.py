"""The NCQ study as a lab: a page with charts, their tables, and what does not come out."""

import json
from pathlib import Path

from click.testing import CliRunner

from schedlab.cli.lab import labs
from schedlab.cli.sim.ncq_study import ncq_study


def test_the_study_writes_its_page(tmp_path: Path) -> None:
    arguments = ["--requests", "200", "--seeds", "1", "--out", str(tmp_path), "--json"]
    done = CliRunner().invoke(ncq_study, arguments, catch_exceptions=False)
    document = json.loads(done.stdout)
    page = Path(document["page"]).read_text()
    assert page.count("<svg") == 7
    assert "What does not come out" in page and "Paper and model side by side" in page
    assert all(row["result"] in page.replace("&quot;", '"') for row in document["statements"])
    assert "https://" not in page.replace('xmlns="http', "")


def test_the_lab_calls_the_study() -> None:
    assert labs()["ncq-ssd"].arguments("full")[:2] == ["sim", "ncq-study"]
