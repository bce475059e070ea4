"""What is printed of an answer, read back: sentence, interval, cell, advice and numbers agree.

Random answers, in every language. What a reader sees must not deny what was worked out: printed
ends are never inside the numbers, ▼ is where a loss is proven, and a sentence has the same bound
as its cell.
"""

import csv
import io
import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import answers
import pytest
import reports

from schedlab import report
from schedlab.nouns import ATTEMPTS_MAX, METRICS, Candidate, Cell, Plan, Planning, Stopping
from schedlab.nouns.answer import Advice
from schedlab.nouns.findings import KneeFigure
from schedlab.report import exchange, handin, index_page, sentences, steps, terminal, words
from schedlab.report.screen import candidate_cell, first_table, screen
from schedlab.report.texts import LANGUAGES, NO_BREAK, Texts, catalogue
from schedlab.report.view import View
from schedlab.report.workload_names import name_of


def test_every_form_shows_the_same_cells_and_sentences():
    view = reports.view_of(answers.TRADE)
    record, of = view.record, view.answer
    notes = [c.note for row in first_table(view).rows for c in row.cells[1:]]
    forms = {
        "terminal": terminal.render(view, 300, colour=False),
        "page": report.html(record, of),
        "markdown": report.markdown(record, of),
        "json": json.dumps(report.printed(record, of), ensure_ascii=False),
    }
    for name, text in forms.items():
        plain = re.sub(r"<[^>]*>", "", text).replace("\u00a0", " ").replace("\n", " ")
        for words_ in [*notes, *sentences.headline(view)]:
            assert words_.replace("\u00a0", " ") in plain, (name, words_)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_screen_names_what_a_budget_omitted(language):
    """By estimate, or after the first block; in the names of the language."""
    record = reports.record_of(answers.TRADE)
    names = ("database", record.experiment.workloads[-1].label)
    record = replace(
        record,
        experiment=replace(record.experiment, omitted=names[:1]),
        planning=Planning(4, omitted={names[1]: "others"}),
    )
    shown = report.text(record, answers.TRADE, lang=language)
    assert len(shown.splitlines()) <= 25
    text = " ".join(shown.partition("\n\n")[0].split())
    for name in names:
        assert name_of(Texts(language), name) in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", answers.EXAMPLES)
def test_in_virtual_time_no_form_says_that_anything_is_proven(name, language):
    """A boot is precise and not accurate; candidates that are equal in every block are a fact."""
    of = answers.EXAMPLES[name]
    virtual = {"kernel": "6.12.1+x", "shift": 1}
    record = replace(reports.record_of(of), host={**reports.HOST, "virtual": virtual})
    word = {"en": "proven", "ko": "입증", "ru": "доказан"}[language]
    for text in (report.html(record, of, language), report.markdown(record, of, language)):
        assert word not in text.lower()
    assert word in report.html(reports.record_of(of), of, language).lower()
    # Beside real results, too: each place that shows one sentence says of what it speaks.
    medium = Texts(language)("medium.virtual")
    assert report.first_sentence(record, of, language).startswith(medium)
    results = [index_page.IndexedResult("x.html", "x", each, of) for each in
               (record, reports.record_of(of))]  # fmt: skip
    assert index_page.render(results, "d", language).count(medium) == 1


def test_candidates_that_are_equal_in_every_block_are_identical():
    """Zero variance is no proof: rr and fifo are one thing to one CPU."""
    of = answers.TRADE
    record = reports.record_of(of)
    first, second = of.candidates[:2]
    values = {(r.block, r.workload): r.metrics for r in record.runs if r.candidate == first}
    runs = [replace(r, metrics=values[r.block, r.workload]) if r.candidate == second else r
            for r in record.runs]  # fmt: skip
    same = replace(record, runs=tuple(runs), host={"virtual": {"kernel": "6.12.1", "shift": 1}})

    def sentence(record):
        view = View(record, of, Texts("en"))
        return [line for line in sentences.headline(view) if "identical" in line]

    assert f"{first} and {second} are identical in every block of" in sentence(same)[0]
    work = runs[0].workload
    assert work in sentence(same)[0]
    changed = {name: value * 1.0001 for name, value in runs[0].metrics.items()}
    other = replace(same, runs=(replace(runs[0], metrics=changed), *runs[1:]))
    assert work not in "".join(sentence(other))
    assert sentence(replace(same, host={})) == []


def test_a_row_of_identical_candidates_leads_by_nothing():
    """Two boots of one kernel read "leads; at most 13 % longer", as blocks differ in phase."""
    of = answers.TRADE
    record = reports.record_of(of)
    runs = [replace(run, candidate=name) for run in record.runs for name in of.candidates
            if run.candidate == of.candidates[0]]  # fmt: skip
    host = {"virtual": {"kernel": "6.12.1", "shift": 1}}
    for alike, notes in ((runs, {"identical in every block"}), (runs[:-1], None)):
        view = View(replace(record, runs=tuple(alike), host=host), of, Texts("en"))
        rows = [row for row in of.rows if row.workload == runs[-1].workload and row.metric]
        found = {candidate_cell(view, row, name).note
                 for row in rows for name in of.candidates}  # fmt: skip
        assert found == notes or (notes is None and "identical in every block" not in found)


def test_csv_is_the_cells_in_plain_numbers():
    of = answers.TRADE
    lines = list(csv.DictReader(io.StringIO(exchange.csv_text(reports.view_of(of, "ru")))))
    assert len(lines) == len(of.rows) * len(of.candidates)
    for line in lines:
        known = of.cells[line["row"]][line["candidate"]]
        assert (float(line["loss"]), float(line["low"])) == (known.loss, known.low)


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_screens(golden, language):
    """Every code at 80 columns: read the diff of the file."""
    shown = []
    for name, of in answers.EXAMPLES.items():
        view = reports.view_of(of, language, "import" if name == "imported" else "io")
        text = terminal.render(view, 80, False, [("Report", "report.html")])
        lines = text.splitlines()
        assert all(terminal.cells(line) <= 80 for line in lines)
        assert len(lines) <= 25, name
        shown += [f"== {name}", text, ""]
    golden(f"first-screens.{language}.txt", "\n".join(shown))


@pytest.mark.parametrize("width", [40, 60, 80, 120, 300])
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_line_is_wider_than_the_terminal(language, width):
    for of in answers.EXAMPLES.values():
        lines = terminal.render(reports.view_of(of, language), width, False).splitlines()
        commands = [line for line in lines if "schedlab " in line]
        assert all(terminal.cells(x) <= width for x in lines if x not in commands)


def test_colour_only_when_asked():
    view = reports.view_of(answers.TRADE)
    plain, coloured = (terminal.render(view, 80, colour) for colour in (False, True))
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


def test_what_is_proven_is_no_ratio_of_one():
    """`1.00 to 2.2×` was said of a proven loss; an end of 1.996 is printed as that of 2."""
    time = words.way(METRICS["elapsed_s"])
    said = words.said_between(Texts("en"), time, math.log(1.0034), math.log(2.2))
    assert said == "1.003 to 2.2× longer"
    ends = words.between(Texts("en"), math.log(1.2), math.log(1.996)).replace("\u00a0", " ")
    assert ends == "1.20 to 2.0×"


STEPS = {
    "best": ("device", "schedlab apply b /dev/sdb"),
    "keep": ("device", f"schedlab compare --resume {reports.FOLDER} --blocks 12"),
    "for-now": ("scratch", f"schedlab compare --resume {reports.FOLDER} --blocks 10"),
    "same-0": ("device", ""),
    "nothing": ("device", ""),
    "price": ("device", ""),
    "doubt": ("device", f"schedlab reproduce {reports.FOLDER} --trust"),
    "trade": ("device", "schedlab apply bfq /dev/sdb"),
    "sessions": ("device", f"schedlab reproduce {reports.FOLDER} --trust"),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_next_line_fits_the_code_and_the_target(name):
    target, command = STEPS[name]
    step = steps.next_step(reports.view_of(answers.EXAMPLES[name], target=target))
    assert step.command == command and (command or step.remark)


def test_what_virtual_time_would_only_repeat_is_measured_in_other_boots():
    """`reproduce` boots the same machine: it has the same runs, and settles no doubt."""
    view = reports.view_of(answers.EXAMPLES["doubt"])
    host = {"virtual": {"kernel": "6.12.1", "shift": 1}}
    record = replace(view.record, host=host)
    step = steps.next_step(View(record, view.answer, Texts("en"), view.folder))
    assert step.command == f"schedlab run {reports.FOLDER} --kernel 6.12.1 --sessions 3"
    assert "no other program" in step.remark


@pytest.mark.parametrize(("tries", "is_left"), [(ATTEMPTS_MAX - 1, True), (ATTEMPTS_MAX, False)])
def test_a_cell_that_failed_for_good_is_no_rest_of_the_plan(tries, is_left):
    view = reports.view_of(answers.EXAMPLES["for-now"], target="scratch")
    experiment = replace(view.experiment, stopping=Stopping())
    gone = replace(view.record.runs[0], block=90, status="discarded")
    cells = tuple(Cell(*run.key[:1], 0, *run.key[1:], 1) for run in (*view.record.runs, gone))
    runs = (*view.record.runs, *[gone] * tries)
    record = replace(view.record, experiment=experiment, plan=Plan(cells), runs=runs)
    step = steps._rest(View(record, view.answer, view.texts, view.folder))
    assert (step is not None) == is_left
    assert not is_left or step.remark == "left of the plan: 1\xa0run"


def test_further_blocks_come_after_all_that_were_run():
    """Most of them had no value of the metric that decides: 6 blocks would have run none."""
    view = reports.view_of(answers.EXAMPLES["for-now"], target="scratch")
    (run, *_), more = view.record.runs, 10 - view.answer.blocks
    view.record = replace(view.record, runs=(*view.record.runs, replace(run, block=29)))
    assert steps.next_step(view).command.endswith(f"--blocks {30 + more}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_loss_is_said_in_the_direction_of_its_metric(language):
    """Half the rate was "95 % behind"; a time of twice as long is 100 % longer."""
    texts = Texts(language)
    for metric, loss, shown in (
        ("throughput_bytes_per_s", 1.95, 49), ("elapsed_s", 1.96, 96), ("cpu_s", 1.5, 50),
    ):  # fmt: skip
        for gain in (False, True):
            how = words.way(METRICS[metric], gain)
            less = how.shrinks
            assert less == (METRICS[metric].higher_is_better != gain)
            percent = round(100 * (1 - 1 / loss if less else loss - 1))
            number = words.said(texts, how, math.log(loss)).replace(NO_BREAK, " ")
            assert f"{percent} %" in number and (gain or percent == shown)
    rate = words.way(METRICS["iops"])
    assert words.said(Texts("en"), rate, math.log(2.0)) == "half the rate"
    assert words.said(Texts("en"), rate, math.log(3.0)) == "3.0× less"


def test_codes_are_never_shown_to_a_person():
    for name, of in answers.EXAMPLES.items():
        text = terminal.render(reports.view_of(of), 80, False)
        assert not re.search(r"for-now|trade|unbounded|one-run|same-0|for now", text), name


def test_nobody_keeps_what_stands_in_for_a_baseline_without_runs():
    view = reports.view_of(replace(answers.KEEP, base="b", take="b"))
    assert view.experiment.baseline == "b" and sentences.code(view).startswith("Keep b: ")
    record = replace(view.record, experiment=replace(view.experiment, baseline="none"))
    assert sentences.code(View(record, view.answer, view.texts)).startswith("Take b: ")


def test_a_change_on_a_scratch_device_leads_to_ones_own_device():
    view = reports.view_of(answers.BEST)
    again = "schedlab run results/2026-03-14T0926"
    step = steps.next_step(view)
    assert step.command == f"{again} --directory DIR --switch sdX"
    disk, loop = {"backing_file": None}, {"backing_file": "/var/tmp/x"}
    view.record = replace(view.record, host={"devices": {"vda": disk, "loop7": loop}})
    step = steps.next_step(view)
    assert step.command == f"{again} --directory . --switch vda"
    work = replace(view.experiment.workloads[0], kind="command", parameters={"argv": ["true"]})
    view.experiment = replace(view.experiment, workloads=(*view.experiment.workloads, work))
    assert steps.next_step(view).command == f"{again} --directory . --switch vda --trust"


def test_many_workloads_keep_those_that_decide():
    rows = tuple(answers.primary(f"work {i}", "elapsed_s") for i in range(40))
    cells = {
        row.name: {"a": answers.behind(2.0, 1, 1, 1.1), "b": answers.behind(2.0, 1.02, 1, 1.2)}
        for row in rows
    }
    cells["work 30"]["b"] = answers.behind(9.0, 5, 4, 6)
    names = tuple(row.name for row in rows)
    many = replace(answers.KEEP, rows=rows, cells=cells, counted=names, worst_row="work 17")
    text = terminal.render(reports.view_of(many), 80, False)
    assert "work 30" in text and "work 17" in text and "28 more rows" in text
    view = reports.view_of(many)
    assert len(screen(view).table.rows) == 40
    told = [terminal._where(view, names[:count]) for count in (0, 1, 3, 4)]
    assert told == ["", "work 0: ", "work 0, work 1 and work 2: ", f"4{NO_BREAK}workloads: "]


def test_two_opposite_effects_are_both_told():
    """One was, and which one followed the noise."""
    cells = {
        "w0": {"a": answers.behind(1e3, 2, 1.9, 2.1), "b": answers.behind(2e3, 1, 1, 1)},
        "w1": {"a": answers.behind(2e3, 1, 1, 1), "b": answers.behind(1e3, 2, 1.92, 2.08)},
    }
    of = replace(
        answers.TRADE_OPEN, take="b", base="a", candidates=("a", "b"), counted=("w0", "w1"),
        rows=tuple(answers.primary(name, "iops") for name in cells), cells=cells, prices=(),
        bound=math.log(2.08), behind=math.log(2), worst_row="w1", others=math.log(1.9),
    )  # fmt: skip
    of = replace(of, base_loss=answers.loss_of(of, "a", "w0"))
    said = sentences.code(reports.view_of(of)).replace(NO_BREAK, " ")
    assert said == (
        "b looks best, but not proven the best: w0 gets 1.90 to 2.1× more than with a; w1 gets "
        "1.92 to 2.1× less than with the best; every other loses somewhere too, at least 47 %."
    )


@pytest.mark.parametrize(
    ("language", "up_to"), [("en", "up to"), ("ko", "최대"), ("ru", "не более чем")]
)
def test_what_may_come_is_a_bound_in_every_language(language, up_to):
    bounds = {
        key: text for key, text in catalogue(language).items()
        if re.fullmatch("said.(?!others).*_(worse|open)", key)
    }  # fmt: skip
    assert len(bounds) >= 12
    assert [key for key, text in bounds.items() if up_to not in text] == []


def test_the_time_of_more_boots_is_not_that_of_their_runs():
    view = reports.view_of(replace(answers.BEST, advice=Advice(6, 0.05, 90.0)))
    told = []
    for host in ({}, {"boots": ["1"]}):
        of = View(replace(view.record, host=host), view.answer, view.texts)
        told.append(of.texts.duration(90.0) in sentences.advice(of))
    assert told == [True, False]


def test_what_each_kind_of_device_takes_is_told_where_others_feel_it():
    taken = [SimpleNamespace(answer=SimpleNamespace(take=name)) for name in "ab"]
    of = SimpleNamespace(take=taken[0].answer.take, kinds=taken[1:])
    arms = [Candidate(name, {"sysctl.vm.swappiness": at}) for at, name in enumerate("abc")]
    view = SimpleNamespace(
        answer=of, experiment=SimpleNamespace(candidates=arms), texts=Texts("en")
    )
    told = sentences._beyond(view)
    assert ["swappiness=0" in told[0], "swappiness=1" in told[1], len(told)] == [True, True, 2]


def test_a_knee_that_is_none_has_its_own_reason():
    about = {"family": "f", "size": "record_bytes", "candidate": "a", "metric": METRICS["iops"]}
    found = tuple(KneeFigure(reason=reason, **about) for reason in ("straight", "edge"))
    view = reports.view_of(replace(answers.BEST, knees=found))
    (table,) = handin._knees(view)
    assert [row.cells[-1].text for row in table.rows] == [
        view.texts("text.knee_straight"), view.texts("text.knee_edge")]  # fmt: skip


@pytest.mark.parametrize(("rows", "advice"), [(1, "longer runs"), (2, "fewer workloads")])
def test_only_of_several_workloads_fewer_can_be_asked_about(rows, advice):
    of = answers.TRADE
    names = of.counted[:rows]
    of = replace(of, code="keep", take="none", advice=None, prices=(), counted=names, units=50)
    assert advice in steps.next_step(reports.view_of(of, kind="cpu")).remark


@pytest.mark.parametrize(("metric", "subject"), [
    ("elapsed_s", "w0 may be"), ("latency_ns_p99", "w0 (p99 latency) may be")])  # fmt: skip
def test_a_latency_is_named_where_it_changes(metric, subject):
    of = answers.FOR_NOW
    row = replace(of.rows[0], metric=METRICS[metric])
    said = sentences.code(reports.view_of(replace(of, rows=(row, *of.rows[1:]))))
    assert subject in said


@pytest.mark.parametrize("word", ["a" * 300_000, "가" * 100_000], ids=["latin", "hangul"])
def test_a_word_of_a_stranger_is_cut_as_quickly_as_it_is_long(word):
    """The time grew with the square of the length."""
    lines = terminal.wrapped(f"of {word} it", 79)
    assert max(map(terminal.cells, lines)) <= 79
    assert "".join(lines).replace(" ", "") == f"of{word}it"
