"""`schedlab sim cpu`: simulate CPU scheduling policies, print the figures, draw the schedule."""

from __future__ import annotations

import json
import random
import shlex
import shutil
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from schedlab.errors import SpecError

TIE_RULE = (
    "Ties: at one instant arrivals are queued first (in the order of the task list), then tasks "
    "whose I/O is done, then tasks whose quantum is used up. Equal keys: earlier arrival, then "
    "order of the list. A running task is preempted only by a strictly better one."
)
COLUMNS = {  # heading: key of a task's result, in ns unless in COUNTS
    "arrival": "arrival_ns",
    "finish": "finish_ns",
    "turnaround": "turnaround_ns",
    "waiting": "waiting_ns",
    "response": "response_ns",
    "max wait": "longest_wait_ns",
    "CPU": "cpu_ns",
    "bursts": "bursts",
}
COUNTS = {"bursts"}
ANSWERS = ("turnaround", "waiting", "response")


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
@click.option("--seed", type=int, help="Of lottery (1), and of --quiz tasks (any).")
@click.option("--gantt", type=click.Choice(["text", "svg", "none"]), default="text")
@click.option("--from", "from_ns", default="0", callback=_time, help="Start of the chart.")
@click.option("--to", "to_ns", callback=_time, help="End of the chart.")
@click.option("--width", type=int, help="Of the chart: columns (80) or pixels (1000).")
@click.option("--measured", type=click.Path(), help="A file of bursts, drawn beside.")
@click.option("--quiz", is_flag=True, help="Hide the answers; random tasks without --tasks.")
@click.option("--json", "as_json", is_flag=True)
def cpu(policy: str, quiz: bool, as_json: bool, **options: Any) -> None:
    """Simulate policies on tasks: schedule, turnaround, waiting, response, fairness.

    \b
    schedlab sim cpu --policy fcfs,srtf,rr --tasks "A:0:8,B:1:4,C:2:9"
    schedlab sim cpu --policy rr --processes 2 --time 30s --quantum 1ms --hz 250 \\
        --switch-cost 2us --calculation 850us
    """
    if options["seed"] is None:
        options["seed"] = random.randrange(1, 100_000) if quiz else 1
    tasks = _tasks(options, quiz)
    policies = [name.strip() for name in policy.split(",") if name.strip()]
    settings = [_settings(name, options) for name in policies]
    if options["gantt"] == "svg" and len(policies) != 1 and not (as_json or quiz):
        raise SpecError(f"--gantt svg draws one schedule, not {len(policies)}", "name one policy")
    results = [_simulate(tasks, one) for one in settings]
    if quiz:
        _print_quiz(tasks, settings, options["seed"], as_json)
    elif as_json:
        click.echo(json.dumps({"schema": 1, "tasks": tasks, "results": results}))
    elif options["gantt"] == "svg":
        click.echo(_chart(results[0], options), nl=False)
    else:
        for result in results:
            _print_result(result, options)
        if len(results) > 1:
            _print_comparison(results)
        click.echo(textwrap.fill(TIE_RULE, 80))


def _settings(policy: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The simulator's settings from the options (crates/sim/src/cpu/task.rs)."""
    same = ("quantum", "cpus", "switch_cost", "hz", "aging", "levels", "boost", "latency", "seed")
    settings = {key: options[key] for key in same if options[key] is not None}
    settings["policy"] = policy
    if options["time"] is not None:
        settings["until"] = options["time"]
    if options["calculation"] is not None:
        settings["calculation_ns"] = float(options["calculation"])
    return settings


def _tasks(options: Mapping[str, Any], quiz: bool) -> list[dict[str, Any]]:
    """The tasks from --tasks, from --processes, or for a quiz from the seed."""
    from schedlab._core import parse_cpu_tasks

    text, processes = options["tasks"], options["processes"]
    if (text is None) + (processes is None) == 0:
        raise SpecError("--tasks and --processes exclude each other", "leave one away")
    if processes is not None:
        if options["time"] is None:
            raise SpecError("--processes runs until a time", "add --time 30s")
        if processes < 1:
            raise SpecError(f"--processes = {processes}", "expected at least 1")
        return [{"name": f"P{i}", "bursts": [options["time"]]} for i in range(processes)]
    if text is None:
        if not quiz:
            raise SpecError("no tasks", 'add --tasks "A:0:8,B:1:4", --processes N or --quiz')
        text = _quiz_tasks(options["seed"])
    if text.endswith(".toml"):
        return _tasks_from_file(Path(text))
    try:
        tasks: list[dict[str, Any]] = json.loads(parse_cpu_tasks(text))
    except ValueError as error:
        raise SpecError(str(error), 'for example --tasks "A:0:8,B:1:4/2/1:prio=2"') from error
    return tasks


def _tasks_from_file(path: Path) -> list[dict[str, Any]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", "name a TOML file with [[task]]") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: {error}", "correct the file") from error
    if unknown := sorted(set(content) - {"task"}):
        raise SpecError(f"{path}: unknown key {unknown[0]!r}", "expected only [[task]]")
    tasks = content.get("task")
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise SpecError(f"{path}: no [[task]]", 'for example: [[task]] name = "A" bursts = ["8ms"]')
    return tasks


def _quiz_tasks(seed: int) -> str:
    """Three to five tasks that can be scheduled by hand."""
    draw = random.Random(seed)
    arrival, texts = 0, []
    for name in "ABCDE"[: draw.randint(3, 5)]:
        texts.append(f"{name}:{arrival}:{draw.randint(1, 9)}:prio={draw.randint(1, 4)}")
        arrival += draw.randint(0, 4)
    return ",".join(texts)


def _simulate(tasks: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> dict[str, Any]:
    from schedlab._core import run_cpu_simulation

    try:
        job = json.dumps({"tasks": tasks, "settings": settings})
        result: dict[str, Any] = json.loads(run_cpu_simulation(job))
    except ValueError as error:
        raise SpecError(str(error), "see schedlab sim cpu --help") from error
    return result


def _chart(result: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The schedule drawn as asked."""
    from schedlab._core import draw_cpu_gantt
    from schedlab.cli.sim_bursts import read_bursts

    form = options["gantt"]
    columns = min(shutil.get_terminal_size((80, 24)).columns, 160)
    drawing = {
        "width": options["width"] or (1000 if form == "svg" else max(columns, 60)),
        "from_ns": options["from_ns"],
        "to_ns": options["to_ns"],
        "measured": [],
    }
    if options["measured"]:
        names = [task["name"] for task in result["tasks"]]
        drawing["measured"] = read_bursts(Path(options["measured"]), names)
    try:
        return draw_cpu_gantt(json.dumps(result), form, json.dumps(drawing))
    except ValueError as error:
        raise SpecError(str(error), "see --from, --to, --width, --measured") from error


def _milliseconds(time_ns: float | None) -> str:
    return "-" if time_ns is None else f"{time_ns / 1e6:.3f}".rstrip("0").rstrip(".")


def _heading(result: Mapping[str, Any]) -> str:
    from schedlab._core import cpu_policies

    title = dict(cpu_policies())[result["policy"]]
    asked, given = result["quantum_requested"], result["quantum_effective"]
    rounded = "" if asked == given else f" (asked {_milliseconds(asked)} ms)"
    cpus = "1 CPU" if result["cpus"] == 1 else f"{result['cpus']} CPUs"
    return f"{result['policy']}: {title}, quantum {_milliseconds(given)} ms{rounded}, {cpus}"


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their content; the first to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        click.echo("  ".join(cells).rstrip())


def _print_result(result: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    click.echo(_heading(result))
    if options["gantt"] == "text":
        click.echo(_chart(result, options), nl=False)
    with_counts = result["tasks"][0]["calculations"] is not None
    columns = COLUMNS | ({"count": "calculations"} if with_counts else {})
    rows = [["task, ms", *columns]]
    for task in result["tasks"]:
        cells = [
            str(task[key]) if heading in COUNTS | {"count"} else _milliseconds(task[key])
            for heading, key in columns.items()
        ]
        rows.append([task["name"], *cells])
    _print_table(rows)
    summary = result["summary"]
    click.echo(
        f"mean turnaround {_milliseconds(summary['turnaround_ns_mean'])} ms, "
        f"waiting {_milliseconds(summary['waiting_ns_mean'])} ms, "
        f"response {_milliseconds(summary['response_ns_mean'])} ms; "
        f"{summary['switches']} switches"
    )
    click.echo(
        f"utilisation {summary['utilisation']:.1%}, lost in switches "
        f"{summary['switch_share']:.2%}, Jain index {summary['fairness_jain']:.4f}"
    )
    if result["segments_dropped"]:
        click.echo(f"{result['segments_dropped']} segments are not in the chart", err=True)
    click.echo()


def _print_comparison(results: Sequence[Mapping[str, Any]]) -> None:
    rows = [["policy, ms", "turnaround", "waiting", "response", "switches", "busy", "Jain"]]
    for result in results:
        summary = result["summary"]
        means = (summary[f"{key}_ns_mean"] for key in ANSWERS)
        rows.append(
            [
                result["policy"],
                *(_milliseconds(mean) for mean in means),
                str(summary["switches"]),
                f"{summary['utilisation']:.1%}",
                f"{summary['fairness_jain']:.4f}",
            ]
        )
    _print_table(rows)
    click.echo()


def _compact(task: Mapping[str, Any]) -> str:
    """The task as --tasks takes it."""

    def milliseconds(time: str | int) -> str:
        from schedlab._core import parse_time_ns

        return _milliseconds(parse_time_ns(str(time)))

    bursts = "/".join(milliseconds(burst) for burst in task["bursts"])
    text = f"{task['name']}:{milliseconds(task.get('arrival', 0))}:{bursts}"
    keys = {"priority": "prio", "nice": "nice", "weight": "weight"}
    text += "".join(f":{short}={task[key]}" for key, short in keys.items() if task.get(key))
    slice_time = task.get("slice")
    return text + (f":slice={milliseconds(slice_time)}" if slice_time else "")


def _reveal(tasks: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> str:
    """The command that prints the answers."""
    names = {"switch_cost": "switch-cost", "until": "time"}
    units = {"quantum", "switch_cost", "aging", "boost", "latency", "until"}
    words = ["schedlab", "sim", "cpu", "--tasks", ",".join(_compact(task) for task in tasks)]
    for key, value in settings.items():
        if key != "calculation_ns":
            words += [f"--{names.get(key, key)}", f"{value}{'ns' if key in units else ''}"]
    return shlex.join(words)


def _print_quiz(
    tasks: Sequence[Mapping[str, Any]],
    settings: Sequence[Mapping[str, Any]],
    seed: int,
    as_json: bool,
) -> None:
    """The questions, and the commands that answer them."""
    reveal = {one["policy"]: _reveal(tasks, one) for one in settings}
    if as_json:
        quiz = {"schema": 1, "seed": seed, "tasks": tasks, "find": ANSWERS, "reveal": reveal}
        click.echo(json.dumps(quiz))
        return
    click.echo(f"Tasks (seed {seed}; NAME:ARRIVAL:CPU/IO/CPU in ms, smaller priority first):")
    for task in tasks:
        click.echo(f"  {_compact(task)}")
    for one in settings:
        quantum = _milliseconds(one["quantum"])
        click.echo(f"\n{one['policy']}, quantum {quantum} ms, {one['cpus']} CPU(s): draw, and fill")
        blank = [[str(task["name"]), *("____" for _ in ANSWERS)] for task in tasks]
        _print_table([["task, ms", *ANSWERS], *blank, ["mean", *("____" for _ in ANSWERS)]])
    click.echo(f"\n{textwrap.fill(TIE_RULE, 80)}\n\nAnswers:")
    for command in reveal.values():
        click.echo(f"  {command}")
