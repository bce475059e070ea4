"""The result of tuning, as text and as a page: the final verdict, then the search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from schedlab.analyse.pairs import seen_from
from schedlab.report import drawing, frame, markup, words
from schedlab.report.texts import MINUS, Scale, Texts
from schedlab.spec import Metric, Verdict

TEXTS = Texts("en")
DESCRIBES = (
    "This describes the search, not the truth: it measured what looked promising more often, and "
    "its blocks never enter the verdict."
)


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


def not_beaten(verdict: Verdict, settings: Mapping[str, str]) -> str:
    """ "No setting beat none by more than 2 %", where none is shown to be better; else "".

    The figure is the largest upper end of the intervals of the settings against the default.
    """
    baseline, overall = verdict.baseline, verdict.overall
    ends: list[float | None] = []
    for label in settings:
        pair = seen_from(overall.pairs, label, baseline)
        if pair is None:
            continue
        if pair.verdict == "better":
            return ""
        ends.append(gain(pair.high if overall.higher_is_better else pair.low,
                         overall.higher_is_better))  # fmt: skip
    known = [each for each in ends if each is not None]
    if not ends or len(known) < len(ends):
        return f"No setting was shown to beat {baseline}; how much better one may be is unknown."
    return f"No setting beat {baseline} by more than {words.share(TEXTS, max(0.0, *known))}."


def beating(verdict: Verdict, labels: Sequence[str]) -> list[str]:
    """The settings that are shown to be better than the default, the best first."""
    overall = verdict.overall
    sign = 1 if overall.higher_is_better else -1
    pairs = [seen_from(overall.pairs, label, verdict.baseline) for label in labels]
    better = [pair for pair in pairs if pair is not None and pair.verdict == "better"]
    return [pair.a for pair in sorted(better, key=lambda pair: -sign * pair.ratio)]


def beats(verdict: Verdict, label: str) -> str:
    """ "bfq #3 beats none by at least 12 %", from the near end of its interval."""
    pair = seen_from(verdict.overall.pairs, label, verdict.baseline)
    higher = verdict.overall.higher_is_better
    near = (pair.low if higher else pair.high) if pair else None
    if not near:
        return f"{label} beats {verdict.baseline}."
    factor = near if higher else 1 / near
    if factor >= 2:
        return f"{label} beats {verdict.baseline} by at least {TEXTS.figure(factor, 2)}×."
    least = words.share(TEXTS, gain(near, higher) or 0.0)
    return f"{label} beats {verdict.baseline} by at least {least}."


def gain(end: float | None, higher: bool) -> float | None:
    """A bound on a ratio of metrics as a share by which it is better."""
    if end is None or end <= 0:
        return None
    return end - 1 if higher else 1 - end


def text(view: TuneView) -> str:
    """The answer on a terminal."""
    parts = [view.headline, *view.lines]
    if view.importance:
        known = ranked(view.importance)[:5]
        shares = ", ".join(f"{name} {words.share(TEXTS, share)}" for name, share in known)
        parts += ["", f"Importance of tunables: {shares}.", DESCRIBES]
    if view.commands:
        parts += ["", *view.commands]
    return "\n".join(parts)


def ranked(importance: Mapping[str, float]) -> list[tuple[str, float]]:
    """The most important first."""
    return sorted(importance.items(), key=lambda item: -item[1])


def write_page(view: TuneView, path: Path) -> None:
    """The whole self-contained page."""
    page = frame.Page(
        headline=[view.headline],
        kicker=view.title,
        lead=view.lines,
        first=markup.bullets(view.commands) if view.commands else "",
        sections=[
            ("trials", "What was tried", _trials(view)),
            ("importance", "Which tunables mattered in the search", _importance(view)),
            ("verdict-page", "The final measurement", _link(view.verdict_page)),
            ("basis", "How it was searched", markup.paragraph(view.basis)),
        ],
    )
    frame.write(page, TEXTS, path)


def _link(page: str) -> str:
    return f'<p><a href="{escape(page)}">All figures of the final comparison</a></p>'


def _trials(view: TuneView) -> str:
    head: list[str | markup.Cell] = [
        "setting",
        "",
        *map(markup.Cell, ("blocks", "to the default", "interval")),
    ]
    rows: list[list[str | markup.Cell]] = [
        [
            trial.label + (" *" if trial.is_finalist else ""),
            trial.setting,
            markup.number(str(trial.blocks)),
            markup.number(_ratio(trial.mean) if trial.is_feasible else "not allowed"),
            markup.number("" if trial.low is None or not trial.is_feasible
                          else f"{_ratio(trial.low)} to {_ratio(trial.high)}"),
        ]
        for trial in view.trials
    ]  # fmt: skip
    chart = pareto_chart(view)
    table = markup.table(head, rows, "Settings of the search; * measured again at the end")
    return markup.paragraph(DESCRIBES) + chart + table


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
    rows: list[list[str | markup.Cell]] = [
        [name, markup.number(words.share(TEXTS, share))] for name, share in ranked(view.importance)
    ]
    caption = "Share of the variance of the search by tunable (fANOVA)"
    return markup.paragraph(DESCRIBES) + markup.table(["tunable", markup.Cell("share")], rows,
                                                      caption)  # fmt: skip


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
        Scale.fitting([t.first or 0.0 for t in drawn], first.unit),
        Scale.fitting([t.second or 0.0 for t in drawn], second.unit),
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
    svg = drawing.picture(600, 320, f"{names[1]} over {names[0]}", parts)
    note = "Each mark is a setting; the line joins those that no other beats on both metrics."
    return markup.figure("Two metrics at once", note, svg, "", TEXTS)
