"""The effect of weights: the share that a favoured group got against the requested one."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from schedlab.report import words
from schedlab.report.view import View

# Two equal groups without weights share evenly; closer than this, a weight had no effect.
EVEN, EVEN_WITHIN = 0.5, 0.05


def share_lines(view: View, workload: str) -> Iterator[str]:
    """A sentence for each candidate whose runs have a requested and a reached share."""
    for name in view.names:
        mine = [r for r in view.runs if (r.workload, r.candidate) == (workload, name)]
        both = {"share_asked", "share_reached"}
        properties = [r.properties for r in mine if both <= r.properties.keys()]
        if not properties or properties[0]["share_asked"] >= 1.0:  # a priority asks for no share
            continue
        reached = statistics.median(float(each["share_reached"]) for each in properties)
        key = "shares.nothing" if abs(reached - EVEN) <= EVEN_WITHIN else "shares.reached"
        shown = {
            "reached": words.share(view.texts, reached),
            "asked": words.share(view.texts, float(properties[0]["share_asked"])),
        }
        yield view.texts(key, name=name, **shown)
