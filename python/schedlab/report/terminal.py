"""The first screen, and any table, in a terminal: 80 columns or another width, colour or none."""

from __future__ import annotations

from collections.abc import Sequence

from schedlab.report import notes, sentences, why
from schedlab.report.handin import statements_line
from schedlab.report.screen import rows_of, screen
from schedlab.report.steps import Step, next_step
from schedlab.report.tables import Table, TableCell, TableRow
from schedlab.report.texts import NO_BREAK
from schedlab.report.view import View

WIDTH_MIN, PROSE_WIDTH = 40, 100
GAP = "  "
# Titles and cells are folded into fewer columns where the table would not fit otherwise.
FOLDS = [(title, cell) for cell in (80, 32, 24, 20, 17, 16, 15, 14) for title in (30, 22, 18, 14)]
PARTED = (22, 20)
ROWS_MAX = 12
# Lines of the whole screen, for which further rows are left to the report.
LINES_MAX = 25
WHY_MAX = LIMITS_MAX = 3
# Flags that put the whole table in doubt.
SERIOUS = (
    "no-baseline", "lacks-workload", "control-failed", "aa-differs", "starved", "gates-unbalanced",
    "non-positive", "goal", "goal-not-measured", "few-requests", "changes-inside",
)  # fmt: skip
BOLD, DIM = "1", "2"
COLOURS = {"best": "32", "behind": "31", "soft": DIM, "": ""}


def render(view: View, width: int, colour: bool, reports: Sequence[tuple[str, str]] = ()) -> str:
    """The first screen as text of at most `width` columns; `reports` are (name, path)."""
    width = max(width, WIDTH_MIN)
    prose = min(width, PROSE_WIDTH)
    of = screen(view)
    first, *rest = of.headline
    head = [_painted(line, BOLD, colour) for line in wrapped(first, prose)]
    for sentence in (*rest, of.measured):
        head += wrapped(sentence, prose)
    notes_ = _hanging(view.texts("text.note"), _limits(view)[:LIMITS_MAX], prose, colour)
    tail = [*notes_, *_next(view.texts("next.title"), next_step(view), width, colour)]
    tail += _paths(reports, width, colour)
    reasons = why.lines(view)[:WHY_MAX]
    while True:
        told = _hanging(view.texts("why.title"), reasons, prose, colour)
        room = LINES_MAX - len(head) - len(told) - len(tail) - 2
        table = _table(view, of.table, width, colour, room)
        if len(table) <= room or len(reasons) < 2:
            break
        reasons = reasons[:-1]
    lines = [*head, "", *table, "", *told, *tail]
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").replace(NO_BREAK, " ")


def _table(view: View, table: Table, width: int, colour: bool, room: int) -> list[str]:
    """The table; of few workloads as many further rows as there is room for, its prices first."""
    chosen, every = _chosen(view, table), rows_of(view)
    prices = [loss.row for loss in view.answer.prices]
    further = [i for i in chosen if every[i].role == "secondary"]
    further.sort(
        key=lambda i: prices.index(every[i].name) if every[i].name in prices else len(prices)
    )
    while True:
        shown = Table(table.name, table.title, table.columns, tuple(table.rows[i] for i in chosen))
        lines = laid_out(shown, width, colour)
        if more := len(table.rows) - len(chosen):
            rows = view.texts.counted("scope.more_rows", more)
            lines += wrapped(view.texts("text.more_rows", rows=rows), min(width, PROSE_WIDTH))
        if len(lines) <= room or not further:
            return lines
        chosen.remove(further.pop())


def tables(every: Sequence[Table], width: int) -> str:
    """Tables one below the other, each under its title."""
    lines: list[str] = []
    for table in every:
        lines += [*([""] if lines else []), table.title, *laid_out(table, width, colour=False)]
        lines += [part for note in table.notes for part in wrapped(note, min(width, PROSE_WIDTH))]
    return "\n".join(line.rstrip() for line in lines).replace(NO_BREAK, " ")


def _chosen(view: View, table: Table) -> list[int]:
    """The numbers of the rows that a screen has room for.

    Behind every workload its other processes, and what is a price. Where the workloads are too
    many, those with the largest losses that are proven; no further row without its workload.
    """
    of, answer = rows_of(view), view.answer
    prices = [loss.row for loss in answer.prices]
    named = {answer.worst_row, *prices[:1], *(row.name for row in of if row.role == "mix")}
    groups: list[list[int]] = []
    for i, row in enumerate(of):
        if row.role != "secondary":
            groups.append([i])
        elif row.actor or row.name in prices:
            groups[-1].append(i)
    if sum(map(len, groups)) > ROWS_MAX:
        groups = [[i for i in g if i == g[0] or of[i].name in named] for g in groups]
        groups.sort(
            key=lambda g: (not named & {of[i].name for i in g}, -_largest(table.rows[g[0]]), g)
        )
    wanted = [i for group in groups for i in group][:ROWS_MAX]
    return sorted(wanted)


def _largest(row: TableRow) -> float:
    return max((cell.loss.low for cell in row.cells if cell.loss), default=0.0)


def _limits(view: View) -> list[str]:
    """The limits to know before trusting the table; everything else is in the report."""
    works: dict[tuple[str, str], list[str]] = {}
    for flag in view.answer.flags:
        if flag.kind in SERIOUS:
            key = (notes.flag_title(view, flag), notes.flag_text(view, flag))
            works.setdefault(key, []).extend([flag.workload] if flag.workload else [])
    lines = [f"{title}: {_where(view, labels)}{text}" for (title, text), labels in works.items()]
    published = [line] if (line := statements_line(view)) else []
    every = [*published, *sentences.not_counted(view), *lines, *sentences.about_folder(view)]
    return [*every, *sentences.switches(view)]


def _where(view: View, labels: Sequence[str]) -> str:
    """The workloads that a note is about, where there are others."""
    if not labels or len(view.primary) < 2:
        return ""
    if len(labels) > LIMITS_MAX:
        return f"{view.texts.counted('scope.workloads', len(labels))}: "
    return f"{view.texts.listed(labels)}: "


def _hanging(title: str, texts: Sequence[str], width: int, colour: bool) -> list[str]:
    """A short title with its sentences next to it."""
    indent = max(7, cells(title) + 2)
    lines = [line for text in texts for line in wrapped(text, width - indent)]
    head = _painted(title, BOLD, colour) + " " * (indent - cells(title))
    return [(head if i == 0 else " " * indent) + line for i, line in enumerate(lines)]


def _next(title: str, step: Step, width: int, colour: bool) -> list[str]:
    """The command whole on a line of its own, where its remark does not fit behind it."""
    if not step.command:
        return _hanging(title, [step.remark], min(width, PROSE_WIDTH), colour)
    indent = max(7, cells(title) + 2)
    head = _painted(title, BOLD, colour) + " " * (indent - cells(title)) + step.command
    if indent + cells(step.command) + 3 + cells(step.remark) <= width:
        return [f"{head}   {step.remark}"]
    return [head, *(" " * indent + line for line in wrapped(step.remark, width - indent))]


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


def laid_out(table: Table, width: int, colour: bool) -> list[str]:
    """The lines of a table: folded into the fewest lines, else in parts of the columns that fit."""
    chosen = [list(range(len(table.columns)))]
    grids = (_fold(table, *fold) for fold in FOLDS if not _cuts(table, *fold))
    fitting = [grid for grid in grids if _width(grid, chosen[0]) <= width]
    folded = min(fitting, key=_height) if fitting else _fold(table, *PARTED)
    chosen = chosen if fitting else _parts(folded, len(table.columns), width)
    lines: list[str] = []
    for part in chosen:
        lines += [*([""] if lines else []), *_drawn(folded, table, part, width, colour)]
    return lines


def _cuts(table: Table, title: int, width: int) -> bool:
    """Whether a word, such as an interval with its mark, is wider than a title or a cell."""
    return any(
        cells(word) > (width if i else title - 2 - 2 * row.level)
        for row in table.rows
        for i, cell in enumerate(row.cells)
        for text in (cell.text, cell.note)
        for word in text.split(" ")
    )


Grid = list[list[tuple[str, ...]]]


def _fold(table: Table, title: int, cell: int) -> Grid:
    """Every cell as lines: the value, then its note; a row of level 1 is indented."""
    head = [_folded(c.head, title if i == 0 else max(cell, 14))
            for i, c in enumerate(table.columns)]  # fmt: skip
    grid = [head]
    for row in table.rows:
        lead = "  " * row.level
        grid.append([
            tuple(
                (lead if i == 0 else "") + line
                for line in _lines(each, cell if i else title - len(lead), i == 0)
            )
            for i, each in enumerate(row.cells)
        ])  # fmt: skip
    return grid


def _lines(cell: TableCell, width: int, is_title: bool) -> list[str]:
    lines = list(_folded(cell.text, width)) if cell.text or not cell.note else []
    lead = "  " if is_title else ""
    note = _folded(cell.note, width - len(lead)) if cell.note else ()
    return [*lines, *(lead + line for line in note)]


def _widths(grid: Grid) -> list[int]:
    return [max(cells(line) for row in grid for line in row[i]) for i in range(len(grid[0]))]


def _width(grid: Grid, columns: Sequence[int]) -> int:
    widths = _widths(grid)
    return sum(widths[i] for i in columns) + len(GAP) * (len(columns) - 1)


def _height(grid: Grid) -> int:
    return sum(max(map(len, row)) for row in grid)


def _parts(grid: Grid, columns: int, width: int) -> list[list[int]]:
    """Groups of columns, each with the first one in front."""
    parts: list[list[int]] = []
    for column in range(1, columns):
        if parts and _width(grid, [*parts[-1], column]) <= width:
            parts[-1].append(column)
        else:
            parts.append([0, column])
    return parts or [[0]]


def _drawn(grid: Grid, table: Table, columns: Sequence[int], width: int, colour: bool) -> list[str]:
    """The lines of some columns; numbers of one unit are aligned to the right."""
    widths, out = _widths(grid), []
    for number, row in enumerate(grid):
        height = max(len(row[i]) for i in columns)
        for level in range(height):
            parts = []
            for i in columns:
                lines = row[i]
                # The head is on its last line, everything else on its first.
                at = level - (height - len(lines)) if number == 0 else level
                text = lines[at] if 0 <= at < len(lines) else ""
                pad = " " * (widths[i] - cells(text))
                style = BOLD if number == 0 else _style(table.rows[number - 1], i, at)
                painted = _painted(text, style, colour)
                is_right = i > 0 and _is_numeric(table, i)
                parts.append(pad + painted if is_right else painted + pad)
            line = GAP.join(parts).rstrip()
            out += [line] if colour or cells(line) <= width else wrapped(line, width)
    return out


def _is_numeric(table: Table, column: int) -> bool:
    """Whether a column has plain numbers, without a second line."""
    if table.columns[column].text:
        return False
    return not any(row.cells[column].note for row in table.rows)


def _style(row: TableRow, column: int, line: int) -> str:
    tone = COLOURS[row.cells[column].tone] if line else ""
    return tone or (DIM if row.level or (column == 0 and line) else "")


def _painted(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if colour and style and text.strip() else text


def cells(text: str) -> int:
    """Columns that a text takes in a terminal (Hangul takes two each)."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def chopped(word: str, width: int) -> list[str]:
    """A word in parts of at most `width` columns."""
    if cells(word) <= width:
        return [word]
    from rich.cells import chop_cells

    return chop_cells(word, width)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at plain spaces; a longer word is cut."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] += " " + word
            continue
        lines += chopped(word, width)
    return lines


def _folded(text: str, width: int) -> tuple[str, ...]:
    """A text in lines of at most `width` columns."""
    return tuple(wrapped(text, width)) or ("",)
