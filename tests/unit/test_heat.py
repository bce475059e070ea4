"""Heat maps of latency over time: which cell a request is in, and where nothing completed."""

import re
from dataclasses import replace

import answers
import pytest
import reports

from schedlab.nouns.results import LatencySeries
from schedlab.report.heat import LEFT, WIDTH, Scale, heat_maps
from schedlab.report.texts import Texts
from schedlab.report.view import View


def series(*rows):
    return LatencySeries(0, "readers", rows)


def test_every_request_is_in_the_cell_of_its_time_and_latency():
    fast, slow = (0, 1000, 1200, 7), (900, 1_000_000, 1_200_000, 2)
    scale = Scale.of([series(fast, (0, 1000, 1200, 1)), series(slow)])
    assert (scale.width_ms, scale.columns) == (100, 10)
    assert scale.cells(series(fast, slow)) == {(0, 0): 7, (9, scale.rows - 1): 2}


def test_a_time_without_completions_is_marked_but_not_the_time_after_the_run():
    record = reports.record_of(answers.TRADE)
    work = next(row.workload for row in answers.TRADE.rows if row.metric)
    base, other, *_ = answers.TRADE.candidates
    served = [(t, 1000, 1200, 5) for t in (0, 100, 400)]
    every = {(work, base): (series(*served),), (work, other): (series(*served[:2]),)}
    view = View(replace(record, latencies=every), answers.TRADE, Texts("en"))
    drawn = heat_maps(view, next(row for row in view.primary if row.workload == work))
    assert drawn.count('<path class="gap"') == 1
    assert drawn.count("<figcaption>") == 2


def test_a_process_that_ends_before_others_starves_inside_its_map():
    record = reports.record_of(answers.TRADE)
    work = next(row.workload for row in answers.TRADE.rows if row.metric)
    writers = LatencySeries(0, "writers", tuple((t, 1000, 1200, 5) for t in range(0, 2000, 100)))
    groups = (series((0, 1000, 1200, 1), (400, 1000, 1200, 1)), writers)
    every = {(work, name): groups for name in answers.TRADE.candidates[:2]}
    view = View(replace(record, latencies=every), answers.TRADE, Texts("en"))
    drawn = heat_maps(view, next(row for row in view.primary if row.workload == work))
    gaps = re.findall(r'class="gap" d="([^"]*)"', drawn)
    ends = [
        float(x) + float(wide)
        for path in gaps
        for x, wide in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)", path)
    ]
    assert len(gaps) == 2 and max(ends) == pytest.approx(LEFT + WIDTH, abs=0.2)


def test_all_maps_have_one_darkness_also_where_the_second_has_the_most():
    record = reports.record_of(answers.TRADE)
    work = next(row.workload for row in answers.TRADE.rows if row.metric)
    names = answers.TRADE.candidates[:2]

    def darkest(*counts):
        every = {
            (work, name): (series((0, 1000, 1200, count), (400, 1000, 1200, 1)),)
            for name, count in zip(names, counts, strict=True)
        }
        view = View(replace(record, latencies=every), answers.TRADE, Texts("en"))
        drawn = heat_maps(view, next(row for row in view.primary if row.workload == work))
        figures = re.findall("<figure>.*?</figure>", drawn, re.DOTALL)
        return [max(map(int, re.findall(r'class="h(\d+)"', each))) for each in figures]

    low, high = darkest(5, 5000)
    assert low < high == darkest(5000, 5000)[1]
    assert darkest(5000, 5) == [high, low]


def test_a_live_load_has_no_row_of_the_table_between_two_of_its_seconds():
    record = reports.record_of(answers.TRADE)
    row = next(row for row in answers.TRADE.rows if row.metric)
    name = answers.TRADE.candidates[0]
    rows = tuple((1000 * second, 1000, 1200, 5) for second in range(6))
    latencies = {(row.workload, name): (LatencySeries(0, "live load", rows),)}
    view = View(replace(record, latencies=latencies), answers.TRADE, Texts("en"))
    body = heat_maps(view, next(one for one in view.primary if one.workload == row.workload))
    counts = re.findall(r"<tr><th scope=row>[^<]*<td>([^<]*)", body)
    assert counts == ["5"] * 6
