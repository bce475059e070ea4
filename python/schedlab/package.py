"""The directory of this package, the files that are shipped in it, and what other packages offer.

Every other module asks here: one that counted the directories above its own file would look in the
wrong place after a move.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import schedlab
from schedlab.errors import no_simulators

PACKAGE = Path(schedlab.__file__).resolve().parent
# Where Python finds this package: the PYTHONPATH of a process that starts without site-packages.
IMPORT_PATH = str(PACKAGE.parent)


def tree(name: str) -> Path:
    """The directory `docs` or `ansible`: in an installed package, else beside the sources."""
    shipped = PACKAGE / name
    return shipped if shipped.is_dir() else PACKAGE.parents[1] / name


def offered(group: str, name: str, what: str) -> Any:
    """The object that another package offers by the entry point `name` of `schedlab.GROUP`.

    SpecError where none does, or one that does not fit: `what` needs the simulators.
    """
    from importlib.metadata import entry_points

    for entry in entry_points(group=f"schedlab.{group}", name=name):
        try:
            return entry.load()
        except (ImportError, AttributeError) as error:
            raise no_simulators(what, f"do not fit this schedlab: {error}") from error
    raise no_simulators(what)


def has_simulators() -> bool:
    """Whether their package is installed."""
    return importlib.util.find_spec("schedlab_sim") is not None
