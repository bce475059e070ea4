"""Whether a repetition contradicts a first result."""

from __future__ import annotations

from schedlab.spec import Verdict

OPPOSITE = {("better", "worse"), ("better", "equivalent"), ("worse", "equivalent")}
OPPOSITE |= {(again, first) for first, again in OPPOSITE}


def contradictions(first: Verdict, again: Verdict) -> list[str]:
    """Pairs that were better and are now worse or equivalent, or the other way round."""
    lines = []
    for label, work in first.workloads.items():
        now = again.workloads.get(label)
        pairs = {(p.a, p.b): p for p in now.pairs} if now else {}
        for pair in work.pairs:
            other = pairs.get((pair.a, pair.b))
            if other and (pair.verdict, other.verdict) in OPPOSITE:
                lines.append(
                    f"{label}: {pair.a} was {pair.verdict}, now {other.verdict}, than {pair.b}"
                )
    return lines
