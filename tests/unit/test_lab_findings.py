"""The findings of the labs name the machine, and no figure is typed by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import report_verdicts as verdicts

from schedlab.app.lab_findings import machine, page, section, study_tables
from schedlab.result import Result


def test_a_result_names_its_machine_and_how_much_was_run() -> None:
    record, verdict = verdicts.first_screen()
    text = section(cast(Result, SimpleNamespace(record=record, verdict=verdict)))
    assert text.startswith(f"## {record.experiment.title}\n")
    assert "0 of 0 planned runs" in text
    assert "| Workload | none | mq-deadline | kyber | bfq |" in text
    assert "### Why" in text
    assert page([]).startswith("# What the labs found")


def test_quanta_have_the_tables_of_their_study() -> None:
    rates = {"1 ms": 100.0, "10 ms": 103.0}
    runs = [
        SimpleNamespace(
            status="ok",
            candidate=label,
            metrics={"calculations_per_cpu_s": rate},
            properties={"workers": [{"calculations": 2 * rate, "cpu_burst_s": 2.0}]},
        )
        for label, rate in rates.items()
    ]
    candidates = [SimpleNamespace(label=label) for label in rates]
    record = SimpleNamespace(runs=runs, experiment=SimpleNamespace(candidates=candidates))
    result = SimpleNamespace(record=record, verdict=SimpleNamespace(workloads={}))
    lines = study_tables(cast(Result, result)).splitlines()
    assert lines[0] == lines[-1] == "```"
    assert any(line.split()[:2] == ["10", "ms"] and line.endswith("103.00") for line in lines)
    runs[:] = [SimpleNamespace(metrics={})]
    assert study_tables(cast(Result, result)) == ""


def test_a_machine_is_named_without_its_name() -> None:
    host: dict[str, Any] = {
        "kernel": {"release": "6.12.1-local"}, "cpu": {"model": "A", "online": 2},
        "memory": {"MemTotal_bytes": 8 << 30}, "virtualisation": {"virtual_machine": True},
        "hostname": "secret",
    }  # fmt: skip
    assert machine(host) == "Linux 6.12.1, A, 2 CPUs, 8 GiB of memory, a virtual machine"
