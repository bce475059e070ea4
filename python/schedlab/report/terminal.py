"""The first screen in a terminal: 80 columns or any other width, plain where there is no colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlab.report import notes
from schedlab.report.screen import Cell, Row, Screen, screen
from schedlab.report.steps import next_steps
from schedlab.report.texts import NO_BREAK
from schedlab.report.view import View
from schedlab.report.why import explained

WIDTH_MIN = 40
PROSE_WIDTH = 100
GAP = "  "
# Titles are folded into fewer columns where the table would not fit otherwise.
TITLE_MAX, TITLE_WIDTHS = 30, (30, 24, 18)
HEAD_MAX = 22
CELL_MAX = 80
# Titles, heads and cells of a table in several parts, where even a part would not fit otherwise.
NARROW = (12, 14, 14)
WHY_MAX = 4
LIMITS_MAX = 3
# Flags that put the whole table in doubt.
SERIOUS = (
    "no-baseline", "control-failed", "aa-differs", "starved", "gates-unbalanced", "unblocked",
    "non-positive", "goal", "goal-not-measured", "extension",
)  # fmt: skip
COLOURS = {"better": "32", "worse": "31", "undecided": "33", "equivalent": "", "baseline": ""}
BOLD, DIM = "1", "2"


def render(view: View, width: int, colour: bool, reports: Sequence[tuple[str, str]] = ()) -> str:
    """The first screen as text of at most `width` columns; `reports` are (name, path)."""
    width = max(width, WIDTH_MIN)
    prose = min(width, PROSE_WIDTH)
    of = screen(view)
    lines = [_painted(line, BOLD, colour) for line in wrapped(" ".join(of.headline), prose)]
    lines += ["", *wrapped(" ".join(of.population), prose), ""]
    lines += _table(view, of, width, colour)
    if legend := _legend(view, of):
        lines += [_painted(line, DIM, colour) for line in wrapped(legend, prose)]
    if of.more:
        works = view.texts.counted("scope.more_workloads", of.more)
        more = view.texts("text.more_rows", works=works)
        lines += wrapped(more, prose)
    lines.append("")
    for title, text in _closing(view):
        lines += _hanging(view, title, text, width, colour)
    lines += _paths(reports, width, colour)
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").replace(NO_BREAK, " ")


def _legend(view: View, of: Screen) -> str:
    """The meaning of the marks in the table, where there are any."""
    texts, verdicts = (
        view.texts,
        {cell.verdict for row in of.rows for cell in row.cells if not row.span},
    )
    parts = [
        texts(f"legend.{name}") for name in ("better", "worse", "undecided") if name in verdicts
    ]
    if not parts:
        return ""
    return texts("legend.line", parts=", ".join(parts), baseline=view.verdict.baseline)


def _closing(view: View) -> list[tuple[str, list[str]]]:
    """Why, and what to do next: a title, and its lines."""
    parts = []
    first = {why.workload: why for why in reversed(explained(view))}
    judged = [line for why in reversed(first.values()) for line in why.sentences]
    if reasons := judged[:WHY_MAX]:
        parts.append((view.texts("why.title"), reasons))
    if limits := _limits(view)[:LIMITS_MAX]:
        parts.append((view.texts("text.note"), limits))
    steps = next_steps(view)
    widest = max((cells(step.command) for step in steps), default=0)
    shown = [
        f"{step.command}{' ' * (widest - cells(step.command))}   {step.remark}"
        if step.command
        else step.remark
        for step in steps
    ]
    if shown:
        parts.append((view.texts("next.title"), shown))
    return parts


def _limits(view: View) -> list[str]:
    """The limits to know before trusting the table; everything else is in the report."""
    works: dict[tuple[str, str], list[str]] = {}
    for flag in view.flags:
        if flag.kind in SERIOUS:
            key = (notes.flag_title(view, flag), notes.flag_text(view, flag))
            works.setdefault(key, []).extend([flag.workload] if flag.workload else [])
    lines = [f"{title}: {_where(view, labels)}{text}" for (title, text), labels in works.items()]
    return [*lines, *view.record.notices]


def _where(view: View, labels: Sequence[str]) -> str:
    """The workloads that a note is about, where there are others."""
    if not labels or len(view.workloads) < 2:
        return ""
    if len(labels) > LIMITS_MAX:
        return f"{view.texts.counted('scope.workloads', len(labels))}: "
    return f"{view.texts.listed(labels)}: "


def _hanging(view: View, title: str, texts: Sequence[str], width: int, colour: bool) -> list[str]:
    """A short title with its lines next to it; a command stays whole on its own line."""
    indent = max(7, cells(title) + 2)
    lines: list[str] = []
    for text in texts:
        is_command = text.startswith("schedlab ")
        if cells(text) <= (width if is_command else min(width, PROSE_WIDTH)) - indent:
            lines.append(text)
        elif is_command:
            command, _, remark = text.partition("   ")
            lines += [
                command,
                *(f"  {line}" for line in wrapped(remark.strip(), width - indent - 2)),
            ]
        else:
            lines += wrapped(text, min(width, PROSE_WIDTH) - indent)
    head = _painted(title, BOLD, colour) + " " * (indent - cells(title))
    return [(head if i == 0 else " " * indent) + line for i, line in enumerate(lines)]


def _paths(reports: Sequence[tuple[str, str]], width: int, colour: bool) -> list[str]:
    """Where the files are; a path is never broken."""
    lines: list[str] = []
    for name, path in reports:
        if lines and cells(lines[-1]) + cells(name) + cells(path) + 4 <= width:
            lines[-1] += f"   {name} {path}"
        else:
            lines.append(f"{name} {path}")
    for name, _ in reports if colour else ():
        lines = [line.replace(f"{name} ", f"{_painted(name, BOLD, colour)} ") for line in lines]
    return lines


@dataclass(frozen=True)
class Field:
    """A cell of a terminal table: its lines, a colour, and whether it spans the rest."""

    lines: tuple[str, ...]
    colour: str = ""
    span: bool = False

    @property
    def width(self) -> int:
        """Columns that it needs."""
        return max(map(cells, self.lines), default=0)


def _table(view: View, of: Screen, width: int, colour: bool) -> list[str]:
    """The table: wide if it fits, else candidates as rows, else in several parts."""
    for title in TITLE_WIDTHS:
        plain = _grid(of, range(len(of.names)), title)
        if _width(plain) <= width:
            return _laid_out(plain, width, colour)
    if len(of.rows) < len(of.names) and not any(row.span for row in of.rows):
        turned = _transposed(of)
        if _width(turned) <= width:
            return _laid_out(turned, width, colour)
    lines: list[str] = []
    for part in _parts(of, width):
        lines += [*([""] if lines else []), *_laid_out(part, width, colour)]
    return _cut(lines, width)


def _parts(of: Screen, width: int) -> list[list[list[Field]]]:
    """Tables of the columns that fit, each with the baseline in front."""
    tables: list[list[list[Field]]] = []
    for widths in (*((title, HEAD_MAX, CELL_MAX) for title in TITLE_WIDTHS), NARROW):
        parts: list[list[int]] = []
        for column in range(1, len(of.names)):
            if parts and _width(_grid(of, [*parts[-1], column], *widths)) <= width:
                parts[-1].append(column)
            else:
                parts.append([0, column])
        tables = [_grid(of, part, *widths) for part in parts or [[0]]]
        if all(_width(each) <= width for each in tables):
            break
    return tables


def _grid(
    of: Screen,
    chosen: Sequence[int],
    title: int = TITLE_MAX,
    name: int = HEAD_MAX,
    cell: int = CELL_MAX,
) -> list[list[Field]]:
    """A head and a row per workload, with the chosen columns.

    `title`, `name` and `cell` are the most columns of a workload's name, a candidate's and a cell.
    """
    head = [Field(("",)), *(Field(_folded(of.names[i], name)) for i in chosen)]
    return [head, *(_line(row, chosen, title, cell) for row in of.rows)]


def _line(row: Row, chosen: Sequence[int], width: int, cell: int = CELL_MAX) -> list[Field]:
    title = Field(_titled(row, width))
    if row.span:
        return [title, _field(row.cells[0]), Field((row.span,), DIM, span=True)]
    return [title, *(_field(row.cells[i], cell) for i in chosen)]


def _titled(row: Row, width: int = TITLE_MAX) -> tuple[str, ...]:
    """The title folded, what belongs to a workload indented under it."""
    lead = "  " if row.indent else ""
    first, *rest = _folded(row.title, width - len(lead))
    return (lead + first, *(f"{lead}  {line}" for line in rest))


def _field(cell: Cell, width: int = CELL_MAX) -> Field:
    text = f"{cell.text} {cell.mark}" if cell.mark else cell.text
    return Field(_folded(text, width), COLOURS.get(cell.verdict, ""))


def _transposed(of: Screen) -> list[list[Field]]:
    """A row per candidate."""
    head = [Field(("",)), *(Field(_titled(row)) for row in of.rows)]
    rows = [
        [Field(_folded(name, TITLE_MAX)), *(_field(row.cells[i]) for row in of.rows)]
        for i, name in enumerate(of.names)
    ]
    return [head, *rows]


def _widths(grid: Sequence[Sequence[Field]]) -> list[int]:
    columns = max(map(len, grid))
    widths = [0] * columns
    for row in grid:
        for i, field in enumerate(row):
            if not field.span:
                widths[i] = max(widths[i], field.width)
    return widths


def _width(grid: Sequence[Sequence[Field]]) -> int:
    """Columns that a table needs; a spanning cell is wrapped into what it has."""
    widths = _widths(grid)
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _laid_out(grid: Sequence[Sequence[Field]], width: int, colour: bool) -> list[str]:
    """The lines of a table, its cells aligned to the left."""
    widths, out = _widths(grid), []
    for number, line in enumerate(grid):
        row = list(line)
        if row[-1].span:
            before = sum(widths[: len(row) - 1]) + len(GAP) * (len(row) - 1)
            inside = tuple(wrapped(row[-1].lines[0], max(12, width - before)))
            row[-1] = Field(inside, row[-1].colour, span=True)
        height = max(len(field.lines) for field in row)
        for level in range(height):
            parts = []
            for i, field in enumerate(row):
                # The head is on its last line, everything else on its first.
                at = level - (height - len(field.lines)) if number == 0 else level
                text = field.lines[at] if 0 <= at < len(field.lines) else ""
                pad = "" if field.span else " " * (widths[i] - cells(text))
                style = BOLD if number == 0 else field.colour
                parts.append(_painted(text, style, colour) + pad)
            out.append(GAP.join(parts).rstrip())
    return out


def _cut(lines: Sequence[str], width: int) -> list[str]:
    """Lines that are too wide even alone are wrapped; colours are not counted."""
    out: list[str] = []
    for line in lines:
        out += [line] if "\x1b" in line or cells(line) <= width else wrapped(line, width)
    return out


def _painted(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if colour and style and text.strip() else text


def cells(text: str) -> int:
    """Columns that a text takes in a terminal (Hangul takes two each)."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at plain spaces; a longer word is cut."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] += " " + word
            continue
        rest = word
        while cells(rest) > width:
            at = next(i for i in range(len(rest), 0, -1) if cells(rest[:i]) <= width)
            lines.append(rest[:at])
            rest = rest[at:]
        lines.append(rest)
    return lines


def _folded(text: str, width: int) -> tuple[str, ...]:
    """A title in lines of at most `width` columns."""
    return tuple(wrapped(text, width)) or ("",)
