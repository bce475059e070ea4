"""Results of strangers, drawn at random: several of everything, none in order, none complete."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from schedlab.nouns import (
    AA_SUFFIX,
    METRICS,
    Candidate,
    Cell,
    Experiment,
    Explanation,
    GateFinding,
    Plan,
    Planning,
    PublishedMean,
    RateSeries,
    Record,
    Require,
    Run,
    Statement,
    Stopping,
    Target,
    Workload,
)
from schedlab.nouns.answer import (
    MIX,
    Advice,
    Answer,
    CellAnswer,
    DecisiveRun,
    Doubt,
    Loss,
    OfGuarantee,
    Requirement,
    Row,
    Rung,
    Unfit,
)
from schedlab.nouns.findings import ComparedStatement, KneeFigure, ParetoPoint
from schedlab.nouns.results import LatencySeries

NAMES = ("none", "mq-deadline", "kyber", "bfq", "adios")
GROUPS = ("writers", "readers", "backup")
GATES = ("late", "others", "clock", "unsettled", "knob-changed", "ext-ejected")
P99 = "latency_ns_p99"
# A label, its kind, metric, parameters and further metrics.
WORKS = (
    ("random read, 16 KiB", "file-test", "iops", {"test": "random-read", "record_bytes": 16384},
     (P99, "latency_ns_mean")),
    ("read 8 KiB", "file-test", "throughput_bytes_per_s", {"test": "read", "record_bytes": 8192},
     (P99,)),
    ("read 2 MiB", "file-test", "throughput_bytes_per_s", {"test": "read", "record_bytes": 2 << 20},
     (P99, "iops")),
    ("write 8 KiB", "file-test", "throughput_bytes_per_s", {"test": "write", "record_bytes": 8192},
     ("cpu_s",)),
    ("reader beside writers", "reader-beside-writers", "reader_latency_ns_p99", {"writers": 3},
     ("write_bytes_per_s", "reader_latency_ns_mean")),
    ("newcomer beside writers", "newcomer", "newcomer_latency_ns_mean", {"writers": 2},
     ("write_bytes_per_s", "newcomer_latency_ns_p99")),
    ("dd 2 KiB", "calls", "elapsed_s", {"block_bytes": 2048, "total_bytes": 1 << 20}, ("cpu_s",)),
    ("dd 512 B", "calls", "elapsed_s", {"block_bytes": 512, "total_bytes": 1 << 20}, ()),
    ("dd 1 KiB", "calls", "elapsed_s", {"block_bytes": 1024, "total_bytes": 1 << 20}, ("cpu_s",)),
    ("dd 4 KiB", "calls", "elapsed_s", {"block_bytes": 4096, "total_bytes": 1 << 20}, ()),
    ("dd 8 KiB", "calls", "elapsed_s", {"block_bytes": 8192, "total_bytes": 1 << 20}, ()),
    ("build", "command", "elapsed_s", {"argv": ["make", "-j", "all"], "user": "ann"},
     ("elapsed_synced_s", "rss_bytes")),
    ("unpack", "command", "elapsed_synced_s", {"argv": ["tar", "x"], "prepare_run": "sync"}, ()),
    ("idle", "x", "iops", {}, (P99,)),
    ("fsync", "database", "transactions_per_s", {"clients": 4}, ("commit_latency_ns_p99",)),
    ("crowd", "calculation", "calculations_per_cpu_s", {"processes": 3}, ("calculations",)),
)  # fmt: skip


def details(
    rng: random.Random, works: Sequence[Workload], names: Sequence[str], blocks: Sequence[int]
) -> dict[str, Any]:
    """Histograms, rates, latencies and waits of some of the candidates on some workloads."""
    found: dict[str, Any] = {k: {} for k in ("histograms", "series", "latencies")}
    explanations: dict[Any, Any] = {}
    for work in works[:3]:
        for name in rng.sample(names, rng.randint(1, len(names))):
            at = work.label, name
            low = rng.randint(10, 60)
            found["histograms"][at] = tuple(
                (int(1e3 * 1.1**n), int(1e3 * 1.1 ** (n + 1)), rng.randint(1, 4000))
                for n in range(low, low + 40))  # fmt: skip
            groups = rng.sample(GROUPS, rng.randint(1, 3))
            found["series"][at] = tuple(
                RateSeries(block, group, "B/s", 0.5,
                           tuple(1e6 * rng.lognormvariate(0, 0.3) * (1 + t * rises)
                                 for t in range(rng.randint(12, 70))),
                           rng.choice((0.0, 1.5)))
                for group in groups for block in blocks[:3]
                for rises in ((group == groups[-1]) * 0.1,))  # fmt: skip
            found["latencies"][at] = tuple(
                LatencySeries(blocks[0], group, tuple(
                    (100 * t, 1000 << bits, 1800 << bits, rng.randint(1, 50))
                    for t in sorted(rng.sample(range(60), 9))
                    for bits in rng.sample(range(16), 2)))
                for group in groups)  # fmt: skip
            explanations[at] = tuple(
                Explanation(group, *(rng.random() / 100 for _ in range(2)), rng.random() / 5,
                            rng.choice((2.0, 3.0, 7.0, 12.0)), 3.0, rng.randint(50, 900),
                            rng.choice((0, 0, 40)), 0.1, (2.0, 7.0 * rng.random()),
                            rng.random() / 500, rng.random() < 0.3,
                            rng.choice((0.0, 0.0, 30.0)), 0.4, 3e6 * rng.random(),
                            rng.random() / 90, rng.choice((0.0, 1.0, 1.4)),
                            rng.choice((0.0, 0.0, 0.0, 0.05)))
                for group in rng.sample(groups, len(groups)))  # fmt: skip
    return {**found, "explanations": explanations}


class Stranger:
    """One drawn result; `record` has all of it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.seed = seed
        self.names = rng.sample(NAMES, rng.randint(2, 5))
        self.base = rng.choice(self.names)
        picked = rng.sample(WORKS, rng.choice((3, 5, 6, 8, 16)))
        weights = rng.random() < 0.2
        self.works = [
            Workload(label, kind, metric, parameters, secondary,
                     rng.choice((1.0, 2.0, 5.0)) if weights else 1.0, label == "idle")
            for label, kind, metric, parameters, secondary in picked
        ]  # fmt: skip
        self.blocks = [7 + n for n in range(rng.choice((2, 4, 6, 7, 8, 9)))]
        self.arms = [*self.names, *([self.base + AA_SUFFIX] if rng.random() < 0.6 else [])]
        self.at = datetime(2026, 3, 14, 9, 26, tzinfo=UTC)
        self.level = {(w.label, n): rng.choice((1, 1, 1.02, 1.3, 4)) for w in self.works
                      for n in self.names}  # fmt: skip
        self.hosts = rng.choice((0, 0, 0, 0, 4))
        self.sessions = rng.choice((1, 1, 1, 3))
        self.last: dict[str, str] = {}
        self.kind: Any = rng.choice(("io", "io", "io", "cpu", "import"))

    def lognormal(self, sd: float = 0.3) -> float:
        return math.exp(self.rng.gauss(0, sd))

    def metrics(self, work: Workload, name: str) -> dict[str, float]:
        level = self.level[work.label, name.removesuffix(AA_SUFFIX)]
        if self.seed % 4 == 0 and self.last.get(work.label) == self.names[-1]:
            level *= 1.4  # it leaves something to do for whoever follows
        self.last[work.label] = name
        sd, found = (0.004, 0.02, 0.07)[self.seed % 3], {}
        for metric in (work.metric, *work.secondary):
            up = METRICS[metric].higher_is_better
            usual = 2e6 if metric.endswith("_bytes_per_s") or "_ns_" in metric else 3.0
            usual *= 0.2 + 300 / work.parameters.get("block_bytes", 1e9)
            value = usual * (1 / level if up else level) * self.lognormal(sd)
            if metric == work.metric or self.rng.random() < 0.95:
                found[metric] = round(value) + 0.0 if self.seed % 5 == 0 else value
        if work.kind == "command":
            found |= {key: self.rng.lognormvariate(0, 0.3) for key in ("user_s", "system_s")}
        return found

    def properties(self, work: Workload, name: str) -> dict[str, Any]:
        rng = self.rng
        facts: dict[str, Any] = {
            "engine": rng.choice(("psync", "io_uring")), "cpu_share": rng.random(),
            "driver_tags": rng.choice((32, 64)), "rotational": 0,
        }  # fmt: skip
        if rng.random() < 0.5:
            facts["calls"] = rng.randint(3, 9)
        if work.kind == "calculation":
            keys = ("bursts", "cpu_burst_s", "calculations")[: rng.choice((2, 3, 3))]
            facts["workers"] = [{key: 5.0 * self.rng.lognormvariate(0, 0.3) for key in keys}
                                for _ in range(rng.randint(1, 4))]  # fmt: skip
        if work.kind in ("database", "calls"):
            parts = {f"{part}_s": rng.random() for part in ("data", "journal", "flush")}
            facts["durability"] = {
                "calls": rng.randint(1, 9),
                **parts,
                "written": {
                    who: rng.randint(1, 9) << 20 for who in rng.sample(("", "dd", "cat", "git"), 3)
                },
            }
        if work.kind == "file-test":
            fades = 1.5 if name == self.names[1] and self.seed % 3 == 1 else 1.0
            facts["halves"] = [{work.metric: self.lognormal(0.02) * (1.0, fades)[at]}
                               for at in range(2)]  # fmt: skip
        if work.kind == "reader-beside-writers":
            facts |= {"share_asked": 0.8, "share_reached": rng.random()}
        if work.kind == "command":
            facts["left_behind"] = rng.sample(("a", "b", "c"), rng.randint(0, 2))
            facts["launch_cost_s"] = rng.random() / 50
        return facts

    def attempts(self, work: Workload, name: str, block: int, position: int) -> list[Run]:
        rng = self.rng
        self.at += timedelta(seconds=rng.randint(1, 4))
        host = f"h{block % self.hosts}" if self.hosts else ""
        session = f"b{block % self.sessions}-{block % 2}"
        bound = "at-most" if METRICS[work.metric].higher_is_better else "at-least"
        bounds = {work.metric: bound} if rng.random() < 0.03 else {}
        gates = tuple(GateFinding(gate, f"{gate}: {rng.randint(1, 3)} ms", gate != "unsettled")
                      for gate in rng.sample(GATES, rng.randint(1, 3)))  # fmt: skip
        run = Run(block, position, work.label, name, 7, 1, "ok", self.at.isoformat(),
                  1 + rng.random(), self.metrics(work, name), (), self.properties(work, name),
                  {}, bounds, session, host)  # fmt: skip
        lost = replace(run, attempt=0, status="discarded", gates=gates)
        fate = rng.random()
        if self.seed % 6 == 0 and name == self.names[0] != self.base:
            fate = 0.0
        if fate < 0.04:
            return [replace(lost, attempt=at) for at in range(3)]
        mild = [replace(run, gates=gates[-1:])] if gates[-1].gate == "unsettled" else [run]
        return [lost, *mild] if fate < 0.1 else mild if fate < 0.97 else []

    def experiment(self) -> Experiment:
        rng, works = self.rng, self.works
        measured = [w.label for w in works]
        candidates = tuple(
            Candidate(n, {"scheduler": n, "fifo": 3, "sysctl.vm.y": 4, f"sysctl.vm.z{at}": 5})
            for at, n in enumerate(self.names))  # fmt: skip
        requires = tuple(Require(w.label, w.metric, 2.5e6, rng.random() < 0.5)
                         for w in rng.sample(works, 2)) if rng.random() < 0.4 else ()  # fmt: skip
        statements = tuple(
            Statement(f"says {n}", w.metric, tuple(x.label for x in works if x.metric == w.metric),
                      tuple(self.names), rng.choice(("", self.base)), published=f"{n}.5",
                      take=rng.choice(("largest", "smallest")), least=rng.choice((None, 0.9)))
            for n, w in enumerate(works[:3]))  # fmt: skip
        alike = tuple(w.label for w in works if w.metric == works[-1].metric)
        statements += (Statement("over each", works[-1].metric, alike[:1], tuple(self.names[:2]),
                                 self.base, alike, published="1.5"),)  # fmt: skip
        published = tuple(PublishedMean(n, f"group {at}", tuple(measured[: at + 1]), 2.0 + at,
                                        "s", 1e6, 0.1)
                          for at, n in enumerate(self.names))  # fmt: skip
        target = Target(rng.choice(("scratch", "device", "directory")), "/dev/sdb", 1 << 30)
        return Experiment(
            f"Stranger {self.seed}", self.kind, target, candidates, tuple(works), self.base, 7,
            Stopping(blocks=len(self.blocks), sessions=self.sessions), requires=requires,
            aa_arm=len(self.arms) > len(self.names), notes=("first note", "second, longer note"),
            objective=rng.choice(("throughput", "throughput", "latency", "responsiveness")),
            omitted=("huge", "slow"), statements=statements,
            published=published if self.kind == "import" else (),
            shares=rng.choice(("", "", "equal")),
        )  # fmt: skip

    @property
    def record(self) -> Record:
        rng, runs, cells = self.rng, [], []
        for block in self.blocks:
            for work in rng.sample(self.works, len(self.works)):
                for name in rng.sample(self.arms, len(self.arms)):
                    position = len(cells)
                    cells.append(Cell(block, position, work.label, name, 7))
                    other_boot = work is self.works[1] and block % self.sessions
                    late = block == self.blocks[1] and name == self.names[0] and self.seed % 6 == 1
                    if late or (other_boot and self.seed % 2):
                        continue
                    if not (work is self.works[-1] and name == self.names[-1] and self.seed % 2):
                        runs += self.attempts(work, name, block, position)
        first = (self.at - timedelta(days=2)).isoformat()
        runs[len(runs) // 2] = replace(runs[len(runs) // 2], started_at=first)
        device = {"name": "sdb", "model": "Disk 9", "queue": {"nr_requests": "64", "rotational": 1}}
        host: dict[str, Any] = {
            "kernel": {"release": "6.18.0"}, "cpu": {"model": "Example", "online": 2},
            "memory": {"total_bytes": 5 << 30}, "device": device,
            "block_devices": {"sdb": device, "sda": {"model": "Disk 1", "sizes": [4, 2, 3]}},
            "layers": [{"name": "dm-0"}, {"name": "md1"}],
        }  # fmt: skip
        if self.hosts:
            of = {f"h{n}": {"cpu": {"model": f"c{n % 2}"},
                            "measured_device": {"model": f"d{n // 3}", "firmware": "1"}}
                  for n in range(self.hosts)}  # fmt: skip
            host = {"hosts": of}
        planning = Planning(len(self.blocks), omitted={"late one": "budget", "small": "no-value"})
        return Record(self.experiment(), Plan(tuple(cells)), tuple(runs), host, planning=planning,
                      notices=("runs.jsonl: line 3 is damaged", "host.json: cut"),
                      **details(rng, self.works, self.names, self.blocks))  # fmt: skip


CODES = ("nothing", "one-run", "unbounded", "doubt", "best", "same", "same-0", "trade",
         "trade-open", "keep", "for-now")  # fmt: skip
ROWS = (("w time", "elapsed_s"), ("w rate", "iops"), ("reader beside writers",
        "reader_latency_ns_mean"), ("w bytes", "throughput_bytes_per_s"), ("w p99", P99),
        ("newcomer beside writers", "newcomer_latency_ns_mean"))  # fmt: skip
FURTHER = (("cpu_s", ""), ("write_bytes_per_s", "writers"), ("latency_ns_mean", "copy"))


KNEES = ("knee", "low", "high", "slope_before", "slope_after")


def _cell(rng: random.Random) -> CellAnswer:
    """A cell that leads, that is the best, that is behind, or of which nothing is bounded."""
    loss = rng.choice((0.0, 0.0, rng.random() / 9, rng.random() * 6))
    low = loss * rng.choice((0.0, 0.5, 0.9))
    up = rng.choice((loss, loss * 1.5 + 0.01, loss + 2, None))
    return CellAnswer(10 ** rng.uniform(0, 9), loss, low, up, up == 0, up is None, 7,
                      rng.choice((0, 0, 0, 2, 7)))  # fmt: skip


def _rows(rng: random.Random) -> list[Row]:
    """Rows of workloads, some of a mix, with some of their further metrics."""
    rows: list[Row] = []
    has_mix = rng.random() < 0.3
    for at, (label, metric) in enumerate(rng.sample(ROWS, rng.randint(1, 5))):
        counted = at == 0 or rng.random() < 0.8
        why = "" if counted else rng.choice(("not-positive", "other-goal", "control"))
        role = "part" if has_mix else "primary"
        rows.append(Row(label, label, METRICS[metric], role, 0.02, counted and not has_mix, why,
                        rng.choice((0.25, 0.25, 0.5)) if has_mix else 0.0, blocks=7,
                        exact=rng.random() < 0.1))  # fmt: skip
        rows += [Row(f"{label}: {name}", label, METRICS[name], "secondary", 0.02, False,
                     actor=actor, blocks=7)
                 for name, actor in rng.sample(FURTHER, rng.randint(0, 3))]  # fmt: skip
    if has_mix:
        rows.insert(0, Row(MIX, MIX, None, "mix", 0.02, True, blocks=7))
    return rows


def _curves(rng: random.Random, names: tuple[str, ...], real: list[Row]) -> dict[str, Any]:
    """Knees, statements and pairs of metrics, of each candidate one."""
    knees = tuple(
        KneeFigure(reason=rng.choice(("knee", "straight", "edge", "too few values")),
                   family=f"test {rng.randint(1, 3)}", size=rng.choice(("record_bytes", "alpha")),
                   candidate=n, metric=METRICS["iops"],
                   **{key: 10 ** rng.uniform(1, 6) for key in KNEES})
        for n in names
    )  # fmt: skip
    statements = tuple(
        ComparedStatement(f"says {n}", f"{n} %", rng.choice((None, rng.random())),
                          rng.choice((None, True, False)), rng.choice(("", real[0].workload)), n)
        for n in names
    )  # fmt: skip
    pareto = {
        row.workload: tuple(ParetoPoint(n, 1e6 * rng.random(), 1e6 * rng.random(), "iops", P99,
                                        tuple(rng.sample(names, 2))) for n in names)
        for row in real if row.role != "secondary"
    }  # fmt: skip
    return {"knees": knees, "statements": statements, "pareto": pareto}


def drawn_answer(rng: random.Random, depth: int = 0) -> Answer:
    """An answer with parts that need not fit each other: all that words are made of."""
    names = tuple(rng.sample(NAMES, rng.randint(2, 4)))
    rows = _rows(rng)
    cells = {row.name: {n: _cell(rng) for n in names if rng.random() < 0.95} for row in rows}
    take, base = rng.choice(names), rng.choice(names)
    bounded = next(row.name for row in rows if row.counted)
    cells[bounded][take] = CellAnswer(3.0, 0.2, 0.0, 0.4, runs=7)

    def loss(name: str, row: str) -> Loss:
        of = cells[row].get(name) or _cell(rng)
        return Loss(name, row, of.loss, of.low, of.up, of.open)

    def some(row: bool = True) -> Loss | None:
        return loss(rng.choice(names), rng.choice(counted or rows[0].name)) if row else None

    counted: Any = [row.name for row in rows if row.counted]
    real = [row for row in rows if row.role != "mix"]
    prices = [loss(take, row.name) for row in rows if row.role == "secondary"]
    kinds = ("control", "aa", "carry-over", "halves", "candidate-time", "unsteady", "aa")
    doubts = [Doubt(kind, rng.choice(real).name, tuple(rng.sample(names, 2)), rng.random(),
                    rng.choice((None, rng.random())))
              for kind in rng.sample(kinds, rng.randint(1, 5))]  # fmt: skip
    requirements = [
        Requirement(row.name, 10 ** rng.uniform(0, 7), rng.random() < 0.5,
                    {n: rng.choice(("met", "missed", "open")) for n in names})
        for row in rng.sample(real, min(len(real), rng.choice((0, 0, 2, 3))))
    ]  # fmt: skip
    unfit = [
        Unfit(n, row, rng.choice((0, 0, 1)) if row else 0, rng.randint(2, 9),
              tuple(rng.sample(GATES, rng.randint(0, 3))))
        for n in rng.sample((*NAMES, "", ""), rng.choice((0, 0, 2, 3)))
        for row in (rng.choice(("", *(row.name for row in real))),)
    ]  # fmt: skip
    wild = DecisiveRun(rng.randint(1, 9), rng.choice(names), rng.choice(real).name,
                       rng.uniform(1.5, 9), rng.random() < 0.5, rng.choice(names),
                       rng.random(), rng.choice(CODES[4:]))  # fmt: skip
    parts = [names[:1], names[1:]] if depth == 0 and rng.random() < 0.15 else []
    rungs = (Rung("this-boot", 0.1), Rung("next-boot", rng.choice((None, 0.3, 0.0)), 3),
             Rung("layout", rng.choice((None, 0.5)), 2))  # fmt: skip
    curves = _curves(rng, names, real)
    return Answer(
        rng.choice(CODES), take, base, names, rng.choice((None, rng.random())), rng.random(), 0.02,
        rng.choice((0, 2, 7)), rng.choice((1, 2, 7)), rng.choice(("blocks", "sessions", "runs")),
        rng.choice(("this-boot", "boots", "runs")), tuple(rows), tuple(counted), cells,
        tuple(rng.sample(names, 2)), rng.choice(counted), some(take != base), some(),
        rng.choice((None, rng.random())), tuple(rng.sample(prices, rng.randint(0, len(prices)))),
        tuple(doubts), rungs if rng.random() < 0.3 else (), tuple(requirements),
        tuple(n for n in names if n != take)[: rng.choice((0, 0, 1))],
        some(rng.random() < 0.3), tuple(unfit),
        rng.choice((None, Advice(rng.randint(1, 9), rng.random(), 60.0))),
        wild if rng.random() < 0.3 else None,
        tuple(OfGuarantee(("memory", "")[at], of, drawn_answer(rng, 1) if at else None)
              for at, of in enumerate(parts)),
        level=0.7, seconds=17.0, **curves,
        goal=rng.choice((None, "latency", "fairness")),
    )  # fmt: skip
