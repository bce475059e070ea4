"""`schedlab sim cpu`: simulate CPU scheduling policies, print the figures, draw the schedule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from schedlab.cli.options import COUNT, SEED, command, json_option
from schedlab.cli.sections import section
from schedlab.cli.types import Listed, QuantityType
from schedlab_sim.cli.play import play_options, refuse_idle_language, show_plays

if TYPE_CHECKING:
    from schedlab_sim.cpu_schedule import CpuOptions


class TimeNs(QuantityType[int]):
    """`4ms`, `2us`, `30s`: nanoseconds of simulated time."""

    name = "time"

    @staticmethod
    def parse(text: str) -> int:
        """As the simulator reads it."""
        from schedlab_sim.cpu_schedule import parse_time

        return parse_time(text)


_tasks = section(
    "Tasks",
    click.option(
        "--tasks", help="A TOML file, a file of bursts or of sched_switch events (perf sched "
        'script), or "A:0:8,B:1:4/2/1" (NAME:ARRIVAL:CPU/IO/CPU, ms).',
    ),
    click.option("--processes", type=COUNT, help="Instead: N equal processes, as the lab."),
    click.option("--time", type=TimeNs(), help="Stop here; how long the N processes run."),
    click.option("--calculation", type=TimeNs(), help="CPU time of one calculation: gives counts."),
    usual="--tasks --processes --time",
)  # fmt: skip
_policy = section(
    "Policy",
    click.option("--policy", type=Listed(), default="rr", show_default=True,
                 help="One or more, comma-separated."),
    click.option("--quantum", default="4ms", show_default=True, type=TimeNs()),
    click.option("--cpus", default=1, show_default=True),
    click.option("--switch-cost", default="0", show_default=True, type=TimeNs()),
    click.option("--hz", type=COUNT, help="Round quanta up to jiffies of 1/HZ s."),
    click.option("--kernel", type=click.Choice(["6.6", "6.12", "6.15"]),
                 help="eevdf: its features."),
    click.option("--set", multiple=True, metavar="POLICY.KEY=VALUE",
                 help="Such as mlfq.levels=3, priority.aging=4ms, eevdf.delay_zero=true."),
    click.option("--seed", type=SEED, help="Of lottery (1), and of --quiz tasks (any)."),
    usual="--policy --quantum --cpus --switch-cost",
)  # fmt: skip
_chart = section(
    "Chart",
    click.option("--gantt", type=click.Path(), help="The schedule as FILE.html or FILE.svg."),
    click.option("--from", "from_ns", default="0", type=TimeNs(), help="Start of the chart."),
    click.option("--to", "to_ns", type=TimeNs(), help="End of the chart."),
    click.option("--width", type=COUNT, help="Of the chart: pixels.  [1000]"),
    click.option("--measured", type=click.Path(), help="A file of bursts, drawn below."),
    usual="--gantt",
)
_more = section(
    "Quiz, and a real schedule",
    click.option("--quiz", is_flag=True, help="Hide the answers; random tasks without --tasks."),
    click.option("--count", type=COUNT, help="Sheets of a quiz for a class, and their key."),
    click.option("--out", type=click.Path(), help="Where the sheets go (HTML to print)."),
    click.option("--validate", "bursts", type=click.Path(),
                 help="Its bursts: how close is it?"),
    usual="--quiz --count --out",
)  # fmt: skip


@command()
@_tasks
@_policy
@play_options
@_chart
@_more
@section("Result", json_option)
def cpu(count: int | None, out: str | None, play: str | None, **typed: Unpack[CpuOptions]) -> None:
    """Simulate policies on tasks: schedule, turnaround, waiting, response, fairness.

    \b
    schedlab sim cpu --policy fcfs,srtf,rr --tasks "A:0:8,B:1:4,C:2:9"
    schedlab sim cpu --policy rr --processes 2 --time 30s --quantum 1ms --hz 250 \\
        --switch-cost 2us --calculation 850us
    """
    from schedlab.cli.show import print_lines
    from schedlab.errors import SpecError
    from schedlab_sim.cpu_schedule import document, plays_of, shown
    from schedlab_sim.cpu_validate import checked

    refuse_idle_language({**typed, "play": play}, is_page=count is not None)
    if (count is None) != (out is None) or (count is not None and not typed["quiz"]):
        raise SpecError("--count, --out and --quiz belong together", "--quiz --count 30 --out FILE")
    if play is not None:
        if count is not None:
            raise SpecError("--count would change nothing beside --play", "omit --count and --out")
        return show_plays(plays_of(typed), play, typed["lang"])
    if count is not None and out is not None:
        if typed["as_json"]:
            raise SpecError("--json: sheets are HTML", "omit it")
        from schedlab_sim.quiz import write_sheets

        first = write_sheets(typed, count, Path(out), typed["lang"])
        print_lines([f"{out}: {count} sheets of seeds {first} to {first + count - 1}, and the key"])
        return
    if typed["bursts"]:
        lines, is_accepted = checked(typed, typed["as_json"])
        print_lines(lines)
        raise SystemExit(0 if is_accepted else 1)
    print_lines([json.dumps(document(typed))] if typed["as_json"] else shown(typed))
