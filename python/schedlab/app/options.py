"""What was typed, as the project's nouns: place, permission, load, own work, design, experiment.

Every function takes the options of a command as a mapping from their names to parsed values, and
knows no terminal; notes for the user go to `report`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from schedlab.app import comparison as io_comparison
from schedlab.app import cpu_comparison, own_work
from schedlab.app.comparison import Load, Place, stopping_of
from schedlab.app.own_work import OwnWork, usual_user
from schedlab.app.setting_checks import check_switch
from schedlab.app.wishes import with_requirements, with_shares
from schedlab.errors import SpecError
from schedlab.host.consent import consent_to
from schedlab.host.settings import is_beyond
from schedlab.run.admitted import Permission
from schedlab.spec import Experiment, Stopping

Typed = Mapping[str, Any]
# What says where, and how it is shown; all else is in the folder that is resumed.
_WITH_RESUME = {
    "--resume", "--dry-run", "--json", "--trust", "--device", "--destroy-data",
    "--allow-unknown-data", "--read-only",
}  # fmt: skip
_EXTENDING = {"--blocks", "--budget"}
Report = Callable[[str], None]
# option -> the target options of which one must be there, or it changes nothing
_TARGETS = {
    "--size": ("--directory", "--model"), "--switch": ("--directory",),
    "--fs": ("--scratch", "--model"), "--rotational": ("--scratch", "--model", "--device"),
    "--scratch-directory": ("--scratch",), "--read-only": ("--device",),
    "--destroy-data": ("--device",), "--allow-unknown-data": ("--destroy-data",),
}  # fmt: skip
# option -> the families of workloads that use it
_FAMILIES = {
    **dict.fromkeys(
        ("--tests", "--records", "--depth", "--workers", "--buffered"), ("file-tests",)
    ),
    **dict.fromkeys(("--archive", "--archive-size", "--decompressor"), ("extraction",)),
    "--program": ("startup",),
    "--seconds": ("steady-reader", "readers", "random-reads", "database", "one-process", "weights",
                  "cached-reads", "file-tests", "timings"),
}  # fmt: skip
_COMMAND, _BUILT_IN = "a COMMAND", "built-in workloads"
_WORK = {"--explain": (_BUILT_IN,), "--rehearse": (_COMMAND,), "--directory": (_COMMAND,)}
# option -> parameter of a command's kind
_PARAMETERS = {
    "setup": "setup", "cleanup": "cleanup", "prepare": "prepare_run", "conclude": "conclude_run",
    "timeout": "timeout_s", "clear_env": "clear_environment", "ignore_exit": "ignore_exit",
    "keep_daemons": "keep_daemons", "output_limit": "output_limit_bytes", "cache": "cache",
    "sync": "sync", "settle": "settle_s", "fresh": "fresh", "anyway": "anyway",
    "warm_up": "warm_up", "servers": "servers",
}  # fmt: skip


def place_of(typed: Typed) -> Place:
    """The target options."""

    def text(value: object) -> str | None:
        return None if value is None else str(value)

    return Place(
        scratch_bytes=typed["scratch"],
        scratch_directory=str(typed["scratch_directory"]),
        device=text(typed["device"]),
        destroy_data=text(typed["destroy_data"]),
        read_only=typed["read_only"],
        allow_unknown_data=typed["allow_unknown_data"],
        directory=text(typed["directory"]),
        size_bytes=typed["size"] or 0,
        switch=tuple(filter(None, (typed.get("switch") or "").split(","))),
        model=typed["model"],
        queue_depth=typed["queue_depth"] or 0,
        dilate=typed["dilate"],
        rotational=typed["rotational"] or "",
        filesystem=typed["fs"] or "",
    )


def permission_of(place: Place) -> Permission:
    """What the target options agree to; holds the device of --destroy-data from now on."""
    over, device = place.allow_unknown_data, place.destroy_data
    return permission(device, trust=True, in_use=place.read_only, allow_unknown_data=over)


def permission(
    destroy_data: str | Path | None,
    *,
    trust: bool,
    in_use: bool = False,
    allow_unknown_data: bool = False,
) -> Permission:
    """Consent to writes on the device that was named, if one was, and what else is allowed."""
    consents = (
        (consent_to(destroy_data, allow_unknown_data=allow_unknown_data),) if destroy_data else ()
    )
    return Permission(consents, trust, in_use=in_use)


def own_work_of(command: tuple[str, ...], typed: Typed, report: Report) -> OwnWork | None:
    """The command (or fio job) with its options; None when there is none."""
    taken = {name: typed.get(key) for key, name in _PARAMETERS.items()}
    parameters = {name: value for name, value in taken.items() if value not in (None, False, ())}
    environment, ok_exit, user = typed["environment"], typed["ok_exit"], typed["user"]
    files = {key: typed[key] for key in ("stdin", "copy_in") if typed.get(key)}
    job_file = typed.get("job_file")
    if not command and not job_file:
        confined = [typed.get(name) for name in ("confine", "unconfined", "writable")]
        values = (parameters, typed["metrics"], environment, ok_exit, files, typed["shell"], user)
        if any((*values, *confined)):
            raise SpecError(
                "there is no command to which these options belong",
                "write it last: schedlab compare … -- COMMAND ARG…",
            )
        return None
    if environment:
        pairs = (text.partition("=") for text in environment)
        parameters["environment"] = {
            name: value if equals else os.environ.get(name, "") for name, equals, value in pairs
        }
    if ok_exit:
        parameters["ok_exit"] = list(ok_exit)
    if user or usual_user():
        parameters["user"] = user or usual_user()
        if not user:
            report(f"the command runs as {parameters['user']} (--user root overrides)")
    parameters |= {key: str(path.resolve()) for key, path in files.items()}
    parameters |= _confinement(typed)
    return OwnWork(
        command, typed["shell"], str(job_file or ""), typed["metrics"], parameters=parameters
    )


def _confinement(typed: Typed) -> dict[str, object]:
    """What the kernel shall keep a command from."""
    files, nothing = typed.get("confine"), typed.get("unconfined")
    if files and nothing:
        raise SpecError("--confine and --unconfined contradict each other", "omit one of them")
    chosen: dict[str, object] = {}
    if files or nothing:
        chosen["confine"] = "files" if files else "nothing"
    if typed.get("writable"):
        chosen["writable"] = [str(path.resolve()) for path in typed["writable"]]
    return chosen


def load_of(typed: Typed) -> Load:
    """The built-in work."""
    archive = typed["archive"]
    return Load(
        tests=typed["tests"],
        record_bytes=typed["records"] or (65536,),
        seconds=typed["seconds"] or 0.0,
        depth=typed["depth"],
        workers=typed["workers"],
        direct=not typed["buffered"],
        archive=str(archive.resolve()) if archive else "",
        archive_bytes=typed["archive_size"],
        decompressor=typed["decompressor"],
        timing_seconds=typed["seconds"],
        program=typed["program"] or "",
    )


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
    how = {"margin": typed["margin"], "seed": typed["seed"], "goal": typed["goal"] or usual_goal}
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
    usual = {"margin": typed["margin"], "seed": typed["seed"], "goal": typed["goal"]}
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
    work = own_work_of(command, typed, report)
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
    directory = typed["directory"]
    load = cpu_comparison.CpuLoad(
        workloads=typed["workloads"] or (),
        work=own_work_of(command, typed, report),
        load=typed["load"],
        cpus=typed["cpus"],
        seconds=typed["seconds"],
        directory=str(directory.resolve()) if directory else "",
    )
    experiment = cpu_comparison.policy_comparison(
        load,
        policies=typed["policies"],
        candidates=typed["candidates"],
        switch=tuple(filter(None, (typed.get("switch") or "").split(","))),
        apply_to=typed["apply_to"],
        **design_of(typed, "latency"),
    )
    check_switch(experiment)
    return _wished(dataclasses.replace(experiment, explain=typed["explain"]), typed)


def check_resumed(options: Sequence[str], extends: bool = True) -> None:
    """SpecError for options and arguments that a resumed experiment would not heed; only some
    commands extend it."""
    if idle := sorted(set(options) - _WITH_RESUME - (_EXTENDING if extends else set())):
        use = "with --resume use --blocks or --budget, or " if extends else ""
        raise SpecError(
            f"{', '.join(idle)} would change nothing: a resumed experiment keeps its own",
            f"{use}start a new experiment without --resume",
        )


def check_target(options: Sequence[str], usual: str = "--scratch") -> None:
    """SpecError for target options that the target does not heed; `usual` is used if none is."""
    named = {"--scratch", "--device", "--directory", "--model"}.intersection(options) or {usual}
    if named == {"--scratch"} and "--size" in options:
        raise SpecError("--size would change nothing on a temporary device", "use --scratch SIZE")
    if "--model" in named:
        named.discard("--scratch")  # the size of the emulated device
    present = named | {"--destroy-data"}.intersection(options)
    _check_heeded(options, _TARGETS, present, "on this target")


def check_work(options: Sequence[str], command: Sequence[str], typed: Typed) -> None:
    """SpecError for options that neither the target nor the work of I/O heeds."""
    if all(map(is_beyond, (typed.get("switch") or "").split(","))):
        options = [name for name in options if name != "--switch"]  # no queue below a directory
    check_target(options)
    if command or typed["job_file"]:
        families, with_what = set[str](), "with a COMMAND"
    else:
        families = {*io_comparison.families_of(typed["workloads"], typed["tests"])}
        with_what = "with these workloads"
    _check_heeded(options, _FAMILIES, families, with_what, "--workloads ")
    own = {name: _WORK[name] for name in ("--explain", "--rehearse")}
    _check_heeded(options, own, {_BUILT_IN if families else _COMMAND}, with_what)


def check_policy_work(options: Sequence[str], command: Sequence[str], typed: Typed) -> None:
    """SpecError for options that the work of a comparison of CPU policies does not heed."""
    workloads = () if command else typed["workloads"] or cpu_comparison.USUAL_WORKLOADS
    with_what = "with these workloads" if workloads else "with a COMMAND"
    timed = {"--seconds": cpu_comparison.TIMED_WORKLOADS}
    _check_heeded(options, timed, set(workloads), with_what, "--workloads ")
    _check_heeded(options, _WORK, {_BUILT_IN if workloads else _COMMAND}, with_what)


def _check_heeded(
    options: Sequence[str],
    needs: Mapping[str, Sequence[str]],
    present: Set[str],
    where: str,
    before: str = "",
) -> None:
    """SpecError for the first option that needs one of several words, of which none is present."""
    for option in options:
        if option in needs and present.isdisjoint(needs[option]):
            *others, last = needs[option]
            words = f"{', '.join(others)} or {last}" if others else last
            raise SpecError(
                f"{option} would change nothing {where}",
                f"omit it; it works only with {before}{words}",
            )
