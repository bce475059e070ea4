"""Options of a command that is measured: phases, user, limits, caches, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.options import PATH, together
from schedlab.cli.types import Duration, Size

if TYPE_CHECKING:
    from schedlab.app.own_work import OwnWork

started_options = together(
    click.option("--metric", "metrics", multiple=True, metavar="SPEC",
                 help="elapsed, cpu, or NAME:UNIT=stdout~REGEX, NAME:UNIT=stdout@JSON.PATH; "
                 "the first decides."),
    click.option("--setup", metavar="LINE", help="Shell line before the first run."),
    click.option("--cleanup", metavar="LINE", help="Shell line after the last run."),
    click.option("--prepare", metavar="LINE", help="Shell line before every run."),
    click.option("--conclude", metavar="LINE", help="Shell line after every run."),
    click.option("--user", metavar="NAME", help="Who runs it (under sudo: who called sudo)."),
    click.option("--timeout", type=Duration(), help="End a run then (default: 20 × rehearsal)."),
    click.option("--env", "environment", multiple=True, metavar="NAME[=VALUE]",
                 help="Set, or pass on, a variable."),
    click.option("--clear-env", is_flag=True, help="Inherit no other variables."),
    click.option("--stdin", type=PATH, help="File that it reads."),
    click.option("--ok-exit", multiple=True, type=click.IntRange(0, 255),
                 help="Exit status that is no failure (0)."),
    click.option("--ignore-exit", is_flag=True, help="Whatever its exit status."),
    click.option("--shell", is_flag=True, help="COMMAND is a line for /bin/sh."),
    click.option("--keep-daemons", is_flag=True, help="Leave to --conclude what it left running."),
    click.option("--output-limit", type=Size(), help="End a run that prints more (64M)."),
    click.option("--warm-up", type=click.IntRange(0, 100), help="Unmeasured runs of each first."),
    click.option("--rehearse", is_flag=True, help="Run it once, show what is known, and stop."),
)  # fmt: skip
file_options = together(
    click.option("--fio", "job_file", type=PATH, metavar="JOB", help="A fio job file instead."),
    click.option("--cache", type=click.Choice(["cold", "drop", "warm", "as-is"]),
                 help="Page cache at the start: empty for the target (cold)."),
    click.option("--sync", type=click.Choice(["inside", "outside"]),
                 help="Whether writing out its dirty data counts (inside)."),
    click.option("--settle", type=Duration(), help="Wait at most so long for quiet disks (30s)."),
    click.option("--copy-in", type=PATH, help="File or directory to copy to the target."),
    click.option("--fresh", type=click.Choice(["never", "block", "run"]), help="Copy again."),
    click.option("--anyway", is_flag=True, help="Measure it though it uses no switched disk."),
)  # fmt: skip
_PARAMETERS = {
    "setup": "setup", "cleanup": "cleanup", "prepare": "prepare_run", "conclude": "conclude_run",
    "timeout": "timeout_s", "clear_env": "clear_environment", "ignore_exit": "ignore_exit",
    "keep_daemons": "keep_daemons", "output_limit": "output_limit_bytes", "cache": "cache",
    "sync": "sync", "settle": "settle_s", "fresh": "fresh", "anyway": "anyway", "warm_up": "warm_up"
}  # fmt: skip


def work_of(command: tuple[str, ...], typed: dict[str, Any]) -> OwnWork | None:
    """The command and its options, taken out of what was typed; None when there is none."""
    import os

    from schedlab.app.own_work import OwnWork, usual_user
    from schedlab.errors import SpecError

    taken = {name: typed.pop(key, None) for key, name in _PARAMETERS.items()}
    parameters = {name: value for name, value in taken.items() if value not in (None, False)}
    environment, ok_exit = typed.pop("environment"), typed.pop("ok_exit")
    user, shell = typed.pop("user"), typed.pop("shell")
    job_file, metrics = typed.pop("job_file", None), typed.pop("metrics")
    files = {key: typed.pop(key, None) for key in ("stdin", "copy_in")}
    if not command and not job_file:
        asked = [*parameters, *metrics, *environment, *ok_exit, *filter(None, files.values())]
        if asked or shell or user:
            raise SpecError(
                "there is no command to which these options belong",
                "write it last: schedlab compare … -- COMMAND ARG…",
            )
        return None
    if environment:
        pairs = (text.partition("=") for text in environment)
        parameters["environment"] = {
            name: value if equals else os.environ.get(name, "") for name, equals, value in pairs
        }
    if ok_exit:
        parameters["ok_exit"] = list(ok_exit)
    if user or usual_user():
        parameters["user"] = user or usual_user()
        if not user:
            click.echo(
                f"the command runs as {parameters['user']} (--user root overrides)", err=True
            )
    parameters |= {key: str(path.resolve()) for key, path in files.items() if path}
    return OwnWork(command, shell, str(job_file or ""), metrics, parameters=parameters)
