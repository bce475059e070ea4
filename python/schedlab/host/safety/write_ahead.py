"""One write to a knob, in the journal before and after: when settings are made, and when they
are restored, so that a kill at any step of either differs from another program's change.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from schedlab.errors import HostError
from schedlab.host.safety import journalled
from schedlab.host.safety.journal import Journal
from schedlab.host.settings import knobs


def write(journal: Journal, path: str | Path, value: str, original: str) -> dict[str, str]:
    """Write a knob; what it and its neighbours in the same `queue/` became: path -> value.

    A scheduler resets its neighbours, and some tunables are two views of one setting. OSError
    when the kernel does not take the value, HostError when the journal cannot be written, or for
    a path that recovering from it would refuse.
    """
    if not journalled.is_knob(str(path)):
        raise HostError(f"{path} is no setting that schedlab changes", "name a tunable instead")
    queue = knobs.queue_above(path)
    before = knobs.snapshot(queue) if queue else {}
    if other := knobs.companion(path):
        value_of_other = knobs.read_value(other)
        journal.append("write", path=str(other), original=value_of_other, new=value_of_other)
    journal.append("write", path=str(path), original=original, new=value)
    try:
        knobs.write_value(path, value)
    finally:
        values = caused(Path(path), queue, before)
        journal.append("after", path=str(path), values=values)
    return values


def caused(path: Path, queue: Path | None, before: dict[str, str]) -> dict[str, str]:
    """Values of a knob and of its neighbours that a write changed; `before` was read before it."""
    values = {}
    if queue:
        new_scheduler = path == queue / "scheduler"
        for name, value in knobs.snapshot(queue).items():
            if before.get(name) != value or (new_scheduler and name.startswith("iosched/")):
                values[str(queue / name)] = value
    for knob in filter(None, (path, knobs.companion(path))):
        with contextlib.suppress(OSError):  # gone with what it belonged to
            values[str(knob)] = knobs.read_value(knob)
    return values
