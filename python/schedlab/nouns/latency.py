"""Quantiles of histograms of latencies: ascending rows (low, high, count) in nanoseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}
REQUESTS_BEYOND_MIN = 10

Rows = Sequence[Sequence[int]]


def merge(histograms: Iterable[Rows]) -> list[list[int]]:
    """All rows added up, ascending: percentiles of groups come from here, never from averages."""
    counts: Counter[tuple[int, int]] = Counter()
    for rows in histograms:
        for low, high, count in rows:
            counts[low, high] += count
    return [[low, high, count] for (low, high), count in sorted(counts.items())]


def quantile(rows: Rows, q: float) -> float | None:
    """The q-quantile as the middle of its bin; None unless 10/(1-q) requests support it."""
    total = sum(count for _, _, count in rows)
    if not is_supported(total, q):
        return None
    low, high, _ = bin_of(rows, q * total)
    return (low + high) / 2


def is_supported(requests: int, q: float, beyond: int = REQUESTS_BEYOND_MIN) -> bool:
    """Whether so many `requests` have at least `beyond` above their q-quantile."""
    return requests * (1 - q) >= beyond - 1e-9


def bin_of(rows: Iterable[Sequence[int]], rank: float) -> tuple[int, int, float]:
    """Ends of the bin with the value of that rank, from 1, and the share of the bin's values up to
    it; (0, 0, 0) without such a value.
    """
    seen = 0
    for low, high, count in rows:
        if count and seen + count >= rank:
            return low, high, (rank - seen) / count
        seen += count
    return 0, 0, 0.0


def metrics(rows: Rows, prefix: str = "") -> dict[str, float]:
    """Every supported percentile as a metric named `{prefix}latency_ns_p99` and so on."""
    values = {name: quantile(rows, q) for name, q in QUANTILES.items()}
    return {f"{prefix}latency_ns_{name}": v for name, v in values.items() if v is not None}


def bound(rows: Rows, q: float, confidence: float = 0.95) -> float | None:
    """A value that the true q-quantile exceeds with `confidence`; None without a request.

    The largest order statistic k of n with P(Binomial(n, q) >= k) >= confidence; its bin's lower
    end. For runs with too few requests to support the quantile itself; with too few even for a
    bound (of p50 below 5, of p90 below 2) the least value.
    """
    total = sum(count for _, _, count in rows)
    if not total:
        return None
    k, tail = total + 1, 0.0
    probability = q**total  # P(exactly k = total)
    while k and tail < confidence:
        k -= 1
        tail += probability
        probability *= (1 - q) / q * k / (total - k + 1)
    return float(bin_of(rows, k)[0])
