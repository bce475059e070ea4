"""`schedlab docs`: list the shipped documents, or print one."""

from __future__ import annotations

import click

from schedlab.cli.options import command


@command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """List the guides and references, or print PAGE."""
    from schedlab.app import documents

    if page:
        click.echo_via_pager(documents.text(page))
        return
    known = documents.pages()
    width = max(map(len, known))
    for name, path in known.items():
        click.echo(f"{name:{width}}  {documents.title(path)}")
