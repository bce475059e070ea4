"""A device file from what a data sheet states; what it does not state keeps the range of the
shipped models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, cast

from schedlab.errors import SpecError
from schedlab_sim.fit.fitted import UNKNOWN, Fitted, number_of, time_text

#: Interfaces and the shipped model that stands in for what a sheet does not state.
INTERFACES = {"disk": "disk7200", "sata": "sata-ssd", "nvme": "nvme", "card": "sd-card"}
STATED = ("interface", "iops-1", "iops-32", "read", "write")
Stated = TypedDict(
    "Stated", {"interface": str, "iops-1": int, "iops-32": int, "read": int, "write": int}
)
EXAMPLE = "--datasheet interface=nvme,iops-1=12000,iops-32=280000,read=3.2GB,write=1.8GB"
#: A sheet states the best of one unit under its own conditions.
WIDE = 0.25


def stated(text: str) -> Stated:
    """`interface=sata,iops-1=9000,…`: rates of 4 KiB reads with 1 and 32 at a time, and bytes/s of
    sequential reads and writes. SpecError for a key that is not known or is missing.
    """
    from schedlab.nouns.quantities import parse_size

    parts = dict(part.partition("=")[::2] for part in text.split(",") if part)
    for key in parts:
        if key not in STATED:
            raise SpecError(f"--datasheet {key}: not known, one of {', '.join(STATED)}", EXAMPLE)
    if missing := [key for key in STATED if not parts.get(key)]:
        raise SpecError(f"--datasheet: {', '.join(missing)} missing", EXAMPLE)
    if parts["interface"] not in INTERFACES:
        known = ", ".join(INTERFACES)
        raise SpecError(f"--datasheet interface={parts['interface']}: one of {known}", EXAMPLE)
    rates = {key: parse_size(parts[key].removesuffix("/s")) for key in STATED[1:]}
    return cast("Stated", {"interface": parts["interface"], **rates})


def of_datasheet(values: Stated, base: Mapping[str, object], size_bytes: int) -> Fitted:
    """The fitted device of the stated values; `base` is the content of the shipped model."""
    fitted = Fitted(size_bytes, tables=dict(base))
    fitted.notes.append("from a data sheet: nothing of it was measured")
    if values["interface"] == "disk":
        _disk(fitted, values)
    else:
        _flash(fitted, values)
    return fitted


def _disk(fitted: Fitted, values: Stated) -> None:
    turn_s = 60 / fitted.value("rpm")
    fitted.put("rpm", fitted.value("rpm"), UNKNOWN)
    average_s = max(1 / values["iops-1"] - turn_s / 2 - 2e-4, 1e-3)
    for name, part in (("single", 0.1), ("average", 1.0), ("full", 2.1)):
        fitted.put(f"seek_{name}", time_text(part * average_s * 1e9), WIDE)
    zones = fitted.value("zones")
    outer = values["read"] * turn_s * 1.08 / 512 / zones[0]["sectors_per_track"]
    for zone in zones:
        zone["sectors_per_track"] = max(8, round(zone["sectors_per_track"] * outer))
    fitted.put("zones", zones, WIDE)
    depth = fitted.value("queue_depth") if values["iops-32"] > 1.25 * values["iops-1"] else 1
    fitted.put("queue_depth", depth, 0.0)
    for key in ("heads", "write_settle", "cache.segments", "cache.read_ahead"):
        fitted.put(key, fitted.value(key), UNKNOWN)


def _flash(fitted: Fitted, values: Stated) -> None:
    page, channels = number_of(fitted.value("flash.page")), fitted.value("flash.channels")
    transfer_s = min(channels * page / values["read"], 0.75 / values["iops-1"])
    read_s = max(1 / values["iops-1"] - transfer_s - 1e-5, 0.2 / values["iops-1"])
    # Of N dies that 32 reads choose from at random so many work at a time: 32 N / (N + 31).
    busy = min(values["iops-32"] * (read_s + transfer_s), 31.0)
    dies = max(1, round(31 * busy / (32 - busy) / channels))
    planes = channels * dies * fitted.value("flash.planes_per_die")
    fitted.put("flash.channels", channels, UNKNOWN)
    fitted.put("flash.dies_per_package", dies, WIDE)
    fitted.put("flash.page_read", time_text(read_s * 1e9), WIDE)
    fitted.put("flash.page_transfer", time_text(transfer_s * 1e9), WIDE)
    fitted.put("flash.page_write", time_text(planes * page / values["write"] * 1e9), WIDE)
    for key in ("flash.block_erase", "buffer.size", "ftl.over_provisioning", "flash.page"):
        fitted.put(key, fitted.value(key), UNKNOWN)
    depth = 1 if values["iops-32"] < 1.25 * values["iops-1"] else fitted.value("queue.depth")
    fitted.put("queue.depth", depth, 0.0)
