"""One page that leads to every result in a directory, and the pages that it leads to."""

from __future__ import annotations

from pathlib import Path

from schedlab.errors import SchedlabError, SpecError

QUESTION, PAGE, INDEX = "experiment.toml", "report.html", "index.html"


def holds_results(directory: Path) -> bool:
    """Whether a directory is no result itself, but has some in it."""
    return not (directory / QUESTION).exists() and any(directory.glob(f"*/{QUESTION}"))


def write_index(directory: Path, lang: str | None = "en") -> Path:
    """Write `index.html`, and the page of each result that has none yet; gives its path.

    A result that cannot be read is a row with the reason. SpecError where there is no result.
    """
    from schedlab.report.index_page import IndexedResult, render
    from schedlab.result import Result
    from schedlab.store.files import write_atomic

    folders = sorted(path.parent for path in directory.glob(f"*/{QUESTION}"))
    if not folders:
        raise SpecError(f"{directory}: no result in it", "name a directory of result folders")
    entries = []
    for folder in folders:
        link = f"{folder.name}/{PAGE}"
        try:
            result = Result.load(folder)
            record, answer = result.record, result.answer
            if not (folder / PAGE).exists():
                result.write_html(folder / PAGE, lang)
        except SchedlabError as error:
            entries.append(IndexedResult("", folder.name, reason=str(error)))
            continue
        entries.append(IndexedResult(link, folder.name, record, answer))
    write_atomic(directory / INDEX, render(entries, directory.name, lang))
    return directory / INDEX
