"""The next step: one command that works as printed, with what it would show."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from schedlab.nouns import Experiment
from schedlab.report import sentences
from schedlab.report.replays import recorded_device
from schedlab.report.view import View


@dataclass(frozen=True)
class Step:
    """A command with a remark; or only a remark where there is nothing to run."""

    command: str
    remark: str


def next_step(view: View) -> Step:
    """The rest of the plan where a candidate or a workload has no run, more blocks while the answer
    is open, or the removal of what contradicts it; else the same on one's own device, or `apply`;
    where there is nothing to run, what is missing or to be chosen.
    """
    answer, texts, kind = view.answer, view.texts, view.experiment.kind
    is_open = answer.code in ("keep", "for-now", "unbounded", "trade-open", "one-run")
    is_open = is_open or bool(answer.requirements and answer.open_requirements)
    if any(not of.runs for of in answer.unfit) and (left := _rest(view)):
        return left
    if answer.code == "nothing":
        missing = "one_candidate" if len(view.names) == 1 else "no_values"
        return Step("", texts(f"next.{'guarantees' if answer.guarantees else missing}"))
    if answer.code == "doubt":
        return _without_doubt(view)
    if answer.used == "hosts":
        return _of_fleet(view) or _rest_of(view)
    if view.record.is_of_boots:
        return (_more_boots(view) if is_open else None) or _rest_of(view)
    if is_open and (step := _more(view)):
        return step
    settings = [setting_of(view.experiment, name) for name in view.names]
    if (device := recorded_device(view)) and all(settings) and kind == "io":
        command = shlex.join(["schedlab", "live", device, "--schedulers", ",".join(settings)])
        return Step(command, texts("next.live"))
    if view.experiment.target.kind in ("scratch", "emulated") and kind == "io":
        return Step(_on_own_device(view), texts("next.own_device"))
    return (_apply(view) if answer.applies and kind == "io" else None) or _rest_of(view)


def _rest_of(view: View) -> Step:
    """The step where no command helps: a choice, or nothing to change."""
    answer, texts = view.answer, view.texts
    if answer.costs_more:
        price = view.title_of(answer.row(answer.prices[0].row))
        of = answer.base_loss.row if answer.base_loss else next(iter(answer.counted), "")
        gain = view.title_of(answer.row(of)) if of else ""
        about = {"name": answer.take, "base": answer.base, "gain": gain, "price": price}
        return Step("", texts("next.choice", **about))
    if answer.code == "trade-open":
        return Step("", texts("next.choice_open"))
    if answer.code in ("keep", "for-now", "unbounded", "one-run"):
        enough = "enough" if len(answer.counted) > 1 else "enough_one"
        return Step("", texts(f"next.{enough if answer.units > 1 else 'more_runs'}"))
    return Step("", texts("next.settled" if answer.keeps else "next.done", name=answer.take))


def _without_doubt(view: View) -> Step:
    """How to remove what contradicts the answer."""
    kind, texts = view.answer.doubt[0].kind, view.texts
    cause = {"control": "control", "aa": "control", "halves": "halves", "carry-over": "carry-over"}
    remark = texts(f"next.doubt_{cause.get(kind, 'time')}")
    if view.experiment.kind == "import" or view.record.is_of_boots or not view.folder:
        return Step("", _capital(f"{remark}."))
    return _again(view, remark)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _folder(view: View) -> str:
    """The result's folder as a word of a command."""
    return shlex.quote(str(view.folder)) if view.folder else "DIR"


def _again(view: View, remark: str) -> Step:
    """The experiment again; in virtual time in other boots, for the same one repeats its runs."""
    if not view.virtual:
        return Step(_reproduce(view), remark)
    if view.experiment.stopping.mode != "fixed":
        return Step("", _capital(f"{remark}."))
    boots = max(BOOTS_FEWEST, view.experiment.stopping.sessions + 1)
    return Step(f"{_in_virtual_time(view)} --sessions {boots}", remark)


def _in_virtual_time(view: View) -> str:
    kernel = shlex.quote(str(view.virtual.get("kernel")))
    return f"schedlab run {_folder(view)} --kernel {kernel}"


def _reproduce(view: View) -> str:
    target = view.experiment.target
    asks = target.kind == "device" or target.switch or _has_programs(view.experiment)
    return f"schedlab reproduce {_folder(view)}{' --trust' if asks else ''}"


def _has_programs(experiment: Experiment) -> bool:
    """Whether it runs or unpacks what is not of schedlab, which a file may do with --trust only."""
    own = any(work.parameters.get(key) for work in experiment.workloads for key in PROGRAMS)
    return own or any("run" in candidate.settings for candidate in experiment.candidates)


def _of_fleet(view: View) -> Step | None:
    """`fleet apply` where machines of some kind have an answer; else what more would bring."""
    folder = _folder(view)
    if any(answer.applies for answer in (view.answer, *(of.answer for of in view.answer.kinds))):
        command = f"schedlab fleet apply {folder} --inventory INVENTORY --dry-run"
        return Step(command, view.texts("next.apply"))
    remark = sentences.advice(view)
    return Step("", remark) if remark else None


def _on_own_device(view: View) -> str:
    """The same on the disk of this machine; where it has several, which one is to be filled in."""
    devices = view.record.host.get("devices") or {}
    disks = [name for name, facts in devices.items() if not facts.get("backing_file")]
    place = (
        f"--directory . --switch {disks[0]}" if len(disks) == 1 else "--directory DIR --switch sdX"
    )
    trust = " --trust" if _has_programs(view.experiment) else ""
    return f"schedlab run {_folder(view)} {place}{trust}"


def _more(view: View) -> Step | None:
    """The command that adds what the advice asks for to this experiment, or first what is left.

    Without advice the first few blocks help; later ones would not bring the bound down much.
    """
    answer, texts = view.answer, view.texts
    if left := _rest(view):
        return left
    if answer.advice is None and answer.wild and view.folder and view.experiment.kind != "import":
        return _again(view, texts("next.wild"))
    if answer.advice is None and (answer.units >= BLOCKS_ENOUGH or not answer.counted):
        return None
    remark = sentences.advice(view) or _why_more(view)
    if answer.open_requirements and answer.code not in ("keep", "for-now", "trade-open"):
        remark = texts("next.required")
    folder = _folder(view)
    kind, stopping = view.experiment.kind, view.experiment.stopping
    if kind == "import":
        return Step("", remark if answer.advice else texts("next.import_more"))
    if view.virtual and stopping.sessions > 1:
        boots = stopping.sessions + (answer.advice.blocks if answer.advice else 1)
        return Step("", texts("next.sessions", count=boots))
    if kind != "sim" and answer.used == "sessions":
        if max(view.record.plan.ends or (0,)) > view.record.plan.blocks:
            remark = texts("next.planned")  # of `merge --of`
        return Step(_reproduce(view), remark)
    more = answer.advice.blocks if answer.advice else max(1, BLOCKS_ENOUGH - answer.blocks)
    # Blocks whose runs are not in the figures are done, too.
    blocks = max((answer.blocks, *(run.block + 1 for run in view.record.runs))) + more
    if view.virtual:  # A boot of its own: nothing is left of the one that made the folder.
        return Step(f"{_in_virtual_time(view)} --blocks {blocks}", remark)
    if stopping.mode != "fixed" and blocks > stopping.blocks:  # The most that was announced.
        return Step(f"schedlab run {folder} --blocks {blocks}", remark)
    command = f"schedlab {view.experiment.resumed_by} --resume {folder}"
    if stopping.mode != "fixed":  # It goes on until it is decided.
        return Step(command, remark)
    return Step(f"{command} --blocks {blocks}", remark)


def _why_more(view: View) -> str:
    """The purpose of more runs."""
    return view.texts("next.more" if view.answer.bound is None else "next.narrower")


def _more_boots(view: View) -> Step | None:
    """The command that adds boots of each kind to the plan; three are the fewest with a bound."""
    done, advice = view.experiment.stopping.sessions, view.answer.advice
    if advice is None and done >= BLOCKS_ENOUGH:
        return None
    boots = done + advice.blocks if advice else max(BOOTS_FEWEST, done + 1)
    if view.virtual:
        return Step("", view.texts("next.sessions", count=boots))
    folder = shlex.quote(str(view.folder.parent)) if view.folder else "DIR"
    remark = sentences.advice(view) or _why_more(view)
    return Step(f"schedlab boots next {folder} --boots {boots}", remark)


def _rest(view: View) -> Step | None:
    """The command for the runs of the plan that were not made: their end was announced."""
    experiment, record = view.experiment, view.record
    made = {*(run.key for run in record.analysed_runs), *record.missing_cells}
    left = sum(cell.key not in made for cell in record.plan.cells)
    if not left or experiment.stopping.mode != "fixed" or experiment.kind == "import":
        return None
    folder = _folder(view)
    runs = view.texts.counted("scope.runs", left)
    command = f"schedlab {experiment.resumed_by} --resume {folder}"
    return Step(command, view.texts("next.rest", runs=runs))


# Parameters of workloads that name a program, a job or an archive of the user.
PROGRAMS = ("argv", "shell", "job_file", "archive", "program", "command")
# From so many blocks on a bound is useful.
BLOCKS_ENOUGH = 6
BOOTS_FEWEST = 3


def _apply(view: View) -> Step | None:
    """How to use what is taken, where that is a setting of a device of this machine."""
    target = view.experiment.target
    devices = [target.path] if target.kind == "device" else list(target.switch)
    setting = setting_of(view.experiment, view.answer.take)
    if not devices or not setting:
        return None
    return Step(shlex.join(["schedlab", "apply", setting, *devices]), view.texts("next.apply"))


def setting_of(experiment: Experiment, label: str) -> str:
    """A candidate as `apply` takes it; empty where it is no setting of a device."""
    known = next((c for c in experiment.candidates if c.label == label), None)
    settings = dict(known.settings) if known else {}
    if not settings or any("." in key for key in settings):  # such as workload.mode
        return ""
    name = str(settings.pop("scheduler", label))
    tunables = ",".join(f"{key}={value}" for key, value in settings.items())
    return f"{name}:{tunables}" if tunables else name
