"""`schedlab init`: a commented, minimal experiment file."""

from __future__ import annotations

from pathlib import Path

from schedlab.errors import SpecError
from schedlab.nouns import Experiment, to_json
from schedlab.store.files import write_atomic
from schedlab.store.folder import without_none

TEMPLATE = """\
# An experiment of schedlab. `schedlab run {name} --dry-run` shows what it would do,
# `schedlab run {name}` measures it. Every key: docs/reference/experiment.md.

title = "Which scheduler for a reader beside writers?"

# What is compared: schedulers, with tunables after a colon. The first is the baseline.
candidates = ["none", "mq-deadline", "kyber", "bfq"]
# candidates = ["bfq", "bfq:low_latency=0"]

# Where: a temporary loop device. Your disks are never written to unless you name one.
[target]
kind = "scratch"
size_bytes = "1G"
# kind = "directory"            # an existing file system:
# path = "/srv/data"
# switch = ["sdb"]              # the disk below it, whose scheduler may be switched

# How long: a time to plan for, or a number of blocks.
[stopping]
budget_s = "2m"
# blocks = 12

# On what: one table per workload. Kinds and parameters: docs/reference/workloads.md.
[[workloads]]
label = "random reads"
kind = "file-test"
metric = "iops"
parameters = {{ test = "random-read", record_bytes = "4k", seconds = "2s" }}

[[workloads]]
label = "writes"
kind = "file-test"
metric = "throughput_bytes_per_s"
parameters = {{ test = "write", record_bytes = "64k", seconds = "2s" }}
"""


def write_initial(path: Path, experiment: Experiment | None = None) -> None:
    """Write the template, or the file of an experiment (a lab's); SpecError when `path` exists."""
    if path.exists():
        raise SpecError(f"{path}: exists", "name a new file")
    text = TEMPLATE.format(name=path.name) if experiment is None else as_file(experiment, path.name)
    write_atomic(path, text)


def as_file(experiment: Experiment, name: str) -> str:
    """An experiment as a file for people: without what is at its default."""
    import tomli_w

    data = to_json(experiment)
    default = to_json(Experiment("", "io", experiment.target, (), (), "", 0))
    kept = {k: v for k, v in data.items() if v not in (None, [], {}, default.get(k))}
    kept |= {"kind": data["kind"], "target": _without_defaults(data["target"])}
    kept.pop("schema", None)
    kept.pop("seed", None)  # a new one each time
    head = f"# Run it with `schedlab run {name}`. Every key: docs/reference/experiment.md.\n\n"
    return head + tomli_w.dumps(without_none(kept))


def _without_defaults(table: dict[str, object]) -> dict[str, object]:
    return {k: v for k, v in table.items() if k in ("kind", "size_bytes") or v}
