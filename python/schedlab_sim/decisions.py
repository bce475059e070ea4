"""How many decisions of the kernel the models of its schedulers make too (tools/decisions.py)."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

# From so many on a model is shown under the kernel's name without a word.
ENOUGH = 0.95


Kernels = Mapping[str, Mapping[str, Mapping[str, Sequence[int]]]]


@functools.cache
def decisions() -> Kernels:
    """By kernel, scheduler and recorded load: equal decisions, and all of them."""
    text = (files("schedlab_sim") / "decisions.json").read_text()
    return json.loads(text)  # type: ignore[no-any-return]


def sentences(scheduler: str, kernels: Kernels | None = None) -> list[str]:
    """One for each kernel that judged it: "bfq, a model: 99.1 % of 1,879 decisions of Linux …"."""
    texts = []
    for kernel, found in (kernels or decisions()).items():
        cells = found.get(scheduler, {}).values()
        if total := sum(all_ for _, all_ in cells):
            share = sum(equal for equal, _ in cells) / total
            of = f"{100 * share:.1f} % of {total:,} decisions of Linux {kernel}"
            texts.append(f"{scheduler}, a model: {of}")
    return texts


def warnings(
    schedulers: Iterable[str], kernels: Kernels | None = None, version: str = ""
) -> list[str]:
    """The same for those that decide too often otherwise, under some load; of a `version` such as
    6.12 it is also said which were not compared with it."""
    kernels = kernels or decisions()
    if version:
        kernels = {name: of for name, of in kernels.items() if f"{name}.".startswith(f"{version}.")}
    found = [judged for kernel in kernels.values() for judged in kernel.items()]
    too_few = {
        scheduler
        for scheduler, cells in found
        if any(equal < ENOUGH * total for equal, total in cells.values())
    }
    texts, known = [], {scheduler for scheduler, _ in found}
    for name in dict.fromkeys(schedulers):
        if version and name not in known:
            texts.append(f"{name}, a model: not compared with Linux {version}")
        texts += sentences(name, kernels) if name in too_few else []
    return texts
