"""Page and workbook of a block-size sweep: seconds per call over block size, log-log."""

from __future__ import annotations

import html
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.report.view import size_text

TITLE = "Block size and open mode"
STYLE = """
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:60rem;margin:2rem auto;padding:0 1rem}svg{max-width:100%;height:auto;background:#fff}
div{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:1px solid}
"""


def chart_svg(points: list[Mapping[str, Any]]) -> str:
    """Every run's seconds per call, and a line through the medians per mode."""
    import altair as alt
    import vl_convert

    rows = [
        {
            "mode": point["mode"],
            "block": point["block_bytes"],
            "microseconds": point["elapsed_s"] / point["calls"] * 1e6,
        }
        for point in points
    ]
    sizes = sorted({point["block_bytes"] for point in points})
    labels = f"{ {size: size_text(size) for size in sizes} }[datum.value]"
    axis = alt.Axis(values=sizes, labelExpr=labels, labelAngle=-45, labelOverlap=False, grid=False)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("block:Q", scale=alt.Scale(type="log", base=2), title="block size", axis=axis),
        color=alt.Color("mode:N", title="open mode", legend=None),
    )
    scale, title = alt.Scale(type="log"), "µs per call"
    ticks = alt.Axis(tickCount=6, format=",~r")
    layers = base.mark_point(size=18, opacity=0.5).encode(
        y=alt.Y("microseconds:Q", scale=scale, title=title, axis=ticks),
        shape=alt.Shape("mode:N", legend=None),
    )
    lines = base.mark_line().encode(
        y=alt.Y("median(microseconds):Q", scale=scale, title=title),
        strokeDash=alt.StrokeDash("mode:N", legend=None),
    )
    last = max(sizes)
    names = (
        base.transform_filter(alt.datum.block == last)
        .mark_text(align="left", dx=8)
        .encode(y=alt.Y("median(microseconds):Q", scale=scale, title=title), text="mode:N")
    )
    spec = (layers + lines + names).properties(width=640, height=380).to_json()
    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg


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
    """One self-contained page: conclusions, chart, and the table of all runs."""
    said = "".join(_said(mode, found) for mode, found in data["modes"].items())
    rows = "".join(
        f"<tr><td>{html.escape(mode)}</td><td>{size_text(block)}</td><td>{calls:,}</td>"
        f"<td>{seconds:.6f}</td><td>{seconds / calls * 1e6:,.2f}</td>"
        f"<td>{calls * block / seconds / 1e6:,.1f}</td></tr>"
        for mode, block, calls, seconds in medians(data["points"])
    )
    head = "<th>mode<th>block<th>calls<th>seconds<th>µs per call<th>MB/s"
    repetitions = 1 + max(point["repetition"] for point in data["points"])
    label = "Microseconds per call over block size"
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>'
        f"{TITLE}</title><style>{STYLE}</style><main><h1>{TITLE}</h1>{said}"
        f'<figure role="img" aria-label="{label}">{chart_svg(data["points"])}</figure>'
        f"<h2>Medians of {repetitions} repetitions</h2>"
        f'<div tabindex="0"><table><thead><tr>{head}</thead><tbody>{rows}</tbody></table></div>'
        "</main></html>"
    )


def _said(mode: str, found: Mapping[str, Any]) -> str:
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in sentences(found))
    return f"<h2>{html.escape(mode)}</h2>{paragraphs}"


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
