"""Options of a command that is measured: phases, user, limits, caches, metrics."""

from __future__ import annotations

import click

from schedlab.cli.sections import heeded, section
from schedlab.cli.types import Duration, Size

PATH = click.Path(resolve_path=True)

started_options = section(
    "Your own command",
    click.option("--metric", "metrics", multiple=True, metavar="SPEC",
                 help="elapsed, cpu, or NAME:UNIT=stdout~REGEX, NAME:UNIT=stdout@JSON.PATH; "
                 "the first decides."),
    click.option("--setup", metavar="LINE", help="Shell line before the first run."),
    click.option("--cleanup", metavar="LINE", help="Shell line after the last run."),
    click.option("--prepare", "prepare_run", metavar="LINE", help="Shell line before every run."),
    click.option("--conclude", "conclude_run", metavar="LINE", help="Shell line after every run."),
    click.option("--user", metavar="NAME", help="User of the program (under sudo: its caller)."),
    click.option("--timeout", "timeout_s", type=Duration(),
                 help="Longest run (default: 20 × rehearsal)."),
    click.option("--env", "environment", multiple=True, metavar="NAME[=VALUE]",
                 help="Set or inherit a variable."),
    click.option("--clear-env", "clear_environment", is_flag=True,
                 help="Inherit no other variables."),
    click.option("--stdin", type=PATH, help="File for its standard input."),
    click.option("--ok-exit", multiple=True, type=click.IntRange(0, 255),
                 help="Accept this exit status (0)."),
    click.option("--ignore-exit", is_flag=True, help="Accept every exit status."),
    click.option("--shell", "is_line", is_flag=True, help="COMMAND is a line for /bin/sh."),
    click.option("--keep-daemons", is_flag=True, help="Let --conclude end its daemons."),
    click.option("--output-limit", "output_limit_bytes", type=Size(),
                 help="End a run that prints more (64M)."),
    click.option("--warm-up", type=click.IntRange(0, 100), metavar="N",
                 help="Unmeasured runs of every candidate at the start (0)."),
    click.option("--confine", flag_value="files",
                 help="Hold its files, too: only the target changes."),
    click.option("--writable", multiple=True, type=PATH,
                 help="With --confine: a place that it may write to, too."),
    click.option("--unconfined", is_flag=True, help="Nothing holds it: any device, any file."),
    heeded("a COMMAND", "--rehearse", is_flag=True,
           help="Run it once, show the figures, and stop."),
    usual="--metric --prepare --rehearse",
)  # fmt: skip
trace_options = section(
    "Your own command",
    click.option("--trace", type=click.Path(), metavar="FILE", help="A recorded load instead."),
    heeded("a recorded load", "--timing", type=click.Choice(["dependent", "open", "closed"]),
           help="A request starts after what it waited for (dependent), at its time, or at once."),
    heeded("a recorded load", "--fit", type=click.Choice(["compact", "wrap", "refuse"]),
           help="Addresses beyond the target: close gaps (compact), or modulo its size."),
    heeded("a recorded load", "--think-limit", "think_limit_s", type=Duration(),
           help="A longer pause is a timer, not think time (100ms)."),
    heeded("a recorded load", "--cgroups", is_flag=True,
           help="A control group for each recorded one."),
    usual="--trace",
)  # fmt: skip
file_options = section(
    "Your own command",
    click.option("--fio", "job_file", type=click.Path(), metavar="JOB",
                 help="A fio job file instead."),
    click.option("--cache", type=click.Choice(["cold", "drop", "warm", "as-is"]),
                 help="Page cache at the start: empty for the target (cold)."),
    click.option("--sync", type=click.Choice(["inside", "outside"]),
                 help="Whether writing back its dirty data counts (inside)."),
    click.option("--settle", "settle_s", type=Duration(),
                 help="Longest wait for idle disks (30s)."),
    click.option("--copy-in", type=PATH, help="File or directory to copy to the target."),
    click.option("--fresh", type=click.Choice(["never", "block", "run"]),
                 help="When to make the file system and copy again."),
    click.option("--server", "servers", multiple=True, metavar="NAME",
                 help="A running process or control group that reads for it."),
    click.option("--anyway", is_flag=True, help="Measure it even if it uses no switched disk."),
    usual="--fio",
)  # fmt: skip
