"""Every figure of a page as a picture that stands alone, for a paper: SVG, and PDF.

The charts of a page take their colours, markers and legend from it; here they get their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from html import unescape

from schedlab.errors import SpecError, to_install
from schedlab.package import PACKAGE
from schedlab.report.drawing import COLOURS, MARKERS, cells, n, text

LEGEND = re.compile(r'<ul class="legend">(.*?)</ul>', re.DOTALL)
ITEM = re.compile(r'<svg(?: class="key (s\d)")? viewBox="0 0 (\d+) 12".*?>(.*?)</svg>(.*?)</li>')
CHART = re.compile(
    r'<svg class="(chart[^"]*)" viewBox="0 0 (\d+) (\d+)".*?aria-label="(.*?)">(.*?)</svg>',
    re.DOTALL,
)
# Room around a picture, between the items of its legend, and of a row of them.
EDGE, GAP, ROW = 8, 22, 20
LETTER = 6.4
NAME_MAX = 80


def figures(page: str, others: Sequence[str] = ()) -> dict[str, str]:
    """The charts of a page in their order as SVG documents, by a file name without its end.

    `others` are pictures that stand alone already; what is drawn several times is there once.
    """
    drawn = dict.fromkeys([*_charts(page), *((_title(svg), svg) for svg in others)])
    return {
        f"{number:03d}-{_file_name(title)}": svg for number, (title, svg) in enumerate(drawn, 1)
    }


def pdf(svg: str) -> bytes:
    """A picture as a PDF document; SpecError without CairoSVG or the library that it needs."""
    try:
        import cairosvg
    except (ImportError, OSError) as error:
        what = "PDF needs CairoSVG and libcairo2, and one of them is missing; the SVG are written"
        raise SpecError(what, to_install("cairosvg")) from error
    document: bytes = cairosvg.svg2pdf(bytestring=svg.encode())
    return document


def _charts(page: str) -> Iterator[tuple[str, str]]:
    """The title and the document of each chart, with the items of the legend before it."""
    items: list[tuple[str, int, str, str]] = []
    for found in re.finditer(f"{LEGEND.pattern}|{CHART.pattern}", page, re.DOTALL):
        if found[1] is not None:
            items = [(kind, int(w), svg, name) for kind, w, svg, name in ITEM.findall(found[1])]
        else:
            kind, width, height, label, inside = found.groups()[1:]
            yield unescape(label), _document(kind, int(width), int(height), label, inside, items)


def _document(
    kind: str, width: int, height: int, label: str, inside: str,
    items: Sequence[tuple[str, int, str, str]],
) -> str:  # fmt: skip
    """The chart with its style, its markers, and below it the legend of what it draws."""
    shown = [item for item in items if _is_drawn(item, inside)]
    parts, x, y = [], 0.0, height + 14.0
    for series, wide, svg, name in shown:
        long = wide + 6 + LETTER * cells(unescape(name))
        if x and x + long > width:
            x, y = 0.0, y + ROW
        parts.append(f'<g class="{series}" transform="translate({n(x)} {n(y - 8)})">{svg}</g>')
        parts.append(text(x + wide + 6, y + 2, unescape(name)))
        x += long + GAP
    bottom = y + 10 if shown else height
    box = f"{-EDGE} {-EDGE} {width + 2 * EDGE} {n(bottom + 2 * EDGE)}"
    size = f'width="{width + 2 * EDGE}" height="{n(bottom + 2 * EDGE)}"'
    drawn = inside + "".join(parts)
    used = sorted(set(re.findall(r'href="#m(\d)"', drawn)))
    defs = "".join(f'<g id="m{i}">{MARKERS[int(i)]}</g>' for i in used)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" viewBox="{box}" {size} '
        f'role="img"><title>{label}</title><style>{_style()}</style><defs>{defs}</defs>'
        f"{drawn}</svg>\n"
    )


def _is_drawn(item: tuple[str, int, str, str], inside: str) -> bool:
    """Whether a chart draws what an item of a legend explains, and does not name it itself."""
    series, _, svg, name = item
    kind = series or re.findall(r'class="(part \w+)"', svg)[0]
    is_there = re.search(rf'class="([^"]* )?{kind}["\s]', inside) is not None
    return is_there and f">{name}<" not in re.sub("<title>.*?</title>", "", inside)


def _style() -> str:
    """The style of charts, with the light colours of a page in the place of its variables."""
    folder = PACKAGE / "report"
    colours = {f"s{i}": colour for i, colour in enumerate(COLOURS)}
    page = (folder / "page.css").read_text("utf-8")
    colours |= dict(re.findall(r"--([\w-]+):\s*([^;]+);", page[: page.index("}")]))
    colours["sans"] = "sans-serif"
    css = (folder / "chart.css").read_text("utf-8")
    css = re.sub(r"var\(--([\w-]+)\)", lambda found: colours[found[1]], css)
    return re.sub(r"/\*.*?\*/\n", "", css, flags=re.DOTALL)


def _title(svg: str) -> str:
    found = re.search(r"<title>(.*?)</title>", svg)
    return unescape(found[1]) if found else "figure"


def _file_name(title: str) -> str:
    """A title as a file name: letters of every language and digits, joined by hyphens."""
    words = re.findall(r"\w+", unicodedata.normalize("NFC", title).lower())
    return "-".join(words)[:NAME_MAX].rstrip("-") or "figure"
