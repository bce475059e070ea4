"""The `serial` model against the oracle: every row of expected.csv for the workloads A and C."""

import csv
from pathlib import Path

import pytest

from schedlab_sim.pool import run_threads
from schedlab_sim.simulation import Simulation

ORACLE = Path(__file__).parents[1] / "data" / "ncq"
TIMES = [
    f"{which}_{direction}{at}_ms"
    for which in ("mean", "max")
    for direction in ("read", "write")
    for at in ("", "_ncq")
]
OTHERS = {
    "iops": "iops",
    "utilisation": "util",
    "read_hit_ratio": "read_page_hit",
    "write_hit_ratio": "write_page_hit",
}


def simulation(row: dict[str, str]) -> Simulation:
    return Simulation(
        workload=ORACLE / f"{row['workload']}.csv",
        policy=row["policy"],
        device_set={"buffer.size": f"{row['buffer_MB']}MiB"},
        policy_set={"alpha": float(row["alpha"]), "aging": row["aging"]},
    )


def test_every_row_of_the_oracle_comes_out() -> None:
    rows = [
        row
        for row in csv.DictReader((ORACLE / "expected.csv").open())
        if (ORACLE / f"{row['workload']}.csv").is_file()
    ]
    assert len(rows) >= 104
    for row, result in zip(rows, run_threads([simulation(row) for row in rows]), strict=True):
        for metric, column in {**dict(zip(TIMES, TIMES, strict=True)), **OTHERS}.items():
            expected = float(row[column])
            assert result.metrics[metric] == pytest.approx(expected, rel=1e-3), (row, metric)
