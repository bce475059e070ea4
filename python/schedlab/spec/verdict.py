"""The conclusion: codes and numbers, from which a catalogue makes the sentences of a report.

No field here is a sentence. A `Headline` is a code and the values that its sentence needs. Every
value is plain JSON (text, numbers, lists, `None`), or a *fact*: the result of `Fact.values()`, read
back by `Fact.of(values["gain"])`. Candidates and workloads are named by their labels; `mdd`,
`smaller`, `aa` and `margin` are shares (0.1 is "10 %"; above 1 say it as a ratio, 1 + share).

Headline codes, in the order in which the first that applies is taken:

`single`             one block: candidates, blocks (further blocks to measure)
`nothing-to-compare` fewer than two candidates, or no workload, with comparable values: candidates
`did-not-finish`     a candidate has bounds in all blocks: name, workload, time_s (`None` where not
                     known), names (all such candidates of this workload), elsewhere ([another
                     workload, its names] each), rest (the code of the headline without them),
                     rest_values (its values)
`depends`            the claims of one candidate against the baseline go both ways: name, baseline,
                     won, lost (workloads), best, worst (facts against the baseline, each with its
                     workload), same (workloads where all are equivalent), within (largest end of
                     an interval there, a share), price (see below)
`best-on`            nothing is decided over all, but a candidate claims against the baseline
                     on some workloads and loses on none: name, names (it, and those that share
                     the lead), baseline, won (where they lead), best (a fact), also (facts:
                     where it beats the baseline but does not lead, or another one does), same,
                     within (as in `depends`), others (workloads where nothing is claimed), mdd
                     (the largest of these, a share, or `None`), undecided (workloads where other
                     pairs are claimed, but this one is not decided), price
`winner-price`       one best, worse on something: best, baseline, gain (a fact against `other`),
                     other (the baseline; the runner-up where the baseline is best), runner_up (a
                     fact against the nearest rival), price, losers (facts, nearest first),
                     example (its largest claim against `other` on one workload, or `None`)
`winner`             as `winner-price`, price is `None`; unseen ({fact, actor}: the
                     largest loss that may hide where nothing is decided, or `None`)
`keep`               the baseline is best: baseline, next (the nearest rival), loss (fact: better is
                     the baseline), losers
`tied`               the best set is equivalent: names, margin, losers (facts against the best)
`rare-run`           ranks see a difference that means do not: a (the typical better), b, gain (fact
                     from Hodges–Lehmann), of (the candidate with wild runs, better or worse ones;
                     "" where it could be either), wild_blocks (with such a run), blocks, factor
`unsteady`           differences wander: a, b, early, late (facts; `better` is the better side)
`sessions-disagree`  the claim is not the same in all sessions: a, b, lowest, highest (facts)
`no-verdict`         something forbids to decide an open pair: why (its code: `aa-differs`,
                     `not-after-W`, `carry-over` or `one-way`), a, b, gain (a fact), baseline,
                     starved ([name, its runs that starved, its runs] of the two), losers
`too-early`          undecided and budget left: names, mdd, blocks (more), blocks_low,
                     blocks_high, time_s, smaller (the difference that these detect; all five
                     `None` where the number is impractical), losers
`no-difference-seen` budget used up: names, mdd, losers
`too-noisy`          as `no-difference-seen`, mdd > 1 (a twofold difference could hide), and more
                     blocks are impractical: names, mdd, losers
`one-session`        `diff` with one folder a side: a, b, gain (fact), aa (how much two sessions of
                     one setup often differ: a share)

`price` is `None` or {kind: "workload" | "actor" | "rival" (a third candidate beats the winner on a
workload) | "metric", fact, actor ("writers", "readers" or ""), more (how many further prices)}. Its
fact has the winner as `worse`.

Pair codes: `not-after-W` (outside the margin, but not claimed once all workloads are counted),
`fragile` (ranks do not confirm), `rare-run` (ranks do, means do not), `unsteady`, `changes-sign`
(candidate × time), `carry-over` (only one of plain and adjusted estimate agrees), `aa-differs`
(smaller than the difference of the baseline from itself), `sessions-disagree`, `one-way` (contains
bounds: only one direction can be claimed), `two-modes`, `rare-stalls`, `few-blocks` (these three
and `one-way` cannot be equivalent), `added` (claimed only after an unannounced extension).

Flag kinds and their values (beside `workload` and `candidates`):

`unblocked`          the runs were not made in blocks; {} | `single-run` {runs: {candidate: n}}
`unbalanced`         {runs: {candidate: n}, most}       | `cold-first-run` {difference, unit}
`insensitive`        {cpu_share}                        | `identical` {}
`non-positive`       {metric}: values that are 0 or negative and are no bounds
`missing-cells`      {cells, filled: {candidate: n}}: filled by least squares
`left-out`           more than half of its cells are missing {cells, of}
`no-baseline`        no run of the baseline counts {used (in its place), reason (in English)}
`lacks-workload`     a candidate compared over fewer workloads {workloads}
`only-one`           one candidate has runs on the workload {}
`starved`            {counts: {candidate: n}, runs}: runs that give bounds
`aa-differs`         {ratio, low, high, far}: A/A excludes the margin; far is its far end, a share
`control-failed`, `control-passed` {}; `control-open` {reach, margin, unbounded}
`drift` {change, p}; `change-point` {block (number from 1), change}
`outlier`            {block (number from 1), factor, run, session}
`rare-stalls`        {runs, of, factor}
`two-modes`          {low, high (levels), share_low, share_high}
`uneven-noise`       {ratio, noisiest, quietest, p}
`unsteady`           {autocorrelation, phi, widening}: `widening` is the factor of the half-width
`candidate-time`     {slopes: {candidate: total change}, p, early, late (facts of the pair that
                     changes most), changes_sign}
`carry-over`         {effects: {candidate: log change of its follower}, p, adjusted: [[a, b, log
                     ratio, standard error]]}
`steady-assumed`     below 8 blocks wandering cannot be estimated {blocks}
`gates-unbalanced`   {counts: {candidate: repeated runs}, runs: {candidate: n}, p}
`not-steady`, `unsettled` {runs: n}; `two-levels` {low, high}: rates inside its runs, 1/s
`sessions-disagree`  {ratios: {session: ratio}, p}
`extension`          {error, first_blocks}: a second analysis that was not announced
`call-cost` {seconds_per_call, constant_s, explained}
`wrong-mean` {published, unit, mean, rows, difference} or {published, unit, rowless}
`goal` {goal, metric, frozen_metric}; `goal-not-measured` {goal, metric, apart}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from schedlab.spec.experiment import SCHEMA_VERSION, Objective
from schedlab.spec.metrics import Metric

PairVerdict = Literal["better", "worse", "equivalent", "undecided"]
Code = Literal[
    "single",
    "nothing-to-compare",
    "did-not-finish",
    "depends",
    "best-on",
    "winner-price",
    "winner",
    "keep",
    "tied",
    "rare-run",
    "unsteady",
    "sessions-disagree",
    "no-verdict",
    "too-early",
    "no-difference-seen",
    "too-noisy",
    "one-session",
]


@dataclass(frozen=True)
class Fact:
    """`better` is better than `worse` by `ratio` ≥ 1 (better : worse, for either direction).

    [`low`, `high`] is its interval, `high` `None` with `open_end` ("at least low"); both `None`
    where no interval can be given. `metric` is empty where several metrics are averaged.
    `low` is below 1 where the sign is not certain.
    """

    better: str
    worse: str
    ratio: float
    low: float | None = None
    high: float | None = None
    open_end: bool = False
    metric: str = ""
    higher_is_better: bool = True
    workload: str = ""

    def values(self) -> dict[str, Any]:
        """As plain JSON, for `Headline.values` and `Flag.values`."""
        return dict(vars(self))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Fact:
        """The fact that `values()` made."""
        return cls(**values)


@dataclass(frozen=True)
class Headline:
    """The first sentence of a report: its code and its values (module docstring)."""

    code: Code
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names_one(self) -> bool:
        """Whether it says which single candidate to take."""
        return self.code in ("winner", "winner-price", "keep")


@dataclass(frozen=True)
class Flag:
    """Something that a careful reader must know before believing a figure.

    `kind` and `values` are what its sentence is made of (module docstring).
    """

    kind: str
    workload: str = ""
    candidates: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """a compared with b: "a is `verdict` than b".

    `ratio` is the metric of a over that of b (geometric mean of the units), [`low`, `high`] its
    simultaneous interval at the level of the verdict; `None` without one, or where `open_end`
    says that this end is open (a run that starved is only a bound). `p` is the family-wise
    p-value within the workload. `hodges_lehmann` is the robust estimate of the same ratio,
    `standard_error` that of log(ratio). `codes`: see the module docstring. `blocks_needed` is the
    range of further blocks that would decide an undecided pair. `by_session` are the ratios of
    the sessions where there are several.
    """

    a: str
    b: str
    ratio: float
    low: float | None
    high: float | None
    verdict: PairVerdict
    p: float | None = None
    codes: tuple[str, ...] = ()
    open_end: Literal["", "low", "high"] = ""
    hodges_lehmann: float | None = None
    blocks_needed: tuple[int, int] | None = None
    standard_error: float | None = None
    by_session: tuple[float, ...] = ()

    @property
    def fragile(self) -> bool:
        """Whether ranks do not confirm the verdict."""
        return "fragile" in self.codes


@dataclass(frozen=True)
class CandidateSummary:
    """A candidate on one workload, beside the baseline (`ratio` etc. are `None` for itself).

    `starved` counts the runs whose value is a bound: always reported with the price. On a workload
    with values of 0 or less `geometric_mean` is the arithmetic one, without an interval.
    """

    candidate: str
    runs: int
    mean: float
    geometric_mean: float
    low: float | None
    high: float | None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    verdict: PairVerdict | None = None
    starved: int = 0
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Segment:
    """The blocks between two change points, analysed by themselves."""

    first_block: int
    last_block: int
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Needed:
    """What more would decide: further blocks (range and likely number), their time in seconds
    (0 where it is not known), and the smallest difference (a share) that would then show.
    """

    blocks_low: int
    blocks: int
    blocks_high: int
    time_s: float
    smaller: float


@dataclass(frozen=True)
class Noise:
    """Standard deviations of logs: of one run within a block (`run`), of the two runs of the
    baseline (`aa`, without candidate × block), of session × candidate (`session`).

    `aa_ratio`, `aa_low`, `aa_high`: A/A arm over baseline with its 95 % interval.
    """

    run: float | None = None
    aa: float | None = None
    session: float | None = None
    aa_ratio: float | None = None
    aa_low: float | None = None
    aa_high: float | None = None


@dataclass(frozen=True)
class WorkloadVerdict:
    """The verdict on one metric of one workload: every pair, the best set, and a headline.

    `unit` is what was repeated (`blocks` or `sessions`, `runs` without blocks) and `units` how
    often. `actor` is whose metric it is where a run has several at work ("writers" beside the
    reader that is measured, "readers"); "" for the work itself. `control`: a negative control.
    `nothing_to_order`: one request at a time, so that no scheduler has anything to choose.
    `mdd` is the smallest difference (a share) that would have shown with 80 % probability, at
    least the far end of every open pair of the best set; `None` where such an end is open.
    `change_points` are the first blocks of a new level; `segments` the parts between them.
    """

    workload: str
    metric: Metric
    blocks: int
    candidates: tuple[CandidateSummary, ...]
    pairs: tuple[Pair, ...]
    best_set: tuple[str, ...]
    headline: Headline
    unit: Literal["blocks", "sessions", "runs"] = "blocks"
    units: int = 0
    actor: str = ""
    control: bool = False
    nothing_to_order: bool = False
    margin: float = 0.02
    mdd: float | None = None
    needed: Needed | None = None
    noise: Noise = Noise()
    flags: tuple[Flag, ...] = ()
    change_points: tuple[int, ...] = ()
    segments: tuple[Segment, ...] = ()

    @property
    def code(self) -> Code:
        """The code of the headline."""
        return self.headline.code


@dataclass(frozen=True)
class Overall:
    """All workloads together (weighted mean of log ratios inside each block).

    With metrics of both directions a ratio is one of performance (above 1 is better, and
    `higher_is_better` holds); else it is one of the metrics themselves. `metric` is the common
    one, if there is one. `workloads` are those that count (no negative controls).
    `best_everywhere` is the winner if it is not shown to be beaten anywhere (section "best
    everywhere" of the statistics page), else "".
    """

    candidates: tuple[CandidateSummary, ...]
    pairs: tuple[Pair, ...]
    best_set: tuple[str, ...]
    headline: Headline
    workloads: tuple[str, ...] = ()
    metric: Metric | None = None
    best_everywhere: str = ""
    higher_is_better: bool = True
    unit: Literal["blocks", "sessions", "runs"] = "blocks"
    units: int = 0
    margin: float = 0.02
    mdd: float | None = None
    needed: Needed | None = None
    noise: Noise = Noise()

    @property
    def code(self) -> Code:
        """The code of the headline."""
        return self.headline.code


@dataclass(frozen=True)
class Population:
    """The population of the verdict: one line below every headline.

    `layouts` counts the sets of files. `device` describes it in a few words ("" where it is not
    known). `claims_sessions`: the sessions were the units, so that the claim is about
    layouts in general, and with `claims_boots` (enough of the `boots`) about boots, too;
    `steady_assumed` that there were fewer than 8 blocks.
    """

    workloads: int
    blocks: int
    sessions: int = 1
    layouts: int = 1
    device: str = ""
    seconds: float = 0.0
    claims_sessions: bool = False
    steady_assumed: bool = False
    boots: int = 1
    claims_boots: bool = False


@dataclass(frozen=True)
class StoppingState:
    """How the experiment was stopped: analyses done of all analyses, level of this one.

    `confidence` is that of the printed intervals at this look (1 − alpha), `error` the bound on
    any false difference over the whole experiment (.05, or .075 after an unannounced extension).
    `budget_used`: nothing more was allowed. `frozen_at`: blocks at which the overall verdict
    was frozen, while single workloads went on.
    """

    mode: Literal["fixed", "until-decided", "precision", "none"] = "fixed"
    blocks: int = 0
    blocks_max: int = 0
    looks: tuple[int, ...] = ()
    looks_taken: int = 1
    alpha: float = 0.05
    error: float = 0.05
    budget_used: bool = True
    frozen_at: int | None = None
    precision: float = 0.0


@dataclass(frozen=True)
class ParetoPoint:
    """Throughput and p99 latency of a candidate on one workload, in the units of the metrics.

    Geometric means of the runs' figures (of each run's own p99, which the verdicts compare) with
    their 95 % intervals. `dominated_by`: better on one of the two, and not worse on the other.
    """

    candidate: str
    throughput: float
    throughput_low: float | None
    throughput_high: float | None
    latency: float
    latency_low: float | None
    latency_high: float | None
    throughput_metric: str
    latency_metric: str
    dominated_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class KneeFigure:
    """Where the metric of a candidate bends over an ordered size of its workloads.

    `size` is the parameter that is ordered, its unit in its name. `reason` says why there is no
    knee (see `analyse.knee.Knee`); the knee lies inside [`low`, `high`] with 95 % confidence, and
    the metric grows as the size to the power of the slopes before and after it.
    """

    family: str
    size: str
    candidate: str
    metric: Metric
    reason: Literal["knee", "too few values", "straight", "edge"]
    knee: float | None = None
    low: float | None = None
    high: float | None = None
    slope_before: float | None = None
    slope_after: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The answer of an experiment: `verdict.json`, and what `schedlab analyse --json` prints.

    `secondary[workload]` are the verdicts on further metrics of its runs, other actors among
    them: rows indented under the workload in the first table. `pareto` and `knees` as named.
    """

    headline: Headline
    baseline: str
    design: Literal["blocked", "unblocked"]
    stopping: StoppingState
    population: Population
    workloads: Mapping[str, WorkloadVerdict]
    overall: Overall
    secondary: Mapping[str, tuple[WorkloadVerdict, ...]] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    decided: bool = False
    mdd_before: float | None = None
    pareto: Mapping[str, tuple[ParetoPoint, ...]] = field(default_factory=dict)
    goal: Objective | None = None
    knees: tuple[KneeFigure, ...] = ()
    confidence: float = 0.95
    schema: int = SCHEMA_VERSION

    @property
    def code(self) -> Code:
        """The code of the headline."""
        return self.headline.code
