"""The recorded requests of a result as a timeline, and links to the longest waits in it."""

from __future__ import annotations

import contextlib
from html import escape

from schedlab.errors import SpecError
from schedlab.report.bars import Bars, Scene, request_bars, since, stretches
from schedlab.report.timeline import Timeline
from schedlab.report.view import View
from schedlab.store.requests import read_requests


def timeline_of(view: View) -> Timeline | None:
    """The timeline of the explanatory runs; None where no request was recorded.

    A recording that cannot be read costs only itself.
    """
    scenes = []
    for work in dict.fromkeys(label for label, _ in view.record.recordings):
        runs: dict[tuple[str, ...], list[Bars]] = {}
        for name in view.names:
            recording = view.record.recordings.get((work, name))
            if recording is None:
                continue
            with contextlib.suppress(SpecError):
                requests = read_requests(recording.path, "schedlab")
                parts, bars = request_bars(name, requests, view.texts, recording.tasks)
                runs.setdefault(parts, []).append(since(bars, recording.zero_ns))
        if runs:
            parts = max(runs, key=lambda each: len(runs[each]))
            scenes.append(Scene(work, parts, tuple(runs[parts]), pair=_pair(view, work)))
    return Timeline(tuple(scenes), view.texts) if scenes else None


def starved(view: View) -> list[str]:
    """The process that starved for the longest time, of each explanatory run in which one did."""
    if not view.record.recordings or (line := view.timeline) is None:
        return []
    found = [
        (scene.title, line.of_stretch(bars, longest))
        for scene in line.scenes
        for bars in scene.runs
        for longest in [each for each in stretches(bars, scene.unit) if each.is_starved][:1]
    ]
    if len({work for work, _ in found}) < 2:
        return [words for _, words in found]
    return [view.texts("why.of", workload=work, sentence=words) for work, words in found]


def _pair(view: View, workload: str) -> tuple[str, ...]:
    """The baseline and the best of a workload; where they are the same, and who is behind most."""
    row = next((row for row in view.primary if row.workload == workload), None)
    cells = view.answer.cells[row.name] if row else {}
    if not cells:
        return ()
    best, worst = (end(cells, key=lambda name: cells[name].loss) for end in (min, max))
    return view.baseline, worst if best == view.baseline else best


def moments(view: View, workload: str) -> str:
    """Links to the longest wait of each candidate on a workload, in the page beside this one."""
    if not view.timeline_name or (line := view.timeline) is None:
        return ""
    links = []
    for number, scene in enumerate(line.shown):
        for bars in scene.runs if scene.title == workload else ():
            for at in bars.longest(1, scene.unit):
                words = line.texts(
                    "timeline.moment", name=bars.name, row=bars.rows[int(bars.row[at])],
                    time=line.time(int(bars.total_ns[at])),
                    at=line.moment(int(bars.times_ns[0, at]), 3),
                )  # fmt: skip
                address = f"{view.timeline_name}#{line.address(number, scene, bars, at)}"
                links.append(f'<a href="{escape(address)}">{escape(words)}</a>')
    title = escape(line.texts("timeline.moments"))
    return f'<p class="moments"><strong>{title}</strong> {" · ".join(links)}</p>' if links else ""
