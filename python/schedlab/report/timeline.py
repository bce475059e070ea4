"""The timeline as one page that loads nothing: bars to explore, and what they say as tables."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from schedlab.package import PACKAGE
from schedlab.report import frame, markup
from schedlab.report.bars import (
    ENDS,
    OPERATIONS,
    PAUSE_NS,
    Bars,
    Scene,
    Stretch,
    pauses,
    stretches,
)
from schedlab.report.tables import Column, TableCell, build
from schedlab.report.texts import Texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Bars of a page: about 20 bytes each, drawn in an instant.
BARS_MAX = 300_000
ROWS_MAX = 40
LONGEST = 10
STARVED_MAX = 3
# A smaller share of the time is less than this.
SHARE_LEAST = 0.0001
# A part with a larger share of a wait is the whole wait.
MOST = 0.95
# How a part looks: its series of the palette, how much of a bar's height it has, its pattern.
LOOKS = {
    "tag": (4, 0.5, "slanted"), "wait": (4, 0.5, "slanted"), "plug": (7, 0.5, "dotted"),
    "scheduler": (3, 0.75, "upright"), "ready": (3, 0.5, "upright"),
    "device": (0, 1.0, "solid"), "runs": (0, 1.0, "solid"), "whole": (0, 1.0, "solid"),
}  # fmt: skip
WORDS = (
    "range", "lane", "choose", "operation", "offset", "at_byte", "arrives", "total", "ended",
    "overtaken", "ran_before", "nobody", "candidate", "process", "in_device", "most_in_device",
    "nothing", "found", "table_note",
)  # fmt: skip
BUTTONS = (
    ("earlier", "←"), ("later", "→"), ("closer", "+"), ("farther", "−"), ("all", ""),
    ("longest", ""), ("swap", "⇅"),
)  # fmt: skip


@dataclass(frozen=True)
class Timeline:
    """Scenes as a page: their rows in one order, what does not fit cut, in words of a language."""

    scenes: tuple[Scene, ...]
    texts: Texts

    @cached_property
    def shown(self) -> tuple[Scene, ...]:
        """The scenes with rows in the same order in each of their runs: who waited longest first,
        and with no more bars than a page may have.
        """
        runs = sum(len(scene.runs) for scene in self.scenes)
        return tuple(_fitted(s, BARS_MAX // max(runs, 1), self.texts) for s in self.scenes)

    @property
    def counts(self) -> str:
        """The number of its bars and runs, in English."""
        runs = [bars for scene in self.shown for bars in scene.runs]
        bars = sum(len(bars.row) for bars in runs)
        return f"{bars:,} {self.scenes[0].unit}s, {len(runs)} runs"

    def part(self, name: str, inside: bool = False) -> str:
        """The name of a part: `in the device`, in a sentence after a time."""
        kind = "in" if inside else "part"
        known = self.texts.maybe(f"why.part_{name}" if inside else f"why.{name}_label", "")
        return known or self.texts(f"timeline.{kind}_{name}")

    def time(self, ns: float) -> str:
        """A time in its natural unit."""
        return self.texts.quantity(ns / 1e9, "s")

    def moment(self, ns: float, decimals: int = 6) -> str:
        """A moment in seconds."""
        return f"{self.texts.number(ns / 1e9, decimals)}\u00a0{self.texts.maybe('unit.s', 's')}"

    def render(self) -> str:
        """The whole page."""
        texts, scene, notes = self.texts, self.shown[0], self._notes()
        sections = [
            ("waits", texts("timeline.waits"), self._each(self._waits)),
            ("processes", texts("timeline.processes"), self._each(self._processes)),
        ]
        unit = texts(f"timeline.unit_{scene.unit}")
        page = frame.Page(
            headline=[self._headline(scene, bars) for bars in self._pair(scene)],
            kicker=" · ".join(each.title for each in self.shown),
            lead=[texts("timeline.lead", unit=unit)],
            first=(markup.bullets(notes) if notes else "") + self._app(),
            sections=sections,
            style=(PACKAGE / "report" / "timeline.css").read_text("utf-8"),
            scripts=self._scripts(),
        )
        return frame.render(page, texts)

    def _pair(self, scene: Scene) -> list[Bars]:
        """The runs that are shown first."""
        known = {bars.name: bars for bars in scene.runs}
        if chosen := [known[name] for name in scene.pair if name in known]:
            return chosen
        first, *others = scene.runs
        if not others:
            return [first]

        def longest(bars: Bars) -> float:
            return float(bars.total_ns.max()) if len(bars.row) else 0.0

        ratio = [max(longest(first), 1.0) / max(longest(each), 1.0) for each in others]
        best = max(range(len(others)), key=lambda i: max(ratio[i], 1 / ratio[i]))
        return [first, others[best]]

    def _headline(self, scene: Scene, bars: Bars) -> str:
        """Who waited longest, and for what."""
        texts, found = self.texts, bars.longest(1, scene.unit)
        if not found:
            return texts("timeline.headline_none", name=bars.name)
        (at,) = found
        spent = (bars.times_ns[1:, at] - bars.times_ns[:-1, at]).tolist()
        values = {
            "name": bars.name, "row": bars.rows[int(bars.row[at])],
            "time": self.time(sum(spent)), "at": self.moment(int(bars.times_ns[0, at]), 3),
        }  # fmt: skip
        if len(spent) < 2:
            return texts("timeline.headline_whole", **values)
        most = max(range(len(spent)), key=lambda part: spent[part])
        values["part"] = self.part(scene.parts[most], inside=True)
        if spent[most] > MOST * sum(spent):
            return texts("timeline.headline_part", **values)
        return texts("timeline.headline", part_time=self.time(spent[most]), **values)

    def _notes(self) -> list[str]:
        """Requests that are not shown; of each piece of work who starved, when the device idled."""
        notes = [note for scene in self.shown for note in scene.notes]
        notes += [note for scene in self.shown for bars in scene.runs for note in bars.notes]
        for scene in self.scenes:
            found = [line for bars in scene.runs for line in self.starved(scene, bars)]
            found += self.idling(scene)
            if len(self.scenes) > 1:
                of = {"workload": scene.title}
                found = [self.texts("why.of", sentence=line, **of) for line in found]
            notes += found
        return list(dict.fromkeys(notes))

    def starved(self, scene: Scene, bars: Bars) -> list[str]:
        """Which processes starved in a run, or that none did; nothing where there is only one."""
        found = stretches(bars, scene.unit)
        starved = [each for each in found if each.is_starved][:STARVED_MAX]
        shown = starved or (found[:1] if len(found) > 1 else [])
        return [self.of_stretch(bars, each) for each in shown]

    def of_stretch(self, bars: Bars, each: Stretch) -> str:
        """Whether a process starved, or that nobody waited longer."""
        return self.texts(
            "timeline.starved" if each.is_starved else "timeline.starved_none",
            name=bars.name, row=bars.rows[each.row], at=self.moment(each.since_ns, 3),
            time=self.time(each.until_ns - each.since_ns),
            count=self.texts.number(each.passed, 0),
        )  # fmt: skip

    def idling(self, scene: Scene) -> list[str]:
        """When each scheduler kept the device idle although requests waited, and who never did."""
        if scene.unit != "request" or len(scene.parts) < 2:
            return []
        texts, limit = self.texts, self.time(PAUSE_NS)
        lines, never = [], []
        for bars in scene.runs:
            spent = (found := pauses(bars))[:, 1] - found[:, 0]
            long = found[spent > PAUSE_NS]
            if not len(long):
                never += [bars.name] * bool(len(bars.row))
                continue
            longest = int(spent.argmax())
            share = float(spent.sum()) / (bars.end_ns - int(bars.times_ns[0, 0]))
            less = "< " if share < SHARE_LEAST else ""
            lines.append(texts(
                "timeline.idling", name=bars.name, limit=limit,
                share=f"{less}{texts.margin(max(share, SHARE_LEAST))}",
                count=texts.number(len(found), 0), time=self.time(int(spent[longest])),
                at=self.moment(int(found[longest, 0]), 3), end=self.moment(int(long[-1, 1]), 3),
            ))  # fmt: skip
        if never:
            lines.append(texts("timeline.idling_none", names=texts.listed(never), limit=limit))
        return lines

    def _pauses(self, work: int, number: int) -> NDArray[Any]:
        """The pauses of the device in a run, as far as its page shows it."""
        whole, shown = (scenes[work].runs[number] for scenes in (self.scenes, self.shown))
        found = pauses(whole)
        if self.scenes[work].unit != "request" or not len(shown.row):
            return found[:0]
        if len(shown.row) < len(whole.row):
            found = found[found[:, 1] <= shown.times_ns[0, -1]]
        return found

    def _each(self, make: Any) -> str:
        tables = [make(i, scene, bars) for i, scene in enumerate(self.shown) for bars in scene.runs]
        return f'<div class="pairs">{"".join(tables)}</div>'

    def _waits(self, work: int, scene: Scene, bars: Bars) -> str:
        """The longest waits of a run, each with a link to its moment."""
        texts, times = self.texts, bars.times_ns
        columns = [Column(texts("timeline.process"), text=True)]
        columns += [Column(f"{texts('timeline.arrives')}, s", decimals=6)]
        columns += [Column(self.part(name), "ns", digits=3) for name in scene.parts]
        columns += [Column(texts("timeline.total"), "ns", digits=3)] * (len(scene.parts) > 1)
        rows = []
        for at in bars.longest(LONGEST, scene.unit):
            who = bars.rows[int(bars.row[at])]
            link = f"#{self.address(work, scene, bars, at)}"
            spent = (times[1:, at] - times[:-1, at]).tolist()
            total = [sum(spent)] * (len(spent) > 1)
            rows.append([TableCell(who, link=link), times[0, at] / 1e9, *spent, *total])
        title = texts("timeline.waits_of", work=scene.title, name=bars.name)
        return f"<div>{markup.drawn_table(build(texts, 'waits', title, columns, rows))}</div>"

    def address(self, work: int, scene: Scene, bars: Bars, at: int) -> str:
        """The end of the address that shows a bar, in the run above or below."""
        first = self._pair(scene)[0]
        pair = (bars, first) if bars is not first else (first, self._pair(scene)[-1])
        above, below = sorted((each.name for each in pair), key=lambda name: name != first.name)
        asked: dict[str, object] = {"work": work, "above": above}
        asked["below"] = below if above != below else ""
        return urlencode({**asked, "run": bars.name, "bar": at})

    def _processes(self, _: int, scene: Scene, bars: Bars) -> str:
        """Who took how long, and for how long nothing of it ended: whoever starved."""
        import numpy as np

        texts = self.texts
        heads = [(texts("timeline.count"), ""), *(
            (texts(f"timeline.{name}"), "ns") for name in ("median", "p99", "slowest", "gap")
        ), (f"{texts('timeline.gap_from')}, s", "")]  # fmt: skip
        columns = [Column(texts("timeline.process"), text=True)]
        columns += [
            Column(head, unit, digits=3, decimals=None if unit else 6 * (i > 0))
            for i, (head, unit) in enumerate(heads)
        ]
        rows: list[list[Any]] = []
        for number, name in enumerate(bars.rows):
            mine = bars.row == number
            if not mine.any():
                continue
            total = bars.total_ns[mine]
            ends = np.sort(bars.times_ns[-1][mine])
            edges = np.concatenate(([bars.times_ns[0][mine].min()], ends))
            widest = int(np.argmax(np.diff(edges)))
            median, high = np.percentile(total, [50, 99])
            rows.append([name, int(mine.sum()), median, high, int(total.max()),
                         int(np.diff(edges)[widest]), edges[widest] / 1e9])  # fmt: skip
        title = texts("timeline.processes_of", work=scene.title, name=bars.name)
        return f"<div>{markup.drawn_table(build(texts, 'processes', title, columns, rows))}</div>"

    def _app(self) -> str:
        """The tools, the legend, the two lanes, and what is chosen."""
        texts = self.texts
        selects = "".join(
            f'<label>{escape(texts(f"timeline.{name}"))}<select id="{name}"></select></label>'
            for name in ("work", "above", "below")
        )
        buttons = "".join(
            f'<button type="button" id="do-{name}" title="{escape(texts(f"timeline.{name}"))}"'
            f' aria-label="{escape(texts(f"timeline.{name}"))}">'
            f"{sign or escape(texts(f'timeline.{name}'))}</button>"
            for name, sign in BUTTONS
        )
        search = escape(texts("timeline.search"))
        parts = list(dict.fromkeys(name for scene in self.shown for name in scene.parts))
        legend = (
            "".join(
                f'<li data-part="{name}"><canvas data-part="{name}" aria-hidden="true"></canvas>'
                f"{escape(self.part(name))}</li>"
                for name in parts
            )
            + f'<li data-part="idle"><i></i>{escape(texts("timeline.idle"))}</li>'
        )
        lane = '<figure><canvas tabindex="0" role="img"></canvas></figure>'
        return (
            f"<noscript>{markup.paragraph(texts('timeline.no_script'), 'note')}</noscript>"
            f'<section id="app" hidden aria-label="{escape(texts("timeline.title"))}">'
            f'<div class="tools">{selects}<label class="wide-field">{search}'
            f'<input type="search" id="search" autocomplete="off"></label>{buttons}</div>'
            f'<ul class="legend" id="legend">{legend}</ul>'
            f'<p><span id="range"></span> <span id="found" role="status"></span></p>'
            '<div id="where"><span></span></div>'
            f'<div id="stage">{lane}{lane}</div><div id="chosen" role="status"></div>'
            f'<div id="tip" hidden></div><details id="view"><summary>'
            f"{escape(texts('timeline.view'))}</summary>"
            '<div class="scroll" tabindex="0"><table><caption></caption><thead></thead>'
            "<tbody></tbody></table></div></details></section>"
        )

    def _scripts(self) -> str:
        """The data, packed, then the library, then ours."""
        texts, scenes, data = self.texts, [], []
        for work, scene in enumerate(self.shown):
            runs = []
            for number, bars in enumerate(scene.runs):
                facts, packed = pack(bars, self._pauses(work, number))
                name = f"run-{work}-{number}"
                data.append(
                    f'<script type="application/octet-stream" id="{name}">{packed}</script>'
                )
                longest = bars.longest(LONGEST, scene.unit)
                runs.append({"id": name, "name": bars.name, "longest": longest, **facts})
            pair = [each.name for each in self._pair(scene)]
            scenes.append({
                "title": scene.title, "rows": scene.runs[0].rows, "parts": scene.parts,
                "unit": scene.unit, "runs": runs, "pair": [*pair, ""][:2],
                "span_ns": max(1, *(bars.end_ns for bars in scene.runs)),
            })  # fmt: skip
        words: dict[str, object] = {name: texts.maybe(f"timeline.{name}", "") for name in WORDS}
        words["parts"] = {name: self.part(name) for name in LOOKS}
        words["kinds"] = [texts(f"timeline.kind_{name}") for name in OPERATIONS]
        words["ends"] = ["", *(texts(f"timeline.end_{name}") for name in ENDS)]
        looks = {
            name: {"series": series, "height": height, "lines": lines}
            for name, (series, height, lines) in LOOKS.items()
        }
        meta = {"scenes": scenes, "words": words, "looks": looks}
        folder = PACKAGE / "report"
        library, own = ((folder / name).read_text("utf-8") for name in
                        ("vendor/d3-zoom.js", "timeline.js"))  # fmt: skip
        return (
            f"{frame.data_script('timeline-data', meta)}"
            f"{''.join(data)}\n<script>{library}</script>\n<script>{own}</script>\n"
        )


def _fitted(scene: Scene, most: int, texts: Texts) -> Scene:
    """A scene whose runs have the same rows in the same order, and at most so many bars each."""
    import numpy as np

    longest: dict[str, int] = {}
    for bars in scene.runs:
        for number, name in enumerate(bars.rows):
            total = bars.total_ns[bars.row == number]
            longest[name] = max(longest.get(name, 0), int(total.max(initial=0)))
    order = sorted(longest, key=lambda name: -longest[name])
    kept = order if len(order) <= ROWS_MAX else order[: ROWS_MAX - 1]
    others = texts("timeline.others", count=len(order) - len(kept))
    rows = (*kept, *[others] * (len(order) > len(kept)))
    end_ns = min((int(b.times_ns[0, most]) for b in scene.runs if len(b.row) > most), default=None)
    runs, notes = [], []
    for bars in scene.runs:
        places = [min(order.index(name), len(rows) - 1) for name in bars.rows]
        row = np.array(places, dtype=np.int64)[bars.row] if len(bars.row) else bars.row
        run = replace(bars, rows=rows, row=row)
        if end_ns is not None:
            run = run.where(run.times_ns[0] < end_ns)
            notes.append(f"{bars.name}: " + texts(
                "timeline.cut", shown=texts.number(len(run.row), 0),
                count=texts.number(len(row), 0), time=texts.quantity(end_ns / 1e9, "s"),
            ))  # fmt: skip
        runs.append(run)
    return replace(scene, runs=tuple(runs), notes=(*scene.notes, *notes))


def pack(bars: Bars, idle: NDArray[Any]) -> tuple[dict[str, Any], str]:
    """Facts of a run for the script, and its columns: numbers of 7 bits a byte, deflated.

    `idle` are its pauses: (from, until) in ns.
    """
    import numpy as np

    times = bars.times_ns
    columns: list[NDArray[Any]] = [bars.row, np.diff(times[0], prepend=0)]
    columns += [times[part + 1] - times[part] for part in range(len(times) - 1)]
    unit, has_places = 1, bars.offset_bytes is not None and bars.size_bytes is not None
    if has_places:
        offset, size = (np.asarray(each, np.int64) for each in (bars.offset_bytes, bars.size_bytes))
        unit = 512 if not ((offset % 512).any() or (size % 512).any()) else 1
        steps = np.diff(offset // unit, prepend=0)
        columns += [np.where(steps < 0, -2 * steps - 1, 2 * steps), size // unit]
    kind = np.zeros(len(bars.row), int) if bars.kind is None else bars.kind
    columns += [kind, np.diff(idle[:, 0], prepend=0), idle[:, 1] - idle[:, 0]]
    stream = b"".join(map(_numbers, columns))
    facts = {"count": len(bars.row), "idle": len(idle), "unit": unit, "has_places": has_places}
    return facts, base64.b64encode(zlib.compress(stream, 9)).decode()


def _numbers(values: Sequence[int] | NDArray[Any]) -> bytes:
    """Numbers that are not negative in groups of 7 bits, the lowest first."""
    import numpy as np

    left = np.asarray(values, dtype=np.uint64)
    groups = [left & np.uint64(127)]
    more = [left >> np.uint64(7)]
    while more[-1].any():
        groups.append(more[-1] & np.uint64(127))
        more.append(more[-1] >> np.uint64(7))
    there = np.array([np.ones(len(left), bool), *(each > 0 for each in more[:-1])]).T
    follows = np.array([each > 0 for each in more]).T
    table = np.array(groups).T | np.where(follows, 128, 0).astype(np.uint64)
    return bytes(table[there].astype(np.uint8))
