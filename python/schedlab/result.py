"""One result folder, opened: the measurements, the verdict, and the files made from them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.kinds import KINDS, OVERRIDE, typed
from schedlab.kinds.traits import parameters_of, with_traits
from schedlab.nouns import (
    AA_SUFFIX,
    Experiment,
    Flag,
    Objective,
    Record,
    Run,
    Samples,
    to_json,
)
from schedlab.nouns.answer import Answer, OfKind, Unfit
from schedlab.store.exporters import Parameters
from schedlab.store.files import make_directory, write_atomic
from schedlab.store.folder import Folder
from schedlab.store.history import History, history
from schedlab.store.table import QUANTILE, Actors, samples

if TYPE_CHECKING:
    import pandas as pd

    from schedlab.analyse.decide import Decision

# So many hosts of a kind have an answer of their own: with two there is no spread to judge by.
KIND_HOSTS_MIN = 3
# Of the checks that failed in every run, so many are named in the error.
REASONS_SHOWN = 3


class Result:
    """A result folder with its verdict; everything is computed on first use.

    `lang` is "en", "ko" or "ru"; `None`: the language of messages that the environment asks for.

    `schedlab.load(DIR)` gives one, for notebooks.
    """

    def __init__(self, folder: Folder, goal: Objective | None = None) -> None:
        self.folder = folder
        self.asked_goal = goal

    @classmethod
    def load(cls, path: str | Path, goal: Objective | None = None) -> Result:
        """The result in `path`, analysed for `goal`; SpecError when there is none.

        Without a goal the metrics decide that were chosen before the first run.
        """
        return cls(Folder.open(Path(path)), goal)

    def __repr__(self) -> str:
        return f"<Result {self.folder.path.name}: {self.answer.code}>"

    @cached_property
    def record(self) -> Record:
        """Everything that was stored."""
        return with_traits(self.folder.record())

    @property
    def parameters(self) -> Parameters:
        """The parameters of the runs, by workload and candidate."""
        return parameters_of(self.record)

    @cached_property
    def answer(self) -> Answer:
        """The recommended candidate, and at most how far behind the best it can be."""
        stored = history(self.folder, self.record)
        return answer_of(self.record, self.asked_goal, stored=stored)

    def decision(self) -> Decision:
        """Whether to stop after the blocks that are there, by the rule that was frozen."""
        from schedlab.analyse.decide import decision

        stopping = self.record.experiment.stopping
        return decision(answer_of(self.record, flags=False), stopping)

    def save_verdict(self) -> Path:
        """Write `verdict.json` into the folder."""
        path = self.folder.path / "verdict.json"
        write_atomic(path, json.dumps(to_json(self.answer), indent=1) + "\n")
        return path

    def headline(self, lang: str | None = None) -> str:
        """The answer in a few sentences: which candidate, and at what price."""
        from schedlab import report

        return report.headline(self.record, self.answer, lang)

    def first_sentence(self, lang: str | None = None) -> str:
        """The candidate to take, with its gain and its risk: the first sentence of every report."""
        from schedlab import report

        return report.first_sentence(self.record, self.answer, lang)

    def reach(self, lang: str | None = None) -> str:
        """The bound in the next boot and on another layout, if it is known; else that it is not."""
        from schedlab import report

        return report.reach(self.record, self.answer, lang)

    def text(
        self,
        width: int = 80,
        colour: bool = False,
        reports: Sequence[tuple[str, str]] = (),
        lang: str | None = None,
    ) -> str:
        """The answer as text: headline, table, what to do next; `reports` are (name, path)."""
        from schedlab import report

        return report.text(
            self.record,
            self.answer,
            width=width,
            colour=colour,
            lang=lang,
            folder=self.folder.path,
            reports=reports,
        )

    def as_json(self) -> dict[str, object]:
        """The verdict as plain JSON types."""
        return dict(to_json(self.answer))

    def write_reports(self) -> dict[str, str]:
        """Write verdict.json, report.html and report.xlsx into the folder; their paths."""
        self.save_verdict()
        folder = self.folder.path
        html, xlsx = folder / "report.html", folder / "report.xlsx"
        timeline = self.write_html(html)
        self.write_xlsx(xlsx)
        files = {"folder": str(folder), "html": str(html), "xlsx": str(xlsx)}
        return files | ({"timeline": str(timeline)} if timeline else {})

    def write_html(self, path: Path, lang: str | None = None) -> Path | None:
        """Write the page, whole or not at all and never through a link.

        Where requests were recorded, all of them are on a page beside it, whose path this is.
        """
        from schedlab import report

        beside = path.with_suffix(".timeline.html")
        first, timeline = report.pages(
            self.record, self.answer, lang, self.folder.path, beside.name
        )
        if timeline:
            write_atomic(beside, timeline)
        write_atomic(path, first)
        return beside if timeline else None

    def write_xlsx(self, path: Path, lang: str | None = None) -> None:
        """Write the workbook, whole or not at all and never through a link."""
        from schedlab import report

        write_atomic(path, report.xlsx(self.record, self.answer, lang, self.folder.path))

    def write_figures(self, directory: Path, lang: str | None = None) -> None:
        """Write every figure of the page as SVG, then as PDF; SpecError when `directory` cannot be
        written, or where CairoSVG is missing for the PDF.
        """
        from schedlab import report

        try:
            make_directory(directory)
        except OSError as error:
            raise SpecError(f"{directory}: {error.strerror}", "name a writable folder") from error
        every = report.figures(self.record, self.answer, lang)
        for name, svg in every.items():
            write_atomic(directory / f"{name}.svg", svg, is_synced=False)
        for name, svg in every.items():
            write_atomic(directory / f"{name}.pdf", report.pdf(svg), is_synced=False)

    def _repr_html_(self) -> str:
        """The report for a notebook, in a frame so that its style stays inside."""
        from html import escape

        from schedlab import report

        page = escape(report.html(self.record, self.answer))
        return f'<iframe srcdoc="{page}" style="width:100%;height:40rem;border:0"></iframe>'

    def to_pandas(self, *, discarded: bool = False) -> pd.DataFrame:
        """One row per run that counts: block and position (from 1), workload, candidate, metrics.

        With `discarded` also the runs that do not count; `status` says why, and is "ok" for others.
        """
        import pandas as pd

        runs = self.record.runs if discarded else self.record.analysed_runs
        rows = [
            {
                "block": self.record.number_of(run.block),
                "position": run.position + 1,
                "workload": run.workload,
                "candidate": run.candidate,
                "status": run.status,
                **run.metrics,
            }
            for run in runs
        ]
        return pd.DataFrame(rows)


def answer_of(
    record: Record,
    goal: Objective | None = None,
    *,
    flags: bool = True,
    stored: History | None = None,
) -> Answer:
    """The answer of a record; a `goal` chooses other metrics than the frozen ones.

    Without `flags` it is what the next block depends on, and nothing else. `stored` are the
    sessions of the results of this machine.
    """
    from schedlab.analyse import answer, by_guarantee
    from schedlab.analyse.sessions import FEWEST_SESSIONS, one_each

    record = with_traits(record)
    experiment = record.experiment
    objective = _frozen_goal(experiment)
    primary, secondary = _counted(record, _actors(record))
    if record.is_of_boots and experiment.stopping.sessions < FEWEST_SESSIONS:
        # Blocks of two boots are no pairs: what differs may be the boot.
        primary, secondary = ([*map(one_each, each)] for each in (primary, secondary))
    asked = _question(record, primary)
    ask: Callable[..., Answer] = partial(
        answer,
        blocked=experiment.blocked,
        goal=goal or objective,
        frozen=goal in (None, objective),
        device=experiment.target.path if experiment.target.kind == "device" else "",
        ends=_ends(record),
        shares=experiment.has_shares,
        requires=experiment.requires,
        by_boot=experiment.stopping.sessions < 2,
        simulated=experiment.kind == "sim",
        noiseless=experiment.kind == "sim" or "virtual" in record.host,
        history=stored,
        conditions=_inside(record),
        **{name: asked[name] for name in ("margin", "seconds_per_block")},
    )

    def among(
        first: Sequence[Samples], further: Sequence[Samples], base: str, labels: Sequence[str]
    ) -> Answer:
        aa = asked["aa"] if asked["baseline"] == base else None
        return ask(first, secondary=further, baseline=base, candidates=labels, aa=aa)

    baseline, guarantees = asked["baseline"], _guarantees(experiment)
    if len(set(guarantees.values())) > 1:
        result = by_guarantee(primary, secondary, baseline, guarantees, among)
    else:
        result = among(primary, secondary, baseline, asked["candidates"])
    result = _with_absent(result, record)
    if not flags:
        return result
    return replace(_with_limits(result, record, primary, asked), kinds=_of_kinds(record, goal))


def _with_absent(result: Answer, record: Record) -> Answer:
    """The answer with the candidates and the workloads of which no run counts, and why."""
    planned = [c.label for c in record.experiment.candidates]
    absent = [c for c in planned if not any(c in cells for cells in result.cells.values())]
    labels = dict.fromkeys(planned if absent else ())
    candidates = (*labels, *(label for label in result.candidates if label not in labels))
    unfit = [_without_runs(record, label) for label in absent]
    unfit += _tried_in_vain(result, record, [c for c in planned if c not in absent])
    return replace(result, candidates=candidates, unfit=(*unfit, *result.unfit))


def _tried_in_vain(result: Answer, record: Record, labels: Sequence[str]) -> list[Unfit]:
    """The workloads, or else the candidates there, of which runs were tried and none counts."""
    found, made = [], {(run.workload, run.candidate) for run in record.analysed_runs}
    rows = {row.workload: row.name for row in result.rows if row.role in ("primary", "part")}
    for workload in record.experiment.workloads:
        if record.omitted.get(workload.label, "no-value") != "no-value":
            continue  # Of one that takes too long only the pilot block has runs.
        if not any(of == workload.label for of, _ in made):
            found.append(_without_runs(record, "", workload.label))
        if (name := rows.get(workload.label)) is None:
            continue
        lacking = [label for label in labels if (workload.label, label) not in made]
        found += [replace(_without_runs(record, label, workload.label), row=name)
                  for label in lacking]  # fmt: skip
    return [unfit for unfit in found if unfit.tried]


def _without_runs(record: Record, label: str, workload: str = "") -> Unfit:
    """A candidate ("": all), or a workload of it, without a run that counts."""
    tried = [run for run in record.runs
             if label in ("", run.candidate) and workload in ("", run.workload)]  # fmt: skip
    gates = Counter(found.gate for run in tried for found in run.gates if found.fatal)
    reasons = tuple(gate for gate, _ in gates.most_common(REASONS_SHOWN))
    return Unfit(label, workload, 0, len(tried), reasons)


def _of_kinds(record: Record, goal: Objective | None) -> tuple[OfKind, ...]:
    """The answers of the hosts with one model of device and firmware, where there are several kinds
    and at least `KIND_HOSTS_MIN` hosts of it.
    """
    hosts = record.host.get("hosts", {})
    known = ((name, of.get("measured_device") or {}) for name, of in hosts.items())
    kinds: dict[str, list[str]] = {}
    for name, device in known:
        if device.get("model"):
            kind = " ".join(filter(None, (device["model"], device.get("firmware"))))
            kinds.setdefault(kind, []).append(name)
    return tuple(
        OfKind(kind, tuple(names), answer_of(_part(record, runs), goal, flags=False))
        for kind, names in kinds.items()
        if KIND_HOSTS_MIN <= len(names) < len(hosts)
        and (runs := tuple(run for run in record.runs if run.host in names))
    )


def _part(record: Record, runs: tuple[Run, ...]) -> Record:
    """The record with these runs only; at a planned end they are at theirs."""
    here, own = ({run.block for run in of if run.status == "ok"} for of in (record.runs, runs))
    at_end = (record.plan.ends or ())[-1:] == (len(here),)
    plan = replace(record.plan, ends=(len(own),)) if at_end else record.plan
    return replace(record, plan=plan, runs=runs)


def _guarantees(experiment: Experiment) -> dict[str, str]:
    """The guarantee of each candidate for its writes, on the first workload that writes."""
    if not any(key.startswith(OVERRIDE) for c in experiment.candidates for key in c.settings):
        return {}
    known = [workload for workload in experiment.workloads if workload.kind in KINDS]
    return {
        each.label: next(filter(None, (typed(work, each).guarantee() for work in known)), "")
        for each in experiment.candidates
    }


def _with_limits(
    result: Answer, record: Record, primary: Sequence[Samples], asked: Mapping[str, Any]
) -> Answer:
    """The answer with its flags, and what else the pages show."""
    from schedlab.analyse import call_costs, check_means, compared, knees
    from schedlab.analyse.limits import limits
    from schedlab.analyse.pareto import pareto

    experiment = record.experiment
    sizes = (experiment.workloads, experiment.candidates, primary)
    flags = (
        *_baseline_flags(record, result.base),
        *_few_requests(record, result),
        *_lacking_rows(record, result),
        *result.flags,
        *check_means(primary, experiment.published),
        *call_costs(*sizes),
        *_run_flags(record),
        *limits(result, primary, aa=asked["aa"], blocked=experiment.blocked, seed=experiment.seed),
    )
    statements = compared(experiment.statements, _values(record)) if experiment.statements else ()
    return replace(
        result, flags=flags, statements=statements, knees=knees(*sizes), pareto=pareto(result)
    )


def _values(record: Record) -> dict[tuple[str, str, str], dict[int, float]]:
    """The values of each metric on each workload under each candidate, by block."""
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    for run in record.analysed_runs:
        for metric, value in run.metrics.items():
            values.setdefault((metric, run.workload, run.candidate), {})[run.block] = value
    return values


def _ends(record: Record) -> tuple[int, ...] | None:
    """The announced numbers of blocks; `None` for data that is looked at once."""
    experiment, plan = record.experiment, record.plan
    if experiment.kind == "import":
        return None
    if experiment.stopping.mode != "fixed":
        return ()
    if plan.ends is not None:
        return plan.ends
    return (max((cell.block for cell in plan.cells), default=-1) + 1,)


def _counted(record: Record, actors: Actors | None = None) -> tuple[list[Samples], list[Samples]]:
    """The samples of a record; SpecError with the reason where every run failed a check."""
    primary, secondary = samples(record, actors)
    if record.runs and not primary:
        raise SpecError(
            f"none of the {len(record.runs)} runs can be used: {_reasons(record.runs)}",
            "remove the cause, then measure again",
        )
    return primary, secondary


def _reasons(runs: Sequence[Run]) -> str:
    """Why none of these runs counts, in words: the checks that most of them failed."""
    failed = Counter(f.detail for run in runs for f in run.gates if f.fatal)
    reasons = "; ".join(detail for detail, _ in failed.most_common(REASONS_SHOWN))
    return reasons or ("they have no value of their metric" if runs else "there are none yet")


def _baseline(record: Record, primary: Sequence[Samples]) -> str:
    """The baseline, or where none of its runs counts its A/A arm, else the first that has some."""
    experiment = record.experiment
    there = {label for sample in primary for label in sample.candidates}
    others = (candidate.label for candidate in experiment.candidates)
    names = (experiment.baseline, experiment.baseline + AA_SUFFIX, *others)
    return next((name for name in names if name in there), experiment.baseline)


def _baseline_flags(record: Record, used: str) -> list[Flag]:
    """That the candidates are compared with another one than was asked for, and why."""
    wanted = record.experiment.baseline
    if used == wanted:
        return []
    reason = _reasons([run for run in record.runs if run.candidate == wanted])
    return [Flag("no-baseline", "", (wanted,), {"used": used, "reason": reason})]


def _few_requests(record: Record, result: Answer) -> list[Flag]:
    """Where the mean decides, because the requests were too few for the quantile."""
    wanted = {work.label: work.metric for work in record.experiment.workloads}
    return [
        Flag("few-requests", row.workload, values={"metric": row.metric.name, "frozen_metric": own})
        for row in result.rows
        if row.role != "secondary" and row.metric and (own := wanted[row.workload])
        and QUANTILE.fullmatch(own) and row.metric.name == QUANTILE.sub(r"\1_mean", own)
    ]  # fmt: skip


def _lacking_rows(record: Record, result: Answer) -> list[Flag]:
    """The further metrics that only some runs of a workload gave: they are no rows."""
    shown = {(row.workload, row.metric.name) for row in result.rows if row.metric}
    flags = []
    for work in record.experiment.workloads:
        runs = [run for run in record.analysed_runs if run.workload == work.label]
        for name in work.secondary:
            known = sum(math.isfinite(run.metrics.get(name, math.nan)) for run in runs)
            if 0 < known < len(runs) and (work.label, name) not in shown:
                values = {"metric": name, "runs": known, "of": len(runs)}
                flags.append(Flag("lacks-runs", work.label, values=values))
    return flags


def _run_flags(record: Record) -> list[Flag]:
    """Whether runs were steady, and whether the device was at rest before them."""
    from schedlab.analyse.run_flags import run_flags

    flags: list[Flag] = []
    runs: dict[str, list[Run]] = {}
    for run in record.analysed_runs:
        runs.setdefault(run.workload, []).append(run)
    for work in record.experiment.workloads:
        own = runs.get(work.label, [])
        if early := sum(any(gate.gate == "unsettled" for gate in run.gates) for run in own):
            flags.append(Flag("unsettled", work.label, values={"runs": early}))
        # Only a workload with a window of time has a steady state: a newcomer never settles.
        if "seconds" in getattr(KINDS.get(work.kind), "__struct_fields__", ()):
            flags += run_flags(work.label, _bins(record, work.label))
    return flags + [flag for flag in _inside(record) if flag.values["proven"]]


def _inside(record: Record) -> list[Flag]:
    """Candidates whose distance from the baseline is another one in the second half of a period."""
    from schedlab.analyse.run_flags import half_flags

    flags: list[Flag] = []
    experiment, margin = record.experiment, math.log1p(record.experiment.margin)
    for work in experiment.workloads:
        own = [run for run in record.analysed_runs if run.workload == work.label]
        if halves := _halves(own, work.metric):
            metric = experiment.metric(work)
            flags += half_flags(work, metric, experiment.baseline, halves, margin)
    return flags


def _halves(runs: Sequence[Run], metric: str) -> dict[str, dict[int, tuple[float, float]]]:
    """By candidate and block the primary metric in both halves of a run that has it so."""
    halves: dict[str, dict[int, tuple[float, float]]] = {}
    for run in runs:
        both = [half.get(metric, 0.0) for half in run.properties.get("halves") or ()]
        if len(both) == 2 and min(both) > 0:
            halves.setdefault(run.candidate, {})[run.block] = (both[0], both[1])
    return halves


def _bins(record: Record, workload: str) -> dict[str, list[list[tuple[float, ...]]]]:
    """By candidate and run: the rates of each group in the bins of its window."""
    bins: dict[str, list[list[tuple[float, ...]]]] = {}
    for (label, candidate), series in record.series.items():
        if label != workload:
            continue
        runs: dict[int, list[tuple[float, ...]]] = {}
        for each in series:
            # The last bin is cut short by the end of the run.
            window = each.values[round(each.measured_from_s / each.bin_s) : -1]
            runs.setdefault(each.block, []).append(window)
        bins[candidate] = list(runs.values())
    return bins


def _actors(record: Record) -> dict[tuple[str, str], str]:
    """Whose figure a metric is, where it is another actor's of the same run."""
    return {
        (work.label, metric): actor
        for work in record.experiment.workloads
        if work.kind in KINDS
        for metric, actor in KINDS[work.kind].actors.items()
    }


def _frozen_goal(experiment: Experiment) -> Objective | None:
    """The goal that was chosen before the first run; none for the usual one, throughput."""
    return None if experiment.objective == "throughput" else experiment.objective


def _question(record: Record, primary: Sequence[Samples]) -> dict[str, Any]:
    """The arguments of `analyse.answer`."""
    experiment = record.experiment
    baseline = _baseline(record, primary)
    has_aa = experiment.aa_arm and baseline == experiment.baseline
    seconds = [run.elapsed_s for run in record.runs if math.isfinite(run.elapsed_s)]
    blocks = len({run.block for run in record.runs})
    return {
        "baseline": baseline,
        "margin": experiment.margin,
        "aa": (baseline, baseline + AA_SUFFIX) if has_aa else None,
        "candidates": [candidate.label for candidate in experiment.candidates],
        "seconds_per_block": sum(seconds) / blocks if blocks else 0.0,
    }
