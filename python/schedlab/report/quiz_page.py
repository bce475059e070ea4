"""A quiz for a class: a sheet of paper for every student, and one key for the teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from schedlab.nouns.quantities import counted, milliseconds_text
from schedlab.nouns.schedule import Figure, Mean, Schedule, Task, occupant
from schedlab.report import frame
from schedlab.report.markup import drawn_table, paragraph
from schedlab.report.tables import Column, build
from schedlab.report.texts import Texts

# heading: key of a task's result, in ns, and of the mean
ASKED: Mapping[str, tuple[Figure, Mean]] = {
    "turnaround": ("turnaround_ns", "turnaround_ns_mean"),
    "waiting": ("waiting_ns", "waiting_ns_mean"),
    "response": ("response_ns", "response_ns_mean"),
}
CHART_PX, ROW_PX = 680, 22


@dataclass(frozen=True)
class QuizSheet:
    """One student's tasks, and their schedule under each policy (crates/sim/src/cpu/result.rs)."""

    seed: int
    tasks: Sequence[Task]
    results: Sequence[Schedule]


def page(sheets: Sequence[QuizSheet], texts: Texts) -> str:
    """All sheets, each on a page of its own on paper, then the key."""
    keys = "".join(_key(n, sheet, texts) for n, sheet in enumerate(sheets, 1))
    first, last = sheets[0].seed, sheets[-1].seed
    content = frame.Page(
        headline=[texts("quiz.headline", count=len(sheets))],
        kicker="",
        lead=[texts("quiz.lead", first=first, last=last)],
        first="",
        sections=[
            *(
                (f"sheet-{n}", texts("quiz.sheet", number=n), _sheet(sheet, texts))
                for n, sheet in enumerate(sheets, 1)
            ),
            ("key", texts("quiz.key"), keys),
        ],
        style="@media print { section { break-before: page; } }\n",
    )
    return frame.render(content, texts)


def _sheet(sheet: QuizSheet, texts: Texts) -> str:
    parts = [paragraph(f"{texts('quiz.name')}: {'_' * 40}")]
    has_priority = any("prio" in result["policy"] for result in sheet.results)
    keys = ("task", "arrival", "bursts", "priority")[: 3 + has_priority]
    columns = [Column(texts(f"quiz.{key}"), text=key == "task") for key in keys]
    rows = [_given(task)[: len(columns)] for task in sheet.tasks]
    parts.append(drawn_table(build(texts, "tasks", texts("quiz.tasks"), columns, rows)))
    for result in sheet.results:
        named = [*(str(task["name"]) for task in sheet.tasks), texts("quiz.mean")]
        asked = [[name, *["____"] * len(ASKED)] for name in named]
        heads = _figures(texts("quiz.task"), texts)
        blank = build(texts, "asked", texts("quiz.fill"), heads, asked)
        chart = _blank_chart(sheet.tasks, result, texts("quiz.draw"))
        parts.append(f"<h3>{escape(_title(result, texts))}</h3>{chart}")
        parts.append(drawn_table(blank))
    return "".join([*parts, paragraph(texts("quiz.rule"), "note")])


def _figures(first: str, texts: Texts) -> list[Column]:
    return [Column(first, text=True), *(Column(texts(f"quiz.{name}")) for name in ASKED)]


def _given(task: Task) -> list[str]:
    bursts = " / ".join(milliseconds_text(int(burst)) for burst in task["bursts"])
    priority = str(task.get("priority", 0))
    return [str(task["name"]), milliseconds_text(int(task.get("arrival", 0))), bursts, priority]


def _title(result: Schedule, texts: Texts) -> str:
    parts = [result["policy"], counted(result["cpus"], "CPU")]
    if "rr" in result["policy"]:
        parts.insert(1, texts("quiz.quantum", ms=milliseconds_text(result["quantum_effective"])))
    return ", ".join(parts)


def _blank_chart(tasks: Sequence[Task], result: Schedule, label: str) -> str:
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
        f'stroke-width=".3" font-size="9" aria-label="{escape(label)}">'
        f'<g fill="currentColor">{"".join(lines)}</g></svg>'
    )


def _key(n: int, sheet: QuizSheet, texts: Texts) -> str:
    """The answers of a sheet: figures, and what runs when."""
    rows: list[list[str]] = []
    for result in sheet.results:
        title = _title(result, texts)
        for task in result["tasks"]:
            figures = [milliseconds_text(task[key]) for key, _ in ASKED.values()]
            rows.append([f"{title}: {task['name']}", *figures, ""])
        means = [milliseconds_text(result["summary"][mean]) for _, mean in ASKED.values()]
        rows.append([f"{title}: {texts('quiz.mean')}", *means, _order(result, texts)])
    columns = [*_figures("", texts), Column(texts("quiz.runs"), text=True)]
    return drawn_table(
        build(texts, "key", texts("quiz.seed", number=n, seed=sheet.seed), columns, rows)
    )


def _order(result: Schedule, texts: Texts) -> str:
    """The work of each CPU, one part after the other."""
    orders: dict[int, list[str]] = {}
    for part in result["segments"]:
        what, task = occupant(part)
        name = "" if task is None else result["tasks"][task]["name"]
        text = name if what == "task" else texts(f"quiz.{what}", name=name)
        start, end = (milliseconds_text(ns) for ns in (part["start_ns"], part["end_ns"]))
        stretch = texts("quiz.stretch", what=text, start=start, end=end)
        orders.setdefault(part["cpu"], []).append(stretch)
    if result["cpus"] == 1:
        return ", ".join(orders.get(0, ()))
    return "; ".join(f"CPU {cpu}: {', '.join(parts)}" for cpu, parts in sorted(orders.items()))
