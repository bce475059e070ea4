"""One result folder, opened: what was measured, what it says, and the files made from it."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.spec import AA_SUFFIX, Record, Verdict, to_json
from schedlab.store.files import write_atomic
from schedlab.store.folder import Folder
from schedlab.store.table import dropped_blocks, samples

if TYPE_CHECKING:
    import pandas as pd

    from schedlab.analyse import Decision


class Result:
    """A result folder with its verdict; nothing is computed before it is asked for.

    `schedlab.load(DIR)` gives one, for notebooks.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """The result in `path`; SpecError when there is none."""
        return cls(Folder.open(Path(path)))

    @cached_property
    def record(self) -> Record:
        """Everything that was stored."""
        return self.folder.record()

    @cached_property
    def verdict(self) -> Verdict:
        """What the measurements say, by the procedure of docs/concepts/statistics.md."""
        from schedlab.analyse import analyse

        primary, secondary = samples(self.record)
        return analyse(
            primary,
            secondary=secondary,
            blocked=self.record.experiment.blocked,
            **self._question(),
        )

    def decision(self) -> Decision:
        """Whether to stop after the blocks that are there, by the rule that was frozen."""
        from schedlab.analyse import next_decision

        return next_decision(samples(self.record)[0], **self._question())

    def _question(self) -> dict[str, Any]:
        """What verdict and decision are both asked."""
        experiment = self.record.experiment
        twin = experiment.baseline + AA_SUFFIX
        seconds = [run.elapsed_s for run in self.record.runs]
        blocks = len({run.block for run in self.record.runs})
        return {
            "baseline": experiment.baseline,
            "margin": experiment.margin,
            "aa": (experiment.baseline, twin) if experiment.aa_arm else None,
            "stopping": experiment.stopping,
            "seed": experiment.seed,
            "candidates": [candidate.label for candidate in experiment.candidates],
            "seconds_per_block": sum(seconds) / blocks if blocks else 0.0,
        }

    def save_verdict(self) -> Path:
        """Write `verdict.json` into the folder."""
        path = self.folder.path / "verdict.json"
        write_atomic(path, json.dumps(to_json(self.verdict), indent=1) + "\n")
        return path

    def dropped_blocks(self) -> list[int]:
        """Blocks left out because a cell of theirs failed three times."""
        return dropped_blocks(self.record)

    def _repr_html_(self) -> str:
        """What a notebook shows: the report, in a frame so that its style stays inside."""
        from html import escape

        from schedlab import report

        page = escape(report.html(self.record, self.verdict))
        return f'<iframe srcdoc="{page}" style="width:100%;height:40rem;border:0"></iframe>'

    def to_pandas(self) -> pd.DataFrame:
        """One row per analysed run: block, position, workload, candidate, and every metric."""
        import pandas as pd

        rows = [
            {
                "block": run.block,
                "position": run.position,
                "workload": run.workload,
                "candidate": run.candidate,
                "status": run.status,
                **run.metrics,
            }
            for run in self.record.runs
        ]
        return pd.DataFrame(rows)
