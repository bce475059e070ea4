"""A time budget: the first block is a pilot, and the rest is planned from what it showed.

What the pilot decided is `planning.json` of the result folder: the length of the runs, the
workloads that were kept and omitted, and the number of blocks.
"""

from __future__ import annotations

from schedlab.store.folder import Folder

PLANNING = "planning.json"


def is_planned(folder: Folder) -> bool:
    """Whether the plan goes beyond the pilot block."""
    return (folder.path / PLANNING).exists()


def plan_rest(folder: Folder) -> None:
    """Plan what follows the pilot block and append it to the plan."""
    raise NotImplementedError


def extend(folder: Folder, blocks: int | None, budget_s: float | None) -> None:
    """Append blocks to the plan of a finished folder."""
    raise NotImplementedError
