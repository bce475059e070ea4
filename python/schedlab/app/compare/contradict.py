"""Whether a repetition contradicts a first result."""

from __future__ import annotations

from schedlab.nouns.answer import Answer


def contradictions(first: Answer, again: Answer) -> list[str]:
    """Candidates that were proven behind on a row and may be best now, or the other way round."""
    lines = []
    for row in first.counted:
        for label, then in first.cells[row].items():
            now = again.cells.get(row, {}).get(label)
            if now is None:
                continue
            if then.best and now.low > again.margin:
                lines.append(f"{row}: {label} was the best, and is now behind")
            elif now.best and then.low > first.margin:
                lines.append(f"{row}: {label} was behind, and is now the best")
    return lines
