"""Emulated devices as `schedlab device` asks for them and shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedlab.host.emulated.emulated import (
    DEFAULT_SIZE_BYTES,
    Emulation,
    own_size_bytes,
    shipped_models,
)
from schedlab.host.emulated.keeper import Kept
from schedlab_sim.device import device_changes


def emulation_of(options: Mapping[str, Any]) -> Emulation:
    """The device that the options mean; files by their full paths: its keeper works in `/`."""
    model, data = options["model"], options["data"]
    is_path = model not in shipped_models() and Path(model).exists()
    same = ("queue_depth", "policy", "service", "dilate")
    emulation = Emulation(
        model=str(Path(model).resolve()) if is_path else model,
        settings=device_changes(options["settings"]),
        data=data if data in ("memory", "none") else str(Path(data).resolve()),
        **{name: options[name] for name in same},
    )
    size_bytes = options["size"] or own_size_bytes(emulation) or DEFAULT_SIZE_BYTES
    return replace(emulation, size_bytes=size_bytes)


def kept_lines(devices: Sequence[Kept]) -> list[str]:
    """Every running device, and the requests that it has served."""
    lines = []
    for each in devices:
        lines.append(f"{each.name}: {each.line()}")
        if account := each.account:
            minutes = (time.time() - each.since_s) / 60
            lines.append(
                f"  up for {minutes:.0f} min: {account['reads']} reads, {account['writes']} writes,"
                f" {account['late_share']:.1%} late, depth up to {account['depth_max']}"
            )
        else:
            lines.append("  its server has died: take it down")
    return lines or ["no emulated device is up"]


def model_lines() -> list[str]:
    """A line per shipped model."""
    lines = []
    for name in sorted(shipped_models()):
        facts = Emulation(name, size_bytes=None).describe()
        size = f"{facts['size_bytes'] / (1 << 30):.0f} GiB"
        lines.append(f"{name:12} {facts['kind']:5} {size:>8}  queue depth {facts['queue_depth']}")
    return lines
