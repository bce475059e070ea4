"""Charts of measured bursts as SVG: a Gantt of the first seconds, burst lengths over time, and
their histogram. Drawn from the stored runs, so they can be drawn again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from schedlab.report.drawing import COLOURS
from schedlab.spec import Record, Run

WIDTH, ROW, LEFT, TOP = 960, 26, 70, 40
Row = Sequence[int]


def charts(folder: Path, record: Record) -> dict[str, str]:
    """SVG by file name, one per candidate of a result folder, from its first analysed run."""
    paths = {}
    for number, candidate in enumerate(record.experiment.candidates):
        runs = [r for r in record.runs if r.status == "ok" and r.candidate == candidate.label]
        run = next((r for r in runs if "timeline" in r.raw), None)
        if run is None:
            continue
        paths[f"bursts-{number}.svg"] = chart(folder, run)
    return paths


def chart(folder: Path, run: Run) -> str:
    """The chart of one run: Gantt, lengths over time, histogram."""
    raw = json.loads((folder / "raw" / run.raw["timeline"]).read_text(encoding="utf-8"))
    return draw(run.candidate, raw["timeline"], raw.get("burst_ns", []))


def draw(title: str, timeline: Sequence[Row], histogram: Sequence[Row]) -> str:
    """SVG of rows (worker, start_ns, duration_ns) and rows (low_ns, high_ns, count)."""
    workers = 1 + max((row[0] for row in timeline), default=0)
    end_ns = max((row[1] + row[2] for row in timeline), default=1)
    scale = (WIDTH - LEFT - 20) / end_ns
    parts = [_text(LEFT, 22, f"{title}: CPU bursts of the first {end_ns / 1e9:.2f} s", 15)]
    for worker in range(workers):
        parts.append(_text(4, TOP + worker * ROW + 16, f"process {worker}"))
    for worker, start, length in timeline:
        parts.append(
            f'<rect x="{LEFT + start * scale:.2f}" y="{TOP + worker * ROW}" '
            f'width="{max(length * scale, 0.3):.2f}" height="{ROW - 6}" '
            f'fill="{COLOURS[worker % len(COLOURS)]}">'
            f"<title>process {worker}: {length / 1e6:.3f} ms from {start / 1e6:.3f} ms</title>"
            "</rect>"
        )
    y = TOP + workers * ROW
    parts += [_axis(LEFT, y), *_time_labels(end_ns, y + 16)]
    y += 60
    parts += _lengths(timeline, scale, y)
    parts += _bars(histogram, y + 190)
    height = y + 370
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" font-family="sans-serif">'
        f"<title>{escape(title)}</title>"
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )


def _text(x: float, y: float, text: str, size: int = 11, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _time_labels(end_ns: float, y: float) -> list[str]:
    end = _text(WIDTH - 20, y, f"{end_ns / 1e9:.2f} s", anchor="end")
    return [_text(LEFT, y, "0 s"), end]


def _lengths(timeline: Sequence[Row], scale: float, top: float) -> list[str]:
    """A dot per burst: when it began, how long it lasted."""
    longest = max((row[2] for row in timeline), default=1)
    parts = [_text(LEFT, top - 8, "length of each burst over time", 13)]
    parts.append(_text(LEFT - 6, top + 10, f"{longest / 1e6:.1f} ms", anchor="end"))
    parts.append(_text(LEFT - 6, top + 130, "0", anchor="end"))
    parts.append(_axis(LEFT, top + 130))
    end_ns = (WIDTH - LEFT - 20) / scale
    parts += _time_labels(end_ns, top + 146)
    for worker, start, length in timeline:
        parts.append(
            f'<circle cx="{LEFT + start * scale:.2f}" cy="{top + 130 - 120 * length / longest:.2f}"'
            f' r="2.2" fill="{COLOURS[worker % len(COLOURS)]}"/>'
        )
    return parts


def _bars(histogram: Sequence[Row], top: float) -> list[str]:
    """Histogram of all bursts of the run, over a linear axis of 60 bins."""
    parts = [_text(LEFT, top - 8, "number of bursts by length, whole run", 13)]
    if not histogram:
        return parts
    longest = max(high for _, high, _ in histogram)
    bins = [0] * 60
    for low, high, count in histogram:
        bins[int((low + high) / 2 / (longest + 1) * 60)] += count
    most = max(bins)
    width = (WIDTH - LEFT - 20) / 60
    for number, count in enumerate(bins):
        height = 120 * count / most
        low_ms, high_ms = number * longest / 6e7, (number + 1) * longest / 6e7
        parts.append(
            f'<rect x="{LEFT + number * width:.2f}" y="{top + 130 - height:.2f}" '
            f'width="{width - 1:.2f}" height="{height:.2f}" fill="#777">'
            f"<title>{count} bursts of {low_ms:.2f} to {high_ms:.2f} ms</title></rect>"
        )
    parts.append(_axis(LEFT, top + 130))
    parts.append(_text(LEFT - 6, top + 14, str(most), anchor="end"))
    parts.append(_text(LEFT, top + 146, "0 ms"))
    parts.append(_text(WIDTH - 20, top + 146, f"{longest / 1e6:.1f} ms", anchor="end"))
    return parts


def _axis(x: float, y: float) -> str:
    return f'<line x1="{x}" y1="{y}" x2="{WIDTH - 20}" y2="{y}" stroke="#444"/>'
