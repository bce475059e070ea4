"""Labs: ready-made experiments, one per published study, in `schedlab/labs/*.toml`.

A lab is an experiment file with the study that it repeats (`study`), and `[scale.small]` and
`[scale.full]`, which change it (and `[scale.small-emulated]`, `[scale.small-virtual]`):

    [scale.small]
    target = { size_bytes = "256M" }         # tables are merged, everything else is replaced
    [scale.small.parameters]
    "{test} {record_bytes}" = { seconds = "50ms" }
    [scale.small.grid]                       # fewer values of a grid
    "{test} {record_bytes}" = { record_bytes = ["64k"] }

Without `candidates`, all schedulers that the target offers are compared. A lab of CPU quanta has
`[sweep]` instead (app/compare/quanta.py). A lab says what was studied and published (`statements`,
or `[published]`: app/measure/published.py), never what comes out: that is computed from its runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from schedlab.app.compare import quanta
from schedlab.app.compare.comparison import (
    Place,
    candidates_of,
    check_model_options,
    target_of,
)
from schedlab.app.compare.quanta import Sweep, effective_slices, quantum_experiment
from schedlab.app.measure import virtual
from schedlab.app.measure.files import experiment_of
from schedlab.app.measure.published import published
from schedlab.app.options import Named, check_target
from schedlab.design.grid import expanded
from schedlab.errors import SpecError, nearest
from schedlab.nouns import Experiment, Statement, Target, from_json, to_json
from schedlab.nouns.quantities import parse_quantity
from schedlab.package import PACKAGE

Scale = Literal["small", "full"]
SCALES: tuple[Scale, ...] = ("small", "full")
# Keys of a lab that are not keys of an experiment file.
_LAB_KEYS = ("study", "scale", "sweep", "published")
_SIZED = "sized for virtual time, where a second costs about two; all of it: --scale full"
# What is heeded by every lab, and what by one of CPU quanta, too.
_OPTIONS = {"name", "--scale", "--out", "--json"}
_SWEEP_OPTIONS = {"--blocks", "--seed", "--dry-run"}


@dataclass(frozen=True)
class Lab:
    """One lab: its name, and the content of its file."""

    name: str
    data: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Its subject."""
        return str(self.data["title"])

    @property
    def study(self) -> str:
        """The method of the published study, on one line."""
        return " ".join(str(self.data["study"]).split())

    @property
    def kind(self) -> str:
        """`io`, `cpu`, or `sim`."""
        return str(self.data.get("kind", "io"))

    def scaled(
        self, scale: Scale, is_emulated: bool = False, is_virtual: bool = False
    ) -> dict[str, Any]:
        """The content with the changes of a scale; `small` has more of them on an emulated device,
        which serves less in the same time, and in virtual time, which costs more of it."""
        scales = self.data.get("scale", {})
        changes = dict(scales.get(scale, {}))
        for name, is_wanted in (("emulated", is_emulated), ("virtual", is_virtual)):
            if is_wanted:
                changes = merged(changes, scales.get(f"{scale}-{name}", {}))
        tables = {key: changes.pop(key, {}) for key in ("parameters", "grid")}
        data = merged({k: v for k, v in self.data.items() if k != "scale"}, changes)
        works = data.get("workloads", [])
        labels = [work["label"] for work in works]
        if unknown := [label for of in tables.values() for label in of if label not in labels]:
            raise SpecError(
                f"lab {self.name}: scale.{scale} changes {unknown[0]!r}, which is not a workload",
                nearest(unknown[0], labels),
            )
        data["workloads"] = [
            merged(work, {key: of.get(work["label"], {}) for key, of in tables.items()})
            for work in works
        ]
        return data


@cache
def labs() -> Mapping[str, Lab]:
    """All labs by name; SpecError naming the file and what is wrong in it."""
    by_name = {}
    folder = PACKAGE / "labs"
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if not file.name.endswith(".toml"):
            continue
        try:
            data = tomllib.loads(file.read_text("utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise SpecError(f"{file}: is not TOML: {error}", "reinstall schedlab") from error
        if missing := [key for key in ("title", "study") if not data.get(key)]:
            raise SpecError(f"{file}: has no {missing[0]}", "see the labs beside it")
        by_name[file.name.removesuffix(".toml")] = Lab(file.name.removesuffix(".toml"), data)
    if not by_name:
        raise SpecError(f"{folder}: holds no labs", "reinstall schedlab")
    return by_name


def lab_named(name: str) -> Lab:
    """The lab of that name, or SpecError with the nearest one."""
    if name not in labs():
        raise SpecError(f"lab {name!r} is not known", nearest(name, labs()))
    return labs()[name]


@dataclass(frozen=True)
class LabChanges:
    """The user's changes of a lab: where it runs, candidates, blocks, seed, and the kernel in
    virtual time."""

    place: Place | None = None
    schedulers: str | None = None
    blocks: int | None = None
    seed: int | None = None
    kernel: str | None = None


def check_options(lab: Lab, typed: Named) -> None:
    """SpecError for options that a lab would not heed, such as `--device` where it simulates."""
    if lab.kind == "sim":
        what, heeded = "is simulated", _OPTIONS | _SWEEP_OPTIONS | {"--dask"}
        hint = "omit them; --blocks, --seed and --dask are for this lab"
    elif "sweep" in lab.data:
        what, heeded = "is about CPU time", _OPTIONS | _SWEEP_OPTIONS | {"--kernel"}
        hint = "omit them; --blocks, --seed and --kernel change this lab"
    else:
        is_emulated = lab.data.get("target", {}).get("kind") == "emulated"
        check_target(typed, "--model" if is_emulated else "--scratch")
        return
    if idle := sorted(set(typed) - heeded):
        place = f"lab {lab.name}: {what}, so {', '.join(idle)} would change nothing"
        raise SpecError(place, hint)


def lab_experiment(
    lab: Lab,
    scale: Scale,
    changes: LabChanges | None = None,
    report: Callable[[str], None] = lambda text: None,
    *,
    probe: bool = False,
) -> Experiment:
    """The experiment of a lab at a scale, to be admitted like every other.

    With `probe` the quanta of a CPU lab are set for a moment, to see what the kernel makes of them;
    without it nothing is set, and they are as requested. `report` gets messages of that.
    SpecError for what does not fit.
    """  # fmt: skip
    changes = changes or LabChanges()
    is_emulated = bool(changes.place and changes.place.model)
    data = lab.scaled(scale, is_emulated, bool(changes.kernel))
    if changes.kernel and data != lab.scaled(scale, is_emulated):
        report(_SIZED)
    if "sweep" in data:
        sweep = sweep_of(data["sweep"], changes)
        requested: dict[float, float | None] = {ms: ms for ms in sweep.slices}
        if changes.kernel:
            requested.update(virtual.effective_slices(sweep.policy, sweep.slices, changes.kernel))
        elif probe:
            requested = effective_slices(sweep, report)
        experiment = quantum_experiment(sweep, requested)
        return replace(experiment, statements=_of_quanta(experiment, data.get("statements", ())))
    target = Target("none") if lab.kind == "sim" else _target(lab, data, changes)
    content = {k: v for k, v in data.items() if k not in _LAB_KEYS}
    content["target"] = to_json(target)
    if "published" in data:
        labels = _labels(content["workloads"])
        content["statements"] = [
            *content.get("statements", ()), *published(data["published"], labels),
        ]  # fmt: skip
    if changes.schedulers or not content.get("candidates"):
        content["candidates"] = to_json(candidates_of(changes.schedulers, None, target).candidates)
        content.pop("notes", None)
        labels = {each["label"] for each in content["candidates"]}
        about = content.get("statements", ())
        content["statements"] = [of for of in about if _names(of) <= labels]
    if changes.seed is not None:
        content["seed"] = changes.seed
    if changes.blocks:
        content["stopping"] = {**content.get("stopping", {}), "blocks": changes.blocks}
    own = f", {changes.blocks} blocks" if changes.blocks else ""
    content["title"] = f"{lab.title} ({scale}{own})"
    return experiment_of(content, f"lab {lab.name}")


def _labels(workloads: Sequence[Mapping[str, Any]]) -> set[str]:
    """The labels of workloads, each grid as what it means."""
    every = (expanded(each, "parameters", "workloads") for each in workloads)
    return {work["label"] for tables in every for work in tables}


def _target(lab: Lab, data: Mapping[str, Any], changes: LabChanges) -> Target:
    """Where the work goes: the lab's own target, or the user's."""
    place = changes.place or Place()
    table: dict[str, Any] = {
        key: parse_quantity(key, value) for key, value in data.get("target", {}).items()
    }
    if place.model is not None and "size_bytes" in table:
        return target_of(replace(place, size_bytes=place.size_bytes or table["size_bytes"]))
    elsewhere = (place.scratch_bytes, place.device, place.directory, place.model)
    if any(each is not None for each in elsewhere) or not table:
        return target_of(place)
    changed: dict[str, object] = {
        "rotational": place.rotational, "filesystem": place.filesystem,
    }  # fmt: skip
    if table["kind"] == "emulated":
        overrides = {"queue_depth": place.queue_depth, "size_bytes": place.size_bytes}
        changed |= {**overrides, "dilate": place.dilate if place.dilate != 1 else 0}
    else:
        check_model_options(place)
        changed["path"] = place.scratch_directory
    table |= {key: value for key, value in changed.items() if value}
    return from_json(Target, table, f"lab {lab.name}.target")


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the changes; tables are merged, everything else is replaced."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return result


def _of_quanta(
    experiment: Experiment, statements: Sequence[Mapping[str, Any]]
) -> tuple[Statement, ...]:
    """The statements of a lab about quanta: a candidate is named by the quantum that it requests,
    and the workload is the only one.
    """
    label = {f"{c.settings['slice_ms']:g} ms": c.label for c in experiment.candidates}
    found = []
    for number, each in enumerate(statements):
        if not _names(each) <= set(label):
            continue  # two quanta are one to this kernel
        content = {**each, "workloads": [experiment.workloads[0].label]}
        content["candidates"] = [label[name] for name in each["candidates"]]
        if over := each.get("over"):
            content["over"] = label[over]
        found.append(from_json(Statement, content, f"statements[{number}]"))
    return tuple(found)


def _names(statement: Mapping[str, Any]) -> set[str]:
    """The candidates that a statement of a lab is about."""
    return {*statement["candidates"], statement.get("over", "")} - {""}


def sweep_of(table: Mapping[str, Any], changes: LabChanges) -> Sweep:
    """The quanta that a lab asks for."""
    known = {key: parse_quantity(key, value) for key, value in table.items()}
    usual = {"calculation": "elementwise", "cpus": (), "precision": False, "budget_s": 0.0,
             "aa": True, "kernel": changes.kernel}  # fmt: skip
    asked = {
        "slices": tuple(float(ms) for ms in _list(known.pop("slices_ms"))),
        "repeat": changes.blocks or known["repeat"],
        "seed": changes.seed,
    }
    return quanta.sweep_of({**usual, **known, **asked})


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]
