"""`schedlab trace stats`: counts, sizes, times and footprint of a block trace."""

from __future__ import annotations

import json
from typing import Any

import click

from schedlab.cli.trace.common import as_spec_error, options_json, reading_options, split_format


@click.command()
@click.argument("file", metavar="FILE[:FORMAT]")
@reading_options
def stats(file: str, skip_bad_lines: bool, reorder: int | None, event: str, as_json: bool) -> None:
    """Say what the requests of a block trace are like.

    FILE may be compressed (gzip, zstd, bzip2, xz). `sda` stands for all of `sda.blktrace.*`.
    """
    from schedlab import _core

    path, name = split_format(file)
    try:
        text = _core.trace_stats(path, name, options_json(skip_bad_lines, reorder, event))
    except ValueError as error:
        raise as_spec_error(error) from None
    told = json.loads(text)
    if as_json:
        click.echo(json.dumps({"schema": 1, "file": path, **told}, indent=1))
        return
    for label, value in _rows(told):
        click.echo(f"{label:<22} {value}")
    if told["skipped"]["bad"]:
        click.echo(f"warning: {told['skipped']['bad']:,} bad lines were passed over", err=True)


def _rows(told: dict[str, Any]) -> list[tuple[str, str]]:
    s = told["summary"]
    lower = "at least " if s["footprint_is_lower_bound"] else ""
    rows = [
        ("format", told["format"]),
        ("requests", f"{s['requests']:,} ({s['reads']:,} reads, {s['writes']:,} writes)"),
        ("read share", f"{s['read_share']:.1%}"),
        ("bytes", f"{s['bytes']:,} ({s['read_bytes']:,} read, {s['write_bytes']:,} written)"),
        ("time span", f"{s['span_ns'] / 1e9:.9f} s"),
        ("requests per second", f"{s['requests_per_s']:,.1f}"),
        ("inter-arrival", _times(s["inter_arrival_ns"])),
        ("read size", _sizes(s["read_size_bytes"])),
        ("write size", _sizes(s["write_size_bytes"])),
        ("sequential", f"{s['sequential_share']:.1%}"),
        ("devices", f"{s['devices']:,}"),
        ("footprint", f"{lower}{s['footprint_bytes']:,} bytes in 4 KiB pages"),
        ("furthest byte", f"{s['end_bytes']:,}"),
    ]
    if s["trims"]:
        rows.append(("trims", f"{s['trims']:,} ({s['trim_bytes']:,} bytes)"))
    if s["latency_ns"]["count"]:
        rows.append(("response time", _times(s["latency_ns"])))
    rows.append(("lines without I/O", f"{told['skipped']['without_io']:,}"))
    return rows


def _times(d: dict[str, float]) -> str:
    us = {key: value / 1e3 for key, value in d.items()}
    return (
        f"mean {us['mean']:,.1f} µs, cv {d['cv']:.2f}, p50 {us['p50']:,.1f} µs, "
        f"p99 {us['p99']:,.1f} µs, max {us['max']:,.1f} µs"
    )


def _sizes(d: dict[str, float]) -> str:
    if not d["count"]:
        return "none"
    return f"mean {d['mean']:,.0f}, p50 {d['p50']:,}, p99 {d['p99']:,}, max {d['max']:,} bytes"
