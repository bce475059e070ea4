"""Several machines that `schedlab merge --hosts` joined: sentences, and a table per workload."""

from __future__ import annotations

import math
from collections.abc import Mapping

from schedlab.analyse.fleet import Fleet, fleet
from schedlab.nouns.answer import Row
from schedlab.report import words
from schedlab.report.tables import Column, Table, build
from schedlab.report.view import View

# What is this near to the best of a host counts as good there.
NEAR = 0.05
NAMED_MAX = 6
# Of a workload: log of goodness by host, candidate and block.
Logs = Mapping[str, Mapping[str, Mapping[int, float]]]


def fleet_lines(view: View) -> list[str]:
    """How the machines differ: where what is taken is not near the best, from when to when it is
    how much better than the baseline, and by name the machines that are the opposite.
    """
    if view.answer.used != "hosts":
        return []
    by_row = [(row, _logs(view, row)) for row in _spoken_of(view)]
    lines = [_near(view, by_row)] if view.answer.take else []
    for row, logs in by_row:
        for name in view.names:
            if name != view.baseline and (view.answer.keeps or name == view.answer.take):
                lines += _against_baseline(view, row, name, logs)
    return list(filter(None, lines))


def _spoken_of(view: View) -> list[Row]:
    """The rows that the answer speaks of, and those of a mix."""
    return [row for row in view.primary if row.counted or row.share]


def _near(view: View, by_row: list[tuple[Row, Logs]]) -> str:
    """On how many machines what is taken was measured near the best, and the worst of them."""
    texts, name = view.texts, view.answer.take
    losses: dict[str, tuple[float, str]] = {}
    for row, logs in by_row:
        for host, of in logs.items():
            if name in of and len(of) > 1:
                losses[host] = max(losses.get(host, (0.0, "")), (_loss(of, name), row.workload))
    if not losses:
        return ""
    near = sum(loss <= math.log1p(NEAR) for loss, _ in losses.values())
    about = {"name": name, "near": texts.margin(NEAR), "count": near, "all": len(losses)}
    if near == len(losses):
        return texts("fleet.near_all", **about)
    host = max(losses, key=lambda each: losses[each][0])
    loss, row_name = losses[host]
    metric = next(row.metric for row, _ in by_row if row.workload == row_name)
    behind = words.said(texts, words.way(metric), loss)
    return texts("fleet.near", host=host, behind=behind, row=row_name, **about)


def _against_baseline(view: View, row: Row, name: str, logs: Logs) -> list[str]:
    """How many times as good as the baseline it is, and where the opposite is proven."""
    texts = view.texts
    ratios = _ratios(logs, name, view.baseline)
    if (model := fleet([*ratios.items()])) is None:
        return []
    means = [sum(values) / len(values) for values in ratios.values() if values]
    ends = [texts.figure(math.exp(end), 2) for end in (min(means), max(means))]
    about = {"name": name, "base": view.baseline, "row": row.workload}
    lines = []
    if not view.answer.keeps:
        key = "fleet.differ" if model.spread > 0 and ends[0] != ends[1] else "fleet.alike"
        mean = texts.figure(math.exp(model.mean), 2)
        lines.append(texts(key, low=ends[0], high=ends[1], mean=mean, **about))
    hosts = model.better if view.answer.keeps else model.worse
    if hosts:
        key = "fleet.better" if view.answer.keeps else "fleet.worse"
        lines.append(texts(key, hosts=_named(view, hosts), **about))
    return lines


def opposed(view: View) -> frozenset[str]:
    """The hosts on which the baseline is proven better than what is taken, on some workload."""
    name, base = view.answer.take, view.baseline
    every = [_ratios(_logs(view, row), name, base) for row in _spoken_of(view) if name != base]
    models = [model for ratios in every if (model := fleet([*ratios.items()]))]
    return frozenset(host for model in models for host in model.worse)


def kind_lines(view: View) -> list[tuple[str, str, View]]:
    """For each kind of device: its name, its machines, and the view of its own answer."""
    texts = view.texts
    return [
        (
            texts("format.bracket", text=of.device,
                  inside=texts.counted("measured.hosts", len(of.hosts))),
            _named(view, of.hosts),
            View(view.record, of.answer, texts),
        )
        for of in view.answer.kinds
    ]  # fmt: skip


def _named(view: View, hosts: tuple[str, ...]) -> str:
    """The names of some hosts; of many the first, and how many more."""
    if len(hosts) <= NAMED_MAX:
        return view.texts.listed(hosts)
    more = view.texts.counted("scope.more_hosts", len(hosts) - NAMED_MAX + 1)
    return view.texts.listed([*hosts[: NAMED_MAX - 1], more])


def fleet_tables(view: View) -> list[Table]:
    """A table per workload that was measured on several hosts; ratios are above 1 for better."""
    if view.answer.used != "hosts":
        return []
    return [_table(view, row, logs) for row in view.primary if len(logs := _logs(view, row)) > 1]


def _logs(view: View, row: Row) -> Logs:
    logs: dict[str, dict[str, dict[int, float]]] = {}
    assert row.metric
    sign = 1 if row.metric.higher_is_better else -1
    for run in view.runs_by_workload.get(row.workload, ()):
        value = run.metrics.get(row.metric.name, math.nan)
        if run.candidate in view.names and value > 0 and math.isfinite(value):
            own = logs.setdefault(run.host, {}).setdefault(run.candidate, {})
            own[run.block] = sign * math.log(value)
    return logs


def _table(view: View, row: Row, logs: Logs) -> Table:
    texts, metric = view.texts, row.metric
    assert metric
    heads = ["hosts", "mean", "low", "high", "new_low", "new_high", "least", "most", "near"]
    words_of = ["worst", "opposite"]
    columns = [
        Column(texts("column.candidate"), text=True),
        *(Column(texts(f"column.{head}"), decimals=0 if head == "hosts" else None,
                 text=head == "near") for head in heads),
        *(Column(texts(f"column.{head}"), text=True) for head in words_of),
    ]  # fmt: skip
    rows = [_cells(view, row, name, logs) for name in view.names]
    title = texts("table.fleet", workload=row.workload, metric=texts.metric(metric),
                  baseline=view.baseline)  # fmt: skip
    notes = [texts("table.fleet_note", near=texts.margin(NEAR))]
    return build(texts, f"fleet-{view.labels[row.workload]}", title, columns, rows, notes)


def _cells(view: View, row: Row, name: str, logs: Logs) -> list[object]:
    """A candidate beside the baseline, and beside the best of each host."""
    ratios = _ratios(logs, name, view.baseline)
    model = fleet([*ratios.items()]) if name != view.baseline else None
    means = [sum(values) / len(values) for values in ratios.values() if values]
    ends = [math.exp(end) for end in (min(means), max(means))] if means else [None, None]
    losses = {host: _loss(of, name) for host, of in logs.items() if name in of}
    near = sum(loss <= math.log1p(NEAR) for loss in losses.values())
    worst = max(losses, key=losses.__getitem__, default="")
    behind = words.said(view.texts, words.way(row.metric), losses[worst]) if worst else ""
    return [
        name, len(losses), *_figures(model), *ends, f"{near} / {len(losses)}",
        f"{worst}: {behind}" if worst and losses[worst] > 0 else "",
        view.texts.listed(model.opposite) if model else "",
    ]  # fmt: skip


def _ratios(logs: Logs, name: str, base: str) -> dict[str, list[float]]:
    """Log ratios to the baseline, one per block that has both, by host."""
    return {host: [of[name][b] - of[base][b] for b in of[name] if b in of[base]]
            for host, of in logs.items() if name in of and base in of}  # fmt: skip


def _figures(model: Fleet | None) -> list[float | None]:
    if model is None:
        return [None] * 5
    ends = (model.mean, model.low, model.high, model.new_low, model.new_high)
    return [math.exp(end) for end in ends]


def _loss(of: Mapping[str, Mapping[int, float]], name: str) -> float:
    """How far a candidate's mean is behind the best of the host, as a log."""
    means = {label: sum(blocks.values()) / len(blocks) for label, blocks in of.items()}
    return max(means.values()) - means[name]
