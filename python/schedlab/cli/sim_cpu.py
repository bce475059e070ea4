"""`schedlab sim cpu`: simulate CPU scheduling policies, print the figures, draw the schedule."""

from __future__ import annotations

import json
import random
from typing import Any

import click

from schedlab.errors import SpecError


def _time(_ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Nanoseconds of an option's text; a usage error that names the option."""
    from schedlab._core import parse_time_ns

    if text is None:
        return None
    try:
        return parse_time_ns(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error


@click.command()
@click.option("--policy", default="rr", show_default=True, help="One or several, with commas.")
@click.option("--tasks", help='A TOML file, or "A:0:8,B:1:4/2/1" (NAME:ARRIVAL:CPU/IO/CPU, ms).')
@click.option("--processes", type=int, help="Instead of --tasks: N equal processes, as the lab.")
@click.option("--time", callback=_time, help="Stop here; how long the N processes run.")
@click.option("--calculation", callback=_time, help="CPU time of one calculation: gives counts.")
@click.option("--quantum", default="4ms", show_default=True, callback=_time)
@click.option("--cpus", default=1, show_default=True)
@click.option("--switch-cost", default="0", show_default=True, callback=_time)
@click.option("--hz", type=int, help="Round quanta up to jiffies of 1/HZ s.")
@click.option("--aging", callback=_time, help="priority: one level better per this time waited.")
@click.option("--levels", default=3, show_default=True, help="mlfq: number of queues.")
@click.option("--boost", callback=_time, help="mlfq: all tasks to the top this often.")
@click.option("--latency", default="24ms", show_default=True, callback=_time, help="cfs only.")
@click.option("--wakeup-granularity", callback=_time, help="cfs: lead that a woken task needs.")
@click.option("--kernel", type=click.Choice(["6.6", "6.12", "6.15"]), help="eevdf: its features.")
@click.option(
    "--set", multiple=True, metavar="KEY=VALUE", help="For example eevdf.delay_zero=true."
)
@click.option("--seed", type=int, help="Of lottery (1), and of --quiz tasks (any).")
@click.option("--gantt", type=click.Choice(["text", "svg", "none"]), default="text")
@click.option("--from", "from_ns", default="0", callback=_time, help="Start of the chart.")
@click.option("--to", "to_ns", callback=_time, help="End of the chart.")
@click.option("--width", type=int, help="Of the chart: columns (80) or pixels (1000).")
@click.option("--measured", type=click.Path(), help="A file of bursts, drawn beside.")
@click.option("--validate", "bursts", type=click.Path(), help="CSV of trace cpu --out: how close?")
@click.option("--quiz", is_flag=True, help="Hide the answers; random tasks without --tasks.")
@click.option("--json", "as_json", is_flag=True)
def cpu(policy: str, quiz: bool, as_json: bool, **options: Any) -> None:
    """Simulate policies on tasks: schedule, turnaround, waiting, response, fairness.

    \b
    schedlab sim cpu --policy fcfs,srtf,rr --tasks "A:0:8,B:1:4,C:2:9"
    schedlab sim cpu --policy rr --processes 2 --time 30s --quantum 1ms --hz 250 \\
        --switch-cost 2us --calculation 850us
    """
    from schedlab.sim import cpu_schedule as rules

    if options["seed"] is None:
        options["seed"] = random.randrange(1, 100_000) if quiz else 1
    if options["bursts"]:
        text, is_accepted = rules.validated(policy, options, as_json)
        click.echo(text)
        raise SystemExit(0 if is_accepted else 1)
    tasks = rules.tasks_of(options, quiz)
    policies = [name.strip() for name in policy.split(",") if name.strip()]
    settings = [rules.settings_of(name, options) for name in policies]
    if options["gantt"] == "svg" and len(policies) != 1 and not (as_json or quiz):
        raise SpecError(f"--gantt svg draws one schedule, not {len(policies)}", "name one policy")
    results = [rules.simulate(tasks, one) for one in settings]
    if quiz and as_json:
        click.echo(json.dumps(rules.quiz(tasks, settings, options["seed"])))
    elif quiz:
        click.echo("\n".join(rules.quiz_lines(tasks, settings, options["seed"])))
    elif as_json:
        click.echo(json.dumps({"schema": 1, "tasks": tasks, "results": results}))
    elif options["gantt"] == "svg":
        click.echo(rules.chart(results[0], options), nl=False)
    else:
        click.echo("\n".join(rules.all_lines(results, options)))
        click.echo("".join(rules.warnings(results)), err=True, nl=False)
