"""`schedlab import csv`: a long-format CSV by a mapping of its columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.import_.common import imports
from schedlab.cli.options import PATH, together

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported, Options

_mapping_options = together(
    click.option("--candidate", required=True, help="Column(s) that name the candidate."),
    click.option("--value", required=True,
                 help="Column of the figures, or a ratio COLUMN/COLUMN."),
    click.option("--workload", help="Column(s) that name the workload."),
    click.option("--block", default="", help="Column of the repetition (default: order of rows)."),
    click.option("--unit", default="", help="Unit of the figures: KiB/s, MB/s, s, ms, 1/s, …."),
    click.option("--metric", default="", help="Metric of the figures (default: by the unit)."),
    click.option("--unit-column", default="", help="Column that holds the unit of each row."),
    click.option("--metric-column", default="", help="Column with the metric of each row."),
    click.option("--higher-is-better/--lower-is-better", "higher_is_better", default=None,
                 help="Direction; needed only where the unit does not imply it."),
    click.option("--binary-units", is_flag=True,
                 help="kB, MB, GB are powers of 1024 (IOzone, hdparm)."),
    click.option("--sum", "sum_over", help="Column(s) whose rows are parts of one run: added up."),
    click.option("--set", "constants", multiple=True, help="NAME=VALUE added to every workload."),
    click.option("--cpu-share", multiple=True,
                 help="WORKLOAD=OTHER: OTHER holds the CPU seconds of WORKLOAD's runs."),
    click.option("--published-means", "means_file", type=PATH, help="CSV of means that were "
                 "published for these rows; wrong ones are listed."),
)  # fmt: skip


@click.command()
@click.argument("file", type=PATH)
@_mapping_options
@imports
def csv(file: Path, means_file: Path | None, options: Options, **mapping: Any) -> Imported:
    """Import FILE, a CSV with a header line and one figure per row.

    \b
    schedlab import csv results.csv --candidate scheduler --workload test,record_bytes \\
        --value kib_per_s --unit KiB/s --higher-is-better --block repetition --unblocked --out DIR
    """
    from schedlab.app.csv_import import import_csv

    return import_csv(file, mapping, options, means_file)
