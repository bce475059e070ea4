"""The tables that a study hands in, from the analysed runs alone.

Every repetition, means, the index, totals by test and by size, and per process counts and CPU
bursts: `schedlab report DIR --tables`, a sheet of the workbook and a section of the page.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedlab.analyse.quantiles import half_width
from schedlab.nouns import AA_SUFFIX, Metric, Workload
from schedlab.nouns.quantities import size_text
from schedlab.report.fleet_table import fleet_tables
from schedlab.report.process_tables import INDEX, process_tables
from schedlab.report.tables import Chart, Column, Table, TableCell, build
from schedlab.report.view import View, flatten, record_bytes
from schedlab.report.workload_names import name_of

LEVEL = 0.95
# How the names of the tables of further metrics begin.
FURTHER = "curve-"
# Parameters that are a size: of the blocks of calls, of the records of a simulated process, and
# of a simulated buffer.
RECORDS = ("block_bytes", "processes.record")
SIZES = (*RECORDS, "buffer_bytes")


@dataclass(frozen=True)
class Series:
    """A workload: its test, its values by candidate and block, and where it is a point of a curve,
    the parameter `over` which that goes (a record size, alpha) with its value `at` this point.

    The A/A arm has values of its own. `figures` are those of the answer, by candidate. `label` and
    `key` are its workload and test in English, for the names of tables.
    """

    workload: str
    label: str
    test: str
    key: str
    over: str
    at: float
    metric: Metric
    values: Mapping[str, Mapping[int, float]]
    figures: Mapping[str, float | None]

    def runs(self, name: str) -> list[float]:
        """All runs of a candidate, those of its A/A arm among them."""
        arms = (self.values.get(label, {}) for label in (name, name + AA_SUFFIX))
        return [value for of in arms for value in of.values()]

    def by_block(self, name: str) -> dict[int, float]:
        """The arithmetic mean of a candidate's runs in each block."""
        arms = [self.values.get(label, {}) for label in (name, name + AA_SUFFIX)]
        blocks = dict.fromkeys(block for of in arms for block in of)
        return {b: statistics.fmean(of[b] for of in arms if b in of) for b in blocks}

    def mean(self, name: str) -> float | None:
        """The arithmetic mean of a candidate's runs."""
        return statistics.fmean(runs) if (runs := self.runs(name)) else None


@dataclass(frozen=True)
class Grand:
    """A mean over several workloads; `half` is the half-width of its 95 % interval."""

    mean: float
    half: float | None


def study_tables(view: View) -> list[Table]:
    """Every table of the study, in the order in which studies print them."""
    tables = [*_statements(view), *fleet_tables(view), *process_tables(view)]
    for part in parts(view):
        tables += [*_totals(view, part), *_means(view, part), *_index(view, part)]
        tables += _repetitions(view, part)
    tables += _curves(view)
    tables += [*_by_block_size(view), *_costs(view), *_knees(view), *_pareto(view)]
    return list(_named_to_type(tables))


def _named_to_type(tables: Sequence[Table]) -> Iterator[Table]:
    """The tables with names that a shell takes without quotes, of which no two are equal."""
    seen: Counter[str] = Counter()
    for table in tables:
        name = re.sub(r"[^\w.+]+", "-", table.name).strip("-")
        seen[name] += 1
        yield replace(table, name=name if seen[name] == 1 else f"{name}-{seen[name]}")


def _statements(view: View) -> list[Table]:
    """Published figures of a study beside the same figures of these runs."""
    texts, verdicts = view.texts, {True: "statements.yes", False: "statements.no"}
    rows = [
        [of.says, of.published, of.figure, ", ".join(filter(None, (of.workload, of.candidate))),
         "" if of.comes_out is None else texts(verdicts[of.comes_out])]
        for of in view.answer.statements
    ]  # fmt: skip
    if not rows:
        return []
    heads = ["says", "published", "here", "at", "verdict"]
    if not any(row[-1] for row in rows):  # figures without an interval are only shown
        rows, heads = [row[:-1] for row in rows], heads[:-1]
    columns = [Column(texts(f"statements.{head}"), text=head != "here", digits=4) for head in heads]
    notes = [statements_line(view)]
    return [build(texts, "statements", texts("statements.title"), columns, rows, notes)]


def statements_line(view: View) -> str:
    """How many of the published statements come out; empty where none can be compared."""
    judged = [of.comes_out for of in view.answer.statements if of.comes_out is not None]
    counts = {"count": sum(judged), "all": len(judged)}
    return view.texts("statements.comes_out", **counts) if judged else ""


def parts(view: View) -> list[list[Series]]:
    """The primary metric of every workload, by metric, negative controls apart."""
    grouped: dict[tuple[str, bool], list[Series]] = {}
    for series in every_series(view):
        key = (series.metric.name, view.is_control(series.workload))
        grouped.setdefault(key, []).append(series)
    return list(grouped.values())


def every_series(view: View) -> list[Series]:
    """The primary metric of every workload that has a value."""
    works = view.experiment.workloads
    return _series(view, [(work, view.experiment.metric(work)) for work in works])


def _series(view: View, measured: Sequence[tuple[Workload, Metric]]) -> list[Series]:
    """A metric of each workload, where it has a value."""
    points = {work.label: _point(view, work) for work, _ in measured}
    tests = Counter((points[work.label][0], metric.name) for work, metric in measured)
    found = []
    for work, metric in measured:
        values = _values(view, work.label, metric)
        if any(values.values()):
            key, over, at = points[work.label]
            if over and over != "record_bytes" and tests[key, metric.name] < 2:
                key, over, at = view.labels[work.label], "", 0.0
            figures = _figures_of(view, work.label, metric)
            about = (work.label, view.labels[work.label], name_of(view.texts, key), key)
            found.append(Series(*about, over, at, metric, values, figures))
    return _through_chosen(view, found)


def _values(view: View, label: str, metric: Metric) -> dict[str, dict[int, float]]:
    """The values of a metric on a workload, by candidate or A/A arm, and block."""
    values: dict[str, dict[int, float]] = {name: {} for name in (*view.names, *view.arms)}
    for run in view.runs_by_workload.get(label, ()):
        value = run.metrics.get(metric.name, math.nan)
        if run.candidate in values and math.isfinite(value):
            values[run.candidate][run.block] = value
    return values


def _through_chosen(view: View, found: Sequence[Series]) -> list[Series]:
    """With the point at the chosen value of a curve's parameter, where a workload that measured
    something else is the same work with that value.
    """
    works = {work.label: work for work in view.experiment.workloads}
    facts = {label: dict(flatten(work.parameters)) for label, work in works.items()}
    points = list(found)
    for series in found:
        at = works[series.workload].chosen.get(series.over)
        curve = [s for s in points if (s.key, s.metric) == (series.key, series.metric)]
        if at is None or any(at == s.at for s in curve):
            continue
        wanted = facts[series.workload] | {series.over: at}
        for label in (label for label, own in facts.items() if own == wanted):
            values = _values(view, label, series.metric)
            one = replace(series, workload=label, label=view.labels[label], at=at, values=values,
                          figures=_geometric(view, values))  # fmt: skip
            before = [s for s in curve if s.at < at]
            points.insert(points.index(before[-1] if before else curve[0]) + bool(before), one)
    return points


def _geometric(view: View, values: Mapping[str, Mapping[int, float]]) -> dict[str, float | None]:
    """The geometric mean of each candidate's values and of its A/A arm's."""
    known = {n: [*values[n].values(), *values.get(n + AA_SUFFIX, {}).values()] for n in view.names}
    return {name: statistics.geometric_mean(of) for name, of in known.items() if all(of) and of}


def _figures_of(view: View, workload: str, metric: Metric) -> dict[str, float | None]:
    """The values of the answer on a workload; none where it has no row of this metric."""
    for row in view.answer.rows:
        if row.workload == workload and row.metric and row.metric.name == metric.name:
            return {name: cell.value for name, cell in view.answer.cells[row.name].items()}
    return {}


def _point(view: View, work: Workload) -> tuple[str, str, float]:
    """The test of a workload in English, the parameter over which a curve goes, and its value
    there: the record size, what its label says beside a parameter of the candidates, or beside the
    size of its simulated records or buffer.
    """
    own = view.labels[work.label]
    if size := record_bytes(work.parameters):
        return str(work.parameters.get("test", own)), "record_bytes", size
    for key in (*work.chosen, *SIZES):
        value = work.parameter(key)
        if isinstance(value, int | float) and value > 0:
            label = own.replace(_value(key, value), "")
            return " ".join(label.split()).replace(" ,", ",").rstrip(","), key, value
    return own, "", 0.0


def _value(over: str, at: float, digits: int = 0) -> str:
    """The value of a parameter as text: sizes with their unit."""
    is_size = over.endswith("_bytes") or over in SIZES
    return size_text(int(at), digits) if is_size else str(at)


def _title(view: View, part: Sequence[Series]) -> str:
    """The title of a column of sizes, or of another parameter."""
    over = next((series.over for series in part if series.over), "")
    name = over.rpartition(".")[2].removesuffix("_bytes")
    return view.texts.maybe(f"column.{name}_size", name)


def _has_records(part: Sequence[Series]) -> bool:
    return any(series.over in ("record_bytes", *RECORDS) for series in part)


def _head(view: View, part: Sequence[Series]) -> tuple[list[Column], list[list[Any]]]:
    """The columns that name a workload, and their values: its test and record size, or itself."""
    texts = view.texts
    if not any(series.over for series in part):
        return [Column(texts("column.workload"), text=True)], [[s.workload] for s in part]
    head = [Column(texts("column.test"), text=True), Column(_title(view, part), text=True)]
    return head, [[s.test, _value(s.over, s.at, 6) if s.over else ""] for s in part]


def _named(view: View, part: Sequence[Series], key: str) -> str:
    metric = view.texts.metric(part[0].metric)
    if len(part) == 1:
        metric = view.texts("row.of", workload=part[0].workload, metric=metric)
        return view.texts(f"table.{key}", metric=metric, baseline=view.baseline)
    title = view.texts(f"table.{key}", metric=metric, baseline=view.baseline)
    return title[:1].upper() + title[1:]


def _means(view: View, part: Sequence[Series]) -> list[Table]:
    """The figures of the answer, and arithmetic means with the half-widths of their intervals.

    Record sizes × candidates for every test that has several; workloads × candidates; or a row
    for each candidate where there is one workload.
    """
    texts, unit = view.texts, part[0].metric.unit
    title, name = _named(view, part, "means"), f"means-{part[0].metric.name}"
    if len(part) == 1:
        return [_of_candidates(view, part[0], f"{name}-{part[0].label}", title)]
    by_test: dict[str, list[Series]] = {}
    for series in part:
        by_test.setdefault(series.key if series.over else "", []).append(series)
    tables = []
    for key, rows in by_test.items():
        test = rows[0].test if key else ""
        head = _title(view, rows) if test else texts("column.workload")
        columns = [Column(head, text=True), *_with_mean(view, unit)]
        body: list[list[Any]] = []
        for series in sorted(rows, key=lambda s: s.at):
            first: Any = (
                TableCell(_value(series.over, series.at, 6), float(series.at))
                if series.over
                else series.workload
            )
            body.append([first, *_with_figures(view, series)])
        about = (f"{name}-{key}", f"{title}: {test}") if test else (name, title)
        chart: Chart = "lines" if test and len(rows) > 1 else "dots"
        tables.append(build(texts, *about, columns, body, [_half_note(view)], chart))
    return tables


def _curves(view: View) -> list[Table]:
    """Means of each further metric over the sizes, or the parameter, of a test."""
    works = view.experiment.workloads
    further = [(work, view.metric(name)) for work in works for name in work.secondary]
    curves: dict[tuple[str, str], list[Series]] = {}
    for series in _series(view, further):
        if series.over:
            curves.setdefault((series.metric.name, series.key), []).append(series)
    tables = []
    for (metric, key), rows in curves.items():
        if len(rows) < 2:
            continue
        columns = [Column(_title(view, rows), text=True), *_paired(view, rows[0].metric.unit)]
        body = [
            [TableCell(_value(s.over, s.at, 6), float(s.at)), *_with_halves(view, [s])]
            for s in sorted(rows, key=lambda s: s.at)
        ]
        title = f"{_named(view, rows, 'means')}: {rows[0].test}"
        name = f"{FURTHER}{metric}-{key}"
        tables.append(build(view.texts, name, title, columns, body, [_half_note(view)], "lines"))
    return tables


def _of_candidates(view: View, one: Series, name: str, title: str) -> Table:
    """A row for each candidate: its figure, arithmetic mean, half-width, range, runs."""
    texts, unit = view.texts, one.metric.unit
    columns = [
        Column(texts("column.candidate"), text=True),
        Column(texts("column.geometric"), unit, digits=4, beside=True),
        Column(texts("column.arithmetic"), unit, digits=4),
        Column("±", unit, half=True), Column(texts("column.least"), unit, digits=4, beside=True),
        Column(texts("column.most"), unit, digits=4, beside=True),
        Column(texts("column.runs"), decimals=0, beside=True),
        Column(texts("column.index"), decimals=1, beside=True),
    ]  # fmt: skip
    body: list[list[Any]] = []
    base = one.figures.get(view.baseline)
    for label in view.names:
        known, figure = one.runs(label), one.figures.get(label)
        if (of := grand([one], label)) is not None:
            index = INDEX * figure / base if base and figure is not None else None
            ends = (min(known), max(known), len(known))
            body.append([label, figure, of.mean, of.half, *ends, index])
    notes = [_half_note(view)] if any(row[3] is not None for row in body) else []
    return build(texts, name, title, columns, body, notes, chart="dots")


def _paired(view: View, unit: str) -> list[Column]:
    """Two columns for each candidate: its mean, and the half-width."""
    pairs = ((Column(n, unit, digits=4), Column("±", unit, half=True)) for n in view.names)
    return [column for pair in pairs for column in pair]


def _with_mean(view: View, unit: str) -> list[Column]:
    """Three columns for each candidate: its arithmetic mean, the half-width, and its figure."""
    title = view.texts("column.geometric")
    return [
        column
        for name in view.names
        for column in (
            Column(name, unit, digits=4),
            Column("±", unit, half=True),
            Column(title, unit, digits=4, beside=True),
        )
    ]


def _with_figures(view: View, series: Series) -> list[float | None]:
    row: list[float | None] = []
    for name in view.names:
        of = grand([series], name)
        row += [*((of.mean, of.half) if of else (None, None)), series.figures.get(name)]
    return row


def _with_halves(view: View, series: Sequence[Series]) -> list[float | None]:
    row: list[float | None] = []
    for name in view.names:
        of = grand(series, name)
        row += [of.mean, of.half] if of else [None, None]
    return row


def _half_note(view: View) -> str:
    return view.texts("table.half", level=view.texts.margin(LEVEL))


def _index(view: View, part: Sequence[Series]) -> list[Table]:
    """Every figure in per cent of the baseline's."""
    if len(view.names) < 2 or len(part) < 2:
        return []
    head, rows = _head(view, part)
    columns = [*head, *(Column(name, decimals=1) for name in view.names)]
    body = []
    for row, series in zip(rows, part, strict=True):
        base = series.figures.get(view.baseline)
        own = map(series.figures.get, view.names)
        body.append([*row, *(INDEX * v / base if v is not None and base else None for v in own)])
    name = f"index-{part[0].metric.name}"
    return [build(view.texts, name, _named(view, part, "index"), columns, body)]


def _totals(view: View, part: Sequence[Series]) -> list[Table]:
    """Grand means per test over its record sizes, and per record size over its tests."""
    texts, sizes = view.texts, sorted({s.at for s in part if s.over})
    if len(sizes) < 2 or not _has_records(part):
        return []
    tests = dict.fromkeys(s.test for s in part)
    by_test = [(test, [s for s in part if s.test == test]) for test in tests]
    by_size = [(size_text(int(at), 6), [s for s in part if s.at == at]) for at in sizes]
    return [
        _grand_table(view, part, "by_test", texts("column.test"), by_test),
        _grand_table(view, part, "by_size", _title(view, part), by_size),
    ]


def _grand_table(
    view: View,
    part: Sequence[Series],
    key: str,
    label: str,
    groups: Sequence[tuple[str, Sequence[Series]]],
) -> Table:
    columns = [Column(label, text=True), *_paired(view, part[0].metric.unit)]
    rows = [[title, *_with_halves(view, series)] for title, series in groups]
    title, name = _named(view, part, key), f"{key.replace('_', '-')}-{part[0].metric.name}"
    return build(view.texts, name, title, columns, rows, [_half_note(view)], chart="dots")


def grand(columns: Sequence[Series], candidate: str) -> Grand | None:
    """The mean over whole blocks and its Student interval; with one of them or none, the mean of
    the workloads' means. A lost run moves neither by the level of its workload.
    """
    by_block = [column.by_block(candidate) for column in columns]
    blocks = set.intersection(*map(set, by_block))
    if len(blocks) < 2:
        means = [mean for column in columns if (mean := column.mean(candidate)) is not None]
        return Grand(statistics.fmean(means), None) if len(means) == len(columns) else None
    each = [statistics.fmean(of[b] for of in by_block) for b in blocks]
    return Grand(statistics.fmean(each), half_width(each))


def _repetitions(view: View, part: Sequence[Series]) -> list[Table]:
    """Every value and the means: candidates × repetitions where there is one workload, else
    workloads × repetitions, a table for each candidate.
    """
    title, name = _named(view, part, "repetitions"), f"runs-{part[0].metric.name}"
    if len(part) == 1:
        heads = [Column(view.texts("column.candidate"), text=True)]
        labels = (*view.names, *view.arms)
        rows: list[tuple[list[Any], Series, str]] = [([n], part[0], n) for n in labels]
        return [_every_run(view, f"{name}-{part[0].label}", title, heads, rows)]
    heads, titles = _head(view, part)
    return [
        _every_run(
            view, f"{name}-{label}", f"{title}: {label}", heads,
            [(row, series, label) for row, series in zip(titles, part, strict=True)],
        )
        for label in (*view.names, *view.arms)
        if any(series.values[label] for series in part)
    ]  # fmt: skip


def _every_run(
    view: View,
    name: str,
    title: str,
    heads: Sequence[Column],
    rows: Sequence[tuple[list[Any], Series, str]],
) -> Table:
    """Rows of the values of a candidate (or of the A/A arm) in every block, and its mean."""
    unit = rows[0][1].metric.unit
    blocks = sorted({block for _, series, label in rows for block in series.values[label]})
    numbers = [Column(str(view.record.number_of(b)), unit, digits=4) for b in blocks]
    columns = [*heads, *numbers, Column(view.texts("column.arithmetic"), unit, digits=4)]
    body = [
        [*first, *(series.values[label].get(b) for b in blocks),
         None if label in view.arms else series.mean(label)]
        for first, series, label in rows
    ]  # fmt: skip
    return build(view.texts, name, title, columns, body)


def _by_block_size(view: View) -> list[Table]:
    """The time of all calls of each block size, in s, and in per cent of the smallest one's: a
    table for each test.
    """
    texts = view.texts
    works = [w for w in view.experiment.workloads if record_bytes(w.parameters, "block_bytes")]
    tests: dict[str, list[tuple[float, str]]] = {}
    for test, _, size, label in sorted((*_point(view, w), w.label) for w in works):
        tests.setdefault(test, []).append((size, label))
    columns = [Column(texts("column.block_size"), text=True)]
    columns.append(Column(texts("column.calls"), decimals=0, beside=True))
    for name in view.names:
        columns += [Column(name, "s"), Column(texts("column.index"), decimals=1, beside=True)]
    tables = []
    for test, sizes in tests.items():
        means = [[_mean_time_s(view, label, name) for name in view.names] for _, label in sizes]
        rows: list[list[Any]] = []
        for (size, label), times in zip(sizes, means, strict=True):
            first: Any = TableCell(_value("block_bytes", size, 6), float(size))
            row: list[Any] = [first, _calls(view, label)]
            for time_s, first_s in zip(times, means[0], strict=True):
                row += [time_s, INDEX * time_s / first_s if time_s and first_s else None]
            rows.append(row)
        title = texts("table.by_block_size", test=name_of(texts, test))
        if len(rows) > 1:
            name = f"by-block-size-{test}"
            tables.append(build(texts, name, title, columns, rows, chart="lines"))
    return tables


def _calls(view: View, workload: str) -> int | None:
    """The number of calls of each run on a workload."""
    runs = view.runs_by_workload.get(workload, ())
    return next((run.properties["calls"] for run in runs if "calls" in run.properties), None)


def _mean_time_s(view: View, workload: str, candidate: str) -> float | None:
    """The mean time of the runs of a candidate on a workload."""
    runs = [r for r in view.runs_by_workload.get(workload, ()) if r.candidate == candidate]
    times = [r.metrics["elapsed_s"] for r in runs if "elapsed_s" in r.metrics]
    return statistics.fmean(times) if times else None


def _costs(view: View) -> list[Table]:
    """The time of a call, where the time of the runs grows with the number of their calls."""
    texts = view.texts
    rows = [
        [flag.workload or texts.listed(flag.candidates), flag.values["seconds_per_call"],
         flag.values["constant_s"], INDEX * flag.values["explained"]]
        for flag in view.answer.flags
        if flag.kind == "call-cost"
    ]  # fmt: skip
    if not rows:
        return []
    columns = [
        Column(texts("column.workload"), text=True), Column(texts("column.costs"), "s"),
        Column(texts("column.constant"), "s"), Column(f"{texts('column.explained')}, %"),
    ]  # fmt: skip
    return [build(texts, "costs", texts("table.costs"), columns, rows)]


def _knees(view: View) -> list[Table]:
    """Where the metric bends over an ordered size of the workloads, or why it does not."""
    texts = view.texts
    shown = [knee for knee in view.answer.knees if knee.reason != "too few values"]
    rows: list[list[Any]] = []
    for knee in shown:
        kind = texts("row.of", workload=knee.family, metric=texts.metric(knee.metric))
        places = [_place(view, knee.size, at) for at in (knee.knee, knee.low, knee.high)]
        remark = {"straight": "text.knee_straight", "edge": "text.knee_edge"}.get(knee.reason)
        slopes = [knee.slope_before, knee.slope_after]
        rows.append([kind, knee.candidate, *places, *slopes, texts(remark) if remark else ""])
    if not rows:
        return []
    heads = ("test", "candidate", "knee", "low", "high", "before", "after", "remark")
    columns = [
        Column(texts(f"column.{head}"), text=head not in ("before", "after")) for head in heads
    ]
    notes = [texts("text.knees_intro")]
    return [build(texts, "knees", texts("section.knees"), columns, rows, notes)]


def _place(view: View, size: str, value: float | None) -> str | None:
    if value is None:
        return None
    if size.endswith("_bytes"):
        return size_text(value, 3).replace(".", view.texts.decimal)
    return view.texts.figure(value)


def _pareto(view: View) -> list[Table]:
    """Throughput against p99 latency, a table for each workload that measured both."""
    texts = view.texts
    tables: list[Table] = []
    for label, points in view.answer.pareto.items():
        fast, slow = (
            view.metric(name) for name in (points[0].throughput_metric, points[0].latency_metric)
        )
        columns = [
            Column(texts("column.candidate"), text=True),
            Column(texts.metric(fast), fast.unit),
            Column(texts.metric(slow), slow.unit),
            Column(texts("column.dominated"), text=True),
        ]
        rows = [
            [p.candidate, p.throughput, p.latency, texts.listed(p.dominated_by)] for p in points
        ]
        title = texts("row.of", workload=label, metric=texts("section.pareto"))
        notes = [texts("text.pareto_intro")] if not tables else []
        tables.append(build(texts, f"pareto-{view.labels[label]}", title, columns, rows, notes))
    return tables
