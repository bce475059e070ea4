"""The documents that are shipped with schedlab: guides, concepts, reference."""

from __future__ import annotations

import re
from pathlib import Path

from schedlab.errors import SpecError, nearest
from schedlab.package import tree


def pages() -> dict[str, Path]:
    """Name -> file of every page; a name is the file's without its ending."""
    return {path.stem: path for path in sorted(tree("docs").rglob("*.md"))}


def title(page: Path) -> str:
    """The first heading of a page."""
    first = page.read_text(encoding="utf-8").partition("\n")[0]
    return first.lstrip("# ")


def text(name: str) -> str:
    """The Markdown text of the page `name`. Raises SpecError for an unknown name."""
    known = pages()
    if name not in known:
        raise SpecError(f"there is no page {name!r}", hint=nearest(name, known))
    return re.sub(r"<!-- .*? -->\n?", "", known[name].read_text(encoding="utf-8"))
