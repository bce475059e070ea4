"""Typed options as the project's nouns: place, permission, load, own work, design, experiment.

Every function takes the options of a command as a mapping from their names to parsed values, and
knows no terminal; notes for the user go to `report`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from schedlab.app.compare import comparison as io_comparison
from schedlab.app.compare import cpu_comparison, own_work, recorded_work
from schedlab.app.compare.comparison import Load, Place, families_of, stopping_of
from schedlab.app.compare.cpu_comparison import USUAL_WORKLOADS, WORKLOADS
from schedlab.app.compare.own_work import OwnWork, usual_user
from schedlab.app.compare.requirements import with_requirements, with_shares
from schedlab.app.setting_checks import check_switch
from schedlab.design.io_families import FAMILIES, family_named
from schedlab.errors import SpecError
from schedlab.host.safety.consent import consent_to
from schedlab.host.settings.settings import is_beyond
from schedlab.kinds.command import Command
from schedlab.nouns import Experiment, Objective, Stopping
from schedlab.run.admitted import Permission

Typed = Mapping[str, Any]
# What says where, and how it is shown; all else is in the folder that is resumed.
_WITH_RESUME = {
    "--resume", "--dry-run", "--json", "--trust", "--device", "--destroy-data",
    "--allow-unknown-data", "--read-only", "--dask",
}  # fmt: skip
_GOAL: Objective = "throughput"
_EXTENDING = {"--blocks", "--budget"}
Report = Callable[[str], None]
# What an option may work with beside other options and families of workloads.
_COMMAND, _BUILT_IN, _WINDOW = "a COMMAND", "built-in workloads", "a window"
_TRACE, _RUNS = "a recorded load", "whole runs"
# Options as typed, each with what it works with (`cli/sections.py`).
Named = Mapping[str, Sequence[str]]


def place_of(typed: Typed) -> Place:
    """The target options, which have the names of the fields."""
    return Place(**_fields(Place, typed))


def load_of(typed: Typed) -> Load:
    """The built-in work, in the same way."""
    return Load(**_fields(Load, typed))


def _fields(noun: type[Any], typed: Typed) -> dict[str, Any]:
    """The typed options that are fields of a noun."""
    names = [field.name for field in dataclasses.fields(noun)]
    return {name: typed[name] for name in names if typed.get(name) is not None}


def permission_of(place: Place) -> Permission:
    """The consent of the target options; holds the device of --destroy-data from now on."""
    over, device = place.allow_unknown_data, place.destroy_data
    return permission(device, trust=True, in_use=place.read_only, allow_unknown_data=over)


def permission(
    destroy_data: str | Path | None,
    *,
    trust: bool,
    in_use: bool = False,
    allow_unknown_data: bool = False,
    switch: tuple[str, ...] = (),
) -> Permission:
    """Consent to writes on the device that was named, if one was, and what else is allowed."""
    consents = (
        (consent_to(destroy_data, allow_unknown_data=allow_unknown_data),) if destroy_data else ()
    )
    return Permission(consents, trust, in_use=in_use, switch=switch)


def own_work_of(command: tuple[str, ...], typed: Typed, report: Report) -> OwnWork | None:
    """The command (or fio job) with its options, which have the names of the kind's parameters;
    None when there is none."""
    taken = {name: typed.get(name) for name in Command.__struct_fields__}
    parameters = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in taken.items()
        if value not in (None, False, ())
    }
    if typed.get("unconfined"):
        if "confine" in parameters:
            raise SpecError("--confine and --unconfined contradict each other", "omit one of them")
        parameters["confine"] = "nothing"
    job_file = typed.get("job_file")
    if not command and not job_file:
        if parameters or typed["metrics"] or typed["is_line"]:
            raise SpecError(
                "there is no command to which these options belong",
                "write it last: schedlab compare … -- COMMAND ARG…",
            )
        return None
    if typed["environment"]:
        pairs = (text.partition("=") for text in typed["environment"])
        parameters["environment"] = {
            name: value if equals else os.environ.get(name, "") for name, equals, value in pairs
        }
    if "user" not in parameters and (user := usual_user()):
        parameters["user"] = user
        report(f"the command runs as {user} (--user root overrides)")
    metrics = typed["metrics"]
    return OwnWork(command, typed["is_line"], str(job_file or ""), metrics, parameters=parameters)


def design_of(typed: Typed, usual_goal: str) -> dict[str, Any]:
    """Blocks and the rest of the design, without candidates."""
    stopping = stopping_of(
        blocks=typed["blocks"],
        budget_s=typed["budget"],
        until_decided=typed["until_decided"],
        precision=typed["precision"],
        may_extend=typed["may_extend"],
        quick=typed["quick"],
        sessions=typed["sessions"],
    )
    goal = typed["goal"] or usual_goal
    how = {"margin": typed["margin"], "seed": typed["seed"], "objective": goal}
    return {**how, "stopping": stopping, "aa_arm": typed["aa"]}


def comparison(place: Place, command: tuple[str, ...], typed: Typed, report: Report) -> Experiment:
    """I/O schedulers under the built-in work, or under a command of the user's."""
    named = {key: typed[key] for key in ("schedulers", "labels", "candidates")}
    design = {**design_of(typed, "throughput"), **named}
    experiment = _io_comparison(place, command, typed, report, design)
    check_switch(experiment)
    return _wished(dataclasses.replace(experiment, explain=typed["explain"]), typed)


def _wished(experiment: Experiment, typed: Typed) -> Experiment:
    """The experiment with its shares and requirements; file tests are one mix."""
    shares = typed["share"] or ("equal" if typed.get("tests") else None)
    return with_requirements(with_shares(experiment, shares), typed["require"])


def tuned_work(
    place: Place, command: tuple[str, ...], typed: Typed, report: Report
) -> Callable[[str], Experiment]:
    """The experiment of a search, given the name of the scheduler that is the kernel's default."""
    usual = {"margin": typed["margin"], "seed": typed["seed"], "objective": typed["goal"]}
    design = {**usual, "stopping": Stopping(blocks=1), "aa_arm": False}

    def make(scheduler: str) -> Experiment:
        return _io_comparison(place, command, typed, report, {**design, "schedulers": scheduler})

    return make


def _io_comparison(
    place: Place,
    command: tuple[str, ...],
    typed: Typed,
    report: Report,
    design: dict[str, Any],
) -> Experiment:
    trace = typed.get("trace")
    work = own_work_of(command, {**typed, "metrics": ()} if trace else typed, report)
    if trace:
        if work or typed["workloads"] or typed["tests"]:
            raise SpecError(
                "--trace cannot be used with --workloads, --tests, --fio or a COMMAND",
                "write both into an experiment file",
            )
        return own_work.comparison_of(place, recorded_work.workload_of(place, typed), **design)
    if work is None:
        families = typed["workloads"]
        return io_comparison.comparison(place, load_of(typed), families=families, **design)
    if typed["workloads"] or typed["tests"]:
        raise SpecError(
            "--workloads and --tests cannot be used with a COMMAND",
            "write both into an experiment file",
        )
    return own_work.comparison_of(place, work, **design)


def policy_comparison(command: tuple[str, ...], typed: Typed, report: Report) -> Experiment:
    """CPU policies under built-in work, or under a command of the user's."""
    load = cpu_comparison.CpuLoad(
        workloads=typed["workloads"] or (),
        work=own_work_of(command, typed, report),
        load=typed["load"],
        cpus=typed["cpus"],
        seconds=typed["seconds"],
        directory=typed["directory"] or "",
    )
    experiment = cpu_comparison.policy_comparison(
        load,
        policies=typed["policies"],
        candidates=typed["candidates"],
        switch=typed["switch"] or (),
        apply_to=typed["apply_to"],
        **design_of(typed, "latency"),
    )
    check_switch(experiment)
    return _wished(dataclasses.replace(experiment, explain=typed["explain"]), typed)


def check_resumed(options: Iterable[str], extends: bool = True) -> None:
    """SpecError for options and arguments that a resumed experiment would not heed; only some
    commands extend it."""
    if idle := sorted(set(options) - _WITH_RESUME - (_EXTENDING if extends else set())):
        use = "with --resume use --blocks or --budget, or " if extends else ""
        raise SpecError(
            f"{', '.join(idle)} would change nothing: a resumed experiment keeps its own",
            f"{use}start a new experiment without --resume",
        )


def check_target(options: Named, usual: str = "--scratch") -> None:
    """SpecError for target options that the target does not heed; `usual` is used if none is."""
    named = {"--scratch", "--device", "--directory", "--model"}.intersection(options) or {usual}
    if named == {"--scratch"} and "--size" in options:
        raise SpecError("--size would change nothing on a temporary device", "use --scratch SIZE")
    if "--model" in named:
        named.discard("--scratch")  # the size of the emulated device
    present = named | {"--destroy-data"}.intersection(options)
    of_target = {name: needs for name, needs in options.items() if _is_about_target(needs)}
    check_heeded(of_target, present, "on this target")


def check_work(options: Named, command: Sequence[str], typed: Typed) -> None:
    """SpecError for options that neither the target nor the work of I/O heeds."""
    if all(map(is_beyond, typed["switch"] or ())):  # no queue below a directory
        options = {name: needs for name, needs in options.items() if name != "--switch"}
    check_target(options)
    if typed.get("trace"):
        of_work = {name: needs for name, needs in options.items() if not _is_about_target(needs)}
        check_heeded(of_work, {_TRACE, _WINDOW, _BUILT_IN}, "with a trace")
        return
    is_own = bool(command or typed["job_file"])
    families = [] if is_own else families_of(typed["workloads"], typed["tests"])
    load = Load(tests=("read",), seconds=9.0)
    named = {name: family_named(name)(load, _GOAL) for name in (*FAMILIES, *families)}
    timed = [n for n, works in named.items() if any("seconds" in w.parameters for w in works)]
    _check_work(options, families, timed)


def check_policy_work(options: Named, command: Sequence[str], typed: Typed) -> None:
    """SpecError for options that the work of a comparison of CPU policies does not heed."""
    if "--trust" in options:
        check_heeded({"--trust": options["--trust"]}, set())
    timed = [name for name, kind in WORKLOADS.items() if not kind.is_finite]
    _check_work(options, () if command else typed["workloads"] or USUAL_WORKLOADS, timed)


def _check_work(options: Named, workloads: Sequence[str], timed: Sequence[str]) -> None:
    """The same for built-in workloads, of which the `timed` ones have a window; without any the
    work is a COMMAND."""
    of_work = {
        name: timed if _WINDOW in needs else needs
        for name, needs in options.items()
        if not _is_about_target(needs)
    }
    present = {*workloads, _BUILT_IN} if workloads else {_COMMAND}
    check_heeded(of_work, present, "with these workloads" if workloads else "with a COMMAND")


def _is_about_target(needs: Sequence[str]) -> bool:
    return any(word.startswith("--") for word in needs)


def check_heeded(options: Named, present: Set[str], where: str = "here") -> None:
    """SpecError for the first option that needs one of several words, of which none is present."""
    for option, needs in options.items():
        if needs and present.isdisjoint(needs):
            *others, last = needs
            words = f"{', '.join(others)} or {last}" if others else last
            is_plain = _is_about_target(needs) or last in (_COMMAND, _BUILT_IN, _TRACE, _RUNS)
            raise SpecError(
                f"{option} would change nothing {where}",
                f"omit it; it works only with {'' if is_plain else '--workloads '}{words}",
            )
