"""The user's own figure of a live load: read in every period from a command, a file or a page."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from schedlab.run.metrics_from_output import Reader
from schedlab.spec import GateFinding
from schedlab.spec.output_metrics import PAGE, RATE, parse_output_metric

COMMAND_TIMEOUT_S = 30.0
PAGE_TIMEOUT_S = 5.0
#: A page is a list of figures; more of it is not read.
PAGE_BYTES_MAX = 16 << 20

Read = tuple[dict[str, float], list[GateFinding]]


class OwnFigure:
    """Reads a metric at the end of a period; a counter (`!rate`) at its start, too."""

    def __init__(self, specification: str, command: Sequence[str]) -> None:
        metric = parse_output_metric(specification, of_live_load=True)
        self._is_rate = metric.take == RATE
        self._metric = metric
        read = replace(metric, take="last") if self._is_rate else metric
        self._reader = Reader([read], zero_is_a_value=self._is_rate)
        self._command = tuple(command)
        self._first: Read = ({}, [])
        self._first_at_s = 0.0

    def begin(self) -> None:
        """The measured part of a period begins."""
        if self._is_rate:
            self._first, self._first_at_s = self._read(), time.monotonic()

    def end(self) -> Read:
        """(value by name, failed gates) of the period."""
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

    def _read(self) -> Read:
        stdout = stderr = b""
        if self._command:
            try:
                ended = subprocess.run(
                    self._command, check=False, capture_output=True, timeout=COMMAND_TIMEOUT_S
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return {}, [GateFinding("no-value", f"{self._command[0]}: {error}")]
            stdout, stderr = ended.stdout, ended.stderr
        return self._reader.read(stdout, stderr, _content)


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
