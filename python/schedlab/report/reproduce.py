"""The content of `reproduce.sh`: how to measure an experiment again."""

from __future__ import annotations

import schedlab
from schedlab.nouns import Record
from schedlab.nouns.results import kernel_release


def script(record: Record) -> str:
    """A POSIX shell script that repeats the experiment next to its own folder."""
    experiment = record.experiment
    title = " ".join(experiment.title.split())
    head = f"""#!/bin/sh
# {title}
# Made by schedlab {schedlab.__version__}. Kernel then: {kernel_release(record.host) or "unknown"}
# Seed {experiment.seed}; baseline {" ".join(experiment.baseline.split())}.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
out=${{1:-$here-again}}
"""
    if experiment.kind == "import":
        return head + (
            "# These runs were imported: they cannot be measured again, only analysed again.\n"
            'exec schedlab report "$here" --html "$out.html"\n'
        )
    return head + 'exec schedlab reproduce "$here" --out "$out"\n'
