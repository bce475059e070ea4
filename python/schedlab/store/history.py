"""The sessions of all stored results of this machine that measured what one measured."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from schedlab.errors import SchedlabError
from schedlab.nouns import Experiment, Record, StoredSession, Workload, to_json
from schedlab.store.folder import EXPERIMENT, Folder

#: Of the results beside this one so many are read, the latest first.
RESULTS_MOST = 50
#: Facts that two results of one machine share.
_MACHINE = (("kernel", "release"), ("cpu", "model"), ("cpu", "usable"),
            ("virtualisation", "virtual_machine"))  # fmt: skip

History = Mapping[str, tuple[StoredSession, ...]]


def history(folder: Folder, record: Record) -> History:
    """For each workload the sessions of this result, and of those beside it that measured the same
    there: on this machine and kernel, at the same place, with the same parameters and metric.

    Of a simulation or an import, nothing. A result that cannot be read is no part of it.
    """
    if record.experiment.kind not in ("io", "cpu") or record.host.get("hosts"):
        return {}
    found = {work.label: [*_sessions(record, work, "")]
             for work in record.experiment.workloads}  # fmt: skip
    keys = {_key(record.experiment, work): work.label for work in record.experiment.workloads}
    beside = sorted(folder.path.resolve().parent.glob(f"*/{EXPERIMENT}"), reverse=True)
    others = [path.parent for path in beside if path.parent != folder.path.resolve()]
    for path in others[:RESULTS_MOST]:
        try:
            other = Folder.open(path)
            experiment, host = other.experiment, other.host
            known = [(work, keys[key]) for work in experiment.workloads
                     if (key := _key(experiment, work)) in keys]  # fmt: skip
            if not known or not _is_same_machine(host, record.host):
                continue
            of = Record(experiment, other.plan, other.runs(), host)
        except SchedlabError:
            continue
        for work, label in known:
            found[label] += _sessions(of, work, path.name)
    return {label: tuple(sessions) for label, sessions in found.items()}


def _key(experiment: Experiment, work: Workload) -> str:
    target = experiment.target
    place = (target.kind, target.path, target.model, target.size_bytes)
    return json.dumps([place, work.kind, work.metric, to_json(work.parameters)], sort_keys=True)


def _is_same_machine(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return _facts_of_machine(one) == _facts_of_machine(other)


def _facts_of_machine(host: Mapping[str, Any]) -> list[Any]:
    """None for a fact that is missing, or in no table: another program may have written it."""
    parts = [(host.get(part), key) for part, key in _MACHINE]
    return [part.get(key) if isinstance(part, Mapping) else None for part, key in parts]


def _sessions(record: Record, work: Workload, name: str) -> Iterator[StoredSession]:
    """The sessions of a workload, with the mean log of each candidate; of bounds nothing."""
    cells: dict[str, dict[str, list[float]]] = {}
    for run in record.analysed_runs:
        value = run.metrics.get(work.metric, math.nan)
        if run.workload == work.label and run.session and value > 0 and not run.bounds:
            cells.setdefault(run.session, {}).setdefault(run.candidate, []).append(math.log(value))
    for session, logs in cells.items():
        means = {candidate: fmean(of) for candidate, of in logs.items()}
        yield StoredSession(session, name, means)
