"""Cells of CPU experiments: a session of all workloads, or one crew whose quantum is flipped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from schedlab.design.plan import arms
from schedlab.errors import HostError, SpecError
from schedlab.kinds import WorkloadKind
from schedlab.kinds.calculation import Calculation
from schedlab.nouns import Experiment
from schedlab.run.admitted import Admitted
from schedlab.run.command.phases import closed_after
from schedlab.run.cpu.cpu_calculations import policy_in
from schedlab.run.cpu.cpu_flip import flips
from schedlab.run.cpu.cpu_policies import PolicySession
from schedlab.run.cpu.cpu_policy import check_here
from schedlab.run.session import Session

if TYPE_CHECKING:
    from schedlab.host.safety.control import Control


def check_candidates(experiment: Experiment, kinds: Mapping[tuple[str, str], WorkloadKind]) -> None:
    """SpecError or HostError for a candidate that cannot be measured on a workload.

    `kinds` are the workloads by label under each candidate.
    """
    quanta = sum(isinstance(kind, Calculation) for kind in kinds.values())
    if 0 < quanta < len(kinds):
        raise SpecError(
            "a calculation cannot be measured together with other workloads",
            "write it into an experiment file of its own",
        )
    candidates = {arm.label: arm for arm in arms(experiment)}
    for (_, label), kind in kinds.items():
        check_here(policy_in(kind, candidates[label]), label)


@contextlib.contextmanager
def open_session(
    admitted: Admitted, control: Control | None, report: Callable[[str], None]
) -> Iterator[Session]:
    """A session of fresh tasks for every cell, or of one crew whose quantum is flipped."""
    if control is None:
        raise HostError("CPU policies are measured under host control only")
    if any(isinstance(kind, Calculation) and kind.flip for kind in admitted.kinds.values()):
        with flips(admitted, control) as session:
            yield session
        return
    policies = PolicySession(admitted, control, report)
    with closed_after(policies.close, report):
        policies.open()
        yield policies
