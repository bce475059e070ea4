"""The settings of candidates at the door: does this host have them, and who else feels them?

What a run would refuse is refused here, before anything is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from schedlab.errors import SchedlabError, SpecError
from schedlab.host.settings import knobs, settings
from schedlab.host.settings.control_groups import io_hierarchy
from schedlab.kinds import WorkloadKind
from schedlab.kinds.command import Command
from schedlab.nouns import Candidate, Experiment, Target
from schedlab.run.candidate_settings import AS_IS, Values, host_settings

#: Stands for the device, and the control group, that is made for the run.
NEW_DEVICE, NEW_GROUP = "loopN", Path("(the command's group)")


def programs_of(candidates: Iterable[Candidate]) -> list[str]:
    """Shell lines that candidates run, and programs that load their scheduler."""
    settings_ = [candidate.settings for candidate in candidates]
    lines = [str(each[key]) for each in settings_ for key in ("run", "undo") if key in each]
    loaders = (f"{each['ext']} {each.get('ext_args', '')}" for each in settings_ if "ext" in each)
    return [*lines, *map(str.rstrip, loaders)]


def check_settings(
    candidates: Iterable[Candidate],
    target: Target,
    queues: tuple[str, ...],
    kinds: Iterable[WorkloadKind],
) -> tuple[str, ...]:
    """SpecError or HostError that names the candidate; a note for each setting that others feel,
    and for each limit that is not in force.
    """
    named = tuple(candidates)
    places = places_of(queues, kinds)
    for candidate in named:
        try:
            for place in places:
                _check(candidate, place, place.device in queues)
        except SchedlabError as error:
            raise type(error)(f"candidate {candidate.label!r}: {error}", error.hint) from error
    beyond = settings.beyond_target(name for each in named for name in host_settings(each))
    check_allowed(beyond, target.switch)
    felt = (
        f"{name} is set for {settings.FEEL[settings.scope_of(name)]} while a candidate with it runs"
        for name in beyond
    )
    return (*felt, *_not_in_force(named))


def _not_in_force(candidates: Iterable[Candidate]) -> Iterator[str]:
    """A sentence for each limit of writes that the page cache gets around."""
    limits = dict.fromkeys(
        (name, str(text))
        for each in candidates
        for name, text in host_settings(each).items()
        if name.startswith("cgroup.") and name.endswith("io.max")
    )
    for name, text in limits:
        if re.search(r"w(bps|iops)=(?!max)", text) and not io_hierarchy().is_v2:
            yield (
                f"{name} ({text}) holds direct writes only: with cgroup v1 the kernel writes the "
                "page cache back outside the group, so buffered writes are faster than this limit"
            )


def check_allowed(beyond: Iterable[str], allowed: Sequence[str]) -> None:
    """SpecError for a setting that others feel and that --switch does not name."""
    if missing := [name for name in beyond if name not in allowed]:
        feels = settings.FEEL[settings.scope_of(missing[0])]
        raise SpecError(
            f"{missing[0]} is set for {feels}, not only for the measured work",
            f"allow it by its name: --switch {','.join((*allowed, *missing))}",
        )


def check_switch(experiment: Experiment) -> None:
    """SpecError for a setting that --switch allows and no candidate has."""
    named = {name for each in experiment.candidates for name in each.settings}
    for name in experiment.target.switch:
        if settings.is_beyond(name) and name not in named:
            raise SpecError(f"--switch {name} would change nothing: no candidate has it", "omit it")


def places_of(
    queues: tuple[str, ...], kinds: Iterable[WorkloadKind]
) -> list[settings.SettingScope]:
    """The settings by name on each queue; a command has a control group of ours."""
    works = tuple(kinds)
    is_command = bool(works) and all(isinstance(kind, Command) for kind in works)
    group = (lambda controller: NEW_GROUP) if is_command else None
    return [settings.SettingScope(queue, group) for queue in queues or (NEW_DEVICE,)]


def _check(candidate: Candidate, place: settings.SettingScope, is_present: bool) -> None:
    values = host_settings(candidate)
    settings.check_commands(values)
    scheduler = str(values.pop("scheduler", AS_IS))
    scheduler = knobs.RENAMED.get(scheduler, scheduler)
    queue = knobs.SYS_BLOCK / place.device / "queue" if is_present else None
    if queue and scheduler != AS_IS:
        settings.refuse_zoned(queue, scheduler)
    for name, value in values.items():
        if settings.scope_of(name) != "queue":
            settings.check(name, value, place, values.get("governor", ""))
        elif scheduler == AS_IS:
            raise SpecError(
                f"{name} is set together with a scheduler, and as-is sets none",
                "name the scheduler, for example none",
            )
        else:
            settings.check_tunable(name, scheduler, queue)


def planned_writes(
    candidate: Candidate, places: Iterable[settings.SettingScope]
) -> list[tuple[str, str]]:
    """(path, value) of everything that a candidate sets on the host, in order, for a dry run."""
    values = host_settings(candidate)
    return list(dict.fromkeys(pair for place in places for pair in _planned(values, place)))


def _planned(values: Values, place: settings.SettingScope) -> Iterator[tuple[str, str]]:
    scheduler = str(values.get("scheduler", AS_IS))
    if scheduler != AS_IS:
        path = knobs.SYS_BLOCK / place.device / "queue" / "scheduler"
        yield str(path), knobs.RENAMED.get(scheduler, scheduler)
    for name, value in values.items():
        if name in ("run", "undo"):
            yield name, str(value)
        elif name != "scheduler":
            for knob, text in settings.resolve(name, value, place):
                yield str(knob), text
