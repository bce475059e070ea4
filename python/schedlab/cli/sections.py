"""Commands: their help in sections, and the rule for an option that is typed twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

import click

from schedlab.errors import SpecError

F = TypeVar("F", bound=Callable[..., Any])


class HeededOption(click.Option):
    """An option that changes nothing unless one of `works_with` is there: another option, a family
    of workloads, `a COMMAND`, `built-in workloads`, or a workload that has `a window`.
    """

    def __init__(self, *names: Any, works_with: tuple[str, ...], **more: Any) -> None:
        super().__init__(*names, **more)
        self.works_with = works_with


def heeded(works_with: str, *names: str, **more: Any) -> Callable[[F], F]:
    """An option with what it works with, separated by commas."""
    return click.option(*names, cls=HeededOption, works_with=tuple(works_with.split(", ")), **more)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order of `--help`."""
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


def section(title: str, *options: Callable[[F], F], usual: str = "") -> Callable[[F], F]:
    """The options under a title; `--help` shows only those that are named in `usual`."""

    def decorate(command: F) -> F:
        before = len(getattr(command, "__click_params__", ()))
        command = together(*options)(command)
        for option in command.__click_params__[before:]:  # type: ignore[attr-defined]
            option.section = title
            option.is_usual = option.opts[0] in usual.split()
        return command

    return decorate


def when_repeated(option: click.Option) -> str:
    """The rule for an option that is typed twice, by its type: `multiple` is collected, a list
    `joined`, a flag `the same`, and every other option `refused`: nothing is dropped.
    """
    if option.multiple or option.count:
        return "collected"
    if hasattr(option.type, "joined"):
        return "joined"
    return "the same" if option.is_flag and not option.secondary_opts else "refused"


class OneRule(click.Command):
    """A command whose options are in sections, and which keeps the rule of `when_repeated` for
    each of them.
    """

    def make_parser(self, ctx: click.Context) -> Any:
        """The parser; values of a list are appended, and its type joins them."""
        parser = super().make_parser(ctx)
        for option in self.get_params(ctx):
            if isinstance(option, click.Option) and when_repeated(option) == "joined":
                parser.add_option(option, option.opts, option.name, "append", option.nargs)
        return parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """SpecError for an option that is there twice and takes one value."""
        if not ctx.resilient_parsing:
            _refuse_repeated(self.make_parser(ctx).parse_args(list(args))[2])
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its parameters, and `--help-all` where `--help` does not show them all."""
        if all(getattr(option, "is_usual", True) for option in self.params):
            return super().get_params(ctx)

        def show(ctx: click.Context, option: click.Parameter, is_asked: bool) -> None:
            if is_asked:
                ctx.meta["help_all"] = True
                click.echo(ctx.get_help())
                ctx.exit()

        text = f"Show all {sum(not getattr(each, 'hidden', 0) for each in self.params)} options."
        every = click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False,
                             callback=show, help=text)  # fmt: skip
        every.section = "Help"  # type: ignore[attr-defined]
        return [*super().get_params(ctx), every]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections in the order of their first option, then the help options."""
        named: dict[str, list[tuple[str, str]]] = {}
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        has_sections = any(hasattr(one, "section") for one in options)
        for option in options:
            is_help = "--help" in option.opts
            title = getattr(option, "section", "Help" if has_sections and is_help else "Options")
            is_shown = ctx.meta.get("help_all") or getattr(option, "is_usual", True)
            if is_shown and (row := option.get_help_record(ctx)):
                named.setdefault(title, []).append(row)
        for title, rows in named.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _refuse_repeated(typed: Sequence[click.Parameter]) -> None:
    options = Counter(one for one in typed if isinstance(one, click.Option))
    for option, times in options.items():
        if times > 1 and when_repeated(option) == "refused":
            names = "/".join((*option.opts, *option.secondary_opts))
            raise SpecError(f"{names} is typed {times} times and takes one value", "keep one")


class Group(click.Group):
    """A group of such commands."""

    command_class = OneRule

    def line_of(self, name: str) -> str:
        """The first sentence of a command's help, whole on a screen of any width."""
        return self.commands[name].get_short_help_str(limit=1000)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their lines."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.line_of(name)) for name in self.list_commands(ctx)])
