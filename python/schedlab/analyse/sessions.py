"""Comparing sessions: two result folders are two sessions by construction.

Runs of one boot and one set of files share what the next boot changes, so that runs are no units
between folders. Sessions are: Welch (1947) on their means, Games and Howell for several pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.analyse.headline import Scope, headline
from schedlab.analyse.pairs import classify, fact_of
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.unpaired import compare_unpaired
from schedlab.spec import Fact, Headline, Metric, Pair, PairVerdict

FEWEST_SESSIONS = 2


@dataclass(frozen=True)
class SessionDifference:
    """One candidate on one workload, folder a against folder b.

    `difference` is the log ratio a : b; `half_width` is infinite with one session on a side, and
    the `verdict` is then undecided. `relative`: the difference of the differences to the baseline.
    """

    difference: float
    half_width: float
    verdict: PairVerdict
    relative: bool
    sessions: tuple[int, int]


def session_means(
    values: Sequence[float], sessions: Sequence[str], blocks: Sequence[int]
) -> dict[str, float]:
    """The mean log of every session: blocks first, so that each counts once."""
    cells: dict[tuple[str, int], list[float]] = {}
    for value, session, block in zip(values, sessions, blocks, strict=True):
        if math.isfinite(value) and value > 0:
            cells.setdefault((session, block), []).append(math.log(value))
    by_session: dict[str, list[float]] = {}
    for (session, _), logs in cells.items():
        by_session.setdefault(session, []).append(float(np.mean(logs)))
    return {session: float(np.mean(means)) for session, means in by_session.items()}


def diff_sessions(
    a: Sequence[float],
    b: Sequence[float],
    *,
    margin: float,
    higher_is_better: bool,
    baseline: tuple[Sequence[float], Sequence[float]] | None = None,
    comparisons: int = 1,
    alpha: float = 0.05,
) -> SessionDifference:
    """Folder a against b from the mean logs of their sessions, in the order of the sessions.

    `baseline` are those of the baseline both folders hold, session by session: with them the
    level of a session drops out. `margin` is a share; `comparisons` are made together.
    """
    one, other = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if baseline is not None:
        one, other = one - np.asarray(baseline[0]), other - np.asarray(baseline[1])
    comparison = compare_unpaired([[one, other]], (1.0,))
    half, known = math.inf, min(len(one), len(other)) >= FEWEST_SESSIONS
    verdict: PairVerdict = "undecided"
    difference = float(comparison.mean[0])
    if known:
        half = float(comparison.half_width(alpha / comparisons)[0])
        gain = difference if higher_is_better else -difference
        verdict = classify(gain - half, gain + half, math.log1p(margin))
    return SessionDifference(
        difference, half, verdict, baseline is not None, (len(one), len(other))
    )


def session_headline(
    names: tuple[str, str],
    difference: SessionDifference,
    pair: Pair,
    metric: Metric,
    workload: str,
    margin: float,
) -> Headline:
    """The difference of two folders: no verdict with one session on a side."""
    if min(difference.sessions) < FEWEST_SESSIONS:
        return one_session(pair, metric, workload)
    better = {"better": names[:1], "worse": names[1:]}.get(pair.verdict, names)
    reach = difference.half_width + max(math.log1p(margin), abs(difference.difference))
    scope = Scope(
        candidates=names,
        baseline=names[0],
        pairs=(pair,),
        best_set=better,
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        margin=margin,
        workload=workload,
        mdd=math.expm1(reach) if reach < 700 else None,
        units=min(difference.sessions),
    )
    return headline(scope)


def one_session(pair: Pair, metric: Metric, workload: str, spread: float | None = None) -> Headline:
    """The headline of a diff with one session on a side.

    `spread`, where it is known, is the sd between sessions: two sessions of one setup often
    differ by 1.96·√2 of it.
    """
    fact: Fact = fact_of(
        pair, metric.name, higher_is_better=metric.higher_is_better, workload=workload
    )
    often = None if spread is None else math.expm1(1.96 * math.sqrt(2) * spread)
    values = {"a": fact.worse, "b": fact.better, "gain": fact.values(), "aa": often}
    return Headline("one-session", values)


@dataclass(frozen=True)
class Components:
    """Variance components of a difference of logs, as standard deviations."""

    within: float
    between: float

    def error(self, sessions: int, blocks: int) -> float:
        """Standard error of the mean over `sessions` with `blocks` each: √(τ²/S + σ²/(S·n))."""
        return math.sqrt((self.between**2 + self.within**2 / blocks) / sessions)


def components(differences: Sequence[Floats]) -> Components | None:
    """From the differences of one pair, one array of blocks per session; `None` for one session."""
    if len(differences) < FEWEST_SESSIONS or min(len(d) for d in differences) < 2:
        return None
    means = np.array([d.mean() for d in differences])
    freedom = sum(len(d) - 1 for d in differences)
    within = sum(float(((d - d.mean()) ** 2).sum()) for d in differences) / freedom
    size = len(differences) / sum(1 / len(d) for d in differences)
    between = max(0.0, float(means.var(ddof=1)) - within / size)
    return Components(math.sqrt(within), math.sqrt(between))
