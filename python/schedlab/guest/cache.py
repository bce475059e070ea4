"""The user's cache: kernels and root images, which can always be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache(name: str) -> Path:
    """A directory below $XDG_CACHE_HOME/schedlab (usually ~/.cache/schedlab), made when missing."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(home) / "schedlab" / name
    path.mkdir(parents=True, exist_ok=True)
    return path
