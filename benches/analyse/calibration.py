"""Is the verdict calibrated? Simulated experiments with known truth, judged by `analyse`.

    python benches/analyse/calibration.py [--experiments 2000] [--processes 2]

writes `docs/reference/calibration.md`. The test-suite runs the same scenarios with fewer
experiments (`tests/unit/test_analyse_calibration.py`). Every experiment is planned in the orders
of `schedlab.design`, with an A/A arm, and judged by the public entry points.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from schedlab.analyse import analyse, next_decision
from schedlab.design.orders import balanced_orders
from schedlab.spec import METRICS, Samples, Stopping, Verdict

MARGIN = 0.02
LARGEST = 40
FEW = 100
NOISES = ("no drift", "linear drift", "AR(1) drift", "spikes")
#: True shares beside the baseline; the first two candidates are always equal.
MIXED = (0.0, 0.0, 0.05, 0.01, -0.03, 0.0)
#: The hardest truth: differences a hair beyond the margin (and zero).
EDGE = (0.0, 0.0, 0.0201)
LABELS = ("none", "mq-deadline", "kyber", "bfq", "bfq:low_latency=0", "kyber:read_lat_nsec=1")
TWIN = (LABELS[0], LABELS[0] + " (A/A)")
#: What follows this heading was measured, not simulated, and is kept.
MEASURED = "## On a loop device"
PUBLISHED = Path(__file__).parents[2] / "docs" / "reference" / "calibration.md"


@dataclass(frozen=True)
class Scenario:
    """What is simulated: `blocks` of 0 stands for `until-decided`, −1 for precision mode."""

    noise: str
    candidates: int
    blocks: int
    equal: bool = False
    spread: float = 0.02
    effects: tuple[float, ...] = MIXED
    workloads: int = 1

    @property
    def truth(self) -> np.ndarray:
        """True logs of the candidates."""
        shares = np.zeros(self.candidates) if self.equal else self.effects[: self.candidates]
        return np.log1p(np.asarray(shares))

    @property
    def stopping(self) -> Stopping:
        if self.blocks > 0:
            return Stopping("fixed", self.blocks)
        if self.blocks == 0:
            return Stopping("until-decided", LARGEST)
        return Stopping("precision", LARGEST, precision=0.02)

    @property
    def mode(self) -> str:
        return {0: "until decided", -1: "precision 2 %"}.get(self.blocks, f"{self.blocks} blocks")


@dataclass
class Tally:
    """Counts over the experiments of one scenario."""

    experiments: int = 0
    false_difference: int = 0
    false_claim: int = 0
    covered: int = 0
    equivalent: int = 0
    equivalent_right: int = 0
    different_pairs: int = 0
    different_found: int = 0
    wrong: int = 0
    decided: int = 0
    blocks: int = 0

    def add(self, other: Tally) -> Tally:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self


def simulate(scenario: Scenario, seed: int) -> tuple[Samples, ...]:
    """All blocks (the largest number for a sequential design) of every workload."""
    blocks = scenario.blocks if scenario.blocks > 0 else LARGEST
    rng, arms = np.random.default_rng(seed), scenario.candidates + 1
    truth = np.append(scenario.truth, scenario.truth[0])
    labels = (*LABELS[: scenario.candidates], TWIN[1])
    result = []
    for workload in range(scenario.workloads):
        order = np.array(balanced_orders(arms, blocks, random.Random(seed * 31 + workload)))
        runs = blocks * arms
        logs = truth[order.ravel()] + noise(scenario.noise, runs, scenario.spread, rng)
        result.append(
            Samples(
                workload=f"w{workload}",
                metric=METRICS["throughput_bytes_per_s"],
                candidates=tuple(labels[i] for i in order.ravel()),
                blocks=tuple(np.repeat(np.arange(blocks), arms).tolist()),
                values=tuple((1e8 * np.exp(logs)).tolist()),
            )
        )
    return tuple(result)


def noise(kind: str, runs: int, spread: float, rng: np.random.Generator) -> np.ndarray:
    """Logs of the disturbance of each run in the order of running; `spread` is that of one run."""
    white = rng.normal(0, spread, runs)
    if kind == "linear drift":
        return white + np.linspace(0, 5 * spread, runs)
    if kind == "AR(1) drift":
        level, correlation = np.empty(runs), 0.9
        shocks = rng.normal(0, 1.65 * spread * math.sqrt(1 - correlation**2), runs)
        level[0] = rng.normal(0, 1.65 * spread)
        for i in range(1, runs):
            level[i] = correlation * level[i - 1] + shocks[i]
        return white + level
    if kind == "spikes":
        return white - (rng.random(runs) < 0.05) * rng.exponential(10 * spread, runs)
    return white


def first_blocks(samples: Iterable[Samples], blocks: int) -> tuple[Samples, ...]:
    """The experiment as it stands after that many blocks."""
    result = []
    for sample in samples:
        rows = sum(block < blocks for block in sample.blocks)
        result.append(
            Samples(
                sample.workload,
                sample.metric,
                sample.candidates[:rows],
                sample.blocks[:rows],
                sample.values[:rows],
            )
        )
    return tuple(result)


def carry_out(scenario: Scenario, seed: int) -> tuple[Verdict, int]:
    """The verdict of one experiment and the number of blocks that it took."""
    samples, stopping = simulate(scenario, seed), scenario.stopping
    asked = {"baseline": LABELS[0], "margin": MARGIN, "aa": TWIN, "stopping": stopping}
    asked |= {"candidates": LABELS[: scenario.candidates]}
    if stopping.mode == "fixed":
        return analyse(samples, **asked), scenario.blocks
    blocks = 12
    while True:
        decision = next_decision(first_blocks(samples, blocks), **asked)
        if decision.stop:
            assert decision.verdict is not None
            return decision.verdict, blocks
        blocks = decision.next_look


def judge(scenario: Scenario, seed: int) -> Tally:
    """One experiment against its truth."""
    verdict, blocks = carry_out(scenario, seed)
    truth = dict(zip(LABELS, scenario.truth.tolist(), strict=False))
    limit = math.log1p(MARGIN) + 1e-12
    tally = Tally(experiments=1, blocks=blocks, decided=int(verdict.decided), covered=1)
    for pair in verdict.overall.pairs:
        true = truth[pair.a] - truth[pair.b]
        low, high = math.log(pair.low), math.log(pair.high)
        claimed = pair.verdict in ("better", "worse")
        tally.covered &= low <= true <= high
        if true == 0:
            tally.false_difference |= low > 0 or high < 0
            tally.false_claim |= claimed
        elif abs(true) > limit:
            tally.different_pairs += 1
            tally.different_found += pair.verdict == ("better" if true > 0 else "worse")
        tally.wrong |= (pair.verdict == "better" and true <= limit) or (
            pair.verdict == "worse" and true >= -limit
        )
        if pair.verdict == "equivalent":
            tally.equivalent += 1
            tally.equivalent_right += abs(true) <= limit
            tally.wrong |= abs(true) > limit
    return tally


def run(scenario: Scenario, experiments: int, first_seed: int = 1) -> Tally:
    """All experiments of one scenario; seeds count up from `first_seed`."""
    tally = Tally()
    for seed in range(first_seed, first_seed + experiments):
        tally.add(judge(scenario, seed))
    return tally


def fixed_scenarios() -> list[Scenario]:
    designs = ((3, 5), (6, 8), (4, 12))
    short = [
        Scenario(kind, k, n, equal)
        for (k, n), kind, equal in itertools.product(designs, NOISES, (True, False))
    ]
    long = [Scenario(kind, 5, 40, equal=True) for kind in NOISES]
    return [*short, *long, Scenario("no drift", 5, 40)]


def sequential_scenarios() -> list[Scenario]:
    decided = [
        Scenario(kind, 3, 0, equal, spread=0.01)
        for kind, equal in itertools.product(NOISES, (True, False))
    ]
    more = [Scenario("no drift", 5, 0, equal, spread=0.01) for equal in (True, False)]
    precise = [Scenario(kind, 4, -1, equal=True, spread=0.01) for kind in NOISES]
    return [*decided, *more, *precise]


def edge_scenarios() -> list[Scenario]:
    return [Scenario("no drift", 3, mode, spread=0.01, effects=EDGE) for mode in (8, 12, 0, -1)]


def time_scenarios() -> list[Scenario]:
    """A 5 % difference at 3 % noise between runs, and candidates that do not differ."""
    faster = (0.0, 0.05, 0.0, 0.0)
    return [
        Scenario("no drift", 2, 0, spread=0.03, effects=faster),
        Scenario("AR(1) drift", 2, 0, spread=0.03, effects=faster),
        Scenario("no drift", 4, 0, spread=0.03, effects=faster),
        Scenario("no drift", 4, 0, spread=0.03, effects=faster, workloads=4),
        Scenario("no drift", 2, 0, equal=True, spread=0.03, workloads=8),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--experiments", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    parts = (fixed_scenarios(), sequential_scenarios(), edge_scenarios(), time_scenarios())
    first_seeds = itertools.count(1, chosen.experiments)
    with ProcessPoolExecutor(chosen.processes) as pool:
        done = [
            [(s, pool.submit(run, s, chosen.experiments, next(first_seeds))) for s in scenarios]
            for scenarios in parts
        ]
        results = []
        for part in done:
            results.append([])
            for scenario, job in part:
                results[-1].append((scenario, job.result()))
                sys.stderr.write(f"{scenario} {vars(job.result())}\n")
    measured = PUBLISHED.read_text("utf-8").partition(MEASURED)
    text = page(results, chosen.experiments) + "".join(["\n", *measured[1:]]) * bool(measured[1])
    PUBLISHED.write_text(text, encoding="utf-8")


def share(count: int, of: int) -> str:
    """As a decimal; where that says little, with the numbers."""
    few = f" ({count} of {of})" if of < FEW and count < of else ""
    return f"{count / of:.3f}{few}" if of else "–"


def rows(results: list[tuple[Scenario, Tally]]) -> list[str]:
    lines = [
        "| design | noise | candidates | false difference | falsely called better | coverage "
        "| equivalent is right | wrong verdict | found | blocks |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for scenario, tally in results:
        what = "edge" if scenario.effects is EDGE else "all equal" if scenario.equal else "mixed"
        lines.append(
            f"| {scenario.mode} | {scenario.noise} | {scenario.candidates}, {what} "
            f"| {share(tally.false_difference, tally.experiments)} "
            f"| {share(tally.false_claim, tally.experiments)} "
            f"| {share(tally.covered, tally.experiments)} "
            f"| {share(tally.equivalent_right, tally.equivalent)} "
            f"| {share(tally.wrong, tally.experiments)} "
            f"| {share(tally.different_found, tally.different_pairs)} "
            f"| {tally.blocks / tally.experiments:.1f} |"
        )
    return lines


def page(results: list[list[tuple[Scenario, Tally]]], experiments: int) -> str:
    """The reference page."""
    fixed, sequential, edge, times = results
    error = math.sqrt(0.05 * 0.95 / experiments)
    lines = [
        "# Calibration of the verdict",
        "",
        f"{experiments} simulated experiments per line, judged by `schedlab.analyse.analyse` and",
        "`next_decision` as an experiment on the kernel is. Recompute this page with",
        "",
        f"    python benches/analyse/calibration.py --experiments {experiments}",
        "",
        f"The standard error of a rate of 0.05 is {error:.4f}. Every experiment has an A/A arm and",
        "balanced random orders (`schedlab.design`). No line shares its seeds with another.",
        "",
        "* **Truth**: *all equal*, or *mixed*: 0, 0, +5, +1, −3 and 0 % beside the baseline. The",
        "  margin δ is 2 %.",
        "* **Noise** of a run: log-normal, 2 % (1 % when stopping early). *Linear drift*: the",
        "  machine changes steadily by five times that from the first run to the last. *AR(1)*: a",
        "  wandering level of 1.65 times the noise, correlation 0.9 from run to run. *Spikes*: one",
        "  run in twenty is slower by ten times the noise on average (exponential).",
        "* **The A/A arm** counts: the baseline's value in a block is the mean of its two runs.",
        "* **False difference**: share of experiments where the interval of any truly equal pair",
        "  excludes no difference. **Falsely called better**: where such a pair was called better",
        "  or worse, which takes an interval beyond the margin, too.",
        "* **Coverage**: share of experiments where the intervals of *all* pairs hold the truth.",
        "* **Equivalent is right**: share of the pairs called equivalent whose true difference is",
        "  at most 2 %. **Wrong verdict**: experiments with any wrong better, worse or equivalent.",
        "* **Found**: share of the pairs that truly differ by more than 2 % called so. They differ",
        "  by 3 to 8 %, one percent beyond the margin and more: five blocks seldom tell.",
        "",
        "## A fixed number of blocks",
        "",
        *rows(fixed),
        "",
        "## Stopping early",
        "",
        "*Until decided* looks after 12, 16, 20, 26, 32 and 40 blocks; *precision* stops",
        "when every interval is narrower than ±2 %, asked after 12, 16, 20, … blocks.",
        "",
        *rows(sequential),
        "",
        "## At the edge of the margin",
        "",
        "The hardest truth: two equal candidates and one that is 2.01 % faster, so that either",
        "*equivalent* or a stop at a lucky moment is wrong.",
        "",
        *rows(edge),
        "",
        "## Time to a verdict",
        "",
        "One candidate is 5 % faster than the others, 3 % noise between runs, at most 40 blocks;",
        "in the last line nothing differs. Decided: one winner, or all equivalent within 2 %.",
        "",
        "| candidates | workloads | noise | decided | mean blocks | share of 40 blocks | wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    for scenario, tally in times:
        mean = tally.blocks / tally.experiments
        what = ", all equal" if scenario.equal else ""
        lines.append(
            f"| {scenario.candidates}{what} | {scenario.workloads} | {scenario.noise} "
            f"| {share(tally.decided, tally.experiments)} | {mean:.1f} | {mean / LARGEST:.2f} "
            f"| {share(tally.wrong, tally.experiments)} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
