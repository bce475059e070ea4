"""What every form of the report is made of, worked out once from a record and its verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from schedlab.report.texts import Texts
from schedlab.report.words import metric_of
from schedlab.spec import (
    AA_SUFFIX,
    CandidateSummary,
    Fact,
    Flag,
    GateFinding,
    Headline,
    Metric,
    Pair,
    Record,
    Run,
    Verdict,
    WorkloadVerdict,
    nothing_to_order,
)

# More rows than a screen holds: workloads with smaller differences are then counted instead.
ROWS_MAX = 16


@dataclass(frozen=True)
class Member:
    """A workload of a family at its record size."""

    record_bytes: int
    verdict: WorkloadVerdict


@dataclass(frozen=True)
class Family:
    """The workloads that differ in nothing but the record size, from small to large."""

    title: str
    metric: Metric
    members: tuple[Member, ...]


@dataclass(frozen=True)
class TestMean:
    """Geometric mean over the record sizes of a test, by candidate, with a 95 % interval."""

    title: str
    metric: Metric
    rows: tuple[tuple[str, float, float | None, float | None], ...]


class View:
    """A record and its verdict, with what several forms of the report need of them."""

    def __init__(
        self, record: Record, verdict: Verdict, texts: Texts, folder: Path | None = None
    ) -> None:
        self.record, self.verdict, self.texts = record, verdict, texts
        self.folder = folder
        self.experiment = record.experiment
        self.workloads = tuple(verdict.workloads.values())
        self.confidence = texts.margin(verdict.confidence)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The candidates in the order in which they were given."""
        seen = {row.candidate for w in self.workloads for row in w.candidates}
        labels = [c.label for c in self.experiment.candidates if c.label in seen]
        return (*labels, *sorted(seen - set(labels)))

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that are in the figures."""
        return self.record.analysed_runs

    @cached_property
    def discarded(self) -> tuple[Run, ...]:
        """The runs that failed a check."""
        return tuple(run for run in self.record.runs if run.status == "discarded")

    @cached_property
    def runs_by_workload(self) -> Mapping[str, list[Run]]:
        """The analysed runs of each workload in the order of running."""
        grouped: dict[str, list[Run]] = {w.workload: [] for w in self.workloads}
        for run in self.runs:
            grouped.setdefault(run.workload, []).append(run)
        return grouped

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """Workloads grouped by test (else kind) and metric, where record sizes differ."""
        grouped: dict[tuple[str, str], dict[int, WorkloadVerdict]] = {}
        for workload in self.experiment.workloads:
            size = record_bytes(workload.parameters)
            if size is None or workload.label not in self.verdict.workloads:
                continue
            key = (str(workload.parameters.get("test", workload.kind)), workload.metric)
            members = grouped.setdefault(key, {})
            members.setdefault(size, self.verdict.workloads[workload.label])
        return tuple(
            Family(
                title,
                next(iter(members.values())).metric,
                tuple(Member(size, members[size]) for size in sorted(members)),
            )
            for (title, _), members in grouped.items()
            if len(members) > 1
        )

    @cached_property
    def test_means(self) -> tuple[TestMean, ...]:
        """One mean per test and candidate; workloads outside families are their own family."""
        means = [self._family_mean(family) for family in self.families]
        inside = {m.verdict.workload for family in self.families for m in family.members}
        for w in self.workloads:
            if w.workload not in inside:
                rows = ((c.candidate, c.geometric_mean, c.low, c.high) for c in w.candidates)
                means.append(TestMean(w.workload, w.metric, tuple(rows)))
        return tuple(means)

    def _family_mean(self, family: Family) -> TestMean:
        """Means of the logs inside each block, then a Student interval over the blocks."""
        labels = {m.verdict.workload for m in family.members}
        logs: dict[str, dict[int, list[float]]] = {}
        for label in labels:
            for run in self.runs_by_workload[label]:
                value = run.metrics.get(family.metric.name, math.nan)
                if value > 0:
                    blocks = logs.setdefault(run.candidate, {})
                    blocks.setdefault(run.block, []).append(math.log(value))
        rows = []
        for name in self.names:
            whole = [sum(v) / len(v) for v in logs.get(name, {}).values() if len(v) == len(labels)]
            if whole:
                rows.append((name, *log_interval(whole, self.verdict.confidence)))
        return TestMean(family.title, family.metric, tuple(rows))

    @cached_property
    def flags(self) -> tuple[Flag, ...]:
        """All flags: of the whole, then of each workload."""
        return (*self.verdict.flags, *(flag for w in self.workloads for flag in w.flags))

    @property
    def measured(self) -> str:
        """When and where; an import may know neither."""
        texts = self.texts
        if self.experiment.kind == "import":
            return texts("text.imported")
        started = min((run.started_at for run in self.record.runs), default="")
        date = started[:16].replace("T", " ") or texts("verdict.none")
        return texts("text.measured_on", date=date, machine=self.machine)

    @property
    def machine(self) -> str:
        """The machine in a few words, from `host.json`."""
        host = dict(flatten(self.record.host))
        wanted = ("hostname", "kernel.release", "kernel", "cpu.model", "device.model")
        facts = [str(host[key]) for key in wanted if host.get(key)]
        return ", ".join(facts) or self.texts("text.unknown_machine")

    @property
    def medium(self) -> str:
        """The medium where it is not a real device: `simulated`, `emulated`, or ""."""
        if self.experiment.kind == "sim":
            return "simulated"
        emulated = str(self.experiment.target.kind) == "emulated" or "emulated" in self.record.host
        return "emulated" if emulated else ""

    @property
    def emulated_device(self) -> dict[str, object]:
        """Facts of the model, and how well it was kept; empty without one."""
        with_device = (r.properties for r in self.runs if "emulated_device" in r.properties)
        facts = dict(next(with_device, {}).get("emulated_device", {}))
        accounts = [r.properties["emulated"] for r in self.runs if "emulated" in r.properties]
        if facts and accounts:
            for name in ("p50_ns", "p99_ns"):
                values = [account["lateness"][name] for account in accounts]
                facts[f"lateness_{name}, median of the runs"] = round(statistics.median(values))
            shares = [account["late_share"] for account in accounts]
            facts["late_share, median of the runs"] = round(statistics.median(shares), 4)
        return facts

    @property
    def outcome(self) -> Headline:
        """The headline; that of those that finished where some did not."""
        headline = self.verdict.headline
        rest = headline.values.get("rest")
        return Headline(rest, headline.values.get("rest_values") or {}) if rest else headline

    @property
    def says_mdd(self) -> bool:
        """Whether the headline itself states the minimum detectable difference."""
        codes = {self.verdict.code, self.outcome.code}
        return bool(codes & {"too-early", "no-difference-seen", "too-noisy", "single"})

    @property
    def is_mix(self) -> bool:
        """Whether the verdict is about several workloads together."""
        return len(self.verdict.overall.workloads) > 1

    @property
    def the_only_one(self) -> str:
        """The workload that the verdict is about, where there are others beside it; else ""."""
        counted = self.verdict.overall.workloads
        return counted[0] if len(counted) == 1 < len(self.workloads) else ""

    @property
    def is_single(self) -> bool:
        """Whether nothing was run twice on any workload."""
        return self.verdict.code == "single" and all(of.units <= 1 for of in self.workloads)

    @property
    def reports_goal(self) -> bool:
        """Whether a metric of the goal decides on any workload."""
        without = {f.workload for f in self.verdict.flags if f.kind == "goal-not-measured"}
        return any(of.workload not in without for of in self.workloads)

    @property
    def without_ratio(self) -> list[str]:
        """The candidates with a value of 0 or less."""
        flags = (flag for of in self.workloads for flag in of.flags if flag.kind == "non-positive")
        return list(dict.fromkeys(name for flag in flags for name in flag.candidates))

    @cached_property
    def first_rows(self) -> tuple[WorkloadVerdict, ...]:
        """What the first table is about: every workload, then its actors and losing metrics."""
        rows: list[WorkloadVerdict] = []
        for of in self.workloads:
            others = self.verdict.secondary.get(of.workload, ())
            rows += [of, *(other for other in others if self._needs_a_row(other))]
        return tuple(rows)

    def _needs_a_row(self, of: WorkloadVerdict) -> bool:
        """Other processes of the run always, other metrics where one loses that should not.

        Where the headline says what the baseline loses, the others are better in that row.
        """
        loss = self.stated_loss
        decisive = {"worse", "better" if loss and loss.worse == self.verdict.baseline else ""}
        return bool(of.actor) or any(row.verdict in decisive for row in of.candidates)

    @property
    def shows_all_rows(self) -> bool:
        """Whether all rows of the first table fit a screen."""
        return len(self.first_rows) <= ROWS_MAX

    @property
    def stated_loss(self) -> Fact | None:
        """The price, or what separates those that nothing else does, if the headline has one."""
        values = self.outcome.values
        loss = values.get("price") or values.get("cost")
        return Fact.of(loss["fact"]) if loss else None

    def metric(self, name: str, higher_is_better: bool = True) -> Metric | None:
        """The metric of that name; `None` for the mean of several (an empty name)."""
        return metric_of(self.experiment, name, higher_is_better)

    def nothing_to_order(self, of: WorkloadVerdict) -> bool:
        """Whether the workload leaves nothing to order, and nothing else was found either."""
        work = next((w for w in self.experiment.workloads if w.label == of.workload), None)
        single = of.nothing_to_order or (work is not None and nothing_to_order(work))
        verdicts = {row.verdict for row in of.candidates}
        return single and self.experiment.kind == "io" and not verdicts & {"better", "worse"}

    @property
    def orders_nothing(self) -> bool:
        """Whether no workload leaves anything to order: that is why no difference was found."""
        if self.verdict.headline.code in ("single", "nothing-to-compare"):
            return False
        schedulers = any("scheduler" in dict(c.settings) for c in self.experiment.candidates)
        return schedulers and all(map(self.nothing_to_order, self.workloads))

    def is_control(self, label: str) -> bool:
        """Whether a workload cannot depend on the candidates."""
        return any(w.negative_control for w in self.experiment.workloads if w.label == label)

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """The baseline under its second name, where there are runs of it."""
        labels = {run.candidate for run in self.runs} - set(self.names)
        return tuple(sorted(label for label in labels if label.endswith(AA_SUFFIX)))


def log_interval(logs: Sequence[float], level: float) -> tuple[float, float | None, float | None]:
    """exp of the mean of `logs` with its Student interval (none for a single value)."""
    count = len(logs)
    mean = sum(logs) / count
    if count < 2:
        return math.exp(mean), None, None
    from scipy.special import stdtrit

    variance = sum((x - mean) ** 2 for x in logs) / (count - 1)
    half = float(stdtrit(count - 1, (1 + level) / 2)) * math.sqrt(variance / count)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def record_bytes(parameters: Mapping[str, Any]) -> int | None:
    """The record size of a workload, where it has one."""
    try:
        size = int(float(parameters["record_bytes"]))
    except (KeyError, TypeError, ValueError):
        return None
    return size if size > 0 else None


def size_text(size_bytes: float, digits: int = 6) -> str:
    """4096 as `4 KiB`."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >= 1 << shift:
            return f"{size_bytes / (1 << shift):.{digits}g} {unit}"
    return f"{size_bytes:.{digits}g} B"


def seen_from(pairs: Sequence[Pair], a: str, b: str) -> Pair | None:
    """The pair of `a` and `b`, turned round where it is stored as `b` and `a`."""
    for pair in pairs:
        if (pair.a, pair.b) == (a, b):
            return pair
        if (pair.a, pair.b) == (b, a):
            return turned(pair)
    return None


def turned(pair: Pair) -> Pair:
    """The same comparison read from the other side."""
    opposite: dict[str, Any] = {"better": "worse", "worse": "better", "low": "high", "high": "low"}
    return replace(
        pair,
        a=pair.b,
        b=pair.a,
        ratio=1 / pair.ratio,
        low=None if pair.high is None else 1 / pair.high,
        high=None if pair.low is None else 1 / pair.low,
        verdict=opposite.get(pair.verdict, pair.verdict),
        open_end=opposite.get(pair.open_end, ""),
        hodges_lehmann=None if not pair.hodges_lehmann else 1 / pair.hodges_lehmann,
        by_session=tuple(1 / ratio for ratio in pair.by_session),
    )


def summary_of(rows: Sequence[CandidateSummary], name: str) -> CandidateSummary | None:
    """The row of a candidate."""
    return next((row for row in rows if row.candidate == name), None)


def flatten(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Nested tables as (dotted key, value); lists of plain values stay one value."""
    if isinstance(value, Mapping):
        return [
            pair
            for key, item in value.items()
            for pair in flatten(item, f"{prefix}.{key}" if prefix else str(key))
        ]
    if isinstance(value, list | tuple):
        if any(isinstance(item, Mapping | list | tuple) for item in value):
            numbered = enumerate(value, 1)
            return [pair for i, item in numbered for pair in flatten(item, f"{prefix}.{i}")]
        return [(prefix, ", ".join(str(item) for item in value))]
    return [(prefix, value)]


def percentiles(
    histogram: Sequence[Sequence[int]], shares: Sequence[float]
) -> list[tuple[float, float]]:
    """(share, latency in ns) for each share with at least ten requests beyond it.

    `histogram` has rows (low_ns, high_ns, count); the value is the upper end of the bin, as a
    percentile is the latency that this share of the requests did not exceed.
    """
    total = sum(row[2] for row in histogram)
    rows = sorted(histogram, key=lambda row: row[0])
    points: list[tuple[float, float]] = []
    seen, at = 0, 0
    for share in sorted(shares):
        if total * (1 - share) < 10:
            break
        while at < len(rows) - 1 and seen + rows[at][2] < share * total:
            seen += rows[at][2]
            at += 1
        points.append((share, float(rows[at][1])))
    return points


def gate_rows(view: View) -> list[tuple[Run, GateFinding]]:
    """Every finding of every check, in the order of running."""
    return [(run, finding) for run in view.record.runs for finding in run.gates]
