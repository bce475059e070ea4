"""What importers make of files of other programs, as the text of a golden file."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.store.importers.imported import Imported

Content = str | bytes
Reader = Callable[[list[tuple[str, Path]]], Imported]
#: One file of the candidate `none`, or several with their candidates.
Files = Content | Sequence[tuple[str, Content]]


class Imports:
    """Reads each case from files of its own and shows what became of it, or the complaint."""

    def __init__(self, place: Path, golden: Callable[[str, str], None]) -> None:
        self.place, self.golden = place, golden

    def __call__(
        self,
        name: str,
        read: Callable[[list[tuple[str, Path]]], Imported],
        cases: Mapping[str, Files],
    ) -> None:
        parts = [f"== {title}\n{self.shown(read, files)}" for title, files in cases.items()]
        self.golden(f"imports/{name}.txt", "\n\n".join(parts))

    def shown(self, read: Reader, files: Files) -> str:
        """The import of these files in lines."""
        pairs = [("none", files)] if isinstance(files, str | bytes) else files
        named = []
        for number, (candidate, content) in enumerate(pairs):
            data = content if isinstance(content, bytes) else content.encode()
            file = self.place / f"file{number}{'.xlsx' * data.startswith(b'PK')}"
            file.write_bytes(data)
            named.append((candidate, file))
        try:
            text = "\n".join(lines_of(read(named)))
        except SpecError as error:
            assert error.hint
            text = f"error: {error}\nhint: {error.hint}"
        return text.replace(f"{self.place}/", "")


def lines_of(imported: Imported) -> list[str]:
    """Every workload, run, histogram and note of an import."""
    asked = imported.experiment
    blocks = asked.stopping.blocks
    lines = [f"{asked.title}: {blocks} blocks, baseline {asked.baseline}, blocked {asked.blocked}"]
    for work in asked.workloads:
        control = " control" * work.negative_control
        lines.append(f"{work.label}{control}: {work.metric} {[*work.secondary]} {work.parameters}")
    for candidate in asked.candidates:
        lines += [f"{candidate.label}: {candidate.settings}"] if candidate.settings else []
    for run, rows in zip(imported.runs, imported.histograms, strict=True):
        about = f"{run.block}.{run.position} {run.candidate}, {run.workload}"
        bounds = f" bounds {dict(run.bounds)}" if run.bounds else ""
        lines.append(f"{about}: {figures(run.metrics)} {figures(run.properties)}{bounds}")
        lines += [f"    {name} {[*map(list, each)]}" for name, each in rows.items()]
    lines += [f"metric {metric}" for metric in asked.metrics.values()]
    for mean in asked.published:
        lines.append(f"published: {mean}")
    return [*lines, *(f"note: {note}" for note in asked.notes)]


def figures(facts: Mapping[str, Any]) -> str:
    """Numbers with as many digits as nobody could see a difference beyond."""
    shown = (f"{key}={f'{v:.12g}' if isinstance(v, float) else v}" for key, v in facts.items())
    return f"{{{', '.join(shown)}}}"


def biff(*records: tuple[int, int, str | int | float]) -> bytes:
    """A workbook of Excel 2 with these cells: row, column and value."""
    parts = [struct.pack("<HHHH", 9, 4, 2, 16)]
    for row, column, value in records:
        place = struct.pack("<HH3s", row, column, b"\0\0\0")
        if isinstance(value, str):
            kind, body = 4, place + bytes([len(value)]) + value.encode()
        elif isinstance(value, int):
            kind, body = 2, place + struct.pack("<H", value)
        else:
            kind, body = 3, place + struct.pack("<d", value)
        parts.append(struct.pack("<HH", kind, len(body)) + body)
    return b"".join([*parts, struct.pack("<HH", 10, 0)])
