"""Import a table by a mapping of its columns, and check the means that were printed for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from schedlab.analyse import check_means
from schedlab.errors import SpecError
from schedlab.nouns import Record
from schedlab.store.importers import csv as importer
from schedlab.store.importers.imported import Imported, Options
from schedlab.store.table import samples


def import_csv(
    file: Path, mapping: Mapping[str, Any], options: Options, means_file: Path | None
) -> Imported:
    """The runs of a CSV; `mapping` holds the options of `schedlab import csv`."""
    constants = _assignments("--set", mapping["constants"])
    named = {each.name: mapping[each.name] for each in fields(importer.Columns)}
    named |= {name: _names(mapping[name]) for name in ("candidate", "workload", "sum_over")}
    named["constants"] = {name: importer.typed(text) for name, text in constants.items()}
    named["cpu_share"] = _assignments("--cpu-share", mapping["cpu_share"])
    columns = importer.Columns(**named)
    return _with_count(importer.read(file, columns, options, means_file, mapping["sheet"]))


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _assignments(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` arguments as a dictionary; SpecError for anything else."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise SpecError(f"{option} {text!r} is not understood", f"write {option} NAME=VALUE")
        pairs[key] = value
    return pairs


def _with_count(imported: Imported) -> Imported:
    """With a note on how many published means do not match; `analyse` names them."""
    experiment = imported.experiment
    primary, _ = samples(Record(experiment, imported.plan, imported.runs))
    wrong, of = len(check_means(primary, experiment.published)), len(experiment.published)
    if not wrong:
        return imported
    note = f"published means that do not match their rows: {wrong} of {of}"
    return replace(imported, experiment=replace(experiment, notes=(*experiment.notes, note)))
