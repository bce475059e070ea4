"""The table of a fleet: each candidate over the hosts that `schedlab merge --hosts` joined."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from schedlab.analyse.fleet import Fleet, fleet
from schedlab.report.tables import Column, Table, build
from schedlab.report.view import View

if TYPE_CHECKING:
    from schedlab.report.handin import Series

# What is this near to the best of a host counts as good there.
NEAR = 0.05
Means = Mapping[str, Mapping[str, Mapping[int, float]]]


def fleet_tables(view: View, every: Iterable[Series]) -> list[Table]:
    """A table per workload that was measured on several hosts; ratios are above 1 for better."""
    hosts = {run.block: run.host for run in view.runs if run.host}
    return [table for of in every if hosts and (table := _of(view, of, hosts))]


def _of(view: View, of: Series, hosts: Mapping[int, str]) -> Table | None:
    texts, metric = view.texts, of.metric
    sign = 1 if metric.higher_is_better else -1
    logs: dict[str, dict[str, dict[int, float]]] = {}
    for name, values in of.values.items():
        for block, value in values.items():
            if value > 0:
                own = logs.setdefault(hosts[block], {}).setdefault(name, {})
                own[block] = sign * math.log(value)
    if len(logs) < 2:
        return None
    heads = ["hosts", "mean", "low", "high", "new_low", "new_high", "least", "most", "near"]
    words = ["worst", "opposite"]
    columns = [
        Column(texts("column.candidate"), text=True),
        *(Column(texts(f"column.{head}"), decimals=0 if head == "hosts" else None,
                 text=head == "near") for head in heads),
        *(Column(texts(f"column.{head}"), text=True) for head in words),
    ]  # fmt: skip
    rows = [_row(view, name, logs) for name in view.names]
    title = texts("table.fleet", workload=of.workload, metric=texts.metric(metric),
                  baseline=view.baseline)  # fmt: skip
    notes = [texts("table.fleet_note", near=texts.margin(NEAR))]
    return build(texts, f"fleet-{of.workload}", title, columns, rows, notes)


def _row(view: View, name: str, logs: Means) -> list[object]:
    """A candidate beside the baseline, and beside the best of each host."""
    base = view.baseline
    ratios = {host: [of[name][b] - of[base][b] for b in of[name] if b in of[base]]
              for host, of in logs.items() if name in of and base in of}  # fmt: skip
    model = fleet([*ratios.items()]) if name != base else None
    means = [sum(values) / len(values) for values in ratios.values() if values]
    ends = [math.exp(end) for end in (min(means), max(means))] if means else [None, None]
    losses = {host: _loss(of, name) for host, of in logs.items() if name in of}
    near = sum(loss <= math.log1p(NEAR) for loss in losses.values())
    worst = max(losses, key=losses.__getitem__, default="")
    behind = view.texts.percent(math.expm1(losses[worst]), signed=False) if worst else ""
    return [
        name, len(losses), *_figures(model), *ends, f"{near} / {len(losses)}",
        f"{worst}: {behind}" if worst and losses[worst] > 0 else "",
        view.texts.listed(model.opposite) if model else "",
    ]  # fmt: skip


def _figures(model: Fleet | None) -> list[float | None]:
    if model is None:
        return [None] * 5
    ends = (model.mean, model.low, model.high, model.new_low, model.new_high)
    return [math.exp(end) for end in ends]


def _loss(of: Mapping[str, Mapping[int, float]], name: str) -> float:
    """How far a candidate's mean is behind the best of the host, as a log."""
    means = {label: sum(blocks.values()) / len(blocks) for label, blocks in of.items()}
    return max(means.values()) - means[name]
