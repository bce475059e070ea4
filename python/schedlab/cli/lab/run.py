"""`schedlab lab run`: a ready-made experiment, with the target of your choice."""

from __future__ import annotations

import shlex

import click

from schedlab.errors import SpecError


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("name")
@click.option("--scale", type=click.Choice(["small", "full"]), default="small", show_default=True)
@click.pass_context
def run(ctx: click.Context, name: str, scale: str) -> None:
    """Carry out the lab NAME. Further options go to its command and win over the lab's own.

    For example: schedlab lab run interference --scale full --device /dev/sdb
    """
    from schedlab.cli import cli
    from schedlab.cli.lab import labs
    from schedlab.cli.show import say

    found = labs()
    if name not in found:
        raise SpecError(f"lab {name!r} is not known", f"use one of: {', '.join(found)}")
    chosen = found[name]
    typed = list(ctx.args)
    words = [*chosen.arguments(scale, without=named(typed)), *typed]
    say(f"{chosen.title}: schedlab {shlex.join(words)}")
    cli.main(args=words, prog_name="schedlab", standalone_mode=False)


def named(typed: list[str]) -> set[str]:
    """The options that were typed, and those that they take the place of."""
    options = {word.partition("=")[0].removeprefix("--") for word in typed if word[:2] == "--"}
    return options | ({"scratch"} if options & {"device", "directory"} else set())
