"""The figures of a study in a CSV beside the labs, as statements about a lab's candidates.

    [published]
    file = "iozone-noop-deadline-cfq.csv"    # scheduler, record_bytes, test, repetition, kib_per_s
    workload = "{test}, 1 process {size}"    # the label of the workload that repeats a row
    tests = { "Initial write" = "write" }    # the lab's own names, where they are others
    schedulers = { noop = "none" }           # the candidate that is here what that one was there

The first scheduler of the file is what the others are compared with: their shares are statements,
which come out within the interval that the study's own repetitions leave. One more is that the
largest rate here reaches the study's smallest: where it does not, the study's data were cached.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterator, Mapping
from statistics import fmean
from typing import Any

from schedlab.analyse.quantiles import half_width
from schedlab.nouns.quantities import size_text
from schedlab.package import PACKAGE

METRIC = "throughput_bytes_per_s"


def published(table: Mapping[str, Any], here_too: Collection[str]) -> Iterator[dict[str, Any]]:
    """The statements that the `[published]` table of a lab means, about the workloads `here_too`:
    a scale may have fewer of them than the study."""
    text = (PACKAGE / "labs" / table["file"]).read_text("utf-8")
    tests, here = (table.get(key, {}) for key in ("tests", "schedulers"))
    rates: dict[str, dict[str, list[float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        size = size_text(int(row["record_bytes"]))
        label = table["workload"].format(test=tests.get(row["test"], row["test"]), size=size)
        of_label = rates.setdefault(label, {})
        of_label.setdefault(row["scheduler"], []).append(float(row["kib_per_s"]))
    smallest = 1024 * min(fmean(each) for of_label in rates.values() for each in of_label.values())
    yield {
        "says": "Bytes per second: the largest here, the smallest of the study",
        "metric": METRIC,
        "workloads": [label for label in rates if label in here_too],
        "candidates": [here.get(name, name) for name in next(iter(rates.values()))],
        "published": f"{smallest:,.0f}",
        "least": smallest,
    }
    for label, by_scheduler in rates.items():
        if label not in here_too:
            continue
        (first, base), *others = by_scheduler.items()
        for name, values in others:
            share = fmean(values) / fmean(base)
            both = (half_width(each) / fmean(each) for each in (values, base))
            half = share * math.hypot(*both)
            one, other = (here.get(each, each) for each in (name, first))
            there = f" (the study: {name} of {first})" if one != name else ""
            yield {
                "says": f"{label}: {one}, share of {other}{there}",
                "metric": METRIC,
                "workloads": [label],
                "candidates": [one],
                "over": other,
                "published": f"{share:.3f} ± {half:.3f}",
                "least": share - half,
                "most": share + half,
            }
