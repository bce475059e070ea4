"""The page of the NCQ study: charts with tables, paper and model side by side, what fails."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STYLE = """
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:64rem;margin:2rem auto;padding:0 1rem}svg{max-width:100%;height:auto;background:#fff}
div{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right}
th:first-child,td:first-child,th:nth-child(5),td:nth-child(5){text-align:left}
thead th{border-bottom:1px solid}
"""
Rows = Sequence[Mapping[str, Any]]


def line_chart(rows: Rows, x: str, y: str, by: str, log: bool = False) -> str:
    """SVG of one line per value of `by`, told apart by colour and dash; `log`: on both axes."""
    import altair as alt

    x_scale = alt.Scale(type="log", base=2) if log else alt.Scale()
    y_scale = alt.Scale(type="log") if log else alt.Scale()
    chart = alt.Chart(alt.InlineData(values=[dict(row) for row in rows]))
    lines = chart.mark_line(point=True).encode(
        x=alt.X(f"{x}:Q", scale=x_scale, title=x),
        y=alt.Y(f"{y}:Q", scale=y_scale, title=y),
        color=alt.Color(f"{by}:N", title=by, sort=None),
        strokeDash=alt.StrokeDash(f"{by}:N", sort=None),
    )
    return _svg(lines.properties(width=640, height=320))


def bar_chart(rows: Rows, group: str, y: str, by: str) -> str:
    """SVG of grouped bars; where a row has `paper`, a black tick stands at it."""
    import altair as alt

    chart = alt.Chart(alt.InlineData(values=[dict(row) for row in rows]))
    place = {
        "x": alt.X(f"{group}:N", title=group, sort=None, axis=alt.Axis(labelAngle=0)),
        "xOffset": alt.XOffset(f"{by}:N", sort=None),
    }
    bars = chart.mark_bar().encode(
        **place, y=alt.Y(f"{y}:Q", title=y), color=alt.Color(f"{by}:N", title=by, sort=None)
    )
    ticks = (
        chart.mark_tick(color="black", thickness=3, size=18)
        .encode(**place, y="paper:Q")
        .transform_filter("isValid(datum.paper)")
    )
    return _svg((bars + ticks).properties(width=640, height=320))


def _svg(chart: Any) -> str:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(chart.to_json())
    return svg


def figure(title: str, note: str, svg: str, rows: Rows) -> str:
    """A chart with its sentence, and the same numbers as a table."""
    label = html.escape(title)
    return (
        f'<section><h2>{label}</h2><p>{html.escape(note)}</p><figure role="img" '
        f'aria-label="{label}">{svg}</figure><details><summary>Numbers</summary>'
        f"{table(rows)}</details></section>"
    )


def table(rows: Rows) -> str:
    """The rows as a table; numbers with three decimals, nothing where a value is None."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f'<th scope="col">{html.escape(name)}' for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(row.get(name))}" for name in names) for row in rows
    )
    inner = f"<thead><tr>{head}</thead><tbody>{body}</tbody>"
    return f'<div tabindex="0"><table>{inner}</table></div>'


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else html.escape(str(value))


def write_study(
    path: Path, statements: Rows, cannot: Sequence[str], figures: Rows, basis: str
) -> None:
    """The page of figures given as `kind`, `rows`, `x`, `y`, `by`, `log`, `title` and `note`."""
    drawn = []
    for each in figures:
        if each["kind"] == "bar":
            svg = bar_chart(each["rows"], each["x"], each["y"], each["by"])
        else:
            svg = line_chart(each["rows"], each["x"], each["y"], each["by"], each["log"])
        drawn.append(figure(each["title"], each["note"], svg, each["rows"]))
    write_page(path, statements, cannot, drawn, basis)


def write_page(
    path: Path, statements: Rows, cannot: Sequence[str], figures: Sequence[str], basis: str
) -> None:
    """The whole self-contained page."""
    failures = "".join(f"<li>{html.escape(text)}" for text in cannot)
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>NCQ policies on an SSD</title>'
        f"<style>{STYLE}</style><main><h1>NCQ policies on an SSD: paper and model</h1>"
        f"<p>{html.escape(basis)}</p><h2>Paper and model side by side</h2>{table(statements)}"
        f"<h2>What does not come out</h2><ul>{failures}</ul>{''.join(figures)}</main></html>"
    )
