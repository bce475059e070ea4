"""Control groups of a test: removed when what was in them has ended."""

from __future__ import annotations

import contextlib
from pathlib import Path

from schedlab.host.safety import owned


def remove_group(group: Path, seconds: float = 10.0) -> None:
    """Remove it as soon as it is empty; fails when processes stay in it."""

    def is_gone() -> bool:
        with contextlib.suppress(OSError):
            group.rmdir()
        return not group.exists()

    assert owned.wait_until(is_gone, seconds), f"{group} is not empty"
