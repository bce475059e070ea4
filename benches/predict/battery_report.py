"""Figures of a battery from its lines, and the place of them in the documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from schedlab.app.predict.predict import NEAR, SURE

Row = dict[str, Any]
#: The truth has noise of its own: some seconds of one seed.
NOISE = 0.02
GEOMETRY_WITHIN, TIMES_WITHIN, MEAN_WITHIN, P99_WITHIN = 0.05, 0.10, 0.10, 0.15
BEGIN, END = "<!-- battery: begin -->", "<!-- battery: end -->"
KINDS = ("disk", "sata", "nvme", "card")


def figures(fits: Sequence[Row], truths: Sequence[Row], predicted: Sequence[Row]) -> Row:
    """Everything that the lines say, as one document."""
    true = {(row["seed"], row["load"]): row for row in truths if row["decided"]}
    pairs = [(row, true[key]) for row in predicted if (key := (row["seed"], row["load"])) in true]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "devices": len({row["seed"] for row, _ in pairs}),
        **_calibration(pairs),
        "by_kind": {k: _calibration([p for p in pairs if p[0]["kind"] == k]) for k in KINDS},
        "by_load": {
            name: _calibration([pair for pair in pairs if pair[0]["load"] == name])
            for name in sorted({row["load"] for row, _ in pairs})
        },
        "fits": {
            name: _fits([row for row in fits if bool(row["hogs"]) == beside])
            for name, beside in (("alone", False), ("beside hogs", True))
        },
    }


def _calibration(pairs: Sequence[tuple[Row, Row]]) -> Row:
    """Brier score, regret and so on of predictions with their truths."""
    inside = [pair for pair in pairs if not pair[0]["outside"]]
    said, right, held, regrets, hard, suffices = [], [], [], [], [], []
    for row, truth in inside:
        least = min(truth["losses"].values())
        loss = {name: value - least for name, value in truth["losses"].items()}
        for name, (near, _, low, high) in row["candidates"].items():
            said.append(near)
            right.append(loss[name] <= NEAR + NOISE)
            held.append(low - NOISE <= loss[name] <= high + NOISE)
        regrets.append(loss[row["take"]])
        if max(loss.values()) > NEAR + NOISE:
            hard.append(loss[row["take"]] <= NEAR)
        if row["candidates"][row["take"]][0] >= SURE:
            suffices.append(loss[row["take"]] <= NEAR + NOISE)
    found: Row = {"cells": len(pairs), "outside": len(pairs) - len(inside)}
    if not inside:
        return found
    chance, is_right = np.array(said), np.array(right, float)
    deciles = np.minimum((chance * 10).astype(int), 9)
    return found | {
        "take_within_5_percent": round(float(np.mean(np.array(regrets) <= NEAR)), 3),
        "cells_that_differ": len(hard),
        "take_within_5_percent_of_these": round(float(np.mean(hard)), 3) if hard else None,
        "brier": round(float(np.mean((chance - is_right) ** 2)), 3),
        "regret_mean": round(float(np.mean(regrets)), 3),
        "suffices": len(suffices),
        "suffices_wrong": suffices.count(False),
        "inside_90": round(float(np.mean(held)), 3),
        "reliability": [
            [f"{n * 10}", int((deciles == n).sum()), round(float(is_right[deciles == n].mean()), 2)]
            for n in range(10)
            if (deciles == n).any()
        ],
    }


def _fits(rows: Sequence[Row]) -> Row:
    """Errors of keys and of twins over fits."""
    from true_keys import GEOMETRY

    done = [row for row in rows if "keys" in row]
    keys: dict[str, list[Row]] = {}
    for row in done:
        for key, each in row["keys"].items():
            keys.setdefault(key, []).append(each)
    table = {}
    for key, found in keys.items():
        known = [abs(each["error"]) for each in found if not each["unknown"]]
        limit = GEOMETRY_WITHIN if key in GEOMETRY else TIMES_WITHIN
        table[key] = {
            "devices": len(found), "unknown": len(found) - len(known),
            "within": sum(each <= limit for each in known), "limit": limit,
            "median_error": round(float(np.median(known)), 3) if known else None,
            "worst": round(max(known), 3) if known else None,
        }  # fmt: skip
    pairs = [each for row in done for each in row["twins"]]
    result: Row = {"devices": len(done), "refused": len(rows) - len(done), "keys": table}
    if rows:
        busy = [row["busy_cpus"] for row in rows]
        result |= {
            "writes": sum(row["writes"] for row in rows), "busy_cpus": [min(busy), max(busy)],
            "seconds_max": max(row["seconds"] for row in rows),
        }  # fmt: skip
    for name, limit in (("mean", MEAN_WITHIN), ("p99", P99_WITHIN)):
        errors = [abs(each[name]) for each in pairs if name in each]
        if errors:
            result[f"twin_{name}"] = {
                "loads": len(errors), "within": sum(each <= limit for each in errors),
                "limit": limit, "median_error": round(float(np.median(errors)), 3),
            }  # fmt: skip
    return result


def document(page: str, found: Row) -> str:
    """The page with these figures between its two marks."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(found)}\n{END}{tail}"


def table(found: Row) -> str:
    """The figures as tables of the page."""
    inside, deciles = found["cells"] - found["outside"], found["reliability"]
    lines = [
        f"| {inside} cells with a probability, of {found['cells']}, on {found['devices']} hidden "
        f"devices ({found['date']}) | |",
        "|---|---|",
        f"| Brier score of \"within 5 % of the best\" | {found['brier']} |",
        f"| what is taken is within 5 % of the best in the kernel "
        f"| {found['take_within_5_percent']:.0%} |",
        f"| the same where the kernel's schedulers differ ({found['cells_that_differ']} cells) "
        f"| {found['take_within_5_percent_of_these']:.0%} |",
        f"| mean loss of following the prediction | {found['regret_mean']:.1%} |",
        f"| \"simulation suffices\" | {found['suffices']} of {inside}, wrong in "
        f"{found['suffices_wrong']} |",
        f"| losses in the kernel inside the 90 % interval | {found['inside_90']:.0%} |",
        "",
        "| probability printed, from (%) | " + " | ".join(row[0] for row in deciles) + " |",
        "|---" * (1 + len(deciles)) + "|",
        "| predictions | " + " | ".join(f"{row[1]}" for row in deciles) + " |",
        "| of these within 5 % in the kernel | "
        + " | ".join(f"{row[2]:.0%}" for row in deciles) + " |",
    ]  # fmt: skip
    for name, fits in found["fits"].items():
        if not fits["devices"]:
            continue
        geometry, times = _shares(fits["keys"], 0.05), _shares(fits["keys"], 0.10)
        lines += [
            "",
            f"| {fits['devices']} fits {name}, {fits['busy_cpus'][0]} to {fits['busy_cpus'][1]} "
            "CPUs busy | |",
            "|---|---|",
            f"| counted keys within 5 % | {geometry} |",
            f"| times and rates within 10 % | {times} |",
            f"| mean of unseen loads within 10 % | {_share(fits['twin_mean'])} |",
            f"| 99th percentile within 15 % | {_share(fits['twin_p99'])} |",
            f"| writes | {fits['writes']} |",
        ]
    return "\n".join(lines)


def _shares(keys: Row, limit: float) -> str:
    those = [each for each in keys.values() if each["limit"] == limit]
    known = sum(each["devices"] - each["unknown"] for each in those)
    unknown = sum(each["unknown"] for each in those)
    return f"{sum(each['within'] for each in those)} of {known}, {unknown} more unknown"


def _share(one: Row) -> str:
    return f"{one['within']} of {one['loads']}"
