"""Why a comparison came out as it did: sentences from measured waiting, by a table of conditions.

Each sentence names the quantities that it rests on. Where no condition holds, the answer is that
these runs do not show why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedlab.nouns import Explanation
from schedlab.nouns.answer import Row
from schedlab.nouns.capture import is_alike
from schedlab.report import durable, words
from schedlab.report.moments import starved
from schedlab.report.view import View

# Shares of a request's waiting from which a part is called the reason for it.
IN_DEVICE = 0.7
LONG = {"tag": 0.25, "scheduler": 0.25, "outside": 0.25}
# Requests in the device from which the others, not the device, make a request wait.
DEEP = 4.0
# A wait that is shorter by this factor is worth a sentence, and is none to be explained.
FELL = 1.5
PARTS = ("outside", "tag", "plug", "scheduler", "device")
# Share of events from which it matters that they were not seen.
LOST = 0.01
# Share of what the device moved from which a capture without it explains nothing.
GAP = 0.001
# Requests per operation from which the two are distinguished.
SPLIT = 0.1


@dataclass(frozen=True)
class Why:
    """Waiting of one group of one workload: an explanation per candidate, and its sentences."""

    workload: str
    group: str
    by_candidate: tuple[tuple[str, Explanation], ...]
    sentences: tuple[str, ...]


def explained(view: View) -> list[Why]:
    """The workloads and groups with explanations on which somebody is proven behind, the group of
    the primary metric first.
    """
    reasons = []
    for of in view.primary:
        groups: dict[str, list[tuple[str, Explanation]]] = {}
        for name in view.names:
            for each in view.record.explanations.get((of.workload, name), ()):
                groups.setdefault(each.group, []).append((name, each))
        judged = sorted(groups.items(), key=lambda item: not _is_judged(of, item[0]))
        alone = len(groups) == 1
        own = [why for group, rows in judged if (why := _why(view, of, group, rows, alone))]
        if own and (lines := _lost(view, groups)):
            own[0] = replace(own[0], sentences=(*own[0].sentences, *lines))
        reasons += own
    return reasons


def _why(
    view: View, of: Row, group: str, rows: Sequence[tuple[str, Explanation]], alone: bool
) -> Why | None:
    """The reasons of a group, where its figures prove something; none where the extra run says the
    opposite of them. A group `alone` is that of the primary metric.
    """
    further = (row for row in view.secondary(of.workload) if row.actor == group)
    own = of if alone or _is_judged(of, group) else next(further, None)
    cells = view.answer.cells[own.name] if own else {}
    known = {name: each.total_s for name, each in rows if name in cells}
    if not any(cells[name].low > 0 for name in known):
        return None
    best = min(known, key=lambda name: cells[name].loss)
    opposite = [name for name, total_s in known.items()
                if cells[name].low > 0 and total_s < known[best]]  # fmt: skip
    lines = _gap(view, rows)
    if not lines and opposite:
        lines = [view.texts("why.unknown")]
    lines = lines or _sentences(view, of.workload, group, rows)
    if own is of:
        lines += _unlike(view, of, rows)
    return Why(of.workload, group, tuple(rows), tuple(lines))


def lines(view: View) -> list[str]:
    """All sentences, each with its workload where there are several; who starved comes first."""
    every = explained(view)
    several = len({why.workload for why in every}) > 1
    found = [
        view.texts("why.of", workload=why.workload, sentence=line) if several else line
        for why in every
        for line in why.sentences
    ]
    return [*starved(view), *found, *durable.lines(view)]


def _is_judged(of: Row, group: str) -> bool:
    """Whether the metric of the workload is one of this group: `reader_latency_…` of `readers`."""
    return (of.metric.name if of.metric else "").startswith(group.rstrip("s") or " ")


def _sentences(
    view: View, workload: str, group: str, rows: Sequence[tuple[str, Explanation]]
) -> list[str]:
    """The quantities in words; one sentence for all candidates with the same finding."""
    texts = view.texts
    who = group_name(view, group)
    totals = [each.total_s for _, each in rows]
    is_fast = FELL * min(totals) if FELL * min(totals) < max(totals) else 0.0
    slow = [(name, each) for name, each in rows if each.total_s > is_fast]
    lines = [*_fell(view, who, rows), *_raised(view, who, rows), *_device(view, who, slow)]
    lines += [*_waits(view, who, slow, "tag"), *_waits(view, who, slow, "scheduler")]
    lines += _waits(view, who, slow, "outside", workload)
    split = _split(view, who, rows)
    return [*(lines or [texts("why.unknown")]), *split]


def _unlike(view: View, of: Row, rows: Sequence[tuple[str, Explanation]]) -> list[str]:
    """Candidates whose extra run was far from their scored runs, of whatever reason."""
    if not of.metric or not of.metric.name.endswith("_latency_ns_mean"):
        return []
    cells = view.answer.cells[of.name].items()
    usual_s = {name: (each.value or 0.0) * 1e-9 for name, each in cells}
    return [
        view.texts("why.unlike", name=name, extra=_time(view, each.total_s),
                   usual=_time(view, usual_s[name]))
        for name, each in rows
        if not is_alike(each.total_s, usual_s.get(name, 0.0))
    ]  # fmt: skip


def _gap(view: View, rows: Sequence[tuple[str, Explanation]]) -> list[str]:
    """The sentence of captures that do not add up, from which nothing is concluded."""
    gaps = {name: each.gap_share for name, each in rows if abs(each.gap_share) > GAP}
    if not gaps:
        return []
    share = words.share(view.texts, max(map(abs, gaps.values())))
    return [view.texts("why.gap", names=", ".join(gaps), share=share)]


def _lost(view: View, groups: Mapping[str, Sequence[tuple[str, Explanation]]]) -> list[str]:
    """Events of a workload that the captures missed, where they are more than a few."""
    every = [each for rows in groups.values() for _, each in rows]
    seen = sum(each.requests for each in every)
    # Each group of a run reports the lost events of the whole run.
    lost = max(sum(each.lost for _, each in rows) for rows in groups.values())
    if not lost or lost < LOST * (seen + lost):
        return []
    return [view.texts("why.lost", share=words.share(view.texts, lost / (seen + lost)))]


def _device(view: View, who: str, rows: Sequence[tuple[str, Explanation]]) -> list[str]:
    """Candidates whose requests waited inside the device, behind others or alone."""
    texts, lines = view.texts, []
    inside = [(n, e) for n, e in rows if e.device_s >= IN_DEVICE * e.total_s]
    for key, chosen in (
        ("device", [(n, e) for n, e in inside if e.device_depth >= DEEP]),
        ("device_shallow", [(n, e) for n, e in inside if e.device_depth < DEEP]),
    ):
        if chosen:
            waited = sum(e.total_s for _, e in chosen)
            held = sum(e.device_s for _, e in chosen) / waited
            depth = sum(e.device_depth for _, e in chosen) / len(chosen)
            names = texts.listed([n for n, _ in chosen])
            values = {"share": words.share(texts, held), "depth": texts.number(depth, 0)}
            lines.append(texts(f"why.{key}", names=names, group=who, **values))
    return lines


def _waits(
    view: View, who: str, rows: Sequence[tuple[str, Explanation]], part: str, workload: str = ""
) -> list[str]:
    """Candidates whose requests waited for long in one of PARTS, in one sentence.

    A cause is named only where the record shows it: a limit, or the engine of the runs.
    """
    texts = view.texts
    matching = [(n, e) for n, e in rows if part_s(e, part) >= LONG[part] * e.total_s]
    if not matching:
        return []
    waits = [
        texts("why.wait", name=name, time=_time(view, part_s(each, part)),
              total=_time(view, each.total_s))
        for name, each in matching
    ]  # fmt: skip
    has_limits = part == "tag" and any(each.has_limits for _, each in matching)
    key = "tag_limits" if has_limits else part
    if part == "outside" and "io_uring" in _engines(view, workload):
        key = "outside_io_uring"
    return [texts(f"why.{key}", group=who, waits=texts.listed(waits))]


def _engines(view: View, workload: str) -> set[str]:
    """The engines that the runs of a workload used."""
    runs = view.runs_by_workload.get(workload, ())
    return {str(run.properties.get("engine", "")) for run in runs}


def _fell(view: View, who: str, rows: Sequence[tuple[str, Explanation]]) -> list[str]:
    """The candidate whose requests wait least, against the baseline: which part fell."""
    texts, by_name = view.texts, dict(rows)
    before = by_name.get(view.baseline)
    best, after = min(rows, key=lambda row: row[1].total_s)
    if before is None or after.total_s <= 0 or before.total_s < FELL * after.total_s:
        return []
    part = max(PARTS, key=lambda p: part_s(before, p) - part_s(after, p))
    return [
        texts(
            "why.fell",
            best=best,
            group=who,
            before=_time(view, before.total_s),
            after=_time(view, after.total_s),
            part=texts(f"why.part_{part}"),
            part_before=_time(view, part_s(before, part)),
            part_after=_time(view, part_s(after, part)),
        )
    ]


def _raised(view: View, who: str, rows: Sequence[tuple[str, Explanation]]) -> list[str]:
    """bfq served a new group first until it had moved so much."""
    return [
        view.texts(
            "why.raised",
            name=name,
            group=who,
            factor=view.texts.number(each.raised, 0),
            time=_time(view, each.raised_s),
            size=view.texts.quantity(each.raised_bytes, "B", 2),
        )
        for name, each in rows
        if each.raised > 1
    ]


def _split(view: View, who: str, rows: Sequence[tuple[str, Explanation]]) -> list[str]:
    """Operations that are not single requests: the times are of a request, then."""
    ratios = [e.requests_per_operation for _, e in rows if e.requests_per_operation]
    if not any(abs(ratio - 1) > SPLIT for ratio in ratios):
        return []
    low, high = (view.texts.figure(end, 2) for end in (min(ratios), max(ratios)))
    return [view.texts("why.split", group=who, low=low, high=high)]


def part_s(each: Explanation, part: str) -> float:
    """Mean seconds in one of PARTS."""
    return float(getattr(each, f"{part}_s"))


def group_name(view: View, group: str) -> str:
    """The name of a group of processes in a sentence."""
    if not group:
        return view.texts("why.requests")
    return view.texts.maybe(f"actor_name.{group}", view.texts("actor_name.other", group=group))


def _time(view: View, seconds: float) -> str:
    return view.texts.quantity(seconds, "s", 2)
