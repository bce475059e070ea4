"""Tables of processes: their counts and CPU bursts, and the times of a program."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from schedlab.nouns import Run
from schedlab.report.tables import Chart, Column, Table, build
from schedlab.report.view import View

INDEX = 100.0
#: What is counted of a process; its figures are these and what follows from them.
Count = Literal["calculations", "bursts", "cpu_burst_s"]
Figures = dict[str, float | None]
# What a shell's `time` prints; of a program that is timed until its data are on the device, that.
TIMES = ("elapsed_synced_s", "elapsed_s", "user_s", "system_s")


def process_tables(view: View) -> list[Table]:
    """All of them, in the order in which studies print them."""
    parts = (_by_process(view), _sums(view), _indices(view), _processes(view))
    return [*(table for part in parts for table in part), *_times(view)]


def _times(view: View) -> Iterator[Table]:
    """Real, user and system time of the programs of a workload: means, and every repetition."""
    texts = view.texts
    for label, runs in view.runs_by_workload.items():
        known = [key for key in TIMES if any(key in run.metrics for run in runs)]
        if not {"user_s", "system_s"} <= set(known):
            continue
        candidate = Column(texts("column.candidate"), text=True)
        heads = (texts.metric(view.metric(key)) for key in known)
        times = [Column(head[:1].upper() + head[1:], "s", digits=4) for head in heads]
        count = Column(texts("column.runs"), decimals=0, beside=True)
        rows: list[list[Any]] = []
        every: list[list[Any]] = []
        for name in view.names:
            mine = [run for run in runs if run.candidate == name]
            each = ([v for run in mine if (v := run.metrics.get(key)) is not None] for key in known)
            rows.append([name, *(statistics.fmean(of) if of else None for of in each), len(mine)])
            number_of = view.record.number_of
            every += [[name, number_of(r.block), *map(r.metrics.get, known)] for r in mine]
        title, own = texts("table.times", workload=label), view.labels[label]
        columns = [candidate, *times, count]
        yield build(texts, f"times-{own}", title, columns, rows, chart="dots")
        title = texts("table.repetitions", metric=title)
        columns = [candidate, Column(texts("column.block"), decimals=0), *times]
        yield build(texts, f"runs-times-{own}", title, columns, every)


def _workers(run: Run) -> Sequence[Mapping[Count, float]]:
    """The bursts of each process of a run on its CPUs."""
    workers = run.properties.get("workers", ())
    return [w for w in workers if isinstance(w, Mapping) and "cpu_burst_s" in w]


def _with_workers(view: View) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {}
    for run in view.runs:
        if _workers(run):
            runs.setdefault(run.candidate, []).append(run)
    return {name: runs[name] for name in view.names if name in runs}


# Counts of a process that are summed, and what is worked out from them: name, unit, decimals.
COUNTS = (
    ("calculations", "", 0), ("bursts", "", 0), ("cpu_burst_s", "", 3),
    ("per_burst_second", "", 2), ("mean_burst", "s", None),
)  # fmt: skip


# Those that a study prints with a row for each process.
BY_PROCESS = ("calculations", "cpu_burst_s", "per_burst_second")


def _figures(workers: Sequence[Mapping[Count, float]]) -> Figures:
    """The counts of some processes together, and what follows from them."""
    keys: tuple[Count, ...] = ("calculations", "bursts", "cpu_burst_s")
    sums: Figures = {
        key: sum(float(w[key]) for w in workers) if all(key in w for w in workers) else None
        for key in keys
    }
    count, bursts, burst = sums.values()
    sums["per_burst_second"] = count / burst if count is not None and burst else None
    sums["mean_burst"] = burst / bursts if burst is not None and bursts else None
    return sums


def _count_table(
    view: View, name: str, heads: Sequence[Column], rows: Sequence[tuple[list[Any], Figures]]
) -> Table:
    """A table of counts, without the columns that no row has."""
    texts = view.texts
    known = [each for each in COUNTS if any(f[each[0]] is not None for _, f in rows)]
    columns = [*heads, *(Column(texts(f"count.{k}"), unit, decimals=d) for k, unit, d in known)]
    body = [[*first, *(figures[key] for key, _, _ in known)] for first, figures in rows]
    notes = [texts("text.bursts_intro")] if "calculations" in {k for k, _, _ in known} else []
    return build(texts, name, texts(f"table.{name}"), columns, body, notes)


def _processes(view: View) -> list[Table]:
    """Counts and CPU bursts of every process in every repetition."""
    texts = view.texts
    rows = [
        ([name, view.record.number_of(run.block), number], _figures([worker]))
        for name, runs in _with_workers(view).items()
        for run in runs
        for number, worker in enumerate(_workers(run))
    ]
    head = [Column(texts("column.candidate"), text=True)]
    head += [Column(texts(f"column.{key}"), decimals=0) for key in ("block", "worker")]
    return [_count_table(view, "processes", head, rows)] if rows else []


def _by_process(view: View) -> list[Table]:
    """Each count of the processes under each candidate: means of the repetitions, and all of them
    together.
    """
    texts, by_name = view.texts, _with_workers(view)
    most = max((len(_workers(run)) for runs in by_name.values() for run in runs), default=0)
    labels = [*map(str, range(most)), texts("count.together")]
    columns = [Column(texts("column.worker"), text=True), *(Column(name) for name in by_name)]
    tables = []
    for key, _, decimals in COUNTS:
        parts = [slice(number, number + 1) for number in range(most)]
        rows = [[label, *(_mean_count(runs, key, part) for runs in by_name.values())]
                for label, part in zip(labels, [*parts, slice(None)], strict=True)]  # fmt: skip
        if key in BY_PROCESS and any(value is not None for _, *values in rows for value in values):
            title = texts("table.by_process", count=texts(f"count.{key}"))
            shown = [columns[0], *(replace(each, decimals=decimals) for each in columns[1:])]
            chart: Chart = "" if key == "cpu_burst_s" else "dots"
            tables.append(build(texts, f"by-process-{key}", title, shown, rows, chart=chart))
    return tables


def _mean_count(runs: Sequence[Run], key: str, part: slice) -> float | None:
    """The mean over the runs of a count of some of their processes together, if there are any."""
    counts = (_figures(of)[key] for run in runs if (of := _workers(run)[part]))
    known = [count for count in counts if count is not None]
    return statistics.fmean(known) if known else None


def _sums(view: View) -> list[Table]:
    """Mean over the repetitions of the sums over the processes; index 100: the baseline."""
    found: dict[str, Figures] = {}
    for name, runs in _with_workers(view).items():
        each = [_figures(_workers(run)) for run in runs]
        known = {key: [v for f in each if (v := f[key]) is not None] for key in each[0]}
        found[name] = {key: statistics.fmean(v) if v else None for key, v in known.items()}
    judged = {n: of["per_burst_second"] or of["mean_burst"] or 0.0 for n, of in found.items()}
    base = judged.get(view.baseline) or next(filter(None, judged.values()), math.inf)
    rows: list[tuple[list[Any], Figures]] = [
        ([name, INDEX * judged[name] / base or None], means) for name, means in found.items()
    ]
    head = [
        Column(view.texts("column.candidate"), text=True),
        Column(view.texts("column.index"), decimals=2),
    ]
    return [_count_table(view, "sums", head, rows)] if rows else []


def _indices(view: View) -> Iterator[Table]:
    """The sums of each candidate in per cent of those of each: studies differ in which is 100."""
    texts, by_name = view.texts, _with_workers(view)
    columns = [Column(texts("column.candidate"), text=True)]
    columns += [Column(f"{name} = {INDEX:.0f}", decimals=2) for name in by_name]
    for key in ("calculations", "per_burst_second"):
        sums = {name: _mean_count(runs, key, slice(None)) for name, runs in by_name.items()}
        if len(sums) > 1 and all(sums.values()):
            rows = [[name, *(INDEX * (own or 0) / (base or 1) for base in sums.values())]
                    for name, own in sums.items()]  # fmt: skip
            title = texts("table.indices", count=texts(f"count.{key}"))
            yield build(texts, f"indices-{key}", title, columns, rows)
