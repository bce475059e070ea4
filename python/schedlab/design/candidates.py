"""Reading candidates as they are typed: `none,mq-deadline:fifo_batch=32,bfq:low_latency=0`, or one
with settings of any layer: `zen=kyber sysctl.vm.dirty_bytes=100M cgroup.io.weight=300`.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from schedlab.errors import SpecError
from schedlab.nouns import Candidate

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
# A first word that is a setting of another layer than the queue, and no label.
_SETTING = re.compile(
    r"(?:(?:sysctl|cgroup|module|knob)\.[^=]+"
    r"|thp|governor|energy_performance_preference|boost|run|undo|cmdline)=.*"
)
_HEAD = re.compile(r"(?:(?P<label>[^\s:=]+)=)?(?P<head>[^\s:=]+(?::\S+)?)")
_HINT_ONE = "write LABEL=SCHEDULER SETTING=VALUE …, e.g. 'big=kyber sysctl.vm.dirty_bytes=1G'"
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
    candidates = []
    for name, tunables in named:
        settings = ",".join(f"{key}={value}" for key, value in tunables.items())
        label = f"{name}:{settings}" if settings else name
        candidates.append(Candidate(label, {"scheduler": name, **tunables}))
    return unique_labels(candidates)


def unique_labels(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates, a label that comes again as `LABEL#2`."""
    seen: Counter[str] = Counter()
    unique = []
    for each in candidates:
        seen[each.label] += 1
        number = f"#{seen[each.label]}" if seen[each.label] > 1 else ""
        unique.append(replace(each, label=each.label + number))
    return tuple(unique)


@dataclass(frozen=True)
class Typed:
    """One candidate as typed: its label, the words before its settings, and the settings."""

    label: str
    head: str
    settings: Mapping[str, str | int | float]


def typed_candidate(text: str, usual: str) -> Typed:
    """`[LABEL=]SCHEDULER[:TUNABLE=VALUE,…] [SETTING=VALUE …]`; SpecError for anything else.

    Before a setting of another layer than the queue the scheduler may be left out: `usual`. A value
    with spaces is quoted, as in a shell. Without a label the whole text is one.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SpecError(f"candidate {text!r}: {error}", "close the quotes") from error
    if words and _SETTING.fullmatch(words[0]):
        words.insert(0, usual)
    match = _HEAD.fullmatch(words[0]) if words else None
    if match is None:
        raise SpecError(f"candidate {text!r} is not understood", _HINT_ONE)
    settings: dict[str, str | int | float] = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not (equals and key and value) or key == "scheduler" or key in settings:
            raise SpecError(f"candidate {text!r}: {word!r} is not understood", _HINT_ONE)
        settings[key] = _value(value)
    return Typed(match["label"] or " ".join(text.split()), match["head"], settings)


def parse_candidate(text: str) -> Candidate:
    """A candidate with settings of any layer: a scheduler (as-is), then SETTING=VALUE words."""
    typed = typed_candidate(text, "as-is")
    scheduler, *more = parse_candidates(typed.head)
    if more:
        raise SpecError(f"candidate {text!r} names several schedulers", _HINT_ONE)
    if twice := [key for key in typed.settings if key in scheduler.settings]:
        raise SpecError(f"candidate {text!r} sets {twice[0]} twice", _HINT_ONE)
    return Candidate(typed.label, {**scheduler.settings, **typed.settings})


def is_one(text: str) -> bool:
    """Whether a text is in the form of `parse_candidate`: it has spaces or a label."""
    return bool(re.search(r"\s", text.strip())) or "=" in text.partition(":")[0]


def _add_tunable(tunables: dict[str, str | int | float], word: str) -> None:
    key, equals, value = word.partition("=")
    if not equals or not NAME.fullmatch(key) or not value or key == "scheduler":
        raise SpecError(f"tunable {word!r} is not understood", _HINT)
    tunables[key] = _value(value)


def _value(text: str) -> str | int:
    return int(text) if re.fullmatch(r"-?\d+", text) else text
