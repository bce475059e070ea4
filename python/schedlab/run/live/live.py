"""Periods of a live load: its devices are switched under it, and only counted.

Nothing is started, no cache is dropped, and nobody waits for a quiet machine: the load is what is
measured. A period is one run of the plan. Its first part is the wash-out, in which the requests of
the last setting leave and schedulers learn; it is guarded, but not measured.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from schedlab.errors import (
    SIMULATED_QUEUE,
    GateError,
    HostError,
    SchedlabError,
    SpecError,
    as_root,
)
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs
from schedlab.host.settings.control_groups import io_group
from schedlab.kinds import Outcome
from schedlab.kinds.live_load import OPERATIONS, LiveLoad, group_name
from schedlab.nouns import Candidate, Cell, GateFinding, Workload
from schedlab.nouns.capture import BlockSeen
from schedlab.run.admitted import Admitted
from schedlab.run.candidate_settings import CandidateSettings
from schedlab.run.gates import snapshot
from schedlab.run.io import durability
from schedlab.run.io.durability import Watched
from schedlab.run.io.io import device_facts
from schedlab.run.live.guard_rails import Rails, parse_guard
from schedlab.run.live.live_figures import Look, look
from schedlab.run.live.live_own_figure import OwnFigure

if TYPE_CHECKING:
    from schedlab._core import BlockCapture

STEP_S = 1.0
#: A second ends a little early or late.
LOOK_LEAST_S = 0.9 * STEP_S
#: Guards that are not looked at for so long do not hold: the guardian puts the settings back.
WATCH_S = 10.0
#: A switch waits for the requests in flight, a stored run for its disk, a figure for its command.
BETWEEN_S = 120.0
#: What is kept for the moment in which a guard trips.
KEPT_S = 60
#: The clocks with and without the time of a suspended machine may differ by this much.
SUSPENDED_S = 0.5
BIN_MS = 100
#: After so many periods without a request the experiment ends.
IDLE_PERIODS_MOST = 2
#: Of longer periods the series has the beginning.
SERIES_S_MOST = 600.0


class GuardTripped(SchedlabError):
    """A guard ended the experiment; the settings from before it are back, and its runs are kept."""

    exit_code = 1

    @classmethod
    def under(cls, candidate: str, reason: str, last: Iterable[str] = ()) -> GuardTripped:
        """It, with the reason and the last seconds."""
        return cls(
            "\n".join((f"a guard ended it under {candidate}: {reason}", *last)),
            "the settings from before are back; a wider bound: --guard 'read p99 > 1s for 5s'",
        )


@dataclass(frozen=True)
class Second:
    """One interval of a period, for whoever watches."""

    candidate: str
    passed_s: float
    period_s: float
    in_wash_out: bool
    figures: Look
    guard_share: float | None

    def line(self) -> str:
        """It in one line of text."""
        parts = [f"{self.passed_s:5.0f} s {self.candidate:16s}"]
        for operation in ("read", "write"):
            flow = self.figures.flow(operation)
            if flow.requests:
                median = flow.quantile_ns(0.5, 0) or 0.0
                high = self.figures.latency_ns("p99", operation) or 0.0
                parts.append(
                    f"{flow.requests / self.figures.at_s:8,.0f} {operation}s/s "
                    f"p50 {median / 1e6:.3g} ms, p99 {high / 1e6:.3g} ms"
                )
        return "  ".join((*parts, f"{self.figures.in_flight} in flight"))


Watch = Callable[[Second], None]


class Captured:
    """Captures of several devices that count since they began."""

    def __init__(
        self, captures: Sequence[BlockCapture], control: Control, syncs: Watched | None = None
    ) -> None:
        self._captures, self._control, self._syncs = captures, control, syncs

    def look(self) -> Look:
        """The counters of this moment; its time is that of the series."""
        self._control.expect_within(WATCH_S)
        documents = [
            msgspec.json.decode(capture.snapshot(over_time=False), type=BlockSeen)
            for capture in self._captures
        ]
        durable = self._syncs.seen() if self._syncs else None
        return look(documents[0]["elapsed_ns"] / 1e9, documents, durable)

    def series(self) -> list[tuple[int, int, int, int]]:
        """Rows (t_ms, requests, bytes, summed latency in ns) in bins of 100 ms, of all devices."""
        rows: dict[int, list[int]] = {}
        for capture in self._captures:
            for series in msgspec.json.decode(capture.snapshot(), type=BlockSeen)["series"]:
                for t_ms, reads, writes, _other, size_bytes, *parts in series["rows"]:
                    row = rows.setdefault(t_ms, [0, 0, 0])
                    for place, value in enumerate((reads + writes, size_bytes, parts[-1])):
                        row[place] += value
        return [(t_ms, *row) for t_ms, row in sorted(rows.items())]  # type: ignore[misc]


class Devices:
    """The queues below the load, switched together and captured together."""

    def __init__(
        self,
        control: Control,
        queues: Sequence[str],
        candidates: Sequence[Candidate],
        groups: Sequence[str] = (),
    ) -> None:
        """`groups` are control groups whose requests are counted apart."""
        self.control = control
        self.queues = tuple(queues)
        self._settings = CandidateSettings(control, queues, candidates)
        self._classes = [
            {"name": group_name(group), "cgroup": str(io_group(group))} for group in groups
        ]

    def set(self, candidate: Candidate) -> tuple[dict[str, str], float]:
        """Give every queue the candidate's settings; (effective ones, seconds of the longest)."""
        return self._settings.apply(candidate)

    def set_back(self) -> None:
        """Give every queue at once what was found; the end of the control restores the rest."""
        with suppress(HostError):
            self._settings.as_found()

    @contextmanager
    def captured(self, seconds: float) -> Iterator[Captured]:
        """Counts requests from now on, for about so long, looked at every `WATCH_S` or sooner."""
        from schedlab import _core

        common = {
            "classes": self._classes,
            "find_classes": True,
            "seconds_max": min(seconds + 1, SERIES_S_MOST),
        }
        devices = [str(knobs.device_file(queue)) for queue in self.queues]
        self.control.expect_within(BETWEEN_S)
        try:
            captures = [_core.BlockCapture(json.dumps({"device": d, **common})) for d in devices]
        except (OSError, RuntimeError) as error:
            raise HostError(
                str(error), as_root(SIMULATED_QUEUE, "run it as root on a kernel with BTF")
            ) from error
        try:
            yield Captured(captures, self.control, self._syncs)
        finally:
            self.control.expect_within(BETWEEN_S)
            for capture in captures:
                capture.finish()

    @cached_property
    def _syncs(self) -> Watched | None:
        """Calls of fsync on these devices, for as long as this object lives; None where they
        cannot be captured."""
        return durability.watch(durability.places_of(self.queues))[0]


class LiveSession:
    """The devices of a live load, under a control that restores them."""

    def __init__(
        self, devices: Devices, kind: LiveLoad, watch: Watch, report: Callable[[str], None]
    ):
        self.devices = devices
        self.rails = Rails([parse_guard(text) for text in kind.guards])
        self.watch = watch
        self.report = report
        self._idle_periods = self._without_figure = 0
        self.last: deque[str] = deque(maxlen=KEPT_S)
        self.own = OwnFigure(kind.metric, kind.command, kind.confine) if kind.metric else None

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """One period: switch, wait until the wash-out is over, count."""
        kind = self.kind_of(workload, candidate)
        before = [snapshot(queue) for queue in self.devices.queues]
        suspended_s = _suspended_s()
        # Counted before the switch, so that no moment under the candidate is unguarded.
        with self.devices.captured(kind.estimate_s()) as captured:
            try:
                effective, switch_s = self.devices.set(candidate)
            except HostError as error:
                raise GateError("knob-changed", str(error)) from error
            switched = captured.look()
            latencies: list[Sequence[int]] = []
            figures, halves = self._period(kind, candidate.label, captured, switched, latencies)
            series = captured.series()
        metrics = figures.metrics(kind.counted_apart)
        findings = list(self.devices.control.check())
        if self.own:
            values, missing = self.own.end()
            metrics |= values
            findings += missing
            self._report_missing(missing)
        after = [snapshot(queue) for queue in self.devices.queues]
        if errors := sum(a.io_errors - b.io_errors for a, b in zip(after, before, strict=True)):
            findings.append(GateFinding("io-errors", f"the device reports {errors} errors"))
        if (slept_s := _suspended_s() - suspended_s) > SUSPENDED_S:
            findings.append(GateFinding("suspended", f"the machine slept for {slept_s:.0f} s"))
        if not figures.closes:
            findings.append(GateFinding("capture-gap", figures.gap_sentence()))
        if not figures.requests and not figures.in_flight:
            findings.append(GateFinding("no-load", "nothing used the device during the period"))
        self._expect_load(bool(figures.requests or figures.in_flight))
        return Outcome(
            metrics,
            properties={
                **device_facts(self.devices.queues[0]),
                **(self.own.confinement if self.own else {}),
                "effective": effective, "switch_s": switch_s, "halves": halves,
                "wash_out_s": kind.wash_out_s, "settled_s": kind.settled_s,
                "lost": figures.lost, "gap_sectors": figures.gap_sectors,
                "measured_from_s": switched.at_s + kind.wash_out_s,
            },
            gates=tuple(findings),
            histograms=_histograms(figures),
            series={"live load": series},
            latencies={"live load": latencies},
        )  # fmt: skip

    def _report_missing(self, missing: Sequence[GateFinding]) -> None:
        """Print the first time in a row that the user's figure could not be read."""
        self._without_figure = self._without_figure + 1 if missing else 0
        if self._without_figure == 1:
            self.report(f"this period has no value of --metric: {missing[0].detail}")

    def _expect_load(self, is_used: bool) -> None:
        """HostError where the load has stopped: a cell has another attempt when it is back."""
        self._idle_periods = 0 if is_used else self._idle_periods + 1
        if self._idle_periods >= IDLE_PERIODS_MOST:
            raise HostError(
                f"the load has stopped: nothing used {', '.join(self.devices.queues)} in "
                f"{self._idle_periods} periods; all finished runs are kept",
                "when it is back: schedlab live --resume DIR",
            )

    def kind_of(self, workload: Workload, candidate: Candidate) -> LiveLoad:
        """The typed parameters of the period."""
        from schedlab.kinds import typed

        kind = typed(workload, candidate)
        assert isinstance(kind, LiveLoad)
        return kind

    def _period(
        self,
        kind: LiveLoad,
        label: str,
        captured: Captured,
        switched: Look,
        latencies: list[Sequence[int]],
    ) -> tuple[Look, list[dict[str, float]]]:
        """(the measured part, metrics of its halves); `switched` is its beginning, and `latencies`
        get those of each second.
        """
        period_s = kind.wash_out_s + kind.seconds
        middle_s = kind.wash_out_s + kind.seconds / 2
        marks: dict[float, Look] = {}
        began, last = time.monotonic(), switched
        while True:
            passed_s = time.monotonic() - began
            borders = [s for s in (kind.wash_out_s, middle_s, period_s) if s not in marks]
            if not borders:
                break
            step_s = min(STEP_S - passed_s % STEP_S, max(borders[0] - passed_s, 0))
            time.sleep(step_s)
            passed_s = time.monotonic() - began
            counted = captured.look()
            if passed_s >= borders[0]:
                marks[borders[0]] = counted
                if self.own and len(marks) == 1:
                    self.devices.control.expect_within(BETWEEN_S)
                    self.own.begin()
            # A second, or the rest of a period: no part of it is unguarded.
            if counted.at_s - last.at_s >= (LOOK_LEAST_S if passed_s < period_s else BIN_MS / 1e3):
                in_wash_out = passed_s <= kind.wash_out_s
                step = counted - last
                at_ms = round(last.at_s * 10) * BIN_MS
                bins = sum((step.flow(each).bins for each in OPERATIONS), Counter())
                latencies += [(at_ms, *ends, count) for ends, count in sorted(bins.items())]
                self._look(Second(label, passed_s, period_s, in_wash_out, step, None))
                last = counted
        start, middle, end = (marks[s] for s in (kind.wash_out_s, middle_s, period_s))
        apart = kind.counted_apart
        halves = [(middle - start).metrics(apart), (end - middle).metrics(apart)]
        return end - start, halves

    def _look(self, second: Second) -> None:
        second = dataclasses.replace(second, guard_share=self.rails.distance(second.figures))
        self.last.append(second.line())
        self.watch(second)
        if reason := self.rails.see(second.figures, second.candidate):
            self.devices.set_back()
            raise GuardTripped.under(second.candidate, reason, self.last)


def _histograms(figures: Look) -> dict[str, list[tuple[int, int, int]]]:
    return {
        f"{operation}_latency_ns": [
            (low, high, count)
            for (low, high), count in sorted(figures.flow(operation).bins.items())
        ]
        for operation in ("read", "write")
        if figures.flow(operation).requests
    }


def _suspended_s() -> float:
    """How long this machine has been suspended since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


@contextmanager
def open_session(
    admitted: Admitted,
    control: Control | None,
    report: Callable[[str], None],
    watch: Watch = lambda second: None,
) -> Iterator[LiveSession]:
    """The devices of an admitted live experiment; `control` restores them at the end."""
    if control is None:
        raise HostError("a live load is measured under host control only")
    kind, *others = dict.fromkeys(admitted.kinds.values())
    if others or not isinstance(kind, LiveLoad):
        raise SpecError("a live load is the only workload of its experiment", "schedlab live")
    control.claim(*admitted.queues)
    devices = Devices(control, admitted.queues, admitted.experiment.candidates, kind.control_groups)
    yield LiveSession(devices, kind, watch, report)
