"""Figures of a battery from its lines, and the place of them in the documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from schedlab_sim.checked import losses
from schedlab_sim.predict.predict import NEAR, SURE

Row = dict[str, Any]
GEOMETRY_WITHIN, TIMES_WITHIN, MEAN_WITHIN, P99_WITHIN = 0.05, 0.10, 0.10, 0.15
PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "prediction.md"
#: CPUs that others and the fit used together, from which a host is not idle.
BUSY = 0.7
KINDS = ("disk", "sata", "nvme", "card")


def figures(fits: Sequence[Row], truths: Sequence[Row], predicted: Sequence[Row]) -> Row:
    """Everything that the lines say, as one document."""
    true = pooled(truths)
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
            name: _fits([row for row in fits if (row["busy_cpus"] > BUSY) == is_busy])
            for name, is_busy in (("on an idle host", False), ("beside other work", True))
        },
    }


def pooled(truths: Sequence[Row]) -> dict[tuple[int, str], Row]:
    """By seed and load the truth of all its starts: requests of all by the time of all. Cells that
    decide something.
    """
    starts: dict[tuple[int, str], list[Row]] = {}
    for row in truths:
        starts.setdefault((row["seed"], row["load"]), []).append(row)
    found = {}
    for key, (first, *more) in starts.items():
        if first["decided"]:
            seconds = [row["seconds"] for row in (first, *more)]
            rates = {
                scheduler: {
                    name: float(np.average([r["rates"][scheduler][name] for r in (first, *more)],
                                           weights=seconds))
                    for name in rows
                }
                for scheduler, rows in first["rates"].items()
            }  # fmt: skip
            found[key] = {**first, "rates": rates, "losses": losses(rates)}
    return found


def _calibration(pairs: Sequence[tuple[Row, Row]]) -> Row:
    """Brier score, regret and so on of predictions with their truths."""
    inside = [pair for pair in pairs if not pair[0]["outside"]]
    said, right, held, regrets, hard, suffices = [], [], [], [], [], []
    for row, truth in inside:
        least = min(truth["losses"].values())
        loss = {name: value - least for name, value in truth["losses"].items()}
        for name, (near, _, low, high) in row["candidates"].items():
            said.append(near)
            right.append(loss[name] <= NEAR)
            held.append(low <= loss[name] <= high)
        regrets.append(loss[row["take"]])
        if max(loss.values()) > NEAR:
            hard.append(loss[row["take"]] <= NEAR)
        if row["candidates"][row["take"]][0] >= SURE:
            suffices.append(loss[row["take"]] <= NEAR)
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
        sure = [each for each in found if not each["unknown"]]
        known = [abs(each["error"]) for each in sure]
        limit = GEOMETRY_WITHIN if key in GEOMETRY else TIMES_WITHIN
        said = [limit < abs(each["error"]) <= 2 * each["stated"] for each in sure]
        table[key] = {
            "devices": len(found), "unknown": len(found) - len(known),
            "within": sum(each <= limit for each in known), "limit": limit, "said": sum(said),
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


def write(name: str, text: str) -> None:
    """Put a text between the marks of that name in the page of the documents."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, found, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    if not found or end not in rest:
        raise SystemExit(f"{PAGE} has no {begin} … {end}")
    tail = rest.partition(end)[2]
    PAGE.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", encoding="utf-8")


def table(found: Row) -> str:
    """The figures as tables of the page."""
    lines = [
        f"| {found['cells'] - found['outside']} cells with a probability, of {found['cells']} on "
        f"{found['devices']} hidden devices ({found['date']}) | |",
        "|---|---|",
        *calibration_rows(found),
    ]
    refused = [row["cell"] for row in found["planted"] if row["outside"]]
    lines += [
        "",
        f"Of {len(found['planted'])} planted cells {len(refused)} are refused a probability: "
        + ", ".join(refused) + ".",
    ]  # fmt: skip
    for name, fits in found["fits"].items():
        if not fits["devices"]:
            continue
        low, high = fits["busy_cpus"]
        lines += [
            "",
            f"| {fits['devices']} fits {name} ({low:.1f} to {high:.1f} CPUs used) | |",
            "|---|---|",
            f"| counted keys within 5 % | {_shares(fits['keys'], GEOMETRY_WITHIN)} |",
            f"| times and rates within 10 % | {_shares(fits['keys'], TIMES_WITHIN)} |",
            f"| mean of loads that it has not seen, within 10 % | {_share(fits['twin_mean'])} |",
            f"| their 99th percentile, within 15 % | {_share(fits['twin_p99'])} |",
            f"| writes | {fits['writes']} |",
        ]
    return "\n".join(lines)


def calibration_rows(found: Row) -> list[str]:
    """Rows of a calibration, and how often what was printed came true."""
    inside, bins = found["cells"] - found["outside"], found["reliability"]
    rows = [
        f'| Brier score of "within 5 % of the best" | {found["brier"]:.3f} |',
        "| what is taken is within 5 % of the best in the kernel "
        f"| {100 * found['take_within_5_percent']:.0f} % |",
        f"| mean loss of following the prediction | {100 * found['regret_mean']:.1f} % |",
        f'| "simulation suffices" | {found["suffices"]} of {inside}, wrong in '
        f"{found['suffices_wrong']} |",
        f"| losses in the kernel inside the 90 % interval | {100 * found['inside_90']:.0f} % |",
    ]
    if found.get("cells_that_differ"):
        share = found["take_within_5_percent_of_these"]
        count = found["cells_that_differ"]
        rows.insert(
            2, f"| the same in the {count} cells in which schedulers differ | {100 * share:.0f} % |"
        )
    return [
        *rows,
        "",
        "| probability printed, from | " + " | ".join(f"{row[0]} %" for row in bins) + " |",
        "|---" * (1 + len(bins)) + "|",
        "| predictions | " + " | ".join(f"{row[1]}" for row in bins) + " |",
        "| of these within 5 % in the kernel | "
        + " | ".join(f"{100 * row[2]:.0f} %" for row in bins) + " |",
    ]  # fmt: skip


def _shares(keys: Row, limit: float) -> str:
    those = [each for each in keys.values() if each["limit"] == limit]
    unknown = sum(each["unknown"] for each in those)
    known = sum(each["devices"] for each in those) - unknown
    found = sum(each["within"] for each in those)
    said = sum(each["said"] for each in those)
    return (
        f"{found} of {known}, {said} of the others within twice their own error; {unknown} unknown"
    )


def _share(one: Row) -> str:
    return f"{one['within']} of {one['loads']}"
