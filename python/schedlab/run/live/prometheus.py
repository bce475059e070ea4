"""Quantiles of a histogram on a page that Prometheus reads, such as etcd's
`etcd_disk_wal_fsync_duration_seconds`.

Its buckets count all calls since the program started; two readings, one subtracted from the other,
are a period. Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping

#: Upper end of a bucket in the unit of the page -> calls up to it.
Buckets = Mapping[float, float]


def buckets(page: bytes, name: str) -> Buckets:
    """The cumulative buckets of a histogram, those of all labels added up; empty without one."""
    line = re.compile(rf'^{re.escape(name)}_bucket\{{.*?le="([^"]+)"[^}}]*\}}\s+(\S+)')
    found: dict[float, float] = defaultdict(float)
    for text in page.decode(errors="replace").splitlines():
        if match := line.match(text):
            try:
                found[float(match[1])] += float(match[2])
            except ValueError:
                continue
    return found


def quantile(first: Buckets, last: Buckets, share: float) -> float | None:
    """The quantile of what came between two readings, on a straight line through its bucket, as
    Prometheus' `histogram_quantile`; None without a call. Beyond the last bucket: its lower end.
    """
    rows = sorted((end, count - first.get(end, 0.0)) for end, count in last.items())
    total = rows[-1][1] if rows else 0.0
    if total <= 0:
        return None
    low = before = 0.0
    for end, count in rows:
        if count >= share * total:
            if math.isinf(end):
                return low
            return low + (end - low) * (share * total - before) / max(count - before, 1e-12)
        low, before = end, count
    return low
