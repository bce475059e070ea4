"""Heat maps of latency over time: small multiples, one for each candidate, all on one scale.

A run of each, from the same block. The darker a cell, the more requests of that latency completed
then; where nothing completed, the column is empty and marked below.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from schedlab.nouns.answer import Row
from schedlab.nouns.results import LatencySeries
from schedlab.report import markup
from schedlab.report.drawing import n, picture, text
from schedlab.report.tables import Column, Table, build
from schedlab.report.view import View
from schedlab.report.why import group_name

COLUMNS, ROWS, LEVELS = 48, 28, 5
# Of a map: its size in pixels, and the room for its axes.
WIDTH, HEIGHT = 192, 112
LEFT, BOTTOM = 50, 22
# Bins of a quarter of an octave and of 100 ms, as the engine has them; a live load is looked at
# every second.
PER_OCTAVE, BIN_MS, BINS_MS = 4, 100, {"live load": 1000}
MOMENTS = 10

Cells = Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Scale:
    """The size of a cell: `width_ms` of time, `step` bins of latency from the bin `lowest` on."""

    width_ms: int
    columns: int
    lowest: int
    step: int
    rows: int

    @classmethod
    def of(cls, series: Sequence[LatencySeries], beside: Sequence[LatencySeries] = ()) -> Scale:
        """The finest scale on which all of them fit, over the time of those `beside` them, too."""
        last_ms = max(row[0] for each in (*series, *beside) for row in each.rows)
        width_ms = _width_ms((*series, *beside), COLUMNS)
        bins = {_bin(row) for each in series for row in each.rows}
        step = max(1, -(-(max(bins) - min(bins) + 1) // ROWS))
        rows = (max(bins) - min(bins)) // step + 1
        return cls(width_ms, last_ms // width_ms + 1, min(bins), step, rows)

    def cells(self, series: LatencySeries) -> Counter[tuple[int, int]]:
        """The requests of each cell (column, row)."""
        counts: Counter[tuple[int, int]] = Counter()
        for row in series.rows:
            counts[row[0] // self.width_ms, (_bin(row) - self.lowest) // self.step] += row[3]
        return counts


def _width_ms(series: Sequence[LatencySeries], most: int) -> int:
    """So many ms, in whole bins, that at most `most` of them hold every row."""
    bin_ms = BINS_MS.get(series[0].group, BIN_MS)
    last_ms = max(row[0] for each in series for row in each.rows)
    return bin_ms * -(-(last_ms + bin_ms) // (bin_ms * most))


def _bin(row: Sequence[int]) -> int:
    """The quarter of an octave in which a bin of latencies has its geometric middle."""
    low, high = max(row[1], 1), row[2] + 1
    return math.floor(PER_OCTAVE * (math.log2(low) + math.log2(max(high, low))) / 2)


def heat_maps(view: View, of: Row) -> str:
    """The maps of every group of processes of a workload; empty where none are stored."""
    groups: dict[str, dict[str, LatencySeries]] = {}
    for name in view.names:
        for each in view.record.latencies.get((of.workload, name), ()):
            if each.rows:
                groups.setdefault(each.group, {})[name] = each
    return "".join(_group(view, of, group, each) for group, each in groups.items())


def _group(view: View, of: Row, group: str, by_candidate: Mapping[str, LatencySeries]) -> str:
    texts = view.texts
    runs = {name: view.record.latencies[of.workload, name] for name in by_candidate}
    scale = Scale.of(list(by_candidate.values()), [each for of in runs.values() for each in of])
    cells = {name: scale.cells(each) for name, each in by_candidate.items()}
    most = max(max(each.values()) for each in cells.values())
    ends = {
        name: max(row[0] // scale.width_ms for each in every for row in each.rows)
        for name, every in runs.items()
    }
    block = view.record.number_of(next(iter(by_candidate.values())).block)
    note = texts("timeline.heat_note", block=block)
    about = [texts("timeline.heat_title"), *([group_name(view, group)] if group else [])]
    title = ": ".join(about)
    label = texts("row.of", workload=of.workload, metric=title)
    maps = "".join(
        f"<figure><figcaption>{escape(name)}</figcaption>"
        f"{_drawn(view, scale, each, (most, ends[name]), f'{label}: {name}')}</figure>"
        for name, each in cells.items()
    )
    figures = markup.drawn_table(_table(view, by_candidate, title))
    table = markup.details(texts("chart.table"), figures)
    return (
        f'<div class="heats"><h4>{escape(title)}</h4>{markup.paragraph(note, "note")}'
        f'<div class="maps">{maps}</div>{table}</div>'
    )


def _drawn(view: View, scale: Scale, cells: Cells, limits: tuple[int, int], label: str) -> str:
    """One map: cells of equal darkness side by side are one line. `limits` are the requests of the
    darkest cell of all, and the last column in which anybody of this run got something done.
    """
    most, last = limits
    lines: dict[int, list[str]] = {}
    wide, high = WIDTH / scale.columns, HEIGHT / scale.rows
    for row in range(scale.rows):
        levels = [level(cells.get((column, row), 0), most) for column in range(scale.columns)]
        y, start = HEIGHT - (row + 0.5) * high, 0
        for column in range(1, scale.columns + 1):
            if column == scale.columns or levels[column] != levels[start]:
                if levels[start]:
                    path = f"M{n(LEFT + start * wide)} {n(y)}h{n((column - start) * wide)}"
                    lines.setdefault(levels[start], []).append(path)
                start = column
    parts = [
        f'<path class="h{level}" stroke-width="{n(high)}" d="{"".join(path)}"/>'
        for level, path in sorted(lines.items())
    ]
    used = {column for column, _ in cells}
    gaps = [column for column in range(min(used), last + 1) if column not in used]
    if gaps:
        marks = "".join(f"M{n(LEFT + column * wide)} {HEIGHT + 4}h{n(wide)}" for column in gaps)
        parts.append(f'<path class="gap" d="{marks}"/>')
    parts = [*_axes(view, scale), *parts]
    return picture(LEFT + WIDTH + 14, HEIGHT + BOTTOM, label, parts, "heat")


def level(count: int, most: int) -> int:
    """The darkness of a cell, from 1 to `LEVELS`, by the log of its requests; 0: none."""
    if not count:
        return 0
    return max(1, math.ceil(LEVELS * math.log1p(count) / math.log1p(most) - 1e-9))


def _axes(view: View, scale: Scale) -> list[str]:
    """Powers of ten of the latency, and the time."""
    texts = view.texts
    parts = [f'<path class="tick" d="M{LEFT - 2} 0V{HEIGHT}H{LEFT + WIDTH}"/>']
    low = 2 ** (scale.lowest / PER_OCTAVE)
    high = 2 ** ((scale.lowest + scale.rows * scale.step) / PER_OCTAVE)
    for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        row = (PER_OCTAVE * math.log2(10.0**power) - scale.lowest) / scale.step
        y = HEIGHT - row * HEIGHT / scale.rows
        parts.append(f'<path class="tick" d="M{LEFT - 5} {n(y)}h3"/>')
        parts.append(text(LEFT - 7, y + 4, texts.quantity(10.0**power / 1e9, "s", 1), "end"))
    end_s = scale.columns * scale.width_ms / 1e3
    for share in (0.0, 0.5, 1.0):
        x, kind = LEFT + share * WIDTH, "mid" if share else ""
        at_s = share * end_s
        is_round = f"{at_s:.2g}" == f"{at_s:.6g}"
        label = texts.figure(at_s, 2 if is_round else 3) if share else "0"
        unit = f" {texts.maybe('unit.s', 's')}" if share == 1 else ""
        parts.append(text(x, HEIGHT + 18, label + unit, kind))
    return parts


def _table(view: View, by_candidate: Mapping[str, LatencySeries], title: str) -> Table:
    """About ten times: how many completed in each part, their median, and the slowest."""
    texts = view.texts
    last_ms = max(row[0] for each in by_candidate.values() for row in each.rows)
    width_ms = _width_ms(list(by_candidate.values()), MOMENTS)
    columns = [Column(f"{texts('column.time')}, s", digits=2)]
    for name in by_candidate:
        columns.append(Column(f"{name}: {texts('timeline.count')}", decimals=0))
        heads = (texts("timeline.median"), texts("timeline.slowest"))
        columns += [Column(f"{name}: {head}", "ns", digits=2) for head in heads]
    rows: list[list[float | None]] = []
    for start in range(0, last_ms + 1, width_ms):
        line: list[float | None] = [start / 1e3]
        for each in by_candidate.values():
            mine = sorted((r[2], r[3]) for r in each.rows if start <= r[0] < start + width_ms)
            count = sum(times for _, times in mine)
            line += [float(count), _quantile(mine, count / 2), float(mine[-1][0]) if mine else None]
        rows.append(line)
    return build(texts, "heat", title, columns, rows)


def _quantile(bins: Sequence[tuple[int, int]], rank: float) -> float | None:
    """The upper end of the bin in which a rank is; None without a request."""
    for high, count in bins:
        rank -= count
        if rank <= 0:
            return float(high)
    return None
