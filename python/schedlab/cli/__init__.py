"""The command line: one file per command or small family, each imported only when it is called.

`--help` must answer in under 150 ms, so nothing here imports numpy, rich or `_core`.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import click

import schedlab
from schedlab.cli.sections import Group
from schedlab.errors import SIMULATED_QUEUE, SchedlabError, as_root, cause_of
from schedlab.package import IMPORT_PATH, has_simulators, offered

# name -> module:attribute; the modules are imported when the command runs.
COMMANDS = {
    "doctor": "schedlab.cli.doctor:doctor",
    "io": "schedlab.cli.io:io",
    "boots": "schedlab.cli.boots:boots",
    "recover": "schedlab.cli.recover:recover",
    "analyse": "schedlab.cli.analyse:analyse",
    "docs": "schedlab.cli.docs:docs",
    "import": "schedlab.cli.import_:import_",
    "cpu": "schedlab.cli.cpu:cpu",
    "apply": "schedlab.cli.apply:apply",
    "undo": "schedlab.cli.apply:undo",
    "status": "schedlab.cli.apply:status",
    "compare": "schedlab.cli.compare:compare",
    "diff": "schedlab.cli.diff:diff",
    "fleet": "schedlab.cli.fleet:fleet",
    "kernel": "schedlab.cli.kernel:kernel",
    "live": "schedlab.cli.live:live",
    "merge": "schedlab.cli.merge:merge",
    "init": "schedlab.cli.init:init",
    "lab": "schedlab.cli.lab:lab",
    "recommend": "schedlab.cli.recommend:recommend",
    "report": "schedlab.cli.report:report",
    "run": "schedlab.cli.run:run",
    "reproduce": "schedlab.cli.reproduce:reproduce",
    "tune": "schedlab.cli.tune:tune",
    "trace": "schedlab.cli.trace:trace",
}
# Those of the simulators, a package of its own, with what `--help` says of them: reading the entry
# points takes longer than all of the help.
OFFERED = {
    "device": "Emulate disks and SSDs: a model behind a real block device.",
    "predict": "Predict what each scheduler costs on a device that is not there.",
    "sim": "Simulate schedulers of CPUs and of storage devices.",
}

# Nine show their help in the list of `schedlab --help`, below the question that they answer; the
# others are named, by what they are for.
FIRST = {
    "What can this machine measure?": ("doctor",),
    "Which I/O scheduler, with which settings?": ("compare", "live", "tune"),
    "Which CPU policy?": ("cpu",),
    "How does a scheduler decide?": ("sim",),
    "Does a published study hold here?": ("lab",),
    "What is the answer, and how is it set?": ("analyse", "apply"),
}
OTHERS = {
    "Measure": (
        "run",
        "init",
        "io",
        "trace",
        "recommend",
        "predict",
        "device",
        "kernel",
        "boots",
        "fleet",
    ),
    "Results": ("report", "diff", "merge", "import", "reproduce"),
    "Settings": ("undo", "status", "recover"),
    "Help": ("docs",),
}


class LazyGroup(Group):
    """A group whose commands are imported when they are called; `--help` imports none."""

    def __init__(
        self, *args: object, commands_by_name: Mapping[str, str], **kwargs: object
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
        module, attribute = self.commands_by_name[cmd_name].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called; for a name that is none, the nearest ones."""
        is_typed = not args[0].startswith("-") and not ctx.resilient_parsing
        if is_typed and args[0] not in self.list_commands(ctx):
            from difflib import get_close_matches

            if near := get_close_matches(args[0], self.list_commands(ctx), 3):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(near)}?")
        return super().resolve_command(ctx, args)

    def line_of(self, name: str) -> str:
        """The first clause of a command's docstring, read without importing it."""
        module, function = self.commands_by_name[name].split(":")
        place = Path(IMPORT_PATH, *module.split("."))
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        pattern = rf'^def {function}\(.*?\n    """(.*?)(?:[:;.] |[:;.]?\n\n| \(|\.?""")'
        found = re.search(pattern, file.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        return " ".join(found[1].split()).rstrip(".:;") + "." if found else ""


class Commands(LazyGroup):
    """All commands: nine of them with their short helps, the names of the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Ours, and those of the simulators."""
        return sorted({**self.commands_by_name, **OFFERED})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; SpecError where the simulators are not installed."""
        if cmd_name not in OFFERED:
            return super().get_command(ctx, cmd_name)
        if ctx.resilient_parsing and not has_simulators():  # a shell completes
            return None
        command = offered("commands", cmd_name, f"schedlab {cmd_name}")
        assert isinstance(command, click.Command)
        return command

    def line_of(self, name: str) -> str:
        """The first clause of its help."""
        return OFFERED.get(name) or super().line_of(name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without words, in a terminal: questions."""
        if not args and sys.stdin.isatty() and sys.stdout.isatty():
            from schedlab.cli.first import ask

            ask()
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The nine by their questions, then the others by what they are for."""
        wide = max(len(name) for names in FIRST.values() for name in names)
        with formatter.section("Commands"):
            for question, names in FIRST.items():
                formatter.write(f"{'':{formatter.current_indent}}{question}\n")
                with formatter.indentation():
                    formatter.write_dl([(name.ljust(wide), self.line_of(name)) for name in names])
        with formatter.section("More, each with --help"):
            formatter.write_dl([(title, ", ".join(names)) for title, names in OTHERS.items()])


def _print_completion(ctx: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell:
        from click.shell_completion import get_completion_class

        complete = get_completion_class(shell)
        assert complete is not None
        click.echo(complete(cli, {}, "schedlab", "_SCHEDLAB_COMPLETE").source())
        ctx.exit()


@click.command(cls=Commands, commands_by_name=COMMANDS)
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    is_eager=True,
    expose_value=False,
    callback=_print_completion,
    help="Print it for a shell: source <(schedlab --completion bash).",
)
@click.version_option(schedlab.__version__, prog_name="schedlab")
def cli() -> None:
    """Compare Linux schedulers on this machine, and get an answer that you can rely on.

    Type schedlab alone: it asks three questions, and prints the one command that answers.
    """


def main(command: click.Command | None = None) -> None:
    """Run the command line, or that of a tool; errors become a message, a hint, an exit code."""
    from schedlab.host.safety.descriptors import open_standard
    from schedlab.nouns.printable import check_words

    open_standard()
    # A caller that ignores the end of its children would have us wait for ours for ever.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        check_words(sys.argv[1:])
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
        message = f"{place}{cause_of(error)}"
        hint = "`schedlab doctor` shows privileges and space"
        is_root_missing = isinstance(error, PermissionError) and os.geteuid() != 0
        fail(message, as_root(SIMULATED_QUEUE) if is_root_missing else hint, 2)
    except Exception as error:
        _fail_unexpectedly(error)
    sys.exit(code if isinstance(code, int) else 0)


def _fail_unexpectedly(error: Exception) -> None:
    """Keep the traceback of a bug in a file; exit 1 would mean that the answer is no."""
    import tempfile
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    packages = {"schedlab", "schedlab_sim"}
    ours = [frame for frame in frames if packages & {*Path(frame.filename).parts}]
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
