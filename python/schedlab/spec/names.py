"""Names that people type: labels, titles, notes. They are shown, never used as paths."""

from __future__ import annotations

import unicodedata

from schedlab.errors import SpecError


def check_name(what: str, text: str, length_max: int = 200) -> str:
    """The text itself; SpecError naming `what` when it is empty, too long or not printable."""
    if not text.strip():
        raise SpecError(f"{what}: is empty", "give it a name")
    if len(text) > length_max:
        raise SpecError(f"{what}: has {len(text)} characters", f"use at most {length_max}")
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            raise SpecError(
                f"{what}: contains the control character U+{ord(character):04X}",
                "use printable characters only",
            )
    return text
