"""Answers made by hand, one for each code and each part of a sentence, to render."""

from __future__ import annotations

import math
from dataclasses import replace

from schedlab.nouns.answer import (
    MIX,
    Advice,
    Answer,
    CellAnswer,
    DecisiveRun,
    Doubt,
    Loss,
    Requirement,
    Row,
    Unfit,
)
from schedlab.nouns.metrics import METRICS

NAMES = ("none", "mq-deadline", "kyber", "bfq")
DELTA = math.log1p(0.02)
NEWCOMER, READER, SEQ = "newcomer beside writers", "reader beside writers", "sequential"


def behind(value: float | None, loss: float, low: float, up: float | None, **more) -> CellAnswer:
    """A cell from losses as ratios ≥ 1 (1.27: 27 % behind)."""
    logs = (math.log(loss), math.log(low), None if up is None else math.log(up))
    return CellAnswer(value, *logs, best=logs[2] == 0, runs=more.pop("runs", 7), **more)


def primary(workload: str, metric: str, **more) -> Row:
    return Row(workload, workload, METRICS[metric], "primary", DELTA, True, blocks=7, **more)


def secondary(workload: str, metric: str, **more) -> Row:
    name = f"{workload}: {metric}"
    return Row(name, workload, METRICS[metric], "secondary", DELTA, False, blocks=7, **more)


def loss_of(answer: Answer, candidate: str, row: str) -> Loss:
    cell = answer.cells[row][candidate]
    return Loss(candidate, row, cell.loss, cell.low, cell.up, cell.open)


ROWS = (
    primary(NEWCOMER, "newcomer_latency_ns_mean"),
    primary(READER, "reader_latency_ns_mean"),
    primary(SEQ, "throughput_bytes_per_s"),
    secondary(NEWCOMER, "write_bytes_per_s", actor="writers"),
    secondary(READER, "reader_latency_ns_p99"),
)
WRITERS, P99 = ROWS[3].name, ROWS[4].name


def _trade() -> Answer:
    cells = {
        NEWCOMER: {
            "none": behind(6.5e6, 38, 24, 61),
            "mq-deadline": behind(6.9e6, 40, 25, 64),
            "kyber": behind(4.7e6, 27, 16, 43),
            "bfq": behind(171e3, 1, 1, 1),
        },
        READER: {
            "none": behind(17e6, 3.5, 3.1, 3.9),
            "mq-deadline": behind(5.2e6, 1.07, 1, 1.2),
            "kyber": behind(4.9e6, 1, 1, 1.02),
            "bfq": behind(6.5e6, 1.27, 1.18, 1.35),
        },
        SEQ: {
            "none": behind(1.10e9, 1, 1, 1.03),
            "mq-deadline": behind(1.09e9, 1.01, 1, 1.05),
            "kyber": behind(1.10e9, 1.001, 1, 1.04),
            "bfq": behind(1.05e9, 1.05, 1.01, 1.09),
        },
        WRITERS: {
            "none": behind(1.5e9, 1, 1, 1.02),
            "mq-deadline": behind(1.5e9, 1.003, 1, 1.03),
            "kyber": behind(1.5e9, 1.002, 1, 1.03),
            "bfq": behind(1.07e9, 1.40, 1.31, 1.52),
        },
        P99: {
            "none": behind(52e6, 3.2, 2.6, 4.0),
            "mq-deadline": behind(17e6, 1.05, 1, 1.3),
            "kyber": behind(16e6, 1, 1, 1.2),
            "bfq": behind(24e6, 1.5, 1.072, 1.72),
        },
    }
    answer = Answer(
        code="trade",
        take="bfq",
        base="none",
        candidates=NAMES,
        bound=math.log(1.35),
        behind=math.log(1.27),
        margin=DELTA,
        blocks=7,
        units=7,
        used="blocks",
        scope="this-boot",
        rows=ROWS,
        counted=(NEWCOMER, READER, SEQ),
        cells=cells,
        worst_row=READER,
        others=math.log(16),
        level=0.7,
        seconds=17.0,
    )
    prices = (loss_of(answer, "bfq", P99), loss_of(answer, "bfq", WRITERS))
    return replace(answer, base_loss=loss_of(answer, "none", NEWCOMER), prices=prices)


def _pair(code: str, a: CellAnswer, b: CellAnswer, *, take: str, base: str = "a", **more) -> Answer:
    """Two candidates on one row."""
    row = primary("w0", "elapsed_s")
    cells = {"w0": {"a": a, "b": b}}
    mine = cells["w0"][take]
    defaults = {
        "candidates": ("a", "b"), "bound": mine.up, "behind": mine.loss, "margin": DELTA,
        "blocks": 6, "units": 6, "used": "blocks", "scope": "this-boot", "rows": (row,),
        "counted": ("w0",), "cells": cells, "worst_row": "w0",
        "level": 0.7, "seconds": 10.0,
    }  # fmt: skip
    return Answer(code=code, take=take, base=base, **(defaults | more))  # type: ignore[arg-type]


TRADE = _trade()
TRADE_OPEN = replace(
    TRADE, code="trade-open", others=math.log(1.2), advice=Advice(6, math.log(1.3), 102.0)
)
BEST = _pair(
    "best", behind(2.0, 1.5, 1.4, 1.6), behind(1.333, 1, 1, 1), take="b",
    base_loss=Loss("a", "w0", math.log(1.5), math.log(1.4), math.log(1.6)),
)  # fmt: skip
SAME = _pair(
    "same", behind(2.0, 1.004, 1, 1.018), behind(1.992, 1, 1, 1.009), take="a", same=("a", "b")
)
SAME_0 = _pair("same-0", behind(2.0, 1, 1, 1), behind(2.04, 1.02, 1, 1.05), take="a", same=("a",))
KEEP = _pair(
    "keep", behind(2.0, 1.03, 1, 1.12), behind(1.942, 1, 1, 1.06), take="a",
    advice=Advice(6, math.log(1.05), 60.0),
)  # fmt: skip
KEEP_LOSER = _pair(
    "keep", behind(2.0, 1, 1, 1.01), behind(2.08, 1.04, 1.004, 1.071), take="a",
    loser=Loss("b", "w0", math.log(1.04), math.log(1.004), math.log(1.071)),
)  # fmt: skip
FOR_NOW = _pair(
    "for-now", behind(2.0, 1.2, 1, 1.45), behind(1.667, 1, 1, 1.12), take="b",
    advice=Advice(4, math.log(1.1), None),
)  # fmt: skip
ONE_RUN = _pair(
    "one-run", behind(2.0, 1.2, 1, None, runs=1), behind(1.667, 1, 1, None, runs=1), take="a",
    blocks=1, units=1,
)  # fmt: skip
UNBOUNDED = _pair(
    "unbounded", behind(2.0, 28, 1, None, runs=2), behind(0.0714, 1, 1, None, runs=2), take="a",
    blocks=2, units=2, advice=Advice(2, math.log(2), 20.0),
)  # fmt: skip
NOTHING = Answer(
    code="nothing", take="", base="a", candidates=("a",), bound=None, behind=0.0, margin=DELTA,
    blocks=6, units=6, used="blocks", scope="this-boot",
    rows=(replace(primary("w0", "elapsed_s"), counted=False, why="one-candidate"),), counted=(),
    cells={"w0": {"a": CellAnswer(2.0, 0.0, 0.0, None, runs=6)}},
)  # fmt: skip
UNREADABLE = replace(
    NOTHING, candidates=("a", "b"),
    cells={"w0": {"a": NOTHING.cells["w0"]["a"], "b": CellAnswer(None, 0.0, 0.0, None, runs=6)}},
)  # fmt: skip
WILD = replace(
    FOR_NOW,
    wild=DecisiveRun(3, "b", "w0", 997.0, True, "b", math.log(1.001), "best"),
    bound=math.log(900),
    behind=math.log(3.1),
    cells={"w0": {"a": behind(2.0, 1, 1, 1.5), "b": behind(6.2, 3.1, 1, 900)}},
)
STARVED = _pair(
    "best", behind(60.0, 30, 20, None, open=True, starved=6, runs=6), behind(2.0, 1, 1, 1, runs=6),
    take="b", base_loss=Loss("a", "w0", math.log(30), math.log(20), None, open=True),
)  # fmt: skip
SHARES = replace(
    KEEP,
    rows=(
        Row(MIX, MIX, None, "mix", DELTA, True, blocks=6),
        replace(primary("w0", "elapsed_s"), role="part", counted=False, share=0.75),
        replace(primary("w1", "throughput_bytes_per_s"), role="part", counted=False, share=0.25),
    ),
    counted=(MIX,),
    worst_row=MIX,
    cells={
        MIX: {"a": behind(None, 1.03, 1, 1.12), "b": behind(None, 1, 1, 1.06)},
        "w0": {"a": behind(2.0, 1.05, 1, 1.15), "b": behind(1.905, 1, 1, 1.05)},
        "w1": {"a": behind(1e9, 1, 1, 1.1), "b": behind(0.97e9, 1.03, 1, 1.12)},
    },
)
REQUIRED = replace(
    FOR_NOW,
    requirements=(Requirement("w0", 1.8, True, {"a": "missed", "b": "open"}),),
    excluded=("a",),
)
DOUBT = replace(
    TRADE, code="doubt",
    doubt=(Doubt("control", SEQ, ("none", "bfq"), math.log(1.22)),
           Doubt("aa", READER, ("none",), math.log(1.4), math.log(1.2))),
)  # fmt: skip
ONE_PRICE = replace(
    BEST, code="trade", rows=(*BEST.rows, secondary("w0", "cpu_s")),
    cells={**BEST.cells, "w0: cpu_s": {"a": behind(1.0, 1, 1, 1), "b": behind(2.5, 2.5, 2.2, 2.7)}},
    prices=(Loss("b", "w0: cpu_s", math.log(2.5), math.log(2.2), math.log(2.7)),),
)  # fmt: skip
UNFIT = replace(
    BEST, candidates=("a", "b", "bfq"),
    unfit=(Unfit("bfq", "", 0, 16, ("ext-ejected",)),),
)  # fmt: skip
EXACT = _pair(
    "best", behind(2.0, 1.5, 1.5, 1.5), behind(1.333, 1, 1, 1), take="b",
    rows=(replace(primary("w0", "elapsed_s"), exact=True),),
    base_loss=Loss("a", "w0", math.log(1.5), math.log(1.5), math.log(1.5)),
)  # fmt: skip
SESSIONS = replace(KEEP, blocks=12, units=3, used="sessions", scope="boots")
IMPORTED = replace(
    KEEP, blocks=0, units=5, used="runs", scope="runs", level=1.0, seconds=None,
    advice=Advice(6, math.log(1.05), None),
)  # fmt: skip

#: By a name that tells what is special.
EXAMPLES = {
    "trade": TRADE, "trade-open": TRADE_OPEN, "best": BEST, "same": SAME, "same-0": SAME_0,
    "keep": KEEP, "keep-loser": KEEP_LOSER, "for-now": FOR_NOW, "one-run": ONE_RUN,
    "unbounded": UNBOUNDED, "nothing": NOTHING,
    "unreadable": UNREADABLE, "wild": WILD, "starved": STARVED,
    "doubt": DOUBT, "price": ONE_PRICE, "unfit": UNFIT, "exact": EXACT,
    "shares": SHARES, "required": REQUIRED, "sessions": SESSIONS, "imported": IMPORTED,
}  # fmt: skip
