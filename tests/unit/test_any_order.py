"""The order in which workloads and candidates stand decides nothing: turned about, all that is said
of a result has the same words and figures. A line that takes the first of several, or the last,
where it should take the largest, or all, says something else then.
"""

import math
import random
import re
from collections import Counter
from dataclasses import replace

import answers
import pytest
import reports
import test_everything_agrees as agrees
import test_whole_results as whole

from schedlab import report
from schedlab.analyse.answer import answer
from schedlab.nouns import METRICS, GateFinding, Samples
from schedlab.report import sentences
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.result import answer_of

#: The screen has so many workloads at most.
SHOWN = 9


def turned(record):
    """The record with its workloads and candidates the other way round, and one of many figures."""
    asked = record.experiment
    asked = replace(asked, workloads=asked.workloads[::-1], candidates=asked.candidates[::-1])
    return replace(
        record,
        experiment=asked,
        explanations=dict(reversed(record.explanations.items())),
        series=dict(reversed(record.series.items())),
        latencies=dict(reversed(record.latencies.items())),
    )


def words(record, answer):
    """How often each word and figure is said, by form."""
    page = re.sub(r"(?=</?(?:td|th))", " ", report.html(record, answer))
    forms = {
        "screen": report.text(record, answer, width=200),
        "tables": report.tables_text(record, answer),
        "markdown": report.markdown(record, answer),
        "page": re.sub(r"\[.*: \w{8}\]", "", "\n".join(whole.words_of(page))),  # No drawings.
        "workbook": "\n".join(whole.cells_of(report.xlsx(record, answer))),
    }
    return {form: Counter(re.findall(r"[^\s,;|:()#]+", text)) for form, text in forms.items()}


def assert_said_alike(record):
    one, two = (words(each, answer_of(each)) for each in (record, turned(record)))
    if len(record.experiment.workloads) > SHOWN:  # the first of them, and how many more there are
        del one["screen"]
    for form, said in one.items():
        assert (form, said - two[form]) == (form, two[form] - said)


@pytest.mark.parametrize("way", agrees.WAYS)
def test_no_order_changes_what_is_said_of_a_result(way, tmp_path):
    for seed in range(4):
        rng = random.Random(f"{seed}{way}")
        path = tmp_path / str(seed)
        made = agrees.merged(path, rng) if way == "merged" else agrees.made(way, path, rng)
        assert_said_alike(made.record)


@pytest.mark.parametrize("make", [whole.measured, whole.of_cpus, whole.of_simulations,
                                  whole.of_hosts, whole.handed_in])  # fmt: skip
def test_no_order_changes_what_is_said_of_all_parts(make):
    record, _ = make()
    assert_said_alike(record)


@pytest.mark.parametrize("ends", [(0.1, 0.2), (0.2, 0.1)])
def test_a_change_is_at_most_that_of_the_worst_row(ends):
    rows = tuple(answers.primary(f"w{at}", "elapsed_s") for at in range(2))
    cells = {row.name: {"b": answers.behind(1.0, 1.0, 1.0, math.exp(end))}
             for row, end in zip(rows, ends, strict=True)}  # fmt: skip
    answer = replace(answers.BEST, rows=rows, counted=("w0", "w1"), cells=cells)
    view = View(reports.record_of(answer), answer, Texts("en"))
    assert "23\u00a0%" in sentences.change(view)


def test_each_ejected_scheduler_has_its_own_reason():
    record = reports.record_of(answers.TRADE)
    runs = [replace(run, gates=(GateFinding("ext-ejected", f"ejected: by {run.candidate}"),))
            for run in record.runs]  # fmt: skip
    view = View(replace(record, runs=tuple(runs)), answers.TRADE, Texts("en"))
    for name in answers.NAMES:
        assert sentences._gate(view, name, "ext-ejected").endswith(f"(by {name})")


@pytest.mark.parametrize("order", [1, -1])
def test_a_candidate_equals_the_baseline_only_where_it_does_on_every_row(order):
    """b equals a on one row and is better on the other: it is taken."""
    values = {"same": (1.0, 1.0), "other": (1.0, 0.5)}
    samples = [
        Samples(work, METRICS["elapsed_s"], ("a", "b") * 8, tuple(n // 2 for n in range(16)),
                tuple(value + 0.001 * (n // 2) for n in range(8) for value in pair))
        for work, pair in values.items()
    ]  # fmt: skip
    assert answer(samples[::order], baseline="a").take == "b"
