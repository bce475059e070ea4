"""Simulated SSDs, disks and the kernel's schedulers above them, for scripts and Jupyter.

>>> from schedlab import sim
>>> fcfs = sim.run(policy="fcfs", workload="A", buffer="64MiB", seed=1)
>>> tsb = sim.run(policy="tsb", workload="A", buffer="64MiB", seed=1)
>>> tsb.metrics["mean_read_ms"] < fcfs.metrics["mean_read_ms"]
True
>>> above = {"device": "disk7200", "processes": "random32", "tags": 4}
>>> none, sorted_ = (sim.run(scheduler=name, **above) for name in ("none", "mq-deadline"))
>>> sorted_["total"]["iops"] > none["total"]["iops"]
True
"""

from schedlab_sim.device import devices
from schedlab_sim.results import LOG_DTYPE, SimResult
from schedlab_sim.simulation import Requests, Simulation, policies, run, workloads

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
