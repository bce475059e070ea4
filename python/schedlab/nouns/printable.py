"""Text from strangers, without what controls a terminal, hides text or cannot be encoded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from schedlab.errors import SpecError

# Control characters but tab and newline, marks of direction, lone halves of surrogate pairs.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def is_printable(text: str) -> bool:
    """Whether a terminal shows all of it, and does nothing else."""
    return _CONTROL.search(text) is None


def printable(text: str) -> str:
    """The text with every such character written out, as in `\\x1b`."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def all_printable(value: Any) -> Any:
    """Plain JSON types with every text printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): all_printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [all_printable(item) for item in value]
    return value


def check_words(words: Sequence[str]) -> None:
    """Refuse what was typed if it is not whole, or no text: a result has to hold it."""
    if words[-1:] == ["--"]:
        raise SpecError("there is no command after --", "add it: -- COMMAND ARG…")
    for word in words:
        if word != word.encode(errors="ignore").decode():
            raise SpecError(f"{word!a} is not UTF-8 text", "rename it, or name a link to it")
