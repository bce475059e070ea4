"""Candidates that guarantee different things about what was written are never compared.

A write that is on the device when its call returns costs more than one that a crash loses. So
each guarantee has an answer of its own, and no loss reaches from one to another.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from schedlab.nouns import AA_SUFFIX, Samples
from schedlab.nouns.answer import Answer, CellAnswer, OfGuarantee

Ask = Callable[[Sequence[Samples], Sequence[Samples], str, Sequence[str]], Answer]


def by_guarantee(
    primary: Sequence[Samples],
    secondary: Sequence[Samples],
    baseline: str,
    guarantees: Mapping[str, str],
    ask: Ask,
) -> Answer:
    """The answer among those that guarantee what the baseline does, with the cells of all.

    `guarantees`: candidate -> guarantee. `ask` gives the answer of some samples, with its baseline
    and its candidates. What the others of a guarantee are told is in `Answer.guarantees`.
    """
    groups: dict[str, list[str]] = {}
    for label, guarantee in guarantees.items():
        groups.setdefault(guarantee, []).append(label)
    first = guarantees[baseline]
    answers: dict[str, Answer] = {}
    for guarantee in sorted(groups, key=lambda name: name != first):
        labels = groups[guarantee]
        arms = {*labels, *(label + AA_SUFFIX for label in labels)}
        if own := _of(primary, arms):
            base = baseline if guarantee == first else labels[0]
            answers[guarantee] = ask(own, _of(secondary, arms), base, labels)
    result = answers[first]
    cells: dict[str, dict[str, CellAnswer]] = {row.name: {} for row in result.rows}
    for name, of_row in cells.items():
        for each in answers.values():
            of_row.update(each.cells.get(name, {}))
    told = tuple(
        OfGuarantee(name, tuple(groups[name]), None if name == first else answers.get(name))
        for name in sorted(groups, key=lambda name: name != first)
    )
    return replace(result, candidates=tuple(guarantees), cells=cells, guarantees=told)


def _of(samples: Sequence[Samples], arms: Container[str]) -> list[Samples]:
    """The samples of these arms, where they have values."""
    some = (sample.of_candidates(arms) for sample in samples)
    return [sample for sample in some if sample.values]
