"""`schedlab sim ncq-study`: the NCQ study again, as charts and as paper against model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.spec import SCHEMA_VERSION

if TYPE_CHECKING:
    from schedlab.sim.ncq_study import Study

PAPER_READS = {("A", "s"): 0.41, ("A", "ts"): 0.27, ("A", "tsb"): 0.22, ("B", "tsb"): 0.35}
IOPS_NOTE = "B, C and D send more than the device serves."
BUFFER_NOTE = "The axes are logarithmic."
POLICY_NOTE = "Black ticks: the paper's values, where its text states one."
READ_NOTE = f"{POLICY_NOTE} For B it does not say which buffer."
WRITE_NOTE = "The paper's text states no values."


@click.command("ncq-study")
@click.option("--requests", type=click.IntRange(min=100), default=20_000, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Folder (default: results/DATE-ncq).")
@click.option("--json", "as_json", is_flag=True, help="The statements as JSON.")
def ncq_study(requests: int, seeds: int, out: Path | None, as_json: bool) -> None:
    """Repeat the study of request scheduling in the NCQ of an SSD; resumes what it began in OUT."""
    from schedlab.app.measure import default_folder
    from schedlab.cli.sim.sweep import progress
    from schedlab.report.ncq_page import write_page
    from schedlab.sim.ncq_study import Study, study_sweep
    from schedlab.sim.sweep_run import run_sweep

    folder = out or default_folder("ncq")
    with progress() as tell:
        study = Study(run_sweep(study_sweep(requests, seeds), folder, tell))
    rows = [
        {
            "result": each.result,
            "paper": each.published,
            "model": each.found,
            "comes out": {True: "yes", False: "no", None: ""}[each.comes_out],
            "remark": each.remark,
        }
        for each in study.statements()
    ]
    counted = "1 seed" if seeds == 1 else f"{seeds} seeds"
    basis = (
        f"{counted} of {requests:,} requests, means over the seeds, serial service, "
        "α = 0.9 and dispatch-overtake aging except where said. The charts show what the paper's "
        "Figures 3 to 8 are about; of the paper only the numbers in its text are known."
    )
    page = folder / "report.html"
    write_page(page, rows, study.cannot(), figures(study), basis)
    if as_json:
        document = {"schema": SCHEMA_VERSION, "statements": rows, "page": str(page)}
        click.echo(json.dumps({**document, "cannot": list(study.cannot())}))
        return
    for row in rows:
        paper = row["paper"] or "–"
        click.echo(f"{row['result']}: paper {paper}, model {row['model']:.2f} {row['comes out']}")
    for text in study.cannot():
        click.echo(f"does not come out: {text}")
    click.echo(f"report: {page}")


def figures(study: Study) -> list[str]:
    """The charts of the page."""
    from schedlab.report.ncq_page import dot_chart, figure, line_chart
    from schedlab.sim.ncq_study import BUFFERS_MIB, POLICIES

    shown = []
    for direction, note in (("read", READ_NOTE), ("write", WRITE_NOTE)):
        rows = policy_rows(study, f"mean_{direction}_ms")
        svg = dot_chart(rows, "workload", "share of FCFS", "policy")
        title = f"Mean {direction} response, share of FCFS (64 MiB)"
        shown.append(figure(title, note, svg, rows))
    rows = alpha_rows(study)
    svg = line_chart(rows, "α", "longest response (ms)", "direction")
    note = "Averages over the seeds."
    shown.append(figure("Longest response over α (A, TSB, 32 MiB)", note, svg, rows))
    for workload in ("A", "B"):
        rows = [
            {
                "buffer (MiB)": buffer,
                "mean read (ms)": study.mean("mean_read_ms", workload, policy, buffer),
                "policy": policy.upper(),
            }
            for policy in POLICIES
            for buffer in BUFFERS_MIB
        ]
        svg = line_chart(rows, "buffer (MiB)", "mean read (ms)", "policy", log=True)
        title = f"Mean read response over the size of the buffer ({workload})"
        shown.append(figure(title, BUFFER_NOTE, svg, rows))
    rows = [
        {
            "direction": direction,
            "share of FCFS": study.ratio(f"mean_{direction}_ncq_ms", "D", policy, 32),
            "policy": policy.upper(),
            "paper": 1.06 if (direction, policy) == ("write", "tsb") else None,
        }
        for direction in ("read", "write")
        for policy in POLICIES
    ]
    svg = dot_chart(rows, "direction", "share of FCFS", "policy")
    shown.append(figure("D from NCQ entry, share of FCFS (32 MiB)", POLICY_NOTE, svg, rows))
    rows = [
        {
            "workload": workload,
            "IOPS": study.mean("iops", workload, policy, 64),
            "policy": policy.upper(),
            "paper": None,
        }
        for workload in ("A", "B", "C", "D")
        for policy in POLICIES
    ]
    svg = dot_chart(rows, "workload", "IOPS", "policy")
    shown.append(figure("I/O operations per second (64 MiB)", IOPS_NOTE, svg, rows))
    return shown


def policy_rows(study: Study, metric: str) -> list[dict[str, Any]]:
    """Shares of FCFS by workload and policy, with the paper's where it states one."""
    from schedlab.sim.ncq_study import POLICIES, WORKLOADS

    paper = PAPER_READS if metric == "mean_read_ms" else {}
    return [
        {
            "workload": workload,
            "policy": policy.upper(),
            "share of FCFS": study.ratio(metric, workload, policy, 64),
            "paper": paper.get((workload, policy)),
        }
        for workload in WORKLOADS
        for policy in POLICIES
    ]


def alpha_rows(study: Study) -> list[dict[str, Any]]:
    """Longest response by α and direction."""
    from schedlab.sim.ncq_study import ALPHAS

    return [
        {
            "α": alpha,
            "longest response (ms)": study.mean(f"max_{way}_ms", "A", "tsb", 32, alpha),
            "direction": way,
        }
        for way in ("read", "write")
        for alpha in ALPHAS
    ]
