"""Random reads on an emulated device whose queue depth the workload sets.

A device that holds many commands can order them itself; the scheduler can order only the others.
A workload for each depth shows how much a scheduler can still do.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.random_reads import RandomReads


class DeviceQueue(RandomReads, frozen=True):
    """Random reads, direct I/O, on an emulated device that holds `commands` at a time.

    With fewer than 4 it serves its commands in the order of their arrival. One process keeps
    `depth` requests in flight; those that the device does not hold wait in the scheduler.
    """

    kind: ClassVar[str] = "device-queue"

    commands: Annotated[int, Meta(ge=1, le=128)] = 32
    readers: Annotated[int, Meta(ge=1, le=1024)] = 1
    depth: Annotated[int, Meta(ge=0, le=32767)] = 32

    def device_commands(self) -> int:
        """The queue depth of the device meanwhile."""
        return self.commands
