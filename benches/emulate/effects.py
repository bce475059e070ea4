"""Effects that an emulated disk must show, each as a verdict of schedlab within a stated range.

Run from the repository as root; one repetition of one effect a call, some minutes each:

    PYTHONPATH=python python benches/emulate/effects.py elevator|idling|extraction-1|extraction-32

* elevator: the lab `ncq-depth`. An elevator gains where it holds the requests, and nothing where
  the disk has them all;
* idling: two sequential readers under bfq. Waiting for the next request of a reader (slice_idle)
  keeps the head where it is; low_latency decides whether bfq waits at all;
* extraction: an archive on ext4, the disk serving in order and with 32 commands. Every scheduler
  gets the files right, and none is far from the others: tar alone has few requests in flight.

Prints a line per expectation; the status is 1 when one does not hold.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import schedlab
from schedlab.app.measure.files import experiment_of
from schedlab.app.measure.labs import LabChanges, lab_experiment, lab_named
from schedlab.nouns import Experiment

SIZE_BYTES, BLOCKS = 512 << 20, 3
# Below 300 s nothing is waited for between the runs.
BUDGET_S = 290.0
ANY = ("better", "worse", "undecided")


def elevator() -> Experiment:
    # Without a budget: it would rather leave a device out than measure fewer than six blocks.
    return lab_experiment(lab_named("ncq-depth"), "small", LabChanges(blocks=BLOCKS))


def idling() -> Experiment:
    settings = {
        f"low_latency {low}, slice_idle {idle}": {
            "scheduler": "bfq", "low_latency": low, "slice_idle": idle,
        }
        for low in (0, 1)
        for idle in (0, 8)
    }  # fmt: skip
    readers = {"readers": 2, "record_bytes": "256k", "depth": 1, "seconds": "2s"}
    return _experiment("Idling", settings, "readers", "readers-together", readers, 0)


def extraction(commands: int) -> Experiment:
    settings = {s: {"scheduler": s} for s in ("none", "mq-deadline", "kyber", "bfq")}
    archive = {"size_bytes": "12M"}
    return _experiment("Extraction", settings, "archive", "archive-extraction", archive, commands)


def _experiment(
    title: str, settings: dict[str, Any], label: str, kind: str, parameters: dict[str, Any],
    commands: int,
) -> Experiment:  # fmt: skip
    metric = "elapsed_s" if kind == "archive-extraction" else "throughput_bytes_per_s"
    target = {"kind": "emulated", "model": "disk7200", "size_bytes": SIZE_BYTES}
    return experiment_of(
        {
            "title": title,
            "target": {**target, **({"queue_depth": commands} if commands else {})},
            "candidates": [{"label": k, "settings": v} for k, v in settings.items()],
            "workloads": [
                {"label": label, "kind": kind, "metric": metric, "parameters": parameters}
            ],
            "stopping": {"blocks": BLOCKS, "budget_s": BUDGET_S},
        },
        title,
    )


def ratios(experiment: Experiment) -> dict[tuple[str, str], tuple[float, str]]:
    """(workload, candidate) -> ratio to the baseline; what is proven beside the best."""
    with tempfile.TemporaryDirectory() as directory:
        answer = schedlab.run(experiment, Path(directory) / "result").answer
    found = {}
    for row in answer.rows:
        base = answer.cells[row.name][answer.base]
        for label, cell in answer.cells[row.name].items():
            if row.role == "primary" and cell.value and base.value:
                proven = "worse" if cell.low > 0 else "better" if base.low > 0 else "undecided"
                found[row.workload, label] = (cell.value / base.value, proven)
    return found


def expect(
    results: dict[tuple[str, str], tuple[float, str]], workload: str, candidate: str,
    low: float, high: float, verdicts: tuple[str, ...],
) -> bool:  # fmt: skip
    """Print one expectation; whether it holds."""
    if (workload, candidate) not in results:
        print(f"{workload}: {candidate}: not measured")
        return False
    ratio, verdict = results[workload, candidate]
    holds = low <= ratio <= high and verdict in verdicts
    says = "holds" if holds else f"DOES NOT HOLD ({low:g} to {high:g}, {' or '.join(verdicts)})"
    print(f"{workload}: {candidate}: {ratio:.3f} of the baseline, {verdict}: {says}", flush=True)
    return holds


def main() -> int:
    which, same = sys.argv[1], ("undecided",)
    if which == "elevator":
        results = ratios(elevator())
        holds = [
            expect(results, work, scheduler, low, high, verdicts)
            for work, low, high, verdicts in (
                ("served in order", 1.6, 2.3, ("better",)),
                ("4 commands in the disk", 1.3, 1.75, ("better",)),
                ("32 commands in the disk", 0.96, 1.04, same),
            )
            for scheduler in ("mq-deadline", "bfq")
        ]
        holds += [
            expect(results, work, "kyber", 0.96, 1.04, same)
            for work in ("served in order", "4 commands in the disk", "32 commands in the disk")
        ]
    elif which == "idling":
        results = ratios(idling())
        base = "readers"
        holds = [
            expect(results, base, "low_latency 0, slice_idle 8", 1.8, 9.0, ("better",)),
            expect(results, base, "low_latency 1, slice_idle 0", 0.5, 9.0, ANY),
            expect(results, base, "low_latency 1, slice_idle 8", 0.5, 9.0, ANY),
        ]
    else:
        results = ratios(extraction(int(which.removeprefix("extraction-"))))
        holds = [
            expect(results, "archive", scheduler, 0.5, 2.0, ANY)
            for scheduler in ("mq-deadline", "kyber", "bfq")
        ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
