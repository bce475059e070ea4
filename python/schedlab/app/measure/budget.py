"""A time budget: the first block is a pilot, and the rest is planned from what it showed.

What was planned is `planning.json` of the result folder: the length of the runs, the workloads
that were kept and omitted, and the number of blocks. Extending a finished experiment is planned in
the same way, and its number of blocks is announced in the plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlab.design.plan import arms, make_plan
from schedlab.design.planning import BLOCKS_WANTED, PilotRun, plan_budget
from schedlab.errors import SpecError
from schedlab.host.safety.origin import seal_of
from schedlab.kinds import KINDS, typed
from schedlab.kinds.traits import nothing_to_order
from schedlab.nouns import Experiment, Plan, Planning, Record, Run, Workload
from schedlab.store.folder import Folder

# The pilot is one of six blocks at least: its share of a budget.
PILOT_SHARE = 1 / BLOCKS_WANTED
RUN_OVERHEAD_S = 0.7
# To set a scheduler, start processes and read back.
SETTING_S = 0.1


def fitting(
    works: Sequence[Workload], arms_count: int, budget_s: float
) -> tuple[tuple[Workload, ...], tuple[str, ...]]:
    """(the workloads of which six blocks fit by estimate, the labels of the rest).

    In their order, the most important first; those that leave nothing to order, then negative
    controls come after all others. A pilot of workloads that never fit would use up the time of
    those that do.
    """
    kept: list[Workload] = []
    block_s = 0.0
    for work in sorted(works, key=lambda work: (work.negative_control, nothing_to_order(work))):
        run_s = shortest_s(work)
        if kept and BLOCKS_WANTED * (block_s + arms_count * run_s) > budget_s:
            continue
        kept.append(work)
        block_s += arms_count * run_s
    omitted = tuple(work.label for work in works if work not in kept)
    return tuple(work for work in works if work in kept), omitted


def shortest_s(work: Workload) -> float:
    """Estimated time of one run with the shortest window."""
    kind = typed(work)
    window_s = usual_seconds(work)
    saved_s = max(0.0, window_s - kind.shortest_s) if window_s else 0.0
    return kind.estimate_s() - saved_s + SETTING_S


def pilot_plan(experiment: Experiment) -> Plan:
    """The first block; its runs are shortened where it would use up too much of the budget."""
    plan = make_plan(experiment, blocks=1)
    budget_s = experiment.stopping.budget_s
    seconds = PILOT_SHARE * budget_s / max(len(plan.cells), 1) - RUN_OVERHEAD_S
    usual = {work.label: usual_seconds(work) for work in experiment.workloads}
    short = {work.label: max(KINDS[work.kind].shortest_s, seconds) for work in experiment.workloads}
    return Plan(
        tuple(
            replace(cell, seconds=short[cell.workload])
            if usual[cell.workload] > short[cell.workload]
            else cell
            for cell in plan.cells
        )
    )


def usual_seconds(workload: Workload, name: str = "seconds") -> float:
    """The measured window (or the ramp, `ramp_seconds`) that a budget may change; 0 where the user
    or the kind fixed it.
    """
    if name in workload.parameters or name not in KINDS[workload.kind].__struct_fields__:
        return 0.0
    return float(getattr(typed(workload), name, 0.0) or 0.0)


def plan_rest(folder: Folder) -> Planning:
    """Plan what follows the pilot block, and replace the plan by the whole one."""
    from schedlab.analyse.advice import foreseen

    record = folder.record()
    experiment = record.experiment
    pilot = pilot_runs(record)
    if not pilot:
        raise SpecError(
            f"{folder.path}: no run of the first block gave a value", "read the messages above"
        )
    ramp_s = ramps(record)
    declared = {work.label: usual_seconds(work, "ramp_seconds") for work in experiment.workloads}
    longer = {label: ramp - declared[label] for label, ramp in ramp_s.items()}
    pilot = [replace(p, overhead_s=p.overhead_s + longer.get(p.workload, 0.0)) for p in pilot]

    weights = {work.label: work.weight for work in experiment.workloads}
    controls = {work.label for work in experiment.workloads if work.negative_control}
    budget_s = experiment.stopping.budget_s
    unordered = {work.label for work in experiment.workloads if nothing_to_order(work)}
    planned = plan_budget(
        pilot, budget_s, foreseen, weights=weights, controls=controls, unordered=unordered
    )
    never = [w.label for w in experiment.workloads if w.label not in {p.workload for p in pilot}]
    planning = Planning(
        blocks=min(planned.blocks * experiment.stopping.sessions, experiment.stopping.blocks),
        run_s={w: s for w, s in planned.run_s.items() if _is_free(experiment, w)},
        ramp_s=ramp_s,
        omitted={**planned.left_out, **dict.fromkeys(never, "no-value")},
        seconds_per_block=planned.seconds_per_block,
        bound=planned.bound,
        target_s=planned.target_s,
        fits=planned.fits,
    )
    folder.write_plan(whole_plan(experiment, folder.plan, planning))
    folder.write_planning(planning)
    return planning


def _is_free(experiment: Experiment, workload: str) -> bool:
    return any(w.label == workload and usual_seconds(w) > 0 for w in experiment.workloads)


def whole_plan(experiment: Experiment, so_far: Plan, planning: Planning) -> Plan:
    """The cells that there are, then those of the further blocks with what was planned."""
    blocks_planned = so_far.blocks
    further = [
        replace(
            cell,
            seconds=planning.run_s.get(cell.workload, 0.0),
            ramp_seconds=planning.ramp_s.get(cell.workload, 0.0),
        )
        for cell in make_plan(experiment, blocks=max(planning.blocks, blocks_planned)).cells
        if cell.block >= blocks_planned and cell.workload not in planning.omitted
    ]
    ends = so_far.ends or ()
    if experiment.stopping.mode == "fixed" and planning.blocks not in ends:
        ends = (*ends, planning.blocks)
    return Plan((*so_far.cells, *further), ends)


def ramps(record: Record) -> dict[str, float]:
    """The ramp, in seconds, of each workload whose own is shorter than its first block needed.

    Where a run becomes steady is found in its rates, of all groups and from its very start, and the
    largest of all candidates' holds for all of them.
    """
    from schedlab.analyse import common_ramp

    lengths = {}
    for work in record.experiment.workloads:
        declared_s = usual_seconds(work, "ramp_seconds")
        pilot = [
            each
            for (label, _), of in record.series.items()
            if label == work.label
            for each in of
            if each.block == 0 and not any(math.isnan(v) for v in each.values)
        ]
        if not (declared_s and pilot):
            continue
        needed_s = common_ramp([each.values for each in pilot])[0] * pilot[0].bin_s
        if needed_s > declared_s:
            lengths[work.label] = needed_s
    return lengths


def pilot_runs(record: Record) -> list[PilotRun]:
    """The figures of the first block, for `design.planning`; by workload, in their order."""
    works = {work.label: work for work in record.experiment.workloads}
    place = {label: i for i, label in enumerate(works)}
    labels = {arm.label for arm in arms(record.experiment)}
    planned = {cell.key: cell.seconds for cell in record.plan.cells}
    return [
        _pilot_run(record, works[run.workload], run, planned.get(run.key, 0.0))
        for run in sorted(record.analysed_runs, key=lambda run: place[run.workload])
        if run.block == 0
        and run.candidate in labels
        and run.metrics.get(works[run.workload].metric, 0.0) > 0
    ]


def _pilot_run(record: Record, work: Workload, run: Run, planned_s: float) -> PilotRun:
    free = usual_seconds(work) > 0
    measured_s = (planned_s or usual_seconds(work)) if free else run.elapsed_s
    bins: tuple[float, ...] = ()
    series = record.series.get((run.workload, run.candidate), ())
    if free and series:
        first = next(s for s in series if s.block == run.block)
        bins = first.values[round(first.measured_from_s / first.bin_s) :]
    sign = 1.0 if record.experiment.metric(work).higher_is_better else -1.0
    return PilotRun(
        workload=run.workload,
        candidate=run.candidate,
        log_value=sign * math.log(run.metrics[work.metric]),
        overhead_s=max(run.elapsed_s - measured_s, 0.0) if free else 0.0,
        measured_s=measured_s,
        bins=bins if free else (),
        shortest_s=KINDS[work.kind].shortest_s,
    )


@dataclass(frozen=True)
class Extended:
    """A folder's experiment, plan and planning with the blocks that are added."""

    experiment: Experiment
    plan: Plan
    planning: Planning | None


def extended(
    folder: Folder, experiment: Experiment, blocks: int | None, budget_s: float | None
) -> Extended:
    """Blocks appended to the plan of a folder with this experiment: up to `blocks` in all, or what
    fits; else as it is.

    Nothing is written. SpecError for fewer blocks than are planned: the end of a plan is announced
    before it is measured, and another one would be one more look. SpecError for more than the
    experiment announced, too.
    """
    planning = folder.planning
    is_pilot = planning is None and experiment.stopping.budget_s > 0
    if not blocks and (not budget_s or is_pilot):
        return Extended(experiment, folder.plan, planning)
    record = folder.record()
    blocks_planned = folder.plan.blocks
    blocks_measured = len({run.block for run in record.analysed_runs})
    if not blocks:
        per_block = sum(run.elapsed_s for run in record.runs) / max(blocks_measured, 1)
        more = max(1, int((budget_s or 0.0) / per_block)) if per_block else 1
        blocks = max(blocks_measured + more, blocks_planned)
    if blocks < blocks_planned:
        raise SpecError(
            f"{folder.path}: {blocks_planned} blocks are planned, of which {blocks_measured} are "
            "measured",
            f"--blocks counts all of them: omit it, or ask for more than {blocks_planned}",
        )
    stopping = experiment.stopping
    if stopping.mode != "fixed" and blocks > stopping.blocks:
        raise SpecError(
            f"{folder.path}: the plan has at most {stopping.blocks} blocks",
            f"start a new folder: schedlab run {folder.path} --blocks {blocks}",
        )
    planning = planning or Planning(blocks=blocks)
    planning = replace(planning, blocks=blocks)
    if stopping.mode == "fixed" and not stopping.budget_s:
        larger = replace(stopping, blocks=max(blocks, stopping.blocks))
        experiment = replace(experiment, stopping=larger)
    wide = replace(experiment.stopping, blocks=max(blocks, experiment.stopping.blocks))
    whole = whole_plan(replace(experiment, stopping=wide), folder.plan, planning)
    return Extended(experiment, whole, planning)


def extend(folder: Folder, addition: Extended) -> None:
    """Write down the blocks that are added, where there are any."""
    if addition.plan == folder.plan:
        return
    if addition.planning is not None:
        folder.write_planning(addition.planning)
    if addition.experiment != folder.experiment:
        folder.write_experiment(addition.experiment, seal_of)
    # The plan comes last: a kill before it leaves blocks to add, so a repetition writes all three.
    folder.write_plan(addition.plan)


def is_planned(folder: Folder) -> bool:
    """Whether the plan goes beyond the pilot block."""
    return folder.planning is not None
