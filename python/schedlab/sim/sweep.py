"""Many simulations: over threads without the GIL, or over a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from schedlab.sim.results import SimResult

if TYPE_CHECKING:
    from schedlab.sim.runs import Simulation


def run_threads(simulations: Sequence[Simulation]) -> list[SimResult]:
    """Results in the order of `simulations`; on an error or Ctrl-C all that run are stopped."""
    from schedlab import _core

    stop = _core.SimStop()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = [pool.submit(simulation.run, stop) for simulation in simulations]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
