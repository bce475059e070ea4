"""Several boots in virtual time as one result: kernels are candidates, other seeds the units.

    result = measure_boots(plan, {"6.1": kernel, "6.12": other}, out, observer)

All kernels of a round get the same seeds, so they meet the same load; another round is another
sample of it. `boots.json` of the folder holds the plan, so that it can be repeated.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.app.fleet.boots import PLAN, join
from schedlab.app.measure.measure import Observer
from schedlab.app.measure.virtual import booted, heeding
from schedlab.design.boots import BootKind, BootPlan
from schedlab.errors import Interrupted, SpecError
from schedlab.guest.kernels import Kernel
from schedlab.nouns import Experiment, from_json, to_json
from schedlab.nouns.checked_line import decode, encode
from schedlab.store.files import read_beneath, write_atomic
from schedlab.store.folder import Folder

if TYPE_CHECKING:
    from schedlab.result import Result


def planned(experiment: Experiment, named: Mapping[str, Kernel]) -> BootPlan:
    """A boot of each kernel in every session, with the blocks of that session.

    SpecError for an experiment whose length depends on what it finds.
    """
    stopping = experiment.stopping
    if stopping.mode != "fixed" or stopping.budget_s or stopping.may_extend:
        raise SpecError(
            "several boots measure the same number of blocks each",
            "--blocks 3, without --budget, --quick and rules that stop earlier",
        )
    if experiment.explain:
        raise SpecError(
            "--explain: the result of several boots has no runs that show where requests wait",
            "omit --explain, or name one kernel and one session",
        )
    rounds = stopping.sessions
    inside = replace(stopping, blocks=max(1, stopping.blocks // rounds), sessions=1)
    kinds = tuple(BootKind(label, kernel.release) for label, kernel in named.items())
    each = replace(experiment, stopping=inside, explain=False)
    if len(kinds) > 1:  # The baseline is of one of them; the boots are what is repeated.
        each = replace(each, aa_arm=False)
    return BootPlan(each, kinds, (rounds,), usual="")


def measure_boots(
    plan: BootPlan, named: Mapping[str, Kernel], out: Path, observer: Observer
) -> Result:
    """Boot and measure all of a plan, then join them; Interrupted with the whole rounds kept."""
    from schedlab.result import Result

    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".") as directory:
        folders: list[Folder] = []
        try:
            for number in range(plan.boots):
                kind, path = plan.kind_of(number), Path(directory) / plan.folder_of(number)
                release = named[kind.label].release
                observer.report(f"boot {number + 1} of {plan.boots}: Linux {release}")
                boot = booted(plan.experiment_of(number), named[kind.label])
                boot.run(heeding(observer), path)
                folders.append(Folder.open(path))
        except Interrupted as error:
            rounds = len(folders) // len(plan.kinds)
            if not rounds:
                raise
            _joined(replace(plan, ends=(rounds,)), folders[: rounds * len(plan.kinds)], out)
            raise Interrupted(
                f"interrupted; kept {rounds} of {plan.ends[-1]} rounds of boots, and nothing of "
                "the boot that was stopped",
                f"schedlab analyse {out}",
            ) from error
        return Result(_joined(plan, folders, out))


def _joined(plan: BootPlan, folders: Sequence[Folder], out: Path) -> Folder:
    """The boots of a plan as one folder, with the plan."""
    facts = [folder.host["virtual"] for folder in folders]
    digests = "".join(str(each["digest"]) for each in facts)
    common = {key: value for key, value in facts[0].items()
              if all(each.get(key) == value for each in facts)}  # fmt: skip
    common["digest"] = hashlib.sha256(digests.encode()).hexdigest()
    common["kernels"] = list(dict.fromkeys(str(each["kernel"]) for each in facts))
    folder = join(plan, folders, out, {"virtual": common})
    write_atomic(out / PLAN, encode(to_json(plan)) + "\n")
    return folder


def stored_plan(path: Path) -> BootPlan | None:
    """The plan of a folder of several boots; None for that of one."""
    if not (path / PLAN).is_file():
        return None
    try:
        data = decode(read_beneath(path, PLAN).removesuffix(b"\n"))
    except ValueError as error:
        raise SpecError(f"{path / PLAN}: {error}", "measure it again: schedlab compare") from error
    return from_json(BootPlan, data, str(path / PLAN))
