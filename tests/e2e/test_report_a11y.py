"""The report in a real browser: axe-core finds nothing serious, nothing scrolls sideways.

Needs Chromium and npm; what npm installs is locked and kept in pytest's cache directory.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
import answers
import report_simulation as simulation
import reports
from click.testing import CliRunner

from schedlab import report
from schedlab.cli.sim import sim

HERE = Path(__file__).parent / "a11y"


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def modules(request):
    """A directory with the script and what it needs, installed once."""
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            pytest.skip(f"no {tool} here: install Node.js")
    directory = Path(request.config.cache.mkdir("report-a11y"))
    lock = (HERE / "package-lock.json").read_text()
    installed = directory / "installed.json"
    for name in ("package.json", "package-lock.json", "check.mjs"):
        shutil.copy(HERE / name, directory / name)
    if not installed.is_file() or installed.read_text() != lock:
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        result = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True)
        if result.returncode != 0:
            pytest.skip(f"npm could not install axe-core: {result.stderr.strip()[-300:]}")
        installed.write_text(lock)
    return directory


@pytest.fixture(scope="module")
def findings(modules, tmp_path_factory):
    browser = chromium()
    directory = tmp_path_factory.mktemp("pages")
    judged = {
        "io": (simulation.io_record(sizes=2, blocks=5), "en"),
        "cpu": (simulation.cpu_record(), "ko"),
        "sim": (simulation.sim_record(blocks=6), "ru"),
    }
    cases = {name: (r, simulation.answered(r), language) for name, (r, language) in judged.items()}
    pages = []
    for name, (record, verdict, language) in {
        "hand": (reports.record_of(answers.TRADE), answers.TRADE, "en"),
        **cases,
    }.items():
        pages.append(directory / f"{name}.html")
        pages[-1].write_text(report.html(record, verdict, language), "utf-8")
    pages.append(directory / "play.html")
    words = ["run", "--play", str(pages[-1]), "--lang", "ru", "--policy", "fcfs,tsb"]
    assert CliRunner().invoke(sim, words).exit_code == 0
    command = ["node", "check.mjs", browser, str(directory / "profile"), *map(str, pages)]
    completed = subprocess.run(
        command, cwd=modules, check=False, capture_output=True, text=True, timeout=600
    )
    assert completed.returncode == 0, completed.stderr
    results = json.loads(completed.stdout)
    assert {page["file"] for page in results} == {str(page) for page in pages}
    return results


def test_axe_finds_nothing_serious(findings):
    bad = [
        (Path(page["file"]).name, page["width"], page["scheme"], violation)
        for page in findings
        for violation in page["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
    assert not bad, json.dumps(bad, indent=1)


def test_no_page_scrolls_sideways(findings):
    assert {(page["width"], page["overflow"]) for page in findings} == {(1280, 0), (390, 0)}


def test_first_tab_stop_skips_to_the_verdict(findings):
    assert {page["focus"] for page in findings} == {"skip"}


def test_a_page_loads_nothing_but_itself(findings):
    assert {page["requests"] for page in findings} == {1}
