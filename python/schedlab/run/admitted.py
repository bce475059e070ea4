"""An admitted experiment: typed workloads, and the permission of the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedlab.host.safety.consent import Consent
from schedlab.kinds import WorkloadKind
from schedlab.nouns import Candidate, Experiment, Workload

# Beside the measured window: set the scheduler, drop caches, read back.
OVERHEAD_S = 0.1


@dataclass(frozen=True)
class Permission:
    """The user's consent.

    `consents` hold the devices whose data may be destroyed. `trust` allows what a file from
    elsewhere asks for: its programs, and work on a device or on switched request queues. `in_use`
    allows load on a device that is mounted or holds data. `switch` was named beside the file.
    """

    consents: tuple[Consent, ...] = ()
    trust: bool = True
    in_use: bool = False
    switch: tuple[str, ...] = ()


@dataclass(frozen=True)
class Admitted:
    """An experiment that may be measured: the only thing that the executor takes.

    Made by `app.admit.admit` alone.

    `place` is the device or directory that the target's path led to: work goes there, also where a
    link leads elsewhere by then. `queues` are the kernel names of the request queues that are
    switched (a scratch device's is not known yet). `writes` and `programs` describe what is written
    and executed. `changed` are the files that were others when the experiment was first measured.
    """

    experiment: Experiment
    permission: Permission
    kinds: Mapping[tuple[str, str], WorkloadKind]
    queues: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    place: str = ""

    def kind(self, workload: Workload, candidate: Candidate) -> WorkloadKind:
        """The typed parameters of a workload under a candidate."""
        return self.kinds[workload.label, candidate.label]

    def estimate_s(self, workload: str) -> float:
        """Estimated time of one run of a workload."""
        times = [kind.estimate_s() for (label, _), kind in self.kinds.items() if label == workload]
        return sum(times) / len(times) + OVERHEAD_S

    def knows_its_time(self) -> bool:
        """Whether the estimates are times of runs; if not, they are the least that runs take."""
        return all(kind.knows_its_time() for kind in self.kinds.values())
