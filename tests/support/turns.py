"""Tests with many cases of one kind take turns: a run has some of them, the next run others."""

from collections import Counter


def taken(items, turn):
    """(the tests whose turn it is, the others): of one marked `sampled(n)` each n-th case."""
    seen, those, others = Counter(), [], []
    for item in items:
        mark = item.get_closest_marker("sampled")
        at = seen[item.path, item.originalname]
        seen[item.path, item.originalname] += 1
        (others if mark and (at - turn) % mark.args[0] else those).append(item)
    return those, others
