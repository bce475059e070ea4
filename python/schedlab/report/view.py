"""A record and its answer as every form of the report needs them, computed once."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.nouns import AA_SUFFIX, GateFinding, Metric, Record, Run
from schedlab.nouns.answer import Answer, Row
from schedlab.nouns.latency import bin_of, is_supported
from schedlab.report.texts import Texts
from schedlab.report.words import metric_of
from schedlab.report.workload_names import translated

if TYPE_CHECKING:
    from schedlab.report.timeline import Timeline


class View:
    """A record and its answer, with what several forms of the report need of them."""

    def __init__(
        self,
        record: Record,
        answer: Answer,
        texts: Texts,
        folder: Path | None = None,
        timeline_name: str = "",
    ) -> None:
        labels = [work.label for work in record.experiment.workloads]
        record, answer = translated(record, answer, texts)
        self.record, self.answer, self.folder = record, answer, folder
        self.timeline_name = timeline_name
        self.experiment = record.experiment
        shown = (work.label for work in self.experiment.workloads)
        #: The label of a workload, the same in every language, by the name that it is shown with.
        self.labels: Mapping[str, str] = dict(zip(shown, labels, strict=True))
        self.texts = texts = texts.of_medium(self.medium)
        self.names, self.baseline = answer.candidates, answer.base
        self.confidence = texts.margin(answer.confidence)

    @cached_property
    def primary(self) -> tuple[Row, ...]:
        """A row of measurements for every workload: its primary metric."""
        return tuple(r for r in self.answer.rows if r.role in ("primary", "part") and r.metric)

    @cached_property
    def timeline(self) -> Timeline | None:
        """Every request of the explanatory runs; None where they were not recorded."""
        from schedlab.report.moments import timeline_of

        return timeline_of(self)

    @property
    def chosen(self) -> tuple[Row, ...]:
        """The primary rows without the points of a curve over a parameter of the candidates."""
        return tuple(row for row in self.primary if row.why != "parameter")

    @property
    def mix(self) -> Row | None:
        """The mean of all rows, where the shares of the workloads were given."""
        return next((row for row in self.answer.rows if row.role == "mix"), None)

    @cached_property
    def alone(self) -> frozenset[str]:
        """The candidates that guarantee what no other does, and so are compared with none."""
        groups = (of.candidates for of in self.answer.guarantees)
        return frozenset(names[0] for names in groups if len(names) == 1)

    def secondary(self, workload: str) -> list[Row]:
        """The further rows of a workload: other processes of its runs, other metrics."""
        return [r for r in self.answer.rows if r.role == "secondary" and r.workload == workload]

    def title_of(self, row: Row) -> str:
        """The workload of a row, with its metric where the row is not its first one."""
        texts = self.texts
        if row.role == "mix" or row.metric is None:
            return texts("row.mix")
        firsts = [r for r in self.primary if r.workload == row.workload]
        if row in firsts and len(firsts) == 1:
            return row.workload
        return texts("row.title", workload=row.workload, metric=self.metric_title(row))

    def metric_title(self, row: Row) -> str:
        """Whose metric it is, and which."""
        metric = self.texts.metric(row.metric) if row.metric else ""
        if not row.actor:
            return metric
        known = self.texts.maybe(f"actor_row.{row.actor}", "")
        actor = known or self.texts("actor_row.other", actor=row.actor)
        return self.texts("row.of", workload=actor, metric=metric)

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
        grouped: dict[str, list[Run]] = {row.workload: [] for row in self.primary}
        for run in self.runs:
            grouped.setdefault(run.workload, []).append(run)
        return grouped

    @property
    def measured(self) -> str:
        """When and where; an import may know neither."""
        texts = self.texts
        if self.experiment.kind == "import":
            return texts("text.imported")
        date = self.started_at[:16].replace("T", " ") or texts("verdict.none")
        return texts("text.measured_on", date=date, machine=self.machine)

    @property
    def started_at(self) -> str:
        """When the first run began; "" where that is not known."""
        return min((run.started_at for run in self.record.runs), default="")

    @property
    def machine(self) -> str:
        """The machine in a few words, from `host.json`."""
        host = dict(flatten(self.record.host))
        wanted = ("hostname", "kernel.release", "kernel", "cpu.model", "device.model")
        facts = [str(host[key]) for key in wanted if host.get(key)]
        return ", ".join(facts) or self.texts("text.unknown_machine")

    @property
    def medium(self) -> str:
        """The stand-in for a real machine: `simulated`, `virtual`, `emulated`, or ""."""
        if self.experiment.kind == "sim":
            return "simulated"
        if self.virtual:
            return "virtual"
        emulated = str(self.experiment.target.kind) == "emulated" or "emulated" in self.record.host
        return "emulated" if emulated else ""

    @property
    def virtual(self) -> Mapping[str, Any]:
        """The machine in virtual time; empty for a real one."""
        of = self.record.host.get("virtual")
        return of if isinstance(of, Mapping) else {}

    @cached_property
    def identical(self) -> Mapping[str, list[tuple[str, ...]]]:
        """By the name of a row in virtual time, where no noise hides a difference, the candidates
        with equal values in every block; each group has several."""
        return {row.name: self._alike(row) for row in self.answer.rows}

    def _alike(self, row: Row) -> list[tuple[str, ...]]:
        if not (self.virtual and row.metric):
            return []
        values: dict[str, list[tuple[int, float]]] = {name: [] for name in self.names}
        for run in self.runs:
            if run.workload == row.workload and run.candidate in values:
                value = run.metrics.get(row.metric.name, math.nan)
                values[run.candidate].append((run.block, value))
        groups: dict[str, list[str]] = {}
        for name, of in values.items():
            groups.setdefault(repr(sorted(of)), []).append(name)
        return [tuple(names) for text, names in groups.items()
                if len(names) > 1 and "nan" not in text and text != "[]"]  # fmt: skip

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

    def metric(self, name: str) -> Metric:
        """The metric of that name."""
        return metric_of(self.experiment, name)

    def is_control(self, label: str) -> bool:
        """Whether a workload cannot depend on the candidates."""
        return any(w.negative_control for w in self.experiment.workloads if w.label == label)

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """The baseline under its second name, where there are runs of it."""
        labels = {run.candidate for run in self.runs} - set(self.names)
        return tuple(sorted(label for label in labels if label.endswith(AA_SUFFIX)))


def record_bytes(parameters: Mapping[str, Any], name: str = "record_bytes") -> int | None:
    """The record size of a workload, or its parameter `name` in bytes, where it has one."""
    try:
        size = int(float(parameters[name]))
    except (KeyError, TypeError, ValueError):
        return None
    return size if size > 0 else None


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
    total, rows = sum(row[2] for row in histogram), sorted(histogram, key=lambda row: row[0])
    return [
        (share, float(bin_of(rows, share * total)[1]))
        for share in sorted(shares)
        if is_supported(total, share)
    ]


def gate_rows(view: View) -> list[tuple[Run, GateFinding]]:
    """Every finding of every check, in the order of running."""
    return [(run, finding) for run in view.record.runs for finding in run.gates]
