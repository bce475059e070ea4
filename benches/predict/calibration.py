"""How good the probabilities of `schedlab predict` are where the kernel is known:
`python benches/predict/calibration.py`; with `--document` also into docs/concepts/prediction.md.

Each checked cell in turn is left out: its losses in the simulation and the errors of the other
cells give the prediction, its losses in the kernel are the truth. No device is drawn: this is the
error of the instrument alone.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from battery_report import calibration_rows, write

from schedlab_sim.checked import OUTSIDE, checked_cells, interval_90, measured, nearest, with_errors
from schedlab_sim.predict.predict import MOST, NEAR, SURE

DRAWS = 4000


def main() -> None:
    """Print the figures as JSON."""
    chances, truths, regrets, suffices, inside = [], [], [], [], []
    outside = 0
    cells = checked_cells()
    for number, cell in enumerate(cells):
        others = [*cells[:number], *cells[number + 1 :]]
        is_missed = cell.features.classes or cell.features.is_race
        if is_missed or nearest(cell.features, others)[1] > OUTSIDE:
            outside += 1
            continue
        spread = with_errors(cell.model, cell.features, others, DRAWS, seed=1)
        least = min(cell.kernel.values())
        near = {name: float(np.mean(values <= NEAR)) for name, values in spread.items()}
        for name, chance in near.items():
            chances.append(chance)
            truths.append(cell.kernel[name] - least <= NEAR)
            low, high = interval_90(spread[name])
            inside.append(low <= cell.kernel[name] - least <= high)
        take = min(
            spread, key=lambda name: round(float(np.mean(np.minimum(spread[name], MOST))), 3)
        )
        regrets.append(cell.kernel[take] - least)
        if near[take] >= SURE:
            suffices.append(regrets[-1] <= NEAR)
    right, said = np.array(truths, float), np.array(chances)
    reliability = [
        (f"{low * 100:.0f}", int(part.sum()), round(float(right[part].mean()), 2))
        for low in np.arange(0, 1, 0.2)
        if (part := (said >= low) & (said < low + 0.2 + 1e-9 * (low > 0.7))).any()
    ]
    figures = {
        **measured(),
        "outside": outside,
        "brier": round(float(np.mean((said - right) ** 2)), 3),
        "take_within_5_percent": round(float(np.mean(np.array(regrets) <= NEAR)), 2),
        "regret_mean": round(float(np.mean(regrets)), 3),
        "suffices": len(suffices),
        "suffices_wrong": suffices.count(False),
        "inside_90": round(float(np.mean(inside)), 2),
        "reliability": reliability,
    }
    print(json.dumps(figures, indent=1))
    if "--document" in sys.argv:
        head = (
            f"| {figures['cells']} cells, {figures['drawn']} of them on drawn devices (Linux "
            f"{figures['kernel']}, {figures['date']}), {outside} outside | |"
        )
        write("calibration", "\n".join([head, "|---|---|", *calibration_rows(figures)]))


if __name__ == "__main__":
    main()
