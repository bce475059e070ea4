"""Simulated SSDs and their command queues, for scripts and Jupyter.

>>> from schedlab import sim
>>> fcfs = sim.run(policy="fcfs", workload="A", buffer="64MiB", seed=1)
>>> tsb = sim.run(policy="tsb", workload="A", buffer="64MiB", seed=1)
>>> tsb.metrics["mean_read_ms"] < fcfs.metrics["mean_read_ms"]
True
"""

from schedlab.sim.device import devices
from schedlab.sim.results import LOG_DTYPE, SimResult
from schedlab.sim.simulation import Requests, Simulation, policies, run, workloads

__all__ = [
    "LOG_DTYPE",
    "Requests",
    "SimResult",
    "Simulation",
    "devices",
    "policies",
    "run",
    "workloads",
]
