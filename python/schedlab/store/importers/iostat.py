"""JSON of iostat -o JSON, a workload per device.

The means of the reports of a capture. There may be text around it. The first report is since the
boot, unless iostat ran with -y, which the file does not say. iostat's kB and MB are 1024 and 1024²
bytes, and its blocks (of -d) and sectors 512 bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns import Metric
from schedlab.nouns.reading import read_bytes
from schedlab.store.fio_output import number
from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.text import WHOLE_HINT, bad, decoded

BYTES_MAX = 64 << 20
_START = re.compile(r'\{\s*"sysstat"\s*:')
_UNITS = {"kB": 1024.0, "MB": 1024.0**2, "sec": 512.0, "Blk": 512.0}
# Our name of what has a unit in iostat's name, in the layout of -x and of -d.
_RATES = {
    "read_bytes_per_s": ("r{}/s", "{}_read/s"),
    "write_bytes_per_s": ("w{}/s", "{}_wrtn/s"),
}
_AWAITS = {"read_": ("r_await", "r/s"), "write_": ("w_await", "w/s")}
# What METRICS does not have.
_MORE = {
    "aqu-sz": Metric("queue_length", "", False, "mean queue length"),
    "util": Metric("utilisation_percent", "%", False, "utilisation"),
}


def read(files: Sequence[tuple[str, Path]], options: Options) -> Imported:
    """The import of (candidate, file) pairs, one run per file and device; SpecError."""
    notes: dict[str, None] = {}
    readings = [r for candidate, file in files for r in _readings(candidate, file, notes)]
    metrics = {metric.name: metric for metric in _MORE.values()} | dict(options.metrics)
    options = replace(options, metrics=metrics).noted(notes)
    return assemble(readings, options, {"format": "iostat", "file": str(files[0][1])})


def _readings(candidate: str, file: Path, notes: dict[str, None]) -> Iterator[Reading]:
    text = decoded(str(file), read_bytes(file, WHOLE_HINT, BYTES_MAX))
    starts = [match.start() for match in _START.finditer(text)] or [0]
    captures = [_reports(str(file), text, start) for start in starts]
    # Those of `iostat -c` have no device.
    for reports in list(filter(any, captures)) or captures[:1]:
        yield from _of_capture(candidate, file, reports, notes)


def _reports(place: str, text: str, start: int) -> list[list[Any]]:
    """The devices of each report of the capture that begins there."""
    try:
        hosts = json.JSONDecoder().raw_decode(text, start)[0]["sysstat"]["hosts"]
        return [list(each.get("disk", ())) for host in hosts for each in host["statistics"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = "iostat -o JSON -x -y 1 60 DEVICE > FILE"
        raise bad(place, "the JSON of iostat -o JSON", str(error), hint) from None


def _of_capture(
    candidate: str, file: Path, reports: list[list[Any]], notes: dict[str, None]
) -> Iterator[Reading]:
    if len(reports) > 1:
        notes["the first report of a file is since the boot and was skipped (iostat without -y)"] \
            = None  # fmt: skip
        reports = reports[1:]
    else:
        notes[f"{file}: has one report: it is since the boot, unless iostat ran with -y"] = None
    devices: dict[str, list[Mapping[str, Any]]] = {}
    for report in reports:
        for row in report:
            if not isinstance(row, dict) or not isinstance(row.get("disk_device"), str):
                raise bad(str(file), "devices with a name `disk_device`", str(row))
            devices.setdefault(row["disk_device"], []).append(row)
    idle = []
    for device, rows in devices.items():
        place = f"{file}, {device}"
        if metrics := _metrics(place, rows):
            settings, count = {"scheduler": candidate}, {"reports": len(rows)}
            yield Reading(place, candidate, device, metrics, settings=settings, properties=count)
        else:
            idle.append(device)
    if len(idle) == len(devices):
        raise SpecError(f"{file}: no device did any I/O", "run iostat beside the load")
    if idle:
        notes[f"{file}: did no I/O: {', '.join(idle)}"] = None


def _metrics(place: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means over the reports, which are of equal length; response times by their requests."""

    def total(*keys: str) -> float:
        return sum(number(place, row, key, 0.0) for row in rows for key in keys)

    rates: dict[str, float] = {}
    for name, shapes in _RATES.items():
        keys = {shape.format(unit): f for shape in shapes for unit, f in _UNITS.items()}
        rates[name] = sum(total(key) * factor for key, factor in keys.items()) / len(rows)
    iops = (total("r/s", "w/s") or total("tps")) / len(rows)
    metrics = {"throughput_bytes_per_s": sum(rates.values()), "iops": iops, **rates}
    requests, took_ms = {"": 0.0}, {"": 0.0}
    for prefix, (await_key, rate_key) in _AWAITS.items():
        requests[prefix] = total(rate_key)
        took_ms[prefix] = sum(
            number(place, row, await_key, 0.0) * number(place, row, rate_key, 0.0) for row in rows
        )
        requests[""] += requests[prefix]
        took_ms[""] += took_ms[prefix]
    metrics |= {
        f"{prefix}latency_ns_mean": took_ms[prefix] / count * 1e6
        for prefix, count in requests.items()
        if count
    }
    metrics |= {metric.name: total(key) / len(rows) for key, metric in _MORE.items()}
    return {name: value for name, value in metrics.items() if value > 0} if iops else {}
