"""`schedlab completion`: what the shell needs to complete commands and options."""

from __future__ import annotations

import click

from schedlab.cli.options import command


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print completion for SHELL: `source <(schedlab completion bash)`."""
    from click.shell_completion import get_completion_class

    from schedlab.cli import cli

    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(cli, {}, "schedlab", "_SCHEDLAB_COMPLETE").source())
