"""The page of many results: what was asked, the answer, device, kernel and date, each a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from schedlab.report import frame, markup
from schedlab.report.screen import device_text
from schedlab.report.sentences import code
from schedlab.report.texts import Texts
from schedlab.report.view import View, flatten
from schedlab.spec import Record
from schedlab.spec.answer import Answer

HEADS = ("date", "asked", "answer", "device", "kernel")
# A head sorts by its column, and back by a second click; a page needs no server for it.
SORT = """<script>
document.querySelectorAll(".results thead th").forEach((head, at) => {
  head.innerHTML = "<button>" + head.innerHTML + "</button>";
  let up = false;
  head.firstChild.onclick = () => {
    const body = head.closest("table").tBodies[0];
    const text = row => row.cells[at].textContent;
    up = !up;
    [...body.rows].sort((a, b) => (up ? 1 : -1) * text(a).localeCompare(text(b)))
      .forEach(row => body.append(row));
  };
});
</script>"""


@dataclass(frozen=True)
class IndexedResult:
    """A result and the link to its page; `reason` is why it has no answer, if it has none."""

    link: str
    name: str
    record: Record | None = None
    answer: Answer | None = None
    reason: str = ""


def render(entries: Sequence[IndexedResult], directory: str, lang: str | None = "en") -> str:
    """The page, the newest result first; without a script it cannot be sorted otherwise."""
    texts = Texts(lang)
    rows = sorted((_row(each, texts) for each in entries), key=_day, reverse=True)
    head: markup.HtmlRow = [texts(f"index.{name}") for name in HEADS]
    title = texts("index.title", count=texts.counted("scope.results", len(entries)))
    table = markup.table(head, rows, title, "results")
    page = frame.Page([title], directory, [], table + SORT, [])
    return frame.render(page, texts)


def _day(row: Sequence[str | markup.HtmlCell]) -> str:
    """The date of a row; results without one are the oldest."""
    return str(row[0]) if str(row[0])[:1].isdigit() else ""


def _row(entry: IndexedResult, texts: Texts) -> list[str | markup.HtmlCell]:
    """Date, link with what was asked, the sentence of the answer, device, kernel."""
    link = f'<a href="{escape(entry.link)}">{{}}</a>' if entry.link else "{}"
    if entry.record is None or entry.answer is None:
        named = markup.HtmlCell("", "t", link.format(escape(entry.name)))
        return [texts("verdict.none"), named, entry.reason, "", ""]
    view = View(entry.record, entry.answer, texts)
    started = min((run.started_at for run in entry.record.runs), default="")
    day = started[:16].replace("T", " ") or texts("verdict.none")
    asked = markup.HtmlCell("", "t", link.format(escape(entry.record.experiment.title)))
    host = dict(flatten(entry.record.host))
    kernel = str(host.get("kernel.release") or host.get("kernel") or "")
    return [day, asked, code(view), device_text(view), kernel]
