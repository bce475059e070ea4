"""All that a result says, of records with two or more of everything: every word and figure of the
page, the workbook and the tables, which no line that forgets the second one leaves as they are."""

import io
import re
from dataclasses import replace

import answers
import openpyxl
import pytest
import report_simulation as simulation
import reports

from schedlab import __version__, report
from schedlab.spec import Explanation, Flag, GateFinding
from schedlab.spec.answer import Requirement, Unfit

READER, NEWCOMER, SEQ = answers.READER, answers.NEWCOMER, answers.SEQ
BOTH = ("none", "bfq")
MEASURED = ("read 4 KiB", "read 8 KiB", "write 8 KiB", "reader beside writers")


def waited(name, factor):
    return Explanation(name, 2e-3 * factor, 1e-3, 4e-3 / factor, 8.0 * factor, 2.0, 1000,
                       depth_series=(4.0, 8.0 * factor), plug_s=1e-5)  # fmt: skip


def enriched():
    """A trade with two of each: explained workloads, groups, notes, unfit rows, gates, wishes."""
    answer = replace(
        answers.TRADE,
        flags=(Flag("unbalanced", READER, BOTH, {"runs": {"none": 5, "bfq": 6}, "most": 7}),
               Flag("starved", SEQ, BOTH, {"counts": {"none": 1, "bfq": 2}, "runs": 7}),
               Flag("starved", READER, BOTH, {"counts": {"none": 2, "bfq": 3}, "runs": 7})),
        unfit=(Unfit("kyber", SEQ, 3, 7, ("late", "others")), Unfit("bfq", SEQ, 4, 7, ("clock",))),
        requirements=(Requirement(READER, 6e6, True, {"none": "missed", "bfq": "open"}),
                      Requirement(SEQ, 1e9, False, {"none": "met", "bfq": "met"})),
    )  # fmt: skip
    record = reports.record_of(answer)
    gates = (GateFinding("late", "2 ms late", True), GateFinding("others", "1 s of CPU", False))
    runs = [replace(run, gates=gates if run.block == 1 else (),
                    properties={**run.properties, "engine": "psync", "cpu_share": 0.1 * run.block})
            for run in record.runs]  # fmt: skip
    lost = [replace(run, attempt=0, status="discarded") for run in runs if run.block == 1]
    why = {(work, name): (waited("readers", 1 + at), waited("writers", 3 - at))
           for work in (NEWCOMER, READER) for at, name in enumerate(BOTH)}  # fmt: skip
    host = {**record.host, "memory_bytes": 4 << 30,
            "block_devices": {name: {"model": f"Disk {name}", "rotational": 0, "scheduler": "none"}
                              for name in ("sda", "sdb")}}  # fmt: skip
    experiment = replace(record.experiment, notes=("a first note", "a second note"))
    runs = (*runs, *lost)
    return replace(record, experiment=experiment, runs=runs, explanations=why, host=host), answer


def measured():
    """Four workloads, and three blocks of four candidates with two arms of the first."""
    record = simulation.io_record(sizes=2, blocks=3)
    works = tuple(w for w in record.experiment.workloads if w.label in MEASURED)
    runs = tuple(run for run in record.runs if run.workload in MEASURED)
    cells = tuple(cell for cell in record.plan.cells if cell.workload in MEASURED)
    record = replace(record, experiment=replace(record.experiment, workloads=works), runs=runs,
                     plan=replace(record.plan, cells=cells))  # fmt: skip
    return record, simulation.answered(record)


def of_cpus():
    record = simulation.cpu_record()
    return record, simulation.answered(record)


def of_simulations():
    record = simulation.sim_record()
    return record, simulation.answered(record)


def words_of(page):
    """What a reader of a page sees, reads under the pointer, or hears."""
    page = re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)
    page = re.sub(r'<[^>]*?(?:aria-label|title)="([^"]*)"[^>]*>', r"\n\1\n", page)
    rows = re.sub(r"</(?:td|th)>\s*", " | ", page)
    texts = re.sub(r"<[^>]+>", "\n", re.sub(r"</?(?:td|th|a|b|code|span|strong)\b[^>]*>", "", rows))
    return [line.strip() for line in texts.splitlines() if line.strip()]


def cells_of(book):
    """Each row of each sheet."""
    for sheet in openpyxl.load_workbook(io.BytesIO(book)):
        yield f"## {sheet.title}"
        for row in sheet.iter_rows(values_only=True):
            shown = [f"{cell:.6g}" if isinstance(cell, float) else str(cell)
                     for cell in row if cell is not None]  # fmt: skip
            if shown:
                yield " | ".join(shown)


@pytest.mark.parametrize("make", [enriched, measured, of_cpus, of_simulations])
def test_a_result_says_all_of_it(make, golden):
    record, answer = make()
    said = ["# Page", *words_of(report.html(record, answer)), "# Workbook"]
    said += [*cells_of(report.xlsx(record, answer)), "# Tables"]
    said += report.tables_text(record, answer).splitlines()
    said += ["# Markdown", *report.markdown(record, answer).splitlines()]
    text = "\n".join(said).replace("\u00a0", " ").replace(f"schedlab {__version__}", "schedlab N")
    golden(f"whole/{make.__name__}.txt", text)
