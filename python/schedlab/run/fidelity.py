"""Whether the replay of a recorded load is like it: once, unmeasured, before the first run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schedlab.errors import GateError
from schedlab.host import knobs
from schedlab.kinds.trace_replay import TraceReplay
from schedlab.spec import Cell

if TYPE_CHECKING:
    from schedlab.run.backends.io import IoSession


def rehearse(session: IoSession, report: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """The `fidelity` of each replay under the scheduler of its recording: `scheduler` and the
    `rows` of `TraceReplay.fidelity`; without rows where that scheduler is not offered here.
    """
    found = {}
    experiment = session.admitted.experiment
    for workload in experiment.workloads:
        candidate = experiment.candidates[0]
        kind = session.admitted.kind(workload, candidate)
        if not isinstance(kind, TraceReplay):
            continue
        seen = kind.summary()
        name = seen["scheduler"]
        facts: dict[str, Any] = {"device": seen["device"], "scheduler": name, "rows": []}
        found[workload.label] = facts
        if not name or not all(name in knobs.offered(queue) for queue in session.queues):
            under = name or "an unknown scheduler"
            report(f"{workload.label}: recorded under {under}, which cannot be set here")
            continue
        cell = Cell(-1, 0, workload.label, candidate.label, experiment.seed)
        try:
            recorded = replace(candidate, settings={"scheduler": name})
            outcome = session.measure(cell, workload, recorded)
        except GateError as error:
            report(f"{workload.label}: rehearsal under {name}: {error}")
            continue
        finally:
            session.described.discard(workload.label)  # it is no run of the result
        facts["rows"] = kind.fidelity(outcome)
        for row in facts["rows"]:
            change = row["replayed"] / row["recorded"] - 1
            mark = "" if row["is_like"] else "  (differs)"
            report(
                f"{workload.label}: {row['metric']} under {name}: recorded "
                f"{row['recorded']:.4g}, replayed {row['replayed']:.4g} ({change:+.0%}){mark}"
            )
    return found
