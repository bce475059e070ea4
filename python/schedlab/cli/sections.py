"""Help pages of commands with many options: in sections, the usual ones first, then --help-all."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

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


class SectionedCommand(click.Command):
    """A command whose options are in sections."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its parameters, and `--help-all`."""

        def show(ctx: click.Context, option: click.Parameter, is_asked: bool) -> None:
            if is_asked:
                ctx.meta["help_all"] = True
                click.echo(ctx.get_help())
                ctx.exit()

        text = f"Show all {len(self.params)} options."
        every = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=show,
            help=text,
        )
        return [*super().get_params(ctx), every]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections in the order of their first option, then the help options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in filter(lambda one: isinstance(one, click.Option), self.get_params(ctx)):
            title = getattr(option, "section", "Help")
            is_shown = ctx.meta.get("help_all") or getattr(option, "is_usual", True)
            if is_shown and (row := option.get_help_record(ctx)):
                sections.setdefault(title, []).append(row)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)
