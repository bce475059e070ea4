"""Whether the replay of a recorded load is like it: once, unmeasured, before the first run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.errors import GateError, SpecError
from schedlab.host.settings import knobs
from schedlab.kinds.trace_replay import TraceReplay
from schedlab.nouns import Candidate, Cell, Workload
from schedlab.nouns.results import ReplayFidelity

if TYPE_CHECKING:
    from schedlab.run.io.io import IoSession


def rehearse(session: IoSession, report: Callable[[str], None]) -> dict[str, ReplayFidelity]:
    """The `fidelity` of each replay under the scheduler of its recording: `scheduler` and the
    `rows` of `TraceReplay.fidelity`; without rows where that scheduler is not offered here.
    """
    found: dict[str, ReplayFidelity] = {}
    experiment = session.admitted.experiment
    for workload in experiment.workloads:
        candidate = experiment.candidates[0]
        kind = session.admitted.kind(workload, candidate)
        if not isinstance(kind, TraceReplay):
            continue
        seen = kind.summary()
        name = seen["scheduler"]
        facts: ReplayFidelity = {"device": seen["device"], "scheduler": name, "rows": []}
        found[workload.label] = facts
        if not name or not all(name in knobs.offered(queue) for queue in session.queues):
            under = name or "an unknown scheduler"
            report(f"{workload.label}: recorded under {under}, which cannot be set here")
            continue
        seconds = kind.rehearsal_s() - kind.ramp_seconds
        cell = Cell(-1, 0, workload.label, candidate.label, experiment.seed, seconds)
        try:
            recorded = replace(candidate, settings={"scheduler": name})
            replayed = _figures(session, cell, workload, recorded)
        except GateError as error:
            report(f"{workload.label}: rehearsal under {name}: {error}")
            continue
        finally:
            session.described.discard(workload.label)  # it is no run of the result
        facts["rows"] = kind.fidelity(replayed)
        for row in facts["rows"]:
            change = row["replayed"] / row["recorded"] - 1
            mark = "" if row["is_like"] else "  (differs)"
            report(
                f"{workload.label}: {row['metric']} under {name}: recorded "
                f"{row['recorded']:.4g}, replayed {row['replayed']:.4g} ({change:+.0%}){mark}"
            )
    return found


def _figures(
    session: IoSession, cell: Cell, workload: Workload, candidate: Candidate
) -> Mapping[str, float]:
    """The figures of a run: those of the block layer, as they were recorded; where that cannot be
    recorded here, or others use the device, those of the processes.
    """
    from schedlab import _core

    device = session.target.device if session.target.counts_alone else None
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "replay.trace"
        options = {"device": f"/dev/{device}", "path": str(path), "facts": {}}
        try:
            recording = _core.RecordCapture(json.dumps(options)) if device else None
        except OSError:
            recording = None
        try:
            outcome = session.measure(cell, workload, candidate)
        finally:
            recorded = json.loads(recording.finish()) if recording else None
        try:
            if not recorded or recorded["accounting"]["gap_sectors"]:
                return outcome.metrics
            return TraceReplay(trace=str(path)).figures()
        except SpecError:  # nothing was seen, or too much was lost
            return outcome.metrics
