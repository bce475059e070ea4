"""What the labs found, as a page of the documentation: from result folders, no figure by hand.

    python -m schedlab.app.lab_findings docs/reference/lab-findings.md RESULT…

Each result names the machine that it holds for, and how much of its plan was run.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.app.labs import lab_named
from schedlab.result import Result
from schedlab.spec import Record
from schedlab.spec.quantities import size_text

INTRO = """# What the labs found

Written by `python -m schedlab.app.lab_findings`, from result folders. Every result holds for the
machine, the kernel and the device that are named with it, and for no other: run
`schedlab lab run NAME --scale full` for yours.
"""


def page(folders: Sequence[Path]) -> str:
    """The page, in Markdown; SpecError for a folder that is no result."""
    return "\n".join([INTRO, *(part(folder) for folder in folders)])


def part(folder: Path) -> str:
    """What one folder holds: measurements, or simulations."""
    if (folder / "sweep.toml").exists():
        return simulated(folder)
    if (folder / "model.csv").exists():
        return modelled(folder)
    return section(Result.load(folder))


def simulated(folder: Path) -> str:
    """The study of request scheduling in an SSD: the paper's figures beside the model's."""
    from schedlab.sim.ncq_study import Study, study_sweep
    from schedlab.sim.sweep_run import run_sweep

    question = json.loads(tomllib.loads((folder / "sweep.toml").read_text("utf-8"))["study"])
    requests, seeds = int(question["requests"]), int(question["seeds"])
    # Finished points are read, not simulated again.
    study = Study(run_sweep(study_sweep(requests, seeds), folder, lambda *progress: None))
    lines = ["| result | paper | model | reproduced |", "| --- | --- | --- | --- |"]
    for row in study.rows():
        cells = [row["result"], row["paper"] or "–", row["model"], row["comes out"]]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    missing = [f"* Not reproduced: {text}" for text in study.cannot()]
    title = lab_named("ncq-ssd").title
    basis = study.basis(requests, seeds)
    return "\n\n".join([f"## {title}", basis, "\n".join(lines), "\n".join(missing)]) + "\n"


def modelled(folder: Path) -> str:
    """The study of noop, deadline and cfq on a modelled disk: what follows from its tables."""
    from schedlab.sim.iozone_model import findings

    lines = "\n".join(f"* {line}" for line in findings(folder / "model.csv"))
    return f"## {lab_named('iozone-schedulers-model').title}\n\n{lines}\n"


def section(result: Result) -> str:
    """One result: where and when, how much of its plan, and its answer."""
    from schedlab import report

    record = result.record
    planned = {cell.key for cell in record.plan.cells}
    analysed = {run.key for run in record.analysed_runs} & planned
    repeated = sum(run.status == "discarded" for run in record.runs)
    began = min((run.started_at for run in record.runs), default="")[:10]
    lines = [
        f"## {record.experiment.title}",
        f"{began}, {machine(record.host)}; {place(result)}. {len(analysed)} of {len(planned)} "
        f"planned runs; {repeated} were repeated after a failed check.",
        "\n".join(f"* {note}" for note in record.experiment.notes),
        report.findings(record, result.answer),
        report.tables_markdown(record, result.answer) if has_processes(record) else "",
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def has_processes(record: Record) -> bool:
    """Whether the study hands in the counts of its processes."""
    return any("calculations_per_cpu_s" in run.metrics for run in record.runs)


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
    file.write_text(page(folders), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
