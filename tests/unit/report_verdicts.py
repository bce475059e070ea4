"""Verdicts made by hand for the tests of the report: each code with values that are easy to check.

`first_screen()` is the example that the design of the first screen was drawn with.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from schedlab.spec import (
    METRICS,
    Candidate,
    CandidateSummary,
    Experiment,
    Explanation,
    Fact,
    Flag,
    Headline,
    Needed,
    Overall,
    Pair,
    Plan,
    Population,
    RateSeries,
    Record,
    Run,
    Stopping,
    StoppingState,
    Target,
    Verdict,
    Workload,
    WorkloadVerdict,
)

MARGIN = 0.02
Outcome = tuple[float, float, float, str]  # ratio to the baseline, its interval, the verdict
SAME: Outcome = (1.0, 0.99, 1.01, "equivalent")
OPEN: Outcome = (1.01, 0.93, 1.08, "undecided")
NAMES = ("none", "mq-deadline", "kyber", "bfq")


def fact(
    better: str, worse: str, ratio: float, low: float | None = None, high: float | None = None,
    metric: str = "throughput_bytes_per_s", **more: Any,
) -> Fact:  # fmt: skip
    up = METRICS[metric].higher_is_better if metric else True
    return Fact(better, worse, ratio, low, high, metric=metric, higher_is_better=up, **more)


def of_workload(
    label: str,
    metric: str,
    level: float,
    outcomes: Mapping[str, Outcome],
    baseline: str = "none",
    code: Headline | None = None,
    blocks: int = 8,
    **more: Any,
) -> WorkloadVerdict:
    """A workload whose baseline has the value `level`, the others as `outcomes` say."""
    rows = [CandidateSummary(baseline, 2 * blocks, level, level, level * 0.98, level * 1.02)]
    pairs = []
    for name, (ratio, low, high, verdict) in outcomes.items():
        value = level * ratio
        rows.append(
            CandidateSummary(
                name, blocks, value, value, value * 0.97, value * 1.03, ratio, low, high, verdict
            )
        )
        pairs.append(Pair(name, baseline, ratio, low, high, verdict, p=0.001))
    names = list(outcomes)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            ratio = outcomes[a][0] / outcomes[b][0]
            pairs.append(Pair(a, b, ratio, ratio * 0.95, ratio * 1.05, "undecided"))
    headline = code or Headline(
        "tied", {"names": [baseline, *names], "margin": MARGIN, "losers": []}
    )
    best = tuple(headline.values.get("names", (headline.values.get("best", baseline),)))
    return WorkloadVerdict(
        label, METRICS[metric], blocks, tuple(rows), tuple(pairs), best, headline,
        units=blocks, mdd=0.05, **more,
    )  # fmt: skip


def verdict_of(
    headline: Headline,
    workloads: Sequence[WorkloadVerdict],
    secondary: Mapping[str, tuple[WorkloadVerdict, ...]] | None = None,
    baseline: str = "none",
    **more: Any,
) -> Verdict:
    first = workloads[0]
    blocks = first.blocks
    overall = Overall(
        first.candidates, first.pairs, first.best_set, headline,
        tuple(w.workload for w in workloads), first.metric, units=blocks, mdd=0.06,
        best_everywhere=more.pop("best_everywhere", ""), needed=more.pop("needed", None),
    )  # fmt: skip
    population = more.pop("population", Population(len(workloads), blocks, 1, blocks, "", 96.0))
    return Verdict(
        headline, baseline, "blocked", StoppingState(blocks=blocks), population,
        {w.workload: w for w in workloads}, overall, secondary or {}, **more,
    )  # fmt: skip


def record_of(
    verdict: Verdict,
    kind: str = "io",
    target: Target | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    **more: Any,
) -> Record:
    """A record that the verdict could come from: one run per cell with the verdict's values."""
    by_workload = parameters or {}
    names = [c.candidate for w in verdict.workloads.values() for c in w.candidates]
    names = list(dict.fromkeys(names))
    candidates = tuple(Candidate(name, {"scheduler": name}) for name in names)
    works = tuple(
        Workload(
            w.workload, by_workload.get(w.workload, {}).get("kind", "interference"), w.metric.name,
            {k: v for k, v in by_workload.get(w.workload, {}).items() if k != "kind"},
        )
        for w in verdict.workloads.values()
    )  # fmt: skip
    experiment = Experiment(
        "Schedulers", kind, target or Target("scratch", "/var/tmp", 1 << 30),  # type: ignore[arg-type]
        candidates, works, verdict.baseline, 1, Stopping(blocks=8),
    )  # fmt: skip
    return Record(experiment, Plan(()), tuple(_runs(verdict)), HOST, **more)


def _runs(verdict: Verdict) -> list[Run]:
    runs = []
    for of in verdict.workloads.values():
        for block in range(of.blocks):
            for i, row in enumerate(of.candidates):
                value = row.geometric_mean * math.exp(0.01 * math.sin(7 * block + i))
                runs.append(
                    Run(block, len(runs), of.workload, row.candidate, 1, 0, "ok",
                        "2026-03-14T09:26:00+00:00", 1.0, {of.metric.name: value})
                )  # fmt: skip
    return runs


HOST = {
    "kernel": {"release": "6.18.0"},
    "device": {"name": "loop7", "queue": {"nr_requests": "128", "rotational": "0"}},
}


def others(**outcomes: Outcome) -> dict[str, Outcome]:
    """The three other schedulers; `mq_deadline` is `mq-deadline`."""
    known = {name.replace("_", "-"): outcome for name, outcome in outcomes.items()}
    return {name: known.get(name, SAME) for name in NAMES[1:]}


def first_screen() -> tuple[Record, Verdict]:
    """The example of the first screen: bfq for new readers, at the price of their writers."""
    new = "new reader beside writers"
    latency = "reader_latency_ns_mean"
    gain = fact("bfq", "none", 46, 38, 55, latency, workload=new)
    loss = fact("none", "bfq", 1 / 0.71, 1.28, 1.59, "write_bytes_per_s", workload=new)
    rest = [
        of_workload("steady reader beside writers", latency, 4.9e6, others()),
        of_workload("sequential readers, three", "throughput_bytes_per_s", 1.1e9, others()),
        of_workload("random reads, depth 32", "iops", 212e3,
                    others(mq_deadline=(0.97, 0.96, 0.98, "worse"),
                           bfq=(0.89, 0.87, 0.91, "worse"))),
        of_workload("commits (database)", "iops", 5.1e3, others(kyber=OPEN),
                    needed=Needed(4, 6, 12, 180.0, 0.05)),
        of_workload("one file, one process", "throughput_bytes_per_s", 1.16e9, others()),
    ]  # fmt: skip
    first = of_workload(
        new, latency, 3.6e6, others(bfq=(1 / 46, 1 / 55, 1 / 38, "better")),
        code=Headline("winner-price", {"best": "bfq"}),
    )  # fmt: skip
    writers = of_workload(
        new, "write_bytes_per_s", 1.5e9, others(bfq=(0.71, 0.63, 0.78, "worse")), actor="writers"
    )
    price = {"kind": "actor", "fact": loss.values(), "actor": "writers", "more": 0}
    values = {
        "name": "bfq", "baseline": "none", "won": [new], "lost": ["random reads, depth 32"],
        "best": gain.values(),
        "worst": fact("none", "bfq", 1 / 0.89, 1.1, 1.15, "iops",
                      workload="random reads, depth 32").values(),
        "same": [w.workload for w in rest if "random" not in w.workload], "within": 0.04,
        "price": price,
    }  # fmt: skip
    first = dataclasses.replace(
        first,
        headline=Headline(
            "winner-price",
            {"best": "bfq", "baseline": "none", "gain": gain.values(), "other": "none",
             "runner_up": None, "price": price, "losers": []},
        ),
    )  # fmt: skip
    verdict = verdict_of(
        Headline("depends", values), [first, *rest], {new: (writers,)},
        flags=(Flag("steady-assumed", values={"blocks": 8}),),
    )  # fmt: skip
    file_test = {"kind": "file-test", "depth": 1, "workers": 1, "direct": True}
    explanations = {(new, name): (each,) for name, each in WAITING.items()}
    series = {(new, name): rates(name) for name in NAMES}
    record = record_of(
        verdict, parameters={"one file, one process": file_test}, explanations=explanations,
        series=series,
    )  # fmt: skip
    return record, verdict


WAITING = {
    "none": Explanation("readers", 440e-6, 0.0, 3825e-6, 88, 0, 1200),
    "mq-deadline": Explanation("readers", 2e-6, 670e-6, 4203e-6, 87, 12, 1100),
    "kyber": Explanation("readers", 2e-6, 769e-6, 3901e-6, 88, 9, 1100),
    "bfq": Explanation("readers", 1e-6, 14e-6, 65e-6, 68, 20, 20000),
}


def rates(name: str, blocks: int = 8) -> tuple[RateSeries, ...]:
    """bfq's reader collapses after a second; the others are level."""
    series = []
    for block in range(blocks):
        level = [850.0 + 7 * ((3 * i + block) % 5) for i in range(30)]
        if name == "bfq":
            level[:9] = [80_000.0 / (1 + (i + block % 3) / 9) for i in range(9)]
        series.append(RateSeries(block, "readers", "1/s", 0.1, tuple(level), 1.0))
    return tuple(series)


def simple(headline: Headline, **more: Any) -> tuple[Record, Verdict]:
    """One workload with its own headline."""
    work = of_workload("random reads", "throughput_bytes_per_s", 1e9, others(), code=None)
    verdict = verdict_of(headline, [dataclasses.replace(work, headline=headline)], **more)
    return record_of(verdict), verdict
