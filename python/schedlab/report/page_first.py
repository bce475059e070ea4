"""The first screen of the page: the table with the interval of each loss, why, what to do next."""

from __future__ import annotations

from html import escape

from schedlab.report import charts, durable, markup
from schedlab.report.moments import moments, starved
from schedlab.report.screen import Screen
from schedlab.report.steps import next_step
from schedlab.report.tables import Column, Table, build
from schedlab.report.view import View
from schedlab.report.why import PARTS, Why, explained, group_name, part_s

WHY_MAX = 2
# Points of a table below a line over time.
MOMENTS = 10


def first_screen(view: View, of: Screen) -> str:
    """Everything below the headline and the line on what was measured."""
    table = f'<div class="first">{markup.drawn_table(of.table, "verdicts first-table")}</div>'
    return table + _reasons(view) + _next(view)


def _reasons(view: View) -> str:
    """Where requests waited, of the first group of each workload; the others can be opened."""
    every, waits = explained(view), durable.lines(view)
    waits += starved(view) if view.timeline_name else []
    if not every and not waits:
        return ""
    judged = {why.workload: why for why in reversed(every)}
    shown = list(reversed(judged.values()))[:WHY_MAX]
    rest = [why for why in every if why not in shown]
    inside = "".join(
        _why(view, why) + moments(view, why.workload) + _depths(view, why) for why in shown
    )
    if rest:
        more = "".join(_why(view, why) for why in rest)
        inside += markup.details(view.texts("text.more", count=len(rest)), more)
    inside += "".join(map(markup.paragraph, waits))
    note = markup.paragraph(view.texts("why.other_run"), "note") if every else ""
    title = escape(view.texts("why.title"))
    return f'<section class="why" aria-label="{title}"><h2>{title}</h2>{inside}{note}</section>'


def _why(view: View, why: Why) -> str:
    """A bar per candidate with its table, and the sentences."""
    texts, parts = view.texts, _parts(why)
    unit = texts.scale([max(each.total_s for _, each in why.by_candidate)], "s")
    names = [texts(f"why.{part}_label") for part in parts]
    rows = [(name, [part_s(each, part) for part in parts]) for name, each in why.by_candidate]
    label = texts("why.chart", workload=why.workload, group=group_name(view, why.group))
    chart = charts.stacked(rows, list(zip(parts, names, strict=True)), unit, texts, label)
    key = "".join(
        f'<li><svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">'
        f'<rect class="part {part}" width="12" height="12"/></svg>{escape(name)}</li>'
        for part, name in zip(parts, names, strict=True)
    )
    sentences = "".join(markup.paragraph(line) for line in why.sentences)
    svg = f'<ul class="legend">{key}</ul>{chart}'
    return sentences + markup.figure(label, "", svg, _why_table(view, why, label), texts)


def _parts(why: Why) -> list[str]:
    """The parts that are worth a colour: the plug and what is outside only where they count."""
    return [
        part
        for part in PARTS
        if part not in ("plug", "outside")
        or any(part_s(e, part) > 0.01 * e.total_s for _, e in why.by_candidate)
    ]


def _why_table(view: View, why: Why, title: str) -> Table:
    texts, parts = view.texts, _parts(why)
    columns = [Column(texts("column.candidate"), text=True)]
    columns += [Column(texts(f"why.{part}_label"), "s", digits=2) for part in parts]
    columns.append(Column(texts("why.depth"), digits=2))
    rows = [
        [name, *(part_s(each, part) for part in parts), each.device_depth]
        for name, each in why.by_candidate
    ]
    return build(texts, f"why-{why.workload}", title, columns, rows)


def _depths(view: View, why: Why) -> str:
    """Requests in the device over time, a line per candidate."""
    texts = view.texts
    deep = [(name, each) for name, each in why.by_candidate if len(each.depth_series) > 1]
    if not deep:
        return ""
    lines = [
        charts.ChartLine(
            view.names.index(name),
            [((i + 0.5) * each.bin_s, depth) for i, depth in enumerate(each.depth_series)],
            name=name,
        )
        for name, each in deep
    ]
    axes = (texts("chart.time_axis"), texts("why.depth"))
    chart = charts.Chart(lines, *axes, zero=True, marker_every=5)
    label = texts("row.of", workload=why.workload, metric=texts("why.depth"))
    svg = charts.line_chart(chart, texts, label)
    return markup.figure(label, "", svg, over_time(view, lines, label, ""), texts)


def over_time(view: View, lines: list[charts.ChartLine], title: str, unit: str) -> Table:
    """About ten moments of some lines over time."""
    texts = view.texts
    known = [dict(line.points) for line in lines]
    times = sorted({t for points in known for t in points})
    columns = [Column(f"{texts('column.time')}, s", digits=2)]
    columns += [Column(f"{view.names[line.series]}, {unit}".rstrip(", ")) for line in lines]
    rows = [[t, *(points.get(t) for points in known)] for t in
            times[:: max(1, -(-len(times) // MOMENTS))]]  # fmt: skip
    return build(texts, "over-time", title, columns, rows)


def _next(view: View) -> str:
    """One command to copy, with its remark."""
    step = next_step(view)
    command = f'<code class="command">{escape(step.command)}</code>' if step.command else ""
    title = escape(view.texts("next.title"))
    return (
        f'<div class="next"><p><strong>{title}</strong></p>'
        f"<ul><li>{command} <span>{escape(step.remark)}</span></li></ul></div>"
    )
