"""Whether simulated runs can be compared: overload, initial transients, warm-up."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict

from schedlab.errors import SpecError

if TYPE_CHECKING:
    from schedlab_sim.results import SimResult
    from schedlab_sim.simulation import Simulation

# What is used of the judgement of a run, and of its report; older results have no `is_cold`.
Steady = TypedDict(
    "Steady",
    {
        "is_overloaded": bool, "is_steady": bool, "is_cold": NotRequired[bool],
        "is_too_short": bool, "backlog": int, "cold_requests": NotRequired[int],
        "cut_share": float, "cut_requests": int,
    },
)  # fmt: skip
SsdReport = TypedDict("SsdReport", {"steady": Steady, "iops": float, "requests": int})


def verdict_of(steady: Steady) -> str:
    """`steady`, or why response times of the run say nothing: `overloaded`, `cold`, `too short`,
    `transient`.
    """
    if steady["is_overloaded"]:
        return "overloaded"
    if steady["is_steady"]:
        return "steady"
    if steady.get("is_cold"):
        return "cold"
    return "too short" if steady["is_too_short"] else "transient"


def warnings_of(name: str, report: SsdReport) -> list[str]:
    """Warnings about one run."""
    steady = report["steady"]
    judgement = verdict_of(steady)
    if judgement == "overloaded":
        return [
            f"{name} is overloaded: {steady['backlog']:,} of {report['requests']:,} requests wait "
            f"at the last arrival, {report['iops']:,.0f} are served per second; response times "
            "grow with the length of the run (use fewer arrivals, --time-scale below 1, or a "
            "larger buffer)"
        ]
    if judgement == "cold":
        return [
            f"{name} is not what it becomes under these writes: {steady['cold_requests']:,} of "
            f"{report['requests']:,} requests were complete before its write buffer was full and "
            "its flash was first collected (use --set ftl.precondition=formula, more --requests "
            "and --warm-up auto)"
        ]
    if judgement == "transient":
        return [
            f"{name} reached no steady state: its transient is {steady['cut_share']:.0%} of the "
            "run (use more --requests)"
        ]
    return []


# The parameters of a policy; all others order by an estimated time, which ages what waits.
AGED = frozenset({"alpha", "aging"})
PARAMETERS: Mapping[str, frozenset[str]] = {
    "fcfs": frozenset(),
    "irbw-fifo": frozenset({"bundle_pages"}),
    "irbw-fifo-rp": frozenset({"bundle_pages"}),
    "stb": frozenset({"bundle_pages", "bundle_min", "read_limit", "write_limit"}),
}


def refuse_idle_parameters(typed: Mapping[str, str], policies: Sequence[str]) -> None:
    """SpecError for a parameter that none of the policies has; `typed` names it as it was given
    (`--alpha`: `alpha`).
    """
    known = AGED.union(*PARAMETERS.values())
    for given, name in typed.items():
        if name in known and not any(name in PARAMETERS.get(p, AGED) for p in policies):
            owners = [policy for policy, own in PARAMETERS.items() if name in own]
            named = ", ".join(owners or ("s", "sb", "ts", "tsb", "sitf"))
            raise SpecError(
                f"{given} would change nothing under {', '.join(dict.fromkeys(policies))}",
                f"omit {given}, or use {named}",
            )


def parse_warm_up(text: str) -> dict[str, int | str] | None:
    """`none`, `auto` (None), a number of requests, or a time such as `2s`, as the simulator's
    `warm_up`.
    """
    if text == "auto":
        return None
    if text == "none":
        return {}
    if text.isdigit():
        return {"requests": int(text)}
    if text[:1].isdigit():
        return {"time": text}
    raise SpecError(
        f"--warm-up {text}: expected none, auto, a number of requests, or a time", "e.g. 2s"
    )


def fixed_warm_up(text: str) -> dict[str, int | str]:
    """The same for the runs of an experiment, which are cut alike: SpecError for `auto`."""
    settings = parse_warm_up(text)
    if settings is None:
        hint = "none, a number of requests, or a time; auto is for schedlab sim run"
        raise SpecError("warm-up auto: the runs of an experiment are all cut alike", hint)
    return settings


def run_warm(simulations: Sequence[Simulation], warm_up: str) -> list[SimResult]:
    """All results after the warm-up; `auto` is the longest cut of MSER-5 among all of them."""
    from schedlab_sim.pool import run_threads

    settings = parse_warm_up(warm_up)
    if settings is None:
        first = run_threads(simulations)
        cut = max(result.report["steady"]["cut_requests"] for result in first)
        settings = {"requests": cut}
    return run_threads([dataclasses.replace(one, warm_up=settings) for one in simulations])
