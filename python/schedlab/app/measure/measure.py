"""Measure an admitted experiment: create its folder, run, resume, extend.

    result = schedlab.run(experiment)          # or schedlab.run("experiment.toml")
    print(result.text())

Everything that changes the host does so under `host.control`, which restores it.
"""

from __future__ import annotations

import math
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.app.admit import admit, require_unchanged
from schedlab.app.measure import budget
from schedlab.design.plan import make_plan
from schedlab.design.planning import BLOCKS_WANTED
from schedlab.errors import HostError, Interrupted, SpecError
from schedlab.host.safety import origin
from schedlab.kinds.live_load import LiveLoad
from schedlab.nouns import Cell, Experiment, Plan, Planning
from schedlab.nouns.quantities import duration_text
from schedlab.nouns.results import kernel_release
from schedlab.package import offered
from schedlab.run.admitted import Admitted, Permission
from schedlab.run.executor import Executor, Progress, Rules
from schedlab.store.files import write_atomic
from schedlab.store.folder import Folder

if TYPE_CHECKING:
    from schedlab.analyse.decide import Decision
    from schedlab.app.preview import Preview
    from schedlab.result import Result
    from schedlab.run.live.live import Second
    from schedlab.run.session import Session


@dataclass(frozen=True)
class Observer:
    """Callbacks between runs: `watch` gets the progress, `report` messages for the user.

    `see` gets every second of a live load.
    """

    watch: Callable[[Progress], None] = lambda progress: None
    report: Callable[[str], None] = lambda text: None
    see: Callable[[Second], None] = lambda second: None


SILENT = Observer()
#: Files are laid out twice where that takes at most so much of the time, and from so many blocks.
LAYOUT_SHARE, LAYOUT_BLOCKS = 0.2, 4


def default_folder(name: str) -> Path:
    """`results/DATE-NAME`, not yet there."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    tries = [stem, *(f"{stem}-{n}" for n in range(2, 100))]
    return next(p for each in tries if not (p := Path("results") / each).exists())


def create(
    admitted: Admitted, path: Path, plan: Plan | None = None, planning: Planning | None = None
) -> Folder:
    """The result folder with plan, host facts and reproduce.sh, before the first run.

    Without `plan` and the `planning` that led to it, they are made for the experiment.
    """
    from schedlab.host.facts import collect
    from schedlab.report.reproduce import script

    experiment = admitted.experiment
    if plan is None:
        is_pilot = experiment.stopping.budget_s > 0
        plan = budget.pilot_plan(experiment) if is_pilot else make_plan(experiment)
    folder = Folder.create(path, experiment, plan, collect(), planning, origin.seal_of)
    write_atomic(path / "reproduce.sh", script(folder.record()))
    return folder


def run(
    experiment: Experiment | str | Path,
    out: str | Path | None = None,
    *,
    permission: Permission | None = None,
    observer: Observer = SILENT,
    dask: str | None = None,
) -> Result:
    """Measure an experiment, or the file of one, in a new result folder.

    Simulations run on all cores, or on the cluster at `dask` (`tcp://HOST:PORT`, `local:N`).
    A file is not trusted: give `permission=Permission(trust=True)` for programs and devices that
    it names, and a `Consent` for a device whose data it may destroy. SpecError or HostError with
    what helps; Interrupted after Ctrl-C, with everything restored and the folder kept.
    """
    from schedlab.app.measure.files import read_experiment

    if isinstance(experiment, Experiment):
        name: str = experiment.kind
        admitted = admit(experiment, permission or Permission())
    else:
        name = Path(experiment).stem
        admitted = admit(read_experiment(Path(experiment)), permission)
    check_dask(admitted.experiment, dask)
    folder = create(admitted, Path(out) if out else default_folder(name))
    return measure(admitted, folder, observer=observer, dask=dask)


def check_dask(experiment: Experiment, dask: str | None) -> None:
    """SpecError for a cluster where nothing is simulated."""
    if dask and experiment.kind != "sim":
        message = f"--dask would change nothing: the work is {experiment.kind}, and not simulated"
        raise SpecError(message, "omit it")


def resume(
    path: str | Path,
    *,
    blocks: int | None = None,
    budget_s: float | None = None,
    permission: Permission | None = None,
    observer: Observer = SILENT,
    dask: str | None = None,
) -> Result:
    """Measure what is left of a folder; with `blocks` or `budget_s` extend a finished one.

    As `run` of a file: one that this user did not make here is not trusted.
    """
    folder = Folder.open(Path(path))
    admitted, more = admitted_rest(folder, blocks, budget_s, permission)
    check_dask(more.experiment, dask)
    check_resumable(folder, observer)
    budget.extend(folder, more)
    limit_s = 0.0 if blocks else budget_s
    return measure(admitted, folder, resumed=True, observer=observer, budget_s=limit_s, dask=dask)


def preview_of_rest(
    path: str | Path, *, blocks: int | None, budget_s: float | None, permission: Permission
) -> Preview:
    """A preview of `resume`; nothing is touched."""
    from schedlab.app.preview import preview

    folder = Folder.open(Path(path))
    admitted, more = admitted_rest(folder, blocks, budget_s, permission)
    record = folder.record()
    finished = {run.key for run in record.analysed_runs} | set(record.missing_cells)
    left = tuple(cell for cell in more.plan.cells if cell.key not in finished)
    return preview(admitted, replace(more.plan, cells=left))


def admitted_rest(
    folder: Folder, blocks: int | None, budget_s: float | None, permission: Permission | None
) -> tuple[Admitted, budget.Extended]:
    """The experiment of a folder to resume, and what it is extended by; nothing is touched."""
    check_kernel(folder)
    experiment, trusted = trusted_experiment(folder, permission or Permission(trust=False))
    more = budget.extended(folder, experiment, blocks, budget_s)
    return require_unchanged(admit(more.experiment, trusted)), more


def trusted_experiment(folder: Folder, permission: Permission) -> tuple[Experiment, Permission]:
    """The experiment of a folder, read once, and the permission for what its programs and devices
    were allowed when this user made it here. SpecError for one from elsewhere without trust.
    """
    experiment, text, seal = folder.sealed_experiment()
    origin.check(folder.path, origin.is_ours(text, seal), permission.trust)
    return experiment, replace(permission, trust=True)


def measure(
    admitted: Admitted,
    folder: Folder,
    *,
    resumed: bool = False,
    observer: Observer = SILENT,
    budget_s: float | None = None,
    dask: str | None = None,
) -> Result:
    """Run what is left of a folder's plan; a new folder goes when its first run cannot start.

    `budget_s` replaces the budget of the experiment; 0: no limit.
    """
    from schedlab.result import Result

    executor = Executor(admitted, folder, rules_of(folder, observer), budget_s=budget_s)
    if reason := executor.over():
        observer.report(f"nothing left to measure: {reason}")
        return Result(folder)
    try:
        reason = run_sessions(admitted, folder, executor, observer, dask)
    except (HostError, SpecError):
        if not resumed and not folder.runs():
            shutil.rmtree(folder.path)
        raise
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(
            "interrupted; all settings are restored, and all finished runs are kept",
            f"schedlab {admitted.experiment.resumed_by} --resume {folder.path}",
        ) from error
    observer.report(f"measured: {reason}")
    return Result(folder)


def run_sessions(
    admitted: Admitted,
    folder: Folder,
    executor: Executor,
    observer: Observer,
    dask: str | None = None,
) -> str:
    """Run the remaining cells, each session on its own target; why the last one ended.

    A single session lays its files out again after half of the blocks, where that is cheap: its
    units stay blocks, and what another layout changes is known.
    """
    several = admitted.experiment.stopping.sessions
    executor.parts = 2 if has_layouts(admitted, folder) else several
    reason = ""
    for number in range(executor.parts):
        if number < executor.parts - 1 and executor.next_block >= executor.session_end(number):
            continue
        executor.session_id = session_id()
        if several > 1:
            observer.report(f"session {number + 1} of {several}")
        elif number:
            observer.report("a new layout of the files, for the second half of the blocks")
        began = time.monotonic()
        with opened(admitted, observer, executor.left, dask) as session:
            prepared_s = time.monotonic() - began
            reason = executor.run(session, observer.watch, number)
            if executor.parts > several and number == 0 and not is_worth(executor, prepared_s):
                executor.parts = several
                reason = executor.run(session, observer.watch)
            is_last = number == executor.parts - 1 or bool(executor.over())
            if is_last:
                explain(admitted, folder, session, observer)
        if is_last:
            break
    return reason


def is_worth(executor: Executor, prepared_s: float) -> bool:
    """Whether the files are laid out again after the first half: where the budget has not ended
    before it, there are blocks enough, and preparing them takes little of the time.
    """
    is_half = executor.next_block >= executor.session_end(0)
    is_cheap = prepared_s <= LAYOUT_SHARE * 2 * executor.spent_s
    return is_half and is_cheap and len(executor.blocks) >= LAYOUT_BLOCKS


def has_layouts(admitted: Admitted, folder: Folder) -> bool:
    """Whether the files of a new experiment are ours, and can be laid out twice."""
    experiment = admitted.experiment
    return (
        experiment.kind == "io"
        and experiment.target.kind in ("scratch", "directory", "emulated")
        and experiment.stopping.mode == "fixed"
        and experiment.stopping.sessions == 1
        and not any(kind.brings_files for kind in admitted.kinds.values())
        and not folder.runs()
    )


def explain(admitted: Admitted, folder: Folder, session: Session, observer: Observer) -> None:
    """One run more per candidate, with a capture: where a difference was found, or where asked."""
    from schedlab.result import Result
    from schedlab.run.io import explain as explaining

    if admitted.experiment.kind != "io" or len(admitted.experiment.candidates) < 2:
        return
    # A command's processes are not ours to name, and one more run of it may have effects.
    own = {label for (label, _), kind in admitted.kinds.items() if kind.brings_files}
    if admitted.experiment.explain:
        labels = tuple(work.label for work in admitted.experiment.workloads)
    else:
        labels = explaining.worth_explaining(Result(folder).answer)
    workloads = tuple(label for label in labels if label not in own)
    if not workloads:
        return
    observer.report(f"one more run each, to show where requests wait: {', '.join(workloads)}")
    if problem := explaining.explain(admitted, folder, session, workloads):
        observer.report(f"the reason is unknown: {problem}")


def rules_of(folder: Folder, observer: Observer) -> Rules:
    """When to stop before the plan ends, and how it is completed after a pilot."""
    stopping = folder.experiment.stopping
    looked: dict[int, Decision] = {}

    def decision(blocks: int) -> Decision:
        from schedlab.result import Result

        if blocks not in looked:  # a resumed experiment checks before and after it is opened
            looked[blocks] = Result(folder).decision()
        return looked[blocks]

    def stop(blocks: int) -> str | None:
        if stopping.mode == "fixed" or not decision(blocks).stop:
            return None
        return f"{decision(blocks).reason} after {blocks} blocks"

    if not stopping.budget_s:
        return Rules(stop)

    def plan_rest() -> None:
        for line in planned_lines(budget.plan_rest(folder)):
            observer.report(line)

    return Rules(stop, plan_is_complete=lambda: budget.is_planned(folder), plan_rest=plan_rest)


def planned_lines(planning: Planning) -> list[str]:
    """The plan that follows from the pilot block, in words."""
    from schedlab.report import words
    from schedlab.report.texts import Texts

    lines = []
    if planning.omitted:
        lines.append(f"omitted, because the budget is too short: {', '.join(planning.omitted)}")
    for label, seconds in planning.ramp_s.items():
        lines.append(f"ramp of {label}: {seconds:.1f} s, where its rates became steady")
    planned = f"planned: {planning.blocks} blocks"
    if planning.bound:
        times = words.amount(Texts("en"), math.log1p(planning.bound), times=True)
        planned += f"; the best should be at most {times} ahead (from one block)"
    lines.append(planned)
    if not planning.fits or planning.blocks < BLOCKS_WANTED:
        needed = (
            f" (10 % need about {duration_text(planning.target_s)})" if planning.target_s else ""
        )
        lines.append(f"the budget is short: the answer will be rough{needed}")
    return lines


def session_id() -> str:
    """One boot and one set of files, this opening of the target (see `nouns.boot_of`)."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot[:8]}-{secrets.token_hex(4)}"


@contextmanager
def opened(
    admitted: Admitted, observer: Observer, cells: Sequence[Cell] = (), dask: str | None = None
) -> Iterator[Session]:
    """The session of an experiment, its target ready; everything is restored after it.

    Simulations of the `cells` to come begin at once, here or on the cluster at `dask`.
    """
    kind, target = admitted.experiment.kind, admitted.experiment.target
    with ExitStack() as stack:
        if kind == "sim":
            simulated = offered("backends", "sim", "a simulation")
            yield stack.enter_context(simulated.open_session(admitted, cells, dask))
            return
        from schedlab.host.safety.control import Control

        named = (admitted.place,) if target.kind == "device" else target.switch
        control = stack.enter_context(Control(named_devices=named, report=observer.report))
        session: AbstractContextManager[Session]
        if kind == "cpu":
            from schedlab.run.cpu import cpu

            session = cpu.open_session(admitted, control, observer.report)
        elif any(isinstance(each, LiveLoad) for each in admitted.kinds.values()):
            from schedlab.run.live import live

            session = live.open_session(admitted, control, observer.report, observer.see)
        else:
            from schedlab.run.io import io

            session = io.open_session(admitted, control, observer.report)
        yield stack.enter_context(session)


def check_resumable(folder: Folder, observer: Observer) -> None:
    """Refuse to mix two kernels in one experiment; repair an incomplete line."""
    check_kernel(folder)
    if folder.repair():
        torn = "the last line of runs.jsonl was incomplete; its run is repeated"
        observer.report(f"{folder.path}: {torn}")
    folder.runs()


def check_kernel(folder: Folder) -> None:
    """SpecError when a folder was measured on another kernel, or in virtual time."""
    if of := folder.host.get("virtual"):
        again = f"schedlab run {folder.path} --kernel {of.get('kernel')} --blocks N --out DIR"
        message = f"{folder.path}: was measured in virtual time, in one boot"
        raise SpecError(message, f"measure it with more blocks: {again}")
    before, now = kernel_release(folder.host), platform.release()
    if before and before != now:
        raise SpecError(
            f"{folder.path}: was measured on Linux {before}, this is {now}",
            f"measure it again: schedlab reproduce {folder.path}",
        )


def reproduce(
    path: str | Path,
    out: str | Path | None = None,
    *,
    permission: Permission | None = None,
    observer: Observer = SILENT,
) -> tuple[Result, Result]:
    """Measure a stored experiment again, same plan and seeds: (first result, repetition).

    The windows, ramps, workloads and blocks that a budget led to are in the stored plan.
    """
    from schedlab.result import Result

    first = Result.load(path)
    record, experiment = first.record, first.record.experiment
    stopping, planning = experiment.stopping, record.planning
    if stopping.budget_s:  # an extended experiment took longer than its budget
        spent_s = sum(run.elapsed_s for run in record.runs)
        stopping = replace(stopping, budget_s=max(stopping.budget_s, spent_s))
        experiment = replace(experiment, stopping=stopping)
    admitted = admit(experiment, permission or Permission(trust=False))
    for note in admitted.notes:
        observer.report(note)
    # Plans of merged folders could have workloads that their experiments lack.
    cells = tuple(
        cell for cell in record.plan.cells if (cell.workload, cell.candidate) in admitted.kinds
    )
    plan = Plan(cells)
    ends = (plan.blocks,) if stopping.mode == "fixed" else ()
    name = Path(out) if out else default_folder("reproduce")
    folder = create(admitted, name, replace(plan, ends=ends), planning)
    return first, measure(admitted, folder, observer=observer)
