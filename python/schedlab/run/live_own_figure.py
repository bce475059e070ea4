"""The user's own figure of a live load: read in every period from a command, a file or a page."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.run import prometheus
from schedlab.run.metrics_from_output import Reader
from schedlab.spec import GateFinding
from schedlab.spec.latency import QUANTILES
from schedlab.spec.output_metrics import PAGE, RATE, TAKES, converted, parse_output_metric

COMMAND_TIMEOUT_S = 30.0
PAGE_TIMEOUT_S = 5.0
STDERR_LINES = 4
#: A page is a list of figures; more of it is not read.
PAGE_BYTES_MAX = 16 << 20

Read = tuple[dict[str, float], list[GateFinding]]


class OwnFigure:
    """Reads a metric at the end of a period; a counter (`!rate`) and a histogram (`!p99`) at its
    start, too.
    """

    def __init__(self, specification: str, command: Sequence[str]) -> None:
        metric = parse_output_metric(specification, of_live_load=True)
        self._is_rate = metric.take == RATE
        self._share = QUANTILES.get(metric.take)
        self._metric = metric
        read = metric if metric.take in TAKES else replace(metric, take="last")
        self._reader = Reader([read], zero_is_a_value=self._is_rate)
        self._command = tuple(command)
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
                "try it by hand as this user; as another one: -- runuser -u NAME -- COMMAND",
            )

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
        stdout = stderr = b""
        if self._command:
            try:
                ended = subprocess.run(
                    self._command, check=False, capture_output=True, timeout=COMMAND_TIMEOUT_S
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return (b"", b""), [GateFinding("no-value", f"{self._command[0]}: {error}")]
            stdout, stderr = ended.stdout, ended.stderr
            if ended.returncode:
                return (b"", b""), [GateFinding("no-value", _failure(self._command[0], ended))]
        return (stdout, stderr), []


def _failure(program: str, ended: subprocess.CompletedProcess[bytes]) -> str:
    status = f"{program} ended with exit status {ended.returncode}"
    if ended.returncode < 0:
        status = f"{program} was killed by signal {-ended.returncode}"
    said = " / ".join(ended.stderr.decode(errors="replace").split("\n")[-STDERR_LINES:]).strip(" /")
    return f"{status}: {said}" if said else f"{status}, and nothing on standard error"


def _content(place: str) -> bytes | None:
    """The text of a file or a page of this machine; None where it cannot be read."""
    try:
        if not place.startswith(f"{PAGE}:"):
            return Path(place).read_bytes()
        # Never by a proxy: the page is of this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(place, timeout=PAGE_TIMEOUT_S) as page:
            return bytes(page.read(PAGE_BYTES_MAX))
    except OSError:
        return None
