"""Phases around a command: setup and cleanup once, prepare and conclude around each run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from schedlab.errors import HostError, SchedlabError
from schedlab.kinds.launching import Launching, Tokens
from schedlab.run.command import launch
from schedlab.run.command.launch import WorkGroup

if TYPE_CHECKING:
    from schedlab.host.safety.control import Control

PHASE_TIMEOUT_S = 3600.0


def run_phase(label: str, kind: Launching, name: str, tokens: Tokens, standing: WorkGroup) -> None:
    """Run a command's phase, if it has that one; HostError when it fails.

    Servers that it starts run on in the group `standing`.
    """
    line = kind.phases().get(name)
    if not line:
        return
    order = launch.launch_of(kind, line, tokens, standing, timeout_s=PHASE_TIMEOUT_S)
    ended = launch.run(order, standing)
    failure = ended.failure()
    if ended.timed_out:
        failure = f"did not end in {PHASE_TIMEOUT_S:g} s"
    elif ended.output_exceeded:
        failure = f"printed more than {kind.output_limit_bytes} bytes"
    if failure:
        raise HostError(
            f"{label}: {name} {line!r} {failure}:\n{ended.last_lines(20)}".rstrip(":\n"),
            launch.wall_hint(kind, standing, ended)
            or "run it by hand, in the same directory and as the same user",
        )


def clean_up(
    control: Control,
    commands: Iterable[tuple[str, Launching, Tokens]],
    work: WorkGroup,
    standing: WorkGroup,
) -> None:
    """End the work, clean up after each command (label, kind, tokens), and end the servers.

    HostError with all cleanups that failed.
    """
    failures: list[SchedlabError] = []
    try:
        work.end()
        for label, kind, tokens in commands:
            try:
                run_phase(label, kind, "cleanup", tokens, standing)
            except SchedlabError as error:
                failures.append(error)
            finally:
                if "cleanup" in kind.phases():
                    control.cleaned(label)
    finally:
        standing.end()
    if failures:
        raise HostError("\n".join(map(str, failures)), failures[0].hint)


@contextlib.contextmanager
def closed_after(close: Callable[[], None], report: Callable[[str], None]) -> Iterator[None]:
    """Close at the end; its error is only reported beside one that ended the work."""
    try:
        yield
    except BaseException:
        try:
            close()
        except SchedlabError as error:
            report(str(error))
        raise
    close()
