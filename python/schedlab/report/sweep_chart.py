"""The page of a block-size sweep: seconds per call over block size, both axes logarithmic."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STYLE = """
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:60rem;margin:2rem auto;padding:0 1rem}svg{max-width:100%;height:auto;background:#fff}
div{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:1px solid}
"""


def chart_svg(points: list[Mapping[str, Any]]) -> str:
    """Median seconds per call with the range of the repetitions, a line and shape per mode."""
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
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("block:Q", scale=alt.Scale(type="log", base=2), title="block size (bytes)"),
        color=alt.Color("mode:N", title="open mode"),
    )
    axis = alt.Y("microseconds:Q", scale=alt.Scale(type="log"), title="µs per call")
    middle = alt.Y("median(microseconds):Q", scale=alt.Scale(type="log"), title="µs per call")
    layers = base.mark_point(size=18, opacity=0.5).encode(y=axis, shape="mode:N")
    lines = base.mark_line().encode(y=middle, strokeDash="mode:N")
    spec = (layers + lines).properties(width=640, height=380).to_json()
    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg


def write_page(data: Mapping[str, Any], path: Path) -> None:
    """One self-contained page: conclusions, chart, and the table of all runs."""
    said = "".join(_said(mode, found) for mode, found in data["modes"].items())
    points = sorted(data["points"], key=lambda p: (p["mode"], p["block_bytes"]))
    rows = "".join(
        f"<tr><td>{html.escape(p['mode'])}</td><td>{p['block_bytes']}</td><td>{p['calls']}</td>"
        f"<td>{p['elapsed_s']:.6f}</td><td>{p['elapsed_s'] / p['calls'] * 1e6:.2f}</td></tr>"
        for p in points
    )
    head = "<th>mode<th>block (bytes)<th>calls<th>seconds<th>µs per call"
    label = "Microseconds per call over block size"
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Block size and open mode</title>'
        f"<style>{STYLE}</style><main><h1>Block size and open mode</h1>{said}"
        f'<figure role="img" aria-label="{label}">{chart_svg(data["points"])}</figure>'
        f'<div tabindex="0"><table><thead><tr>{head}</thead><tbody>{rows}</tbody></table></div>'
        "</main></html>"
    )


def _said(mode: str, found: Mapping[str, Any]) -> str:
    cost = found["cost"]["statement"] if found["cost"] else ""
    text = f"{cost} {found['knee']['statement']}"
    return f"<h2>{html.escape(mode)}</h2><p>{html.escape(text)}</p>"
