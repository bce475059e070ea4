"""What is printed of an answer, read back: sentence, interval, cell, advice and numbers agree.

Random answers, in every language. What a reader sees must not deny what was worked out: printed
ends are never inside the numbers, ▼ is where a loss is proven, and a sentence has the same bound
as its cell.
"""

from __future__ import annotations

import csv
import io
import json
import math
import random
import re
from dataclasses import replace

import answers
import pytest
import reports
from answers import DELTA
from readback import agrees, losses
from test_answer_any import experiment

from schedlab import report
from schedlab.analyse.answer import answer as worked_out
from schedlab.report import exchange, sentences, steps, terminal, words
from schedlab.report.screen import candidate_cell, first_table, screen
from schedlab.report.texts import LANGUAGES, Texts
from schedlab.report.view import View
from schedlab.spec.answer import Advice, Answer, CellAnswer, Loss, Row
from schedlab.spec.metrics import METRICS

NAMES = ("none", "kyber", "bfq", "mq-deadline", "adios")
METRIC_NAMES = ("throughput_bytes_per_s", "latency_ns_p99", "elapsed_s", "iops")


def cell(rng: random.Random, best: bool) -> CellAnswer:
    if best:
        return CellAnswer(math.exp(rng.uniform(-3, 12)), 0.0, 0.0, 0.0, best=True, runs=6)
    point = rng.choice([0.0, rng.expovariate(20), rng.expovariate(2), rng.expovariate(0.4)])
    low = rng.choice([0.0, point * rng.random()]) if point else 0.0
    up = rng.choice([None, point + rng.expovariate(rng.choice([1, 30])) + 1e-6])
    starved = 6 if up is None and low > 0 and rng.random() < 0.5 else 0
    value = math.exp(rng.uniform(-3, 12))
    return CellAnswer(value, point, low, up, open=starved > 0, runs=6, starved=starved)


def answer(seed: int) -> Answer:
    """Cells at random; everything else follows from them, as in the module `analyse.choice`."""
    rng = random.Random(seed)
    names = NAMES[: rng.randint(2, 5)]
    rows = []
    for i in range(rng.randint(1, 4)):
        metric = METRICS[rng.choice(METRIC_NAMES)]
        rows.append(Row(f"w{i}", f"w{i}", metric, "primary", DELTA, True, blocks=6))
    counted = tuple(row.name for row in rows)
    if rng.random() < 0.5:
        metric = METRICS["cpu_s"]
        rows.insert(1, Row("w0: cpu_s", "w0", metric, "secondary", DELTA, False, blocks=6))
    lead = rng.choice(names) if rng.random() < 0.3 else ""
    cells = {
        row.name: {name: cell(rng, name == lead and row.name in counted) for name in names}
        for row in rows
    }
    take = lead or rng.choice(names)
    mine = [cells[row][take] for row in counted]
    bound = None if any(c.up is None for c in mine) else max(c.up or 0.0 for c in mine)
    worst = max(counted, key=lambda row: cells[row][take].loss)
    base = rng.choice(names)
    of = Answer(
        code="best", take=take, base=base, candidates=names, bound=bound,
        behind=cells[worst][take].loss, margin=DELTA, blocks=6, units=6, used="blocks",
        scope="this-boot", rows=tuple(rows), counted=counted, cells=cells, worst_row=worst,
        seconds=10.0,
    )  # fmt: skip
    return coded(rng, of)


def coded(rng: random.Random, of: Answer) -> Answer:
    """A code that the numbers allow, and the parts of its sentence."""
    proven = [loss(of, of.base, row) for row in of.counted if of.cells[row][of.base].low > 0]
    prices = [
        loss(of, of.take, row.name)
        for row in of.rows
        if row.role == "secondary" and of.cells[row.name][of.take].low > DELTA
    ]
    base_loss = max(proven, key=lambda each: each.loss) if proven and not of.keeps else None
    more = {"base_loss": base_loss, "prices": tuple(prices)}
    if of.bound is None:
        return replace(of, code="unbounded", **more)
    advice = Advice(rng.randint(1, 40), of.bound * 0.5, 60.0) if of.bound > 0.1 else None
    if all(of.cells[row][of.take].best for row in of.counted):
        return replace(of, code=rng.choice(["best", "same-0"]), same=(of.take,), **more)
    if of.bound <= DELTA:
        return replace(of, code="same", same=(of.take,), **more)
    codes = ["trade", "trade-open", "for-now", *(["keep"] if of.keeps and not proven else [])]
    others = of.bound * 1.5
    return replace(of, code=rng.choice(codes), others=others, advice=advice, **more)


def loss(of: Answer, name: str, row: str) -> Loss:
    c = of.cells[row][name]
    return Loss(name, row, c.loss, c.low, c.up, c.open)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_printed_agrees_with_the_numbers(language: str) -> None:
    for seed in range(250):
        of = answer(seed)
        view = reports.view_of(of, language)
        for row, shown in zip(of.rows, first_table(view).rows, strict=True):
            for name, printed in zip(order(of), shown.cells[1:], strict=True):
                agrees(printed.note, of.cells[row.name][name], language)
        sentence_agrees(view, of, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_printed_of_measurements_agrees_with_their_answer(language: str) -> None:
    """The same of answers that were worked out, with every code that measurements can have."""
    codes = set()
    for seed in range(1000, 1060):
        samples, arguments = experiment(seed)
        of = worked_out(samples, **arguments)
        codes.add(of.code)
        view = reports.view_of(of, language)
        texts = Texts(language)
        for row in of.rows:
            for name in of.candidates:
                printed = candidate_cell(view, row, name)
                if (cell := of.cells[row.name].get(name)) is None:
                    assert printed.text == texts("verdict.none")
                elif row.why == "no-scatter" and cell.loss == 0:
                    assert printed.note.startswith(texts("cell.equal"))
                elif not cell.starved:
                    agrees(printed.note, cell, language)
        ends = losses(sentences.code(view), language)
        assert not ends or of.bound is None or max(ends) >= of.bound - 1e-9 or of.others
        everything = " ".join(sentences.headline(view))
        assert of.take in everything and "None" not in everything and "{" not in everything
        assert all(terminal.cells(x) <= 80 for x in terminal.render(view, 80, False).splitlines()
                   if "schedlab " not in x)  # fmt: skip
    assert len(codes) > 4


def order(of: Answer) -> list[str]:
    return [of.base, *(name for name in of.candidates if name != of.base)]


def sentence_agrees(view: sentences.View, of: Answer, language: str) -> None:
    texts, line = Texts(language), sentences.code(view)
    ends = losses(line, language)
    keeps = texts("answer.hold", name=of.base) in line
    assert keeps == (of.keeps and len(of.same) < 2)
    if of.code in ("same", "keep", "for-now"):
        cells = [of.cells[row][of.take].up for row in of.counted]
        assert ends[-1] >= max(cells) - 1e-9  # the bound holds for every cell of what is taken
    elif of.code.startswith("trade"):
        behind, bound, others = ends
        assert behind <= bound and bound >= of.bound - 1e-9 and others <= of.others + 1e-9
    else:
        assert not ends
    everything = " ".join(sentences.headline(view))
    if of.base_loss:
        told = words.behind(texts, of.base_loss)
        assert of.base in everything and told in everything
    assert bool(of.prices) == (texts("answer.price", row="", name="", behind="")[:4] in everything)
    if of.advice and of.code in ("keep", "for-now", "trade-open"):
        step = steps.next_step(view)
        assert step and step.command
        target = losses(step.remark, language)[-1]
        assert target < ends[1 if of.code == "trade-open" else -1]


def test_every_form_shows_the_same_cells_and_sentences() -> None:
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


def test_csv_is_the_cells_in_plain_numbers() -> None:
    of = answers.TRADE
    lines = list(csv.DictReader(io.StringIO(exchange.csv_text(reports.view_of(of, "ru")))))
    assert len(lines) == len(of.rows) * len(of.candidates)
    for line in lines:
        known = of.cells[line["row"]][line["candidate"]]
        assert (float(line["loss"]), float(line["low"])) == (known.loss, known.low)


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_screens(golden, language: str) -> None:
    """Every code at 80 columns: read the diff of the file."""
    shown = []
    for name, of in answers.EXAMPLES.items():
        view = reports.view_of(of, language, "import" if name == "imported" else "io")
        text = terminal.render(view, 80, False, [("Report", "report.html")])
        assert all(terminal.cells(line) <= 80 for line in text.splitlines())
        shown += [f"== {name}", text, ""]
    golden(f"first-screens.{language}.txt", "\n".join(shown))


@pytest.mark.parametrize("width", [40, 60, 80, 120, 300])
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_line_is_wider_than_the_terminal(language: str, width: int) -> None:
    for of in answers.EXAMPLES.values():
        lines = terminal.render(reports.view_of(of, language), width, False).splitlines()
        commands = [line for line in lines if "schedlab " in line]
        assert all(terminal.cells(x) <= width for x in lines if x not in commands)


def test_colour_only_when_asked() -> None:
    view = reports.view_of(answers.TRADE)
    plain, coloured = (terminal.render(view, 80, colour) for colour in (False, True))
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


@pytest.mark.parametrize(
    ("loss_log", "end", "shown"),
    [
        (math.log(1.1234), "point", "12 %"),
        (math.log(1.1234), "up", "13 %"),
        (math.log(1.1234), "low", "12 %"),
        (math.log(1.0723), "up", "7.3 %"),
        (math.log(1.0723), "low", "7.2 %"),
        (math.log(1.00042), "up", "0.05 %"),
        (math.log(1.0996), "up", "10 %"),
        (math.log(9.996), "up", "10×"),
        (math.log(1.995), "up", "2.0×"),
        (math.log(2.34), "point", "2.3×"),
        (math.log(2.34), "up", "2.4×"),
        (math.log(16.9), "low", "16×"),
        (math.log(2.0), "point", "2.0×"),
        (math.log(12345), "up", "12,345×"),
        (0.0, "up", "0.0 %"),
        (600.0, "point", "over 1,000,000×"),
    ],
)
def test_rounding(loss_log: float, end: words.End, shown: str) -> None:
    assert words.amount(Texts("en"), loss_log, end).replace("\u00a0", " ") == shown


def test_what_is_proven_is_no_ratio_of_one() -> None:
    """`1.00 to 2.2× behind` was said of a proven loss; an end of 1.996 is printed as that of 2."""
    proven = Loss("a", "w0", math.log(1.5), math.log(1.0034), math.log(2.2))
    assert words.behind(Texts("en"), proven) == "1.003 to 2.2× behind"
    ends = words.between(Texts("en"), math.log(1.2), math.log(1.996)).replace("\u00a0", " ")
    assert ends == "1.20 to 2.0×"


STEPS = {
    "best": ("device", "schedlab apply b /dev/sdb"),
    "keep": ("device", f"schedlab compare --resume {reports.FOLDER} --blocks 12"),
    "for-now": ("scratch", f"schedlab compare --resume {reports.FOLDER} --blocks 10"),
    "same-0": ("device", None),
    "nothing": ("device", None),
    "trade": ("device", "schedlab apply bfq /dev/sdb"),
    "sessions": ("device", f"schedlab reproduce {reports.FOLDER}"),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_next_line_fits_the_code_and_the_target(name: str) -> None:
    target, command = STEPS[name]
    step = steps.next_step(reports.view_of(answers.EXAMPLES[name], target=target))
    assert (step.command if step else None) == command


def test_nobody_keeps_what_stands_in_for_a_baseline_without_runs() -> None:
    view = reports.view_of(replace(answers.KEEP, base="b", take="b"))
    assert view.experiment.baseline == "b" and sentences.code(view).startswith("Keep b: ")
    record = replace(view.record, experiment=replace(view.experiment, baseline="none"))
    assert sentences.code(View(record, view.answer, view.texts)).startswith("Take b: ")


def test_a_change_on_a_scratch_device_leads_to_ones_own_device() -> None:
    view = reports.view_of(answers.BEST)
    again = "schedlab run results/2026-03-14T0926"
    step = steps.next_step(view)
    assert step is not None
    assert step.command == f"{again} --directory DIR --switch sdX"
    disk, loop = {"backing_file": None}, {"backing_file": "/var/tmp/x"}
    view.record = replace(view.record, host={"devices": {"vda": disk, "loop7": loop}})
    step = steps.next_step(view)
    assert step is not None
    assert step.command == f"{again} --directory . --switch vda"


def test_many_workloads_keep_those_that_decide() -> None:
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
    assert len(screen(reports.view_of(many)).table.rows) == 40
