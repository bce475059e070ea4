"""The frame of every page, for every kind of result: one style, one order.

Headline in the largest type, then its population, then the sections. Nothing is loaded, and only
what is explored has a script; readable on a phone, in the dark, and on paper.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import schedlab
from schedlab.package import PACKAGE
from schedlab.report import drawing
from schedlab.report.markup import paragraph, section, whole_names
from schedlab.report.texts import Texts
from schedlab.store.files import write_atomic

STYLES = ("page", "chart")
# What a browser holds the scripts of a page to: nothing is asked of any host.
POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
)


@dataclass(frozen=True)
class Page:
    """The parts of a page: `headline` sentences, `kicker` above and `lead` lines below them.

    `first` is the rest of the first screen as markup, `sections` are (name, title, markup).
    `code` is the code of the verdict, where the page has one. `style` and `scripts` are those of a
    page that can be explored; it may load nothing either.
    """

    headline: Sequence[str]
    kicker: str
    lead: Sequence[str]
    first: str
    sections: Sequence[tuple[str, str, str]]
    code: str = ""
    style: str = ""
    scripts: str = ""


def data_script(name: str, value: Any) -> str:
    """Data for a script of the page, as JSON; no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def render(page: Page, texts: Texts) -> str:
    """The whole page as HTML."""
    css = "".join((PACKAGE / "report" / f"{name}.css").read_text("utf-8") for name in STYLES)
    shown = [part for part in page.sections if part[2]]
    body = "".join(section(name, title, inside) for name, title, inside in shown)
    return (
        f'<!doctype html>\n<html lang="{texts.language}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(page.headline[0])}</title>\n"
        f"{POLICY if page.scripts else ''}"
        f"<style>\n{drawing.palette()}\n{css}{page.style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#verdict">{escape(texts("text.skip"))}</a>\n'
        f"{drawing.symbols()}\n"
        f'<main id="verdict">{_header(page)}{page.first}{_contents(shown, texts)}{body}</main>\n'
        f"<footer>{paragraph(texts('text.generated', version=schedlab.__version__))}</footer>\n"
        f"{page.scripts}</body>\n</html>\n"
    )


def write(page: Page, texts: Texts, path: Path) -> None:
    """Write the page, whole or not at all; HostError when `path` cannot be written."""
    write_atomic(path, render(page, texts))


def _header(page: Page) -> str:
    first, *more = page.headline
    rest = f' <span class="dek">{whole_names(" ".join(more))}</span>' if more else ""
    code = f' data-code="{page.code}"' if page.code else ""
    return (
        f"<header>{paragraph(page.kicker, 'kicker') if page.kicker else ''}"
        f"<h1{code}>{whole_names(first)}{rest}</h1>"
        f"{paragraph(' '.join(page.lead), 'lead') if page.lead else ''}</header>"
    )


def _contents(shown: Sequence[tuple[str, str, str]], texts: Texts) -> str:
    """Links to the sections, after the first screen."""
    if len(shown) < 2:
        return ""
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in shown)
    return f'<nav aria-label="{escape(texts("section.contents"))}"><ul>{links}</ul></nav>'
