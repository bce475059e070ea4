"""Boots as blocks: what needs a reboot is compared by booting each kind once in every round.

A round is a block of the joined result, and the boot is what is repeated. Rounds are in balanced
random orders (`design/orders.py`), as blocks of runs are.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlab.design.candidates import typed_candidate
from schedlab.design.orders import Orders
from schedlab.design.plan import cell_seed
from schedlab.errors import SpecError
from schedlab.nouns import Candidate, Experiment
from schedlab.nouns.names import check_name, safe_names

# What boot loaders add to the command line of a kernel.
_LOADERS_OWN = ("BOOT_IMAGE=", "initrd=")
_HINT = "write LABEL=KERNEL cmdline='WORDS', e.g. 'one-cpu=6.1.0-18-amd64 cmdline=maxcpus=1'"


@dataclass(frozen=True)
class BootKind:
    """A kernel by its release, with words after its usual command line."""

    label: str
    kernel: str
    cmdline: str = ""


@dataclass(frozen=True)
class BootPlan:
    """Every boot in its order, fixed before the first one.

    `experiment` is measured in each boot. `ends` are the announced numbers of rounds, the last one
    is that of the plan. `usual` is the command line without words of any kind. `command` is the
    user's own boot loader ("": that of the machine).
    """

    experiment: Experiment
    kinds: tuple[BootKind, ...]
    ends: tuple[int, ...]
    usual: str
    command: str = ""

    @property
    def boots(self) -> int:
        """How many boots there are."""
        return self.ends[-1] * len(self.kinds)

    def round_of(self, number: int) -> int:
        """The round of a boot, both from 0."""
        return number // len(self.kinds)

    def kind_of(self, number: int) -> BootKind:
        """The kernel of a boot of the plan."""
        orders = Orders(len(self.kinds), random.Random(f"{self.experiment.seed}/boots"))
        return self.kinds[orders.of_block(self.round_of(number))[number % len(self.kinds)]]

    def folder_of(self, number: int) -> str:
        """Where a boot is kept: `KIND/ROUND`."""
        names = safe_names(kind.label for kind in self.kinds)
        return f"{names[self.kind_of(number).label]}/{self.round_of(number) + 1:03d}"

    def experiment_of(self, number: int) -> Experiment:
        """The experiment of a boot: all boots of a round have the same seed."""
        return replace(
            self.experiment, seed=cell_seed(self.experiment.seed, self.round_of(number), "boots")
        )

    def label(self, kind: BootKind, candidate: str) -> str:
        """The label of a candidate of the experiment in the joined result."""
        names = [kind.label] if len(self.kinds) > 1 else []
        names += [candidate] if len(self.experiment.candidates) > 1 or not names else []
        return " × ".join(names)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates of the joined result: every kind with every one of the experiment."""
        if len(self.kinds) == 1:
            return self.experiment.candidates
        return tuple(
            Candidate(
                self.label(kind, each.label),
                {**each.settings, "kernel": kind.kernel, "cmdline": kind.cmdline},
            )
            for kind in self.kinds
            for each in self.experiment.candidates
        )


def plan_boots(
    experiment: Experiment, kinds: Sequence[BootKind], rounds: int, usual: str, command: str = ""
) -> BootPlan:
    """The plan; SpecError for an experiment whose length or place depends on what it finds."""
    stopping = experiment.stopping
    if experiment.kind not in ("io", "cpu"):
        raise SpecError(f"a boot changes nothing for kind = {experiment.kind!r}", 'kind = "cpu"')
    if stopping.mode != "fixed" or stopping.budget_s:
        raise SpecError("all boots measure the same: the file needs a fixed number of blocks",
                        "[stopping] blocks = 3, without budget_s")  # fmt: skip
    if len(kinds) < 2:
        raise SpecError("there is nothing to compare", "name two: --kernels A,B")
    for kind in kinds:
        check_name(kind.label, "boot")
        if [each.label for each in kinds].count(kind.label) > 1:
            raise SpecError(f"two boots are labelled {kind.label!r}", _HINT)
    # The baseline is measured once a boot; the boots are what is repeated.
    fixed = replace(stopping, sessions=1, may_extend=0)
    return BootPlan(
        replace(experiment, stopping=fixed, aa_arm=False, explain=False),
        tuple(kinds), (rounds,), usual, command,
    )  # fmt: skip


def parse_kind(text: str, running: str) -> BootKind:
    """`[LABEL=]KERNEL [cmdline='WORDS']` as `--candidate` has it; SpecError for anything else.

    `as-is`, or no kernel at all, is the `running` one.
    """
    typed = typed_candidate(text, "as-is")
    settings = {key: str(value) for key, value in typed.settings.items()}
    cmdline = settings.pop("cmdline", "")
    if settings:
        name = next(iter(settings))
        raise SpecError(f"boot {text!r}: {name} needs no reboot", "make it a candidate of the file")
    kernel = running if typed.head == "as-is" else typed.head
    return BootKind(typed.label, kernel, " ".join(cmdline.split()))


def is_other(plan: BootPlan, kind: BootKind, release: str, command_line: str) -> str:
    """Why a running kernel is not that of a kind, in words; "" where it is."""
    if release != kind.kernel:
        return f"Linux {release} runs, not {kind.kernel}"
    there, wanted = own_words(command_line), own_words(f"{plan.usual} {kind.cmdline}")
    if there == wanted:
        return ""
    more = [word for word in there if there.count(word) > wanted.count(word)]
    less = [word for word in wanted if wanted.count(word) > there.count(word)]
    found = ", ".join([*(f"also {word}" for word in more), *(f"not {word}" for word in less)])
    return f"the kernel's command line has {found}"


def own_words(command_line: str) -> list[str]:
    """The words of a command line, sorted, without those that boot loaders add."""
    return sorted(word for word in command_line.split() if not word.startswith(_LOADERS_OWN))
