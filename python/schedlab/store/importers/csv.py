"""A table (CSV, .xlsx), by a mapping of its columns.

It is in the long format, with a header line. Fields may be separated by commas, semicolons or tabs,
decimals by a point or a comma; what was assumed is a note. Blank cells that name something are
refused: a merged cell of a spreadsheet has its value only in its first row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns import METRICS, Experiment, Metric, PublishedMean
from schedlab.nouns.quantities import size_text
from schedlab.store.importers.imported import RUNS_MAX, Imported, Options, Reading, assemble
from schedlab.store.importers.tables import Decimals, last_digit, split_unit, table
from schedlab.store.importers.text import bad
from schedlab.store.importers.units import Quantity, is_known, quantity

# What spreadsheets call rows about other rows, in the languages that they speak most.
_TOTALS = """
    average avg avg. mean median total totals subtotal sum geomean stdev std std. stddev std.dev. σ
    deviation
    mittelwert durchschnitt summe gesamt gesamtsumme gesamtergebnis zwischensumme teilergebnis
    ergebnis standardabweichung
    moyenne médiane somme sous-total écart-type promedio mediana suma média soma totale somma
    среднее медиана итого итог всего сумма отклонение
    평균 평균값 합계 총합계 총계 소계 중앙값 표준편차 요약
    平均 平均値 平均值 合計 合计 总计 總計 小計 小计 中央値 中位数 標準偏差 标准差
    """
# Words beside them.
_OF_TOTALS = """
    grand geometric arithmetic harmonic standard dev dev. value values of all overall général
    general значение общий общее стандартное арифметическое
    """

Unit = tuple[str, float]  # as written, and how many of the metric's own one is


@dataclass(frozen=True)
class Columns:
    """Which column is what.

    `value` is a column (even `MB/s`, where the header has it) or the ratio of two
    (`calculations/cpu_burst_s`). `sum_over` names columns whose rows are parts of one run: they
    are added up, before the ratio. `metric_column` holds what was measured: the name of a known
    metric, or of another one with its unit. `constants` are added to the parameters of every
    workload. `cpu_share[w]` is the workload whose figures are CPU seconds of w: they become its
    metric `cpu_s` and its CPU share.
    """

    candidate: tuple[str, ...]
    value: str
    workload: tuple[str, ...] = ()
    block: str = ""
    unit: str = ""
    metric: str = ""
    unit_column: str = ""
    metric_column: str = ""
    higher_is_better: bool | None = None
    binary_units: bool = False
    sum_over: tuple[str, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    cpu_share: Mapping[str, str] = field(default_factory=dict)

    def figures(self, header: Collection[str]) -> list[str]:
        """The column of the figures, or the two of a ratio; SpecError for more than two."""
        names = [self.value] if self.value in header else self.value.split("/")
        if len(names) > 2:
            raise SpecError(f"--value {self.value}", "name a column, or a ratio COLUMN/COLUMN")
        return names

    def used(self, header: Collection[str]) -> list[str]:
        """Every column that a file with this header must have."""
        single = filter(None, [self.block, self.unit_column, self.metric_column])
        figures = self.figures(header)
        return [*self.candidate, *figures, *self.workload, *single, *self.sum_over]

    @property
    def names(self) -> list[str]:
        """The columns that tell runs apart: their cells must not be blank."""
        single = filter(None, [self.block, self.unit_column, self.metric_column])
        return [*self.candidate, *self.workload, *single]


@dataclass
class _Group:
    """Rows of one run, and what they add up to in the metric's unit; `digit` is the value of the
    last one that is printed (0: not known).
    """

    place: str
    row: Mapping[str, str]
    quantity: Quantity
    sums: list[float]
    digit: float = 0.0


def read(
    path: Path, columns: Columns, options: Options, means: Path | None = None, sheet: str = ""
) -> Imported:
    """The import of one file, with the means that a second one has of its rows, if there are any.

    `sheet` is that of a workbook (the first one if empty). SpecError naming file, line, the
    expected and the actual text.
    """
    metrics: dict[str, Metric] = dict(options.metrics)
    notes: dict[str, None] = {}
    units: dict[str, Unit] = {}
    readings = []
    listed = list(rows(path, columns.used, sheet, notes))
    _check_header(path, columns, listed)
    columns = _with_unit(columns, listed[0][1] if listed else (), notes)
    for group in _groups(listed, columns, notes):
        metrics[group.quantity.metric.name] = group.quantity.metric
        if group.quantity.note:
            notes[group.quantity.note] = None
        readings.append(_reading(group, columns))
        unit = group.row[columns.unit_column] if columns.unit_column else columns.unit
        units.setdefault(readings[-1].workload, (unit, group.quantity.factor))
    readings = _with_cpu_share(readings, columns.cpu_share)
    merged = replace(options, metrics=metrics).noted(notes)
    imported = assemble(readings, merged, {"format": "csv", "file": str(path)})
    if means is None:
        return imported
    published = tuple(published_means(means, columns, imported.experiment, units))
    return replace(imported, experiment=replace(imported.experiment, published=published))


def published_means(
    path: Path, columns: Columns, experiment: Experiment, units: Mapping[str, Unit]
) -> Iterator[PublishedMean]:
    """Means printed beside the rows; `units[workload]` is what its rows are in.

    The file has the candidate's columns, some of the workload's (a mean is over the others), and
    the value's column or `mean`. SpecError on anything else.
    """
    matched = 0
    known = (*columns.workload, columns.metric_column)
    notes: dict[str, None] = {}
    listed = list(rows(path, lambda _: columns.candidate, notes=notes))
    header: Collection[str] = listed[0][1] if listed else ()
    value = "mean" if "mean" in header else columns.value
    if listed and value not in header:
        raise bad(listed[0][0], f"a column `mean` or {value!r}", ", ".join(header))
    decimals = Decimals(((place, row[value]) for place, row in listed), notes)
    for place, row in listed:
        matched += 1
        names = [name for name in row if name in known]
        wanted = {name: typed(row[name]) for name in names}
        members = tuple(
            w.label
            for w in experiment.workloads
            if all(w.parameters.get(name) == text for name, text in wanted.items())
        )
        units_of = {units[label] for label in members}
        if len(units_of) > 1:
            shown = " and ".join(sorted(unit for unit, _ in units_of))
            raise bad(place, "a mean over figures of one unit", shown)
        unit, factor = next(iter(units_of), (columns.unit, 1.0))
        yield PublishedMean(
            candidate=" ".join(row[name] for name in columns.candidate),
            group=" ".join(_shown(name, row[name]) for name in names) or "all workloads",
            workloads=members,
            mean=decimals.number(place, value, row[value]),
            unit=unit,
            factor=factor,
            last_digit=last_digit(decimals.plain(row[value])),
        )
    if not matched:
        raise bad(str(path), "at least one mean", "none")


def rows(
    path: Path,
    used: Callable[[Collection[str]], Iterable[str]],
    sheet: str = "",
    notes: dict[str, None] | None = None,
) -> Iterator[tuple[str, dict[str, str]]]:
    """(place, row by column name) of a table; SpecError when a column that is `used` of the header
    is missing. What was assumed of the file is added to `notes`.
    """
    lines = table(path, sheet, notes if notes is not None else {})
    place, names = next(lines, ("", []))
    if not any(names):
        raise bad(f"{path}, line 1", "a header line with the names of the columns", "nothing")
    while not names[-1]:
        names.pop()
    if len(set(names)) != len(names):
        raise bad(place, "a different name for each column", ", ".join(names))
    for name in used(names):
        if name not in names:
            raise SpecError(f"{place}: has no column {name!r}", f"columns: {', '.join(names)}")
    for place, values in lines:
        while len(values) > len(names) and not values[-1]:
            values.pop()
        if len(values) != len(names):
            found = f"{len(values)} fields: {', '.join(values)}"
            raise bad(place, f"{len(names)} fields", found)
        if any(values):
            yield place, dict(zip(names, values, strict=True))


def _check_header(
    path: Path, columns: Columns, listed: Sequence[tuple[str, dict[str, str]]]
) -> None:
    """SpecError where the line of names is itself a row: its figure would be lost."""
    named = [n for n in columns.names if any(row[n] == n for _, row in listed)]
    if named and re.fullmatch(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?", columns.value, re.IGNORECASE):
        hint = "put a line with the names of the columns above the first row"
        raise bad(f"{path}, line 1", "names of the columns", f"{named[0]}, {columns.value}", hint)


def _with_unit(columns: Columns, header: Collection[str], notes: dict[str, None]) -> Columns:
    """The mapping with the unit in the name of the figures' column, where none is stated: of a
    column `rate (MB/s)`, `rate [MB/s]` or `MB/s`.
    """
    behind = re.fullmatch(r".*[(\[]([^()\[\]]+)[)\]]", columns.value)
    unit = behind[1].strip() if behind else columns.value
    if columns.unit or columns.unit_column or columns.value not in header or not is_known(unit):
        return columns
    notes[f"the unit of {columns.value!r} is {unit}"] = None
    return replace(columns, unit=unit)


def _groups(
    listed: Sequence[tuple[str, dict[str, str]]], columns: Columns, notes: dict[str, None]
) -> list[_Group]:
    """The rows, those added up that belong to one run."""
    known: dict[tuple[str, str], Quantity] = {}
    groups: dict[Any, _Group] = {}
    parts: dict[Any, str] = {}
    seen: set[str] = set()
    spellings: dict[tuple[str, str], str] = {}
    decimals = Decimals(_written(listed, columns), notes)
    for place, row in listed:
        if blank := [name for name in columns.names if not row[name]]:
            hint = "is it a merged cell of a spreadsheet? Fill it down there (Ctrl-D)"
            raise SpecError(f"{place}: has no {blank[0]}", hint)
        _refuse_totals(place, [row[name] for name in columns.names], seen)
        for name in {*columns.candidate, *columns.workload}:
            spelled = spellings.setdefault((name, row[name].casefold()), row[name])
            if spelled != row[name]:
                hint = "write it in one way: two spellings would be two names"
                raise bad(place, f"{name} {spelled}, as above", row[name], hint)
        cells, what = _cells(place, row, columns, known)
        is_one = not (columns.unit_column or columns.metric_column)
        other = next(iter(groups.values()), None) if is_one else None
        if other and what.metric != other.quantity.metric:
            expected, found = f"a figure like that in {other.place}", row.get(columns.value, "")
            raise bad(place, expected, found, "import each quantity on its own")
        values = [decimals.number(place, name, text) for name, text in cells.items()]
        values[0] *= what.factor
        digit = (
            last_digit(decimals.plain(next(iter(cells.values())))) * what.factor
            if len(values) == 1
            else 0.0
        )
        key: Any = place
        if columns.sum_over:
            names = [*columns.candidate, *columns.workload, columns.metric_column, columns.block]
            key = tuple(row[name] for name in names if name)
            part = ", ".join(f"{name} {row[name]}" for name in columns.sum_over)
            if (first := parts.setdefault((key, part), place)) is not place:
                hint = "name the column of the repetition with --block"
                raise SpecError(f"{place}: {part} of this run is already in {first}", hint)
        if key in groups:
            if what.metric != groups[key].quantity.metric:
                expected = f"a unit like that in {groups[key].place}"
                raise bad(place, expected, row[columns.unit_column])
            groups[key].sums = [a + b for a, b in zip(groups[key].sums, values, strict=True)]
            groups[key].digit = min(groups[key].digit, digit)
            continue
        if len(groups) >= RUNS_MAX:
            raise SpecError(f"{place}: more than {RUNS_MAX} runs", "import a part of the file")
        groups[key] = _Group(place, row, what, values, digit)
    return list(groups.values())


def _written(
    listed: Iterable[tuple[str, Mapping[str, str]]], columns: Columns
) -> Iterator[tuple[str, str]]:
    """(place, figure without its unit) of all rows."""
    for place, row in listed:
        for name in columns.figures(row):
            yield place, split_unit(row[name])[0]


def _refuse_totals(place: str, names: Iterable[str], seen: set[str]) -> None:
    """SpecError for a row that sums up others: `Average`, or `bfq Average` below rows of `bfq`.
    `seen` gets the names.
    """
    totals, of_totals = set(_TOTALS.split()), set(_OF_TOTALS.split())
    for name in names:
        words = re.split(r"[\s_:]+", name.lower().strip(" :*"))
        for first in range(len(words)):
            rest = words[first:]
            is_total = totals & {*rest} and totals | of_totals >= {*rest}
            if is_total and (not first or " ".join(words[:first]) in seen):
                hint = "remove the row: means and totals are computed from the others"
                raise SpecError(f"{place}: {name!r} is a row about other rows", hint)
        seen.add(" ".join(words))


def _cells(
    place: str, row: Mapping[str, str], columns: Columns, known: dict[tuple[str, str], Quantity]
) -> tuple[dict[str, str], Quantity]:
    """(figures by their columns, what they are): a figure may have its unit behind it."""
    names = columns.figures(row)
    what = unit = ""
    cells = {name: split_unit(row[name]) for name in names}
    if len(names) == 1:
        what, unit = row[names[0]], cells[names[0]][1]
    if not unit:
        return {name: row[name] for name in names}, _quantity(row, columns, known)
    quantity_ = _quantity(row, columns, known, unit)
    stated = row[columns.unit_column] if columns.unit_column else columns.unit
    if stated and _quantity(row, columns, known).factor != quantity_.factor:
        raise bad(place, f"a figure in {stated}", what, "omit --unit: the cells have their own")
    return {name: text for name, (text, _) in cells.items()}, quantity_


def _quantity(
    row: Mapping[str, str],
    columns: Columns,
    known: dict[tuple[str, str], Quantity],
    unit: str = "",
) -> Quantity:
    unit = unit or (row[columns.unit_column] if columns.unit_column else columns.unit)
    measured = row[columns.metric_column] if columns.metric_column else ""
    key = (unit, measured)
    if key not in known:
        name = measured if measured in METRICS else columns.metric
        own = measured or columns.value.replace("/", "_per_")
        known[key] = quantity(unit, columns.higher_is_better, name, columns.binary_units, own)
    return known[key]


def _reading(group: _Group, columns: Columns) -> Reading:
    row, figures = group.row, group.sums
    if len(figures) == 2 and figures[1] == 0:
        raise bad(group.place, "a divisor above 0", str(figures[1]))
    value = figures[0] / figures[1] if len(figures) == 2 else figures[0]
    if value < 0 or (value == 0 and not group.quantity.metric.higher_is_better):
        raise bad(group.place, f"a {columns.value} above 0 (ratios need it)", str(value))
    names = [name for name in (*columns.workload, columns.metric_column) if name]
    names = list(dict.fromkeys(names))
    return Reading(
        place=group.place,
        candidate=" ".join(row[name] for name in columns.candidate),
        workload=" ".join(_shown(name, row[name]) for name in names) or columns.value,
        metrics={group.quantity.metric.name: value},
        properties={"steps": {group.quantity.metric.name: group.digit}} if group.digit else {},
        block=row[columns.block] if columns.block else "",
        settings={name: typed(row[name]) for name in columns.candidate},
        parameters={name: typed(row[name]) for name in names} | dict(columns.constants),
    )


def typed(text: str) -> str | int | float:
    """A whole number as such, everything else as text."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 18 else text


def _shown(column: str, text: str) -> str:
    """A size in its largest whole unit when the column's name means bytes."""
    size = typed(text)
    if not column.endswith("_bytes") or not isinstance(size, int) or size <= 0:
        return text
    return size_text(size)


def _with_cpu_share(readings: Sequence[Reading], shares: Mapping[str, str]) -> list[Reading]:
    """Readings of CPU time folded into the runs whose CPU time they are."""
    labels = {reading.workload for reading in readings}
    for label in (*shares, *shares.values()):
        if label not in labels:
            hint = f"workloads: {', '.join(sorted(labels))}"
            raise SpecError(f"--cpu-share: {label!r} is not a workload of the data", hint)
    folded = set(shares.values())
    values: dict[tuple[str, str, str], list[float]] = {}
    result, numbers = [], []
    for reading in readings:
        same = values.setdefault((reading.workload, reading.candidate, reading.block), [])
        numbers.append(len(same))
        same.append(next(iter(reading.metrics.values())))
    for number, reading in zip(numbers, readings, strict=True):
        if reading.workload in folded:
            continue
        own = (reading.workload, reading.candidate, reading.block)
        of = shares.get(reading.workload, "")
        seconds = values.get((of, *own[1:]), [])
        wall_s = reading.metrics.get("elapsed_s")
        if not seconds or wall_s is None:
            result.append(reading)
            continue
        if len(seconds) != len(values[own]):
            expected = f"{len(values[own])} rows of {of!r}, one per row of {reading.workload!r}"
            hint = "name the column of the repetition with --block"
            raise bad(reading.place, expected, str(len(seconds)), hint)
        cpu_s = seconds[number]
        metrics = {**reading.metrics, "cpu_s": cpu_s}
        properties = {**reading.properties, "cpu_share": cpu_s / wall_s}
        result.append(replace(reading, metrics=metrics, properties=properties))
    return result
