"""The pages in a real browser: axe-core finds nothing serious, nothing scrolls sideways, and a
bar of the timeline under the pointer is the request of the file.

Needs Chromium and npm; what npm installs is locked and kept in pytest's cache directory.
"""

import itertools
import json
import random
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
from recordings import WRITE, Recorded, recording

from schedlab import report
from schedlab.app.trace.timeline import write_timeline
from schedlab_sim.cli.sim import sim

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
    for name in ("package.json", "package-lock.json", "check.mjs", "hover.mjs", "point.mjs"):
        shutil.copy(HERE / name, directory / name)
    if not installed.is_file() or installed.read_text() != lock:
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        result = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True)
        if result.returncode != 0:
            pytest.skip(f"npm could not install axe-core: {result.stderr.strip()[-300:]}")
        installed.write_text(lock)
    return directory


NAMES = ("none", "bfq")


def requests_of(name):
    """Overlapping requests of five processes in the order of their arrival."""
    draw, at_us, sent = random.Random(name), 0, []
    for number in range(2000):
        at_us += draw.randint(1, 400)
        steps = [at_us + draw.randint(0, 900) for _ in range(4)]
        *steps, end = sorted(steps)
        sent.append(Recorded(
            at_us, end + 1, 4096 * draw.randint(0, 10**6), 4096 * draw.randint(1, 64),
            WRITE * (number % 5 > 0), thread=1 + number % 5, command=f"task-{number % 5}",
            steps_us=tuple(steps),
        ))  # fmt: skip
    return sent


def load(path, name):
    return recording(path, requests_of(name), name)


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
    pages.append(directory / "timeline.html")
    files = [str(load(directory / f"{name}.trace", name)) for name in NAMES]
    write_timeline(files, pages[-1], "en")
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


@pytest.mark.sampled(2)
def test_a_bar_under_the_pointer_is_the_request_of_the_file(modules, tmp_path):
    files = [str(load(tmp_path / f"{name}.trace", name)) for name in NAMES]
    page, draw = tmp_path / "timeline.html", random.Random(3)
    write_timeline(files, page, "en")
    places = [(draw.randrange(2), draw.randrange(2000)) for _ in range(200)]
    command = ["node", "hover.mjs", chromium(), str(tmp_path / "profile"), str(page)]
    done = subprocess.run(
        [*command, json.dumps(places)], cwd=modules, check=False, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for (lane, bar), seen in zip(places, json.loads(done.stdout), strict=True):
        sent = requests_of(NAMES[lane])
        one, start_us = sent[bar], sent[0].start_us
        title, _, place, arrives, *spent, overtaken = seen
        assert title == f"{NAMES[lane]}: {one.command}"
        assert place == f"byte {one.offset:,}"
        assert arrives == f"{(one.start_us - start_us) / 1e6:.6f} s"
        borders = (one.start_us, *one.steps_us, one.end_us)
        parts = [later - earlier for earlier, later in itertools.pairwise(borders)]
        for words, us in zip(spent, [*parts, sum(parts)], strict=True):
            number, unit = words.replace(",", "").split()
            factor = {"ns": 1e-3, "µs": 1, "ms": 1e3}[unit]
            assert float(number) * factor == pytest.approx(us, rel=0.01)
        before = sum(o.start_us > one.start_us and o.steps_us[2] < one.steps_us[2] for o in sent)
        assert overtaken.split(" ")[0].replace(",", "") == (str(before) if before else "nobody")
