"""The report's forms on simulated experiments: words, tables, page, exchange formats."""

from __future__ import annotations

import ast
import csv
import dataclasses
import io
import json
import re
import string
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import report_simulation as simulation
from click.testing import CliRunner
from rich.cells import cell_len

from schedlab import analyse, report
from schedlab.cli.report import report as command
from schedlab.errors import SpecError
from schedlab.report import sentences
from schedlab.report.texts import Scale, Texts, catalogue, plural_form
from schedlab.report.view import View, percentiles, seen_from
from schedlab.spec import Flag, Pair, Record, Segment, Verdict
from schedlab.store.folder import Folder

Case = tuple[Record, Verdict]
VOID = {"meta", "br", "use", "rect", "line", "circle", "path"}


@pytest.fixture(scope="module")
def io_case() -> Case:
    record = simulation.io_record(sizes=3, blocks=8)
    return record, simulation.judged(record)


@pytest.fixture(scope="module")
def cases(io_case: Case) -> dict[str, Case]:
    made = {"cpu": simulation.cpu_record(), "sim": simulation.sim_record()}
    return {"io": io_case} | {kind: (r, simulation.judged(r)) for kind, r in made.items()}


def test_catalogues_have_the_same_keys_and_placeholders() -> None:
    def fields(text: object) -> set[str]:
        texts = text if isinstance(text, list) else [text]
        return {name for t in texts for _, name, _, _ in string.Formatter().parse(t) if name}

    english = catalogue("en")
    for language in report.LANGUAGES:
        other = catalogue(language)
        assert set(other) == set(english), language
        for key, text in english.items():
            assert fields(other[key]) == fields(text), (language, key)
            assert isinstance(other[key], list) == isinstance(text, list), (language, key)


def test_plural_forms_of_every_language_are_in_its_catalogue() -> None:
    for language in report.LANGUAGES:
        texts = Texts(language)
        for key, forms in texts.entries.items():
            if isinstance(forms, list):
                for count in (0, 1, 2, 5, 11, 21, 22, 112):
                    assert plural_form(language, count) < len(forms), (language, key)
    assert Texts("ru").counted("scope.blocks", 22) == "22\u00a0блока"
    assert Texts("ru").counted("scope.blocks", 11) == "11\u00a0блоков"
    assert Texts("ko").counted("scope.blocks", 3) == "블록\u00a03개"


def test_unknown_language_names_the_known_ones() -> None:
    with pytest.raises(SpecError, match="'de'") as error:
        Texts("de")
    assert "ru" in error.value.hint


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (61447.99 * 1024, "B/s", "62.9 MB/s"),
        (2_140_000, "ns", "2.14 ms"),
        (851, "ns", "851 ns"),
        (0.00123, "s", "1.23 ms"),
        (82.17, "s", "82.2 s"),
        (354_000, "1/s", "354 k/s"),
        (0.998, "", "0.998"),
        (61447.99, "KiB/s", "61,448 KiB/s"),
        (9999.6, "B/s", "10.0 kB/s"),
    ],
)
def test_quantities_are_scaled_for_people(value: float, unit: str, shown: str) -> None:
    assert Texts("en").quantity(value, unit).replace("\u00a0", " ") == shown


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (0.0361, "+3.6 %"),
        (-0.0361, "−3.6 %"),
        (0.0, "0 %"),
        (0.00004, "0.00 %"),
        (-0.00004, "0.00 %"),
        (0.0006, "+0.06 %"),
        (-0.993, "−99.3 %"),
        (1.5, "+150 %"),
        (138.0, "× 139"),
    ],
)
def test_differences_are_percent_with_a_true_minus(fraction: float, shown: str) -> None:
    assert Texts("en").percent(fraction).replace("\u00a0", " ") == shown


def test_intervals_say_to_and_follow_the_language() -> None:
    def shown(language: str) -> str:
        return Texts(language).ratio_interval(0.95, 1.022).replace("\u00a0", " ")

    assert shown("en") == "−5.0 to +2.2 %"
    assert shown("ru") == "от −5,0 до +2,2 %"
    assert shown("ko") == "−5.0 ~ +2.2 %"
    assert Texts("en").ratio_interval(None, None) == "–"


def test_one_scale_serves_a_column() -> None:
    scale = Scale.fitting([800e6, 1.2e9], "B/s")
    assert (scale.factor, scale.unit) == (1e6, "MB/s")


@pytest.mark.parametrize("best", [("bfq",), ("none", "bfq")])
@pytest.mark.parametrize("language", report.LANGUAGES)
def test_a_win_on_few_workloads_is_told_as_one(language: str, best: tuple[str, ...]) -> None:
    record = simulation.io_record(sizes=1, blocks=12)
    verdict = simulation.judged(record)
    labels = list(verdict.workloads)
    for label, workload in verdict.workloads.items():
        outcome = "better" if label == labels[-1] else "equivalent"
        rows = tuple(
            dataclasses.replace(row, verdict=outcome if row.candidate == "bfq" else row.verdict)
            for row in workload.candidates
        )
        verdict.workloads[label] = dataclasses.replace(workload, candidates=rows)
    reason = "winner" if len(best) == 1 else "not-separated"
    overall = dataclasses.replace(verdict.overall, best_set=best, reason=reason)
    view = View(record, dataclasses.replace(verdict, overall=overall), Texts(language))
    second = sentences.headlines(view)[1]
    assert labels[-1] in second
    assert (str(len(labels) - 1) if len(best) == 1 else "bfq") in second


def test_pair_is_turned_round() -> None:
    pair = seen_from([Pair("a", "b", 0.8, 0.7, 0.9, "worse")], "b", "a")
    assert pair is not None
    assert (pair.verdict, pair.ratio) == ("better", 1.25)
    assert pair.low == pytest.approx(1 / 0.9)
    assert pair.high == pytest.approx(1 / 0.7)


def test_percentiles_need_ten_requests_beyond() -> None:
    histogram = ((10, 20, 900), (20, 30, 95), (30, 40, 5))
    found = percentiles(histogram, [0.5, 0.9, 0.99, 0.999])
    assert found == [(0.5, 20.0), (0.9, 20.0), (0.99, 30.0)]


def test_work_that_disagrees_comes_first(io_case: Case) -> None:
    text = report.text(*io_case, width=300)
    assert text.replace("\u00a0", " ").startswith(
        "It depends on the work: against none, bfq is better on 1 workload"
    )
    assert "−80.0 % ▲" in text.replace("\u00a0", " ")


@pytest.mark.parametrize("language", report.LANGUAGES)
@pytest.mark.parametrize("kind", ["io", "cpu", "sim"])
@pytest.mark.parametrize("width", [60, 80, 300])
def test_terminal_text_fits_its_width(
    cases: dict[str, Case], kind: str, language: str, width: int
) -> None:
    text = report.text(*cases[kind], width=width, lang=language)
    assert "\x1b" not in text
    assert max(cell_len(line) for line in text.splitlines()) <= width
    for name in ("bfq", "mq-deadline") if kind == "io" else ():
        assert name in text


def test_colour_is_added_only_when_asked(io_case: Case) -> None:
    plain, coloured = report.text(*io_case), report.text(*io_case, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r" +$", "", re.sub(r"\x1b\[[0-9;]*m", "", coloured), flags=re.M) == plain


def test_single_runs_are_not_ranked() -> None:
    record = simulation.io_record(sizes=1, blocks=1)
    text = report.text(record, simulation.judged(record), width=200)
    assert text.startswith("One run each: no interval can be given, so nothing is ranked.")
    html = report.html(record, simulation.judged(record))
    assert "no interval can be given" in html


def test_csv_has_every_pair_in_plain_numbers(io_case: Case) -> None:
    record, verdict = io_case
    rows = list(csv.DictReader(io.StringIO(report.csv(record, verdict, lang="ru"))))
    pairs = sum(len(w.pairs) for w in verdict.workloads.values())
    pairs += sum(len(w.pairs) for many in verdict.secondary.values() for w in many)
    assert len(rows) == pairs + len(verdict.overall.pairs)
    first, pair = rows[0], next(iter(verdict.workloads.values())).pairs[0]
    assert (first["a"], first["b"], float(first["ratio"])) == (pair.a, pair.b, pair.ratio)
    assert rows[-1]["workload"] == ""


def test_markdown_tables_are_whole(io_case: Case) -> None:
    text = report.markdown(*io_case)
    columns: int | None = None
    for line in text.splitlines():
        if not line.startswith("|"):
            columns = None
            continue
        found = len(re.findall(r"(?<!\\)\|", line))
        assert columns in (None, found), line
        columns = found
    assert text.startswith("# It depends on the work")


def test_names_cannot_break_markdown_or_html(io_case: Case) -> None:
    record, _ = io_case
    evil = "<b>|`x`</b>"
    experiment = dataclasses.replace(record.experiment, title=evil, notes=(evil,))
    record = dataclasses.replace(record, experiment=experiment, notices=(evil,))
    verdict = simulation.judged(record)
    assert evil not in report.html(record, verdict)
    assert evil not in report.markdown(record, verdict)


def test_reproduce_script_is_a_shell_script(io_case: Case) -> None:
    record, _ = io_case
    experiment = dataclasses.replace(record.experiment, title="two\nlines; rm -rf $HOME")
    script = report.reproduce_script(dataclasses.replace(record, experiment=experiment))
    checked = subprocess.run(
        ["sh", "-n"], check=False, input=script, text=True, capture_output=True
    )
    assert checked.returncode == 0, checked.stderr
    commands = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert not any("rm -rf" in line for line in commands)
    assert commands[-1] == 'exec schedlab reproduce "$here" --out "$out"'


class Outline(HTMLParser):
    """Headings, identifiers and references of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.loads: list[str] = []
        self.images = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if "id" in given:
            self.ids.append(str(given["id"]))
        self.references += [given[k] or "" for k in ("aria-labelledby",) if k in given]
        if tag == "a" and str(given.get("href", "")).startswith("#"):
            self.references.append(str(given["href"])[1:])
        self.loads += [str(given[k]) for k in ("src", "srcset") if k in given]
        self.loads += [str(given["href"])] if tag == "link" else []
        if given.get("role") == "img":
            self.images += 1
            assert given.get("aria-label")


@pytest.mark.parametrize("kind", ["io", "cpu", "sim"])
def test_page_stands_alone_and_hangs_together(cases: dict[str, Case], kind: str) -> None:
    page = report.html(*cases[kind])
    outline = Outline(page)
    assert outline.levels[0] == 1 and outline.levels.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.levels, outline.levels[1:], strict=False))
    assert len(set(outline.ids)) == len(outline.ids)
    assert set(outline.references) <= set(outline.ids)
    assert not outline.loads
    assert "url(" not in page and "http" not in page and "<script" not in page
    assert outline.images >= 3
    assert "font-family=" not in page


def test_page_shows_what_was_repeated_and_why(io_case: Case) -> None:
    record, _ = io_case
    assert any(run.status == "discarded" for run in record.runs)
    page = report.html(*io_case)
    assert "queue/scheduler was changed under us" in page
    assert "run repeated" in page


def test_page_of_5000_runs_is_under_a_megabyte() -> None:
    record = simulation.io_record(sizes=9, blocks=16)
    assert len(record.runs) > 5000
    page = report.html(record, simulation.judged(record))
    assert len(page.encode()) < 1_000_000
    assert page.count('<details class="workload"') == 64


@pytest.mark.parametrize("language", ["ko", "ru"])
def test_page_speaks_the_language(io_case: Case, language: str) -> None:
    page = report.html(*io_case, lang=language)
    texts = Texts(language)
    assert f'<html lang="{language}">' in page
    for key in ("section.candidates", "section.omitted", "next.title"):
        assert texts(key) in page
    assert "Read this before" not in page


def test_families_and_means(io_case: Case) -> None:
    view = View(*io_case, Texts("en"))
    assert [family.title for family in view.families] == list(simulation.TESTS)
    assert [m.record_bytes for m in view.families[0].members] == [4096, 8192, 16384]
    mean = view.test_means[0]
    bfq, none = (next(row for row in mean.rows if row[0] == n) for n in ("bfq", "none"))
    assert bfq[1] / none[1] == pytest.approx(0.92, abs=0.02)
    assert none[2] is not None and none[3] is not None and none[2] < none[1] < none[3]
    assert view.test_means[-1].title == "reader beside writers"


@pytest.fixture(scope="module")
def folder(io_case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result folder as an experiment leaves it."""
    record, _ = io_case
    path = tmp_path_factory.mktemp("report") / "result"
    stored = Folder.create(path, record.experiment, record.plan, record.host)
    for run in record.runs[:440]:
        stored.append(run)
    return path


def test_command_writes_page_and_workbook_beside_the_measurements(folder: Path) -> None:
    done = CliRunner().invoke(command, [str(folder)])
    assert done.exit_code == 0, done.output
    assert (folder / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert (folder / "report.xlsx").stat().st_size > 10_000
    assert done.stdout == ""


def test_command_prints_what_is_asked(folder: Path, tmp_path: Path) -> None:
    def printed(*options: str) -> str:
        done = CliRunner().invoke(command, [str(folder), *options])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert printed("--markdown", "--lang", "ru").startswith("# ")
    assert printed("--csv").startswith("workload,metric,")
    answer = json.loads(printed("--json", "--html", str(tmp_path / "page.html")))
    assert answer["files"] == {"html": str(tmp_path / "page.html")}
    assert answer["verdict"]["baseline"] == "none"


def test_command_says_where_it_cannot_write(folder: Path, tmp_path: Path) -> None:
    for option in ("--html", "--xlsx"):
        done = CliRunner().invoke(command, [str(folder), option, str(tmp_path / "no" / "file")])
        assert isinstance(done.exception, SpecError)
        assert "no/file: cannot be written" in str(done.exception)
        assert option in done.exception.hint
    assert CliRunner().invoke(command, [str(folder), "--csv", "--json"]).exit_code == 2


def test_flags_speak_the_language_and_fall_back_to_their_text(io_case: Case) -> None:
    record, verdict = io_case
    known = Flag("drift", "as analysed", "read 4 KiB", values={"change": -0.046})
    without_values = Flag("drift", "an older folder")
    unknown = Flag("meteor", "a meteor struck")
    verdict = dataclasses.replace(verdict, flags=(known, without_values, unknown))
    view = View(record, verdict, Texts("ru"))
    said = [sentences.flag_text(view, flag).replace("\u00a0", " ") for flag in verdict.flags]
    assert said[0].startswith("от первого блока к последнему машина изменилась на −4,6 %")
    assert said[1:] == ["an older folder", "a meteor struck"]
    assert [sentences.flag_title(view, flag) for flag in verdict.flags] == [
        "дрейф",
        "дрейф",
        "meteor",
    ]


def test_undecided_scatter_is_not_called_a_small_difference() -> None:
    record = simulation.sim_record(blocks=5)
    pair = Pair("fcfs", "sstf", 1.1, 0.7, 1.7, "undecided")
    verdict = simulation.judged(record)
    overall = dataclasses.replace(
        verdict.overall, pairs=(pair,), best_set=("fcfs", "sstf"), reason="cannot-separate"
    )
    view = View(record, dataclasses.replace(verdict, overall=overall), Texts("en"))
    assert sentences.headline(view).startswith("Not separated yet: fcfs and sstf")
    assert "scatter too much" in sentences.next_step(view)


@pytest.mark.parametrize("language", report.LANGUAGES)
def test_few_blocks_print_no_absurd_percentages(language: str) -> None:
    record = simulation.io_record(sizes=1, blocks=2, interference=False, spread=0.3)
    verdict = simulation.judged(record)
    pairs = [pair for w in (*verdict.workloads.values(), verdict.overall) for pair in w.pairs]
    assert max(pair.high for pair in pairs if pair.high) > 10
    assert "these blocks cannot bound the difference" in verdict.statement
    forms = (
        verdict.statement,
        report.text(record, verdict, 200, lang=language),
        report.html(record, verdict, language),
        report.markdown(record, verdict, language),
    )
    for form in forms:
        percentages = re.findall(r"([\d\s\u00a0.,]+)[\s\u00a0]%", re.sub("<[^>]*>", "|", form))
        digits = [re.sub(r"\D", "", text.partition(".")[0]) for text in percentages]
        assert max(map(len, digits), default=0) <= 4, percentages


def kinds_of_flags() -> set[str]:
    """Every kind of flag that the analysis can raise, from its source."""
    folder = Path(analyse.__file__).parent
    trees = [ast.parse(file.read_text("utf-8")) for file in folder.glob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "Flag"]
    return {ast.literal_eval(call.args[0]) for call in made}


@pytest.mark.parametrize("language", report.LANGUAGES)
def test_every_flag_has_a_title_and_a_text_in_every_language(language: str) -> None:
    kinds = kinds_of_flags()
    assert {"unbalanced", "goal", "wrong-mean", "call-cost"} < kinds
    entries = catalogue(language)
    assert [k for k in sorted(kinds) if f"flag.{k}" not in entries] == []
    assert [k for k in sorted(kinds) if f"flag_text.{k}" not in entries] == []


FLAGS = (
    Flag("unbalanced", "", "w", ("bfq",), {"runs": {"none": 5, "bfq": 4}, "most": 5}),
    Flag("cold-first-run", "", "w", ("bfq",), {"difference": {"bfq": 0.82}, "unit": "s"}),
    Flag("non-positive", "", "w", ("bfq",), {"metric": "iops"}),
    Flag("goal", "", "w", (), {"goal": "latency", "metric": "latency_ns_p99", "instead": "iops"}),
    Flag("goal-not-measured", "", "w", (), {"goal": "fairness", "metric": "iops"}),
    Flag("lacks-workload", "", "", ("bfq",)),
    Flag("only-one", "", "w", ("bfq",)),
    Flag("few-blocks", "", "w", (), {"blocks": 2}),
    Flag("dropped-block", "", "w", (), {"blocks": [0, 3]}),
    Flag("control-open", "", "w", (), {"reach": 0.079, "margin": 0.02, "unbounded": False}),
    Flag(
        "wrong-mean", "", "w", ("bfq",),
        {"published": 194.092, "mean": 197.092, "rows": 5, "difference": -0.015, "unit": "MB/s"},
    ),
    Flag("wrong-mean", "", "w", ("bfq",), {"published": 1.5, "unit": "s", "rowless": True}),
    Flag(
        "call-cost", "", "w", (), {"seconds_per_call": 8e-3, "constant_s": 0.2, "explained": 0.99}
    ),
)  # fmt: skip


@pytest.mark.parametrize("language", report.LANGUAGES)
@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.kind)
def test_flags_are_told_by_their_values(io_case: Case, language: str, flag: Flag) -> None:
    text = sentences.flag_text(View(*io_case, Texts(language)), flag)
    assert text and "{" not in text
    shown = {"unbalanced": "bfq 4", "dropped-block": "4", "control-open": "±7", "call-cost": "8"}
    assert shown.get(flag.kind, "") in text


def test_segments_between_level_changes_are_shown_apart(io_case: Case) -> None:
    record, verdict = io_case
    name, of = next(iter(verdict.workloads.items()))
    segments = (Segment(0, 3, of.pairs), Segment(4, 7, of.pairs))
    split = dataclasses.replace(of, change_points=(4,), segments=segments)
    split_verdict = dataclasses.replace(verdict, workloads={**verdict.workloads, name: split})
    page = report.html(record, split_verdict)
    assert "Blocks 1 to 4 by themselves" in page
    assert "Blocks 5 to 8 by themselves" in page
    assert "level changed after block 4" in page
