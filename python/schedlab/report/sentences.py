"""The sentences of an answer, each from its code: no other module makes one about an outcome.

Terminal, page, workbook, Markdown and notebook print what `headline` gives.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from schedlab.nouns import AA_SUFFIX
from schedlab.nouns.answer import MIX, Doubt, Loss, Requirement, Row, Unfit
from schedlab.nouns.names import is_beyond_target
from schedlab.report import words
from schedlab.report.fleet_table import fleet_lines, kind_lines
from schedlab.report.replays import doubts
from schedlab.report.view import View

LISTED_MAX = 4
#: The times of a whole workload.
WHOLE = ("elapsed_s", "elapsed_synced_s")
#: Codes with which what is taken only looks best.
OPEN = ("for-now", "trade-open")
#: Workloads of which people say more than their name, and the phrases.
PHRASES = {"newcomer beside writers": "newcomer", "reader beside writers": "reader"}


def headline(view: View) -> list[str]:
    """The candidate to take, with its gain and its risk; then its price and its conditions."""
    answer, texts = view.answer, view.texts
    loser = [answer.loser] if answer.loser else []
    lines = [first(view), *_doubts(view), *_guarantees(view), *_mix(view)]
    lines += [_behind(view, of) for of in loser]
    lines += _identical(view)
    lines += [*prices(view), *_wild(view), *_required(view), *_unfit(view)]
    lines += _beyond(view)
    lines += fleet_lines(view)
    lines += [view.texts("fleet.kind", kind=kind, hosts=hosts, sentence=code(of))
              for kind, hosts, of in kind_lines(view)]  # fmt: skip
    lacking = {flag.workload for flag in answer.flags if flag.kind == "goal-not-measured"}
    judged = {row.workload for row in answer.rows if row.counted or row.share} - {MIX}
    if answer.goal and judged - lacking:
        lines.append(texts("answer.goal", goal=texts(f"goal.{answer.goal}")))
    return [*doubts(view), *lines]


def first(view: View) -> str:
    """The first sentence, which may stand alone: of which medium it speaks, and among whom."""
    return _of_medium(view, _among(view, code(view)))


def _among(view: View, sentence: str) -> str:
    """The sentence, or that each candidate guarantees something else, or among whom it is true."""
    first = next(iter(view.answer.guarantees), None)
    if first is None:
        return sentence
    if len(first.candidates) < 2:
        return view.texts("answer.apart")
    return view.texts("answer.among", names=view.texts.listed(first.candidates), sentence=sentence)


def _beyond(view: View) -> list[str]:
    """Everything that what is recommended sets for other programs, too."""
    answers = (view.answer, *(of.answer for of in view.answer.kinds))
    taken = {each.take for each in answers}
    lines = []
    for each in view.experiment.candidates:
        told = [f"{name}={value}" for name, value in each.settings.items()
                if is_beyond_target(name)]  # fmt: skip
        if each.label in taken and told:
            settings = view.texts.listed(told)
            lines.append(view.texts("answer.beyond", name=each.label, settings=settings))
    return lines


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
    """The sentence of the code: what to take, what that gains, and what it may cost."""
    answer, texts = view.answer, view.texts
    key = answer.code.replace("-", "_")
    reasons = "; ".join(_unfit_text(view, of) for of in answer.unfit)
    if answer.code == "nothing":
        return (
            texts("answer.nothing_unfit", reasons=reasons) if reasons else texts("answer.nothing")
        )
    if answer.code == "one-run" and view.record.is_of_boots:
        key = "one_boot"
    if answer.code in ("for-now", "keep") and words.bounded(answer.bound) is None:
        key = "unbounded"  # What is larger than can be printed is no bound.
    if key in ("one_run", "one_boot", "unbounded"):
        return texts(f"answer.{key}", what=_what(view))
    if answer.code == "doubt":
        return texts("answer.doubt", reason=doubt(view, answer.doubt[0]), name=answer.take)
    gained, risked = gain(view), risk(view)
    if answer.code == "for-now" and not gained:
        return texts("answer.for_now", name=answer.take, risk=risked)
    points = [gained, *_points(view, risked)]
    return texts("answer.points", what=_what(view), points="; ".join(filter(None, points)))


def _points(view: View, risked: str) -> list[str]:
    """The parts of the first sentence beside the gain, by its code."""
    answer, texts = view.answer, view.texts
    others = ""
    if answer.others is not None:
        others = words.amount(texts, answer.others, "low", shrinks=_way(view).shrinks)
    match answer.code:
        case "best":
            all_of = _counted(view, "all_of", "on_workloads")
            return [texts("said.best", all_of=all_of)]
        case "same-0":
            return [texts("said.same_0", any_of=_counted(view, "any_of", "workloads"))]
        case "keep":
            # Something may be proven better on one of several hosts.
            key = "keep_hosts" if answer.used == "hosts" else "keep"
            return [texts(f"said.{key}"), _to_gain(view)]
        case "trade" if answer.costs_more:
            return [risked, texts("said.price", price=_price(view))]
        case "trade" | "trade-open":
            kind = "" if answer.code == "trade" else "_open" if others else "_unknown"
            return [risked, texts(f"said.others{kind}", others=others)]
    return [risked]


def gain(view: View) -> str:
    """The gain over the baseline that is proven; "" where none is."""
    of = view.answer.base_loss
    if of is None:
        return ""
    row = view.answer.row(of.row)
    how = words.way(row.metric, gain=True)
    change = words.said_between(view.texts, how, of.low, of.up)
    return _said(view, row, "better", change, _amounts(view, how, of.low, of.up))


def risk(view: View) -> str:
    """How far behind the best it may be at most, or is proven to be, on its worst row."""
    answer, texts = view.answer, view.texts
    cells = {row: cell for row in answer.counted if (cell := answer.cell(row, answer.take))}
    if not cells:
        return ""
    ups = {row: math.inf if cell.up is None else cell.up for row, cell in cells.items()}
    name = max(ups, key=lambda row: ups[row])
    row, cell = answer.row(name), cells[name]
    how, up = words.way(row.metric), cell.up or 0.0
    if cell.up == 0:
        return ""
    if cell.low > 0:
        change = words.said_between(texts, how, cell.low, cell.up)
        return _said(view, row, "behind", change, _amounts(view, how, cell.low, cell.up))
    amount = words.amount(texts, up, "up", shrinks=how.shrinks)
    return _said(view, row, "worse", words.said(texts, how, up, "up"), amount)


def _to_gain(view: View) -> str:
    """The most that a change could gain."""
    answer, texts = view.answer, view.texts
    ups = {row: cell.up for row in answer.counted
           if (cell := answer.cell(row, answer.take)) and cell.up is not None}  # fmt: skip
    row = answer.row(max(ups, key=lambda name: ups[name]))
    how, up = words.way(row.metric, gain=True), ups[row.name]
    amount = words.amount(texts, up, "up", shrinks=how.shrinks)
    return _said(view, row, "open", words.said(texts, how, up, "up"), amount)


def _amounts(view: View, how: words.Way, low: float, up: float | None) -> str:
    if (end := words.bounded(up)) is None:
        least = words.amount(view.texts, low, "low", shrinks=how.shrinks)
        return view.texts("cell.at_least", value=least)
    return words.between(view.texts, low, end, shrinks=how.shrinks)


def _said(view: View, row: Row, which: str, change: str, amount: str) -> str:
    """A change of a row in a phrase of its own workload, or of its sort of metric."""
    sort = PHRASES.get(row.name, words.sort(row.metric))
    about = {"change": change, "amount": amount, "base": view.answer.base}
    title = view.title_of(row)
    if sort == "time" and row.metric and row.metric.name not in WHOLE and title == row.workload:
        # A latency is of a part of the workload, which itself becomes no shorter.
        title = view.texts("row.title", workload=title, metric=view.metric_title(row))
    return view.texts(f"said.{sort}_{which}", row=title, **about)


def doubt(view: View, of: Doubt) -> str:
    """A contradiction of the answer, as a part of a sentence."""
    texts, row = view.texts, view.answer.row(of.row)
    how = words.way(row.metric)
    sizes = {"size": of.size, "claimed": of.claimed}
    amounts = {key: words.amount(texts, abs(size), shrinks=how.shrinks) if size else ""
               for key, size in sizes.items()}  # fmt: skip
    names = texts.listed(of.candidates)
    return texts(f"doubt.{of.kind}", row=view.title_of(row), names=names, **amounts)


def _doubts(view: View) -> list[str]:
    """The further reasons for doubt, one of each kind."""
    first, *more = view.answer.doubt or (None,)
    kinds = {of.kind: of for of in reversed(more) if of and first and of.kind != first.kind}
    return [view.texts("answer.also", reason=doubt(view, of)) for of in reversed(kinds.values())]


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
    """`Take bfq`, `Keep none` or `Take any of none and bfq`; among whom it is the best."""
    answer, texts = view.answer, view.texts
    if answer.code in ("same", "same-0") and len(answer.same) > 1:
        return texts("answer.any", names=texts.listed(answer.same))
    has = answer.base.removesuffix(AA_SUFFIX) == view.experiment.baseline  # else it has no runs
    key = "hold" if answer.keeps and has else "looks" if answer.code in OPEN else "take"
    what = texts(f"answer.{key}", name=answer.take)
    met = [_limit(view, of) for of in answer.requirements]
    return texts("answer.best_of", what=what, limits=texts.listed(met)) if answer.excluded else what


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


def _behind(view: View, of: Loss) -> str:
    """Who is proven behind."""
    about = {"name": of.candidate, "behind": _loss(view, of)}
    return view.texts("answer.other", row=_title(view, of.row), **about)


def _identical(view: View) -> list[str]:
    """The candidates with equal values in every block, and on which workloads."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in view.chosen:
        for names in view.identical[row.name]:
            alike.setdefault(names, []).append(view.title_of(row))
    texts = view.texts
    return [texts("answer.identical", names=texts.listed(names), rows=texts.listed(rows))
            for names, rows in alike.items()]  # fmt: skip


def _loss(view: View, of: Loss) -> str:
    how = words.way(view.answer.row(of.row).metric)
    return words.said_between(view.texts, how, of.low, of.up)


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
        line = _behind(view, max(proven, key=lambda of: of.loss))
        count = texts.counted("scope.more_rows", len(proven) - 1)
        more = texts("answer.more_changes", rows=count) if proven[1:] else ""
        return _of_medium(view, f"{line} {more}".rstrip())
    cells = [(row, cell) for row in answer.counted for cell in answer.cells[row].values()]
    ends = [(end, row) for row, cell in cells if (end := words.bounded(cell.up)) is not None]
    if len(ends) < len(cells) or not ends:
        once = {cell.runs for _, cell in cells} == {1}
        key = "answer.change_one_run" if once else "answer.change_unbounded"
        return _of_medium(view, texts(key))
    end, row = max(ends)
    how = words.way(answer.row(row).metric)
    bound = words.amount(texts, end, "up", bare=True, shrinks=how.shrinks)
    return _of_medium(view, texts("answer.change_open", bound=bound))


def prices(view: View) -> list[str]:
    """The losses of the recommended candidate on other rows: the largest, and how many more."""
    answer, texts = view.answer, view.texts
    if not answer.prices:
        return []
    told = answer.code == "trade" and answer.costs_more
    more = texts.counted("scope.more_rows", len(answer.prices) - 1)
    lines = [] if told else [texts("answer.price", price=_price(view))]
    lines += [texts("answer.more", rows=more)] if answer.prices[1:] else []
    return [" ".join(lines)] if lines else []


def _price(view: View) -> str:
    first = view.answer.prices[0]
    return view.texts("said.costs", row=_title(view, first.row), behind=_loss(view, first))


def _wild(view: View) -> list[str]:
    """One run that decides, and the answer without it."""
    of, texts = view.answer.wild, view.texts
    if of is None:
        return []
    metric = view.answer.row(of.row).metric
    about = {
        "name": of.candidate,
        "block": texts.number(of.block, 0),
        "row": _title(view, of.row),
        "change": words.said(texts, words.way(metric, gain=not of.worse), math.log(of.factor)),
    }
    is_best = of.code == "best" and view.answer.code != "doubt"
    bound = words.said(texts, _way(view), of.bound, "up")
    without = texts(
        "answer.without_best" if is_best else "answer.without", take=of.take, bound=bound
    )
    unit = "block" if view.experiment.blocked else "run"
    return [f"{texts(f'answer.wild_{unit}', **about)} {without}"]


def _way(view: View) -> words.Way:
    """The way in which all counted rows are said, or that of a mix."""
    ways = {words.way(view.answer.row(row).metric) for row in view.answer.counted}
    return ways.pop() if len(ways) == 1 else words.way(None)


def _unfit(view: View) -> list[str]:
    """The candidates that are compared with none, and why."""
    if view.answer.code == "nothing":
        return []
    texts = view.texts
    decide_nothing = [of for of in view.answer.unfit if of.runs or not of.row]
    return [texts("answer.unfit", name=of.candidate, reason=_reason(view, of))
            for of in decide_nothing[:LISTED_MAX]]  # fmt: skip


def _unfit_text(view: View, of: Unfit) -> str:
    return view.texts("row.why", name=of.candidate or of.row, reason=_reason(view, of))


def unfit_in(view: View, name: str, row: Row) -> str:
    """Why a candidate has no value on a row of a table; "" where nothing is known."""
    reasons = [_reason(view, of) for of in view.answer.unfit
               if of.candidate == name and of.row in ("", row.name)]  # fmt: skip
    return "".join(reasons[:1])


def _reason(view: View, of: Unfit) -> str:
    texts = view.texts
    if of.runs:
        runs = texts.counted("scope.runs", of.runs)
        return texts("answer.unfit_runs", runs=runs, row=_title(view, of.row))
    if not of.reasons:
        return texts("answer.unfit_none")
    counts = {"runs": texts.number(of.tried - of.runs, 0), "tried": texts.number(of.tried, 0)}
    gates = texts.listed([_gate(view, of.candidate, gate) for gate in of.reasons])
    return texts("answer.unfit_discarded", reasons=gates, **counts)


def _gate(view: View, candidate: str, gate: str) -> str:
    """The title of a check; of an ejected scheduler with the kernel's reason."""
    title = view.texts.maybe(f"gate.{gate}", gate)
    if gate != "ext-ejected":
        return title
    details = [finding.detail for run in view.record.runs if run.candidate == candidate
               for finding in run.gates if finding.gate == gate]  # fmt: skip
    reason = next(iter(details), "").partition(": ")[2]
    return view.texts("format.bracket", text=title, inside=reason) if reason else title


def _required(view: View) -> list[str]:
    """The requirements, who meets them, and the price of that."""
    price = view.answer.requirement_price
    lines = [_requirement(view, each) for each in view.answer.requirements]
    if price:
        about = {"row": _title(view, price.row), "behind": _loss(view, price)}
        lines.append(view.texts("answer.required_price", price=view.texts("said.costs", **about)))
    return lines


def _limit(view: View, of: Requirement) -> str:
    """`w1 > 3.6 k/s`."""
    row = next((row for row in view.answer.rows if row.name == of.row), None)
    limit = view.texts.quantity(of.limit, row.metric.unit if row and row.metric else "")
    return f"{view.title_of(row) if row else of.row} {'<' if of.below else '>'} {limit}"


def _requirement(view: View, of: Requirement) -> str:
    """Which candidates miss a hard requirement, and which are not settled."""
    texts = view.texts
    limit = _limit(view, of)
    if not of.candidates:
        return texts("answer.require", limit=limit, parts=texts("answer.require_unmeasured"))
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
    return texts("answer.require", limit=limit, parts="; ".join(parts))


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
    shrinks = _way(view).shrinks
    target = words.amount(texts, of.target, bare=True, shrinks=shrinks)
    return texts("answer.advice", units=units, target=target)


def not_counted(view: View) -> list[str]:
    """The rows that the answer does not speak of, and why; workloads without a run come first."""
    texts = view.texts
    lost = [texts("row.why", name=of.row, reason=_reason(view, of))
            for of in view.answer.unfit if not of.candidate]  # fmt: skip
    reasons: dict[str, list[str]] = {"discarded": lost} if lost else {}
    for row in view.primary:
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
