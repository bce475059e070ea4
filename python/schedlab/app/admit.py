"""The one door: an experiment is measured only after `admit` has found nothing against it.

`compare`, `run FILE`, `--resume`, `reproduce`, `lab run`, `--dry-run` and the Python API all pass
here. An experiment is the request; a `Permission` is what the user agreed to, and is made
from the command line, a prompt or a call, never from a file.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from schedlab.app import targets
from schedlab.app.setting_checks import programs_of
from schedlab.design.candidates import NAME
from schedlab.design.plan import arms
from schedlab.errors import SpecError, nearest
from schedlab.host import processes
from schedlab.host.settings.settings import family_of, is_beyond
from schedlab.kinds import OVERRIDE, WorkloadKind, typed
from schedlab.kinds.brought import programs_of_line, sha256_of
from schedlab.kinds.command import Command
from schedlab.nouns import SCHEMA_VERSION, Candidate, Experiment, metric_named
from schedlab.nouns.names import check_name, is_policy_file
from schedlab.package import offered
from schedlab.run.admitted import Admitted, Permission
from schedlab.run.cpu.cpu import check_candidates

BLOCKS_MAX = 10_000


def admit(experiment: Experiment, permission: Permission | None = None) -> Admitted:
    """Check every key, resolve the target and prove that what would be written may be written.

    SpecError or HostError naming the place and what helps; nothing has been changed then.
    """
    permission = permission or Permission(trust=False)
    _check_head(experiment)
    _check_labels("candidate", [c.label for c in experiment.candidates])
    _check_labels("workload", [w.label for w in experiment.workloads])
    if experiment.baseline not in {c.label for c in experiment.candidates}:
        labels = [c.label for c in experiment.candidates]
        raise SpecError(
            f"baseline {experiment.baseline!r} is not a candidate",
            nearest(experiment.baseline, labels),
        )
    kinds = _typed_kinds(experiment)
    _check_servers(kinds)
    _check_stopping(experiment)
    _check_statements(experiment)
    lines = [line for kind in kinds.values() for line in kind.programs()]
    policies = (str(candidate.settings.get("policy", "")) for candidate in experiment.candidates)
    lines += filter(is_policy_file, policies)
    programs = tuple(dict.fromkeys((*lines, *programs_of(experiment.candidates))))
    place = os.path.realpath(experiment.target.path) if experiment.target.path else ""
    resolved = targets.resolve(experiment, kinds.values(), permission)
    admitted = Admitted(
        experiment=experiment,
        permission=permission,
        kinds=kinds,
        queues=resolved.queues,
        writes=resolved.writes,
        programs=programs,
        place=place,
    )
    _check_trust(admitted)
    # Only now: a file from elsewhere could name a whole disk to be read.
    digests = _digests(experiment, kinds.values())
    labelled = {label: kind for (label, _), kind in kinds.items()}
    notes = [note for label, kind in labelled.items() for note in kind.notes(label)]
    admitted = replace(
        admitted,
        experiment=replace(experiment, digests=digests),
        changed=_changed(experiment.digests, digests),
        notes=tuple(dict.fromkeys((*resolved.notes, *notes))),
    )
    if experiment.kind != "sim":
        return admitted
    simulated = offered("backends", "sim", "a simulation")
    simulated.check(experiment)
    said = tuple(dict.fromkeys((*experiment.notes, *simulated.doubts(experiment))))
    return replace(admitted, experiment=replace(admitted.experiment, notes=said))


def require_unchanged(admitted: Admitted) -> Admitted:
    """SpecError where a file that runs start or read is another one than when the experiment was
    first measured: its second half would be another measurement.
    """
    if admitted.changed:
        raise SpecError(
            f"{_listing(admitted.changed)}: not as it was when this experiment was first measured",
            "restore it, or start a new experiment without --resume",
        )
    return admitted


def _digests(experiment: Experiment, kinds: Iterable[WorkloadKind]) -> dict[str, str]:
    """The SHA-256 of all that the user brings, by path."""
    files = [each for kind in kinds for each in kind.brought()]
    for settings in (candidate.settings for candidate in experiment.candidates):
        if Path(loaded := str(settings.get("ext", ""))).is_file():  # also one that is no program
            files.append(loaded)
        policy = str(settings.get("policy", ""))
        files += [policy.partition(".py:")[0] + ".py"] if is_policy_file(policy) else []
    for line in programs_of(experiment.candidates):
        files += programs_of_line(line)
    if (model := Path(experiment.target.model)).suffix == ".toml":
        files.append(str(model))
    paths = dict.fromkeys(Path(each).absolute() for each in files)
    return {str(path): sha256_of(path) for path in paths}


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(path for path in now if before.get(path) != now[path]) if before else ()


def admit_candidates(admitted: Admitted, candidates: tuple[Candidate, ...]) -> Admitted:
    """An admitted experiment with other candidates: its target, workloads and consents stay.

    For a search that tries settings while the target is open.
    """
    experiment = replace(
        admitted.experiment, candidates=candidates, baseline=candidates[0].label, aa_arm=False
    )
    _check_labels("candidate", [c.label for c in candidates])
    kinds = _typed_kinds(experiment)
    targets.check_offered(candidates, experiment.target, admitted.queues)
    return replace(admitted, experiment=experiment, kinds=kinds)


def _check_servers(kinds: Mapping[tuple[str, str], WorkloadKind]) -> None:
    """Each server once, however many candidates there are."""
    named = {server: label for (label, _), kind in kinds.items() if isinstance(kind, Command)
             for server in kind.servers}  # fmt: skip
    for server, label in named.items():
        if not processes.called(server):
            raise SpecError(
                f"{label}: no process of the server {server!r} runs",
                "start it first, or by --setup, whose processes need no name",
            )


def _check_head(experiment: Experiment) -> None:
    if experiment.schema != SCHEMA_VERSION:
        raise SpecError(
            f"schema = {experiment.schema}: this schedlab reads schema {SCHEMA_VERSION}",
            "write a new file with `schedlab init`, or use the schedlab that wrote it",
        )
    check_name(experiment.title, "title")
    for note in experiment.notes:
        check_name(note[:200], "note")
    if experiment.kind == "import":
        raise SpecError("imported runs cannot be measured again", "schedlab analyse DIR")
    if not 0 < experiment.margin < 1:
        raise SpecError(f"margin = {experiment.margin}: not between 0 and 1", "margin = 0.02")
    if not 0 <= experiment.seed < 2**64:
        raise SpecError(f"seed = {experiment.seed}: not a 64-bit number", "seed = 1")


def _check_labels(what: str, labels: list[str]) -> None:
    if not labels:
        raise SpecError(f"there is no {what}", f"add a [[{what}s]] table")
    for label in labels:
        check_name(label, f"{what} label")
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise SpecError(f"two {what}s are labelled {twice[0]!r}", "give each a unique label")


def _check_statements(experiment: Experiment) -> None:
    """Statements speak of metrics, workloads and candidates that there are."""
    there = {
        "workload": [work.label for work in experiment.workloads],
        "candidate": [candidate.label for candidate in experiment.candidates],
    }
    for of in experiment.statements:
        metric_named(of.metric)
        named = {
            "workload": (*of.workloads, *of.over_workloads, *filter(None, (of.at,))),
            "candidate": (*of.candidates, *filter(None, (of.over,))),
        }
        for what, labels in named.items():
            for label in labels:
                if label not in there[what]:
                    raise SpecError(
                        f"statement {of.says!r}: {what} {label!r} is not in the experiment",
                        nearest(label, there[what]),
                    )
        lengths = {len(of.workloads), len(of.over_workloads)} - {0, 1}
        if len(lengths) > 1:
            message = f"statement {of.says!r}: {len(of.workloads)} workloads over "
            message += f"{len(of.over_workloads)}"
            raise SpecError(message, "as many of each, or one")


def _check_stopping(experiment: Experiment) -> None:
    stopping = experiment.stopping
    if not 1 <= stopping.blocks <= BLOCKS_MAX:
        raise SpecError(
            f"stopping.blocks = {stopping.blocks}: not between 1 and {BLOCKS_MAX}",
            "stopping.blocks = 6",
        )
    if stopping.mode == "precision" and not 0 < stopping.precision < 1:
        raise SpecError(
            f"stopping.precision = {stopping.precision}: not between 0 and 1",
            "stopping.precision = 0.01",
        )
    if not 0 <= stopping.budget_s < math.inf:
        raise SpecError(f"stopping.budget_s = {stopping.budget_s}", "use a time, such as 90s")
    if not 1 <= stopping.sessions <= stopping.blocks:
        raise SpecError(
            f"stopping.sessions = {stopping.sessions}: not between 1 and the "
            f"{stopping.blocks} blocks that they share",
            "stopping.sessions = 1",
        )
    if stopping.sessions > 1 and stopping.mode != "fixed":
        raise SpecError(
            f"stopping.sessions = {stopping.sessions}: sessions repeat a fixed plan, and this one "
            f"is {stopping.mode!r}",
            "stopping.sessions = 1",
        )
    if stopping.may_extend < 0:
        raise SpecError(
            f"stopping.may_extend = {stopping.may_extend}: not a number of blocks",
            "stopping.may_extend = 0",
        )


def _typed_kinds(experiment: Experiment) -> dict[tuple[str, str], WorkloadKind]:
    """Every workload under every arm, typed and checked; metrics that the kind can give."""
    kinds: dict[tuple[str, str], WorkloadKind] = {}
    for number, workload in enumerate(experiment.workloads):
        where = f"workloads[{number}] ({workload.label})"
        for candidate in arms(experiment):
            _check_settings(candidate, experiment)
            kinds[workload.label, candidate.label] = kind = typed(workload, candidate, where)
        if kind.family != experiment.kind:
            raise SpecError(
                f"{where}: {workload.kind} belongs to experiments of kind {kind.family!r}",
                f"this one is of kind {experiment.kind!r}",
            )
        kind.check(where)
        for metric in (workload.metric, *workload.secondary):
            if metric not in kind.metrics and metric not in experiment.metrics:
                metric_named(metric)
                raise SpecError(
                    f"{where}: {workload.kind} does not measure {metric!r}",
                    nearest(metric, kind.metrics),
                )
        if not 0 <= workload.weight < math.inf:
            raise SpecError(f"{where}: weight = {workload.weight}", "weights are 0 or more")
    if experiment.kind == "cpu":
        check_candidates(experiment, kinds)
    _check_chosen(experiment)
    weights = [work.weight for work in experiment.workloads if not work.negative_control]
    if weights and not any(weights):
        raise SpecError("all workloads have the weight 0", "omit weight, or set one above 0")
    return kinds


def _check_chosen(experiment: Experiment) -> None:
    """Parameters of candidates are parameters, and some workload has the chosen values."""
    for work in experiment.workloads:
        for key, value in work.chosen.items():
            if work.parameter(key) is None:
                known = [*work.parameters]
                raise SpecError(
                    f"workload {work.label!r}: chosen {key} = {value}: it has no such parameter",
                    nearest(key, known) if known else f"parameters = {{ {key} = … }}",
                )
    if not any(work.is_chosen for work in experiment.workloads):
        work = experiment.workloads[0]
        key = next(key for key, value in work.chosen.items() if work.parameter(key) != value)
        raise SpecError(
            f"no workload is measured at the chosen {key} = {work.chosen[key]}",
            f"chosen = {{ {key} = {work.parameter(key)} }}",
        )


def _check_settings(candidate: Candidate, experiment: Experiment) -> None:
    """Names of settings are those that the resolver knows; nothing else may become a path."""
    for key, value in candidate.settings.items():
        name = key.removeprefix(OVERRIDE)
        if not NAME.fullmatch(name) or (experiment.kind == "io" and name == key):
            try:
                family_of(name)
            except SpecError as error:
                raise SpecError(f"candidate {candidate.label!r}: {error}", error.hint) from error
        if isinstance(value, str):
            check_name(value, f"candidate {candidate.label!r}: {key}")
    needs_scheduler = experiment.kind == "io" and experiment.target.kind != "directory"
    if needs_scheduler and "scheduler" not in candidate.settings:
        name = candidate.label.split(":")[0]
        raise SpecError(
            f"candidate {candidate.label!r} names no scheduler",
            f'settings = {{ scheduler = "{name}" }}, or "as-is"',
        )


def _check_trust(admitted: Admitted) -> None:
    """Refuse the programs, devices and queues of a file from elsewhere without a yes."""
    if admitted.permission.trust:
        return
    target = admitted.experiment.target
    requests = [f"run {line}" for line in admitted.programs]
    if target.kind == "device":
        requests.append(f"work on the device {target.path}")
    requests += [
        f"set {name} of the machine" if is_beyond(name) else f"switch the scheduler of {name}"
        for name in target.switch
        if name not in admitted.permission.switch
    ]
    if requests:
        raise SpecError(
            f"this experiment wants to {_listing(requests)}",
            "read it, then add --trust to allow this",
        )


def _listing(parts: Iterable[str]) -> str:
    words = list(parts)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
