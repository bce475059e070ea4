"""Files of processes: one description for the simulator, the load engine and a guest.

The keys of a process are those of crates/model/src/process.rs, which also gives each its region
and its requests: for the same seed all of them touch the same places.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

import msgspec

from schedlab.errors import SpecError
from schedlab.nouns.reading import read_text

#: Keys of a process that a real one has only with these values.
ONLY_SIMULATED: Mapping[Literal["think", "background", "fsync_every", "direct"], object] = {
    "think": 0, "background": False, "fsync_every": 0, "direct": True,
}  # fmt: skip
KEYS = "docs/guides/kernel-schedulers.md lists the keys"

Source = str | Path | Mapping[str, object]
#: What is used of a process; `table` is the name of its table, `workload` as the engine has it.
ProcessRow = TypedDict(
    "ProcessRow",
    {
        "name": str, "table": str, "pattern": str, "read_share": float, "record": int,
        "depth": int, "think": int, "start": int, "offset": int | None, "span": int,
        "ioprio": str, "weight": int, "direct": bool, "background": bool, "fsync_every": int,
        "arrivals": str, "workload": Mapping[str, object],
    },
)  # fmt: skip


def presets() -> dict[str, str]:
    """Shipped files of processes by name."""
    from schedlab import _core

    return dict(_core.process_presets())


def process_text(processes: Source) -> dict[str, str]:
    """A preset by name, or the text and place of a file, of the `process` of its content, or of the
    one process with these keys.
    """
    if isinstance(processes, Mapping):
        import tomli_w

        content = processes if "process" in processes else {"process": [dict(processes)]}
        return {"text": tomli_w.dumps(content), "place": "processes"}
    if str(processes) in presets():
        return {"text": str(processes)}
    path = Path(processes)
    if path.suffix != ".toml":
        known = ", ".join(presets())
        raise SpecError(f"processes {str(processes)!r} is not one of {known}", "or a file.toml")
    text = read_text(path, "name the path of a file of processes")
    return {"text": text, "place": str(path)}


def processes_of(source: Source, size_bytes: int | None = None, seed: int = 0) -> list[ProcessRow]:
    """All keys of each process, one for each of `count`; sizes in bytes, times in ns. On a device
    of so many bytes each has its region and its `workload`, as the load engine takes it.

    SpecError names the place and the key that is wrong.
    """
    from schedlab import _core

    named = process_text(source)
    try:
        text = _core.host_processes(named["text"], named.get("place"), size_bytes, seed)
    except ValueError as error:
        raise SpecError(str(error), KEYS) from error
    rows: list[ProcessRow] = json.loads(text)
    return rows


def tables_of(source: Source) -> tuple[dict[str, object], ...]:
    """The tables of a file as they are written, all of them understood; SpecError as above."""
    processes_of(source)
    text = process_text(source)["text"]
    content = msgspec.toml.decode(presets().get(text, text))
    return tuple(content["process"])


def unique_names(rows: Sequence[ProcessRow]) -> list[str]:
    """The names of processes; tables of one name (jobs of fio) have a number behind it."""
    names: list[str] = []
    for row in rows:
        known = [name for name in names if name.partition("#")[0] == row["name"]]
        names.append(f"{row['name']}#{len(known) + 1}" if known else row["name"])
    return names


def only_simulated(process: ProcessRow) -> str:
    """The key that a real process cannot have; "" where it can have all."""
    return next((key for key, usual in ONLY_SIMULATED.items() if process[key] != usual), "")


def waiters_of(processes: Sequence[ProcessRow]) -> int:
    """Requests that wait at most at the same time."""
    return sum(process["depth"] for process in processes)


def is_buffered(processes: Sequence[ProcessRow]) -> bool:
    """Whether one of them goes through the page cache."""
    return not all(process["direct"] for process in processes)


def meet(processes: Sequence[ProcessRow]) -> bool:
    """Whether sequential processes go through the same blocks."""
    regions = sorted(
        (process["offset"], process["span"] or math.inf)
        for process in processes
        if process["offset"] is not None and process["pattern"] != "random"
    )
    return any(start + span > later for (start, span), (later, _) in itertools.pairwise(regions))
