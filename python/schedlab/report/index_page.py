"""The page of many results: what was asked, the answer, device, kernel and date, each a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlab.nouns import Record
from schedlab.nouns.answer import Answer
from schedlab.report import frame, markup
from schedlab.report.screen import device_text
from schedlab.report.sentences import first
from schedlab.report.tables import Column, TableCell, build
from schedlab.report.texts import Texts
from schedlab.report.view import View, flatten

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
    # Results without a date are the oldest.
    rows = sorted(
        (_row(each, texts) for each in entries), key=lambda row: str(row[0]), reverse=True
    )
    columns = [Column(texts(f"index.{name}"), text=True) for name in HEADS]
    title = texts("index.title", count=texts.counted("scope.results", len(entries)))
    table = markup.drawn_table(build(texts, "results", title, columns, rows), "results")
    return frame.render(frame.Page([title], directory, [], table + SORT, []), texts)


def _row(entry: IndexedResult, texts: Texts) -> list[str | TableCell | None]:
    """Date, link with what was asked, the sentence of the answer, device, kernel."""
    if entry.record is None or entry.answer is None:
        return ["", TableCell(entry.name, link=entry.link), entry.reason, "", ""]
    view = View(entry.record, entry.answer, texts)
    started = min((run.started_at for run in entry.record.runs), default="")
    asked = TableCell(entry.record.experiment.title, link=entry.link)
    host = dict(flatten(entry.record.host))
    kernel = str(host.get("kernel.release") or host.get("kernel") or "")
    return [started[:16].replace("T", " "), asked, first(view), device_text(view), kernel]
