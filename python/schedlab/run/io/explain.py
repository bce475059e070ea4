"""The explanatory run: one more run per candidate with a capture of the block layer, never scored.

It shows where the requests of each actor waited: for the driver's tag, in the scheduler, in the
device. The capture costs time, so its run is another run than those that were judged, and it is
stored apart from them, in `explanations.json`, `raw/capture-N.json` and, every request of it,
`raw/requests-N.trace` of the result folder.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from schedlab.design.plan import cell_seed
from schedlab.errors import GateError, HostError
from schedlab.host.settings import knobs
from schedlab.kinds.engine import GroupIds, watching_jobs
from schedlab.nouns import (
    AA_SUFFIX,
    Candidate,
    Cell,
    Workload,
)
from schedlab.nouns.answer import Answer
from schedlab.nouns.capture import BlockSeen, explanations, is_alike
from schedlab.nouns.load_result import GroupResult
from schedlab.run.admitted import Admitted
from schedlab.run.session import Session
from schedlab.store.folder import Folder

if TYPE_CHECKING:
    from schedlab._core import BlockCapture, RecordCapture

CLASSES_MAX = 15
SECONDS_MAX = 120
# A difference (a log) that is worth an explanation, proven or not.
LARGE = math.log(1.3)
WORKLOADS_MAX = 3
# How often a run is made that is unlike the scored ones.
TRIES = 3
# So many requests of a run are recorded, about 10 MB.
RECORDS_MAX = 400_000


class JobCapture:
    """A capture of one device during one job; it starts before the processes of the job do.

    Its programs take a while to load. Were that between the preparation of the processes and
    their load, bfq would take them for others: the pause counts.

    `problem` is the reason where there is none; `result` is as in crates/trace/src/blocks.rs, and
    `engine` are the groups of the job, which started `lead_s`
    after the time from which the capture counts.

    Every request is in the file `recording`, where one is named and the kernel allows it; the job
    began at `zero_ns` of its clock, and `tasks` are the numbers of the processes by group.
    """

    def __init__(self, device: str, recording: Path | None = None) -> None:
        self.device = device
        self.recording = recording
        self.zero_ns = 0
        self.tasks: dict[str, list[int]] = {}
        self._recorder: RecordCapture | None = None
        self.problem = ""
        self.result: BlockSeen | None = None
        self.engine: Sequence[GroupResult] = ()
        self.lead_s = self._started_s = 0.0
        self._running: BlockCapture | None = None

    def prepare(self, names: Sequence[str]) -> None:
        """Start with a class for each group; only the first job counts."""
        from schedlab import _core

        if self._running is not None or self.problem:
            return
        classes = [{"name": name} for name in names[:CLASSES_MAX]]
        options = {"device": self.device, "classes": classes, "seconds_max": SECONDS_MAX}
        self._started_s = time.monotonic()
        try:
            self._running = _core.BlockCapture(json.dumps(options))
        except (OSError, RuntimeError, ValueError, HostError) as error:
            self.problem = str(error)
        if self._running is not None and self.recording is not None:
            self.recording.unlink(missing_ok=True)
            wanted = {"device": self.device, "path": str(self.recording),
                      "facts": {"queue": knobs.snapshot(knobs.queue_of(Path(self.device).name))},
                      "records_max": RECORDS_MAX}  # fmt: skip
            with contextlib.suppress(OSError, RuntimeError, ValueError, HostError):
                self._recorder = _core.RecordCapture(json.dumps(wanted))

    def begin(self, workers: Sequence[GroupIds]) -> None:
        """From now on the requests of these processes are those of their groups."""
        if self._running is None or self.lead_s:
            return
        try:
            for number, group in enumerate(workers[:CLASSES_MAX], 1):
                for process in group["ids"]:
                    self._running.add(number, process)
        except (OSError, RuntimeError, ValueError) as error:
            self.problem = str(error)
        self.lead_s = time.monotonic() - self._started_s
        self.zero_ns = time.monotonic_ns()
        self.tasks = {group["name"]: group["ids"] for group in workers}

    def see(self, groups: Sequence[GroupResult]) -> None:
        """Stop when the first job has ended, and keep its own figures."""
        if self._running is not None and self.result is None:
            self.engine = groups
            self.end()

    def end(self) -> None:
        """Stop and keep what was captured."""
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            with contextlib.suppress(OSError, RuntimeError):
                recorder.finish()
        if self.result is not None:
            return
        if self._running is None:
            self.problem = self.problem or "the workload started no process that can be traced"
            return
        try:
            self.result = msgspec.json.decode(self._running.finish(), type=BlockSeen)
        except (OSError, RuntimeError, ValueError) as error:
            self.problem = str(error)


@contextlib.contextmanager
def capturing(device: str, recording: Path | None = None) -> Iterator[JobCapture]:
    """Capture the next job of the engine in this thread; every request into `recording`."""
    capture = JobCapture(device, recording)
    with watching_jobs(capture):
        try:
            yield capture
        finally:
            capture.end()


def worth_explaining(answer: Answer) -> tuple[str, ...]:
    """The workloads with a proven or large difference, the largest first."""
    sizes: dict[str, float] = {}
    for row in answer.rows:
        if row.role in ("mix", "secondary") or row.nothing_to_order or row.control:
            continue
        cells = answer.cells[row.name].values()
        largest = max((cell.loss for cell in cells), default=0.0)
        if largest >= LARGE or any(cell.low > 0 for cell in cells):
            sizes[row.workload] = largest
    return tuple(sorted(sizes, key=lambda label: -sizes[label])[:WORKLOADS_MAX])


def _scored_medians(folder: Folder, workloads: Sequence[Workload]) -> dict[tuple[str, str], float]:
    """Median of the primary metric, by workload and candidate."""
    primary = {work.label: work.metric for work in workloads}
    values: dict[tuple[str, str], list[float]] = {}
    for run in folder.runs():
        metric = primary.get(run.workload, "")
        if run.status == "ok" and metric in run.metrics:
            values.setdefault((run.workload, run.candidate), []).append(run.metrics[metric])
    return {key: statistics.median(each) for key, each in values.items()}


def _extra_run(
    session: Session,
    cell: Cell,
    work: Workload,
    candidate: Candidate,
    device: str,
    scored: float,
    recording: Path,
) -> JobCapture | None:
    """The capture of a run that was like the scored ones, or of the last; None if all failed. The
    requests of that run are in `recording`.
    """
    latest = None
    under_way = recording.with_suffix(".part")
    try:
        for _ in range(TRIES):
            with contextlib.suppress(GateError):
                with capturing(device, under_way) as capture:
                    outcome = session.measure(cell, work, candidate)
                latest = capture
                recording.unlink(missing_ok=True)
                with contextlib.suppress(FileNotFoundError):  # the kernel allowed none
                    under_way.rename(recording)
                if is_alike(outcome.metrics.get(work.metric, 0.0), scored):
                    break
    finally:
        under_way.unlink(missing_ok=True)
    return latest


def explain(
    admitted: Admitted, folder: Folder, session: Session, workloads: Iterable[str]
) -> str | None:
    """Run every candidate once more on these workloads with a capture, and store what it saw.

    Why nothing can be captured here, in words; None when it was. A run that fails a gate counts:
    it is not scored; one that is far from the scored runs of its candidate is repeated. Errors of
    the host end it as they end a measurement.
    """
    target = getattr(session, "target", None)
    device = getattr(target, "device", None)
    if not device:
        return "the files are not on a single block device"
    path = str(knobs.device_file(device))
    experiment = admitted.experiment
    chosen = [work for work in experiment.workloads if work.label in set(workloads)]
    usual = _scored_medians(folder, chosen)
    # The last cell of a workload has the window and the ramp that a pilot led to.
    planned = {cell.workload: cell for cell in folder.plan.cells}
    rows: list[dict[str, object]] = []
    for work in chosen:
        seed = cell_seed(experiment.seed, 0, work.label)
        for position, candidate in enumerate(experiment.candidates):
            if candidate.label.endswith(AA_SUFFIX):
                continue
            cell = replace(
                planned[work.label],
                block=0,
                position=position,
                candidate=candidate.label,
                seed=seed,
            )
            scored = usual.get((work.label, candidate.label), 0.0)
            recording = folder.recording_path(len(rows))
            capture = _extra_run(session, cell, work, candidate, path, scored, recording)
            if capture is None:
                continue
            if capture.result is None:
                return capture.problem
            name = folder.write_capture(len(rows), capture.result)
            explained = explanations(capture.result, capture.engine, capture.lead_s)
            groups = [vars(each) for each in explained]
            rows.append(
                {"workload": work.label, "candidate": candidate.label, "capture": name,
                 "groups": groups, "requests": recording.name, "zero_ns": capture.zero_ns,
                 "tasks": capture.tasks}
            )  # fmt: skip
            folder.write_explanations(rows)
    return None
