"""From what a user asks `tune` for to the experiment with the default, and the space to search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from schedlab.app.admit import admit
from schedlab.app.compare.comparison import Place, target_of
from schedlab.app.options import tuned_work
from schedlab.app.setting_checks import check_allowed
from schedlab.app.tune.space import default_scheduler, schedulers_of
from schedlab.app.tune.tune import SEARCH_SHARE, TuningRequest
from schedlab.errors import SpecError
from schedlab.host.settings import settings
from schedlab.kinds import typed
from schedlab.nouns import Experiment
from schedlab.nouns.quantities import duration_text
from schedlab.run.admitted import Permission
from schedlab.tune.goal import parse_constraint, with_objective
from schedlab.tune.space import parse_range, table_space

USUAL_WORKLOADS = ("steady-reader", "readers")


@dataclass(frozen=True)
class TuneOptions:
    """The options of `tune` as typed; at most one of `maximise` and `minimise`."""

    schedulers: str = "all"
    maximise: str | None = None
    minimise: str | None = None
    constraints: tuple[str, ...] = ()
    budget_s: float = 1800.0
    ranges: tuple[str, ...] = ()
    tunables: tuple[str, ...] = ()
    margin: float = 0.02


def question_of(
    place: Place, make: Callable[[str], Experiment], options: TuneOptions
) -> tuple[Experiment, TuningRequest]:
    """The experiment and the question; `make` gives the experiment of a scheduler, the default."""
    if options.maximise and options.minimise:
        raise SpecError("--maximise and --minimise cannot be used together", "use one of them")
    target = target_of(place)
    schedulers = schedulers_of(target, options.schedulers)
    default = default_scheduler(target, schedulers)
    base = make(default)
    offered = {w.label: (*typed(w).metrics, *typed(w).own_metrics()) for w in base.workloads}
    constraints = tuple(parse_constraint(text, base) for text in options.constraints)
    objective = options.maximise or options.minimise or ""
    base = with_objective(base, offered, objective, bool(options.maximise), constraints)
    base = replace(
        base,
        title=f"Tuning {options.schedulers} schedulers: {base.title}"
        if options.schedulers == "all"
        else f"Tuning {options.schedulers}: {base.title}",
        aa_arm=False,
        margin=options.margin,
    )
    ranges = tuple(map(parse_range, options.ranges))
    check_allowed(settings.beyond_target(each.name for each in ranges), target.switch)
    space = table_space(schedulers, ranges, options.tunables)
    seed = base.seed
    return base, TuningRequest(space, constraints, options.budget_s, seed, options.margin)


def typed_question(
    place: Place,
    command: tuple[str, ...],
    parameters: Mapping[str, Any],
    report: Callable[[str], None],
) -> tuple[Experiment, TuningRequest]:
    """The same from the options of `schedlab tune`; without any work it is the usual one.

    SpecError for a kernel in virtual time.
    """
    if kernel := parameters.get("kernel"):
        raise SpecError(
            "tune searches on this machine: in virtual time each of its blocks would be a boot",
            f"compare what you would try: schedlab compare --kernel {kernel} --candidate bfq "
            "--candidate 'tuned=bfq slice_idle=0'",
        )
    if not (command or parameters["job_file"] or parameters["workloads"] or parameters["tests"]):
        parameters = {**parameters, "workloads": USUAL_WORKLOADS}
    options = TuneOptions(
        schedulers=parameters["scheduler"],
        budget_s=parameters["budget"],
        tunables=parameters["tunables"] or (),
        **{name: parameters[name] for name in ("maximise", "minimise", "constraints", "ranges",
                                          "margin")},
    )  # fmt: skip
    return question_of(place, tuned_work(place, command, parameters, report), options)


def preview_lines(base: Experiment, question: TuningRequest, permission: Permission) -> list[str]:
    """The search space; the kernel's limits are read only when the search starts."""
    admitted = admit(base, permission)
    pair_s = 2 * sum(admitted.estimate_s(work.label) for work in base.workloads)
    blocks = int(question.budget_s * SEARCH_SHARE / pair_s)
    lines = [
        base.title,
        f"{duration_text(question.budget_s)}: about {blocks} blocks of search, then the best three "
        f"and {base.baseline} afresh",
        "",
        "tunables, where the kernel offers them:",
    ]
    for each in question.space.schedulers:
        ranges = [f"{t.name} {t.low}..{t.high}{' ' + t.unit if t.unit else ''}"
                  for t in each.tunables]  # fmt: skip
        lines.append(f"  {each.scheduler}: {', '.join(ranges) or 'none'}")
    lines += ["", "workloads (primary metric):"]
    lines += [f"  {w.label}: {base.metric(w).title or w.metric}" for w in base.workloads]
    lines += [f"subject to: {each.text}" for each in question.constraints]
    lines += ["", "writes:", *(f"  {line}" for line in admitted.writes or ("nothing",))]
    return [*lines, *(f"note: {note}" for note in (*base.notes, *admitted.notes))]
