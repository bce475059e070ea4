"""One description of processes: the places that the simulator gives each of them."""

from pathlib import Path

import numpy as np

from schedlab.store.process_files import processes_of
from schedlab.store.requests import read_requests
from schedlab_sim.simulation import Simulation

WANTED = 1000
LOAD = {
    "process": [
        {"name": "anywhere", "count": 2, "record": "4KiB"},
        {"name": "backwards", "pattern": "reverse", "record": "64KiB", "start": "100ms"},
    ]
}


def check_places(recorded: Path, size_bytes: int, seed: int) -> None:
    """The first requests of each process in a recording are those of the simulation."""
    rows = read_requests(recorded, "schedlab").rows
    sent = rows["offset_bytes"][np.argsort(rows["arrival_ns"], kind="stable")]
    run = Simulation(
        device="sd-card", scheduler="none", processes=LOAD, size=str(size_bytes), seconds=60.0,
        seed=seed, log=True,
    ).run()  # fmt: skip
    for number, row in enumerate(processes_of(LOAD, size_bytes, seed)):
        begin, span = row["offset"] or 0, row["span"] or 0
        real = sent[(sent >= begin) & (sent < begin + span)][:WANTED]
        simulated = run.log[run.log["process"] == number]["sector"][:WANTED] * 512
        assert len(real) == len(simulated) == WANTED
        assert real.tolist() == simulated.tolist()
