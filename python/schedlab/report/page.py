"""The report as one HTML page that loads nothing: first screen, workloads, limits, method."""

from __future__ import annotations

from html import escape

from schedlab.report import charts, frame, notes
from schedlab.report.markup import (
    Cell,
    Line,
    bullets,
    details,
    figure,
    number,
    paragraph,
    table,
)
from schedlab.report.page_figures import drift_section, figures_section
from schedlab.report.page_first import first_screen
from schedlab.report.page_tables import knees_section, pair_table, pareto_section
from schedlab.report.page_workloads import workloads_section
from schedlab.report.reproduce import script
from schedlab.report.screen import screen
from schedlab.report.view import View, flatten, gate_rows

GATE_ROWS = 200


def render(view: View) -> str:
    """The whole page."""
    texts = view.texts
    parts = {
        "workloads": workloads_section(view),
        "overall_pairs": _overall(view),
        "figures": figures_section(view),
        "pareto": pareto_section(view),
        "knees": knees_section(view),
        "caveats": _caveats(view),
        "drift": drift_section(view),
        "gates": _gates(view),
        "omitted": bullets(notes.omitted(view)),
        "design": bullets([notes.confidence(view), *notes.design(view)]),
        "environment": _environment(view),
        "reproduce": _reproduce(view),
    }
    figures = "figures" if view.families else "figures_plain"
    titles = {name: texts(f"section.{name}") for name in parts}
    titles["figures"] = texts(f"section.{figures}")
    sections = [(name, titles[name], inside) for name, inside in parts.items()]
    first = screen(view)
    page = frame.Page(
        headline=first.headline,
        kicker=f"{view.experiment.title}. {view.measured}",
        lead=first.population,
        first=first_screen(view, first),
        sections=sections,
        code=view.verdict.code,
    )
    return frame.render(page, texts)


def _overall(view: View) -> str:
    """Every pair over all workloads together."""
    texts, overall = view.texts, view.verdict.overall
    if len(view.workloads) < 2 or not overall.pairs:
        return ""
    label = texts("section.overall_pairs")
    beside, rows = pair_table(view, overall, overall.pairs, label)
    sides = (texts("chart.first_worse"), texts("chart.first_better"))
    chart = charts.forest(rows, overall.margin, label, sides)
    note = texts("chart.margin", margin=texts.margin(overall.margin))
    return figure(label, note, chart, beside, texts)


def _caveats(view: View) -> str:
    """The flags, those of one kind together."""
    items = []
    for title, lines in notes.grouped_flags(view).items():
        shown = "".join(f"<li>{escape(line)}</li>" for line in lines[:4])
        inside = f"<ul>{shown}</ul>"
        if len(lines) > 4:
            rest = "".join(f"<li>{escape(line)}</li>" for line in lines[4:])
            more = view.texts("text.more", count=len(lines) - 4)
            inside += details(more, f"<ul>{rest}</ul>")
        name = escape(title[:1].upper() + title[1:])
        items.append(f"<li><strong>{name}</strong>{inside}</li>")
    return f'<ul class="flags">{"".join(items)}</ul>' if items else ""


def _gates(view: View) -> str:
    """Every run that did not pass its checks, and why."""
    texts, rows = view.texts, gate_rows(view)
    if not rows:
        return paragraph(texts("text.gates_none"))
    kept = {run.key for run in view.runs}
    body: list[Line] = []
    for run, finding in rows[:GATE_ROWS]:
        followed = "noted" if run.status == "ok" else "repeated"
        if run.key not in kept:
            followed = "not_repeated"
        body.append(
            [
                Cell(f"{run.workload}, {run.candidate}"),
                number(str(view.record.number_of(run.block))),
                texts.maybe(f"gate.{finding.gate}", finding.gate.replace("-", " ")),
                finding.detail,
                texts(f"text.{followed}"),
            ]
        )
    head: Line = [
        texts("column.workload"),
        Cell(texts("column.block")),
        texts("column.check"),
        texts("column.found"),
        texts("column.what_followed"),
    ]
    runs = texts.counted("scope.runs", len(view.discarded))
    note = texts("text.gates_some", count=runs) if view.discarded else texts("text.gates_none")
    more = len(rows) - GATE_ROWS
    after = paragraph(texts("text.more", count=more), "note") if more > 0 else ""
    return paragraph(note) + table(head, body, texts("section.gates")) + after


def _environment(view: View) -> str:
    """The model, if there is one, and the machine: a table for every part of host.json."""
    texts = view.texts
    parts = []
    plain: list[Line] = []
    model = view.emulated_device
    facts = {**({"emulated device": model} if model else {}), **view.record.host}
    for part, value in facts.items():
        rows: list[Line] = [[name or part, _fact(fact)] for name, fact in flatten(value)]
        if len(rows) == 1 and rows[0][0] == part:
            plain += rows
        elif rows:
            head: Line = [texts("column.fact"), texts("column.value")]
            parts.append(details(f"{part} ({len(rows)})", table(head, rows, part)))
    if plain:
        title = texts("section.environment")
        head = [texts("column.fact"), texts("column.value")]
        parts.insert(0, table(head, plain, title))
    return paragraph(view.machine) + "".join(parts) if parts else ""


def _fact(value: object) -> str:
    text = "–" if value is None or value == "" else str(value)
    return text if len(text) <= 400 else text[:400] + "…"


def _reproduce(view: View) -> str:
    code = f'<pre tabindex="0"><code>{escape(script(view.record))}</code></pre>'
    return paragraph(view.texts("text.reproduce_intro")) + code
