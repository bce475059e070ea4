"""The sentences of an answer, each from its code: no other module makes one about an outcome.

Terminal, page, workbook, Markdown and notebook print what `headline` gives.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from schedlab.report import words
from schedlab.report.fleet_table import fleet_lines, kind_lines
from schedlab.report.replays import doubts
from schedlab.report.view import View
from schedlab.spec import AA_SUFFIX
from schedlab.spec.answer import Loss, Requirement

LISTED_MAX = 4


def headline(view: View) -> list[str]:
    """The recommendation with its bound, then its price, a sentence each."""
    answer, texts = view.answer, view.texts
    had = "have" if view.experiment.kind in ("io", "cpu") else "base"
    lines = [
        _among(view, code(view)),
        *_guarantees(view),
        *_mix(view),
        *_behind(view, answer.base_loss, had),
    ]
    lines += [*_behind(view, answer.loser, "other"), *prices(view), *_wild(view)]
    lines += [_requirement(view, each) for each in answer.requires]
    lines += fleet_lines(view)
    lines += [view.texts("fleet.kind", kind=kind, hosts=hosts, sentence=code(of))
              for kind, hosts, of in kind_lines(view)]  # fmt: skip
    if answer.goal:
        lines.append(texts("answer.goal", goal=texts(f"goal.{answer.goal}")))
    lines[0] = _of_medium(view, lines[0])
    return [*doubts(view), *lines]


def _among(view: View, sentence: str) -> str:
    """The sentence, or that each candidate guarantees something else, or among whom it is true."""
    first = next(iter(view.answer.guarantees), None)
    if first is None:
        return sentence
    if len(first.candidates) < 2:
        return view.texts("answer.apart")
    return view.texts("answer.among", names=view.texts.listed(first.candidates), sentence=sentence)


def _guarantees(view: View) -> list[str]:
    """The guarantees of the candidates, and what to take where these differ from the baseline's."""
    texts, lines = view.texts, []
    for of in view.answer.guarantees:
        names = texts.listed(of.candidates)
        told = texts(f"guarantee.{of.guarantee or 'call'}")
        lines.append(texts("answer.guarantee", names=names, guarantee=told))
        if of.answer and len(of.candidates) > 1:
            # Nobody has one of them now, so there is nothing to keep.
            sentence = code(View(view.record, replace(of.answer, base=""), texts))
            lines.append(texts("answer.among", names=names, sentence=sentence))
    return lines


def _of_medium(view: View, sentence: str) -> str:
    """The sentence, with the word `Simulated` or `Emulated device` before it where it is so."""
    if not view.medium:
        return sentence
    medium = view.texts(f"medium.{view.medium}")
    return view.texts("answer.medium", medium=medium, sentence=sentence)


def headline_text(view: View) -> str:
    """`headline` as one paragraph."""
    return " ".join(headline(view))


def code(view: View) -> str:
    """The sentence of the code."""
    answer, texts = view.answer, view.texts
    key = answer.code.replace("-", "_")
    if answer.code == "one-run" and view.record.is_of_boots:
        key = "one_boot"
    if answer.code == "trade-open" and answer.others is None:
        key = "trade_unknown"
    if answer.code == "keep" and answer.used == "hosts":
        key = "keep_hosts"  # Something may be proven better on one of them.
    if answer.code in ("best", "keep") and view.virtual:
        key = f"{answer.code}_virtual"  # Precise, but no proof for a machine.
    return texts(
        f"answer.{key}",
        what=_what(view),
        name=answer.take,
        all_of=_counted(view, "all_of", "on_workloads"),
        any_of=_counted(view, "any_of", "workloads"),
        behind=words.amount(texts, answer.behind, times=words.is_times(answer.bound)),
        bound="" if answer.bound is None else words.amount(texts, answer.bound, "up"),
        limit="" if answer.bound is None else words.amount(texts, answer.bound, "up", bare=True),
        others="" if answer.others is None else words.amount(texts, answer.others, "low"),
    )


def _counted(view: View, key: str, noun: str) -> str:
    """`all 3 workloads`, or the name of the only row."""
    rows, texts = view.answer.counted, view.texts
    if view.mix:
        return texts("answer.on_mix" if key == "all_of" else "row.mix")
    if len(rows) == 1:
        return _title(view, rows[0])
    if len(rows) == 2:
        return texts(f"answer.{key}_two")
    return texts(f"answer.{key}", workloads=texts.counted(f"scope.{noun}", len(rows)))


def _what(view: View) -> str:
    """`Take bfq`, `Keep none` or `Take any of none and bfq`."""
    answer, texts = view.answer, view.texts
    if answer.code in ("same", "same-0") and len(answer.same) > 1:
        return texts("answer.any", names=texts.listed(answer.same))
    has = answer.base.removesuffix(AA_SUFFIX) == view.experiment.baseline  # else it has no runs
    return texts("answer.hold" if answer.keeps and has else "answer.take", name=answer.take)


def _mix(view: View) -> list[str]:
    """The shares of the mix, where the answer speaks of one."""
    texts = view.texts
    parts = [row for row in view.answer.rows if row.role == "part" and row.share > 0]
    if view.mix is None or len(parts) < 2:
        return []
    count = texts.counted("scope.over_workloads", len(parts))
    if len({round(row.share, 9) for row in parts}) == 1:
        return [texts("answer.mix_equal", workloads=count)]
    if len(parts) > LISTED_MAX:
        return [texts("answer.mix_many", workloads=count)]
    shares = [f"{row.workload} {words.share(texts, row.share)}" for row in parts]
    return [texts("answer.mix", shares=texts.listed(shares))]


def _behind(view: View, of: Loss | None, key: str) -> list[str]:
    """Who is proven behind: what one has, else the one that is furthest behind."""
    if of is None:
        return []
    about = {"name": of.candidate, "behind": words.behind(view.texts, of)}
    return [view.texts(f"answer.{key}", row=_title(view, of.row), **about)]


def change(view: View) -> str:
    """How two results of one candidate differ: a proven change, else the largest possible one."""
    answer, texts = view.answer, view.texts
    proven = [
        Loss(name, row, cell.loss, cell.low, cell.up, cell.open)
        for row in answer.counted
        for name, cell in answer.cells[row].items()
        if cell.low > 0
    ]
    if proven:
        (line,) = _behind(view, max(proven, key=lambda of: of.loss), "other")
        count = texts.counted("scope.more_rows", len(proven) - 1)
        more = texts("answer.more_changes", rows=count) if proven[1:] else ""
        return _of_medium(view, f"{line} {more}".rstrip())
    cells = [cell for row in answer.counted for cell in answer.cells[row].values()]
    ends = [words.bounded(cell.up) for cell in cells]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends) or not ends:
        once = {cell.runs for cell in cells} == {1}
        key = "answer.change_one_run" if once else "answer.change_unbounded"
        return _of_medium(view, texts(key))
    bound = words.amount(texts, max(known), "up", bare=True)
    return _of_medium(view, texts("answer.change_open", bound=bound))


def prices(view: View) -> list[str]:
    """The losses of the recommended candidate on other rows: the largest, and how many more."""
    answer, texts = view.answer, view.texts
    if not answer.prices:
        return []
    first, *more = answer.prices
    line = texts(
        "answer.price", row=_title(view, first.row), name=first.candidate,
        behind=words.behind(texts, first),
    )  # fmt: skip
    count = texts.counted("scope.more_rows", len(more))
    return [line, *([texts("answer.more", rows=count)] if more else [])]


def _wild(view: View) -> list[str]:
    """One run that decides, and the answer without it."""
    of, texts = view.answer.wild, view.texts
    if of is None:
        return []
    about = {
        "name": of.candidate,
        "block": texts.number(of.block, 0),
        "row": _title(view, of.row),
        "factor": words.amount(texts, math.log(of.factor)),
    }
    key = "without_best" if of.code == "best" else "without"
    without = texts(f"answer.{key}", take=of.take, bound=words.amount(texts, of.bound, "up"))
    unit = "block" if view.experiment.blocked else "run"
    decides = texts(f"answer.wild_{'worse' if of.worse else 'better'}_{unit}", **about)
    return [f"{decides} {without}"]


def _requirement(view: View, of: Requirement) -> str:
    """Which candidates miss a hard requirement, and which are not settled."""
    texts = view.texts
    row = next((row for row in view.answer.rows if row.name == of.row), None)
    limit = texts.quantity(of.limit, row.metric.unit if row and row.metric else "")
    named = view.title_of(row) if row else of.row
    about = {"row": named, "sign": "<" if of.below else ">", "limit": limit}
    if row is None or not of.candidates:
        return texts("answer.require", parts=texts("answer.require_unmeasured"), **about)
    groups = {
        met: [name for name, each in of.candidates.items() if each == met]
        for met in ("missed", "open", "met")
    }
    missed = "missed" if view.answer.excluded else "ignored"
    parts = [
        texts(f"answer.require_{missed if met == 'missed' else met}", names=texts.listed(names))
        for met, names in groups.items()
        if names
    ]
    return texts("answer.require", parts="; ".join(parts), **about)


def advice(view: View) -> str:
    """The gain from further blocks, and how long they take; "" where there is no advice."""
    of, texts = view.answer.advice, view.texts
    if of is None:
        return ""
    is_of_boots = view.record.is_of_boots
    used = "boots" if is_of_boots else view.answer.used
    units = texts.counted(f"scope.more_{used}", of.blocks)
    if of.seconds and not is_of_boots:  # A boot takes longer than what is measured in it.
        units = texts("format.bracket", text=units, inside=texts.duration(of.seconds))
    return texts("answer.advice", units=units, target=words.amount(texts, of.target, bare=True))


def not_counted(view: View) -> list[str]:
    """The rows that the answer does not speak of, and why."""
    texts = view.texts
    reasons: dict[str, list[str]] = {}
    for row in view.answer.rows:
        if row.why and not (row.why == "one-candidate" and view.answer.guarantees):
            reasons.setdefault(row.why, []).append(view.title_of(row))
    return [
        texts(f"answer.why_{why.replace('-', '_')}", rows=few(view, titles))
        for why, titles in reasons.items()
    ]


def about_folder(view: View) -> list[str]:
    """How many runs of the plan are missing, and which files of the folder are damaged."""
    missing, planned = view.record.missing
    counts = {"missing": view.texts.number(missing, 0), "planned": view.texts.number(planned, 0)}
    return [*([view.texts("text.missing", **counts)] if missing else []), *view.record.notices]


def few(view: View, titles: Sequence[str]) -> str:
    """A few names, or how many they are."""
    if len(titles) <= LISTED_MAX:
        return view.texts.listed([*titles])
    return view.texts.counted("scope.rows", len(titles))


def _title(view: View, row: str) -> str:
    return view.title_of(view.answer.row(row))


def switches(view: View) -> list[str]:
    """How long the switches of a live load held its requests, and whether what a switch does is in
    its figures; nothing for other work.
    """
    texts = view.texts
    periods = [run.properties for run in view.record.runs if "switch_s" in run.properties]
    if not periods:
        return []
    held = [period["switch_s"] for period in periods]
    median, most = (texts.quantity(s, "s", 2) for s in (statistics.median(held), max(held)))
    settled, washed = (periods[0].get(name, 0.0) for name in ("settled_s", "wash_out_s"))
    times = {"settled": texts.quantity(settled, "s", 2), "washed": texts.quantity(washed, "s", 2)}
    return [
        texts("text.design_switches", median=median, most=most),
        *([texts("text.design_unsettled", **times)] if washed < settled else []),
    ]
