"""Loads and schedulers for which the simulation is known to err, or was never checked: each must be
refused a probability.
"""

from __future__ import annotations

from typing import Any

from schedlab_sim.checked import CHECKED
from schedlab_sim.predict.predict import SimulatedLoad, predict

SEQUENTIAL = {"pattern": "sequential", "record": "128KiB"}
FROM_START = {**SEQUENTIAL, "offset": "0"}
PLANTED: tuple[tuple[str, str, Any, str], ...] = (
    ("priority levels", "disk7200", "levels", ""),
    ("weights", "disk7200", "readers3-weights", ""),
    ("an idle class", "sd-card", [{"name": "a"}, {"name": "b", "ioprio": "idle"}], ""),
    ("write-back", "disk7200", "copy-buffered", ""),
    ("background writes", "disk7200", "copy-direct", ""),
    ("a later start", "disk7200", "sequential-then-random", ""),
    ("think times", "disk7200", [{"name": "a", "think": "5ms"}, {"name": "b"}], ""),
    ("one region", "disk7200", [{"name": "a", **FROM_START}, {"name": "b", **FROM_START}], ""),
    ("both directions", "disk7200", [{"name": "a", "read_share": 0.5, "depth": 8}], ""),
    ("arrivals", "disk7200", [{"name": "a", "arrivals": "poisson", "rate_per_s": 20}], ""),
    ("backwards", "disk7200", [{"name": "a", "pattern": "reverse", "record": "64KiB"}], ""),
    ("cfq", "disk7200", "random32", "none,cfq"),
    ("a rule that no kernel has", "disk7200", "random32", "none;bfq:x_injection=0"),
    ("writes at flash with several dies", "nvme-slow", [{"name": "a", "read_share": 0,
                                                          "depth": 256}], ""),
)  # fmt: skip


def planted() -> list[dict[str, str]]:
    """Of each planted cell why it is refused; "" where it has a probability."""
    rows = []
    for name, device, processes, schedulers in PLANTED:
        content = processes if isinstance(processes, str) else {"process": processes}
        load = SimulatedLoad(name, {"processes": content})
        found = predict(device, load, schedulers or ",".join(CHECKED))
        has_none = all(each.near is None for each in found.candidates)
        rows.append({"cell": name, "outside": found.outside if has_none else ""})
    return rows
