"""The result of tuning, as text and as a page: the final answer, then the search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from schedlab.nouns import Metric
from schedlab.report import drawing, frame, markup, words
from schedlab.report.tables import Column, build
from schedlab.report.texts import MINUS, Texts, UnitScale

TEXTS = Texts("en")


@dataclass(frozen=True)
class Trial:
    """One setting of the search: its mean log ratio to the default, and two metrics.

    `low` and `high` are None before anything is known of the noise. `first` and `second` are
    geometric means of the metrics of the chart, None where they were not measured.
    """

    label: str
    setting: str
    blocks: int
    mean: float | None
    low: float | None
    high: float | None
    is_feasible: bool
    is_finalist: bool
    first: float | None = None
    second: float | None = None


@dataclass(frozen=True)
class TuneView:
    """Everything that is shown; `headline` is that of the fresh verdict, `lines` follow it.

    `importance` is a share by tunable. `metrics` are those of the chart's axes.
    """

    title: str
    headline: str
    lines: Sequence[str]
    commands: Sequence[str]
    trials: Sequence[Trial]
    importance: Mapping[str, float]
    metrics: tuple[Metric, Metric] | None
    verdict_page: str
    basis: str


def text(view: TuneView) -> str:
    """The answer on a terminal."""
    parts = [view.headline, *view.lines]
    if view.importance:
        known = ranked(view.importance)[:5]
        shares = ", ".join(f"{name} {words.share(TEXTS, share)}" for name, share in known)
        parts += ["", TEXTS("tune.important", shares=shares), TEXTS("tune.describes")]
    if view.commands:
        parts += ["", *view.commands]
    return "\n".join(parts)


def ranked(importance: Mapping[str, float]) -> list[tuple[str, float]]:
    """The most important first."""
    return sorted(importance.items(), key=lambda item: -item[1])


def write_page(view: TuneView, path: Path) -> None:
    """The whole self-contained page."""
    parts = {
        "trials": _trials(view),
        "importance": _importance(view),
        "final": f'<p><a href="{escape(view.verdict_page)}">{escape(TEXTS("tune.link"))}</a></p>',
        "basis": markup.paragraph(view.basis),
    }
    page = frame.Page(
        headline=[view.headline],
        kicker=view.title,
        lead=view.lines,
        first=markup.bullets(view.commands) if view.commands else "",
        sections=[(name, TEXTS(f"tune.{name}"), inside) for name, inside in parts.items()],
    )
    frame.write(page, TEXTS, path)


def _trials(view: TuneView) -> str:
    heads = ("setting", "values", "blocks", "change", "interval")
    columns = [Column(TEXTS(f"tune.{head}"), text=head in heads[:2]) for head in heads]
    rows = [
        [
            trial.label + (" *" if trial.is_finalist else ""),
            trial.setting,
            trial.blocks,
            _ratio(trial.mean) if trial.is_feasible else TEXTS("tune.not_allowed"),
            ""
            if trial.low is None or not trial.is_feasible
            else TEXTS("format.interval", low=_ratio(trial.low), high=_ratio(trial.high)),
        ]
        for trial in view.trials
    ]
    table = build(TEXTS, "trials", TEXTS("tune.caption"), columns, rows)
    described = markup.paragraph(TEXTS("tune.describes"))
    return described + pareto_chart(view) + markup.drawn_table(table)


def _ratio(log_ratio: float | None) -> str:
    """`+12 %`, `−50 %`, and `4.2×` from twofold on."""
    if log_ratio is None:
        return ""
    change = math.expm1(log_ratio)
    shown = words.share(TEXTS, abs(change))
    if change < 0:
        return f"{MINUS}{shown}"
    return f"+{shown}" if 0 < change <= 1 else shown


def _importance(view: TuneView) -> str:
    if not view.importance:
        return ""
    columns = [Column(TEXTS("tune.tunable"), text=True), Column(TEXTS("tune.share"))]
    rows = [[name, words.share(TEXTS, share)] for name, share in ranked(view.importance)]
    table = build(TEXTS, "importance", TEXTS("tune.variance"), columns, rows)
    return markup.paragraph(TEXTS("tune.describes")) + markup.drawn_table(table)


def front(trials: Sequence[Trial], metrics: tuple[Metric, Metric]) -> list[Trial]:
    """The settings that no other beats on both metrics, by the first one."""
    signs = [1.0 if metric.higher_is_better else -1.0 for metric in metrics]
    drawn = [t for t in trials if t.first is not None and t.second is not None]

    def worth(trial: Trial) -> tuple[float, float]:
        assert trial.first is not None and trial.second is not None
        return signs[0] * trial.first, signs[1] * trial.second

    best: list[Trial] = []
    for trial in sorted(drawn, key=worth, reverse=True):
        if not best or worth(trial)[1] > worth(best[-1])[1]:
            best.append(trial)
    return best


def pareto_chart(view: TuneView) -> str:
    """Every setting by two metrics; those that no other beats on both are joined."""
    drawn = [t for t in view.trials if t.first and t.second]
    if view.metrics is None or len(drawn) < 2:
        return ""
    first, second = view.metrics
    scales = [
        UnitScale.fitting([t.first or 0.0 for t in drawn], first.unit),
        UnitScale.fitting([t.second or 0.0 for t in drawn], second.unit),
    ]

    def scaled(trial: Trial) -> tuple[float, float]:
        return (trial.first or 0.0) / scales[0].factor, (trial.second or 0.0) / scales[1].factor

    x = drawing.value_axis([scaled(t)[0] for t in drawn], TEXTS, zero=False)
    y = drawing.value_axis([scaled(t)[1] for t in drawn], TEXTS, zero=False)
    box = (70.0, 10.0, 590.0, 270.0)
    names = [
        ", ".join(filter(None, (metric.title or metric.name, scale.unit)))
        for metric, scale in zip((first, second), scales, strict=True)
    ]
    parts = drawing.frame(x, y, box, (names[0], names[1]))
    across, up = x.project(box[0], box[2]), y.project(box[3], box[1])

    def place(trial: Trial) -> tuple[float, float]:
        return across(scaled(trial)[0]), up(scaled(trial)[1])

    others = [place(t) for t in drawn if not t.is_finalist]
    chosen = [place(t) for t in drawn if t.is_finalist]
    parts.append(drawing.stroke(0, [place(t) for t in front(drawn, view.metrics)]))
    for series, places in ((0, others), (1, chosen)):
        marks = drawing.marks(series, places)
        parts.append(f'<g class="s{series}">{marks}</g>')
    svg = drawing.picture(600, 320, TEXTS("tune.over", y=names[1], x=names[0]), parts)
    note = TEXTS("tune.two_metrics_note")
    return markup.figure(TEXTS("tune.two_metrics"), note, svg, None, TEXTS)
