"""Page, workbook, Markdown and tables of whole records: complete, small, true to the runs."""

from __future__ import annotations

import ast
import dataclasses
import io
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean, geometric_mean

import answers
import openpyxl
import pytest
import report_simulation as simulation
import reports

from schedlab import analyse, report
from schedlab.nouns import Flag, GateFinding, Record
from schedlab.nouns.answer import Answer
from schedlab.report import drawing, handin, notes, reproduce, workbook
from schedlab.report import tables as tables_module
from schedlab.report.texts import LANGUAGES, Texts, catalogue
from schedlab.report.view import View

Case = tuple[Record, Answer]


@pytest.fixture(scope="module")
def io_case():
    record = simulation.io_record(sizes=3, blocks=8)
    return record, simulation.answered(record)


@pytest.fixture(scope="module")
def cases(io_case):
    others = {"cpu": simulation.cpu_record(), "sim": simulation.sim_record()}
    return {"io": io_case} | {k: (r, simulation.answered(r)) for k, r in others.items()}


class Outline(HTMLParser):
    """Headings, identifiers, references and what a page loads."""

    def __init__(self, page):
        super().__init__()
        self.levels: list[int] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.loads: list[str] = []
        self.images = 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if "id" in attributes:
            self.ids.append(str(attributes["id"]))
        self.references += [attributes[k] or "" for k in ("aria-labelledby",) if k in attributes]
        if tag == "a" and str(attributes.get("href", "")).startswith("#"):
            self.references.append(str(attributes["href"])[1:])
        self.loads += [str(attributes[k]) for k in ("src", "srcset") if k in attributes]
        self.loads += [str(attributes["href"])] if tag == "link" else []
        if attributes.get("role") == "img":
            self.images += 1
            assert attributes.get("aria-label")


@pytest.mark.parametrize("kind", ["io", "cpu", "sim"])
def test_page_stands_alone_and_hangs_together(cases, kind):
    page = report.html(*cases[kind])
    outline = Outline(page)
    assert outline.levels[0] == 1 and outline.levels.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.levels, outline.levels[1:], strict=False))
    assert len(set(outline.ids)) == len(outline.ids)
    assert set(outline.references) <= set(outline.ids)
    assert not outline.loads
    assert "url(" not in page and "http" not in page and "<script" not in page
    assert outline.images >= 1


def test_page_shows_what_was_repeated_and_why(io_case):
    record, _ = io_case
    assert any(run.status == "discarded" for run in record.runs)
    page = report.html(*io_case)
    assert "queue/scheduler was changed under us" in page and "run repeated" in page


def test_page_of_5000_runs_is_under_a_megabyte():
    record = simulation.io_record(sizes=9, blocks=16)
    assert len(record.runs) > 5000
    assert len(report.html(record, simulation.answered(record)).encode()) < 1_000_000


def test_the_first_screen_comes_first():
    view = reports.view_of(answers.TRADE)
    page = report.html(view.record, view.answer)
    order = ["<h1", "Measured: 3", 'verdicts first-table"', 'class="next"', "<nav", "<h2 id="]
    places = [page.index(mark) for mark in order]
    assert places == sorted(places)


def whiskers(page):
    """Of each cell of the first table: where its best, its estimate and the end of its bar are."""
    cells = re.findall(r'<svg class="bar".*?</svg>', page[: page.index("</table>")])
    found = []
    for svg in cells:
        dot = re.search(r'circle cx="([\d.]+)"', svg)
        end = re.search(r'whisker" d="M[\d.]+ 8H([\d.]+)', svg)
        if dot and '"#zero"' in svg:
            at = float(dot[1])
            found.append((float(drawing.EDGE), at, float(end[1]) if end else at))
    return found


def test_only_cells_that_a_narrow_screen_stacks_repeat_their_column():
    """All 10,000 cells of a large page did, which was a fifth of it."""
    view = reports.view_of(answers.TRADE)
    first, _, rest = report.html(view.record, view.answer).partition("</table>")
    assert "data-label=" in first and "<td" in rest and "data-label=" not in rest


def test_the_interval_of_every_loss_is_drawn_from_the_best_at_the_left():
    view = reports.view_of(answers.TRADE)
    drawn = whiskers(report.html(view.record, view.answer))
    of = view.answer
    rows = [of.rows[i] for i in (0, 3, 1, 4, 2)]
    cells = [of.cells[row.name][name] for row in rows for name in of.candidates]
    assert len(drawn) == len(cells)
    for (zero, dot, end), cell in zip(drawn, cells, strict=True):
        assert (dot == zero) == (cell.loss == 0) and end >= dot
        assert zero <= dot <= 115
    far = {cell.loss: dot for (_, dot, _), cell in zip(drawn[:4], cells[:4], strict=True)}
    assert [far[loss] for loss in sorted(far)] == sorted(far.values())


def test_names_cannot_break_markdown_or_html(io_case):
    record, _ = io_case
    evil = "<b>|x</b>"
    experiment = dataclasses.replace(record.experiment, title=evil, notes=(evil,))
    record = dataclasses.replace(record, experiment=experiment, notices=(evil,))
    answer = simulation.answered(record)
    assert evil not in report.html(record, answer)
    assert evil not in report.markdown(record, answer)


@pytest.mark.parametrize("language", ["ko", "ru"])
def test_page_speaks_the_language(io_case, language):
    page = report.html(*io_case, lang=language)
    texts = Texts(language)
    assert f'<html lang="{language}">' in page
    for key in ("section.first", "section.omitted", "next.title", "section.tables"):
        assert texts(key) in page
    assert "Limits of this result" not in page and "The tables of the study" not in page


def test_reproduce_script_is_a_shell_script(io_case):
    record, _ = io_case
    experiment = dataclasses.replace(record.experiment, title="two\nlines; rm -rf $HOME")
    script = reproduce.script(dataclasses.replace(record, experiment=experiment))
    checked = subprocess.run(
        ["sh", "-n"], check=False, input=script, text=True, capture_output=True
    )
    assert checked.returncode == 0, checked.stderr
    commands = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert not any("rm -rf" in line for line in commands)
    assert commands[-1] == 'exec schedlab reproduce "$here" --out "$out"'


def test_a_family_has_its_means_by_size_its_totals_and_every_run(io_case):
    record, answer = io_case
    view = View(record, answer, Texts("en"))
    tables = {table.name: table for table in handin.study_tables(view)}
    metric = "throughput_bytes_per_s"
    test, name = "random-read", "bfq"
    values = [
        run.metrics[metric]
        for run in record.analysed_runs
        if run.workload == f"{test} 4 KiB" and run.candidate == name
    ]
    at, own = (1 + each * view.names.index(name) for each in (2, 3))
    by_size = tables[f"means-{metric}-{test}"].rows[0].cells
    assert by_size[0].text == "4 KiB" and by_size[own].number == pytest.approx(fmean(values))
    assert by_size[own + 2].number == pytest.approx(geometric_mean(values))
    every = [
        run.metrics[metric]
        for run in record.analysed_runs
        if run.workload.startswith(f"{test} ") and run.candidate == name
    ]
    rows = {row.cells[0].text: row.cells for row in tables[f"by-test-{metric}"].rows}
    assert rows[test][at].number == pytest.approx(fmean(every))
    runs = tables[f"runs-{metric}-{name}"]
    row = next(r for r in runs.rows if (r.cells[0].text, r.cells[1].text) == (test, "4 KiB"))
    assert [c.number for c in row.cells[2:-1]] == values  # in the order of their blocks
    index = tables[f"index-{metric}"]
    assert all(row.cells[2].number == pytest.approx(100) for row in index.rows)  # the baseline


def test_quanta_have_their_counts_sums_rates_and_index():
    record = simulation.cpu_record()
    tables = {t.name: t for t in handin.study_tables(
        View(record, simulation.answered(record), Texts("en")))}  # fmt: skip
    assert len(tables["processes"].rows) == 6 * 3 * 2
    first = tables["sums"].rows[0].cells
    numbers = [100, 6601, 18, 29.99, 6601 / 29.99, 29.99 / 18]
    assert [cell.number for cell in first[1:]] == pytest.approx(numbers)


def test_each_quantum_is_once_the_one_that_is_100():
    record = simulation.cpu_record()
    counts = {"rr 1 ms": 50, "rr 10 ms": 100, "rr 100 ms": 80}
    runs = tuple(
        dataclasses.replace(run, properties={"workers": [
            {"calculations": counts[run.candidate], "cpu_burst_s": 2.0, "bursts": 1}] * 2})
        for run in record.runs if run.candidate in counts
    )  # fmt: skip
    view = View(dataclasses.replace(record, runs=runs), simulation.answered(record), Texts("en"))
    tables = {table.name: table for table in handin.study_tables(view)}
    for name in ("indices-calculations", "indices-per_burst_second"):
        of = tables[name]
        assert [c.title for c in of.columns[1:]] == [f"{each} = 100" for each in counts]
        numbers = [[cell.number for cell in row.cells[1:]] for row in of.rows]
        assert numbers == [[100, 50, 62.5], [200, 100, 125], [160, 80, 100]]


def test_a_curve_has_its_further_metrics_and_goes_through_the_chosen_value():
    """The work with the chosen alpha has another label: the curve over alpha had a gap there."""
    record = simulation.sim_record(blocks=3)
    chosen, secondary = {"policy.alpha": 0.9}, ("iops",)
    values = {"A": 0.9, "A, alpha 0.5": 0.5, "A, alpha 0.7": 0.7, "A, alpha 1.0": 1.0}
    works = tuple(
        dataclasses.replace(
            record.experiment.workloads[0], label=label, parameters={"policy": {"alpha": alpha}},
            **({} if label == "A" else {"metric": "max_write_ms", "secondary": secondary}),
            chosen=chosen,
        )
        for label, alpha in values.items()
    )  # fmt: skip
    runs = tuple(
        dataclasses.replace(run, workload=work.label, metrics={
            "mean_read_ms": 1.0 + run.block, "max_write_ms": 100 * values[work.label],
            "iops": 2000 * values[work.label]})
        for work in works for run in record.runs if run.workload == "50/s"
    )  # fmt: skip
    experiment = dataclasses.replace(record.experiment, workloads=works)
    record = dataclasses.replace(record, experiment=experiment, runs=runs)
    view = View(record, simulation.answered(record), Texts("en"))
    tables = {table.name: table for table in handin.study_tables(view)}
    for name, factor in (("means-max_write_ms", 100), ("curve-iops", 2000)):
        of = tables[f"{name}-A-alpha"]
        assert [row.cells[0].text for row in of.rows] == ["0.5", "0.7", "0.9", "1.0"]
        numbers = [row.cells[1].number for row in of.rows]
        assert numbers == pytest.approx([factor * alpha for alpha in (0.5, 0.7, 0.9, 1.0)])
        assert of.chart == "lines"
    assert not [name for name in tables if name.startswith("curve-mean_read_ms")]


def test_bursts_of_a_kernel_log_have_their_sums_by_process():
    record = simulation.cpu_record()
    workers = [{"worker": i, "pid": 7 + i, "bursts": 4, "cpu_burst_s": 1.0 + i} for i in range(2)]
    runs = tuple(dataclasses.replace(run, properties={"workers": workers}) for run in record.runs)
    answer = simulation.answered(record)
    view = View(dataclasses.replace(record, runs=runs), answer, Texts("en"))
    tables = {table.name: table for table in handin.study_tables(view)}
    heads = [column.title for column in tables["sums"].columns]
    assert heads == ["Candidate", "Index", "Bursts", "CPU burst, s", "Mean burst"]
    assert [c.number for c in tables["sums"].rows[0].cells[1:]] == [100, 8, 3, 0.375]
    assert [c.number for c in tables["processes"].rows[1].cells[1:]] == [1, 1, 4, 2, 0.5]


def test_one_repetition_has_no_half_width():
    view = reports.view_of(answers.ONE_RUN)
    (means,) = [t for t in handin.study_tables(view) if t.name.startswith("means")]
    assert all(row.cells[3].number is None for row in means.rows)
    assert "±" not in "".join(means.notes)


def test_every_figure_of_the_tables_is_in_every_form(io_case, tmp_path):
    record, answer = io_case
    view = View(record, answer, Texts("en"))
    forms = {
        "page": re.sub(r"<[^>]*>", " ", report.html(record, answer)),
        "markdown": report.markdown(record, answer),
        "terminal": report.tables_text(record, answer, width=200),
    }
    book = openpyxl.load_workbook(io.BytesIO(report.xlsx(record, answer)))
    values = [cell.value for row in book["Tables"] for cell in row]
    numbers = {f"{value:.10g}" for value in values if isinstance(value, int | float)}
    data = json.loads(json.dumps(report.printed(record, answer)))
    in_json = {v for t in data["tables"] for row in t["rows"] for v in row}
    for table in handin.study_tables(view):
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                for form, text in forms.items():
                    assert cell.text in text, (form, table.name, cell.text)
                if cell.number is not None and not column.text:
                    assert f"{cell.number / column.scale.factor:.10g}" in numbers
                    assert cell.number in in_json


def test_the_workbook_has_the_first_screen_numbers_and_charts_with_round_axes(io_case):
    record, answer = io_case
    book = openpyxl.load_workbook(io.BytesIO(report.xlsx(record, answer)))
    assert book.sheetnames == ["Verdict", "Losses", "Tables", "Runs", "Host", "README"]
    first = [[cell.value for cell in row] for row in book["Verdict"].iter_rows(max_row=8)]
    assert first[0][0] == report.headline(record, answer)
    assert book["Runs"].auto_filter.ref.endswith(str(len(record.runs) + 1))
    assert first[3][:2] == ["Workload", "none"]
    assert isinstance(first[4][1], float) and "less" in str(first[5])
    losses = list(book["Losses"].iter_rows(min_row=2, values_only=True))
    assert len(losses) == len(answer.rows) * len(answer.candidates)
    assert len(book["Runs"]["A"]) == len(record.runs) + 1
    charts = book["Tables"]._charts
    assert len(charts) > 1
    for chart in charts:
        axis = chart.y_axis.scaling
        assert axis.min == 0 or axis.max / axis.min <= 1e4
        # Every series has a name of its own, and error bars of its own rows.
        assert len({series.tx.v for series in chart.series}) == len(chart.series)
        for series in chart.series:
            rows = re.findall(r"\$(\d+)", series.val.numRef.f)
            column = openpyxl.utils.column_index_from_string(
                re.findall(r"\$([A-Z]+)", series.val.numRef.f)[0]
            )
            cells = [book["Tables"].cell(row, column).value for row in
                     range(int(rows[0]), int(rows[-1]) + 1)]  # fmt: skip
            assert cells and not any(isinstance(cell, str) for cell in cells)
            for bars in (series.errBars,) if series.errBars else ():
                assert re.findall(r"\$(\d+)", bars.plus.numRef.f) == rows
    assert any(series.errBars for chart in charts for series in chart.series)


def test_no_two_tables_have_one_name():
    tables = [tables_module.Table(name, name, (), ()) for name in ("of a", "of-a", "b", "of a")]
    names = [each.name for each in handin._named_to_type(tables)]
    assert names == ["of-a", "of-a-2", "b", "of-a-3"]


@pytest.mark.parametrize("language", report.LANGUAGES)
def test_every_workbook_has_a_chart_and_rows_as_high_as_their_text(language):
    for record in (simulation.cpu_record(), simulation.sim_record(blocks=2), one_workload()):
        data = report.xlsx(record, simulation.answered(record), language)
        book = openpyxl.load_workbook(io.BytesIO(data))
        first, *_ = book.worksheets
        assert any(sheet._charts for sheet in book.worksheets)
        for merged in first.merged_cells.ranges:
            cell = first.cell(merged.min_row, 1)
            letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: merged.max_col]
            wide = sum(first.column_dimensions[each].width for each in letters)
            lines = first.row_dimensions[cell.row].height / (1.2 * cell.font.sz)
            assert drawing.cells(cell.value) * cell.font.sz / 11 <= 0.9 * wide * int(lines)


def one_workload():
    record = simulation.sim_record(blocks=3)
    first = record.experiment.workloads[0]
    experiment = dataclasses.replace(record.experiment, workloads=(first,))
    runs = tuple(run for run in record.runs if run.workload == first.label)
    return dataclasses.replace(record, experiment=experiment, runs=runs)


def test_the_counts_of_processes_are_a_table_of_processes_and_candidates():
    record = simulation.cpu_record(blocks=2)
    tables = handin.study_tables(View(record, simulation.answered(record), Texts("en")))
    of = next(table for table in tables if table.name == "by-process-calculations")
    assert [c.title for c in of.columns] == ["Worker", "rr 1 ms", "rr 10 ms", "rr 100 ms"]
    rows = [[cell.number or cell.text for cell in row.cells] for row in of.rows]
    assert rows == [["0", *[3300.0] * 3], ["1", *[3301.0] * 3], ["All together", *[6601.0] * 3]]


def extractions():
    """Runs of two archives, whose names are translated."""
    record = simulation.sim_record(blocks=3)
    labels, works = (
        ("archive extraction, none", "archive extraction, xz"),
        record.experiment.workloads,
    )
    names = {work.label: label for work, label in zip(works, labels, strict=True)}
    chosen = [dataclasses.replace(w, label=names[w.label], metric="elapsed_s") for w in works]
    experiment = dataclasses.replace(record.experiment, workloads=tuple(chosen))
    runs = tuple(
        dataclasses.replace(
            run, workload=names[run.workload],
            metrics={"elapsed_s": 2.0 + run.block, "user_s": 1.5, "system_s": 0.25 * (1 + number)},
        )
        for number, run in enumerate(record.runs) if run.workload in names
    )  # fmt: skip
    return dataclasses.replace(record, experiment=experiment, runs=runs)


def test_tables_have_the_same_names_in_every_language_which_a_shell_takes():
    record = extractions()
    answer = simulation.answered(record)
    shown = {
        lang: handin.study_tables(View(record, answer, Texts(lang))) for lang in report.LANGUAGES
    }
    names = {lang: [table.name for table in tables] for lang, tables in shown.items()}
    assert names["ko"] == names["ru"] == names["en"]
    works = [dataclasses.replace(w, metric=m) for w, m in zip(
        record.experiment.workloads, ("user_s", "system_s"), strict=True)]  # fmt: skip
    apart = dataclasses.replace(
        record, experiment=dataclasses.replace(record.experiment, workloads=tuple(works))
    )
    views = (View(apart, simulation.answered(apart), Texts(lang)) for lang in report.LANGUAGES)
    single = [[table.name for table in handin.study_tables(view)] for view in views]
    assert single[0] == single[1] == single[2]
    assert "means-user_s-archive-extraction-none" in single[0]
    assert len({table.title for tables in shown.values() for table in tables}) > len(names["en"])
    assert "times-archive-extraction-xz" in names["en"]
    assert all(re.fullmatch(r"[A-Za-z0-9_.+-]+", name) for name in names["en"])
    assert len(set(names["en"])) == len(names["en"])


def test_a_program_has_its_real_user_and_system_times():
    record = extractions()
    view = View(record, simulation.answered(record), Texts("en"))
    tables = {table.name: table for table in handin.study_tables(view)}
    of = tables["times-archive-extraction-xz"]
    heads = ["Candidate", "Elapsed time", "User time", "System time", "Runs"]
    assert [column.title for column in of.columns] == heads
    for row in of.rows:
        mine = [
            run.metrics
            for run in record.analysed_runs
            if (run.workload, run.candidate) == ("archive extraction, xz", row.cells[0].text)
        ]
        keys = ("elapsed_s", "user_s", "system_s")
        means = [fmean(each[key] for each in mine) for key in keys]
        assert [cell.number for cell in row.cells[1:]] == pytest.approx([*means, len(mine)])
    every = [[c.number for c in row.cells[1:]] for row in tables["runs-" + of.name].rows]
    assert len(every) == 12 and every[:3] == [
        [block, 1.0 + block, 1.5, *rest] for block, *rest in (
            (number + 1, run.metrics["system_s"]) for number, run in enumerate(
                r for r in record.analysed_runs
                if (r.workload, r.candidate) == ("archive extraction, xz", "fcfs")))
    ]  # fmt: skip


def test_formulas_and_links_of_a_workbook_are_text(io_case):
    record, _ = io_case
    experiment = dataclasses.replace(record.experiment, title="=1+1")
    record = dataclasses.replace(
        record, experiment=experiment, host={"x": "=cmd()", "y": "http://a"}
    )
    book = openpyxl.load_workbook(io.BytesIO(report.xlsx(record, simulation.answered(record))))
    assert all(cell.data_type != "f" for sheet in book for row in sheet for cell in row)
    assert not any(cell.hyperlink for cell in book["Host"]["B"])


def test_axes_hold_the_values():
    view = reports.view_of(answers.TRADE)
    for table in handin.study_tables(view):
        axis, is_log = workbook.value_axis(table)
        assert axis["min"] < axis["max"] and (axis["min"] > 0 or not is_log)
    record = simulation.cpu_record()
    tables = handin.study_tables(View(record, simulation.answered(record), Texts("en")))
    (means,) = (table for table in tables if table.name.startswith("means"))
    axis, is_log = workbook.value_axis(means)  # its runs and its index are not drawn
    largest = max(row.cells[1].number for row in means.rows) / means.columns[1].scale.factor
    assert axis["min"] == 0 and largest < axis["max"] < 2 * largest and not is_log


def test_markdown_tables_are_whole(io_case):
    for block in re.findall(r"(?:^\|.*\n)+", report.markdown(*io_case), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def kinds_of_flags():
    """Every kind of flag that the analysis can raise, from its source."""
    folder = Path(analyse.__file__).parent
    trees = [ast.parse(file.read_text("utf-8")) for file in folder.glob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    flag_calls = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "Flag"]
    return {ast.literal_eval(call.args[0]) for call in flag_calls}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_flag_has_a_title_and_a_text_in_every_language(language):
    kinds = kinds_of_flags()
    assert {"unbalanced", "goal", "wrong-mean", "call-cost"} < kinds
    entries = catalogue(language)
    assert [k for k in sorted(kinds) if f"flag.{k}" not in entries] == []
    assert [k for k in sorted(kinds) if f"flag_text.{k}" not in entries] == []


SHOWN = {"better": "bfq", "worse": "none", "ratio": 1.3, "metric": "iops"}
FLAGS = (
    (Flag("unbalanced", "w", ("bfq",), {"runs": {"none": 5, "bfq": 4}, "most": 5}), "bfq 4"),
    (Flag("cold-first-run", "w", ("bfq",), {"difference": {"bfq": 0.82}, "unit": "s"}), "0"),
    (Flag("non-positive", "w", ("bfq",), {"metric": "iops"}), "bfq"),
    (Flag("goal", "w", (), {"goal": "latency", "metric": "latency_ns_p99",
                            "frozen_metric": "iops"}), "p99"),
    (Flag("goal-not-measured", "w", (), {"goal": "fairness", "metric": "iops",
                                         "apart": True}), ""),
    (Flag("no-baseline", "", ("none",), {"used": "bfq", "reason": "io errors"}), "io errors"),
    (Flag("lacks-workload", "", ("bfq",), {"workloads": ["read", "write"]}), "read"),
    (Flag("only-one", "w", ("bfq",)), "bfq"),
    (Flag("single-run", "w", ("bfq",), {"runs": {"bfq": 1}}), "bfq"),
    (Flag("insensitive", "w", (), {"cpu_share": 0.93}), "93"),
    (Flag("missing-cells", "w", (), {"cells": 3, "filled": {"bfq": 2, "none": 1}}), "bfq 2"),
    (Flag("left-out", "w", ("bfq",), {"cells": 5, "of": 8}), "5"),
    (Flag("two-levels", "w", ("bfq",), {"low": 210.0, "high": 21e3}), "210"),
    (Flag("starved", "w", ("bfq",), {"counts": {"bfq": 4}, "runs": 8}), "bfq 4"),
    (Flag("aa-differs", "w", (), {"ratio": 1.05, "low": 1.03, "high": 1.08, "far": 0.08}), "8"),
    (Flag("control-open", "w", (), {"reach": 0.079, "margin": 0.02, "unbounded": False}), "7"),
    (Flag("control-open", "w", (), {"reach": 3.0, "margin": 0.02, "unbounded": True}), "4"),
    (Flag("drift", "w", (), {"change": -0.046, "p": 0.001}), "−4"),
    (Flag("change-point", "w", (), {"block": 5, "change": 0.2}), "5"),
    (Flag("outlier", "w", ("bfq",), {"block": 3, "factor": 0.02, "run": 17, "session": ""}), "50"),
    (Flag("rare-stalls", "w", ("bfq",), {"runs": 2, "of": 8, "factor": 30.0}), "30"),
    (Flag("two-modes", "w", ("bfq",), {"low": 50e3, "high": 3e6, "share_low": 0.5,
                                       "share_high": 0.5}), "50"),
    (Flag("uneven-noise", "w", ("bfq", "none"), {"ratio": 6.2, "noisiest": "bfq",
                                                 "quietest": "none", "p": 0.001}), "6"),
    (Flag("unsteady", "w", (), {"autocorrelation": 0.6, "widening": 2.3}), ""),
    (Flag("candidate-time", "w", ("bfq", "none"),
          {"slopes": {"bfq": 0.1, "none": 0.0}, "p": 0.001, "changes_sign": False,
           "early": {**SHOWN}, "late": {**SHOWN, "ratio": 1.1}}), "30"),
    (Flag("carry-over", "w", ("bfq",), {"effects": {"bfq": -0.105}, "p": 0.001,
                                        "adjusted": [["bfq", "none", 0.1, 0.01]]}), "10"),
    (Flag("changes-inside", "w", ("bfq", "none"),
          {"early": {**SHOWN}, "late": {**SHOWN, "ratio": 1.1}}), "30"),
    (Flag("steady-assumed", "w", (), {"blocks": 6}), "6"),
    (Flag("gates-unbalanced", "w", ("bfq",), {"counts": {"bfq": 4}, "runs": {"bfq": 8},
                                              "p": 0.001}), "bfq 4"),
    (Flag("not-steady", "w", ("bfq",), {"runs": 3}), "3"),
    (Flag("unsettled", "w", ("bfq",), {"runs": 3}), "3"),
    (Flag("wrong-mean", "w", ("bfq",),
          {"published": 194.092, "mean": 197.092, "rows": 5, "difference": -0.015,
           "unit": "MB/s"}), "194"),
    (Flag("wrong-mean", "w", ("bfq",),
          {"published": 0.00012, "mean": 0.000145, "rows": 5, "difference": -0.17,
           "unit": "s"}), "000145"),
    (Flag("wrong-mean", "w", ("bfq",), {"published": 1.5, "unit": "s", "rowless": True}), "s"),
    (Flag("call-cost", "w", (), {"seconds_per_call": 8e-3, "constant_s": 0.2,
                                 "explained": 0.99}), "8"),
)  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("flag", "shown"), FLAGS, ids=[flag.kind for flag, _ in FLAGS])
def test_flag_sentences_have_their_values(language, flag, shown):
    text = notes.flag_text(reports.view_of(answers.TRADE, language), flag)
    assert text and "{" not in text and "None" not in text
    assert shown in text.replace("\u00a0", " ")


def test_an_unknown_flag_is_named_rather_than_lost():
    view = reports.view_of(answers.TRADE)
    flag = Flag("meteor-strike", "w", ("bfq",))
    assert notes.flag_title(view, flag) == "meteor strike"
    assert notes.flag_text(view, flag) == "bfq"


def test_a_run_that_served_99_of_100_is_not_said_to_have_served_nothing():
    flag = Flag("starved", "w", ("bfq",), {"counts": {"bfq": 4}, "runs": 8})
    view = reports.view_of(answers.TRADE)
    assert notes.flag_title(view, flag) == "runs that are only bounds"
    assert notes.flag_text(view, flag).startswith(
        "a process was not served in time, or made too few requests for this figure: bfq 4 of 8"
    )
    ended = GateFinding("limit", "it was still running after 60 s", fatal=False)
    runs = [
        dataclasses.replace(run, bounds={"elapsed_s": "at-least"}, workload="w", gates=(ended,))
        for run in view.record.runs
    ]
    view.record = dataclasses.replace(view.record, runs=tuple(runs))
    assert notes.flag_text(view, flag).startswith("runs that did not finish")
