"""Block traces in files: what is in one, and the same in another format."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns.reading import split_format
from schedlab.store.compiled import clock_warnings, compiled

NAME_IT, LOOK_AT_IT = "write FILE or FILE:FORMAT", "check the file with `file` and `head`"


def formats(*, writable: bool = False) -> list[str]:
    """Names of the formats that can be read, or only of those that can be written."""
    from schedlab import _core

    return [name for name, _, can_write in _core.trace_formats() if can_write or not writable]


def stats(file: str, options: Mapping[str, object]) -> dict[str, object]:
    """Statistics of the requests of `FILE[:FORMAT]`; `options` are those of reading a trace."""
    from schedlab import _core

    path, name = split_format(file, NAME_IT)
    with compiled(LOOK_AT_IT):
        text = _core.trace_stats(str(path), name, json.dumps(dict(options)))
    return {"schema": 1, "file": str(path), **json.loads(text)}


def convert(file: str, out: Path, to: str, options: Mapping[str, object]) -> dict[str, object]:
    """Write the requests of `FILE[:FORMAT]` to `out` in the format `to`, in order of arrival."""
    from schedlab import _core

    if to not in formats(writable=True):
        known = ", ".join(formats(writable=True))
        raise SpecError(f"cannot write trace format {to!r}", f"--to one of {known}")
    path, name = split_format(file, NAME_IT)
    is_folder = to == "ctf"
    if is_folder and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SpecError(f"{out}: CTF is a folder, and this is not an empty one", "name another")
    # Beside the target under another name, so that nothing half-written is ever called OUT.
    try:
        place = tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.")
    except OSError as error:
        raise SpecError(f"{out}: {error.strerror}", "name a writable file") from error
    try:
        temporary = Path(place) / "out"
        if is_folder:
            temporary.mkdir()
        with compiled(LOOK_AT_IT):
            options_text = json.dumps(dict(options))
            text = _core.trace_convert(str(path), str(temporary), to, name, options_text)
        temporary.replace(out)
    finally:
        shutil.rmtree(place)
    return {"schema": 1, "file": str(path), "out": str(out), **json.loads(text)}


def converted_lines(document: Mapping[str, Any], to: str) -> list[str]:
    """The number of converted requests, then warnings."""
    counts = document["done"]
    lines = [
        f"{counts['requests']:,} requests from {document['format']} to {to}: {document['out']}"
    ]
    if to == "tencent":
        lines.append("warning: times of this format are whole seconds; finer ones are lost")
    for key, words in (("trims_left_out", "trims omitted"), ("bad", "malformed lines skipped")):
        count = counts.get(key, counts["skipped"].get(key, 0))
        if count:
            lines.append(f"warning: {count:,} {words}")
    return [*lines, *_about_the_clock(counts["skipped"])]


def stats_lines(document: Mapping[str, Any]) -> list[str]:
    """A line per fact, then warnings."""
    s = document["summary"]
    lower = "at least " if s["footprint_is_lower_bound"] else ""
    rows = {
        "format": document["format"],
        "requests": f"{s['requests']:,} ({s['reads']:,} reads, {s['writes']:,} writes)",
        "read share": f"{s['read_share']:.1%}",
        "bytes": f"{s['bytes']:,} ({s['read_bytes']:,} read, {s['write_bytes']:,} written)",
        "time span": f"{s['span_ns'] / 1e9:.9f} s",
        "requests per second": f"{s['requests_per_s']:,.1f}",
        "inter-arrival": _times(s["inter_arrival_ns"]),
        "read size": _sizes(s["read_size_bytes"]),
        "write size": _sizes(s["write_size_bytes"]),
        "sequential": f"{s['sequential_share']:.1%}",
        "devices": f"{s['devices']:,}",
        "footprint": f"{lower}{s['footprint_bytes']:,} bytes in 4 KiB pages",
        "furthest byte": f"{s['end_bytes']:,}",
    }
    if s["trims"]:
        rows["trims"] = f"{s['trims']:,} ({s['trim_bytes']:,} bytes)"
    if s["latency_ns"]["count"]:
        rows["response time"] = _times(s["latency_ns"])
    rows["lines without I/O"] = f"{document['skipped']['without_io']:,}"
    lines = [f"{label:<22} {value}" for label, value in rows.items()]
    if document["format"] == "tencent":
        lines.append("note: times are whole seconds; the requests of each were spread over it")
    if bad := document["skipped"]["bad"]:
        lines.append(f"warning: {bad:,} malformed lines were skipped")
    return [*lines, *_about_the_clock(document["skipped"])]


def _about_the_clock(skipped: Mapping[str, int]) -> list[str]:
    return [f"warning: {words}" for words in clock_warnings(skipped)]


def _times(d: Mapping[str, float]) -> str:
    us = {key: value / 1e3 for key, value in d.items()}
    return (
        f"mean {us['mean']:,.1f} µs, cv {d['cv']:.2f}, p50 {us['p50']:,.1f} µs, "
        f"p99 {us['p99']:,.1f} µs, max {us['max']:,.1f} µs"
    )


def _sizes(d: Mapping[str, float]) -> str:
    if not d["count"]:
        return "none"
    return f"mean {d['mean']:,.0f}, p50 {d['p50']:,}, p99 {d['p99']:,}, max {d['max']:,} bytes"
