"""The report as one HTML page that loads nothing: verdict, figures, workloads, method, machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib import resources

import schedlab
from schedlab.report import drawing, figures, sentences
from schedlab.report.cells import candidate_rows
from schedlab.report.markup import (
    Cell,
    Line,
    bullets,
    details,
    figure,
    legend,
    number,
    paragraph,
    section,
    table,
    whole_names,
)
from schedlab.report.page_figures import figures_section, table_of_drift
from schedlab.report.page_tables import knees_section, pareto_section
from schedlab.report.page_workloads import pair_table, workloads_section
from schedlab.report.reproduce import script
from schedlab.report.view import View, flatten, gate_rows

GATE_ROWS = 200


def render(view: View) -> str:
    """The whole page."""
    texts = view.texts
    parts = [
        ("candidates", _candidates(view)),
        ("caveats", _caveats(view)),
        ("figures", figures_section(view)),
        ("pareto", pareto_section(view)),
        ("knees", knees_section(view)),
        ("workloads", workloads_section(view)),
        ("drift", _drift(view)),
        ("design", bullets(sentences.design(view))),
        ("gates", _gates(view)),
        ("omitted", bullets(sentences.omitted(view))),
        ("environment", _environment(view)),
        ("reproduce", _reproduce(view)),
    ]
    titles = {"figures": "figures"} if view.families else {"figures": "figures_plain"}
    shown = [
        (name, texts(f"section.{titles.get(name, name)}"), inside)
        for name, inside in parts
        if inside
    ]
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in shown)
    body = "".join(section(name, title, inside) for name, title, inside in shown)
    css = (resources.files("schedlab.report") / "page.css").read_text("utf-8")
    headline = sentences.headlines(view)
    return (
        f'<!doctype html>\n<html lang="{texts.language}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(headline[0])}</title>\n"
        f"<style>\n{css}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#verdict">{escape(texts("text.skip"))}</a>\n'
        f"{drawing.symbols()}\n"
        f"{_header(view, headline)}\n"
        f'<main id="verdict"><nav aria-label="{escape(texts("section.contents"))}">'
        f"<ul>{links}</ul></nav>\n{body}</main>\n"
        f"<footer>{paragraph(texts('text.generated', version=schedlab.__version__))}</footer>\n"
        "</body>\n</html>\n"
    )


def _header(view: View, headline: Sequence[str]) -> str:
    """The verdict, what it rests on, and what to do."""
    texts = view.texts
    where = view.measured
    step = paragraph(sentences.next_step(view))
    first, *more = headline
    return (
        f"<header>{paragraph(f'{view.experiment.title}. {where}', 'kicker')}"
        f"<h1>{whole_names(first)}.</h1>"
        f"{''.join(paragraph(f'{line}.', 'dek') for line in more)}"
        f"{paragraph(sentences.scope(view), 'lead')}"
        f'<div class="next"><p><strong>{escape(texts("next.title"))}</strong></p>{step}</div>'
        "</header>"
    )


def _candidates(view: View) -> str:
    """Every candidate beside the baseline, then every pair over all workloads."""
    texts, overall = view.texts, view.verdict.overall
    head: Line = [
        texts("column.candidate"),
        Cell(texts("column.difference", baseline=view.verdict.baseline)),
        Cell(texts("column.interval", confidence=view.confidence)),
        Cell(kind="glance"),
        texts("column.verdict"),
        Cell(texts("column.noise_floor")),
    ]
    if several := len(view.workloads) > 1:
        head.append(texts("column.by_workload"))
    summaries = [row.summary for row in candidate_rows(view)]
    ends = [e for s in summaries for e in (s.ratio_low, s.ratio_high, s.ratio) if e]
    reach = max([1.5 * math.log1p(overall.margin), *(1.05 * abs(math.log(e)) for e in ends)])
    rows = []
    for row in candidate_rows(view):
        s = row.summary
        bar = drawing.interval_bar(s.ratio_low, s.ratio or 1.0, s.ratio_high, overall.margin, reach)
        cells: Line = [
            row.name,
            number(row.difference),
            number(row.interval),
            Cell(kind=f"glance v-{row.verdict}", markup=bar),
            Cell(row.verdict_text, f"t v-{row.verdict}"),
            number(row.noise_floor),
        ]
        rows.append([*cells, row.by_workload] if several else cells)
    floor = "noise_floor" if overall.noise_floor is not None else "noise_floor_none"
    parts = [
        paragraph(sentences.confidence(view), "note"),
        table(head, rows, texts("section.candidates"), "verdicts"),
        paragraph(texts(f"text.{floor}"), "note"),
    ]
    if overall.best_everywhere:
        names = texts.listed(overall.best_everywhere)
        parts.append(paragraph(texts("text.best_everywhere", names=names)))
    if several and overall.pairs:
        label = texts("chart.forest_overall")
        chart = drawing.forest(overall.pairs, overall.margin, texts, label)
        note = texts("chart.margin", margin=texts.margin(overall.margin))
        beside = pair_table(view, overall.pairs, label)
        parts.append(f"<h3>{escape(texts('section.overall_pairs'))}</h3>")
        parts.append(figure(label, note, chart, beside, texts))
    return "".join(parts)


def _caveats(view: View) -> str:
    """The flags, those of one kind together."""
    grouped: dict[str, list[str]] = {}
    for flag in view.flags:
        where = f"<strong>{escape(flag.workload)}</strong>: " if flag.workload else ""
        text = escape(sentences.flag_text(view, flag))
        grouped.setdefault(sentences.flag_title(view, flag), []).append(where + text)
    items = []
    for title, found in grouped.items():
        lines = [f"<li>{line}</li>" for line in found]
        inside = f"<ul>{''.join(lines[:4])}</ul>"
        if len(lines) > 4:
            rest = f"<ul>{''.join(lines[4:])}</ul>"
            inside += details(view.texts("text.more", count=len(lines) - 4), rest)
        name = escape(title[:1].upper() + title[1:])
        items.append(f"<li><strong>{name}</strong>{inside}</li>")
    return f'<ul class="flags">{"".join(items)}</ul>' if items else ""


def _drift(view: View) -> str:
    """The block means, which would lie on a line if the machine had stayed the same."""
    texts = view.texts
    if not view.experiment.blocked or len({run.block for run in view.runs}) < 2:
        return ""
    label = texts("chart.drift")
    chart = figures.drift(view, label)
    return (
        paragraph(texts("text.drift_intro"))
        + legend(view)
        + '<div class="scroll wide" tabindex="0">'
        + figure(label, "", chart, table_of_drift(view, label), texts)
        + "</div>"
    )


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
    """The machine, a table for every part of host.json."""
    texts = view.texts
    parts = []
    plain: list[Line] = []
    for part, value in view.record.host.items():
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
