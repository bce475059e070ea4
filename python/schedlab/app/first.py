"""The first question: the one command that answers it, about what, within which time."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from schedlab.errors import as_root

# What works without root where measuring does not.
WITHOUT_ROOT = "schedlab compare --kernel 6.12"


@dataclass(frozen=True)
class Purpose:
    """A reason to run schedlab; `words` begin the command, `subject` asks what it is about.

    `named` and `unnamed` are the words where the answer names something and where it is empty
    (`{}` is the answer; nothing where there must be one), `time` is the option for the time, with
    what is usual.
    """

    text: str
    words: str
    subject: str
    named: str
    unnamed: str | None
    time: str = ""
    usual: str = ""


QUESTIONS = (
    Purpose(
        "Which I/O scheduler is best for a disk?", "compare",
        "Which disk? It is only read; with none, a temporary one is used",
        "--device {} --read-only", "", "--budget", "1m",
    ),
    Purpose(
        "Which I/O scheduler is best for my command?", "compare --scratch 8G",
        "Which command? It runs in a directory on a temporary disk",
        "-- {}", None, "--budget", "10m",
    ),
    Purpose(
        "Which I/O scheduler is best for the work that runs now?", "live",
        "On which disk?", "{} --schedulers none,bfq", None, "--for", "10m",
    ),
    Purpose(
        "Which CPU policy is best?", "cpu compare",
        "For which command? With none, built-in work is used", "-- {}", "", "--budget", "1m",
    ),
    Purpose(
        "How does a queue decide, step by step? (Nothing is measured.)", "sim run --play",
        "On which SSD (ncq2014, sata-ssd)? With none, on a disk",
        "--device {} --policy fcfs,tsb",
        "--device disk7200 --policy fcfs,sptf --depth 8",
    ),
)  # fmt: skip


def command_of(question: Purpose, subject: str, time: str, *, is_root: bool) -> list[str]:
    """The command, and where it needs root that is missing, what works without."""
    about = question.named if subject else question.unnamed or ""
    if "-- {}" not in about:
        subject = shlex.quote(subject)
    before, dashes, after = about.format(subject).partition("-- ")
    options = [before.strip(), f"{question.time} {time}" if question.time else "", dashes + after]
    line = " ".join(filter(None, ["schedlab", question.words, *options]))
    if is_root or not question.time:
        return [line]
    sudo, _, rest = as_root(WITHOUT_ROOT, f"sudo {line}").partition("; ")
    return [sudo, rest]
