"""Page and workbook of a block-size sweep: seconds per call over block size, log-log."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.report import charts, frame
from schedlab.report.markup import Cell, Line, figure, number, paragraph, table
from schedlab.report.texts import Texts
from schedlab.report.view import size_text

TITLE = "Block size and open mode"


def chart_svg(points: Sequence[Mapping[str, Any]], texts: Texts, label: str) -> str:
    """The median of the runs' microseconds per call, and their range, a line per mode."""
    modes = list(dict.fromkeys(point["mode"] for point in points))
    sizes = sorted({int(point["block_bytes"]) for point in points})
    lines = []
    for i, mode in enumerate(modes):
        by_size: dict[int, list[float]] = {}
        for point in points:
            if point["mode"] == mode:
                each = point["elapsed_s"] / point["calls"] * 1e6
                by_size.setdefault(int(point["block_bytes"]), []).append(each)
        middles = [(float(size), statistics.median(by_size[size])) for size in sorted(by_size)]
        ranges = [(min(by_size[size]), max(by_size[size])) for size in sorted(by_size)]
        lines.append(charts.Line(i, middles, ranges, name=mode))
    chart = charts.Chart(
        lines, texts("size.block_bytes"), "µs per call", log_x=True, width=720, height=380,
        ticks_x=[(float(size), size_text(size)) for size in sizes],
    )  # fmt: skip
    return charts.line_chart(chart, texts, label)


def medians(points: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int, float]]:
    """(mode, block bytes, calls, median seconds), by mode and block size."""
    runs: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for point in points:
        runs.setdefault((point["mode"], point["block_bytes"]), []).append(point)
    return [
        (mode, block, each[0]["calls"], statistics.median(p["elapsed_s"] for p in each))
        for (mode, block), each in sorted(runs.items())
    ]


def write_page(data: Mapping[str, Any], path: Path) -> None:
    """One self-contained page: conclusions, chart, and the medians of all runs."""
    texts = Texts("en")
    repetitions = 1 + max(point["repetition"] for point in data["points"])
    label = "Microseconds per call over block size"
    caption = f"Medians of {repetitions} repetitions"
    head: Line = ["mode", *map(Cell, ("block", "calls", "seconds", "µs per call", "MB/s"))]
    rows: list[Line] = [
        [
            mode,
            number(size_text(block)),
            number(f"{calls:,}"),
            number(texts.figure(seconds)),
            number(texts.figure(seconds / calls * 1e6)),
            number(texts.figure(calls * block / seconds / 1e6)),
        ]
        for mode, block, calls, seconds in medians(data["points"])
    ]
    beside = table(head, rows, caption)
    drawn = chart_svg(data["points"], texts, label)
    said = {mode: sentences(found) for mode, found in data["modes"].items()}
    headline = [f"{mode}: {lines[0]}" for mode, lines in said.items()]
    rest = "".join(
        paragraph(f"{mode}: {line}") for mode, lines in said.items() for line in lines[1:]
    )
    note = "The median of the runs and their range; both axes are logarithmic."
    first = f'<div class="wide">{figure(label, note, drawn, "", texts)}</div>{rest}'
    page = frame.Page(
        headline=headline,
        kicker=f"{TITLE}. Measured on {data['target']}.",
        lead=[f"{len(data['points'])} runs, {repetitions} of each block size and mode."],
        first=first,
        sections=[("medians", caption, beside)],
    )
    frame.write(page, texts, path)


def sentences(found: Mapping[str, Any]) -> list[str]:
    """What the calls cost, and where the knee is."""
    knee = found["knee"]["statement"]
    said = [found["cost"]["statement"]] if found["cost"] else []
    return [*said, f"{knee[0].upper()}{knee[1:]}."]


def write_workbook(data: Mapping[str, Any], path: Path) -> None:
    """The same as a workbook: conclusions, medians and all runs, numbers as numbers."""
    import xlsxwriter

    from schedlab.report.workbook import Formats, Sheet

    with xlsxwriter.Workbook(str(path)) as book:
        book.set_properties({"title": TITLE, "comments": "Made by schedlab"})
        formats = Formats(book)
        sheet = Sheet(book, "Conclusions", formats)
        sheet.line(TITLE, "title")
        for mode, found in data["modes"].items():
            sheet.line(mode, "heading")
            for text in sentences(found):
                sheet.line(text)
        sheet.finish()
        sheet = Sheet(book, "Medians", formats)
        sheet.cells(["mode", "block (bytes)", "calls", "seconds", "µs per call"], "head")
        for mode, block, calls, seconds in medians(data["points"]):
            sheet.cells([mode, block, calls, seconds, seconds / calls * 1e6])
        sheet.finish()
        sheet = Sheet(book, "Runs", formats)
        names = list(data["points"][0])
        sheet.cells(names, "head")
        for point in data["points"]:
            sheet.cells([point[name] for name in names])
        sheet.finish()
