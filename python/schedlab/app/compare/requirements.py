"""The user's weights of the workloads: shares of one mix, and hard requirements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from schedlab.errors import SpecError
from schedlab.kinds import KINDS
from schedlab.nouns import Experiment, Require, Workload
from schedlab.nouns.quantities import parse_limit

#: What people call it -> the end of the names of its metrics.
_FSYNC = re.compile(r"(.+\.sync\.lat_ns|fsync_latency_ns|.+_fsync_latency_ns)_(?P<statistic>\w+)")
_REQUIRE = re.compile(r"(?P<row>.+?)\s*(?P<sign>[<>])=?\s*(?P<limit>\S.*)")


def with_shares(experiment: Experiment, shares: str | None) -> Experiment:
    """The workloads as one mix: `newcomer=3,reader=1`, or `equal`; those not named have no part.

    A name is a label, or a part of one only.
    """
    if not shares:
        return experiment
    if shares.strip() == "equal":
        return replace(experiment, shares="equal")
    weights: dict[str, float] = {}
    for item in shares.split(","):
        name, _, number = item.partition("=")
        try:
            weight = float(number or "1")
        except ValueError:
            weight = -1.0
        if not 0 < weight < 1e6:
            raise SpecError(f"--share {item.strip()!r}: not a share above 0", "newcomer=3,reader=1")
        weights[workload_of(experiment, name.strip()).label] = weight
    works = tuple(replace(w, weight=weights.get(w.label, 0.0)) for w in experiment.workloads)
    return replace(experiment, workloads=works, shares="weights")


def with_requirements(experiment: Experiment, texts: Sequence[str]) -> Experiment:
    """Hard requirements, such as `reader p99 < 10ms`; their metrics are measured."""
    for text in texts:
        require = requirement_of(experiment, text)
        works = tuple(
            replace(work, secondary=(*work.secondary, require.metric))
            if work.label == require.workload
            and require.metric not in (work.metric, *work.secondary)
            else work
            for work in experiment.workloads
        )
        requires = (*experiment.requires, require)
        experiment = replace(experiment, workloads=works, requires=requires)
    return experiment


def requirement_of(experiment: Experiment, text: str) -> Require:
    """WORKLOAD METRIC < LIMIT, or >; the metric as its name, or the last part of it (p99)."""
    match = _REQUIRE.fullmatch(text.strip())
    words = match["row"].split() if match else []
    if match is None or not words:
        raise SpecError(f"requirement {text!r}: no limit", "write it as: reader p99 < 10ms")
    if words[0] == "fsync" and not any("fsync" in work.label for work in experiment.workloads):
        work, metric = _fsync_of(experiment, words[-1], text)
    elif len(words) == 1 and len(experiment.workloads) == 1:
        work, metric = experiment.workloads[0], words[0]
    elif len(words) == 1:
        raise SpecError(f"requirement {text!r}: names no metric", "write it as: reader p99 < 10ms")
    else:
        work, metric = workload_of(experiment, " ".join(words[:-1])), words[-1]
    name = _metric_of(experiment, work, metric, text)
    try:
        limit = parse_limit(match["limit"], experiment.metric_named(name).unit)
    except SpecError as error:
        raise SpecError(f"requirement {text!r}: {error}", error.hint) from error
    return Require(work.label, name, limit, match["sign"] == "<")


def _fsync_of(experiment: Experiment, statistic: str, text: str) -> tuple[Workload, str]:
    """The metric of calls of fsync, and whose it is: `fsync p99` names no workload."""

    def named(metrics: Callable[[Workload], Iterable[str]]) -> dict[tuple[str, str], Workload]:
        return {
            (work.label, name): work
            for work in experiment.workloads
            for name in metrics(work)
            if (match := _FSYNC.fullmatch(name)) and match["statistic"] == statistic
        }

    found = named(lambda work: (work.metric, *work.secondary))
    known = {name for _, name in found}
    found |= named(lambda _: (name for name in experiment.metrics if name not in known))
    found = found or named(_offered)
    if len(found) == 1:
        (((_, name), work),) = found.items()
        return work, name
    if found:
        several = len(experiment.workloads) > 1
        names = [f"{label} {name}" if several else name for label, name in found]
        raise SpecError(
            f"requirement {text!r}: several jobs sync", f"name one of: {', '.join(names)}"
        )
    raise SpecError(
        f"requirement {text!r}: no workload measures fsync {statistic}",
        "a command, or a fio job with fsync=1, and mean, max, p50, p90, p99 or p99_9",
    )


def _offered(work: Workload) -> tuple[str, ...]:
    """The metrics of its kind; none of one that is not known, which is refused with the rest."""
    kind = KINDS.get(work.kind)
    return kind.metrics if kind else ()


def workload_of(experiment: Experiment, name: str) -> Workload:
    """The workload of that label, or the only one whose label has the name in it."""
    exact = [work for work in experiment.workloads if work.label == name]
    found = exact or [work for work in experiment.workloads if name and name in work.label]
    if len(found) == 1:
        return found[0]
    labels = ", ".join(work.label for work in found or experiment.workloads)
    what = "names several workloads" if found else "is no workload"
    raise SpecError(f"{name!r} {what}", f"name one of: {labels}")


def _metric_of(experiment: Experiment, work: Workload, name: str, text: str) -> str:
    offered = dict.fromkeys((work.metric, *work.secondary))
    if name in (*offered, *experiment.metrics, *_offered(work)):
        return name
    found = [each for each in offered if each.endswith(f"_{name}") or each.startswith(f"{name}_")]
    if found:
        return found[0]
    # A quantile of a latency that is measured anyway.
    stems = [each.rpartition("_ns_")[0] for each in offered if "_ns_" in each]
    for stem in stems:
        try:
            return experiment.metric_named(f"{stem}_ns_{name}").name
        except SpecError:
            continue
    raise SpecError(
        f"requirement {text!r}: {work.label} has no metric {name!r}",
        f"name one of: {', '.join(offered)}",
    )
