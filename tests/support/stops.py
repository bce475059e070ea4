"""The table of the tour: what `stops/*.toml` says about the command lines that the documents print.

A file is of one page. A scene is a directory and a shell; its stops run in it one after the other.
A stop names a line of its page; `with` has what takes the place of a part of it, such as a name of
the reader's own or a time, `append` the options that make it short. `shows` is a pattern of what it
prints, `makes` a file of a result; `fault` is why it does not, for as long as it does not.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import printed

TABLES = sorted((printed.ROOT / "tests" / "tour" / "stops").glob("*.toml"))
SCENE_KEYS = {"name", "needs", "files", "blocks", "first", "plain", "group", "stop", "mount"}
STOP_KEYS = {"line", "with", "append", "exit", "shows", "makes", "fault", "limit_s"}


@dataclass(frozen=True)
class Stop:
    """One line: `text` is typed, `exits` are the statuses that it may end with."""

    line: printed.Line
    text: str
    exits: tuple[int, ...]
    shows: tuple[str, ...]
    makes: str
    fault: str
    limit_s: float


@dataclass(frozen=True)
class Scene:
    """Stops with what they need: `needs` names settings, `files` is text by name."""

    page: str
    name: str
    needs: tuple[str, ...]
    files: dict[str, str]
    first: tuple[str, ...]
    mount: str
    plain: str
    group: str
    stops: tuple[Stop, ...]
    blocks: tuple[str, ...]


@cache
def scenes() -> tuple[Scene, ...]:
    """All of them. Raises ValueError for a stop that no page prints."""
    return tuple(scene for table in TABLES for scene in _scenes(table))


def _scenes(table: Path) -> list[Scene]:
    data = tomllib.loads(table.read_text(encoding="utf-8"))
    page = data["page"]
    known = {line.key: line for line in printed.lines_of(page)}
    made = []
    for scene in data["scene"]:
        where = f"{table.name}, {scene['name']}"
        if unknown := scene.keys() - SCENE_KEYS:
            raise ValueError(f"{where}: {unknown}")
        blocks = scene.get("blocks", {})
        files = {name: printed.block_of(page, block) for name, block in blocks.items()}
        made.append(Scene(
            page, scene["name"], tuple(scene.get("needs", ())), files | scene.get("files", {}),
            tuple(scene.get("first", ())), scene.get("mount", ""), scene.get("plain", "no"),
            scene.get("group", ""), tuple(_stop(each, known, where) for each in scene["stop"]),
            tuple(blocks.values()),
        ))  # fmt: skip
    return made


def _stop(stop: dict[str, Any], known: dict[str, printed.Line], where: str) -> Stop:
    if unknown := stop.keys() - STOP_KEYS:
        raise ValueError(f"{where}: {unknown}")
    if (line := known.get(printed.key(stop["line"]))) is None:
        raise ValueError(f"{where}: the page does not print {stop['line']}")
    text = replaced(line.text, stop.get("with", {}))
    if append := stop.get("append", ""):
        text = f"{printed.uncommented(text)} {append}"
    exits, shows = stop.get("exit", 0), stop.get("shows", ())
    return Stop(
        line, text, tuple(exits) if isinstance(exits, list) else (exits,),
        (shows,) if isinstance(shows, str) else tuple(shows), stop.get("makes", ""),
        stop.get("fault", ""), stop.get("limit_s", 240.0),
    )  # fmt: skip


def replaced(text: str, parts: dict[str, str]) -> str:
    """The text with other words in place of these; each must be there."""
    if missing := [part for part in parts if part not in text]:
        raise ValueError(f"{text}: has no {missing}")
    pattern = "|".join(re.escape(part) for part in sorted(parts, key=len, reverse=True))
    return re.sub(pattern, lambda match: parts[match[0]], text) if parts else text
