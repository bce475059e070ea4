"""Experiment files: TOML as people write it, read into an `Experiment`.

Sizes and times may be text (`size_bytes = "256M"`, `seconds = "1.5s"`); the seed is optional;
candidates may be written as on the command line (`candidates = ["none", "bfq:low_latency=0",
"big=kyber sysctl.vm.dirty_bytes=1G"]`, or with `kind = "cpu"` `["other", "rr:10ms"]`). One with a
`grid` stands for every combination (design/grid.py).
The `experiment.toml` of a result folder is such a file too.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from schedlab.app.compare.requirements import with_requirements
from schedlab.design.candidates import is_one, parse_candidate, parse_candidates
from schedlab.design.grid import expanded
from schedlab.design.planning import BLOCKS_MOST
from schedlab.errors import SpecError
from schedlab.kinds import KINDS, declared, kind_named
from schedlab.nouns import SCHEMA_VERSION, Experiment, Target, Workload, from_json, to_json
from schedlab.nouns.quantities import parse_quantity, parse_share
from schedlab.nouns.reading import dotted, read_toml
from schedlab.run.cpu.cpu_policy import parse_policies, parse_policy

WORKLOAD_KEYS = tuple(field.name for field in fields(Workload))


def read_experiment(path: Path) -> Experiment:
    """The experiment in a file or result folder; SpecError naming file, table and key."""
    path = path / "experiment.toml" if path.is_dir() else path
    data, _ = read_toml(path, "write one: schedlab init experiment.toml")
    return experiment_of(data, str(path))


def stopped_by(experiment: Experiment, typed: Mapping[str, Any]) -> Experiment:
    """The experiment with `blocks`, `budget` (seconds) and `sessions` in place of its own.

    Blocks and budget are of each session. A budget is a new plan from a pilot.
    """
    blocks, budget_s, sessions = (typed.get(name) for name in ("blocks", "budget", "sessions"))
    if not (blocks or budget_s or sessions):
        return experiment
    old = experiment.stopping
    sessions = sessions or old.sessions
    if sessions > 1 and old.mode != "fixed":
        raise SpecError(
            f"--sessions repeats a fixed plan, and this one is {old.mode!r}", "omit --sessions"
        )
    usual = BLOCKS_MOST if budget_s else old.blocks // old.sessions
    stopping = replace(
        old,
        blocks=(blocks or usual) * sessions,
        budget_s=budget_s or (0.0 if blocks else old.budget_s),
        may_extend=0,
        sessions=sessions,
    )
    return replace(experiment, stopping=stopping)


def elsewhere(experiment: Experiment, directory: str | None, switch: tuple[str, ...]) -> Experiment:
    """The same question in `directory`, whose queues below are switched; None: where it was."""
    if not directory:
        if switch:
            raise SpecError("--switch names what is below --directory", "add --directory DIR")
        return experiment
    if experiment.kind != "io":
        message = f"--directory would change nothing: the work is {experiment.kind}, not I/O"
        raise SpecError(message, "omit it")
    size = experiment.target.size_bytes
    return replace(experiment, target=Target("directory", directory, size, switch=switch))


def experiment_of(data: Mapping[str, Any], where: str) -> Experiment:
    """The experiment that a table means, with what people may omit filled in."""
    filled = {"title": Path(where).stem, "kind": "io", "schema": SCHEMA_VERSION, **data}
    filled.setdefault("seed", secrets.randbits(32))
    filled.setdefault("aa_arm", filled["kind"] != "sim")
    if old := {"fixed", "parameters"} & set(data):
        raise SpecError(
            f"{where}: {min(old)!r} is a key of the sweeps of earlier versions",
            "write its keys as the grid of [[candidates]]: docs/concepts/ssd-simulator.md, Sweeps",
        )
    filled.setdefault("target", {"kind": "scratch", "size_bytes": 1 << 30}
                      if filled["kind"] == "io" else {"kind": "none"})  # fmt: skip
    candidates = _all_of(filled, "candidates", "settings", where)
    candidates = filled["candidates"] = _candidates(candidates, filled["kind"] == "cpu")
    if candidates and isinstance(candidates[0], Mapping):
        filled.setdefault("baseline", candidates[0].get("label", ""))
    filled.setdefault("baseline", "")
    workloads = _all_of(filled, "workloads", "parameters", where)
    filled["workloads"] = [_workload(each, where) for each in workloads]
    for table in ("target", "stopping"):
        if isinstance(filled.get(table), Mapping):
            filled[table] = _quantities(filled[table], f"{where}.{table}")
    if isinstance(filled.get("margin"), str):
        filled["margin"] = parse_share(filled["margin"])
    requires = _list(filled, "requires", where)
    filled["requires"] = [each for each in requires if not isinstance(each, str)]
    experiment = from_json(Experiment, filled, where)
    experiment = with_requirements(experiment, [r for r in requires if isinstance(r, str)])
    own = declared(each for each in experiment.workloads if each.kind in KINDS)
    return replace(experiment, metrics={**experiment.metrics, **own}) if own else experiment


def _candidates(written: list[Any], are_policies: bool) -> list[Any]:
    """Candidates as tables: texts are read as on the command line, nested settings are joined.

    In TOML `sysctl.vm.dirty_bytes = "1G"` below `[candidates.settings]` is a table of tables.
    """
    several, one = (
        (parse_policies, parse_policy) if are_policies else (parse_candidates, parse_candidate)
    )
    plain = [each for each in written if isinstance(each, str) and not is_one(each)]
    if plain and len(plain) == len(written):
        return list(to_json(several(",".join(plain))))
    tables = []
    for each in written:
        if isinstance(each, str):
            tables += to_json([one(each)] if is_one(each) else several(each))
        elif isinstance(each, Mapping) and isinstance(each.get("settings"), Mapping):
            tables.append({**each, "settings": dict(dotted(each["settings"]))})
        else:
            tables.append(each)
    return tables


def _list(data: Mapping[str, Any], key: str, where: str) -> list[Any]:
    values = data.get(key, [])
    if not isinstance(values, list | tuple):
        raise SpecError(f"{where}.{key} = {values!r}", "expected a list")
    return list(values)


def _all_of(data: Mapping[str, Any], key: str, inside: str, where: str) -> list[Any]:
    """The candidates or workloads of a file, grids as what they mean."""
    all_of: list[Any] = []
    for number, each in enumerate(_list(data, key, where)):
        is_table = isinstance(each, Mapping)
        all_of += expanded(each, inside, f"{where}.{key}[{number}]") if is_table else [each]
    return all_of


def _workload(data: Any, where: str) -> Any:
    """A workload with the label and metric that its kind usually has, where they are omitted."""
    if not isinstance(data, Mapping):
        return data
    filled = dict(data)
    kind = kind_named(str(filled.get("kind", "")), f"{where}.workloads")
    filled.setdefault("label", str(filled.get("kind", "")))
    if kind is not None:
        filled.setdefault("metric", kind.metrics[0])
        for key in sorted((set(filled) & set(kind.__struct_fields__)) - set(WORKLOAD_KEYS)):
            raise SpecError(
                f"{where}.workloads ({filled['label']}): {key!r} is a parameter of {kind.kind}",
                f"parameters = {{ {key} = … }}",
            )
    for table in ("parameters", "chosen"):
        if isinstance(filled.get(table), Mapping):
            place = f"{where}.workloads ({filled['label']})"
            filled[table] = _quantities(filled[table], place)
    return filled


def _quantities(table: Mapping[str, Any], where: str) -> dict[str, object]:
    """The table with sizes and times turned into numbers."""
    try:
        return {key: parse_quantity(key, value) for key, value in table.items()}
    except SpecError as error:
        raise SpecError(f"{where}: {error}", error.hint) from error
