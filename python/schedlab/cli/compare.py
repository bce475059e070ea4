"""`schedlab compare`: the main job. Which scheduler, with which settings, for this work?"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.types import Duration, Names, Percent, Size, Sizes
from schedlab.errors import SpecError
from schedlab.spec import Candidate, Experiment, Objective, Stopping, Target, Workload

if TYPE_CHECKING:
    from schedlab.design.io_experiment import Load


@dataclass(frozen=True)
class Preset:
    """What holds where nothing was typed."""

    blocks: int
    seconds: float
    record_bytes: tuple[int, ...]
    span_bytes: int


QUICK = Preset(blocks=5, seconds=0.3, record_bytes=(65536,), span_bytes=256 << 20)
USUAL = Preset(blocks=12, seconds=1.0, record_bytes=(4096, 65536), span_bytes=1 << 30)
BLOCKS_MAX = 40


@dataclass(frozen=True)
class Options:
    """What was typed; what it means is decided in `experiment_of`."""

    scratch: int | None
    scratch_directory: Path
    device: Path | None
    destroy_data: Path | None
    read_only: bool
    directory: Path | None
    size: int
    schedulers: str | None
    labels: str | None
    tests: str | None
    records: tuple[int, ...] | None
    workloads: tuple[str, ...] | None
    engine: str
    archive: Path | None
    archive_size: int
    decompressor: str
    program: str | None
    depth: int
    workers: int
    buffered: bool
    seconds: float | None
    blocks: int | None
    budget: float | None
    until_decided: bool
    precision: float | None
    margin: float
    aa: bool
    goal: Objective
    quick: bool
    seed: int | None


@click.command()
@click.option(
    "--scratch", type=Size(), help="Measure on an own loop device of this size (default: 1G)."
)
@click.option(
    "--scratch-directory",
    type=click.Path(path_type=Path),
    default=Path("/var/tmp"),
    show_default=True,
    help="Where the scratch file lies: the disk below takes part.",
)
@click.option("--device", type=click.Path(path_type=Path), help="Measure on this block device.")
@click.option(
    "--destroy-data",
    type=click.Path(path_type=Path),
    metavar="DEVICE",
    help="Allow writes to this device, named again; it must be empty.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Measure reads alone, also on a device that is mounted or holds data.",
)
@click.option(
    "--directory", type=click.Path(path_type=Path), help="Measure on a file in this directory."
)
@click.option("--size", type=Size(), default="1G", show_default=True, help="Size of that file.")
@click.option(
    "--schedulers", help="Candidates, e.g. none,mq-deadline:fifo_batch=32 (default: all offered)."
)
@click.option("--labels", help="Names for the candidates, e.g. before,after.")
@click.option("--tests", help="File tests, e.g. read,random-write (default: IOzone's seven).")
@click.option("--records", type=Sizes(), help="Record sizes, e.g. 8k,64k,1M.")
@click.option(
    "--workloads",
    type=Names(("file-tests", "interference", "timings", "extraction", "startup")),
    help="What is measured: file-tests, interference, timings, extraction, startup "
    "(default: the first two).",
)
@click.option(
    "--engine",
    type=click.Choice(["own", "fio"]),
    default="own",
    show_default=True,
    help="Who carries out the file tests: our engine, or an installed fio to check it.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Archive to extract (default: an own one like a source tree).",
)
@click.option(
    "--archive-size", type=Size(), default="64M", show_default=True, help="Size of the own archive."
)
@click.option(
    "--decompressor",
    type=click.Choice(["none", "gzip", "xz", "zstd"]),
    default="none",
    show_default=True,
    help="How the own archive is compressed.",
)
@click.option(
    "--program",
    metavar="COMMAND",
    help="Whose start-up is timed; it must end by itself (default: an own program).",
)
@click.option(
    "--depth",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    help="Queue depth of the file tests.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Workers of the file tests.",
)
@click.option("--buffered", is_flag=True, help="Go through the page cache instead of O_DIRECT.")
@click.option("--seconds", type=Duration(), help="Length of one run.")
@click.option("--blocks", type=click.IntRange(1, 10_000), help="Repetitions of everything.")
@click.option(
    "--budget",
    type=Duration(),
    help="Stop before a block that would go beyond, e.g. 10m.",
)
@click.option(
    "--until-decided",
    is_flag=True,
    help="Look at 12, 16, 20, 26, 32, 40 blocks; stop when decided.",
)
@click.option(
    "--precision", type=Percent(), help="Stop when every interval is this narrow, e.g. 1%."
)
@click.option(
    "--margin",
    type=Percent(),
    default="2%",
    show_default=True,
    help="Differences inside count as equivalent.",
)
@click.option(
    "--aa/--no-aa", default=True, help="Measure the baseline under a second name: the noise floor."
)
@click.option(
    "--goal",
    type=click.Choice(["throughput", "latency", "fairness", "responsiveness"]),
    default="throughput",
    show_default=True,
    help="What the primary metrics are.",
)
@click.option(
    "--quick", is_flag=True, help="5 blocks of short runs: wide intervals in two minutes."
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Fixes orders and offsets.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Result folder (default: results/DATE-compare)."
)
@click.option(
    "--dry-run", is_flag=True, help="Print the plan, every setting that would change, and the time."
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Go on with an interrupted folder.",
)
def compare(
    out: Path | None, dry_run: bool, as_json: bool, resume: Path | None, **typed: Any
) -> None:
    """Compare I/O schedulers on this machine, and say which is better for what.

    Nothing of yours is written to unless you name it: by default the work goes to a scratch device
    that is removed afterwards. All settings are put back, also after Ctrl-C and kill -9.
    """
    from schedlab.cli.conduct import conduct, present
    from schedlab.cli.dry_run import show_plan
    from schedlab.host import scratch
    from schedlab.store.folder import Folder

    if resume:
        folder = Folder.open(resume)
        check_resumable(folder)
    else:
        experiment = experiment_of(Options(**typed))
        if dry_run:
            show_plan(experiment, as_json)
            return
        if experiment.target.kind == "scratch":
            scratch.require_root()
        folder = create_folder(experiment, out or default_folder("compare"))
    present(conduct(folder, resumed=bool(resume)), as_json)


def default_folder(name: str) -> Path:
    """`results/DATE-NAME`, not yet there."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    tries = [stem, *(f"{stem}-{n}" for n in range(2, 100))]
    return next(p for each in tries if not (p := Path("results") / each).exists())


def create_folder(experiment: Experiment, path: Path) -> Any:
    """The result folder with plan, host facts and reproduce.sh."""
    from schedlab.design.plan import make_plan
    from schedlab.host.facts import collect
    from schedlab.report import reproduce_script
    from schedlab.store.files import write_atomic
    from schedlab.store.folder import Folder

    folder = Folder.create(path, experiment, make_plan(experiment), collect())
    write_atomic(path / "reproduce.sh", reproduce_script(folder.record()))
    return folder


def check_resumable(folder: Any) -> None:
    """Mend a torn line; refuse to mix two kernels in one experiment."""
    import platform

    from schedlab.cli.conduct import say

    if folder.mend():
        say(f"{folder.path}: the last line of runs.jsonl was torn off and is measured again")
    folder.runs()
    before, now = folder.host.get("kernel", {}).get("release"), platform.release()
    if before and before != now:
        raise SpecError(
            f"{folder.path}: was begun on Linux {before}, this is {now}",
            f"measure anew: schedlab reproduce {folder.path}",
        )


def experiment_of(typed: Options) -> Experiment:
    """The experiment that the options mean; SpecError or HostError naming what cannot be."""
    from schedlab.cli.target import describe, target_of
    from schedlab.design.io_experiment import WRITING_FAMILIES, Load, io_experiment, workloads
    from schedlab.kinds import file_test

    target = target_of(
        typed.scratch,
        typed.scratch_directory,
        typed.device,
        typed.destroy_data,
        typed.directory,
        typed.size,
        typed.read_only,
    )
    candidates, notes = candidates_of(typed.schedulers, target)
    if typed.labels:
        candidates, said = labelled(candidates, typed.labels)
        notes += said
    preset = QUICK if typed.quick else USUAL
    tests = tuple(typed.tests.split(",")) if typed.tests else file_test.IOZONE_SEVEN
    if unknown := [test for test in tests if test not in file_test.TESTS]:
        raise SpecError(
            f"test {unknown[0]!r} is not known", f"use some of: {','.join(file_test.TESTS)}"
        )
    may_write = target.kind != "device" or target.destroy_data
    reading = [t for t in tests if may_write or file_test.TESTS[t][1]["kind"] == "read"]
    named = families_of(typed)
    families = [f for f in named if may_write or f not in WRITING_FAMILIES]
    left_out = len(reading) < len(tests) or len(families) < len(named)
    if left_out and not typed.read_only:
        notes.append(f"what writes was left out: {target.path} was not named by --destroy-data")
    span = min(preset.span_bytes, target.size_bytes or preset.span_bytes)
    load = Load(
        tests=reading,
        record_bytes=typed.records or preset.record_bytes,
        span_bytes=span,
        seconds=typed.seconds or preset.seconds,
        depth=typed.depth,
        workers=typed.workers,
        direct=not typed.buffered,
        archive=str(typed.archive.resolve()) if typed.archive else "",
        archive_bytes=typed.archive_size,
        decompressor=typed.decompressor,
        timing_seconds=typed.seconds or (preset.seconds if typed.quick else None),
        program=typed.program or "",
        by_fio=typed.engine == "fio",
    )
    works = workloads(families, load, typed.goal)
    check_works(works, load)
    return io_experiment(
        f"I/O schedulers on {describe(target)}",
        target,
        candidates,
        works,
        seed=typed.seed if typed.seed is not None else secrets.randbits(32),
        stopping=stopping_of(typed, preset.blocks),
        margin=typed.margin,
        aa_arm=typed.aa,
        objective=typed.goal,
        notes=tuple(notes),
    )


def check_works(works: Sequence[Workload], load: Load) -> None:
    """Refuse what cannot be carried out, before anything is made."""
    from schedlab.kinds import fio_file_test

    if not works:
        raise SpecError(
            "no workload is left", "name reading tests, or allow writes with --destroy-data"
        )
    if load.by_fio:
        for work in works:
            fio_file_test.check(work)
    if oversize := [r for r in load.record_bytes if r > load.span_bytes]:
        raise SpecError(
            f"--records {oversize[0]}: larger than the {load.span_bytes} bytes used",
            "use a larger target",
        )


def families_of(typed: Options) -> tuple[str, ...]:
    """The families of workloads that are wanted; SpecError for one that fio has not."""
    if typed.engine == "fio":
        if others := [name for name in typed.workloads or () if name != "file-tests"]:
            raise SpecError(
                f"--engine fio: fio has no {others[0]} as schedlab defines them",
                "add --workloads file-tests, or leave --engine fio out",
            )
        return ("file-tests",)
    return typed.workloads or ("file-tests", "interference")


def candidates_of(
    schedulers: str | None, target: Target
) -> tuple[tuple[Candidate, ...], list[str]]:
    """The candidates that were typed, else all that the target offers; notes on them."""
    from schedlab.cli.target import check_offered, offered_schedulers
    from schedlab.design.candidates import label_candidates, parse_candidates

    if schedulers:
        candidates = parse_candidates(schedulers)
        return candidates, list(check_offered(candidates, target))
    offered = label_candidates([(name, {}) for name in offered_schedulers(target)])
    if target.kind == "directory":
        return offered, ["only the scheduler that is set: others need --device or --scratch"]
    return offered, []


def labelled(
    candidates: tuple[Candidate, ...], labels: str
) -> tuple[tuple[Candidate, ...], list[str]]:
    """The candidates under names of the user's, and a note on each that says what it is."""
    names = [name.strip() for name in labels.split(",")]
    if len(names) != len(candidates) or len({*names, ""}) <= len(names):
        raise SpecError(
            f"--labels {labels}: not a different name for each of {len(candidates)} candidates",
            "write as many names as candidates, e.g. before,after",
        )
    pairs = list(zip(names, candidates, strict=True))
    notes = [f"{name} is {candidate.label}" for name, candidate in pairs]
    return tuple(replace(candidate, label=name) for name, candidate in pairs), notes


def stopping_of(typed: Options, usual_blocks: int) -> Stopping:
    """When to stop, from --blocks, --budget, --until-decided and --precision."""
    if typed.until_decided and typed.precision:
        raise SpecError("--until-decided and --precision exclude each other", "give one of them")
    mode = "until-decided" if typed.until_decided else "precision" if typed.precision else "fixed"
    blocks = typed.blocks or (usual_blocks if mode == "fixed" else BLOCKS_MAX)
    return Stopping(mode, blocks, typed.precision or 0.0, typed.budget or 0.0)  # type: ignore[arg-type]
