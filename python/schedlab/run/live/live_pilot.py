"""One switch to each candidate before the plan: what it costs, and how long its traces last.

After a switch the requests of the last setting leave, bfq raises weights, kyber learns. So long a
period must not be measured: that is its wash-out, and periods are many times as long.
"""

from __future__ import annotations

import difflib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from schedlab.errors import SchedlabError, SpecError
from schedlab.kinds.live_load import OPERATIONS
from schedlab.nouns import Candidate
from schedlab.run.live.guard_rails import Guard, Rails, parse_guard
from schedlab.run.live.live import BIN_MS, STEP_S, Devices, GuardTripped, Second
from schedlab.run.live.live_figures import Look

#: Bins of 100 ms that are averaged, so that single requests do not count as unsettled.
SMOOTHED_BINS = 5
#: The estimate comes from one switch a candidate, so it is doubled.
CAUTION = 2.0
WASH_OUT_LEAST_S = 0.5
GROUPS_MAX, GROUP_SHARE = 3, 0.05
#: The usual guard: so many times the worst second of the baseline, for so long.
GUARD_FACTOR, GUARD_FOR_S = 10.0, 5.0


@dataclass(frozen=True)
class Switched:
    """The effect of one switch: seconds of the switch itself, and until the load settled."""

    candidate: str
    switch_s: float
    settled_s: float
    watched_s: float
    figures: Look
    worst_p99_ns: dict[str, float]


def pilot(
    devices: Devices,
    candidates: Sequence[Candidate],
    seconds: float,
    guards: Sequence[str],
    report: Callable[[str], None],
) -> list[Switched]:
    """Switch once to each candidate and watch for `seconds`; the first is the baseline.

    GuardTripped where one of the others trips a guard, SpecError where the baseline does.
    """
    seen: list[Switched] = []
    for candidate in candidates:
        lines: list[str] = []
        rails = _rails(guards, seconds, seen)
        worst: dict[str, float] = {}
        with devices.captured(seconds) as captured:
            _, switch_s = devices.set(candidate)
            began, first = time.monotonic(), captured.look()
            last = first
            while time.monotonic() - began < seconds:
                time.sleep(min(STEP_S, max(began + seconds - time.monotonic(), 0)))
                counted = captured.look()
                passed_s = time.monotonic() - began
                second = Second(candidate.label, passed_s, seconds, True, counted - last, None)
                lines.append(second.line())
                if reason := rails.see(second.figures, candidate.label):
                    devices.set_back()
                    raise _tripped(candidate.label, reason, lines, is_baseline=not seen)
                for operation in OPERATIONS:
                    if p99 := second.figures.latency_ns("p99", operation):
                        worst[operation] = max(p99, worst.get(operation, 0.0))
                last = counted
            rows = [row for row in captured.series() if row[0] >= 1e3 * first.at_s]
        requests = [float(row[1]) for row in rows]
        latencies = [row[3] / row[1] if row[1] else math.nan for row in rows]
        settled_s = max(settling_bins(requests), settling_bins(latencies)) * BIN_MS / 1e3
        one = Switched(candidate.label, switch_s, settled_s, seconds, last - first, worst)
        report(pilot_line(one))
        seen.append(one)
    _check_names([parse_guard(text) for text in guards], seen)
    return seen


def _check_names(guards: Iterable[Guard], seen: Iterable[Switched]) -> None:
    """SpecError where a guard names a process that did not use the device."""
    names = {group for one in seen for group, _ in one.figures.flows}
    for guard in guards:
        if guard.group and guard.group not in names:
            near = difflib.get_close_matches(guard.group, names, 1, 0) or sorted(names)
            raise SpecError(
                f"guard {guard.text!r}: nothing named {guard.group} used the device during the "
                f"pilot; these did: {', '.join(sorted(names)) or 'none'}",
                f"--guard '{guard.text.replace(guard.group, near[0], 1)}'" if near else "start it",
            )


def pilot_line(one: Switched) -> str:
    """One switch, in words."""
    has_settled = one.settled_s < 0.45 * one.watched_s
    settled = f"settled after {one.settled_s:.1f} s" if has_settled else "not settled by its end"
    held = f"a switch to {one.candidate} held requests for {1e3 * one.switch_s:.0f} ms at most"
    return f"pilot: {held}, {settled}"


def settling_bins(values: Sequence[float]) -> int:
    """The first bin from which a series stays within the spread of its second half.

    Bins are smoothed over `SMOOTHED_BINS`; those without a value are skipped. At most half.
    """
    smooth = [
        sum(part) / len(part)
        for start in range(len(values) - SMOOTHED_BINS + 1)
        if (part := [v for v in values[start : start + SMOOTHED_BINS] if not math.isnan(v)])
    ]
    later = smooth[len(smooth) // 2 :]
    if not later:
        return 0
    low, high = min(later), max(later)
    outside = [n for n, value in enumerate(smooth) if not low <= value <= high]
    return outside[-1] + 1 if outside else 0


def wash_out_s(seen: Sequence[Switched]) -> float:
    """The wash-out that the slowest candidate needs, doubled."""
    return max(WASH_OUT_LEAST_S, CAUTION * max(one.settled_s for one in seen))


def main_operation(seen: Sequence[Switched]) -> str:
    """Whether the load mostly reads or writes."""
    counts = Counter[str]()
    for one in seen:
        for operation in OPERATIONS:
            counts[operation] += one.figures.flow(operation).requests
    return counts.most_common(1)[0][0]


def main_groups(seen: Sequence[Switched]) -> tuple[str, ...]:
    """The processes with the most requests, by name; none where there is only one."""
    counts = Counter[str]()
    for one in seen:
        for (group, operation), flow in one.figures.flows.items():
            if operation in OPERATIONS:
                counts[group] += flow.requests
    total = sum(counts.values())
    named = [g for g, n in counts.most_common(GROUPS_MAX) if n >= GROUP_SHARE * total]
    return tuple(named) if len(named) > 1 else ()


def usual_guards(baseline: Switched) -> tuple[str, ...]:
    """A p99 far above the worst second of the baseline, for the operations that it had."""
    return tuple(
        f"{operation} p99 > {GUARD_FACTOR * worst / 1e6:.3f}ms for {GUARD_FOR_S:g}s"
        for operation, worst in baseline.worst_p99_ns.items()
    )


def _rails(guards: Sequence[str], seconds: float, seen: Sequence[Switched]) -> Rails:
    """The guards of the next candidate; those of the baseline hold for its pilot at most."""
    if seen:
        return Rails([parse_guard(text) for text in guards or usual_guards(seen[0])])
    own = map(parse_guard, guards)
    return Rails([replace(guard, for_s=min(guard.for_s, seconds)) for guard in own])


def _tripped(label: str, reason: str, lines: Iterable[str], is_baseline: bool) -> SchedlabError:
    """The error for a guard that tripped: under the baseline, the guard is wrong."""
    if not is_baseline:
        return GuardTripped.under(label, reason, lines)
    return SpecError(
        f"{label}, the baseline, trips a guard itself: {reason}", "give it a wider bound"
    )
