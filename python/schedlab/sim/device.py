"""The description of a device: shipped, or of a file."""

from __future__ import annotations

from pathlib import Path

from schedlab.errors import SpecError
from schedlab.spec.reading import read_text


def devices() -> dict[str, str]:
    """The shipped device files: TOML text by name."""
    from schedlab._core import sim_names

    return dict(sim_names("device"))


def device_text(name_or_path: str) -> str:
    """The TOML of a shipped device or of a device file. SpecError where it is none."""
    shipped = devices()
    if name_or_path in shipped:
        return shipped[name_or_path]
    file = Path(name_or_path)
    if file.suffix != ".toml" and not file.is_file():
        hint = f"a file.toml, or one of: {', '.join(shipped)}"
        raise SpecError(f"device {name_or_path!r} is not known", hint)
    return read_text(file, "name the path of a device file") + "\n"
