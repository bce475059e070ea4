"""Reading candidates as they are typed: `none,mq-deadline:fifo_batch=32,bfq:low_latency=0`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from schedlab.errors import SpecError
from schedlab.spec import Candidate

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_HINT = "write NAME or NAME:TUNABLE=VALUE,…, e.g. none,mq-deadline:fifo_batch=32,bfq:low_latency=0"


def parse_candidates(text: str) -> tuple[Candidate, ...]:
    """Candidates in the order typed; `a=b` after a comma belongs to the candidate before it.

    A candidate that comes again gets the label `NAME#2`, so it can be compared with itself.
    SpecError names the word that is not understood.
    """
    groups: list[tuple[str, dict[str, str | int | float]]] = []
    for word in (part.strip() for part in text.split(",")):
        head, colon, first = word.partition(":")
        if not colon and "=" in word and groups:
            _add_tunable(groups[-1][1], word)
            continue
        if not NAME.fullmatch(head):
            raise SpecError(f"candidate {word!r} is not understood", _HINT)
        groups.append((head, {}))
        if colon:
            _add_tunable(groups[-1][1], first)
    return label_candidates(groups)


def label_candidates(
    named: Sequence[tuple[str, Mapping[str, str | int | float]]],
) -> tuple[Candidate, ...]:
    """Candidates with unique labels that name their settings."""
    seen: dict[str, int] = {}
    candidates = []
    for name, tunables in named:
        settings = ",".join(f"{key}={value}" for key, value in tunables.items())
        label = f"{name}:{settings}" if settings else name
        seen[label] = seen.get(label, 0) + 1
        if seen[label] > 1:
            label = f"{label}#{seen[label]}"
        candidates.append(Candidate(label, {"scheduler": name, **tunables}))
    return tuple(candidates)


def _add_tunable(tunables: dict[str, str | int | float], word: str) -> None:
    key, equals, value = word.partition("=")
    if not equals or not NAME.fullmatch(key) or not value or key == "scheduler":
        raise SpecError(f"tunable {word!r} is not understood", _HINT)
    tunables[key] = int(value) if re.fullmatch(r"-?\d+", value) else value
