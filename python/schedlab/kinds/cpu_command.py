"""A user's command under every CPU policy, optionally beside hogs."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.launching import Launching
from schedlab.nouns import Kind


class CpuCommand(Launching, frozen=True):
    """One run of a command in `directory`, `load` hogs beside it, on the CPUs `cpus` (all)."""

    kind: ClassVar[str] = "cpu-command"
    family: ClassVar[Kind] = "cpu"
    metrics: ClassVar[tuple[str, ...]] = (
        "elapsed_s", "cpu_s", "user_s", "system_s", "rss_bytes", "major_faults",
        "context_switches", "load_work_per_s",
    )  # fmt: skip

    directory: str = ""
    load: Annotated[int, Meta(ge=0, le=1000)] = 0
    cpus: tuple[Annotated[int, Meta(ge=0)], ...] = ()
