"""The findings of the labs name the machine, and no figure is typed by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import report_verdicts as made

from schedlab.app.lab_findings import machine, page, section
from schedlab.result import Result


def test_a_result_names_its_machine_and_how_much_was_run() -> None:
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
