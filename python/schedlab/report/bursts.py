"""Charts of measured bursts as SVG: a Gantt of the first seconds, burst lengths over time, and
their histogram. Drawn from the stored runs, so they can be drawn again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from schedlab.nouns import Record, Run
from schedlab.report.gantt import Canvas, fill, time_text

WIDTH, ROW, LEFT, RIGHT, TOP, HEIGHT = 960, 26, 84, 940, 40, 120
BINS = 60
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
    longest = max((row[2] for row in timeline), default=1)
    canvas = Canvas((0, end_ns), LEFT, RIGHT)
    canvas.text(LEFT, 22, "start", f"{title}: CPU bursts of the first {end_ns / 1e9:.2f} s")
    for worker in range(workers):
        canvas.text(4, TOP + worker * ROW + 16, "start", f"process {worker}")
    lengths = TOP + workers * ROW + 60
    canvas.axis(TOP, lengths - 60)
    canvas.text(LEFT, lengths - 8, "start", "length of each burst over time")
    canvas.text(LEFT - 6, lengths + 10, "end", time_text(longest))
    canvas.axis(lengths, lengths + HEIGHT + 10)
    for worker, start, length in timeline:
        y = TOP + worker * ROW
        canvas.bar(y, ROW - 6, start, start + length, fill(worker), f"process {worker}")
        canvas.dot(start, lengths + 10 + HEIGHT * (1 - length / longest), worker)
    _bars(canvas.parts, histogram, lengths + 190)
    return canvas.document(title, WIDTH, lengths + 370)


def _bars(parts: list[str], histogram: Sequence[Row], top: int) -> None:
    """Histogram of all bursts of the run, over a linear axis of their lengths."""
    longest = max((high for _, high, _ in histogram), default=0)
    canvas = Canvas((0, longest), LEFT, RIGHT, parts)
    canvas.text(LEFT, top - 8, "start", "number of bursts by length, whole run")
    bins = [0] * BINS
    for low, high, count in histogram:
        bins[int((low + high) / 2 / (longest + 1) * BINS)] += count
    canvas.axis(top, top + HEIGHT + 10)
    canvas.text(LEFT - 6, top + 14, "end", str(max(bins)))
    for number, count in enumerate(bins):
        height = HEIGHT * count / max(1, *bins)
        start, end = (longest * (number + side) / BINS for side in (0, 1))
        tip = f"{count} bursts"
        canvas.bar(top + HEIGHT + 10 - height, height, start, end, 'fill="#777"', tip)
