"""The errors that a user can meet. Each says what is wrong and where, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable


class SchedlabError(Exception):
    """Something that the user can act on; `hint` is a command or a change that helps.

    `exit_code` is what the command line exits with: 2 for usage and environment, 3 when a host
    setting could not be restored.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class SpecError(SchedlabError):
    """An experiment, option or input file is invalid."""


class HostError(SchedlabError):
    """The machine does not have or does not allow what was requested."""


class RestoreError(HostError):
    """A host setting could not be restored."""

    exit_code = 3


class GateError(SchedlabError):
    """A measurement did not happen under the conditions that it claims; `gate` names which."""

    def __init__(self, gate: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.gate = gate


class Interrupted(SchedlabError):
    """The user stopped the work; everything was restored and finished points are kept."""

    exit_code = 130


def cause_of(error: BaseException) -> str:
    """The words of an error; of an OSError without its number and its path."""
    return getattr(error, "strerror", None) or str(error)


def to_install(*packages: str) -> str:
    """The hint for optional packages that are missing."""
    names = " ".join(packages)
    return f"pip install {names}; with pipx: pipx inject schedlab {names}"


# How the package of the simulators is installed.
SIMULATORS = "pip install 'schedlab[sim]', or its wheel schedlab_sim-*.whl; in a clone: make setup"


def no_simulators(what: str, why: str = "are not installed") -> SpecError:
    """An error where the package of the simulators is missing, which `what` needs."""
    return SpecError(f"{what} needs the simulators, which {why}", SIMULATORS)


# Next commands without root, for the question whose answer needs it.
SIMULATED_QUEUE = "schedlab sim compare --schedulers none,mq-deadline,bfq"
ANOTHER_KERNEL = "schedlab compare --kernel 6.12"
SIMULATED_CPU = "schedlab sim cpu --policy fcfs,rr --tasks A:0:8,B:1:4"


def as_root(without: str, command: str = "sudo schedlab …") -> str:
    """The hint where root is missing: the command with it, and what works without it."""
    return f"{command}; without root: {without}"


def nearest(word: str, known: Iterable[str], listed_max: int | None = None) -> str:
    """A hint: the nearest known word, or all of them (the first `listed_max`)."""
    from difflib import get_close_matches

    names = sorted(filter(None, known))
    if close := get_close_matches(str(word), names, 1):
        return f"did you mean {close[0]!r}?"
    more = ", …" if listed_max is not None and len(names) > listed_max else ""
    return f"known: {', '.join(names[:listed_max])}{more}"
