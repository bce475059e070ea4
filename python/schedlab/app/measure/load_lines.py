"""The result of one load in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from schedlab.spec import latency


def load_lines(group: Mapping[str, Any]) -> Iterator[str]:
    """The main figures in a line or two each, then notes for a careful reader."""
    seconds = group["elapsed_ns"] / 1e9
    closed = group["arrivals"] == "closed"
    for word in ("reads", "writes"):
        side = group[word]
        if not side["operations"] and not side["errors"]:
            continue
        rate, speed = side["operations"] / seconds, side["bytes"] / seconds / 1e6
        yield (f"{word + ':':8s}{rate:12,.0f} /s {speed:11,.1f} MB/s  in {seconds:.2f} s")
        percentiles = latency.metrics(side["latency"]["bins"])
        parts = [f"mean {side['latency']['mean'] / 1e3:,.1f}"]
        parts += [f"{k.removeprefix('latency_ns_')} {v / 1e3:,.1f}" for k, v in percentiles.items()]
        kind = "closed loop" if closed else "from the intended start"
        yield (f"        latency in µs ({kind}): {', '.join(parts)}")
    operations = group["reads"]["operations"] + group["writes"]["operations"]
    if operations:
        user, system = (group[k] / operations / 1e3 for k in ("cpu_user_ns", "cpu_system_ns"))
        yield (
            f"CPU:    {user:.2f} µs user, {system:.2f} µs system per request ({group['engine']})"
        )
    notes = {
        "closed loop: while the device stalls nothing arrives, so that the percentiles cannot show "
        "it; --rate can": closed,
        "the load generator is the bottleneck, not the device": group["load_generator_bottleneck"],
        f"another engine was used: {group['fallback']}": group["fallback"],
        f"{group['unissued']} requests were due and never issued": group["unissued"],
        f"failed requests: {group['error_counts']}": group["error_counts"],
        f"first error: {group['first_error']}": group["first_error"],
        f"{group['mismatches']} records do not match: {group['first_mismatch']}": group[
            "mismatches"
        ],
    }
    for text, holds in notes.items():
        if holds:
            yield f"note: {text}"
