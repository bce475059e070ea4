"""Hands the devices of a test over to the load engine, as a consent does."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedlab.host.safety.consent import hold


@contextlib.contextmanager
def given_up(*groups: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The groups; those that write to a block device have a descriptor that holds it."""
    held: dict[str, int] = {}

    def with_descriptor(part: dict[str, Any]) -> dict[str, Any]:
        path = part.get("path")
        if path is None or not Path(path).is_block_device():
            return part
        if path not in held:
            held[path] = hold(path)
        return part | {"fd": held[path]}

    try:
        job_groups = []
        for group in groups:
            is_reading = group["workload"]["direction"]["kind"] == "read"
            log = {"log": with_descriptor(group["log"])} if "log" in group else {}
            job_groups.append((group if is_reading else with_descriptor(group)) | log)
        yield job_groups
    finally:
        for descriptor in held.values():
            os.close(descriptor)
