"""What the labs found is told with the machine, and no figure of it is typed by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import report_verdicts as made

from schedlab.app.lab_findings import machine, page, section
from schedlab.result import Result, _never_steady
from schedlab.spec import Candidate, Experiment, Plan, RateSeries, Record, Target, Workload


def test_a_result_is_told_with_its_machine_and_how_much_was_run() -> None:
    record, verdict = made.first_screen()
    text = section(cast(Result, SimpleNamespace(record=record, verdict=verdict)))
    assert text.startswith(f"## {record.experiment.title}\n")
    assert "0 of 0 planned runs" in text
    assert "| Workload | none | mq-deadline | kyber | bfq |" in text
    assert "### Why" in text
    assert page([]).startswith("# What the labs found")


def test_a_machine_is_named_without_its_name() -> None:
    host: dict[str, Any] = {
        "kernel": {"release": "6.12.1-local"}, "cpu": {"model": "A", "online": 2},
        "memory": {"MemTotal_bytes": 8 << 30}, "virtualisation": {"virtual_machine": True},
        "hostname": "secret",
    }  # fmt: skip
    assert machine(host) == "Linux 6.12.1, A, 2 CPUs, 8 GiB of memory, a virtual machine"


def rates(block: int, slope: float) -> RateSeries:
    """6 s of which the first is the ramp; a rate that changes by a share of itself."""
    noise = np.random.default_rng(block).normal(1, 0.01, 60)
    values = noise * (1 + slope * np.arange(60) / 60) * 500
    return RateSeries(block, "readers", "1/s", 0.1, tuple(map(float, values)), 1.0)


def test_runs_that_never_settle_are_flagged() -> None:
    works = tuple(Workload(n, "readers", "throughput_bytes_per_s") for n in ("level", "sloping"))
    candidates = (Candidate("none", {"scheduler": "none"}),)
    target = Target("scratch", "/var/tmp", 1 << 30)
    experiment = Experiment("t", "io", target, candidates, works, "none", 1)
    series = {
        ("level", "none"): tuple(rates(block, 0.0) for block in range(4)),
        ("sloping", "none"): tuple(rates(block, 0.5) for block in range(4)),
    }
    (flag,) = _never_steady(Record(experiment, Plan(()), (), series=series))
    assert (flag.kind, flag.workload, flag.values) == ("not-steady", "sloping", {"runs": 4})
