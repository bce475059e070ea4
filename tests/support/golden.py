"""Golden files: what people see, kept as a file that a reviewer reads as a diff."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


class Golden:
    """Compares a text with a file of the project; `pytest --update` writes the file instead."""

    def __init__(self, update: bool) -> None:
        self._update = update

    def __call__(self, name: str, text: str, home: Path | None = None) -> None:
        file = (home or GOLDEN) / name
        # Spaces at the ends of lines are invisible to a reviewer, and editors remove them.
        text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).rstrip("\n") + "\n"
        if self._update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        known = file.read_text(encoding="utf-8") if file.exists() else ""
        changes = difflib.unified_diff(
            known.splitlines(), text.splitlines(), f"{file.parent.name}/{name}", "now", lineterm=""
        )
        assert known == text, "\n".join(
            [*changes, "renew it with: pytest --update, and read the diff"]
        )
