"""`schedlab live`: settings of a device in use, switched back and forth under its own load.

    question = Question(Path("/dev/sdb"), candidates, every_s=60, for_s=3600)
    experiment = prepared(question, report)     # one pilot switch per candidate
    ...                                          # admit, create and measure it, as any other

The unit of the analysis is the period. How periods are planned, and why: `docs/guides/live.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from schedlab.app.compare import comparison
from schedlab.app.setting_checks import check_settings
from schedlab.app.targets import check_offered
from schedlab.errors import SpecError
from schedlab.host import devices
from schedlab.host.queues import QueueSet, queues_below
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs
from schedlab.host.settings.control_groups import io_group
from schedlab.host.settings.settings import is_beyond
from schedlab.kinds.live_load import LiveLoad, group_metric
from schedlab.nouns import Candidate, Experiment, Stopping, Target, Workload, durability
from schedlab.nouns.output_metrics import parse_output_metric
from schedlab.nouns.quantities import duration_text
from schedlab.run.live import live_pilot
from schedlab.run.live.guard_rails import parse_guard
from schedlab.run.live.live import Devices
from schedlab.run.live.live_own_figure import OwnFigure

BLOCKS_LEAST = 12
PERIOD_LEAST_S = 1.0
#: A period is at least so many times its wash-out.
PERIOD_PER_WASH_OUT = 10.0
PILOT_S_LEAST, PILOT_S_MOST = 4.0, 20.0
LABEL = "live load"


@dataclass(frozen=True)
class LiveRequest:
    """Where to measure, which candidates (the first is the baseline), how long."""

    path: Path
    candidates: tuple[Candidate, ...]
    every_s: float
    for_s: float
    wash_out_s: float | None = None
    guards: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    metric: str = ""
    command: tuple[str, ...] = ()
    confine: Literal["devices", "nothing"] = "devices"
    deciding: str = ""
    margin: float = 0.02
    seed: int | None = None
    switch: tuple[str, ...] = ()


def question(path: Path, command: Sequence[str], typed: Mapping[str, Any]) -> LiveRequest:
    """The typed options; the candidates are all that the queues offer unless some were named."""
    own = parse_output_metric(typed["metric"], of_live_load=True) if typed["metric"] else None
    if bool(command) != bool(own and not own.path):
        what = "--metric reads the output of a COMMAND, and none is typed"
        if command:
            what = "a COMMAND is run only for the --metric in its output, and none is named"
        hint = "schedlab live … --metric 'tps:1/s=stdout~tps ([0-9.]+)' -- COMMAND"
        raise SpecError(what, hint)
    for group in typed["groups"] or ():
        io_group(group)
    switch = typed["switch"] or ()
    below = queues_below(path)
    _refuse_unnamed(path, below, switch)
    target = _target(path, below, switch)
    named = comparison.candidates_of(typed["schedulers"], None, target, typed["candidates"])
    check_offered(named.candidates, target, below.queues)
    check_settings(named.candidates, target, below.queues, ())
    return LiveRequest(
        path,
        named.candidates,
        typed["every"],
        typed["for_s"],
        typed["wash_out"],
        typed["guards"],
        typed["groups"] or (),
        typed["metric"] or "",
        tuple(command),
        "nothing" if typed["unconfined"] else "devices",
        typed["deciding"] or "",
        typed["margin"],
        typed["seed"],
        switch,
    )


def blocks_of(question: LiveRequest) -> int:
    """How many blocks fit; SpecError with the figures that would do where they are too few."""
    arms = len(question.candidates) + 1
    if len(question.candidates) < 2:
        raise SpecError("one candidate has nothing to be compared with", "--schedulers none,bfq")
    if question.every_s < PERIOD_LEAST_S:
        raise SpecError(
            f"--every {question.every_s:g}s: a period is at least {PERIOD_LEAST_S:g} s",
            f"--every {PERIOD_LEAST_S:g}s",
        )
    blocks = int(question.for_s / (question.every_s * arms) + 1e-9)  # 39.6 s are 12 × 3 × 1.1 s
    if blocks < BLOCKS_LEAST:
        needed_s = math.ceil(BLOCKS_LEAST * arms * question.every_s)
        fits_s = math.floor(question.for_s / BLOCKS_LEAST / arms * 10) / 10
        shorter = f", or --every {fits_s:g}s" if fits_s >= PERIOD_LEAST_S else ""
        raise SpecError(
            f"{arms} periods of {question.every_s:g} s a block (each candidate, and the baseline "
            f"twice) fit {blocks} times into {duration_text(question.for_s)}; {BLOCKS_LEAST} "
            "blocks are the least",
            f"--for {needed_s}s{shorter}",
        )
    return blocks


def prepared(question: LiveRequest, report: Callable[[str], None]) -> Experiment:
    """The experiment, after one pilot switch to each candidate; the host is as before.

    SpecError where the periods are too short for what the pilot saw, or the baseline trips a guard.
    """
    blocks = blocks_of(question)
    for guard in question.guards:
        parse_guard(guard)
    if question.metric:
        OwnFigure(question.metric, question.command, question.confine).check()
    below = queues_below(question.path)
    seconds = min(max(question.every_s, PILOT_S_LEAST), PILOT_S_MOST)
    with Control(named_devices=below.queues, report=report) as control:
        control.claim(*below.queues)
        seen = live_pilot.pilot(
            Devices(control, below.queues, question.candidates, question.groups),
            question.candidates,
            seconds,
            question.guards,
            report,
        )
    if not any(one.figures.requests for one in seen):
        raise SpecError(
            f"{question.path}: nothing used it during the pilot",
            "start the load first, or measure one of ours: schedlab compare",
        )
    washed_s = question.wash_out_s
    if washed_s is None:
        washed_s = live_pilot.wash_out_s(seen)
    if question.every_s < PERIOD_PER_WASH_OUT * washed_s:
        raise SpecError(
            f"--every {question.every_s:g}s: after a switch the load needs {washed_s:.1f} s to "
            f"settle, and a period is at least {PERIOD_PER_WASH_OUT:g} times as long",
            f"--every {PERIOD_PER_WASH_OUT * washed_s:.0f}s",
        )
    return _experiment(question, below, blocks, seen, washed_s)


def _experiment(
    question: LiveRequest,
    below: QueueSet,
    blocks: int,
    seen: list[live_pilot.Switched],
    washed_s: float,
) -> Experiment:
    operation = live_pilot.main_operation(seen)
    other = "write" if operation == "read" else "read"
    kind = LiveLoad(
        seconds=question.every_s - washed_s,
        wash_out_s=washed_s,
        settled_s=max(one.settled_s for one in seen),
        processes=() if question.groups else live_pilot.main_groups(seen),
        control_groups=question.groups,
        metric=question.metric,
        command=question.command,
        confine=question.confine,
        guards=question.guards or live_pilot.usual_guards(seen[0]),
    )
    metric = question.deciding or f"{operation}_latency_ns_mean"
    if question.metric and not question.deciding:
        metric = parse_output_metric(question.metric, of_live_load=True).name
    own = kind.own_metrics()
    usual = (
        f"{operation}_latency_ns_mean", f"{operation}_latency_ns_p99", f"{other}_latency_ns_mean",
        "requests_per_s", *(group_metric(group, operation) for group in kind.counted_apart), *own,
    )  # fmt: skip
    busy = [one for one in seen if one.figures.flow(other).requests]
    synced = [each for each in durability.OPERATIONS
              if any(one.figures.flow(each).requests for one in seen)]  # fmt: skip
    usual = (*usual, *(name for name in durability.USUAL if name.startswith(tuple(synced))))
    secondary = dict.fromkeys(
        name for name in usual if name != metric and (busy or not name.startswith(other))
    )
    parameters = {
        name: getattr(kind, name) for name in kind.__struct_fields__
        if getattr(kind, name) != getattr(LiveLoad(), name)
    }  # fmt: skip
    return comparison.experiment_of(
        "io",
        "settings under the live load",
        _target(question.path, below, question.switch),
        question.candidates,
        [Workload(LABEL, kind.kind, metric, parameters, tuple(secondary))],
        map(live_pilot.pilot_line, seen),
        seed=question.seed,
        stopping=Stopping("fixed", blocks),
        margin=question.margin,
    )


def _refuse_unnamed(path: Path, below: QueueSet, switch: tuple[str, ...]) -> None:
    """SpecError for a directory on a queue that carries more, unless --switch names that."""
    named = {knobs.device_name(name) for name in switch if not is_beyond(name)}
    missing = [name for name in below.reasons if name not in named]
    if missing and not path.is_block_device():
        raise SpecError(
            f"{path} is on {missing[0]}, which is switched only when you name it: "
            f"{'; '.join(below.reasons[missing[0]])}",
            f"--switch {','.join((*switch, *missing))}",
        )


def _target(path: Path, below: QueueSet, switch: tuple[str, ...]) -> Target:
    if path.is_block_device():
        size = devices.size_bytes(knobs.device_file(below.queues[0]))
        return Target("device", str(path), size, switch=switch)
    return Target("directory", str(path), switch=(*below.queues, *switch))


def what_it_does(question: LiveRequest) -> list[str]:
    """The user's consent in words."""
    below = queues_below(question.path)
    names = ", ".join(candidate.label for candidate in question.candidates)
    switches = blocks_of(question) * (len(question.candidates) + 1)
    lines = [
        f"{', '.join(below.queues)}: switched {switches} times between {names}, in "
        f"{duration_text(question.for_s)}; each switch holds its requests for some 30 ms, which "
        "a pilot measures first",
    ]
    lines += [f"it also affects {mount}" for mount in below.mounts]
    target = _target(question.path, below, question.switch)
    return [*lines, *check_settings(question.candidates, target, below.queues, ())]
