"""Names that people type: what they may hold, and what becomes of them as names of files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TypeGuard

from schedlab.errors import SpecError

NAME_LENGTH_MAX = 200
_FILE_NAME_BYTES_MAX = 100
# They turn the direction of the text after them.
_DIRECTION_MARKS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_BEYOND = (
    r"sysctl\..+|module\..+|cgroup\..+\.(?:io|cpu)\.(?:weight|max|latency)"
    r"|thp|boost|governor|energy_performance_preference|run"
)


def check_name(text: str, where: str) -> str:
    """`text` if it can be a label or name; SpecError naming `where` otherwise.

    Refused are control characters, line breaks, marks that turn the direction of writing, lone
    surrogates, and names that are empty or longer than 200 characters.
    """
    if not text.strip():
        raise SpecError(f"{where}: the name is empty", "add a name")
    if len(text) > NAME_LENGTH_MAX:
        hint = f"use at most {NAME_LENGTH_MAX} characters"
        raise SpecError(f"{where}: the name has {len(text)} characters", hint)
    for character in text:
        kind = unicodedata.category(character)
        if kind in ("Cc", "Cs", "Zl", "Zp") or character in _DIRECTION_MARKS:
            raise SpecError(
                f"{where}: the name {text!a} contains the control character U+{ord(character):04X}",
                "use letters, digits, spaces and punctuation",
            )
    return text


def is_kernel_name(text: str) -> bool:
    """Whether the kernel could call a device, a scheduler or a setting so: never a path, an option
    or a template."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.!:+-]{0,63}", text) is not None


def is_beyond_target(name: str) -> bool:
    """Whether a candidate's setting of this name is felt by more than the measured work and its
    device (the scopes `BEYOND` of `host.settings`, without those of the CPU scheduler)."""
    return re.fullmatch(_BEYOND, name) is not None


def safe_name(text: str) -> str:
    """`text` as one component of a path: never a path, never hidden, never an option."""
    name = re.sub(r"[^A-Za-z0-9._=-]+", "_", text).lstrip(".-")[:_FILE_NAME_BYTES_MAX]
    return name or "_"


def safe_names(texts: Iterable[str]) -> dict[str, str]:
    """A file name for each text, no two alike (also where letter case does not count)."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for text in texts:
        if text in names:
            continue
        name, number = safe_name(text), 2
        while name.lower() in taken:
            name, number = f"{safe_name(text)}-{number}", number + 1
        names[text] = name
        taken.add(name.lower())
    return names


def is_policy_file(policy: str | None) -> TypeGuard[str]:
    """Whether a policy is named as `FILE.py:Class`."""
    return policy is not None and ".py:" in policy
