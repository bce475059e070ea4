"""The common part of runs of commands on disks and on CPUs: groups of their processes, their
time limits, and the outcome of a run however it ended."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.errors import HostError, SpecError
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.fio_job import FioJob
from schedlab.kinds.launching import Launching, Tokens
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import GateFinding, Workload
from schedlab.run.command import launch, phases
from schedlab.run.command.failures import Failures
from schedlab.run.command.launch import Ended, WorkGroup
from schedlab.run.command.metrics_from_output import Reader, written_file

if TYPE_CHECKING:
    from schedlab.host.safety.control import Control
    from schedlab.run.command.confinement import Wall

TIMEOUT_FACTOR, TIMEOUT_LEAST_S = 20.0, 60.0
# failed gate -> what to do about it in a rehearsal
HINTS = {
    "exit-status": "run it by hand, in the same directory and as the same user; or allow it: "
    "--ok-exit STATUS",
    "no-value": "correct --metric; this is what the command printed",
    "output": "print less, or raise --output-limit",
}


class CommandRuns:
    """The commands of a session: their processes, and the servers of their setups, held by `wall`.

    `limits_s` is how long a run of each workload may take, once it was rehearsed.
    """

    def __init__(self, control: Control, wall: Wall, kinds: Iterable[WorkloadKind]) -> None:
        self.control, self.wall = control, wall
        for kind in kinds:
            if isinstance(kind, Launching):
                wall.resolve(kind)
        self.standing = WorkGroup(control, "setup", wall)
        self.work = WorkGroup(control, "command", wall, beside=self.standing)
        self.limits_s: dict[str, float] = {}
        self._readers: dict[str, Reader] = {}
        self.failures = Failures()
        self._number = 0

    @property
    def groups(self) -> tuple[Path, ...]:
        """The cgroups of these processes: they move below that of a candidate."""
        return launch.paths_of(self.work, self.standing)

    def tokens(self, directory: Path, device: str = "", seed: int = 0) -> Tokens:
        """Values of the places in the lines of one more run."""
        self._number += 1
        return {"dir": directory, "device": device, "run": f"{self._number:06d}",
                "seed": f"{seed:020d}"}  # fmt: skip

    def set_up(self, label: str, kind: Launching, tokens: Tokens) -> None:
        """Run a command's setup; its cleanup is in the journal first, for a kill from then on."""
        if line := kind.phases().get("cleanup"):
            order = launch.launch_of(kind, line, tokens, self.standing)
            self.control.owe_cleanup(label, line, launch.order_of(order, self.standing))
        self.phase(label, kind, "setup", tokens)

    def phase(self, label: str, kind: Launching, name: str, tokens: Tokens) -> None:
        """Run a phase of a command, if it has that one; HostError when it fails."""
        phases.run_phase(label, kind, name, tokens, self.standing)

    def clean_up(self, commands: Iterable[tuple[str, Launching, Tokens]]) -> None:
        """End all work, clean up, end what was set up; HostError for cleanups that failed."""
        phases.clean_up(self.control, commands, self.work, self.standing)

    def limit_s(self, label: str, kind: Launching) -> float:
        """Seconds after which a run is ended."""
        return kind.timeout_s or self.limits_s[label]

    def rehearsed(self, label: str, kind: Launching, elapsed_s: float) -> float:
        """Set the limit by how long a rehearsal took, where the user set none; returns it."""
        limit_s = kind.timeout_s or max(TIMEOUT_FACTOR * elapsed_s, TIMEOUT_LEAST_S)
        self.limits_s[label] = limit_s
        return limit_s

    def refuse(self, label: str, kind: Launching, ended: Ended, outcome: Outcome) -> None:
        """HostError for a rehearsal after which no run could be used."""
        if ended.timed_out:
            raise HostError(
                f"{label}: was still running after its --timeout of {kind.timeout_s:g} s, in the "
                "rehearsal already",
                "use a longer --timeout",
            )
        for gate in outcome.gates:
            if gate.fatal:
                held = gate.gate == "exit-status" and launch.wall_hint(kind, self.work, ended)
                raise HostError(
                    f"{label}: in the rehearsal {gate.detail}\n{ended.last_lines(20)}".rstrip(),
                    held or HINTS.get(gate.gate, HINTS["exit-status"]),
                )

    def outcome(
        self, workload: Workload, kind: Launching, ended: Ended, directory: Path, began_s: float
    ) -> Outcome:
        """Metrics, bounds and gates of a run that began at `began_s` and worked in `directory`."""
        label = workload.label
        output = {"out": launch.ends_of(ended.stdout), "err": launch.ends_of(ended.stderr)}
        facts: dict[str, object] = {"status": ended.status, "signal": ended.signal}
        gates = []
        if ended.output_exceeded:
            text = f"it printed more than {kind.output_limit_bytes} bytes"
            gates.append(GateFinding("output", text))
        if ended.timed_out:
            limit_s = self.limit_s(label, kind)
            times = ("elapsed_s", "elapsed_synced_s")
            metrics = {name: limit_s for name in times if name in kind.metrics}
            text = f"it was still running after {limit_s:g} s and counts with that time"
            gates.append(GateFinding("limit", text, fatal=False))
            if workload.metric not in metrics:
                gates.append(GateFinding("exit-status", f"{text}; {workload.metric} is missing"))
            return Outcome(metrics, {**facts, "censored": True}, tuple(gates), output=output,
                           bounds=dict.fromkeys(metrics, "at-least"))  # fmt: skip
        failure = ended.failure(kind.ok_exit)
        if failure:
            text = f"{failure}: {ended.last_lines(1)[:200]}".rstrip(": ")
            gates.append(GateFinding("exit-status", text, fatal=not kind.ignore_exit))
        values, bounds, missing = self._values(label, kind, ended, directory, began_s)
        gates += [] if failure and not kind.ignore_exit else missing
        usage = {k: v for k, v in ended.usage.items() if not k.startswith("own_")}
        facts["cpu_share"] = usage.get("cpu_s", 0.0) / max(ended.elapsed_s, 1e-9)
        metrics = {"elapsed_s": ended.elapsed_s, **usage, **values}
        return Outcome(metrics, facts, tuple(gates), bounds=bounds, output=output)

    def _values(
        self, label: str, kind: Launching, ended: Ended, directory: Path, began_s: float
    ) -> tuple[dict[str, float], dict[str, str], list[GateFinding]]:
        """Numbers out of the output: (value by metric, bounds, gates that did not hold)."""
        reader = self._readers.setdefault(label, Reader(kind.output_metrics()))
        files = written_file(directory, began_s, kind.output_limit_bytes)
        values, missing = reader.read(ended.stdout, ended.stderr, files)
        if not isinstance(kind, FioJob):
            return values, {}, missing
        try:
            metrics, bounds = kind.values_of(ended.stdout)
        except SpecError as error:
            return values, {}, [*missing, GateFinding("no-value", str(error))]
        return {**values, **metrics}, bounds, missing
