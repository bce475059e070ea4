"""CPU schedules as the command line has them: tasks and settings from options, tables, a quiz."""

from __future__ import annotations

import json
import random
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

from schedlab.errors import SpecError
from schedlab.nouns.quantities import counted, milliseconds_text
from schedlab.nouns.reading import read_toml
from schedlab.nouns.schedule import Figure, Mean, Schedule, Task
from schedlab.report.texts import Texts
from schedlab.store.files import made
from schedlab_sim.decisions import warnings
from schedlab_sim.tables import aligned

if TYPE_CHECKING:
    from schedlab.report.play import Play

COLUMNS: Mapping[str, Figure] = {  # heading: key of a task's result, in ns unless in COUNTS
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
MEANS: tuple[Mean, ...] = ("turnaround_ns_mean", "waiting_ns_mean", "response_ns_mean")

# Settings of some policies, each with the policy that `--set POLICY.KEY=VALUE` names.
OF_POLICY = {
    "aging": "priority", "levels": "mlfq", "boost": "mlfq", "latency": "cfs",
    "wakeup_granularity": "cfs",
}  # fmt: skip

# Options that are settings of the simulator.
SAME: tuple[Literal["quantum", "cpus", "switch_cost", "hz", "seed", "kernel"], ...] = (
    "quantum", "cpus", "switch_cost", "hz", "seed", "kernel",
)  # fmt: skip
# Options of the chart alone.
OF_CHART: tuple[Literal["from_ns", "to_ns", "width", "measured"], ...] = (
    "from_ns", "to_ns", "width", "measured",
)  # fmt: skip
WIDTHS_PX = (300, 20_000)
# Options that would change nothing beside --play.
NOT_PLAYED = {"gantt": "--gantt", "bursts": "--validate", "as_json": "--json"}


# The options of `sim cpu`; times in ns.
CpuOptions = TypedDict(
    "CpuOptions",
    {
        "tasks": str | None, "processes": int | None, "time": int | None,
        "calculation": int | None, "policy": str, "quantum": int, "cpus": int, "switch_cost": int,
        "hz": int | None, "kernel": str | None, "set": tuple[str, ...], "seed": int | None,
        "gantt": str | None, "from_ns": int, "to_ns": int | None, "width": int | None,
        "measured": str | None, "quiz": bool, "bursts": str | None,
        "lang": str | None, "as_json": bool,
    },
)  # fmt: skip


class ScheduleSettings(TypedDict):
    """Those of the simulator that are read here, of crates/sim/src/cpu/task.rs."""

    policy: str
    quantum: int
    cpus: int
    hz: NotRequired[int]
    eevdf: NotRequired[dict[str, object]]


def document(options: CpuOptions) -> dict[str, object]:
    """The document of `sim cpu --json`."""
    tasks, settings, seed = inputs(options)
    if options["quiz"]:
        return quiz(tasks, settings, seed)
    return {"schema": 1, "tasks": tasks, "results": schedules(tasks, settings, options)}


def shown(options: CpuOptions) -> list[str]:
    """The output of `sim cpu`: a quiz, or results and how they compare."""
    tasks, settings, seed = inputs(options)
    if options["quiz"]:
        return quiz_lines(tasks, settings, seed)
    results = schedules(tasks, settings, options)
    lines = [line for result in results for line in result_lines(result)]
    if len(results) > 1:
        lines += comparison_lines(results)
    if version := options["kernel"]:
        lines += warnings((one["policy"] for one in settings), version=version)
    return [*lines, *textwrap.wrap(Texts("en")("quiz.rule"), 80)]


def plays_of(options: CpuOptions) -> list[Play]:
    """The decisions of each policy (`--play`)."""
    from schedlab_sim.play import cpu_play, refuse_unplayed

    refuse_unplayed(options, NOT_PLAYED)
    tasks, settings, _ = inputs(options)
    return [cpu_play(tasks, simulate(tasks, one)) for one in settings]


def schedules(
    tasks: Sequence[Task], settings: Sequence[ScheduleSettings], options: CpuOptions
) -> list[Schedule]:
    """The schedule under each policy; with `gantt` the only one is drawn into that file, or all on
    a page.
    """
    is_page = str(options["gantt"]).endswith(".html")
    if options["gantt"] and len(settings) != 1 and not is_page:
        hint = "name one policy, or a page: --gantt FILE.html"
        raise SpecError(f"--gantt draws one schedule, not {len(settings)}", hint)
    results = [simulate(tasks, one) for one in settings]
    if is_page and options["gantt"]:
        from schedlab.report.bars import CPU_PARTS, Scene
        from schedlab.report.timeline import Timeline
        from schedlab_sim.bars import schedule_bars

        runs = tuple(schedule_bars(result["policy"], result) for result in results)
        scene = Scene(", ".join(task["name"] for task in tasks), CPU_PARTS, runs, "burst")
        page = Timeline((scene,), Texts(options.get("lang"))).render()
        made(Path(options["gantt"])).write_text(page, encoding="utf-8")
    elif options["gantt"]:
        drawn = chart(results[0], options)  # a refusal leaves no file
        made(Path(options["gantt"])).write_text(drawn, encoding="utf-8")
    return results


def inputs(options: CpuOptions) -> tuple[list[Task], list[ScheduleSettings], int]:
    """(tasks with times in ns, settings of each policy, seed)."""
    idle = [name.removesuffix("_ns") for name in OF_CHART if options[name]]
    if idle and not options["gantt"]:
        raise SpecError(f"--{idle[0]} would change nothing without --gantt", "add --gantt FILE.svg")
    if options["gantt"] and options["quiz"]:
        raise SpecError("--gantt would show the answers of a quiz", "omit it")
    seed = options["seed"]
    if seed is None:
        seed = random.randrange(1, 100_000) if options["quiz"] else 1
    options = {**options, "seed": seed}
    policies = [name.strip() for name in options["policy"].split(",") if name.strip()]
    tasks = tasks_of(options, options["quiz"])
    return tasks, [settings_of(name, options) for name in policies], seed


def parse_time(text: str) -> int:
    """Nanoseconds of `4ms`; SpecError otherwise."""
    from schedlab_sim._simulators import parse_time_ns

    try:
        return parse_time_ns(text)
    except ValueError as error:
        raise SpecError(str(error), "write 4ms, 2us or 30s") from error


def settings_of(policy: str, options: CpuOptions) -> ScheduleSettings:
    """The simulator's settings from the options (crates/sim/src/cpu/task.rs)."""
    settings: dict[str, object] = {key: options[key] for key in SAME if options[key] is not None}
    settings["policy"] = policy
    if options["time"] is not None:
        settings["until"] = options["time"]
    if options["calculation"] is not None:
        settings["calculation_ns"] = float(options["calculation"])
    for text in options["set"]:
        _set(settings, text)
    return cast("ScheduleSettings", settings)


def _set(settings: dict[str, Any], text: str) -> None:
    """`POLICY.KEY=VALUE`: a setting of `OF_POLICY`, or a feature of eevdf or cfs."""
    key, equals, typed = text.partition("=")
    policy, dot, name = key.strip().partition(".")
    value = typed.strip()
    if equals and OF_POLICY.get(name) == policy:
        if name == "levels" and not value.isdecimal():
            raise SpecError(f"--set {text}: expected a whole number", "--set mlfq.levels=3")
        settings[name] = int(value) if name == "levels" else parse_time(value)
    elif equals and dot and policy in ("eevdf", "cfs"):
        known = {"true": True, "false": False}
        settings.setdefault(policy, {})[name] = known.get(value, value)
    else:
        named = ", ".join(f"{of}.{key}" for key, of in OF_POLICY.items())
        raise SpecError(
            f"--set {text}: expected POLICY.KEY=VALUE",
            f"the keys are {named}, and the features of eevdf and cfs",
        )


def tasks_of(options: CpuOptions, is_quiz: bool) -> list[Task]:
    """The tasks from --tasks, from --processes, or for a quiz from the seed."""
    from schedlab_sim._simulators import parse_cpu_tasks

    text, processes = options["tasks"], options["processes"]
    if (text is None) + (processes is None) == 0:
        raise SpecError("--tasks and --processes cannot be used together", "omit one of them")
    if processes is not None:
        if options["time"] is None:
            raise SpecError("--processes runs until a time", "add --time 30s")
        if processes < 1:
            raise SpecError(f"--processes = {processes}", "expected at least 1")
        return [{"name": f"P{i}", "bursts": [options["time"]]} for i in range(processes)]
    if text is None:
        if not is_quiz:
            raise SpecError("no tasks", 'add --tasks "A:0:8,B:1:4", --processes N or --quiz')
        text = _quiz_tasks(options["seed"])
    if text.endswith(".toml"):
        return _tasks_from_file(Path(text))
    if _is_file(text):
        from schedlab_sim.cpu_validate import tasks_of as tasks_of_bursts

        return tasks_of_bursts(Path(text))
    try:
        tasks: list[Task] = json.loads(parse_cpu_tasks(text))
    except ValueError as error:
        raise SpecError(str(error), 'for example --tasks "A:0:8,B:1:4/2/1:prio=2"') from error
    return tasks


def _is_file(text: str) -> bool:
    """Whether it is the path of a file; a list of tasks may be longer than a name can be."""
    try:
        return Path(text).is_file()
    except OSError:
        return False


_TASK = 'for example: [[task]] name = "A" bursts = ["8ms"]'


def _tasks_from_file(path: Path) -> list[Task]:
    content, _ = read_toml(path, "name a TOML file with [[task]]")
    if unknown := sorted(set(content) - {"task"}):
        raise SpecError(f"{path}: unknown key {unknown[0]!r}", "expected only [[task]]")
    tasks = content.get("task")
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise SpecError(f"{path}: no [[task]]", _TASK)
    for number, task in enumerate(tasks, 1):
        if missing := [key for key in ("name", "bursts") if not task.get(key)]:
            raise SpecError(f"{path}: [[task]] {number} has no {missing[0]}", _TASK)
    return tasks


def _quiz_tasks(seed: int | None) -> str:
    """Three to five tasks that can be scheduled by hand."""
    draw = random.Random(seed)
    arrival, texts = 0, []
    for name in "ABCDE"[: draw.randint(3, 5)]:
        texts.append(f"{name}:{arrival}:{draw.randint(1, 9)}:prio={draw.randint(1, 4)}")
        arrival += draw.randint(0, 4)
    return ",".join(texts)


def simulate(tasks: Sequence[Task], settings: ScheduleSettings) -> Schedule:
    """The schedule, as crates/sim/src/cpu/result.rs has it; SpecError names what is wrong."""
    from schedlab_sim._simulators import run_cpu_simulation

    try:
        job = json.dumps({"tasks": tasks, "settings": settings})
        result: Schedule = json.loads(run_cpu_simulation(job))
    except ValueError as error:
        text = re.sub(r" at line \d+ column \d+$", "", str(error))  # of JSON that no user wrote
        raise SpecError(text, "see schedlab sim cpu --help") from error
    return result


def chart(result: Schedule, options: CpuOptions) -> str:
    """The schedule as an SVG document, drawn as the options request."""
    from schedlab.report.gantt import schedule_chart
    from schedlab.store.bursts import read_bursts

    width = 1000 if options["width"] is None else options["width"]
    least, most = WIDTHS_PX
    if not least <= width <= most:
        raise SpecError(f"width = {width}: expected {least} to {most} pixels", "see --width")
    end_ns = max(result["summary"]["makespan_ns"], 1)
    to_ns = end_ns if options["to_ns"] is None else options["to_ns"]
    if options["from_ns"] >= to_ns:
        expected = f"less than the end of the window, {to_ns} ns"
        raise SpecError(f"from = {options['from_ns']}: expected {expected}", "see --from, --to")
    names = [task["name"] for task in result["tasks"]]
    measured = read_bursts(Path(options["measured"]), names) if options["measured"] else []
    return schedule_chart(result, (options["from_ns"], to_ns), width, measured)


def _heading(result: Schedule) -> str:
    from schedlab_sim._simulators import sim_names

    title = dict(sim_names("cpu policy"))[result["policy"]]
    requested, effective = result["quantum_requested"], result["quantum_effective"]
    rounded = "" if requested == effective else f" (asked {milliseconds_text(requested)} ms)"
    cpus = counted(result["cpus"], "CPU")
    return (
        f"{result['policy']}: {title}, quantum {milliseconds_text(effective)} ms{rounded}, {cpus}"
    )


def result_lines(result: Schedule) -> list[str]:
    """Heading, table and summary of one schedule."""
    with_counts = result["tasks"][0]["calculations"] is not None
    columns = {**COLUMNS}
    if with_counts:
        columns["count"] = "calculations"
    rows = [["task, ms", *columns]]
    for task in result["tasks"]:
        cells = [
            str(task[key]) if heading in COUNTS | {"count"} else milliseconds_text(task[key])
            for heading, key in columns.items()
        ]
        rows.append([task["name"], *cells])
    summary = result["summary"]
    return [
        _heading(result),
        *aligned(rows),
        f"mean turnaround {milliseconds_text(summary['turnaround_ns_mean'])} ms, "
        f"waiting {milliseconds_text(summary['waiting_ns_mean'])} ms, "
        f"response {milliseconds_text(summary['response_ns_mean'])} ms; "
        f"{summary['switches']} switches",
        f"utilisation {summary['utilisation']:.1%}, lost in switches "
        f"{summary['switch_share']:.2%}, Jain index {summary['fairness_jain']:.4f}",
        "",
    ]


def comparison_lines(results: Sequence[Schedule]) -> list[str]:
    """The policies side by side."""
    rows = [["policy, ms", "turnaround", "waiting", "response", "switches", "busy", "Jain"]]
    for result in results:
        summary = result["summary"]
        means = (summary[key] for key in MEANS)
        rows.append(
            [
                result["policy"],
                *(milliseconds_text(mean) for mean in means),
                str(summary["switches"]),
                f"{summary['utilisation']:.1%}",
                f"{summary['fairness_jain']:.4f}",
            ]
        )
    return [*aligned(rows), ""]


def _compact(task: Task) -> str:
    """The task as --tasks takes it."""

    def milliseconds(time: str | int) -> str:
        from schedlab_sim._simulators import parse_time_ns

        return f"{parse_time_ns(str(time)) / 1e6:.6f}".rstrip("0").rstrip(".")

    bursts = "/".join(milliseconds(burst) for burst in task["bursts"])
    text = f"{task['name']}:{milliseconds(task.get('arrival', 0))}:{bursts}"
    keys = (("prio", task.get("priority")), ("nice", task.get("nice")),
            ("weight", task.get("weight")))  # fmt: skip
    text += "".join(f":{short}={value}" for short, value in keys if value)
    slice_time = task.get("slice")
    return text + (f":slice={milliseconds(slice_time)}" if slice_time else "")


def _reveal(tasks: Sequence[Task], settings: ScheduleSettings) -> str:
    """The command that prints the answers."""
    names = {"switch_cost": "switch-cost", "until": "time"}
    units = {"quantum", "switch_cost", "until", *OF_POLICY} - {"levels"}
    words = ["schedlab", "sim", "cpu", "--tasks", ",".join(_compact(task) for task in tasks)]
    for key, value in settings.items():
        if isinstance(value, dict):
            for name, feature in value.items():
                words += ["--set", f"{key}.{name}={str(feature).lower()}"]
        elif key != "calculation_ns":
            shown = f"{value}{'ns' if key in units else ''}"
            if policy := OF_POLICY.get(key):
                words += ["--set", f"{policy}.{key}={shown}"]
            else:
                words += [f"--{names.get(key, key)}", shown]
    return shlex.join(words)


def quiz(
    tasks: Sequence[Task], settings: Sequence[ScheduleSettings], seed: int
) -> dict[str, object]:
    """The questions, and the commands that answer them."""
    reveal = {one["policy"]: _reveal(tasks, one) for one in settings}
    return {"schema": 1, "seed": seed, "tasks": tasks, "find": ANSWERS, "reveal": reveal}


def quiz_lines(tasks: Sequence[Task], settings: Sequence[ScheduleSettings], seed: int) -> list[str]:
    """The same on paper."""
    lines = [f"Tasks (seed {seed}; NAME:ARRIVAL:CPU/IO/CPU in ms, smaller priority first):"]
    lines += [f"  {_compact(task)}" for task in tasks]
    for one in settings:
        quantum = milliseconds_text(one["quantum"])
        lines += [
            "",
            f"{one['policy']}, quantum {quantum} ms, {counted(one['cpus'], 'CPU')}: draw, and fill",
        ]
        blank = [[task["name"], *("____" for _ in ANSWERS)] for task in tasks]
        lines += aligned([["task, ms", *ANSWERS], *blank, ["mean", *("____" for _ in ANSWERS)]])
    return [
        *lines,
        "",
        textwrap.fill(Texts("en")("quiz.rule"), 80),
        "",
        "Answers:",
        *(f"  {_reveal(tasks, one)}" for one in settings),
    ]
