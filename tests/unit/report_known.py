"""A result whose every figure is a round number, and a reader of the tables of a page.

All runs of a candidate are its level times 1/2, 1, 1 and 2 in the four blocks, so that geometric
means are the level and arithmetic means 1.125 times it. The first block is number 2 in the files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

import report_verdicts as verdicts

from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.spec import (
    METRICS,
    Candidate,
    Cell,
    Experiment,
    Explanation,
    Flag,
    GateFinding,
    Headline,
    KneeFigure,
    Pair,
    ParetoPoint,
    Plan,
    Population,
    RateSeries,
    Record,
    Run,
    Segment,
    Stopping,
    Target,
    Verdict,
    Workload,
    WorkloadVerdict,
)

NAMES = ("none", "kyber", "bfq")
SMALL, LARGE, READERS, CACHED = "read 4 KiB", "read 1 MiB", "readers", "cached"
RATE, WAIT, WRITES = "throughput_bytes_per_s", "reader_latency_ns_mean", "write_bytes_per_s"
TAIL = "reader_latency_ns_p99"
# workload -> metric, level of the baseline, and the levels of the others relative to it
LEVELS: Mapping[str, tuple[str, float, float, float]] = {
    SMALL: (RATE, 100e6, 1.25, 0.8),
    LARGE: (RATE, 400e6, 1.0, 0.5),
    READERS: (WAIT, 4e6, 0.5, 1.25),
    CACHED: (RATE, 8e9, 1.0, 1.0),
}
BY_BLOCK = {2: 0.5, 3: 1.0, 4: 1.0, 5: 2.0}
SAME: verdicts.Outcome = (1.0, 0.99, 1.01, "equivalent")
TITLE_SVG = "Bursts &amp; more"
SVG = f"<svg><title>{TITLE_SVG}</title></svg>"


def work(label: str, kyber: verdicts.Outcome, bfq: verdicts.Outcome) -> WorkloadVerdict:
    metric, level, _, _ = LEVELS[label]
    return verdicts.of_workload(label, metric, level, {"kyber": kyber, "bfq": bfq}, blocks=4)


def workloads() -> list[WorkloadVerdict]:
    small = work(SMALL, (1.25, 1.2, 1.3, "better"), (0.8, 0.75, 0.85, "worse"))
    first, second, between = small.pairs
    between = dataclasses.replace(
        between, blocks_needed=(4, 12), codes=("fragile", "two-modes"), hodges_lehmann=1.5, p=0.25
    )
    small = dataclasses.replace(small, pairs=(first, second, between))
    large = work(LARGE, SAME, (0.5, 0.4, 0.625, "worse"))
    readers = work(READERS, (0.5, 0.4, 0.625, "better"), (1.25, 1.1, 1.4, "worse"))
    readers = dataclasses.replace(
        readers, change_points=(4,), margin=0.05,
        segments=(Segment(2, 3, readers.pairs[:1]), Segment(4, 5, readers.pairs[1:2])),
    )  # fmt: skip
    return [large, small, readers, work(CACHED, SAME, (1.0, 0.9, 1.1, "undecided"))]


def further() -> dict[str, tuple[WorkloadVerdict, ...]]:
    """The writers beside the readers, a tail that bfq makes worse, and one that nobody does."""
    outcomes = {"kyber": SAME, "bfq": (0.8, 0.75, 0.85, "worse")}
    writers = verdicts.of_workload(READERS, WRITES, 1e9, outcomes, blocks=4, actor="writers")
    outcomes = {"kyber": SAME, "bfq": (2.5, 2.0, 3.0, "worse")}
    tail = verdicts.of_workload(READERS, TAIL, 2e7, outcomes, blocks=4)
    outcomes = {"kyber": SAME, "bfq": SAME}
    quiet = verdicts.of_workload(READERS, "cpu_s", 2.0, outcomes, blocks=4)
    return {READERS: (writers, tail, quiet)}


def pareto() -> dict[str, tuple[ParetoPoint, ...]]:
    def point(name: str, speed: float, wait: float, by: tuple[str, ...] = ()) -> ParetoPoint:
        return ParetoPoint(
            name, speed, 0.95 * speed, 1.05 * speed, wait, 0.9 * wait, 1.1 * wait, RATE,
            "latency_ns_p99", by,
        )  # fmt: skip

    open_ended = dataclasses.replace(point("none", 4e8, 5e6), latency_low=None)
    return {
        LARGE: (open_ended, point("kyber", 4e8, 4e6)),
        SMALL: (
            point("none", 100e6, 2e5),
            point("kyber", 120e6, 1e5),
            point("bfq", 80e6, 4e5, ("none", "kyber")),
        ),
    }


def knees() -> tuple[KneeFigure, ...]:
    def knee(name: str, reason: str, *figures: float) -> KneeFigure:
        return KneeFigure("read", "record_bytes", name, METRICS[RATE], reason, *figures)  # type: ignore[arg-type]

    return (
        knee("none", "knee", 65536, 32768, 131072, 0.75, 0.25),
        knee("kyber", "edge", 1572864, 1048576, 2097152, 0.5, 0.5),
        knee("bfq", "straight"),
        knee("", "too few values"),
    )


def outlier(block: int) -> Flag:
    return Flag("outlier", SMALL, ("bfq",), {"block": block, "factor": 0.1})


FLAGS = (*(outlier(n) for n in range(1, 7)), Flag("steady-assumed", values={"blocks": 4}))
OVERALL = (
    Pair("kyber", "none", 1.2, 1.1, 1.3, "better", p=0.01),
    Pair("bfq", "none", 0.8, 0.7, 0.9, "worse", p=0.02),
)


def verdict() -> Verdict:
    gain = verdicts.fact("kyber", "none", 1.2, 1.1, 1.3, "").values()
    values = {"best": "kyber", "baseline": "none", "gain": gain, "price": None, "losers": []}
    of = verdicts.verdict_of(
        Headline("winner", values), workloads(), further(), flags=FLAGS, pareto=pareto(),
        knees=knees(), population=Population(4, 4, 2, 3, "", 200.0),
    )  # fmt: skip
    overall = dataclasses.replace(of.overall, pairs=OVERALL, metric=None, margin=0.03, mdd=0.15)
    return dataclasses.replace(of, overall=overall)


KNOB = GateFinding("knob-changed", "scheduler: none -> bfq")
SWAP = GateFinding("strange-thing", "5 pages")


def runs() -> list[Run]:
    """One failed attempt that was repeated, one cell that never passed, one remark."""
    every: list[Run] = []

    def add(label: str, name: str, block: int, factor: float, attempt: int = 1, **more) -> None:
        metric, level, _, _ = LEVELS[label]
        metrics = {metric: level * factor * BY_BLOCK[block]}
        if label == READERS:
            metrics[WRITES] = 1e9 * factor
        time = f"2026-03-{10 + block}T09:26:00+00:00"
        status = more.pop("status", "ok")
        every.append(
            Run(block, len(every), label, name, 7, attempt, status, time, 1.5, metrics, **more)
        )

    for block in BY_BLOCK:
        for label, (_, _, kyber, bfq) in LEVELS.items():
            factors = {"none": 1.0, "kyber": kyber, "bfq": bfq, "none (A/A)": 1.0}
            for name, factor in factors.items():
                if (label, name, block) == (LARGE, "bfq", 5):
                    for attempt in range(3):
                        add(label, name, block, factor, attempt, status="discarded", gates=(KNOB,))
                    continue
                if (label, name, block) == (READERS, "none", 3):
                    add(label, name, block, 9.0, 0, status="discarded", gates=(KNOB, SWAP))
                noted = (SWAP,) if (label, name, block) == (CACHED, "bfq", 4) else ()
                add(label, name, block, factor, gates=noted)
    return every


HOST = {
    "hostname": "lab1",
    "kernel": {"release": "6.18.0", "version": ""},
    "cpu": {"model": "Example 3000", "flags": ["a", "b"], "caches": [{"level": 1}, {"level": 2}]},
    "notes": "x" * 401,
    "short": "y" * 400,
    "nothing": None,
    "device": {"name": "loop7", "queue": {"nr_requests": "128", "rotational": "0"}},
}
# Upper ends 1, 2, 4 and 8 µs; 12,000 requests, so that 99.9 % still have 12 beyond them.
HISTOGRAM = ((4000, 8000, 12), (0, 1000, 6000), (1000, 2000, 5400), (2000, 4000, 588))
RATES = {
    "none": ((10e3, 20e3, 30e3), (12e3, 26e3, 50e3), (14e3, 29e3, float("nan"))),
    "kyber": ((40e3, 40e3, 40e3),),
}


def record() -> Record:
    candidates = tuple(Candidate(name, {"scheduler": name}) for name in NAMES)
    parameters = {
        LARGE: {"test": "read", "record_bytes": 1 << 20, "depth": 8},
        SMALL: {"test": "read", "record_bytes": 4096, "depth": 8},
        READERS: {"writers": 2},
        CACHED: {"depth": 8},
    }
    works = tuple(
        Workload(
            label, "interference" if label == READERS else "file-test", LEVELS[label][0], of,
            negative_control=label == CACHED,
        )
        for label, of in parameters.items()
    )  # fmt: skip
    every = runs()
    keys = [run.key for run in every if run.attempt in (0, 1)]
    cells = tuple(Cell(b, i, w, c, i) for i, (b, w, c) in enumerate(dict.fromkeys(keys)))
    experiment = Experiment(
        "Known figures", "io", Target("scratch", "/var/tmp", 3 << 30), candidates, works, "none",
        42, Stopping(blocks=4), margin=0.03, notes=("the disk was new",),
    )  # fmt: skip
    explanations = {
        (READERS, "none"): (Explanation("readers", 1e-3, 0.0, 3e-3, 40, bin_s=0.5,
                                        depth_series=(30.0, 50.0), requests=90),),
        (READERS, "kyber"): (Explanation("readers", 0.0, 4e-4, 1.6e-3, 3, bin_s=0.5,
                                         depth_series=(2.0, 3.0, 4.0), requests=90),),
    }  # fmt: skip
    series = {
        (READERS, name): tuple(
            RateSeries(2 + i, "readers", "1/s", 0.5, values, 0.5) for i, values in enumerate(each)
        )
        for name, each in RATES.items()
    }
    histograms = {(READERS, "none"): HISTOGRAM, (READERS, "bfq"): ((0, 1000, 20),)}
    return Record(
        experiment, Plan(cells), tuple(every), HOST, histograms, ("One file was repaired.",),
        (SVG,), series, explanations,
    )  # fmt: skip


def view(lang: str = "en") -> View:
    return View(record(), verdict(), Texts(lang))


def changed(**parts: dict[str, Any]) -> View:
    """The known result with some fields of its parts replaced: `population`, `overall`, …"""
    measured, concluded = record(), verdict()
    for name, values in parts.items():
        if name == "record":
            measured = dataclasses.replace(measured, **values)
        elif name == "verdict":
            concluded = dataclasses.replace(concluded, **values)
        elif name == "experiment":
            experiment = dataclasses.replace(measured.experiment, **values)
            measured = dataclasses.replace(measured, experiment=experiment)
        else:
            part = dataclasses.replace(getattr(concluded, name), **values)
            concluded = dataclasses.replace(concluded, **{name: part})
    return View(measured, concluded, Texts("en"))


@dataclasses.dataclass
class Read:
    """A cell as a reader sees it, without the pictures in it."""

    text: str = ""
    kind: str = ""
    span: int = 1
    label: str = ""


@dataclasses.dataclass
class Table:
    """A table of a page: its caption, and its rows with the head first."""

    caption: str = ""
    rows: list[list[Read]] = dataclasses.field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Each row as `a | b | c`."""
        return [" | ".join(cell.text for cell in row) for row in self.rows]

    @property
    def kinds(self) -> list[str]:
        """The classes of the cells of each row below the head."""
        return [" | ".join(cell.kind for cell in row) for row in self.rows[1:]]


class Tables(HTMLParser):
    """Every table of a page in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[Table] = []
        self.where = ""
        self.pictures = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        at = dict(attrs)
        if tag == "svg":
            self.pictures += 1
        elif tag == "table":
            self.tables.append(Table())
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("th", "td"):
            span, label = int(at.get("colspan") or 1), at.get("data-label") or ""
            self.tables[-1].rows[-1].append(Read("", at.get("class") or "", span, label))
        if tag in ("caption", "th", "td"):
            self.where = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == "svg":
            self.pictures -= 1
        elif tag in ("caption", "table"):
            self.where = ""

    def handle_data(self, data: str) -> None:
        data = data.replace("\u00a0", " ")
        if self.pictures or not self.where:
            return
        if self.where == "caption":
            self.tables[-1].caption += data
        else:
            self.tables[-1].rows[-1][-1].text += data


def tables(page: str, caption: str = "") -> list[Table]:
    """The tables of a page, or those with that caption."""
    return [each for each in Tables(page).tables if caption in ("", each.caption)]


# Every table of the page that is alone under its caption.
FIRST = [
    "Workload | none | kyber | bfq",
    "read 1 MiB | 400 MB/s | same | 2.0× slower ▼",
    "read 4 KiB | 100 MB/s | 25 % faster ▲ | 20 % slower ▼",
    "readers | 4.0 ms | 2.0× shorter ▲ | 25 % longer ▼",
    "its writers | 1.0 GB/s | same | 20 % slower ▼",
    "p99 reader latency | 20 ms | same | 2.5× longer ▼",
    "cached | 8.0 GB/s | same | ?",
]
ONE_EACH = {
    "Every workload, every candidate": FIRST,
    "readers: where a request of the readers waits": [
        "Candidate | for a tag, ms | in the scheduler, ms | in the device, ms"
        " | depth in the device",
        "none | 1.0 | 0 | 3.0 | 40",
        "kyber | 0 | 0.40 | 1.6 | 3.0",
    ],
    "readers: depth in the device": [
        "Time, s | none | kyber",
        "0.25 | 30 | 2.0",
        "0.75 | 50 | 3.0",
        "1.2 |  | 4.0",
    ],
    "mean reader latency: lower is better": [
        "Candidate | mean reader latency, ms | 95 % interval | Against none | Runs",
        "none | 4.00 | 3.92 to 4.08 | – | 8",
        "kyber | 2.00 | 1.94 to 2.06 | 2.0× shorter ▲ | 4",
        "bfq | 5.00 | 4.85 to 5.15 | 25 % longer ▼ | 4",
    ],
    "readers: the readers over time": [
        "Time, s | none, k/s | kyber, k/s",
        "0.25 | 12.0 | 40.0",
        "0.75 | 26.0 | 40.0",
        "1.2 | 40.0 | 40.0",
    ],
    "A percentile is printed only where enough requests are beyond it.": [
        "Candidate | p50 | p90 | p99 | p99.9 | p99.99 | Count",
        "none | 1.00 µs | 2.00 µs | 4.00 µs | 4.00 µs | – | 12,000",
        "bfq | 1.00 µs | – | – | – | – | 20",
    ],
    "Blocks 1 to 2 by themselves": [
        "Pair | How much | 95 % interval | Verdict",
        "kyber against none | 2.0× shorter | 1.6 to 2.5× | ▲ better",
    ],
    "Blocks 3 to 4 by themselves": [
        "Pair | How much | 95 % interval | Verdict",
        "none against bfq | 20 % shorter | 9 to 29 % | ▲ better",
    ],
    "Further metrics": [
        "Metric | none | kyber | bfq",
        "write throughput | 1.0 GB/s | 1.0 GB/s; same | 800 MB/s; 20 % slower ▼",
        "p99 reader latency | 20 ms | 20 ms; same | 50 ms; 2.5× longer ▼",
        "CPU time | 2.0 s | 2.0 s; same | 2.0 s; same",
    ],
    "Every pair, over all workloads": [
        "Pair | How much | 95 % interval | Verdict",
        "kyber against none | 20 % better | 10 to 30 % | ▲ better",
        "none against bfq | 25 % better | 11 to 43 % | ▲ better",
    ],
    # Logs of 1/2, 1, 1, 2: Student's t of 3 degrees, 3.182, times √(2/3/4) is a factor of 2.461.
    # bfq has no last block of the large records: 126.5 / ∛2, and a factor of 2.702.
    "Throughput, mean of all record sizes": [
        "Test | none, MB/s | 95 % interval | kyber, MB/s | 95 % interval | bfq, MB/s"
        " | 95 % interval",
        "read | 200 | 81.3 to 492 | 224 | 90.9 to 550 | 100 | 37.2 to 271",
    ],
    "Mean reader latency by workload": [
        "Test | none, ms | 95 % interval | kyber, ms | 95 % interval | bfq, ms | 95 % interval",
        "readers | 4.00 | 3.92 to 4.08 | 2.00 | 1.94 to 2.06 | 5.00 | 4.85 to 5.15",
    ],
    "Throughput by workload": [
        "Test | none, GB/s | 95 % interval | kyber, GB/s | 95 % interval | bfq, GB/s"
        " | 95 % interval",
        "cached | 8.00 | 7.84 to 8.16 | 8.00 | 7.76 to 8.24 | 8.00 | 7.76 to 8.24",
    ],
    "read: throughput by record size": [
        "Record size | none | kyber | bfq",
        "4 KiB | 100 MB/s (98.0 to 102) | 125 MB/s (121 to 129) | 80.0 MB/s (77.6 to 82.4)",
        "1 MiB | 400 MB/s (392 to 408) | 400 MB/s (388 to 412) | 200 MB/s (194 to 206)",
    ],
    "read: against none by record size": [
        "Record size | kyber | bfq",
        "4 KiB | 25 % faster ▲ | 20 % slower ▼",
        "1 MiB | same | 2.0× slower ▼",
    ],
    "read 4 KiB": [
        "Candidate | throughput, MB/s | 95 % interval | p99 latency, µs | 95 % interval"
        " | Dominated by",
        "none | 100 | 95.0 to 105 | 200 | 180 to 220 | –",
        "kyber | 120 | 114 to 126 | 100 | 90.0 to 110 | –",
        "bfq | 80.0 | 76.0 to 84.0 | 400 | 360 to 440 | none and kyber",
    ],
    "read 1 MiB": [
        "Candidate | throughput, MB/s | 95 % interval | p99 latency, ms | 95 % interval"
        " | Dominated by",
        "none | 400 | 380 to 420 | 5.00 | – | –",
        "kyber | 400 | 380 to 420 | 4.00 | 3.60 to 4.40 | –",
    ],
    "Where the curves bend": [
        "Test | Candidate | Knee (throughput, record size) | 95 % interval | Exponents | Remark",
        "read | none | 64 KiB | 32 KiB to 128 KiB | 0.75 → 0.25 | ",
        "read | kyber | 1.5 MiB | 1 MiB to 2 MiB | 0.50 | the interval reaches the end of the"
        " tested sizes: test further sizes",
        "read | bfq | – | – | – | no knee: one straight line fits as well",
    ],
    "Mean of each block against the mean of all, over all workloads": [
        "Block | none | kyber | bfq",
        "1 | 0.500 | 0.500 | 0.500",
        "2 | 1.000 | 1.000 | 1.000",
        "3 | 1.000 | 1.000 | 1.000",
        "4 | 2.000 | 2.000 | 2.000",
    ],
    "Checks of every run": [
        "Workload | Block | Check | Finding | Then",
        "readers, none | 2 | setting changed | scheduler: none -> bfq | run repeated",
        "readers, none | 2 | strange thing | 5 pages | run repeated",
        "cached, bfq | 3 | strange thing | 5 pages | noted, run kept",
        *["read 1 MiB, bfq | 4 | setting changed | scheduler: none -> bfq | omitted"] * 3,
    ],
    "The machine": [
        "Fact | Value", "hostname | lab1", "notes | " + "x" * 400 + "…", "short | " + "y" * 400,
        "nothing | –",
    ],
    "kernel": ["Fact | Value", "release | 6.18.0", "version | –"],
    "cpu": [
        "Fact | Value", "model | Example 3000", "flags | a, b", "caches.1.level | 1",
        "caches.2.level | 2",
    ],
    "device": ["Fact | Value", "name | loop7", "queue.nr_requests | 128", "queue.rotational | 0"],
}  # fmt: skip
