"""What the labs found, as a page of the documentation: from result folders, no figure by hand.

    python -m schedlab.app.lab_findings docs/reference/lab-findings.md RESULT…

Each result is told with the machine that it holds for and with how much of its plan was run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.result import Result
from schedlab.spec.quantities import size_text

INTRO = """# What the labs found

Written by `python -m schedlab.app.lab_findings`, from result folders. Every result holds for the
machine, the kernel and the device that are named with it, and for no other: run
`schedlab lab run NAME --scale full` for yours.
"""


def page(results: Sequence[Result]) -> str:
    """The page, in Markdown."""
    return "\n".join([INTRO, *(section(each) for each in results)])


def section(result: Result) -> str:
    """One result: where and when, how much of it, and what it says."""
    from schedlab import report

    record = result.record
    planned = {cell.key for cell in record.plan.cells}
    done = {run.key for run in record.analysed_runs} & planned
    repeated = sum(run.status == "discarded" for run in record.runs)
    began = min((run.started_at for run in record.runs), default="")[:10]
    lines = [
        f"## {record.experiment.title}",
        f"{began}, {machine(record.host)}; {place(result)}. {len(done)} of {len(planned)} planned "
        f"runs; {repeated} were repeated because of what happened around them.",
        report.findings(record, result.verdict),
    ]
    return "\n\n".join(lines) + "\n"


def machine(host: Mapping[str, Any]) -> str:
    """The machine, in a few words."""
    cpu, memory = host.get("cpu", {}), host.get("memory", {})
    kernel, virtual = host.get("kernel", {}), host.get("virtualisation", {})
    words = [
        f"Linux {str(kernel.get('release', '?')).split('-')[0]}",
        f"{cpu.get('model', '?')}, {cpu.get('online', '?')} CPUs",
    ]
    if size := memory.get("MemTotal_bytes"):
        words.append(f"{size / 2**30:.0f} GiB of memory")
    if virtual.get("virtual_machine"):
        words.append("a virtual machine")
    return ", ".join(words)


def place(result: Result) -> str:
    """Where the work went."""
    target = result.record.experiment.target
    if target.kind == "scratch":
        return f"a temporary loop device of {size_text(target.size_bytes)}"
    if target.kind == "emulated":
        return f"an emulated {target.model}"
    return "no device" if target.kind == "none" else target.kind


def main(file: Path, folders: Sequence[Path]) -> None:
    """Write the page."""
    file.write_text(page([Result.load(folder) for folder in folders]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
