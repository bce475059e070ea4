"""Of several rows, columns, candidates, workloads or runs each counts: rooms that draw, fold and
print tables and charts."""

import re
from dataclasses import replace
from types import SimpleNamespace

import answers
import pytest
import reports

from schedlab.nouns import AA_SUFFIX, Candidate, Explanation, Flag, Workload
from schedlab.nouns.metrics import METRICS
from schedlab.report import (
    charts,
    commands,
    durable,
    exchange,
    handin,
    markup,
    page_figures,
    page_first,
    process_tables,
    replays,
    screen,
    sentences,
    shares,
    standalone,
    steps,
    tables,
    terminal,
    why,
    words,
)
from schedlab.report.texts import Texts
from schedlab.report.view import View

TEXTS = Texts("en")
ORDERS = [(0, 1), (1, 0)]


def viewed(answer, change=lambda record: record):
    view = reports.view_of(answer)
    return View(change(view.record), view.answer, view.texts, view.folder)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_column_is_one_of_words_where_any_of_its_cells_has_a_note(at, golden):
    columns = [tables.Column("name", text=True), tables.Column("one"), tables.Column("two")]
    rows = [[f"r{row}", 1.0 + row, 2.0 + row] for row in range(3)]
    table = tables.build(TEXTS, "t", "T", columns, rows)
    noted = list(table.rows)
    cells = list(noted[at].cells)
    cells[2] = replace(cells[2], note="why")
    noted[at] = replace(noted[at], cells=tuple(cells))
    table = replace(table, rows=tuple(noted))
    assert exchange.table_text(table).splitlines()[1] == "| --- | ---: | --- |"
    heads = re.findall("<th scope=col([^>]*)>", markup.drawn_table(table))
    assert ["t" in head for head in heads] == [True, False, True]
    assert [terminal._is_numeric(table, column) for column in range(3)] == [False, True, False]


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("part", ["text", "note"])
def test_a_table_is_cut_where_any_word_is_too_wide(at, column, part):
    columns = [tables.Column("name", text=True), *(tables.Column(n, text=True) for n in "ab")]
    table = tables.build(TEXTS, "t", "T", columns, [["a b", "c d", "e f"]] * 3)
    assert not terminal._cuts(table, 12, 10)
    rows = [list(row.cells) for row in table.rows]
    rows[at][column] = replace(rows[at][column], **{part: "a " + "w" * 11})
    rows = [replace(row, cells=tuple(cells)) for row, cells in zip(table.rows, rows, strict=True)]
    assert terminal._cuts(replace(table, rows=tuple(rows)), 12, 10)


def test_every_cost_of_a_call_has_its_row():
    facts = {"seconds_per_call": 1e-3, "constant_s": 2.0, "explained": 0.9}
    flags = (Flag("call-cost", "w0", (), facts),
             Flag("call-cost", "", ("a", "b"), {"seconds_per_call": 2e-3, "constant_s": 3.0,
                                                "explained": 0.95}))  # fmt: skip
    (table,) = handin._costs(viewed(replace(answers.BEST, flags=flags)))
    assert [[cell.number for cell in row.cells[1:]] for row in table.rows] == [
        [1e-3, 2.0, 90.0], [2e-3, 3.0, 95.0]
    ]  # fmt: skip
    assert [row.cells[0].text for row in table.rows] == ["w0", "a and b"]


@pytest.mark.parametrize("gone", [0, 1])
def test_drift_has_the_blocks_of_all_candidates(gone):
    def change(record):
        runs = [
            run
            for run in record.runs
            if (run.block, run.candidate) not in ((0, "ab"[gone]), (1, "ab"[1 - gone]))
        ]
        return replace(record, runs=tuple(runs))  # fmt: skip

    view = viewed(answers.BEST, change)
    means = {name: dict(page_figures.block_means(view, name)) for name in "ab"}
    table = page_figures._drift_table(view, means, "T")
    assert [row.cells[0].number for row in table.rows] == [1, 2, 3, 4, 5, 6]
    drawn = page_figures.drift_section(view)
    assert [f'class="mid">{block}</text>' in drawn for block in range(1, 7)] == [True] * 6


@pytest.mark.parametrize("slow", [0, 1])
def test_the_unit_of_waits_and_their_parts_are_those_of_all_candidates(slow):
    rows = [("a", Explanation("readers", 0.0, 1e-7, 2e-6, 1.0, 0.0, 100)),
            ("b", Explanation("readers", 0.0, 1e-7, 2e-6, 1.0, 0.0, 100))]  # fmt: skip
    rows[slow] = (rows[slow][0], Explanation("readers", 0.0, 1e-3, 2e-3, 1.0, 0.0, 100,
                                             outside_s=1e-2, plug_s=1e-2))  # fmt: skip
    of = why.Why("w0", "readers", tuple(rows), ("s",))
    assert {"plug", "outside"} <= {*page_first._parts(of)}
    assert " ms</text>" in page_first._why(viewed(answers.BEST), of)


def test_reasons_that_are_not_of_the_first_group_can_be_opened(monkeypatch):
    rows = tuple((name, Explanation("g", 1.0, 1.0, 2.0, 8.0, 2.0, 1000)) for name in "ab")
    every = [why.Why(work, group, rows, (f"{work} {group}.",))
             for work in ("w0", "w1") for group in ("one", "two", "three")]  # fmt: skip
    monkeypatch.setattr(page_first, "explained", lambda view: every)
    drawn = page_first._reasons(viewed(answers.BEST))
    shown, rest = (re.findall(r"<p>(w\d \w+)\.</p>", part) for part in drawn.split("<summary>4"))
    assert shown == ["w0 one", "w1 one"]
    assert rest == [f"{work} {group}" for work in ("w0", "w1") for group in ("two", "three")]


@pytest.mark.parametrize("order", ORDERS)
def test_processes_are_counted_over_all_candidates_and_runs(order):
    crowds = [[{"calculations": 1, "cpu_burst_s": 1.0, "bursts": 1}],
              [{"calculations": n, "cpu_burst_s": 1.0, "bursts": 1} for n in (3, 5)]]  # fmt: skip

    def change(record):
        runs = []
        for run in record.runs:
            workers = crowds[order[run.block % 2]]
            runs.append(replace(run, properties={"workers": workers}))
        return replace(record, runs=tuple(runs))

    view = viewed(answers.BEST, change)
    (table, *_) = process_tables._by_process(view)
    assert [row.cells[0].text for row in table.rows] == ["0", "1", "All together"]
    counts = [cell.number for cell in table.rows[-1].cells[1:]]
    assert counts == [pytest.approx(4.5)] * 2


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("key", [*steps.PROGRAMS, "run"])
def test_a_program_of_any_workload_or_candidate_has_to_be_trusted(at, key):
    works = [Workload(name, "x", "iops") for name in "vw"]
    candidates = [Candidate(name, {}) for name in "ab"]
    asked = SimpleNamespace(workloads=works, candidates=candidates)
    assert not steps._has_programs(asked)
    if key == "run":
        candidates[at] = Candidate("c", {"run": "x"})
    else:
        works[at] = replace(works[at], parameters={key: "x"})
    assert steps._has_programs(asked)


def test_a_chain_of_syncs_is_the_sum_of_all_runs():
    parts = [{"calls": n, "data_s": 1.0 * n, "journal_s": 2.0 * n, "flush_s": 3.0 * n,
              "written": {"cp": n, f"x{n}": 1}} for n in (1, 2, 4)]  # fmt: skip
    chain = durable.together([None, *parts, None])
    assert (chain.calls, chain.data_s, chain.journal_s, chain.flush_s) == (7, 7.0, 14.0, 21.0)
    assert chain.written == {"cp": 7, "x1": 1, "x2": 1, "x4": 1}


def test_the_first_run_that_has_a_property_gives_it_and_a_recorded_device_is_the_only_one():
    runs = [SimpleNamespace(properties=each) for each in ({}, {"x": 0}, {"x": 3}, {"x": 4})]
    assert commands._first(runs, "x") == 3

    def change(record, labels=("w0",)):
        own = {"fidelity": {"scheduler": "none", "device": "sda", "rows": []}}
        works = tuple(Workload(label, "x", "elapsed_s") for label in labels)
        runs = tuple(replace(run, workload=label, properties=own)
                     for label in labels for run in record.runs)  # fmt: skip
        experiment = replace(record.experiment, workloads=works)
        return replace(record, experiment=experiment, runs=runs, host={"devices": {"sda": {}}})

    assert replays.recorded_device(viewed(answers.BEST, change)) == "/dev/sda"
    two = viewed(answers.BEST, lambda record: change(record, ("w0", "w1")))
    assert replays.recorded_device(two) == ""


@pytest.mark.parametrize("order", ORDERS)
def test_counts_of_processes_are_unknown_where_one_of_them_is(order):
    both = [{"calculations": 1, "bursts": 2, "cpu_burst_s": 4.0}, {"calculations": 3, "bursts": 6}]
    found = process_tables._figures([both[at] for at in order])
    assert (found["calculations"], found["bursts"], found["cpu_burst_s"]) == (4, 8, None)


def test_all_that_a_medium_says_for_itself_and_all_names_are_taken():
    texts = Texts("en")
    prefix = "virtual."
    own = {key: text for key, text in texts.entries.items() if key.startswith(prefix)}
    medium = texts.of_medium("virtual")
    assert len(own) > 1
    assert {key: medium.entries[key.removeprefix(prefix)] for key in own} == own
    titles = [f"w{at}" for at in range(sentences.LISTED_MAX + 1)]
    view = viewed(answers.BEST)
    assert sentences.few(view, titles[:-1]).endswith(titles[-2])
    assert sentences.few(view, titles).startswith(f"{len(titles)}\u00a0")
    legend = markup.legend(view)
    assert [f"</svg>{name}</li>" in legend for name in "ab"] == [True, True]


@pytest.mark.parametrize("key", ["chosen_a", "chosen_b", *handin.SIZES])
def test_any_size_of_a_workload_may_be_the_one_that_it_is_drawn_over(key):
    chosen = {"chosen_a": "x", "chosen_b": "y"} | ({key: 7} if "chosen" in key else {})
    own = chosen if "chosen" in key else {key: 7}
    work = Workload("w0", "test", "elapsed_s", own, chosen=chosen)

    def change(record):
        return replace(record, experiment=replace(record.experiment, workloads=(work,)))

    assert handin._point(viewed(answers.BEST, change), work)[1:] == (key, 7)


def test_all_kernels_in_virtual_time_are_named():
    def change(record):
        return replace(record, host={"virtual": {"shift": 2, "kernels": ["6.1+x", "6.12+y"]}})

    line = screen._virtual(viewed(answers.BEST, change))
    assert "6.1 and 6.12" in line and "250" in line


def test_the_times_of_each_workload_are_those_that_its_programs_have():
    def change(record):
        known = {answers.NEWCOMER: "elapsed_s", answers.READER: "elapsed_synced_s"}
        times = {"user_s": 2.0, "system_s": 1.0}
        # A program of which only one of its times is known has no table.
        runs = [replace(run, metrics={known[run.workload]: 3.0, **times}
                        if run.workload in known else {"user_s": 2.0})
                for run in record.runs]  # fmt: skip
        return replace(record, runs=tuple(runs))

    drawn = process_tables._times(viewed(answers.TRADE, change))
    heads = [[column.title for column in table.columns[1:4]] for table in drawn]
    newcomer, reader = heads[::2]
    assert newcomer[0] != reader[0] and newcomer[1:] == reader[1:]


KIB = 1024


def test_the_chosen_point_of_each_curve_is_on_that_curve():
    def change(record):
        works = tuple(
            Workload(f"{test} {size}", "file-test", "iops", {"test": test, "record_bytes": size},
                     chosen={"record_bytes": 16 * KIB} if size != 16 * KIB else {})
            for test in ("read", "write") for size in (4 * KIB, 64 * KIB, 16 * KIB)
        )  # fmt: skip
        return replace(record, experiment=replace(record.experiment, workloads=works))

    view = viewed(answers.TRADE, change)
    curves = [
        handin.Series(work.label, work.label, test, test, "record_bytes", size, METRICS["iops"],
                      {}, {})
        for work in view.experiment.workloads
        for test, size in [(work.parameters["test"], work.parameters["record_bytes"])]
        if size != 16 * KIB
    ]  # fmt: skip
    assert [(each.key, each.at) for each in handin._through_chosen(view, curves)] == [
        (test, size * KIB) for test in ("read", "write") for size in (4, 16, 64)
    ]


def test_a_table_for_programs_has_each_unit_and_each_row_its_margin(monkeypatch):
    columns = [tables.Column("name", text=True), tables.Column("a", "B/s"),
               tables.Column("b", "ns")]  # fmt: skip
    table = tables.build(TEXTS, "t", "T", columns, [["x", 1.0, 2.0]], ["one", "two"])
    monkeypatch.setattr(exchange, "study_tables", lambda view: [table])
    rows = tuple(replace(row, margin=0.01 * at) for at, row in enumerate(answers.TRADE.rows, 1))
    view = viewed(replace(answers.TRADE, rows=rows))
    assert exchange.one_table(view, "t", "csv", 80).splitlines()[0] == 'name,"a, B/s","b, ns"'
    cells = [line.rsplit(",", 1)[1] for line in exchange.csv_text(view).splitlines()[1:]]
    assert cells == [str(0.01 * at) for at in range(1, 6) for _ in answers.NAMES]


def test_a_share_is_the_median_and_a_candidate_is_late_as_often_as_it_was():
    reached = {"none": (0.1, 0.3, 0.2), "kyber": (0.9, 0.7, 0.8)}

    def change(record):
        runs = []
        for run in record.runs:
            if run.workload == answers.READER and run.candidate in reached and run.block < 3:
                of = {"share_asked": 0.75, "share_reached": reached[run.candidate][run.block],
                      "censored": run.candidate == "none" or run.block < 2,
                      "left_behind": ["init", "sh"][: 1 + run.block]}  # fmt: skip
                run = replace(run, properties=of)  # noqa: PLW2901
            runs.append(run)
        works = [replace(w, parameters={"shell": "ls"}) for w in record.experiment.workloads]
        return replace(record, runs=tuple(runs),
                       experiment=replace(record.experiment, workloads=tuple(works)))  # fmt: skip

    view = viewed(answers.TRADE, change)
    assert [*shares.share_lines(view, answers.READER)] == [
        TEXTS("shares.reached", name=name, reached=words.share(TEXTS, share),
              asked=words.share(TEXTS, 0.75)) for name, share in (("none", 0.2), ("kyber", 0.8))
    ]  # fmt: skip
    told = commands.command_lines(view)
    assert TEXTS("text.command_limit", names="none (3), kyber (2)") in told
    assert TEXTS("text.command_left", names="init (6), sh (4)") in told


def test_each_picture_has_its_number_and_all_items_of_its_legend_a_place():
    items = "".join(
        f'<li><svg class="key s{at}" viewBox="0 0 12 12"><i/></svg>{name}</li>'
        for at, name in enumerate(("short", "a name that is much longer", "third", "fourth"))
    )
    inside = "".join(f'<path class="s{at}"/><use href="#m{at}"/>' for at in range(4))
    page = f'<ul class="legend">{items}</ul>' + "".join(
        f'<svg class="chart" viewBox="0 0 {width} 50" aria-label="{title}">{inside}</svg>'
        for title, width in (("Two of it", 200), ("One of it", 4000))
    )
    drawn = standalone.figures(page, ["<svg><title>Other</title></svg>"])
    assert [*drawn] == ["001-two-of-it", "002-one-of-it", "003-other"]
    of = [re.findall(r"translate\(([\d.]+) ([\d.]+)\)", svg) for svg in drawn.values()]
    assert of[0] == [("0", "56"), ("0", "76"), ("0", "96"), ("72", "96")]
    assert [y for _, y in of[1]] == ["56"] * 4
    assert [float(x) for x, _ in of[1]] == sorted(float(x) for x, _ in of[1])
    assert {f'id="m{at}"' in svg for at in range(4) for svg in [*drawn.values()][:2]} == {True}


@pytest.mark.parametrize("order", ORDERS)
def test_lines_over_time_have_the_moments_of_all_and_each_its_own_bins(order, monkeypatch):
    view = viewed(answers.BEST)
    lines = [charts.ChartLine(0, [(1.0, 5.0), (3.0, 6.0)]), charts.ChartLine(1, [(2.0, 7.0)])]
    table = page_first.over_time(view, [lines[at] for at in order], "T", "ms")
    values = [[1.0, 5.0, None], [2.0, None, 7.0], [3.0, 6.0, None]]
    assert [[cell.number for cell in row.cells] for row in table.rows] == [
        [time, *(rest[at] for at in order)] for time, *rest in values
    ]
    assert [column.title for column in table.columns[1:]] == [f"{'ab'[at]}, ms" for at in order]
    drawn = []
    monkeypatch.setattr(page_first, "over_time", lambda view, lines, *of: drawn.extend(lines))
    why_of = [(name, SimpleNamespace(depth_series=series, bin_s=bin_s)) for name, series, bin_s in
              (("a", (1.0, 2.0), 0.5), ("b", (3.0, 4.0, 5.0), 0.1))]  # fmt: skip
    shallow = ("b", SimpleNamespace(depth_series=(1.0,), bin_s=1.0))
    rows = [shallow, *(why_of[at] for at in order)]
    page_first._depths(view, why.Why("w0", "", tuple(rows), ()))
    expected = [(0, [(0.25, 1.0), (0.75, 2.0)]), (1, [(0.05, 3.0), (0.15, 4.0), (0.25, 5.0)])]
    assert [(line.series, [pytest.approx(p) for p in line.points]) for line in drawn] == [
        expected[at] for at in order
    ]


def test_the_mean_of_a_chosen_point_is_that_of_both_arms_without_a_zero():
    arm = "a" + AA_SUFFIX
    values = {"a": {0: 1.0, 1: 4.0}, "b": {0: 0.0, 1: 4.0}, arm: {0: 2.0}}
    means = handin._geometric(viewed(answers.BEST), values)
    assert means == {"a": pytest.approx(2.0)}
