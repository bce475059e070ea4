"""An append-only file of records, for sweeps and experiments that are resumed after a kill.

    results = LineFile(folder / "sweep.jsonl")
    rows = results.read()            # a last line that a kill cut short is omitted
    results.append({"cell": 3, "iops": 81_000.0})

Each record is one line with a checksum and a schema version, on the disk when `append` returns.
No line that was complete is ever written again, so no kill can lose one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns import checked_line
from schedlab.store.files import append_line, cut_torn_line, read_beneath

SCHEMA = 1


class LineFile:
    """A file of records below a folder; it exists after the first `append`."""

    def __init__(self, path: Path, schema: int = SCHEMA, within: Path | None = None) -> None:
        """`within` is the folder that the user named, if `path` is deeper in it."""
        self.path = path
        self.schema = schema
        self._root = within or path.parent

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record durably. HostError when the disk does not take it: nothing stays then."""
        line = checked_line.encode({"schema": self.schema, **record})
        append_line(self.path, line, self._root)

    def read(self) -> list[dict[str, Any]]:
        """All records in their order, without `schema`; empty when there is no file.

        A last line without its end is omitted. SpecError naming the line for any other damage
        and for a schema that this version does not know.
        """
        return [record for _, record in self.places()]

    def places(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(place, record) of every line, the place for messages: `FILE, line N`."""
        for number, line in enumerate(self._lines(), 1):
            place = f"{self.path}, line {number}"
            try:
                record = checked_line.decode(line)
            except ValueError as error:
                raise SpecError(
                    f"{place}: damaged: {error}: {line[:60]!r}",
                    f"delete that line (sed -i {number}d {self.path}); resuming measures it again",
                ) from error
            schema = record.pop("schema", None)
            if schema != self.schema:
                raise SpecError(
                    f"{place}: schema {schema!r}, but this version reads {self.schema}",
                    "use the version of schedlab that wrote it",
                )
            yield place, record

    def _lines(self) -> list[bytes]:
        """Every finished line; what follows the last newline was never finished."""
        try:
            data = read_beneath(self._root, str(self.path.relative_to(self._root)))
        except FileNotFoundError:
            return []
        except OSError as error:
            message = f"{self.path}: {error.strerror}"
            raise SpecError(message, "restore the file from a copy") from error
        return data.split(b"\n")[:-1]

    def repair(self) -> bool:
        """Cut off a torn last line; whether there was one. `append` does it by itself."""
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            before = os.fstat(handle).st_size
            return cut_torn_line(handle) != before
        finally:
            os.close(handle)
