"""The report as one HTML page that loads nothing: first screen, workloads, limits, method."""

from __future__ import annotations

from html import escape

from schedlab.report import frame, notes
from schedlab.report.markup import bullets, details, drawn_table, paragraph
from schedlab.report.page_figures import drift_section, tables_section, workloads_section
from schedlab.report.page_first import first_screen
from schedlab.report.reproduce import script
from schedlab.report.screen import screen
from schedlab.report.tables import Column, build
from schedlab.report.view import View, flatten, gate_rows

GATE_ROWS = 200


def render(view: View) -> str:
    """The whole page."""
    texts, method = view.texts, notes.method(view)
    parts = {
        "tables": tables_section(view),
        "workloads": workloads_section(view),
        "caveats": _caveats(view),
        "drift": drift_section(view),
        "gates": _gates(view),
        "omitted": bullets(method["omitted"]),
        "design": bullets(method["design"]),
        "environment": _environment(view),
        "reproduce": _reproduce(view),
    }
    first = screen(view)
    page = frame.Page(
        headline=first.headline,
        kicker=f"{view.experiment.title} · {view.measured}",
        lead=[first.measured],
        first=first_screen(view, first),
        sections=[(name, texts(f"section.{name}"), inside) for name, inside in parts.items()],
        code=view.answer.code,
    )
    return frame.render(page, texts)


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
    texts, found = view.texts, gate_rows(view)
    if not found:
        return paragraph(texts("text.gates_none"))
    kept = {run.key for run in view.runs}
    rows = []
    for run, finding in found[:GATE_ROWS]:
        followed = "noted" if run.status == "ok" else "repeated"
        followed = followed if run.key in kept else "not_repeated"
        check = texts.maybe(f"gate.{finding.gate}", finding.gate.replace("-", " "))
        block = view.record.number_of(run.block)
        about = (f"{run.workload}, {run.candidate}", block, check, finding.detail)
        rows.append([*about, texts(f"text.{followed}")])
    heads = ("workload", "block", "check", "found", "what_followed")
    columns = [Column(texts(f"column.{head}"), text=head != "block") for head in heads]
    more = len(found) - GATE_ROWS
    after = [texts("text.more", count=more)] if more > 0 else []
    runs = texts.counted("scope.runs", len(view.discarded))
    note = texts("text.gates_some", count=runs) if view.discarded else texts("text.gates_none")
    table = build(texts, "gates", texts("section.gates"), columns, rows, after)
    return paragraph(note) + drawn_table(table)


def _environment(view: View) -> str:
    """The model, if there is one, and the machine: a table for every part of host.json."""
    texts = view.texts
    columns = [Column(texts(f"column.{name}"), text=True) for name in ("fact", "value")]
    parts, plain = [], []
    model = view.emulated_device
    facts = {**({"emulated device": model} if model else {}), **view.record.host}
    for part, value in facts.items():
        rows = [[name or part, _fact(fact)] for name, fact in flatten(value)]
        if len(rows) == 1 and rows[0][0] == part:
            plain += rows
        elif rows:
            inside = drawn_table(build(texts, part, part, columns, rows))
            parts.append(details(f"{part} ({len(rows)})", inside))
    if plain:
        title = texts("section.environment")
        parts.insert(0, drawn_table(build(texts, "host", title, columns, plain)))
    return paragraph(view.machine) + "".join(parts) if parts else ""


def _fact(value: object) -> str:
    text = "–" if value is None or value == "" else str(value)
    return text if len(text) <= 400 else text[:400] + "…"


def _reproduce(view: View) -> str:
    code = f'<pre tabindex="0"><code>{escape(script(view.record))}</code></pre>'
    return paragraph(view.texts("text.reproduce_intro")) + code
