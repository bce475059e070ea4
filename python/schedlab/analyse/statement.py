"""The sentence of a verdict, and the code behind it that a translation is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlab.analyse.pairs import between, seen_from
from schedlab.spec import Metric, Pair, Reason


@dataclass(frozen=True)
class Effort:
    """How many more blocks are allowed, what one costs, and how the sentence names them."""

    left: int
    unit: str = "blocks"
    bound: str = "within the budget"
    these: str = "these blocks"
    seconds_per_block: float = 0.0


#: Beyond ±100 % a bound says nothing: "within ±26,000 %" is not a finding.
REACH_MAX = 1.0
#: So is an upper end beyond this.
TENFOLD = 10.0
SPEEDS = ("B/s", "1/s", "KiB/s", "MiB/s", "MB/s", "kB/s", "GB/s")


def state(
    metric: Metric | None,
    candidates: Sequence[str],
    pairs: Sequence[Pair],
    best: Sequence[str],
    *,
    margin: float,
    effort: Effort,
) -> tuple[Reason, str]:
    """The reason code and the sentence for the pairs of one workload, or of all.

    `metric` is `None` for several workloads of different metrics. Beyond what `effort` still
    allows, what is not separated cannot be.
    """
    if len(candidates) < 2:
        return "", f"{candidates[0]} is the only candidate: nothing to compare"
    if not pairs:
        return "no-interval", f"{_list(candidates)} cannot be compared: no ratio can be given"
    if all(pair.low is None for pair in pairs):
        return (
            "no-interval",
            f"one run per candidate: no interval can be given, so {_list(candidates)} "
            "are not ranked",
        )
    losers = _losers(metric, candidates, pairs, best)
    if len(best) == 1:
        return "winner", _winner(metric, candidates, pairs, best[0])
    inside = between(pairs, best)
    if inside and all(pair.verdict == "equivalent" for pair in inside):
        return "tied", f"{_list(best)} are tied within {_percent(margin)} %{losers}"
    open_pairs = [pair for pair in inside if pair.verdict == "undecided"]
    ranges = [pair.blocks_needed for pair in open_pairs]
    known = [r for r in ranges if r is not None]
    within = f"{_within(open_pairs, effort)}{losers}"
    if len(known) < len(ranges) or max(r[0] for r in known) > effort.left:
        return "cannot-separate", f"{_list(best)} cannot be separated {effort.bound}; {within}"
    low, high = max(r[0] for r in known), max(r[1] for r in known)
    more = f"about {_range(low, high)} more {effort.unit}{_time(low, high, effort)}"
    return (
        "not-separated",
        f"{_list(best)} are not separated yet: {more} would be needed; {within}",
    )


def compare_words(metric: Metric | None, pair: Pair) -> str:
    """ "a is slower than b by 3.6 % (95 % interval 2.0 to 5.2 %)", for a pair with an interval."""
    assert pair.low is not None and pair.high is not None
    up = pair.ratio >= 1
    ends = sorted(100 * (bound - 1) * (1 if up else -1) for bound in (pair.low, pair.high))
    size = f"{_number(100 * abs(pair.ratio - 1))} %"
    span = f"(95 % interval {_number(ends[0])} to {_number(ends[1])} %)"
    if ends[1] > 100 * TENFOLD:
        span = f"(95 % interval: {_number(ends[0])} % or more)"
    if metric is None:
        return f"{pair.a} is {'better' if up else 'worse'} than {pair.b} by {size} {span}"
    if metric.unit in SPEEDS and metric.higher_is_better:
        return f"{pair.a} is {'faster' if up else 'slower'} than {pair.b} by {size} {span}"
    what = metric.title or metric.name
    return f"{pair.a} has {size} {'higher' if up else 'lower'} {what} than {pair.b} {span}"


def _winner(
    metric: Metric | None, candidates: Sequence[str], pairs: Sequence[Pair], best: str
) -> str:
    """The winner beside the one that comes nearest to it."""
    beside = [seen_from(pairs, best, other) for other in candidates if other != best]
    known = [pair for pair in beside if pair is not None and pair.low is not None]
    nearest = min(known, key=lambda pair: abs(pair.ratio - 1))
    if len(candidates) == 2:
        return f"{best} is best: {_tail(metric, nearest)}"
    return f"{best} is best of {len(candidates)}; {_tail(metric, nearest)}, the nearest to it"


def _tail(metric: Metric | None, pair: Pair) -> str:
    words = compare_words(metric, pair)
    return "it" + words.removeprefix(pair.a)


def _losers(
    metric: Metric | None, candidates: Sequence[str], pairs: Sequence[Pair], best: Sequence[str]
) -> str:
    """For every candidate outside the best set, the one that it loses to most surely."""
    parts = []
    for label in candidates:
        if label in best:
            continue
        beside = [seen_from(pairs, label, other) for other in candidates if other != label]
        worse = [pair for pair in beside if pair is not None and pair.verdict == "worse"]
        by_best = [pair for pair in worse if pair.b in best] or worse
        parts.append(compare_words(metric, by_best[0]))
    return "".join(f"; {part}" for part in parts)


def reach(pairs: Sequence[Pair]) -> float:
    """How large, as a share, the difference of any of the pairs can still be; 0 without any."""
    ends = [max(p.high or 1, 1 / (p.low or 1)) for p in pairs if p.low is not None]
    return max(ends, default=1.0) - 1


def _within(pairs: Sequence[Pair], effort: Effort) -> str:
    """How large the differences that are not separated can be at most."""
    most = reach(pairs)
    if most > REACH_MAX:
        return f"{effort.these} cannot bound the difference"
    return f"the difference is within ±{_number(100 * most)} %"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"


def _time(low: int, high: int, effort: Effort) -> str:
    """ " (4–10 min)", where the time of a block is known."""
    if effort.seconds_per_block <= 0:
        return ""
    longest = high * effort.seconds_per_block
    unit, size = ("h", 3600) if longest >= 7200 else ("min", 60) if longest >= 120 else ("s", 1)
    ends = [f"{n * effort.seconds_per_block / size:.2g}" for n in (low, high)]
    return f" ({'–'.join(dict.fromkeys(ends))} {unit})"


def _list(labels: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


def _percent(margin: float) -> str:
    return f"{100 * margin:.3g}"


def _number(percent: float) -> str:
    """One decimal, two below 1 %, none from 100 % on."""
    if abs(percent) >= 99.95:
        return f"{percent:.0f}"
    return f"{percent:.2f}" if abs(percent) < 0.995 else f"{percent:.1f}"
