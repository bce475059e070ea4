"""What to do next: one command that can be copied, with its time and what it would show."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.report import words
from schedlab.report.view import View

FOLDER = "DIR"
DEVICE = "/dev/DEVICE"
# From 6 blocks on a pair can be called equivalent.
BLOCKS_ENOUGH = 6
# More blocks than this are impractical.
BLOCKS_MAX = 40
LONGER_LEAST_MIN = 20
# A difference (a share) that many would like to know of.
MUCH = 0.1


@dataclass(frozen=True)
class Step:
    """A command with a remark; or only a remark where there is nothing to run."""

    command: str
    remark: str


def next_steps(view: View) -> list[Step]:
    """The next step by the code of the headline, at most two."""
    headline = view.verdict.headline
    if view.orders_nothing:
        return [Step("schedlab lab run interference", view.texts("next.contention"))]
    return _steps(view, headline.code, headline.values) or [_again(view)]


def _steps(view: View, code: str, values: Mapping[str, Any]) -> list[Step]:
    texts = view.texts
    if code == "did-not-finish" and values.get("rest"):
        return _steps(view, values["rest"], values.get("rest_values") or {})
    if code in ("depends", "best-on"):
        return [*_apply(view, values["name"], values["won"]), *_sharpen(view)]
    if code in ("winner", "winner-price"):
        if values["best"] == view.verdict.baseline:
            return [Step("", texts("next.keep", baseline=values["best"])), *_sharpen(view)]
        return [*_apply(view, values["best"], ()), *_sharpen(view)]
    if code == "keep":
        return [Step("", texts("next.keep", baseline=values["baseline"])), *_sharpen(view)]
    if code == "tied":
        return [_take_any(view, values)]
    if code == "too-early" and values.get("blocks"):
        remark = _remark(view, values.get("time_s") or 0.0, values.get("smaller"))
        return [_more(view, int(values["blocks"]), remark)]
    if code == "too-noisy":
        return [_longer(view)]
    if code == "no-difference-seen" and view.experiment.kind != "import":
        if needed := _needed(view):
            return needed
        much = (values.get("mdd") or 0.0) > MUCH
        return [_take_any(view, values), *([_longer(view)] if much else [])]
    if code in ("single", "nothing-to-compare"):
        more = max(1, BLOCKS_ENOUGH - view.verdict.population.blocks)
        return [_more(view, more, _time(view, more))]
    return _needed(view)


def _take_any(view: View, values: Mapping[str, Any]) -> Step:
    """Any of those that nothing separates, but for one that costs more."""
    costly = (values.get("cost") or {}).get("names") or ()
    names = [name for name in values["names"] if name not in costly] or list(values["names"])
    key = "next.tied" if len(names) > 1 else "next.tied_one"
    return Step("", view.texts(key, names=view.texts.listed(names)))


def _remark(view: View, seconds: float, smaller: float | None) -> str:
    texts = view.texts
    if smaller is None:
        return texts.about(seconds) if seconds else texts("next.blocks")
    shown = words.share(texts, smaller)
    if not seconds:
        return texts("next.more_untimed", smaller=shown)
    return texts("next.more", time=texts.about(seconds), smaller=shown)


def _time(view: View, blocks: int) -> str:
    of = view.verdict.population
    if not (of.seconds and of.blocks):
        return view.texts("next.blocks")
    return view.texts.about(of.seconds / of.blocks * blocks)


def _apply(view: View, best: str, won: Sequence[str]) -> list[Step]:
    """How to use the winner, where that is something of this machine."""
    texts = view.texts
    if view.experiment.kind != "io" or view.medium:
        return []
    target = view.experiment.target
    device = target.path if str(target.kind) == "device" else DEVICE
    known = next((c for c in view.experiment.candidates if c.label == best), None)
    settings = dict(known.settings) if known else {}
    if any("." in key for key in settings):
        return []  # such as workload.mode: no setting of a device
    name = str(settings.pop("scheduler", best))
    if settings:
        name += ":" + ",".join(f"{key}={value}" for key, value in settings.items())
    if len(won) > 1:
        remark = texts("next.apply_several", works=texts.counted("scope.workloads", len(won)))
    else:
        remark = texts("next.apply", won=won[0]) if won else texts("next.apply_plain")
    return [Step(f"schedlab apply {shlex.quote(name)} {shlex.quote(device)}", remark)]


def _sharpen(view: View) -> list[Step]:
    """More blocks where some pair is still open."""
    return _needed(view)[:1]


def _needed(view: View) -> list[Step]:
    """The blocks that the overall verdict, else an undecided workload, still needs."""
    wanted = [view.verdict.overall.needed, *(of.needed for of in view.workloads)]
    measured = view.verdict.population.blocks
    open_ = [need for need in wanted if need and 0 < need.blocks <= BLOCKS_MAX - measured]
    if not open_:
        return []
    need = open_[0] if open_[0] is wanted[0] else max(open_, key=lambda n: n.blocks)
    return [_more(view, need.blocks, _remark(view, need.time_s, need.smaller))]


def _more(view: View, blocks: int, remark: str) -> Step:
    """The command that adds blocks to this experiment."""
    kind = view.experiment.kind
    if kind == "import":
        return Step("", view.texts("next.import_more"))
    if kind != "io":
        return _again(view)
    if view.verdict.overall.unit == "sessions":  # what is needed are sessions
        sessions = view.texts.counted("scope.more_sessions", blocks)
        more = view.texts("next.sessions", sessions=sessions, remark=remark)
        return Step(f"schedlab reproduce {_folder(view)}", more)
    total = view.verdict.population.blocks + blocks
    return Step(f"schedlab compare --resume {_folder(view)} --blocks {total}", remark)


def _longer(view: View) -> Step:
    """The same with a new plan from a pilot: the length of a run is fixed here.

    Four times the time, because it halves the smallest difference that would be seen.
    """
    if view.experiment.kind != "io":
        return _again(view)
    minutes = max(LONGER_LEAST_MIN, round(4 * view.verdict.population.seconds / 60))
    file = f"{_folder(view)}/experiment.toml"
    return Step(f"schedlab run {file} --budget {minutes}m", view.texts("next.longer"))


def _again(view: View) -> Step:
    if view.experiment.kind == "import":
        return Step("", view.texts("next.import_more"))
    return Step(f"schedlab reproduce {_folder(view)}", view.texts("next.again"))


def _folder(view: View) -> str:
    return shlex.quote(str(view.folder)) if view.folder else FOLDER
