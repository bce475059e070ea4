"""The command line: one file per command or small family, each imported only when it is called.

`--help` must answer in under 150 ms, so nothing here imports numpy, rich or `_core`.
"""

from __future__ import annotations

import importlib
import signal
import sys

import click

import schedlab
from schedlab.cli.sections import Group
from schedlab.errors import SchedlabError, SpecError

# name -> (module:attribute, one-line help); the modules are imported when the command runs.
COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("schedlab.cli.doctor:doctor", "Show what this machine can measure, and why not."),
    "io": ("schedlab.cli.io:io", "I/O schedulers and block I/O."),
    "boots": ("schedlab.cli.boots:boots", "Compare kernels and boot parameters by rebooting."),
    "recover": ("schedlab.cli.recover:recover", "Restore what a killed run left changed."),
    "analyse": ("schedlab.cli.analyse:analyse", "Print the verdict of a result folder."),
    "docs": ("schedlab.cli.docs:docs", "Print the guides and references."),
    "export": ("schedlab.cli.export:export", "Write a result in fio's or IOzone's format."),
    "import": ("schedlab.cli.import_:import_", "Import existing measurements."),
    "cpu": ("schedlab.cli.cpu:cpu", "Count calculations of processes under a CPU scheduler."),
    "sim": ("schedlab.cli.sim:sim", "Simulate schedulers of CPUs and storage devices."),
    "apply": ("schedlab.cli.apply:apply", "Set the winner of a result, and keep it set."),
    "undo": ("schedlab.cli.apply:undo", "Restore the settings from before `apply`."),
    "status": ("schedlab.cli.apply:status", "Show what is applied."),
    "watch": ("schedlab.cli.apply:watch", "Report changes of a device's settings."),
    "compare": ("schedlab.cli.compare:compare", "Compare I/O schedulers: the main command."),
    "completion": ("schedlab.cli.completion:completion", "Print shell completion."),
    "device": ("schedlab.cli.device:device", "Emulate disks and SSDs behind real block devices."),
    "diff": ("schedlab.cli.diff:diff", "Show what changed between two results."),
    "fleet": ("schedlab.cli.fleet:fleet", "Measure on many machines, apply the answer there."),
    "kernel": ("schedlab.cli.kernel:kernel", "Find kernels to run under in virtual time."),
    "live": ("schedlab.cli.live:live", "Compare settings under the load that a device has."),
    "merge": ("schedlab.cli.merge:merge", "Join repetitions of one experiment as sessions."),
    "init": ("schedlab.cli.init:init", "Write a commented experiment file."),
    "lab": ("schedlab.cli.lab:lab", "Run ready-made experiments, one per published study."),
    "recommend": ("schedlab.cli.recommend:recommend", "Show whether a scheduler can matter here."),
    "report": ("schedlab.cli.report:report", "Write the report of a result folder."),
    "run": ("schedlab.cli.run:run", "Measure an experiment file."),
    "reproduce": ("schedlab.cli.reproduce:reproduce", "Measure a stored experiment again."),
    "tune": ("schedlab.cli.tune:tune", "Search the settings of I/O schedulers."),
    "trace": ("schedlab.cli.trace:trace", "Read block traces, record kernel events."),
}


class LazyGroup(Group):
    """A group whose commands are imported when they are called; `--help` imports none."""

    def __init__(
        self, *args: object, commands_by_name: dict[str, tuple[str, str]], **kwargs: object
    ) -> None:
        # A command keeps the help option of the first context that it is used in: each has it.
        kwargs.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.commands_by_name = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in self.commands_by_name:
            return None
        module, attribute = self.commands_by_name[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called; for a name that is none, the nearest ones."""
        if args[0] not in self.commands_by_name and not args[0].startswith("-"):
            from difflib import get_close_matches

            if near := get_close_matches(args[0], self.commands_by_name, 3):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(near)}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands from the table, without importing them."""
        rows = [(name, self.commands_by_name[name][1]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.command(cls=LazyGroup, commands_by_name=COMMANDS)
@click.version_option(schedlab.__version__, prog_name="schedlab")
def cli() -> None:
    """Compare Linux schedulers on this machine, and get an answer that you can rely on.

    Start with `schedlab doctor`, then `schedlab compare --quick`.
    """


def main(command: click.Command | None = None) -> None:
    """Run the command line, or that of a tool; errors become a message, a hint, an exit code."""
    from schedlab.host.descriptors import open_standard

    open_standard()
    # A caller that ignores the end of its children would have us wait for ours for ever.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        if sys.argv[-1:] == ["--"]:
            raise SpecError("there is no command after --", "add it: -- COMMAND ARG…")
        code = (command or cli)(standalone_mode=False)
    except SchedlabError as error:
        fail(str(error), error.hint, error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        fail("interrupted", "", 130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except OSError as error:  # not of a closed pipe: click ends silently then
        place = f"{error.filename}: " if error.filename else ""
        message = f"{place}{error.strerror or error}"
        fail(message, "`schedlab doctor` shows privileges and space", 2)
    except Exception as error:
        _fail_unexpectedly(error)
    sys.exit(code if isinstance(code, int) else 0)


def _fail_unexpectedly(error: Exception) -> None:
    """Keep the traceback of a bug in a file; exit 1 would mean that the answer is no."""
    import tempfile
    import traceback
    from pathlib import Path

    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "schedlab" in Path(frame.filename).parts]
    last = (ours or frames)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    message = f"{type(error).__name__} in {place}: {error}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="schedlab-error-", suffix=".txt", delete=False, errors="replace"
        ) as file:
            file.write(f"{' '.join(sys.argv)}\n")
            traceback.print_exception(error, file=file)
    except OSError as refused:
        fail(message, f"this is a bug, and its traceback could not be kept: {refused}", 2)
    fail(message, f"this is a bug: report it with {file.name}", 2)


def fail(message: str, hint: str, code: int) -> None:
    """Print `error:` and `hint:` on stderr and exit."""
    from schedlab.cli.show import print_message

    print_message(f"error: {message}")
    if hint:
        print_message(f"hint: {hint}")
    sys.exit(code)
