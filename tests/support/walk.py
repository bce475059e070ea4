"""A walk along the lines of a scene: each is typed, and what it does is looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shell import Ran, Shell
from stops import Scene, Stop

FAULTS = ("Traceback", "this is a bug", "command not found")


def names_of(scene: Scene) -> str:
    """The scene as a name of a test."""
    return f"{scene.page.rpartition('/')[2].partition('.')[0]}: {scene.name}"


def filled(text: str, names: dict[str, str]) -> str:
    """The text with what its words in braces stand for."""
    return re.sub(r"\{([a-z]+)\}", lambda match: names.get(match[1], match[0]), text)


def walk(
    scene: Scene,
    shell: Callable[[], Shell],
    need: Callable[[str], None],
    names: dict[str, str],
    place: Path,
) -> None:
    """Type every line of the scene, and name all that do not do what they should."""
    for setting in scene.needs:
        need(setting)
    for name, text in scene.files.items():
        path = place / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled(text, names))
    typed = shell()
    mounting = f"mkdir -p {scene.mount} && mkfs.ext4 -q {{loop}} && mount {{loop}} {scene.mount}"
    for line in [*([mounting] if scene.mount else []), *scene.first]:
        ran = typed.run(filled(line, names), 240)
        assert ran.status == 0, f"{line}\n{ran.output}"
    wrong = []
    for stop in scene.stops:
        text = filled(stop.text, names)
        ran = typed.run(text, stop.limit_s)
        faults = [*faults_of(stop, ran, names, place / "work")]
        if stop.fault and not faults:
            wrong.append(f"{text}\n  works: remove its `fault`")
        elif faults and not stop.fault:
            wrong.append(f"{stop.line.page}:{stop.line.number}: {text}\n{ran.output}\n  {faults}")
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def faults_of(stop: Stop, ran: Ran, names: dict[str, str], work: Path) -> Iterator[str]:
    """What is wrong with the end and the output of a line."""
    if ran.status not in stop.exits:
        yield f"exit {ran.status}"
    yield from (fault for fault in FAULTS if fault in ran.output)
    for pattern in stop.shows:
        if not re.search(filled(pattern, names), ran.output, re.MULTILINE):
            yield f"does not show {pattern}"
    if stop.makes and not (work / filled(stop.makes, names)).exists():
        yield f"does not make {stop.makes}"
