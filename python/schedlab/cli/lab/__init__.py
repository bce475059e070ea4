"""`schedlab lab`: ready-made experiments, one per published study.

A lab is a TOML file in `labs/`: a title, what the study did, the `command` that carries it out, the
`[options]` of that command as they would be typed, and `[scale.small]` and `[scale.full]`, which
add to them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import schedlab
from schedlab.cli import LazyGroup
from schedlab.errors import SpecError

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("schedlab.cli.lab.list:list_labs", "List the ready-made experiments."),
    "run": ("schedlab.cli.lab.run:run", "Carry one out."),
}


@click.command(cls=LazyGroup, commands_by_name=COMMANDS)
def lab() -> None:
    """Ready-made experiments, one per published study that they repeat."""


@dataclass(frozen=True)
class Lab:
    """One file of `labs/`."""

    name: str
    title: str
    study: str
    command: str
    options: dict[str, Any]
    scales: dict[str, dict[str, Any]]

    def arguments(self, scale: str, without: Collection[str] = ()) -> list[str]:
        """The command line that carries the lab out at a scale, less the options named."""
        words = self.command.split()
        options = {**self.options, **self.scales[scale]}
        for key, value in options.items():
            if key in without:
                continue
            words += [f"--{key}"] if value is True else [f"--{key}", str(value)]
        return words


def labs() -> dict[str, Lab]:
    """All labs by name; SpecError naming the file and what is wrong in it."""
    folder = Path(schedlab.__file__).parents[2] / "labs"
    found = {path.stem: _read(path) for path in sorted(folder.glob("*.toml"))}
    if not found:
        raise SpecError(f"{folder}: holds no labs", "run schedlab from a checkout of the project")
    return found


def _read(path: Path) -> Lab:
    try:
        data = tomllib.loads(path.read_text())
        return Lab(
            name=path.stem,
            title=data["title"],
            study=" ".join(data["study"].split()),
            command=data["command"],
            options=data.get("options", {}),
            scales=data["scale"],
        )
    except (tomllib.TOMLDecodeError, KeyError, AttributeError) as error:
        raise SpecError(
            f"{path}: {error}", "see labs/iozone-schedulers.toml for the form"
        ) from error
