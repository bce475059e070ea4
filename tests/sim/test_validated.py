"""Which simulated schedulers count as validated against the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlab.sim.host import HostSimulation
from schedlab.sim.validated import validity_of


@pytest.mark.parametrize(
    ("scheduler", "changes", "reason"),
    [
        ("none", {"tags": 128}, ""),
        ("mq-deadline", {"tags": 4}, ""),
        ("bfq", {"tags": 4}, ""),
        ("none", {"tags": 4}, "none on a disk, 32 requests for 4 tags"),
        ("cfq", {}, "no current kernel has cfq"),
        ("bfq", {"processes": "readers3"}, "bfq idles between processes"),
        ("bfq:slice_idle=0", {"processes": "readers3"}, ""),
        ("kyber", {"processes": "weights"}, "kernel-check knows no processes with weight"),
        ("none", {"trace": Path("any.spc")}, "kernel-check replays no traces"),
        ("bfq", {"device": "sata-ssd", "processes": "reader-writers-deep"}, ""),
    ],
)
def test_a_case_is_validated_or_says_why_not(scheduler: str, changes: dict, reason: str) -> None:
    validity = validity_of(HostSimulation(**changes), scheduler)
    assert (validity.holds, validity.reason) == (not reason, reason)
