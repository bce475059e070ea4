"""The report of a finished tuning run: the fresh verdict first, then the course of the search."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from statistics import geometric_mean

from schedlab.app.targets import disks_named
from schedlab.app.tune.tune import SEARCH, State, Tuning, setting_text, verdict_of
from schedlab.host.settings.settings import scope_of
from schedlab.kinds import OVERRIDE
from schedlab.nouns import Metric, Run, to_json
from schedlab.nouns.quantities import duration_text
from schedlab.report import tune_page
from schedlab.report.tune_page import Trial, TuneView
from schedlab.run.candidate_settings import AS_IS
from schedlab.store.folder import Folder
from schedlab.tune.race import Interval

PAGE = "tune.html"


def winner_of(tuning: Tuning) -> str:
    """The setting to take, where the fresh measurement proves that it beats the default; else "".

    It meets the constraints.
    """
    answer = verdict_of(tuning).answer
    proven = not answer.keeps and answer.base_loss is not None and not answer.doubt
    return answer.take if proven and not missed(tuning, answer.take) else ""


def missed(tuning: Tuning, label: str) -> list[str]:
    """The constraints that a setting misses in the fresh measurement, each with its value."""
    lines = []
    runs = [r for r in verdict_of(tuning).record.analysed_runs if r.candidate == label]
    for each in tuning.question.constraints:
        values = [r.metrics[each.metric] for r in runs if r.metrics.get(each.metric, 0.0) > 0]
        mean = geometric_mean(values) if values else None
        if mean is None:
            lines.append(
                f"{label}: {each.text} could not be checked, as no run had requests enough for "
                f"{each.metric}: measure longer, --seconds."
            )
        elif each.violation(mean) > 0:
            metric = tuning.base.metric_named(each.metric)
            shown = tune_page.TEXTS.quantity(mean, metric.unit)
            lines.append(f"{label} misses {each.text}: {shown} in the final measurement.")
    return lines


def view(tuning: Tuning) -> TuneView:
    """Everything that is shown."""
    result = verdict_of(tuning)
    fresh = result.record.experiment
    settings = {c.label: setting_text(c.settings) for c in fresh.candidates[1:]}
    lines = [f"{label} is {text}." for label, text in settings.items() if label != text]
    for label in settings:
        lines += missed(tuning, label)
    best = winner_of(tuning)
    search = tuning.search
    scheduler = str(search.entries[search.incumbent].settings["scheduler"])
    if scheduler not in {each.scheduler for each in tuning.question.space.schedulers}:
        scheduler = tuning.question.space.schedulers[0].scheduler
    chart = _chart_metrics(tuning)
    return TuneView(
        title=tuning.base.title,
        headline=result.headline(),
        lines=lines,
        commands=_commands(tuning, settings.get(best, ""), _is_named(tuning, best)),
        trials=_trials(tuning, chart, set(settings)),
        importance=search.importance(scheduler),
        metrics=chart,
        verdict_page="verdict/report.html",
        basis=f"{search.blocks} blocks, {len(search.entries) - 1} settings in "
        f"{duration_text(tuning.spent_s)}; then {result.answer.blocks} blocks of the "
        "best ones and the default.",
    )


def _is_named(tuning: Tuning, best: str) -> bool:
    """Whether the answer itself proposes this setting, so that `apply` takes its folder."""
    answer = verdict_of(tuning).answer
    return answer.applies and answer.take == best


def _commands(tuning: Tuning, setting: str, is_named: bool) -> list[str]:
    """How to apply and undo the winner; named by the folder, so that the record has the result.

    None for one with settings that `apply` has not, such as those of the workload.
    """
    scheduler, _, tunables = setting.partition(":")
    keys = [each.partition("=")[0] for each in tunables.split(",") if each]
    if not setting or any(key.startswith(OVERRIDE) for key in keys):
        return []
    scopes = set(map(scope_of, keys))
    if scopes - {"queue", "machine"}:
        return []
    disks = disks_named(tuning.base.target) or ("DEVICE",)
    if scheduler == AS_IS and scopes == {"machine"}:
        disks = ()
    what = tuning.path / "verdict" if is_named else setting
    return [
        f"apply: {shlex.join(['schedlab', 'apply', str(what), *disks])}",
        f"undo: {shlex.join(['schedlab', 'undo', *disks, *(scopes & {'machine'})])}",
    ]


def _chart_metrics(tuning: Tuning) -> tuple[Metric, Metric] | None:
    """The primary metric of the first workload, and a constrained or slow one."""
    work = tuning.base.workloads[0]
    runs = [r for r in _good_runs(tuning) if r.workload == work.label]
    named = [c.metric for c in tuning.question.constraints if c.metric in work.secondary]
    slow = [name for name in work.secondary if "latency" in name]
    known = {name for name in work.secondary if all(r.metrics.get(name, 0) > 0 for r in runs)}
    wanted = [*named, *slow, *work.secondary]
    others = [name for name in wanted if name in known and name != work.metric]
    if not others:
        return None
    return tuning.base.metric(work), tuning.base.metric_named(others[0])


def _trials(
    tuning: Tuning, chart: tuple[Metric, Metric] | None, finalists: set[str]
) -> list[Trial]:
    runs = _good_runs(tuning)
    work = tuning.base.workloads[0].label
    mine: dict[str, list[Run]] = {}
    for run in runs:
        if run.workload == work:
            mine.setdefault(run.candidate, []).append(run)
    trials = []
    for entry in tuning.search.entries:
        label = tuning.label(entry.number)
        interval = tuning.search.interval_of(entry.number)
        known = interval is not None and math.isfinite(interval.high)
        measured = [
            [v for run in mine.get(label, []) if (v := run.metrics.get(metric.name, 0)) > 0]
            for metric in chart or ()
        ]
        values = [geometric_mean(v) if v else None for v in measured] or [None, None]
        trials.append(
            Trial(
                label=label,
                setting=setting_text(entry.settings),
                blocks=len(entry.differences),
                mean=interval.mean if interval else None,
                low=interval.low if interval and known else None,
                high=interval.high if interval and known else None,
                is_feasible=entry.feasible,
                is_finalist=label in finalists,
                first=values[0],
                second=values[1],
            )
        )
    return trials


def _good_runs(tuning: Tuning) -> list[Run]:
    """The runs of the search that passed their gates."""
    return [r for r in Folder.open(tuning.path / SEARCH).runs() if r.status == "ok"]


def write_reports(tuning: Tuning, shown: TuneView) -> dict[str, str]:
    """The page of the search and the reports of the fresh verdict; their paths."""
    page = tuning.path / PAGE
    files = verdict_of(tuning).write_reports()
    tune_page.write_page(shown, page)
    return {"folder": str(tuning.path), "tune": str(page), "verdict": files["html"]}


def as_json(tuning: Tuning, shown: TuneView, files: dict[str, str]) -> dict[str, object]:
    """The result as plain JSON types."""
    best = winner_of(tuning)
    candidates = verdict_of(tuning).record.experiment.candidates
    return {
        "schema": 1,
        "headline": shown.headline,
        "lines": list(shown.lines),
        "winner": next((dict(c.settings) for c in candidates if c.label == best), None),
        "verdict": verdict_of(tuning).as_json(),
        "trials": to_json(list(shown.trials)),
        "importance": dict(shown.importance),
        "blocks": tuning.search.blocks,
        "space": to_json(tuning.question.space),
        "commands": list(shown.commands),
        "files": files,
    }


def text(shown: TuneView, page: Path) -> str:
    """The answer on a terminal."""
    return f"{tune_page.text(shown)}\n\nReport: {page}"


def state_line(state: State) -> str:
    """Where the search is, in a line."""
    return (
        f"block {state.block}: best {state.incumbent}{_change(state.incumbent_interval)}, "
        f"trying {state.challenger}{_change(state.challenger_interval)}, "
        f"{duration_text(state.left_s)} left"
    )


def _change(interval: Interval | None) -> str:
    """An interval of log ratios to the default, in percent."""
    if interval is None:
        return ""
    mean = f" {math.expm1(interval.mean):+.0%}"
    if not math.isfinite(interval.high):
        return mean
    return f"{mean} ({math.expm1(interval.low):+.0%} to {math.expm1(interval.high):+.0%})"
