"""A quiz for a class: a sheet of paper for every student, and one key for the teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from schedlab.report import frame
from schedlab.report.gantt import occupant
from schedlab.report.markup import drawn_table, paragraph
from schedlab.report.tables import Column, build
from schedlab.report.texts import Texts
from schedlab.spec.quantities import counted, milliseconds_text

# heading: key of a task's result, in ns
ASKED = {
    "turnaround": "turnaround_ns", "waiting": "waiting_ns", "response": "response_ns",
}  # fmt: skip
CHART_PX, ROW_PX = 680, 22


@dataclass(frozen=True)
class QuizSheet:
    """One student's tasks, and their schedule under each policy (crates/sim/src/cpu/result.rs)."""

    seed: int
    tasks: Sequence[Mapping[str, Any]]
    results: Sequence[Mapping[str, Any]]


def page(sheets: Sequence[QuizSheet], rule: str, texts: Texts) -> str:
    """All sheets, each on a page of its own on paper, then the key; `rule` says how ties end."""
    keys = "".join(_key(n, sheet, texts) for n, sheet in enumerate(sheets, 1))
    first, last = sheets[0].seed, sheets[-1].seed
    content = frame.Page(
        headline=[f"CPU scheduling: {len(sheets)} sheets and their key"],
        kicker="",
        lead=[f"Seeds {first} to {last}. The key is on the last pages: print it for yourself."],
        first="",
        sections=[
            *(
                (f"sheet-{n}", f"Sheet {n}", _sheet(sheet, rule, texts))
                for n, sheet in enumerate(sheets, 1)
            ),
            ("key", "Key", keys),
        ],
    )
    style = "<style>@media print { section { break-before: page; } }</style></head>"
    return frame.render(content, texts).replace("</head>", style, 1)


def _sheet(sheet: QuizSheet, rule: str, texts: Texts) -> str:
    parts = [paragraph(f"Name: {'_' * 40}")]
    has_priority = any("prio" in result["policy"] for result in sheet.results)
    heads = ("task", "arrival, ms", "CPU / I/O, ms", "priority (smaller is first)")
    columns = [Column(head, text=head == "task") for head in heads[: 3 + has_priority]]
    rows = [_given(task)[: len(columns)] for task in sheet.tasks]
    parts.append(drawn_table(build(texts, "tasks", "Tasks", columns, rows)))
    for result in sheet.results:
        named = [*(str(task["name"]) for task in sheet.tasks), "mean"]
        asked = [[name, *["____"] * len(ASKED)] for name in named]
        blank = build(texts, "asked", "Draw it, then fill in.", _figures("task"), asked)
        parts.append(f"<h3>{escape(_title(result))}</h3>{_blank_chart(sheet.tasks, result)}")
        parts.append(drawn_table(blank))
    return "".join([*parts, paragraph(rule, "note")])


def _figures(first: str) -> list[Column]:
    return [Column(first, text=True), *(Column(f"{name}, ms") for name in ASKED)]


def _given(task: Mapping[str, Any]) -> list[str]:
    bursts = " / ".join(milliseconds_text(burst) for burst in task["bursts"])
    priority = str(task.get("priority", 0))
    return [str(task["name"]), milliseconds_text(task.get("arrival", 0)), bursts, priority]


def _title(result: Mapping[str, Any]) -> str:
    quantum = (
        f", quantum {milliseconds_text(result['quantum_effective'])} ms"
        if "rr" in result["policy"]
        else ""
    )
    return f"{result['policy']}{quantum}, {counted(result['cpus'], 'CPU')}"


def _blank_chart(tasks: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> str:
    """A grid to draw the schedule in: a row for each task, some more time than is needed."""
    end_ms = int(result["summary"]["makespan_ns"] // 1_000_000) + 3
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 1000, 10**9) if end_ms / s <= 40)
    ticks = range(0, end_ms + step, step)
    width, height = CHART_PX / len(ticks), ROW_PX * len(tasks)
    lines = [
        f'<line x1="{30 + n * width:.1f}" x2="{30 + n * width:.1f}" y1="0" y2="{height}"/>'
        f'<text x="{30 + n * width:.1f}" y="{height + 12}" text-anchor="middle">{tick}</text>'
        for n, tick in enumerate(ticks)
    ]
    lines += [
        f'<line x1="30" x2="{30 + (len(ticks) - 1) * width:.1f}" y1="{y * ROW_PX}" '
        f'y2="{y * ROW_PX}"/>' for y in range(len(tasks) + 1)
    ]  # fmt: skip
    lines += [
        f'<text x="4" y="{row * ROW_PX + 15}">{escape(str(task["name"]))}</text>'
        for row, task in enumerate(tasks)
    ]
    return (
        f'<svg viewBox="0 0 {CHART_PX + 30} {height + 16}" role="img" stroke="currentColor" '
        f'stroke-width=".3" font-size="9" aria-label="Draw the schedule here (ms)">'
        f'<g fill="currentColor">{"".join(lines)}</g></svg>'
    )


def _key(n: int, sheet: QuizSheet, texts: Texts) -> str:
    """The answers of a sheet: figures, and what runs when."""
    rows: list[list[str]] = []
    for result in sheet.results:
        for task in result["tasks"]:
            figures = [milliseconds_text(task[key]) for key in ASKED.values()]
            rows.append([f"{_title(result)}: {task['name']}", *figures, ""])
        means = [milliseconds_text(result["summary"][f"{key}_mean"]) for key in ASKED.values()]
        rows.append([f"{_title(result)}: mean", *means, _order(result)])
    columns = [*_figures(""), Column("what runs, ms", text=True)]
    return drawn_table(build(texts, "key", f"Sheet {n} (seed {sheet.seed})", columns, rows))


def _order(result: Mapping[str, Any]) -> str:
    """The work of each CPU, one part after the other."""
    orders: dict[int, list[str]] = {}
    for part in result["segments"]:
        what, task = occupant(part)
        name = "" if task is None else result["tasks"][task]["name"]
        text = {"task": name, "switch": f"switch to {name}", "idle": "idle"}[what]
        times = f"{milliseconds_text(part['start_ns'])} to {milliseconds_text(part['end_ns'])}"
        orders.setdefault(part["cpu"], []).append(f"{text} {times}")
    if result["cpus"] == 1:
        return ", ".join(orders.get(0, ()))
    return "; ".join(f"CPU {cpu}: {', '.join(parts)}" for cpu, parts in sorted(orders.items()))
