"""Every request of a run, one by one: read from a recording or another trace of block I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.nouns.foreign import unread

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A row of crates/formats/src/rows.rs; a time of 0 is not known.
ROW = [
    ("arrival_ns", "<u8"), ("tag_ns", "<u8"), ("insert_ns", "<u8"), ("issue_ns", "<u8"),
    ("done_ns", "<u8"), ("offset_bytes", "<u8"), ("size_bytes", "<u4"), ("process", "<u4"),
    ("thread", "<u4"), ("operation", "u1"), ("unused", "u1", (3,)),
]  # fmt: skip


@dataclass(frozen=True)
class RequestRows:
    """The requests of a trace in no particular order, as an array of `ROW`.

    `names` are those of threads where the trace has them, `facts` the head of a recording.
    """

    format: str
    facts: Mapping[str, Any]
    names: Mapping[int, str]
    rows: NDArray[Any]


def read_requests(path: Path, name: str | None = None) -> RequestRows:
    """The requests of a trace, of the format `name`; SpecError where it is none."""
    import numpy as np

    from schedlab import _core

    try:
        head_json, packed = _core.trace_rows(str(path), name)
    except ValueError as error:
        raise SpecError(str(error), unread(path, str(error))) from error
    head = json.loads(head_json)
    rows = np.frombuffer(packed, dtype=np.dtype(ROW))
    names = {int(thread): str(words) for thread, words in head["names"].items()}
    return RequestRows(head["format"], head["facts"] or {}, names, rows)
