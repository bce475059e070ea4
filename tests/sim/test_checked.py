"""How far a simulated load is from what was checked against a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedlab_sim.checked import expected_of
from schedlab_sim.simulation import Simulation


@pytest.mark.parametrize(
    ("scheduler", "changes", "reason"),
    [
        ("none", {"tags": 128}, ""),
        ("mq-deadline", {"tags": 4, "nr_requests": 32}, ""),
        ("mq-deadline", {"tags": 4}, "32 requests, of which mq-deadline holds at most 8"),
        ("bfq:x_injection=0", {"tags": 4}, "the kernel's bfq has no x_injection"),
        ("none", {"tags": 128, "settings": {"hz": 100}}, "hz was never changed in a check"),
        ("none", {"tags": 128, "settings": {"warm_up_seconds": 1.0}}, ""),
        ("none", {"processes": "copy-buffered"}, "write-back through the page cache is known"),
        ("none", {"processes": "levels"}, "priority classes and weights are known"),
        ("none", {"processes": "copy-direct"}, "processes with background were never checked"),
        ("none", {"processes": {"arrivals": "poisson"}}, "processes with arrivals were never"),
        ("none", {"processes": {"pattern": "reverse"}}, "processes with pattern were never"),
        ("none", {"processes": {"read_share": 0.5}}, "processes with read_share were never"),
        ("none", {"processes": {"think": "1ms"}}, "processes with think were never checked"),
        ("cfq", {}, "cfq was never checked against a kernel"),
        ("bfq", {"processes": "readers3"}, ""),
        ("none", {"trace": Path("any.spc")}, "traces were never checked"),
        (
            "none",
            {"device": "sata-ssd", "processes": "reader-writers-deep"},
            "writes that wait for tags of flash with several dies are known to be missed",
        ),
        (
            "none",
            {
                "device": "sata-ssd", "processes": "reader-writers-deep",
                "device_set": {
                    "flash.channels": 1, "flash.packages_per_channel": 1,
                    "flash.dies_per_package": 1,
                },
            },
            "",
        ),
    ],
)  # fmt: skip
def test_what_was_never_checked_says_why(
    scheduler: str, changes: dict[str, Any], reason: str
) -> None:
    simulation = Simulation(**{"device": "disk7200", "scheduler": scheduler, **changes})
    expected = expected_of([simulation])
    why = expected.outside[scheduler]
    assert why.startswith(reason) and bool(why) == bool(reason)
    lines = expected.lines({})
    assert any(reason in line for line in lines)
    assert any("nearest checked load: " in line for line in lines) == (not reason)


def test_a_loss_has_the_errors_of_near_loads_and_unknown_schedulers_have_none() -> None:
    names = ("none", "bfq", "cfq")
    shared = {"device": "disk7200", "processes": "random32", "nr_requests": 64}
    expected = expected_of([Simulation(scheduler=name, **shared) for name in names])
    one = {"latency_ns_mean": 1e6}
    runs = [
        {"scheduler": name, "processes": [{**one, "iops": iops}]}
        for name, iops in (("none", 100.0), ("bfq", 190.0), ("cfq", 500.0), ("bfq", 210.0))
    ]
    rates = expected.rates(runs)
    assert rates == {"none": {"reader": 100.0}, "bfq": {"reader": 200.0}, "cfq": {"reader": 500.0}}
    ends = expected.behind(rates)
    # bfq is the best of those that are known; cfq, of which nothing is, counts for nothing.
    assert list(ends) == ["none", "bfq"]
    assert ends["bfq"][0] == 0 and 0.3 < ends["none"][0] < 0.7 < ends["none"][1] < 1.1
    text = "\n".join(expected.lines(rates))
    assert "behind the best of these (90 %): none " in text and "cfq was never checked" in text
    assert expected.document(rates)["behind"] == ends
    assert expected.behind({"bfq": rates["bfq"], "cfq": rates["cfq"]}) == {}
