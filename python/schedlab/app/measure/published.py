"""The figures of a study in a CSV beside the labs, as statements about a lab's candidates.

    [published]
    file = "iozone-noop-deadline-cfq.csv"    # scheduler, record_bytes, test, repetition, kib_per_s
    workload = "{test}, 1 process {size}"    # the label of the workload that repeats a row

The first scheduler of the file is what the others are compared with: their shares are statements,
which come out within the interval that the study's own repetitions leave. One more is that the
largest rate here reaches the study's smallest: where it does not, the study's data were cached.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from schedlab.package import PACKAGE
from schedlab.spec.intervals import half_width
from schedlab.spec.quantities import size_text

METRIC = "throughput_bytes_per_s"


def published(table: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The statements that the `[published]` table of a lab means."""
    text = (PACKAGE / "labs" / table["file"]).read_text("utf-8")
    rates: dict[str, dict[str, list[float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        size = size_text(int(row["record_bytes"]))
        label = table["workload"].format(test=row["test"], size=size)
        of_label = rates.setdefault(label, {})
        of_label.setdefault(row["scheduler"], []).append(float(row["kib_per_s"]))
    smallest = 1024 * min(fmean(each) for of_label in rates.values() for each in of_label.values())
    yield {
        "says": "Bytes per second: the largest here, the smallest of the study",
        "metric": METRIC,
        "workloads": [*rates],
        "candidates": [*next(iter(rates.values()))],
        "published": f"{smallest:,.0f}",
        "least": smallest,
    }
    for label, by_scheduler in rates.items():
        (first, base), *others = by_scheduler.items()
        for name, values in others:
            share = fmean(values) / fmean(base)
            both = (half_width(each) / fmean(each) for each in (values, base))
            half = share * math.hypot(*both)
            yield {
                "says": f"{label}: {name}, share of {first}",
                "metric": METRIC,
                "workloads": [label],
                "candidates": [name],
                "over": first,
                "published": f"{share:.3f} ± {half:.3f}",
                "least": share - half,
                "most": share + half,
            }
