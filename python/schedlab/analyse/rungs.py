"""How far an answer reaches: its bound in the next boot of this machine, and on another layout.

What another boot changes is the effect candidate × boot, whose variance comes from all stored
results of the machine: between the means of its boots, and between the layouts (sessions) of a
boot. A workload with few of them leans on the others: its variance is moderated by that of all, as
in G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from schedlab.analyse.losses import Spread, losses, lower, upper
from schedlab.analyse.quantiles import Floats
from schedlab.nouns import StoredSession, boot_of
from schedlab.nouns.answer import Answer, Rung, RungName

if TYPE_CHECKING:
    from schedlab.analyse.answer import RowArrays

#: Other workloads count as so many degrees of freedom at most.
OTHERS_FREEDOM = 4.0


@dataclass(frozen=True)
class _Squares:
    """Squared deviations of candidate effects with their degrees of freedom, from `results`; the
    sessions or boots that this answer itself was measured in.
    """

    total: float
    freedom: float
    results: int
    own: int


def rungs(
    study: RowArrays, answer: Answer, history: Mapping[str, Sequence[StoredSession]]
) -> tuple[Rung, ...]:
    """The rungs of an answer; empty where it is not of boots. One without a bound is not known.

    `history` has the sessions of each workload.
    """
    if not history or answer.scope not in ("this-boot", "boots") or not answer.take:
        return ()
    first = [Rung("this-boot", answer.bound, 1)] if answer.scope == "this-boot" else []
    return (*first, *(_rung(study, answer, history, of) for of in ("next-boot", "layout")))


def _rung(
    study: RowArrays,
    answer: Answer,
    history: Mapping[str, Sequence[StoredSession]],
    rung: RungName,
) -> Rung:
    """The largest bound over the counted rows, each half-width widened by what a rung adds."""
    shares = {row.workload: row.share for row in study.rows if row.role == "part" and row.share > 0}
    found = [
        _squares(_mixed(history, shares) if row.metric is None else history.get(row.workload, ()),
                 study.question.labels, rung)
        for row in (study.rows[i] for i in study.counted)
    ]  # fmt: skip
    results = max((each.results for each in found), default=0)
    take, bound = study.question.labels.index(answer.take), 0.0
    k, count = len(study.question.labels), len(found)
    levels = upper(study.look, k, count), lower(study.look, k, count)
    for i, own in zip(study.counted, found, strict=True):
        others = [each for each in found if each is not own]
        if (spread := _moderated(own, others)) is None:
            return Rung(rung, None, results)
        pairs = replace(study.pairs[i], beyond=spread)
        bound = max(bound, float(losses(pairs, *levels).up[take]))
    known = math.isfinite(bound) and bool(found)
    return Rung(rung, max(bound, answer.bound or 0.0) if known else None, results)


def _moderated(own: _Squares, others: Sequence[_Squares]) -> Spread | None:
    """The variance of a difference in a boot to come, with its degrees of freedom."""
    freedom = sum(each.freedom for each in others)
    weight = min(freedom, OTHERS_FREEDOM)
    if own.freedom + weight == 0:
        return None
    usual = sum(each.total for each in others) / freedom if freedom else 0.0
    variance = (weight * usual + own.total) / (weight + own.freedom)
    # One boot to come, and the error of those in which it was measured (of two or more: known).
    return Spread(2 * variance * (2.0 if own.own < 2 else 1.0), own.freedom + weight)


def _squares(sessions: Sequence[StoredSession], labels: Sequence[str], rung: RungName) -> _Squares:
    """Between the means of boots, or between the sessions of each boot."""
    own = [each for each in sessions if not each.result]
    units = {each.name if rung == "layout" else boot_of(each.name) for each in own}
    several = [each for each in sessions if len({*each.means} & {*labels}) > 1]
    common = [label for label in labels if all(label in each.means for each in several)]
    if len(common) < 2 or not several:
        return _Squares(0.0, 0.0, 0, len(units))
    groups: dict[str, list[Floats]] = {}
    for each in several:
        effects = np.array([each.means[label] for label in common])
        groups.setdefault(boot_of(each.name), []).append(effects - effects.mean())
    if rung == "next-boot":
        groups = {"": [np.mean(of, axis=0) for of in groups.values()]}
    total = sum(float(((np.array(of) - np.mean(of, axis=0)) ** 2).sum()) for of in groups.values())
    freedom = (len(common) - 1) * sum(len(of) - 1 for of in groups.values())
    return _Squares(total, float(freedom), len({each.result for each in several}), len(units))


def _mixed(
    history: Mapping[str, Sequence[StoredSession]], shares: Mapping[str, float]
) -> list[StoredSession]:
    """The weighted means of the workloads of a mix, of the sessions that all of them have."""
    sessions = [history.get(work, ()) for work in shares]
    by_name = [{(each.result, each.name): each for each in of} for of in sessions]
    weights = [*shares.values()]

    def joined() -> Iterator[StoredSession]:
        for key in set.intersection(*(set(of) for of in by_name)) if by_name else ():
            parts = [of[key] for of in by_name]
            common = set.intersection(*(set(part.means) for part in parts))
            means = {c: sum(w * part.means[c] for w, part in zip(weights, parts, strict=True))
                     for c in common}  # fmt: skip
            yield StoredSession(key[1], key[0], means)

    return list(joined())
