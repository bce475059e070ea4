"""Settings as typed on a command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any

from schedlab.errors import SpecError


def parse_change(text: str) -> tuple[str, Any]:
    """`key=value` of a device file; the value as TOML where it reads as such, else as text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SpecError(f"--set {text}: expected KEY=VALUE", "for example --set ftl.collect=fifo")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def device_changes(texts: Iterable[str], buffer: str | None = None) -> dict[str, Any]:
    """All `--set` together, and `--buffer`, which is `buffer.size`."""
    changes = dict(parse_change(text) for text in texts)
    if buffer is not None:
        changes["buffer.size"] = buffer
    return changes
