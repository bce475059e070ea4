"""What whole outcomes are compared by: words of pages, sums of pictures, parts of results."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any


def sum_of(content: str | bytes) -> str:
    """A sum that tells one content from another."""
    return f"{zlib.crc32(content if isinstance(content, bytes) else content.encode()):08x}"


def plain(value: Any) -> Any:
    """A part of a result as plain types: what is not as usual, figures with six digits."""
    if is_dataclass(value):
        usual = ((of, getattr(value, of.name)) for of in fields(value))
        return {of.name: plain(each) for of, each in usual if each != of.default}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if not isinstance(value, float):
        return value
    # What is as small, or as large, is the rounding of the processor's own arithmetic.
    return float(f"{min(value, 1e15):.6g}") if abs(value) > 1e-12 else 0.0


def rounded(text: str) -> str:
    """A text whose long numbers have six digits: further ones are the processor's own."""

    def short(found: re.Match[str]) -> str:
        value = float(found[0])
        return f"{value:.6g}" if abs(value) > 1e-12 else "0"

    return re.sub(r"-?\d+\.\d{5,}(?:[eE][-+]?\d+)?|-?\d(?:\.\d+)?[eE]-\d+", short, text)


def drawn(picture):
    """What a picture is made of, and a sum of where each part stands and how it looks."""
    parts = Counter(re.findall(r"<(\w+)", picture))
    shown = ", ".join(f"{count} {part}" for part, count in sorted(parts.items()))
    return f"\n[{shown}: {sum_of(picture)}]\n{picture}\n"


def words_of(page):
    """What a reader of a page sees, reads under the pointer, or hears; its links and colours."""
    page = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r"<svg.*?</svg>", lambda found: drawn(found[0]), page, flags=re.DOTALL)
    page = re.sub(r'<[^>]*?(?:aria-label|title)="([^"]*)"[^>]*>', r"\n\1\n", page)
    page = re.sub(r'<(?:a|code|td)\b[^>]*?(?:href|data-copy|class)="([^"]*)"[^>]*>', r"{\1}", page)
    rows = re.sub(r"</(?:td|th)>\s*", " | ", page)
    texts = re.sub(r"<[^>]+>", "\n", re.sub(r"</?(?:td|th|a|b|code|span|strong)\b[^>]*>", "", rows))
    return [line.strip() for line in texts.splitlines() if line.strip()]
