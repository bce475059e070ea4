"""The directory of this package, and the files that are shipped in it.

Every other module asks here: one that counted the directories above its own file would look in the
wrong place after a move.
"""

from __future__ import annotations

from pathlib import Path

import schedlab

PACKAGE = Path(schedlab.__file__).resolve().parent
# Where Python finds this package: the PYTHONPATH of a process that starts without site-packages.
IMPORT_PATH = str(PACKAGE.parent)


def tree(name: str) -> Path:
    """The directory `docs` or `ansible`: in an installed package, else beside the sources."""
    shipped = PACKAGE / name
    return shipped if shipped.is_dir() else PACKAGE.parents[1] / name
