"""How often the bounds of an answer are wrong, and how many blocks they need: known truths.

    python benches/analyse/calibration.py [EXPERIMENTS] > table.md

Every experiment is simulated with a known truth and goes through `analyse.answer` as a user's
would. Printed are Markdown tables for docs/reference/calibration.md.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from schedlab.analyse.answer import answer
from schedlab.design.orders import Orders
from schedlab.nouns import METRICS, Require, Samples
from schedlab.nouns.answer import Answer, CellAnswer

ROUNDING = 1e-9
MARGIN = math.log1p(0.02)
TIME = METRICS["elapsed_s"]
NOTHING = CellAnswer(None, 0.0, 0.0, None)


def noise(kind: str, rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """Scatter (n × k) of unit size."""
    normal = rng.standard_normal((n, k))
    match kind:
        case "two modes":
            return 2 * rng.integers(0, 2, (n, k)) - 1 + normal / 5
        case "skewed":
            return rng.exponential(1, (n, k)) - 1
        case "spikes":
            return normal + 10 * (rng.random((n, k)) < 0.05)
        case "t, 2 df":
            return rng.standard_t(2, (n, k))
        case "one × 10":
            return normal * np.where(np.arange(k) == 1, 10, 1)
        case "half × 3":
            return normal * np.where(np.arange(k) < k / 2, 3, 1)
        case "wandering level":
            return normal + 3 * np.cumsum(rng.standard_normal((n, 1)), axis=0)
        case "AR .3" | "AR .6":
            phi, own = float(kind[3:]), normal.copy()
            for i in range(1, n):
                own[i] = phi * own[i - 1] + math.sqrt(1 - phi**2) * normal[i]
            return own
    return normal


NOISES = ("normal", "two modes", "skewed", "spikes", "t, 2 df", "one × 10", "half × 3",
          "wandering level", "AR .3")  # fmt: skip


def asked(
    truth: np.ndarray,
    kind: str,
    sd: float,
    n: int,
    seed: int,
    *,
    missing: float = 0.0,
    boots: int = 1,
    hosts: int = 1,
    of_boots: float = 0.0,
    of_hosts: float = 0.0,
    budget: float = 0.0,
    **more: Any,
) -> Answer:
    """The answer of one experiment; `truth` (W × k) are logs of time.

    `boots` and `hosts` divide the blocks; each adds a normal effect of its own to each candidate
    (`of_boots`, `of_hosts`: standard deviations). A `budget` ends it before the block that would,
    by the mean of those before, exceed it: the runs take the time that they measure.
    """
    rng = np.random.default_rng(seed)
    rows, k = truth.shape
    labels = [f"c{i}" for i in range(k)]
    blocks, columns = np.indices((n, k))
    names = tuple(labels[c] for c in columns.ravel())
    boot, host = np.arange(n) * boots // n, np.arange(n) * hosts // n
    samples = []
    for w in range(rows):
        logs = truth[w] + sd * noise(kind, rng, n, k)
        logs += of_boots * rng.standard_normal((boots, k))[boot]
        logs += of_hosts * rng.standard_normal((hosts, k))[host]
        logs[rng.random((n, k)) < missing] = math.nan
        samples.append(
            Samples(f"w{w}", TIME, names, tuple(blocks.ravel().tolist()),
                    tuple(np.exp(logs).ravel().tolist()), weight=float(w + 1),
                    sessions=tuple(f"{boot[b]}-f" for b in blocks.ravel()),
                    hosts=tuple(f"{host[b]}" for b in blocks.ravel()))
        )  # fmt: skip
    if budget:
        taken = np.sum([np.reshape(s.values, (n, k)).sum(axis=1) for s in samples], axis=0)
        spent = np.cumsum(taken)
        over = np.flatnonzero(spent * (1 + 1 / np.arange(1, n + 1)) > budget)
        n = int(over[0]) + 1 if len(over) else n
        samples = [sample.of_blocks(set(range(n))) for sample in samples]
    return answer(samples, baseline="c0", **({"ends": (n,)} | more))


def wrong(result: Answer, truth: np.ndarray) -> tuple[bool, bool, bool]:
    """(any worst-loss bound is missed, that of what is taken, any false "worse" on any row)."""
    loss = truth - truth.min(axis=1, keepdims=True)
    worst = loss.max(axis=0)
    missed, taken, false = False, False, False
    for i, label in enumerate(result.candidates):
        cells = [result.cells[row].get(label, NOTHING) for row in result.counted]
        ups = [math.inf if cell.up is None else cell.up for cell in cells]
        below = worst[i] > max(ups) + ROUNDING
        missed |= below
        taken |= below and label == result.take
        false |= any(c.low > own + ROUNDING for c, own in zip(cells, loss[:, i], strict=False))
    return missed, taken, false


def truths(rows: int, k: int) -> Iterator[tuple[str, np.ndarray]]:
    yield "equal", np.zeros((rows, k))
    better = np.zeros((rows, k))
    better[:, 1] = -0.1
    yield "one 10 % better", better
    trade = np.zeros((rows, k))
    trade[np.arange(rows), np.arange(rows) % k] = -0.3
    yield "each best somewhere", trade


def coverage(experiments: int) -> None:
    print("| noise | blocks | any bound missed | bound of what is taken | false “worse” |")
    print("|---|---|---|---|---|")
    for kind in NOISES:
        for n in (3, 6, 12):
            counts = np.zeros(3)
            total = 0
            for rows, k in ((1, 2), (1, 4), (5, 4), (8, 3)):
                for _, truth in truths(rows, k):
                    for seed in range(experiments):
                        result = asked(truth, kind, 0.1, n, seed * 7919 + n)
                        counts += wrong(result, truth)
                        total += 1
            cells = " | ".join(f"{count / total:.3f}" for count in counts)
            print(f"| {kind} | {n} | {cells} |", flush=True)


def blocks_needed(experiments: int) -> None:
    print("\n| truth, 4 candidates | 4 | 6 | 8 | 12 | 20 |\n|---|---|---|---|---|---|")
    for name, gain, sd in (("equal, sd 5 %", 0.0, 0.05), ("+10 %, sd 5 %", 0.1, 0.05),
                           ("+30 %, sd 10 %", 0.3, 0.1)):  # fmt: skip
        truth = np.zeros((1, 4))
        truth[0, 2] = -math.log1p(gain)
        cells = []
        for n in (4, 6, 8, 12, 20):
            found = [asked(truth, "normal", sd, n, seed) for seed in range(experiments)]
            bounds = sorted(math.inf if r.bound is None else r.bound for r in found)
            small = sum(bound <= math.log1p(0.05) for bound in bounds) / experiments
            right = sum(r.take == ("c2" if gain else r.take) for r in found) / experiments
            median = math.expm1(bounds[experiments // 2])
            cells.append(f"{100 * median:.1f} % ({small:.2f}; {right:.2f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def looking(experiments: int) -> None:
    """Looks at every block from 3 to 20, with ends at 8 and 14: whether anybody was ever
    called worse, where all are equal."""
    print("\n| candidates | any false “worse” at any look |\n|---|---|")
    for k in (2, 4, 8):
        truth, false = np.zeros((1, k)), 0
        for seed in range(experiments):
            rng = np.random.default_rng(seed)
            values = np.exp(0.1 * rng.standard_normal((20, k)))
            ever = np.zeros(3)
            for n in range(3, 21):
                blocks, columns = np.indices((n, k))
                names = tuple(f"c{c}" for c in columns.ravel())
                rows = tuple(values[:n].ravel().tolist())
                sample = Samples("w0", TIME, names, tuple(blocks.ravel().tolist()), rows)
                ever = np.maximum(ever, wrong(answer([sample], baseline="c0", ends=(8, 14)), truth))
            false += ever[2]
        print(f"| {k} | {false / experiments:.3f} |", flush=True)


def budgets(experiments: int) -> None:
    """Commands, whose time is what is measured and what uses up the budget, which ends them at the
    level of a planned end: of `blocks` on average."""
    print("\n| noise, sd 30 % | budget in blocks | any bound missed | false “worse” |")
    print("|---|---|---|---|")
    for kind in NOISES:
        for blocks in (3, 5, 9):
            counts, total = np.zeros(3), 0
            for rows, k in ((1, 2), (1, 4), (3, 4)):
                for _, truth in truths(rows, k):
                    budget = blocks * float(np.exp(truth).sum())
                    for seed in range(experiments):
                        result = asked(truth, kind, 0.3, 20, seed * 7919 + 3, budget=budget)
                        counts += wrong(result, truth)
                        total += 1
            rates = counts / total
            print(f"| {kind} | {blocks} | {rates[0]:.3f} | {rates[2]:.3f} |", flush=True)


#: Designs beside the planned experiment in one boot; the truth is that all are equal.
SPECIAL: dict[str, tuple[tuple[int, int], str, int, dict[str, Any]]] = {
    "10 % of the cells missing, 6 blocks": ((1, 4), "normal", 6, {"missing": 0.1}),
    "20 % of the cells missing, 8 blocks": ((3, 4), "normal", 8, {"missing": 0.2}),
    "mix of 5 rows, 10 % missing, 6 blocks": (
        (5, 4), "normal", 6, {"missing": 0.1, "shares": True}),
    "12 candidates, 6 blocks": ((1, 12), "normal", 6, {}),
    "20 candidates, 5 rows, 4 blocks": ((5, 20), "normal", 4, {}),
    "63 rows, 5 blocks": ((63, 3), "normal", 5, {}),
    "import, two modes, 3 runs": ((1, 4), "two modes", 3, {"blocked": False}),
    "import, two modes, 3 runs, 8 candidates": ((1, 8), "two modes", 3, {"blocked": False}),
    "boots that differ as runs do, taken as one": ((1, 4), "normal", 12, {"of_boots": 0.1}),
    "2 boots of 6 blocks": ((1, 4), "normal", 12, {"boots": 2, "of_boots": 0.1}),
    "4 boots of 3 blocks": ((1, 4), "normal", 12, {"boots": 4, "of_boots": 0.1}),
    "unequal boots (3, 3, 2, 3, 2)": ((1, 4), "normal", 13, {"boots": 5, "of_boots": 0.1}),
    "3 hosts of 4 blocks": ((1, 4), "normal", 12, {"hosts": 3, "of_hosts": 0.1}),
    "3 hosts × 2 boots": (
        (1, 4), "normal", 12, {"hosts": 3, "boots": 6, "of_hosts": 0.1, "of_boots": 0.1}),
    "autocorrelation .6, 6 blocks": ((1, 4), "AR .6", 6, {}),
    "autocorrelation .6, 12 blocks": ((1, 4), "AR .6", 12, {}),
}  # fmt: skip


def special(experiments: int) -> None:
    """Equal candidates: no loss can be above its bound, so that only “worse” can be wrong."""
    print("\n| design, sd 10 % | any false “worse” | median bound |")
    print("|---|---|---|")
    for title, (shape, kind, n, more) in SPECIAL.items():
        truth, false, bounds = np.zeros(shape), 0, []
        for seed in range(experiments):
            result = asked(truth, kind, 0.1, n, seed + 10**6, **more)
            false += wrong(result, truth)[2]
            bounds.append(math.inf if result.bound is None else result.bound)
        median = math.expm1(sorted(bounds)[experiments // 2])
        print(f"| {title} | {false / experiments:.3f} | {100 * median:.0f} % |", flush=True)


#: (design, candidates, blocks, hosts, boots): merged as planned, or a look among any.
MERGES = (("2 boots of 6 blocks", 2, 12, 1, 2), ("3 boots of 6 blocks", 2, 18, 1, 3),
          ("6 boots of 6 blocks", 2, 36, 1, 6), ("3 hosts of 3 blocks", 2, 9, 3, 1),
          ("10 hosts of 3 blocks", 2, 30, 10, 1),
          ("20 hosts of 3 blocks", 2, 60, 20, 1))  # fmt: skip


def merges(experiments: int) -> None:
    """Hosts: of the next one; boots: of their mean. The truth is that c1 is 30 % better."""
    print("\n| folders | bound held, planned end | median | bound held, any look | median |")
    print("|---|---|---|---|---|")
    truth = np.array([[0.0, -0.3]])
    for title, k, n, hosts, boots in MERGES:
        cells = []
        for ends in ((n,), ()):
            held, bounds = 0, []
            for seed in range(experiments):
                design = {"hosts": hosts, "boots": max(boots, hosts), "of_hosts": 0.07,
                          "of_boots": 0.07 if boots > 1 else 0.0}  # fmt: skip
                result = asked(truth, "normal", 0.05, n, seed + 10**5, ends=ends, **design)
                spread = 0.07 if hosts > 1 else 0.0
                new = truth + spread * np.random.default_rng(seed).standard_normal((1, k))
                bound = math.inf if result.bound is None else result.bound
                loss = new - new.min()
                held += loss[0, int(result.take[1:])] <= bound + ROUNDING
                bounds.append(bound)
            median = math.expm1(sorted(bounds)[experiments // 2])
            cells.append(f"{held / experiments:.3f} | {100 * median:.0f} %")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


def carried(experiments: int) -> None:
    """c1 leaves a part of its time to the run after it, also to its own."""
    print("\n| orders | debt | any bound missed | false “worse” | adjusted | c1 is best |")
    print("|---|---|---|---|---|---|")
    truth = np.zeros((1, 3))
    for name, chained in (("chained", True), ("balanced for others only", False)):
        for debt in (0.0, 0.05, 0.1):
            counts, adjusted, best = np.zeros(3), 0, 0
            for seed in range(experiments):
                rng = np.random.default_rng(seed)
                orders = Orders(3, random.Random(seed), chained=chained)
                runs = [c for block in range(24) for c in orders.of_block(block)]
                before = [-1, *runs[:-1]]
                known = tuple("" if c < 0 else f"c{c}" for c in before)
                logs = 0.03 * rng.standard_normal(72) + debt * (np.array(before) == 1)
                sample = Samples("w0", TIME, tuple(f"c{c}" for c in runs),
                                 tuple(np.repeat(np.arange(24), 3).tolist()),
                                 tuple(np.exp(logs).tolist()),
                                 before=known)  # fmt: skip
                result = answer([sample], baseline="c0", ends=(24,))
                counts += wrong(result, truth)
                adjusted += result.rows[0].adjusted
                best += (result.code, result.take) == ("best", "c1")
            rates = [*(counts[[0, 2]] / experiments), adjusted / experiments, best / experiments]
            shown = " | ".join(f"{rate:.3f}" for rate in rates)
            print(f"| {name} | {100 * debt:.0f} % | {shown} |", flush=True)


def conditions(experiments: int) -> None:
    """Requirements at ten looks, and negative controls that are equal or differ."""
    print("\n| condition | rate |\n|---|---|")
    limit, false = 1.0, 0
    for seed in range(experiments):
        rng = np.random.default_rng(seed)
        values = np.exp(0.1 * rng.standard_normal((24, 3)))
        ever = False
        for n in range(6, 25, 2):
            sample = _table(values[:n])
            require = Require("w0", TIME.name, limit, below=True)
            result = answer([sample], baseline="c0", ends=(6, 12, 24), requires=[require])
            ever |= "missed" in result.requirements[0].candidates.values()
        false += ever
    print(f"| a requirement that all just meet: missed at any of 10 looks | "
          f"{false / experiments:.3f} |")  # fmt: skip
    for title, gap in (("equal", 0.0), ("22 % apart", 0.2)):
        doubts = 0
        for seed in range(experiments):
            rng = np.random.default_rng(seed)
            logs = 0.05 * rng.standard_normal((2, 8, 3))
            control = replace(_table(np.exp(logs[1] + gap * (np.arange(3) == 1))), workload="w1",
                              negative_control=True)  # fmt: skip
            work = _table(np.exp(logs[0] - 0.3 * (np.arange(3) == 1)))
            doubts += answer([work, control], baseline="c0", ends=(8,)).code == "doubt"
        print(
            f"| one is 30 % better, a control is {title}: in doubt | {doubts / experiments:.3f} |"
        )


def _table(values: np.ndarray) -> Samples:
    """A row of time: `values` (blocks × candidates)."""
    blocks, columns = np.indices(values.shape)
    names = tuple(f"c{c}" for c in columns.ravel())
    return Samples(
        "w0", TIME, names, tuple(blocks.ravel().tolist()), tuple(values.ravel().tolist())
    )


def directions(experiments: int) -> None:
    """How often it is found that a candidate is behind."""
    print("\n| truth | 4 | 6 | 8 | 12 blocks |\n|---|---|---|---|---|")
    for title, (rows, ahead, gain, sd) in {
        "one row, one +10 %, sd 5 %": (1, 1, 0.1, 0.05),
        "8 rows, +30 % on two, sd 10 %": (8, 2, 0.3, 0.1),
        "20 rows, +30 % on two, sd 10 %": (20, 2, 0.3, 0.1),
    }.items():
        truth = np.zeros((rows, 4))
        truth[:ahead, 1] = -math.log1p(gain)
        cells = []
        for n in (4, 6, 8, 12):
            found = [
                [r.cells[f"w{w}"][c].low > 0 for w in range(ahead) for c in ("c0", "c2", "c3")]
                for r in (asked(truth, "normal", sd, n, seed) for seed in range(experiments))
            ]
            cells.append(f"{np.mean(found):.2f}")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    experiments = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    coverage(experiments)
    blocks_needed(4 * experiments)
    directions(2 * experiments)
    special(4 * experiments)
    merges(4 * experiments)
    carried(4 * experiments)
    conditions(4 * experiments)
    looking(4 * experiments)
    budgets(2 * experiments)


if __name__ == "__main__":
    main()
