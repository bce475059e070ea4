"""Changes between two results: their machines, their work, their candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from schedlab.app.compare.agreement import ReplayAgreement, of_replay
from schedlab.errors import SpecError
from schedlab.nouns import AA_SUFFIX, Metric, Record, Samples, to_json
from schedlab.nouns.answer import Answer, CellAnswer, Loss, Row
from schedlab.nouns.results import Bound, boot_of
from schedlab.report import difference_page

# What may differ and is only reported; what must not, unless it is allowed.
REPORTED = ("kernel.release", "versions.schedlab")
MUST_AGREE = ("cpu.model", "cpu.usable", "virtualisation.virtual_machine", "clock.source")
#: Two sessions, or boots, are the fewest whose scatter is known.
FEWEST_SESSIONS = 2
#: What boots of one setup are taken to differ by, where nothing else is known (3 to 5 % were seen).
BOOTS_DIFFER = 0.05
BOOTS_MOST = 40


def environment_differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Differences of two host.json, of all that can change a result."""
    return {
        name: (_at(first, name), _at(second, name))
        for name in (*REPORTED, *MUST_AGREE)
        if _at(first, name) != _at(second, name)
    }


def _at(host: Mapping[str, Any], name: str) -> Any:
    value: Any = host
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def require_same_clock(first: Record, second: Record) -> None:
    """SpecError for a result in virtual time beside one of a machine: no figures compare."""
    is_first, is_second = ("virtual" in record.host for record in (first, second))
    if is_first != is_second:
        name = "first" if is_first else "second"
        raise SpecError(
            f"the {name} is in virtual time, and the other is not",
            "compare two of machines, or two in virtual time",
        )


def require_same_work(first: Record, second: Record) -> None:
    """SpecError naming the first workload or target that differs between the two."""
    a, b = first.experiment, second.experiment
    for key in ("kind", "size_bytes"):
        was, now = getattr(a.target, key), getattr(b.target, key)
        if was != now:
            raise SpecError(f"the targets differ: {key} {was} and {now}", "measure the same target")
    theirs = {work.label: work for work in b.workloads}
    for work in a.workloads:
        other = theirs.get(work.label)
        if other and (other.parameters, other.metric) != (work.parameters, work.metric):
            raise SpecError(
                f"workload {work.label!r} differs between the two", "repeat it: schedlab reproduce"
            )
    if not {work.label for work in a.workloads} & set(theirs):
        raise SpecError("the two have no workload in common", "name results of the same work")


def names_of(first: Path, second: Path) -> tuple[str, str]:
    """Labels of two folders: their own names, if these differ."""
    one, other = first.resolve().name, second.resolve().name
    return (one, other) if one != other else ("first", "second")


@dataclass(frozen=True)
class Difference:
    """Two folders compared: the answers by candidate, what differs in the machines, the page, and
    it in words (`shown`).

    `units` are blocks where one of the two has a single session. `boots_needed` of each would
    decide where one of the two has a single boot (`None`: nothing of boots is to be decided, or
    too many): a difference between two boots is no change yet.
    """

    record: Record
    answers: Mapping[str, Answer]
    names: tuple[str, str]
    machines: Mapping[str, tuple[Any, Any]]
    units: Literal["blocks", "sessions"]
    is_one_boot: bool
    boots_needed: int | None
    page: Path
    shown: difference_page.Beside

    def decided(self, *, better: bool = False) -> list[tuple[str, str, Loss]]:
        """(candidate, row, loss) of what is proven to have become worse, by more than the margin.

        With `better`, what became better instead. Only the change itself counts, not that beside
        the baseline.
        """
        side = self.names[0] if better else self.names[1]
        found = []
        for label in (c.label for c in self.record.experiment.candidates):
            if label not in self.answers:
                continue
            answer = self.answers[label]
            for row in answer.counted:
                cell = answer.cells[row].get(side)
                if cell and cell.low > 0 and cell.loss > answer.margin:
                    found.append(
                        (label, row, Loss(side, row, cell.loss, cell.low, cell.up, cell.open))
                    )
        return found

    def fails(self, on: str) -> bool:
        """Whether something is proven `worse`, or `changed`; nothing of it for `never`.

        Between two boots nothing is, except for `this-boot`: worse in the one than in the other.
        """
        if on == "never" or (self.is_one_boot and on != "this-boot"):
            return False
        return bool(self.decided()) or (on == "changed" and bool(self.decided(better=True)))

    def as_json(self) -> dict[str, object]:
        """As plain JSON types."""
        data = {name: to_json(answer) for name, answer in self.answers.items()}
        worse, better = (
            [{"candidate": c, "row": r, "loss": of.loss} for c, r, of in self.decided(better=b)]
            for b in (False, True)
        )
        document = {"schema": 2, "differences": self.machines, "units": self.units,
                    "one_boot": self.is_one_boot, "boots_needed": self.boots_needed,
                    "candidates": data}  # fmt: skip
        return {**document, "worse": worse, "better": better, "html": str(self.page)}

    def junit(self, on: str = "worse") -> bytes:
        """A test case for every candidate on every workload; what became worse has failed, where
        something `fails`.
        """
        worse = {(label, row) for label, row, _ in self.decided() if self.fails(on)}
        return difference_page.junit(
            self.names, difference_page.cases(self.record, self.answers, worse)
        )


def difference(
    first: Path, second: Path, despite: bool, page: Path | None, report: Callable[[str], None]
) -> Difference | ReplayAgreement:
    """Compare two folders and write the page; SpecError unless work and machines are the same.

    Of a live load and a replay: whether they agree. `despite` allows other machines; `report` gets
    the differences.
    """
    from schedlab.result import Result
    from schedlab.store.files import write_atomic

    before, after = Result.load(first).record, Result.load(second).record
    require_same_clock(before, after)
    machines = environment_differences(before.host, after.host)
    for name, (was, now) in machines.items():
        report(f"differs: {name}: {was} -> {now}")
    refused = [name for name in machines if name not in REPORTED]
    if refused and not despite:
        raise SpecError(
            f"the two machines differ in {', '.join(refused)}", "add --despite to compare anyway"
        )
    names = names_of(first, second)
    records = dict(zip(names, (before, after), strict=True))
    page = page or second / "diff.html"
    found: Difference | ReplayAgreement | None = of_replay(records, machines, page, report)
    if found is None:
        require_same_work(before, after)
        found = _changed(before, after, names, machines, page)
        for label in _common(before, after):
            if label not in found.answers:
                report(f"not compared: {label}, which has no value in one of the two")
    write_atomic(page, found.shown.page())
    return found


def _changed(
    before: Record, after: Record, names: tuple[str, str],
    machines: Mapping[str, tuple[Any, Any]], page: Path,
) -> Difference:  # fmt: skip
    answers, units = changes(before, after, names)
    answers = _with_figures(answers, dict(zip(names, (before, after), strict=True)))
    one, other = (len({boot_of(r.session) for r in of.analysed_runs}) for of in (before, after))
    is_one_boot = before.experiment.kind in ("io", "cpu") and min(one, other) < FEWEST_SESSIONS
    needed = boots_needed(answers) if is_one_boot else None
    counts = difference_page.BootCounts((one, other), needed, BOOTS_DIFFER)
    shown = difference_page.changed(
        before, answers, names, machines, units, counts if is_one_boot else None
    )
    return Difference(before, answers, names, machines, units, is_one_boot, needed, page, shown)


def boots_needed(answers: Mapping[str, Answer]) -> int | None:
    """How many boots a side would decide the largest change, or that there is none beyond the
    margin, where boots differ by `BOOTS_DIFFER` and each has the noise of these; `None` beyond
    `BOOTS_MOST`.
    """
    from schedlab.analyse.losses import lower
    from schedlab.analyse.quantiles import t_quantile

    own = [of for label, of in answers.items() if " / " not in label]
    cells = [cell for of in own for row in of.counted for cell in of.cells[row].values()]
    if not cells:
        return None
    largest = max(cells, key=lambda cell: cell.loss)
    target = max(own[0].margin, largest.loss)
    noise = math.inf if largest.up is None else largest.up - largest.loss
    level = lower(1 / len(own), 2, max(len(of.counted) for of in own)).pooled
    for boots in range(FEWEST_SESSIONS, BOOTS_MOST + 1):
        error = math.log1p(BOOTS_DIFFER) * math.sqrt(2 / boots)
        between = float(t_quantile(level, 2 * (boots - 1))) * error
        if math.hypot(between, noise / math.sqrt(boots)) <= target:
            return boots
    return None


def _with_figures(
    answers: Mapping[str, Answer], records: Mapping[str, Record]
) -> dict[str, Answer]:
    """The answers with the values that each result has for itself, of all its runs."""
    from schedlab.result import answer_of

    known = {name: answer_of(record, flags=False) for name, record in records.items()}

    def value(label: str, row: Row, name: str, cell: CellAnswer) -> float | None:
        own = next(
            (r for r in known[name].rows if (r.name, r.metric) == (row.name, row.metric)), None
        )
        of = known[name].cell(own.name, label) if own else None
        return of.value if of else cell.value

    return {
        label: replace(answer, cells={
            row.name: {name: replace(cell, value=value(label, row, name, cell))
                       for name, cell in answer.cells[row.name].items()}
            for row in answer.rows
        })
        for label, answer in answers.items()
    }  # fmt: skip


def _common(first: Record, second: Record) -> list[str]:
    """The candidates of both."""
    theirs = {candidate.label for candidate in second.experiment.candidates}
    return [c.label for c in first.experiment.candidates if c.label in theirs]


def changes(
    first: Record, second: Record, names: tuple[str, str] = ("first", "second")
) -> tuple[dict[str, Answer], Literal["blocks", "sessions"]]:
    """For each candidate with values in both, the first folder against the second; the units.

    The two are different sessions, so the units are sessions. With a single session on a side the
    units are blocks, and the answers hold for these two sessions only. Where both have the same
    baseline, the change beside the baseline is an answer of its own, `CANDIDATE / BASELINE`: what
    moved all candidates drops out of it. Errors count over all candidates together.
    """
    common = _common(first, second)
    if not common:
        raise SpecError("the two have no candidate in common", "name results that share one")
    works, units = _units(first, second)
    common = [
        label
        for label in common
        if any(one.get(label) and other.get(label) for _, one, other in works.values())
    ]
    if not common:
        raise SpecError(
            "no candidate has a value in both",
            "`schedlab report DIR` shows why; then measure again: schedlab reproduce DIR",
        )
    margin, baseline = first.experiment.margin, first.experiment.baseline
    answers: dict[str, Answer] = {}
    for label in common:
        own = [_samples(names, w, m, label, "", sides) for w, (m, *sides) in works.items()]
        answers[label] = _answer(names, own, margin, len(common))
        if baseline != second.experiment.baseline or label == baseline:
            continue
        beside = [_samples(names, w, m, label, baseline, sides) for w, (m, *sides) in works.items()]
        if any(beside):
            answers[f"{label} / {baseline}"] = _answer(names, beside, margin, len(common) - 1)
    return answers, units


def _answer(
    names: tuple[str, str], samples: Sequence[Samples | None], margin: float, among: int
) -> Answer:
    """The first result against the second, a workload for each of the samples."""
    from schedlab.analyse.answer import answer

    known = [sample for sample in samples if sample is not None]
    return answer(
        known, baseline=names[0], candidates=names, margin=margin, blocked=False, among=among
    )


# candidate -> session or block -> (mean log, whether a run of it is only a bound)
Units = dict[str, dict[str, tuple[float, Bound]]]


def _units(
    first: Record, second: Record
) -> tuple[dict[str, tuple[Metric, Units, Units]], Literal["blocks", "sessions"]]:
    """Per workload of both: its metric, and the means of every candidate, by folder.

    They are of sessions; of blocks where a folder has one session only. Sessions that nobody asked
    for (an extension, another layout) are one for each boot.
    """
    from schedlab.store.table import samples

    def of(record: Record) -> list[Samples]:
        is_asked = record.experiment.stopping.sessions > 1
        return [s if is_asked else s.by_boot() for s in samples(record)[0]]

    ours, theirs = of(first), {s.workload: s for s in of(second)}
    pairs = [(s, theirs[s.workload]) for s in ours if s.workload in theirs]
    fewest = min((len(set(side.sessions)) for pair in pairs for side in pair), default=0)
    by_block = fewest < FEWEST_SESSIONS
    return {
        one.workload: (one.metric, _means(one, by_block), _means(other, by_block))
        for one, other in pairs
    }, "blocks" if by_block else "sessions"


def _means(sample: Samples, by_block: bool) -> Units:
    """Mean logs of every candidate, by session or by block; one with a bound is one."""
    from schedlab.analyse.sessions import session_means

    names = [f"{block}" for block in sample.blocks] if by_block else sample.sessions
    means: Units = {}
    for label in dict.fromkeys(sample.candidates):
        arms = (label, label + AA_SUFFIX)
        rows = [i for i, own in enumerate(sample.candidates) if own in arms]
        logs = session_means(
            [sample.values[i] for i in rows], [names[i] for i in rows],
            [sample.blocks[i] for i in rows],
        )  # fmt: skip
        starved = {names[i]: sample.bounds[i] for i in rows if sample.bounds and sample.bounds[i]}
        means[label] = {unit: (log, starved.get(unit, "")) for unit, log in logs.items()}
    return means


def _samples(
    names: tuple[str, str],
    workload: str,
    metric: Metric,
    label: str,
    baseline: str,
    sides: Sequence[Units],
) -> Samples | None:
    """The means of a candidate in both folders; as ratios to `baseline`, if one is named.

    `None` where one of the two has no value.
    """
    rows: list[tuple[str, int, float, Bound]] = []
    for name, side in zip(names, sides, strict=True):
        own, beside = side.get(label, {}), side.get(baseline, {})
        units = [s for s in own if not baseline or s in beside]
        for i, (log, bound) in enumerate(own[s] for s in units):
            base, of_base = beside.get(units[i], (0.0, ""))
            rows.append((name, i, math.exp(log - base), bound or of_base))
    if {name for name, *_ in rows} != set(names):
        return None
    if baseline:
        title = f"{metric.title or metric.name} relative to {baseline}"
        metric = replace(metric, name=f"{metric.name}_ratio", unit="", title=title)
    candidates, blocks, values, bounds = zip(*rows, strict=True)
    return Samples(workload, metric, candidates, blocks, values, bounds=bounds)
