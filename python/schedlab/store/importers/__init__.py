"""Foreign measurements become result folders of kind "import": one file per format.

A file of this room that has a `read` is an importer: called as the file, and in the help by the
first line of the file. `IMPORTERS` has them all: `schedlab import`, the fuzzer and the reference.
The files are imported when something is read.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.package import PACKAGE
from schedlab.nouns.foreign import COMMAND, explained, reader_of

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported


@dataclass(frozen=True)
class Importer:
    """A format, with its line in the help."""

    name: str
    line: str

    def read(self, files: Any, *more: Any, **options: Any) -> Imported:
        """The import of (candidate, file) pairs, or of a table; SpecError, which names the reader
        that the files need where it is another one.
        """
        read: Callable[..., Imported] = pkgutil.resolve_name(f"{__name__}.{self.name}:read")
        try:
            return read(files, *more, **options)
        except SpecError as error:
            # A table may be of anything.
            paths = [] if isinstance(files, Path) else [path for _, path in files]
            raise explained(error, paths, self.name) from error


def found(room: Path) -> Mapping[str, Importer]:
    """The importers of a folder."""
    texts = ((file.stem, file.read_text("utf-8")) for file in sorted(room.glob("*.py")))
    return {name: Importer(name, text.partition("\n")[0].strip('"')) for name, text in texts
            if re.search(r"^(?:def read\(|read = )", text, re.MULTILINE)}  # fmt: skip


IMPORTERS = found(PACKAGE / "store/importers")


def format_of(files: Sequence[Path]) -> str:
    """The importer of the first file, by its contents, or its name where it is a table; SpecError
    for one that none reads, or that could be of several.
    """
    file = files[0]
    if file.suffix.lower() in (".csv", ".tsv", ".xlsx"):
        return "csv"
    unknown = SpecError(
        f"{file}: its contents do not show which program wrote it",
        f"name it: schedlab import FORMAT {file} --out DIR; FORMAT: {', '.join(IMPORTERS)}; "
        f"of another program: {COMMAND}",
    )
    if (name := reader_of(file, unknown.hint)) in IMPORTERS:
        return name
    raise explained(unknown, [file])
