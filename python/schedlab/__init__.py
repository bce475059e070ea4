"""schedlab: a laboratory for Linux schedulers. Measure, model, decide, apply and take back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from schedlab.result import Result
    from schedlab.spec import Objective

__version__ = "0.1.0"


def load(directory: str | Path, goal: Objective | None = None) -> Result:
    """The result in a folder: `.verdict`, `.record`, `.to_pandas()`; a notebook shows its report.

    `goal` chooses the metrics that decide, without it those that were chosen before the first run.
    SpecError when the folder holds no result.
    """
    from schedlab.result import Result

    return Result.load(directory, goal)
