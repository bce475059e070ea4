"""A queue that is played step by step, as text and as a page: who waits, who is picked, and why.

The reader may predict each pick before it is shown. The page needs no server: its data are in it.
"""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from schedlab.nouns.quantities import milliseconds_text
from schedlab.package import PACKAGE
from schedlab.report import frame, markup
from schedlab.report.texts import Texts

# Lines of the queue in the terminal; rows of all queues in a page, 3 MB packed.
LINES_MAX = 12
ROWS_MAX = 550_000


@dataclass(frozen=True)
class Queued:
    """One that waits: its name and cells in the columns of the play, `places` as shares of the
    device (first, end), or of the longest burst what is left, and `why` it is picked, when it is.
    """

    name: str
    cells: tuple[str, ...]
    places: tuple[tuple[float, float], ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Pick:
    """A decision: all that wait, in the order of the queue, and the position of the picked one.

    `head` is the place of a disk's heads, as a share of the device.
    """

    at_ns: int
    waiting: tuple[Queued, ...]
    chosen: int
    head: float | None = None

    @property
    def picked(self) -> Queued:
        """The picked one."""
        return self.waiting[self.chosen]


@dataclass(frozen=True)
class Play:
    """The decisions of a policy in their order; `rule` is what it does, for `quantum_ms` at a time
    where it has a quantum. `picture` is what is drawn: `planes` as rows of `channels`, a `line`
    with heads, or the `queue` of tasks, of whose bursts a quantum is the share `quantum`.
    """

    policy: str
    rule: str
    columns: tuple[str, ...]
    picks: tuple[Pick, ...]
    planes: int = 0
    channels: int = 1
    quantum_ms: str = ""
    quantum: float = 0.0

    def rule_in(self, texts: Texts) -> str:
        """The rule in words of a language."""
        rule = texts.maybe(f"play.rule.{self.rule}", self.rule)
        return f"{rule}, {texts('quiz.quantum', ms=self.quantum_ms)}" if self.quantum_ms else rule

    @property
    def picture(self) -> str:
        """The kind of its pictures; empty where places are not known."""
        if self.planes:
            return "planes"
        known = [pick for pick in self.picks if pick.waiting[0].places]
        return "" if not known else "queue" if known[0].head is None else "line"

    def choices(self) -> list[Pick]:
        """The picks where more than one waits."""
        return [pick for pick in self.picks if len(pick.waiting) > 1]


def block(play: Play, number: int, *, hidden: bool = False) -> list[str]:
    """The choice of this number as lines; `hidden` without the pick."""
    choices = play.choices()
    if number >= len(choices):
        return [f"{play.policy}: no choice is left"]
    pick = choices[number]
    time = f"{milliseconds_text(pick.at_ns)} ms"
    head = f"{play.policy}, choice {number + 1} at {time}: {len(pick.waiting)} wait"
    shown = list(pick.waiting[:LINES_MAX])
    if pick.picked not in shown and not hidden:
        shown[-1] = pick.picked
    rows = [("", *play.columns), *(("", one.name, *one.cells) for one in shown)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [head]
    for row, one in zip(rows, (None, *shown), strict=True):
        mark = ">" if one is pick.picked and not hidden else " "
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append(f"{mark} {'  '.join(cells)}".rstrip())
    if more := len(pick.waiting) - len(shown):
        lines.append(f"  … and {more} more")
    if not hidden:
        lines.append(f"picked {pick.picked.name}: {pick.picked.why or play.rule_in(Texts('en'))}")
    return lines


def beside(blocks: Sequence[Sequence[str]], width: int) -> list[str]:
    """Blocks beside each other where they fit, else below each other."""
    widths = [max(map(len, one)) for one in blocks]
    if sum(widths) + 3 * (len(blocks) - 1) > width:
        return [line for one in blocks for line in (*one, "")]
    return [
        "   ".join(cell.ljust(one) for cell, one in zip(row, widths, strict=True)).rstrip()
        for row in itertools.zip_longest(*blocks, fillvalue="")
    ] + [""]


def page(plays: Sequence[Play], texts: Texts) -> str:
    """The page of one policy or several side by side."""
    script = (PACKAGE / "report" / "play.js").read_text("utf-8")
    words = {
        key: texts.entries[f"play.{key}"] for key in ("right", "wrong", "picked", "score", "end")
    }
    shown = [_shown(play, ROWS_MAX // len(plays)) for play in plays]
    boards_data = [_data(*each, texts) for each in zip(plays, shown, strict=True)]
    packed = zlib.compress(json.dumps(boards_data).encode(), 9)
    data = {"words": words, "plays": base64.b64encode(packed).decode()}
    boards = "".join(_board(number, play, texts) for number, play in enumerate(plays))
    steps = "".join(
        f'<button type="button" id="{name}">{escape(texts(f"play.{name}"))}</button>'
        for name in ("back", "next")
    )
    first = (
        f'<p class="steps">{steps} <label>{escape(texts("play.choice"))} <input type="number"'
        ' id="to" min="1" value="1"></label> <span id="step" aria-live="polite"></span></p>'
        + (markup.paragraph(texts(f"play.{plays[0].picture}"), "note") if plays[0].picture else "")
        + f'<div class="boards">{boards}</div>'
    )
    content = frame.Page(
        headline=[texts("play.headline")],
        kicker="",
        lead=[
            texts("play.lead"),
            *(f"{play.policy}: {play.rule_in(texts)}." for play in plays),
            *filter(None, (_cut(*each, texts) for each in zip(plays, shown, strict=True))),
        ],
        first=first,
        sections=[],
        style=STYLE,
        scripts=f"{frame.data_script('data', data)}\n<script>{script}</script>\n",
    )
    return frame.render(content, texts)


STYLE = (
    ".boards{display:flex;flex-wrap:wrap;gap:2rem}"
    ".boards>section{flex:1 1 20rem;min-width:0;max-width:40rem;overflow-x:auto}"
    ".steps button,.steps input,.boards button{font:inherit;min-width:3rem;padding:.2rem .6rem}"
    ".steps input{width:6rem}.steps button,.steps label{margin-right:.5rem}"
    ".boards tr.picked{font-weight:bold;outline:2px solid currentColor}"
    ".boards svg{width:100%;max-width:34rem;height:auto}.boards table{width:100%}"
    ".boards td,.boards th{text-align:right;padding:.1rem .4rem}"
)


def _board(number: int, play: Play, texts: Texts) -> str:
    heads = "".join(f"<th>{escape(texts(f'play.column.{name}'))}</th>" for name in play.columns)
    return (
        f'<section aria-label="{escape(play.policy)}"><h2>{escape(play.policy)}</h2>'
        f'<svg id="picture{number}" viewBox="0 0 340 90" aria-hidden="true"></svg>'
        f'<p id="said{number}" aria-live="polite"></p>'
        f'<table><thead><tr>{heads}</tr></thead><tbody id="queue{number}"></tbody></table>'
        "</section>"
    )


def _words(play: Play, texts: Texts) -> dict[str, str]:
    """Words of cells and reasons: operations, and the names of columns."""
    kinds = {name: texts(f"timeline.kind_{name}") for name in ("read", "write")}
    return {**kinds, **{name: texts(f"play.column.{name}") for name in play.columns}}


def _shown(play: Play, most: int) -> int:
    """How many choices have at most so many rows."""
    rows = itertools.accumulate(len(pick.waiting) for pick in play.choices())
    return sum(count <= most for count in rows)


def _cut(play: Play, shown: int, texts: Texts) -> str:
    """How many choices are shown; empty where all are."""
    count = len(play.choices())
    return texts("play.cut", name=play.policy, shown=shown, count=count) if shown < count else ""


def _data(play: Play, shown: int, texts: Texts) -> dict[str, object]:
    """The first choices as the script reads them; operations and reasons in words of a language."""
    rule, words = play.rule_in(texts), _words(play, texts)

    def said(text: str) -> str:
        return " ".join(words.get(word, word) for word in text.split(" "))

    picks: list[list[object]] = []
    for pick in play.choices()[:shown]:
        places = [
            [[round(share, 5) for share in place] for place in one.places] for one in pick.waiting
        ]
        waiting = [[one.name, *map(said, one.cells)] for one in pick.waiting]
        why = said(pick.picked.why) or rule
        head = None if pick.head is None else round(pick.head, 5)
        picks.append([milliseconds_text(pick.at_ns), waiting, places, pick.chosen, why, head])
    facts = {"planes": play.planes, "channels": play.channels, "quantum": round(play.quantum, 5)}
    return {"policy": play.policy, "picture": play.picture, **facts, "picks": picks}
