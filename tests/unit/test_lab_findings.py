"""The findings of the labs name the machine, and no figure is typed by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import answers
import report_simulation as simulation
import reports

from schedlab.app.lab_findings import machine, page, section
from schedlab.result import Result
from schedlab.spec import Record
from schedlab.spec.answer import Answer


def result_of(record: Record, answer: Answer) -> Result:
    return cast(Result, SimpleNamespace(record=record, answer=answer))


def test_a_result_names_its_machine_and_how_much_was_run() -> None:
    record = reports.record_of(answers.TRADE)
    text = section(result_of(record, answers.TRADE))
    assert text.startswith(f"## {record.experiment.title}\n")
    assert "0 of 0 planned runs" in text
    assert "| Workload | none | mq-deadline | kyber | bfq |" in text
    assert page([]).startswith("# What the labs found")


def test_quanta_have_the_tables_of_their_study() -> None:
    record = simulation.cpu_record()
    text = section(result_of(record, simulation.answered(record)))
    assert "### Sums over the processes" in text and "### Counts and CPU bursts" in text
    assert "### Sums" not in section(result_of(reports.record_of(answers.TRADE), answers.TRADE))


def test_a_machine_is_named_without_its_name() -> None:
    host: dict[str, Any] = {
        "kernel": {"release": "6.12.1-local"}, "cpu": {"model": "A", "online": 2},
        "memory": {"MemTotal_bytes": 8 << 30}, "virtualisation": {"virtual_machine": True},
        "hostname": "secret",
    }  # fmt: skip
    assert machine(host) == "Linux 6.12.1, A, 2 CPUs, 8 GiB of memory, a virtual machine"
