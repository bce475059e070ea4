"""Random results through everything that speaks: sentence, interval, cell, advice and JSON agree.

Each way to a result (measured, cut, resumed, merged, simulated, imported, compared with another)
makes a folder from random runs; what is printed of it is read back in every language.
"""

import html
import io
import json
import math
import random
import re
import shutil
import statistics
from dataclasses import replace

import click
import openpyxl
import pytest
from click.testing import CliRunner
from experiments import run_of
from readback import agrees, losses

from schedlab import report
from schedlab.analyse.answer_check import check
from schedlab.app.compare.difference import difference
from schedlab.app.fleet.merge import merge
from schedlab.app.measure.budget import extend, extended
from schedlab.cli import cli, show
from schedlab.design.plan import make_plan
from schedlab.nouns import (
    AA_SUFFIX,
    Candidate,
    Experiment,
    GateFinding,
    Planning,
    Require,
    Stopping,
    Target,
    Workload,
    metric_named,
)
from schedlab.report import handin, sentences, steps, words
from schedlab.report.screen import candidate_cell, first_table, rows_of
from schedlab.report.texts import LANGUAGES, Texts, catalogue
from schedlab.report.view import View
from schedlab.result import Result, answer_of
from schedlab.store.folder import Folder

HOST = {"kernel": {"release": "6.18"}, "cpu": {"model": "x", "usable": 2}}
METRICS = ("iops", "newcomer_latency_ns_mean", "elapsed_s", "throughput_bytes_per_s")
FURTHER = ("cpu_s", "write_bytes_per_s", "latency_ns_p99")
READ = {"test": "read", "record_bytes": 65536}
NAMES = ("none", "bfq", "kyber", "mq-deadline")
WAYS = ("measured", "cut", "resumed", "merged", "simulated", "imported", "unblocked")


def experiment(rng, **changes):
    names = NAMES[: rng.randint(2, 4)]
    works = tuple(
        Workload(f"work {w}", "file-test", rng.choice(METRICS), READ,
                 weight=rng.choice([1.0, 1.0, 3.0]),
                 secondary=tuple(m for m in FURTHER if rng.random() < 0.4))
        for w in range(rng.choice([1, 1, 2, 3]))
    )  # fmt: skip
    shares = rng.random() < 0.3
    works = works if shares else tuple(replace(work, weight=1.0) for work in works)
    metric = metric_named(works[0].metric)
    limit = Require(works[0].label, metric.name, 10.0, not metric.higher_is_better)
    usual = Experiment(
        title="t", kind="io", target=Target("scratch", size_bytes=1 << 20), workloads=works,
        candidates=tuple(Candidate(name, {"scheduler": name}) for name in names), baseline="none",
        seed=rng.randint(1, 99), stopping=Stopping(blocks=rng.choice([1, 2, 3, 6])),
        aa_arm=rng.random() < 0.5, shares="weights" if shares else "",
        requires=(limit,) if rng.random() < 0.3 else (),
    )  # fmt: skip
    return replace(usual, **changes)


def run_cells(folder, rng, session="boot-a", most=99):
    """Random runs for the cells of a plan that have none yet, of blocks below `most`."""
    sd = rng.choice([0.0, 0.003, 0.05, 0.3])
    size = {name: rng.choice([0.0, 0.0, 0.02, 0.3, 2.0, 7.0]) for name in NAMES}
    strange = rng.choice(["", "", "", "zero", "bound", "wild", "missing", "equal"])
    finished = {run.key for run in folder.runs()}
    for cell in folder.plan.cells:
        if cell.key in finished or cell.block >= most or (strange == "missing" and _one_of(rng, 6)):
            continue
        work = next(w for w in folder.experiment.workloads if w.label == cell.workload)
        metrics, bounds = {}, {}
        for name in (work.metric, *work.secondary):
            effect = size[cell.candidate.removesuffix(AA_SUFFIX)] * rng.choice([1.0, 1.0, 0.5])
            effect *= -1 if metric_named(name).higher_is_better else 1
            metrics[name] = 10 * math.exp(0 if strange == "equal" else effect + rng.gauss(0, sd))
        if strange == "wild" and _one_of(rng, 12):
            metrics[work.metric] *= 1000
        if strange == "zero" and cell.candidate == "bfq":
            metrics[work.metric] = 0.0
        if strange == "bound" and cell.candidate == "bfq":
            higher = metric_named(work.metric).higher_is_better
            bounds[work.metric] = "at-most" if higher else "at-least"
        seconds = math.nan if _one_of(rng, 40) else 0.5
        folder.append(run_of(cell, metrics, elapsed_s=seconds, bounds=bounds, session=session))


def _one_of(rng, many):
    return rng.randrange(many) == 0


def made(way, path, rng):
    """A result that came about in one of the WAYS."""
    changes = {"kind": "sim", "target": Target("none")} if way == "simulated" else {}
    if way in ("imported", "unblocked"):
        changes = {"kind": "import", "target": Target("none"), "blocked": way == "imported"}
        changes["aa_arm"] = False
    asked = experiment(rng, **changes)
    folder = Folder.create(path, asked, make_plan(asked), HOST)
    blocks = asked.stopping.blocks
    run_cells(folder, rng, most=max(1, blocks // 2) if way == "cut" else blocks)
    if way == "resumed":
        folder = Folder.open(path)
        extend(folder, extended(folder, folder.experiment, blocks + 2, None))
        folder = Folder.open(path)
        run_cells(folder, rng, "boot-a2")
    return Result(Folder.open(path))


def merged(path, rng):
    asked = experiment(rng)
    paths = []
    for n in range(rng.randint(2, 3)):
        own = replace(asked, seed=n)
        folder = Folder.create(path / str(n), own, make_plan(own), HOST)
        run_cells(folder, random.Random(n), f"boot{n}-f")
        for cell in {c.key for c in folder.plan.cells} - {run.key for run in folder.runs()}:
            return merged(path / "again", rng) if cell else Result(folder)
        paths.append(path / str(n))
    return Result(merge(paths, path / "all"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
def test_a_result_of_any_origin_agrees_with_what_is_said_of_it(way, tmp_path):
    codes = set()
    for seed in range(8):
        rng = random.Random(f"{way}{seed}")
        path = tmp_path / str(seed)
        result = merged(path, rng) if way == "merged" else made(way, path, rng)
        codes.add(result.answer.code)
        for language in LANGUAGES:
            speaks(result.record, result.answer, language, path)
        assert_json_is_the_answer(result)
    assert len(codes) > 1


def test_the_mean_decides_where_requests_are_too_few_for_the_quantile(tmp_path):
    """Not where a process is never served: there the mean is a bound as well."""
    asked = experiment(random.Random(1), requires=(), shares="", aa_arm=False)
    work = Workload("w", "file-test", "reader_latency_ns_p99", READ)
    asked = replace(asked, workloads=(work,), stopping=Stopping(blocks=3))
    for unserved_blocks in (0, 1, 3):
        unserved = unserved_blocks == 3
        folder = Folder.create(tmp_path / str(unserved_blocks), asked, make_plan(asked), HOST)
        for i, cell in enumerate(folder.plan.cells):
            metrics = {"reader_latency_ns_p99": 9e6 + i, "reader_latency_ns_mean": 2e6 + i}
            bounds = {"reader_latency_ns_p99": "at-least"} if cell.candidate == "bfq" else {}
            if bounds and cell.block < unserved_blocks:
                bounds = dict.fromkeys(metrics, "at-least")
            folder.append(run_of(cell, metrics, bounds=bounds))
        result = Result(Folder.open(folder.path))
        decides = next(row for row in result.answer.rows if row.counted)
        said = [flag for flag in result.answer.flags if flag.kind == "few-requests"]
        assert decides.metric is not None
        assert decides.metric.name.endswith("p99" if unserved else "mean")
        assert len(said) == (not unserved)
        assert ("too few requests in some run for p99" in result.text()) == (not unserved)


def test_what_the_simulator_decides_agrees_with_what_is_said_of_it(tmp_path):
    words = ["sim", "compare", "--policies", "fcfs,s", "--workloads", "A", "--requests", "300"]
    for seeds in ("1", "3"):
        out = tmp_path / seeds
        ran = CliRunner().invoke(cli, [*words, "--seeds", seeds, "--out", str(out)])
        assert ran.exit_code == 0, ran.output
        result = Result.load(out)
        for language in LANGUAGES:
            speaks(result.record, result.answer, language, out)


@pytest.mark.sampled(2)
def test_two_results_beside_each_other_agree_with_what_is_said_of_them(tmp_path):
    for seed in range(6):
        rng = random.Random(seed)
        asked = experiment(rng)
        paths = [tmp_path / f"{seed}{side}" for side in "ab"]
        for path in paths:
            folder = Folder.create(path, asked, make_plan(asked), HOST)
            run_cells(folder, rng, f"{path.name}-f")
        found = difference(*paths, False, None, lambda line: None)
        for answer in found.answers.values():
            assert check(answer) == []
            for language in LANGUAGES:
                view = View(found.record, answer, Texts(language))
                cells_agree(view, answer, language)
                assert_from_a_code(sentences.change(view), language)


def speaks(record, answer, language, path):
    """Everything that is printed of a result agrees with its numbers."""
    view = View(record, answer, Texts(language), path)
    assert check(answer) == []
    cells_agree(view, answer, language)
    headline = sentences.headline(view)
    for line in headline:
        assert_from_a_code(line, language)
    risk_agrees(view, answer, language)
    step = steps.next_step(view)
    made = {run.key for run in record.analysed_runs}
    is_cut = record.experiment.kind == "io" and len(made) < len(record.plan.cells)
    if answer.code in ("keep", "for-now", "unbounded", "trade-open", "one-run") and is_cut:
        assert step.command == f"schedlab compare --resume {path}"  # the end that was announced
    assert step.command or step.remark
    assert ("schedlab apply" in step.command) <= answer.applies
    text = report.text(record, answer, width=100, lang=language, folder=path)
    plain = re.sub(r"\s+", " ", text)
    for line in headline:
        assert re.sub(r"\s+", " ", line) in plain
    assert "None" not in text and "nan" not in text.split() and "{" not in text


def risk_agrees(view, answer, language):
    """The first sentence says the largest bound of what is taken, and what it gains."""
    first = sentences.code(view)
    if answer.code in ("nothing", "one-run", "unbounded", "doubt"):
        assert "best on" not in first
        return
    assert answer.take in first or answer.code == "same"
    risk, gain = sentences.risk(view), sentences.gain(view)
    cells = {row: answer.cells[row][answer.take] for row in answer.counted}
    row = max(cells, key=lambda name: cells[name].up)
    if risk and answer.code not in ("best", "same-0", "keep"):
        shrinks = words.way(answer.row(row).metric).shrinks
        assert (
            risk in first and losses(told(risk, row), language, shrinks)[-1] >= cells[row].up - 1e-9
        )
    if gain:
        of = answer.base_loss
        shrinks = words.way(answer.row(of.row).metric, gain=True).shrinks
        found = losses(told(gain, of.row), language, shrinks)
        assert gain in first and found[0] <= of.low + 1e-9


def told(phrase, row):
    """A phrase without the name of its workload, which has a number."""
    return phrase.replace(row.partition(":")[0], "")


def cells_agree(view, answer, language):
    for row in rows_of(view):
        for name, cell in answer.cells[row.name].items():
            printed = candidate_cell(view, row, name)
            few = (answer.blocks or answer.units) < 4
            if printed.note == view.texts("cell.equal"):
                assert row.exact and {each.loss for each in answer.cells[row.name].values()} == {0}
            elif not cell.starved or cell.unfinished:
                agrees(printed.note, cell, language, row.metric, few, row.exact)


def assert_from_a_code(line, language):
    """A sentence about an outcome is one of the catalogue's, with its blanks filled."""
    entries = catalogue(language)
    forms = [
        str(text)
        for key, text in entries.items()
        if key.startswith(("answer.", "fleet.")) and str(text).endswith((".", ".)"))
    ]
    for medium in ("simulated", "emulated"):
        opening = entries["answer.medium"].format(medium=entries[f"medium.{medium}"], sentence="")
        line = line.removeprefix(opening)
    whole = "|".join(re.sub(r"\\{\w+\\}", ".+", re.escape(form)) for form in forms)
    assert re.fullmatch(rf"(?:{whole})(?: (?:{whole}))?", line), line


def assert_json_is_the_answer(result):
    answer, told = result.answer, json.loads(json.dumps(result.as_json()))
    assert told["schema"] == 3 and {"doubt", "rungs", "requirements"} <= told.keys()
    assert (told["code"], told["take"], told["bound"]) == (answer.code, answer.take, answer.bound)
    assert {row["name"] for row in told["rows"]} == set(told["cells"]) == set(answer.cells)
    for row, cells in answer.cells.items():
        for name, cell in cells.items():
            own = told["cells"][row][name]
            assert (own["loss"], own["low"], own["up"]) == (cell.loss, cell.low, cell.up)
    assert all(row["workload"] for row in told["rows"])
    printed = report.printed(result.record, answer)
    assert printed["headline"] == sentences.headline(View(result.record, answer, Texts("en")))


@pytest.mark.parametrize("way", ["measured", "cut", "unblocked"])
def test_a_candidate_has_one_figure_on_a_row_in_every_form(way, tmp_path):
    """Screen, page, tables, workbook, JSON and diff: the baseline was with its A/A arm in some."""
    shown = set()
    for seed in range(4):
        rng = random.Random(f"figure{way}{seed}")
        result = made(way, tmp_path / str(seed), rng)
        cells = {(row.workload, name): cell.value for row in result.answer.rows
                 if row.role in ("primary", "part")
                 for name, cell in result.answer.cells[row.name].items()}  # fmt: skip
        logs = {key: [] for key in cells}
        metrics = {work.label: work.metric for work in result.record.experiment.workloads}
        for run in result.record.analysed_runs:
            key = run.workload, run.candidate.removesuffix(AA_SUFFIX)
            logs.setdefault(key, []).append(run.metrics[metrics[run.workload]])
        for key, value in cells.items():
            if min(logs[key]) > 0:
                assert value == pytest.approx(statistics.geometric_mean(logs[key]), rel=1e-9)
        for form, figures in forms_of(result, tmp_path / f"{seed}-again").items():
            shown.add(form)
            assert figures.keys() <= cells.keys() and figures, form
            for key, figure in figures.items():
                assert figure == pytest.approx(cells[key], rel=1e-9), (form, key)
    assert shown == {"screen", "json", "tables", "workbook", "diff"}


def typed(name):
    """A name as a part of that of a table, which a shell takes without quotes."""
    return re.sub(r"[^\w.+]+", "-", name).strip("-")


def forms_of(result, copy):
    """(workload, candidate) -> figure, by the form that shows it."""
    view = View(result.record, result.answer, Texts("en"), result.folder.path)
    rows = {row.workload for row in view.primary}
    screened = first_table(view)
    names = [column.title for column in screened.columns[1:]]
    forms = {"screen": {
        (row.cells[0].text, name): cell.number for row in screened.rows if not row.level
        for name, cell in zip(names, row.cells[1:], strict=True)
        if row.cells[0].text in rows and cell.number is not None
    }}  # fmt: skip
    page = html.unescape(report.html(result.record, result.answer, "en")).replace("\u00a0", " ")
    for row in screened.rows:
        assert all(cell.text.replace("\u00a0", " ") in page for cell in row.cells)
    forms["json"] = {
        (row["workload"], name): of["value"] for row in result.as_json()["rows"]
        if row["role"] in ("primary", "part")
        for name, of in result.as_json()["cells"][row["name"]].items()
    }  # fmt: skip
    for table in handin.study_tables(view):
        if not table.name.startswith("means-"):
            continue
        heads = [column.title for column in table.columns]
        for row in table.rows:
            own = forms.setdefault("tables", {})
            geometric = heads.index("Geometric mean")
            if of := next((work for work in rows if table.name.endswith(f"-{typed(work)}")), None):
                own[of, row.cells[0].text] = row.cells[geometric].number
                continue
            for i in table.drawn if row.cells[0].text in rows else ():
                assert heads[i + geometric - 1] == "Geometric mean"
                own[row.cells[0].text, heads[i]] = row.cells[i + geometric - 1].number
    own = forms.pop("tables", {})  # none of workloads that differ by their size only
    if own := {key: figure for key, figure in own.items() if figure is not None}:
        forms["tables"] = own
    book = openpyxl.load_workbook(io.BytesIO(report.xlsx(result.record, result.answer)))
    lines = [*book["Losses"].iter_rows(values_only=True)][1:]
    primary = {(row.workload, view.texts.metric(row.metric)) for row in view.primary}
    forms["workbook"] = {(work, name): value for work, metric, name, value, *_ in lines
                         if (work, metric) in primary}  # fmt: skip
    shutil.copytree(result.folder.path, copy)
    found = difference(result.folder.path, copy, True, None, lambda line: None)
    for label, answer in found.answers.items():
        for row in answer.rows if " / " not in label else ():
            for cell in answer.cells[row.name].values():
                forms.setdefault("diff", {})[row.workload, label] = cell.value
    return forms


def test_a_candidate_whose_runs_were_all_discarded_stays_with_the_reason(tmp_path):
    """It vanished: there was nothing to compare."""
    for names in (NAMES[:2], NAMES[:3]):
        rng = random.Random(1)
        works = (Workload("w", "file-test", "iops", READ, secondary=("cpu_s",)),)
        asked = replace(
            experiment(rng, workloads=works, requires=(), shares="", stopping=Stopping(blocks=4)),
            candidates=tuple(Candidate(name, {"scheduler": name}) for name in names),
        )
        folder = Folder.create(tmp_path / str(len(names)), asked, make_plan(asked), HOST)
        for cell in folder.plan.cells:
            gone = cell.candidate == "bfq"
            metrics = {"iops": 100 + rng.random(), "cpu_s": 1.0}
            if cell.block == 0:
                del metrics["cpu_s"]
            gates = (GateFinding("ext-ejected", "it was ejected"),) if gone else ()
            status = "discarded" if gone else "ok"
            folder.append(run_of(cell, metrics, status=status, gates=gates))
        result = Result(Folder.open(folder.path))
        view = View(result.record, result.answer, Texts("en"), folder.path)
        assert "bfq" in result.answer.candidates and check(result.answer) == []
        (unfit,) = result.answer.unfit
        assert (unfit.candidate, unfit.runs, unfit.tried) == ("bfq", 0, 4)
        with click.Context(click.Command("compare")), pytest.raises(click.exceptions.Exit) as end:
            show._finish(result, {"as_json": True}, lambda *_: None)
        assert end.value.exit_code == 1  # The answer is no.
        told = "bfq: 4 of 4 runs discarded: scheduler ejected"
        assert told in " ".join(sentences.headline(view))
        assert told.partition(": ")[2] in [c.note for r in first_table(view).rows for c in r.cells]
        assert (result.answer.code == "nothing") == (len(names) == 2)
        lacking = [flag for flag in result.answer.flags if flag.kind == "lacks-runs"]
        assert [flag.values["metric"] for flag in lacking] == ["cpu_s"]
        for language in LANGUAGES:
            assert report.text(result.record, result.answer, lang=language, folder=folder.path)
            report.html(result.record, result.answer, language)
            report.xlsx(result.record, result.answer, language)


def test_a_workload_without_a_run_that_counts_is_named_and_measured_first(tmp_path):
    """It vanished from the table, and the next step was another one."""
    rng, names = random.Random(1), NAMES[:3]
    works = tuple(Workload(name, "file-test", "iops", READ) for name in ("all", "none", "some"))
    asked = replace(
        experiment(rng, workloads=works, requires=(), shares="", stopping=Stopping(blocks=4)),
        candidates=tuple(Candidate(name, {"scheduler": name}) for name in names),
    )
    folder = Folder.create(tmp_path / "r", asked, make_plan(asked), HOST)
    for cell in folder.plan.cells:
        gone = cell.workload == "none" or (cell.workload, cell.candidate) == ("some", names[2])
        gates = (GateFinding("others", "a busy machine"),) if gone else ()
        status = "discarded" if gone else "ok"
        value = 100 + rng.random() + 50 * (cell.candidate == names[2])
        folder.append(run_of(cell, {"iops": value}, status=status, gates=gates))
    result = Result(Folder.open(folder.path))
    assert check(result.answer) == []
    found = [(of.candidate, of.row, of.runs, of.tried) for of in result.answer.unfit]
    assert found == [("", "none", 0, 16), (names[2], "some", 0, 4)]
    for why, names_none in (("estimate", False), ("no-value", True)):
        planned = replace(result.record, planning=Planning(2, omitted={"none": why}))
        again = answer_of(planned, flags=False)
        assert (("", "none") in [(of.candidate, of.row) for of in again.unfit]) == names_none
    view = View(result.record, result.answer, Texts("en"), folder.path)
    assert any("none: 16 of 16 runs discarded" in note for note in sentences.not_counted(view))
    notes = [c.note for r in first_table(view).rows for c in r.cells]
    assert "4 of 4 runs discarded: load by others" in notes
    assert steps.next_step(view).command == f"schedlab compare --resume {folder.path}"
    with click.Context(click.Command("compare")), pytest.raises(click.exceptions.Exit) as end:
        show._finish(result, {"as_json": True}, lambda *_: None)
    assert end.value.exit_code == 1


def test_a_workload_that_its_aa_arm_alone_has_run_is_no_error(tmp_path):
    works = tuple(Workload(name, "file-test", "iops", READ) for name in ("all", "none"))
    asked = replace(
        experiment(random.Random(1), workloads=works, requires=(), shares=""),
        candidates=tuple(Candidate(name, {"scheduler": name}) for name in NAMES[:2]),
        stopping=Stopping(blocks=4),
    )
    folder = Folder.create(tmp_path / "r", asked, make_plan(asked), HOST)
    for cell in folder.plan.cells:
        gone = cell.workload == "none" and "A/A" not in cell.candidate
        folder.append(run_of(cell, {"iops": 100.0}, status="discarded" if gone else "ok"))
    found = Result(Folder.open(folder.path)).answer.unfit
    assert {(of.row, of.runs) for of in found} == {("none", 0)}
