"""The user's own figure of a live load: read in every period from a command, a file or a page."""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from schedlab.errors import HostError, SpecError
from schedlab.kinds.command import Command
from schedlab.nouns import GateFinding
from schedlab.nouns.latency import QUANTILES
from schedlab.nouns.output_metrics import PAGE, RATE, TAKES, converted, parse_output_metric
from schedlab.nouns.reading import read_bytes
from schedlab.run.command import launch
from schedlab.run.command.confinement import Wall
from schedlab.run.command.metrics_from_output import Reader
from schedlab.run.live import prometheus

COMMAND_TIMEOUT_S = 30.0
PAGE_TIMEOUT_S = 5.0
STDERR_LINES = 4
#: A page is a list of figures; more of it is not read.
PAGE_BYTES_MAX, FILE_BYTES_MAX = 16 << 20, 256 << 20

Read = tuple[dict[str, float], list[GateFinding]]


class OwnFigure:
    """Reads a metric at the end of a period; a counter (`!rate`) and a histogram (`!p99`) at its
    start, too. A command is confined as any other that is started.
    """

    def __init__(
        self,
        specification: str,
        command: Sequence[str],
        confine: Literal["devices", "nothing"] = "devices",
    ) -> None:
        metric = parse_output_metric(specification, of_live_load=True)
        self._is_rate = metric.take == RATE
        self._share = QUANTILES.get(metric.take)
        self._metric = metric
        read = metric if metric.take in TAKES else replace(metric, take="last")
        self._reader = Reader([read], zero_is_a_value=self._is_rate)
        self._command = Command(argv=tuple(command), confine=confine) if command else None
        self._wall = Wall() if command else None
        self._first: Read = ({}, [])
        self._buckets: prometheus.Buckets = {}
        self._first_at_s = 0.0

    def check(self) -> None:
        """SpecError where the figure cannot be read now, with what its command said."""
        found, findings = self._histogram() if self._share else self._read()
        if self._share and not findings and not found:
            findings = [GateFinding("no-value", self._no_histogram())]
        if findings:
            raise SpecError(
                f"--metric cannot be read: {findings[0].detail}",
                "try it by hand as this user; as another one: -- runuser -u NAME -- COMMAND; one "
                "that looks at other processes or devices needs --unconfined",
            )

    @property
    def confinement(self) -> Mapping[str, object]:
        """The walls around the command, as a run's record has them; nothing without one."""
        if self._command is None or self._wall is None:
            return {}
        return {"confinement": self._wall.facts(self._command)}

    def begin(self) -> None:
        """The measured part of a period begins."""
        if self._share:
            self._buckets = self._histogram()[0]
        if self._is_rate:
            self._first, self._first_at_s = self._read(), time.monotonic()

    def end(self) -> Read:
        """(value by name, failed gates) of the period; a missing figure discards no other."""
        values, findings = self._period()
        return values, [replace(finding, fatal=False) for finding in findings]

    def _period(self) -> Read:
        if self._share:
            return self._quantile(self._share)
        values, findings = self._read()
        if not self._is_rate or findings:
            return values, findings
        earlier, findings = self._first
        if findings:
            return {}, findings
        name, passed_s = self._metric.name, time.monotonic() - self._first_at_s
        growth = values[name] - earlier[name]
        if growth < 0:
            why = f"{name}: its counter went back from {earlier[name]:g} to {values[name]:g}"
            return {}, [GateFinding("no-value", why)]
        if not growth and not self._metric.higher_is_better:
            growth = 1.0  # less than one: 0 has no logarithm, but is good here
        return {name: growth / passed_s}, []

    def _quantile(self, share: float) -> Read:
        name, (last, findings) = self._metric.name, self._histogram()
        if findings:
            return {}, findings
        value_s = prometheus.quantile(self._buckets, last, share)
        value = converted(value_s, "s", self._metric.unit) if value_s else None
        if value is None:
            why = f"{name}: nothing was counted in this period" if last else self._no_histogram()
            return {}, [GateFinding("no-value", why)]
        return {name: value}, []

    def _no_histogram(self) -> str:
        return f"{self._metric.name}: there is no histogram {self._metric.pattern}"

    def _histogram(self) -> tuple[prometheus.Buckets, list[GateFinding]]:
        outputs, findings = self._outputs()
        page = _content(self._metric.path) if self._metric.path else outputs[0]
        if page is None:
            why = f"{self._metric.name}: {self._metric.path} cannot be read"
            findings = [*findings, GateFinding("no-value", why)]
        return prometheus.buckets(page or b"", self._metric.pattern), findings

    def _read(self) -> Read:
        (stdout, stderr), findings = self._outputs()
        if findings:
            return {}, findings
        return self._reader.read(stdout, stderr, _content)

    def _outputs(self) -> tuple[tuple[bytes, bytes], list[GateFinding]]:
        """The standard output and error of the command; nothing without one."""
        if self._command is None or self._wall is None:
            return (b"", b""), []
        here, program = Path.cwd(), self._command.argv[0]
        group = launch.WorkGroup(None, "metric", self._wall)
        order = launch.Launch(
            self._command.argv, here, dict(os.environ), timeout_s=COMMAND_TIMEOUT_S,
            confinement=self._wall.order(self._command, here),
        )  # fmt: skip
        try:
            ended = launch.run(order, group)
            group.end()
        except HostError as error:
            return (b"", b""), [GateFinding("no-value", f"{program}: {error}")]
        if why := _failure(ended):
            return (b"", b""), [GateFinding("no-value", f"{program} {why}")]
        return (ended.stdout, ended.stderr), []


def _failure(ended: launch.Ended) -> str:
    if ended.timed_out or ended.output_exceeded:
        return f"did not end within {COMMAND_TIMEOUT_S:g} s, or printed too much"
    status = ended.failure()
    if not status:
        return ""
    said = " / ".join(ended.stderr.decode(errors="replace").split("\n")[-STDERR_LINES:]).strip(" /")
    return f"{status}: {said}" if said else f"{status}, and nothing on standard error"


def _content(place: str) -> bytes | None:
    """The text of a file or a page of this machine; None where it cannot be read."""
    try:
        if not place.startswith(f"{PAGE}:"):
            return read_bytes(Path(place), "", FILE_BYTES_MAX)
        # Never by a proxy: the page is of this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(place, timeout=PAGE_TIMEOUT_S) as page:
            return bytes(page.read(PAGE_BYTES_MAX))
    except (OSError, SpecError):
        return None
