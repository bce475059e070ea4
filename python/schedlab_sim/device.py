"""The description of a device: shipped, or of a file, with keys that a command line changes."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns.foreign import refuse_foreign
from schedlab.nouns.reading import read_text


@functools.cache
def devices() -> dict[str, str]:
    """The shipped device files: TOML text by name."""
    from schedlab_sim._simulators import sim_names

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
    text = read_text(file, "name the path of a device file")
    refuse_foreign(file, text)
    return text + "\n"


def parse_change(text: str) -> tuple[str, Any]:
    """`key=value` of a device file; the value as TOML where it reads as such, else as text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SpecError(f"--set {text}: expected KEY=VALUE", "for example --set ftl.collect=fifo")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def device_changes(texts: Iterable[str], buffer: str | None = None) -> dict[str, object]:
    """All `--set` together, and `--buffer`, which is `buffer.size`."""
    changes = dict(parse_change(text) for text in texts)
    if buffer is not None:
        changes["buffer.size"] = buffer
    return changes
