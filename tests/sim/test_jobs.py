"""One job, whatever is simulated: every option changes its outcome or is refused."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from schedlab.app.admit import admit
from schedlab.app.measure.files import experiment_of
from schedlab.errors import SpecError
from schedlab.nouns import Candidate
from schedlab_sim.cli.run import compare, run
from schedlab_sim.results import HOST_LOG_DTYPE
from schedlab_sim.session import outcome_of
from schedlab_sim.simulation import Simulation, model_of
from schedlab_sim.simulation_set import SimulationSet

# What is simulated in so many ways, short: device, source, queue.
SSD = ("--device", "ncq2014", "--workload", "A", "--policy", "tsb", "--requests", "300")
FLASH = ("--device", "nvme", "--workload", "A", "--policy", "tsb", "--requests", "300")
DISK = ("--device", "disk7200", "--depth", "4", "--requests", "100")
ABOVE = ("--device", "disk7200", "--scheduler", "none", "--processes", "readers3-deep",
         "--seconds", "1")  # fmt: skip
ABOVE_SSD = ("--device", "nvme", "--scheduler", "none", "--processes", "reader-writers",
             "--seconds", "0.1")  # fmt: skip
TRACED = ("--device", "nvme", "--trace", "TRACE:spc", "--fit", "wrap")
TRACED_DISK = ("--device", "disk7200", "--trace", "TRACE:spc", "--fit", "wrap")
ABOVE_TRACED = (*TRACED_DISK, "--scheduler", "none")
JOBS = (SSD, FLASH, DISK, ABOVE, ABOVE_SSD, TRACED, TRACED_DISK, ABOVE_TRACED)
# A value of each option that no job above has.
VALUES: dict[str, str | None] = {
    "device": "disk5400", "changes": None, "workload": "mixed4k", "policies": None,
    "alpha": "0.3", "aging": "every-arrival", "trace": "OTHER:spc", "volumes": "select=1",
    "fit": "compact", "time_scale": "3", "closed": "5", "buffer": "16KiB", "warm_up": "40ms",
    "record": "32k", "span": "256MiB", "depth": "9", "rate": "77", "scheduler": "cfq",
    "processes": "levels", "tags": "2", "nr_requests": "3", "window": "2", "size": "2GiB",
    "seconds": "0.4", "requests": "37", "seeds": "3", "seed": "5", "service": None,
    "skip_bad_lines": None, "log": "FILE.csv", "gantt": "FILE.svg",
}  # fmt: skip
# This device takes every command at once: there is nothing to order.
SAME = {("policies", ABOVE_SSD), ("window", ABOVE_SSD)}
# These do not change figures: where they go, and how they are printed.
OUTPUT = {"out", "dry_run", "as_json", "help", "imported", "play", "lang"}


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Two traces of two volumes, 100 and 60 requests, with a line that is none in the second."""
    rows = [
        f"{i % 2},{i * 7919 % 400_000_000},8192,{'rw'[i % 2]},{i / 500:.4f}" for i in range(100)
    ]
    (tmp_path / "TRACE").write_text("\n".join(rows) + "\n")
    (tmp_path / "OTHER").write_text("\n".join(rows[:60]) + "\n")
    (tmp_path / "BAD").write_text("\n".join([*rows[:60], "x"]) + "\n")
    return tmp_path


def invoke(command: click.Command, arguments: list[str]) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=True)


def figures(result: Result) -> Any:
    """What was printed, without the settings."""
    document = json.loads(result.stdout)
    return document["runs"], document.get("trace")


def typed(folder: Path, *arguments: str) -> list[str]:
    """Arguments with the paths of the traces; of those without volumes all are one region."""
    placed = [
        str(folder / each) if each.startswith(("TRACE", "OTHER", "BAD", "FILE")) else each
        for each in arguments
    ]
    regions = [] if "--volumes" in placed or "--trace" not in placed else ["--volumes", "region"]
    few = [] if "--trace" in placed or "--seeds" in placed else ["--seeds", "2"]
    return [*placed, *regions, *few, "--json"]


def changed(arguments: tuple[str, ...], option: str, value: str | None) -> list[str]:
    """The arguments with one option set or replaced."""
    kept = list(arguments)
    if option in kept:
        at = kept.index(option)
        del kept[at : at + 2]
    return [*kept, option] if value is None else [*kept, option, value]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sorted(VALUES))
def test_every_option_changes_the_outcome_or_is_refused(name: str, traces: Path) -> None:
    parameter = next(each for each in run.params if each.name == name)
    option = parameter.opts[0]
    refusals, changes = [], 0
    for job in JOBS:
        is_disk = "disk7200" in job
        own = {
            "service": "parallel" if job is SSD else "serial",
            "changes": "rpm=5400" if is_disk else "flash.page_read=1ms",
            "policies": ("fcfs" if "--scheduler" in job else "sptf") if is_disk else "s",
        }
        value = own.get(name, VALUES[name])
        base = invoke(run, typed(traces, *job))
        assert base.exit_code == 0, base.output
        wanted = changed(job, option, value)
        if name == "skip_bad_lines" and "--trace" in job:
            bad = changed(job, "--trace", "BAD:spc")
            assert "line 61" in str(invoke(run, typed(traces, *bad)).exception)
            wanted = changed(tuple(bad), option, value)
        result = invoke(run, typed(traces, *wanted))
        if result.exit_code:
            assert isinstance(result.exception, SpecError), (job, result.output, result.exception)
            refusals.append(str(result.exception))
        elif name in {"log", "gantt"}:
            assert len(next(traces.glob("FILE.*")).read_text()) > 100
            changes += 1
        elif (name, job) not in SAME:
            assert figures(result) != figures(base), (job, option)
            changes += 1
    assert changes, refusals


def test_every_option_is_tried() -> None:
    names = {each.name for each in run.params}
    assert names - OUTPUT == set(VALUES)
    of_compare = {each.name for each in compare.params} - OUTPUT
    assert of_compare - set(VALUES) == {"workloads", "metric"}


def test_the_devices_own_service_decides_and_stands_in_the_heading(tmp_path: Path) -> None:
    def heading(*arguments: str) -> str:
        result = invoke(run, [*arguments, "--requests", "200", "--seeds", "1"])
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()[0]

    assert heading("--device", "ncq2014") == "ncq2014: SSD, serial service; A"
    assert heading("--device", "nvme").startswith("nvme: SSD, parallel service")
    assert heading("--device", "nvme", "--service", "serial").startswith("nvme: SSD, serial")
    assert heading("--device", "disk7200") == "disk7200: disk; random4k, 1 request outstanding"
    assert model_of("disk7200") == "disk"


@pytest.mark.parametrize(
    "key", ["ftl.collect=fifo", "flash.channels=2", "buffer.keeps=write-only", "link.latency=1ms"]
)
def test_a_key_that_does_nothing_under_a_service_is_refused(key: str) -> None:
    result = invoke(run, ["--set", key, "--requests", "100"])
    assert isinstance(result.exception, SpecError)
    assert "does nothing under the service serial" in str(result.exception)
    assert invoke(run, ["--set", key, "--service", "parallel", "--requests", "100"]).exit_code == 0


def test_an_explicit_policy_of_the_device_is_that_policy() -> None:
    common = [*ABOVE, "--seeds", "1", "--tags", "8"]
    assert ", fcfs; 8 tags" in invoke(run, [*common, "--policy", "fcfs"]).stdout
    assert ", sptf; 8 tags" in invoke(run, common).stdout


def test_a_log_of_processes_is_csv_whatever_their_names(tmp_path: Path) -> None:
    file = tmp_path / "two, of them.toml"
    file.write_text('[[process]]\nname = "one, \\"two\\""\nrecord = "8k"\n')
    log = tmp_path / "log.csv"
    scheduler = "bfq:low_latency=0,slice_idle=0"
    first = Simulation(
        device="disk7200",
        scheduler=scheduler,
        processes=file,
        tags=2,
        seconds=0.1,
        log=True,
        seed=3,
    )
    under = (Candidate(scheduler, {"scheduler": scheduler}),)
    SimulationSet("host-queue", first, under, (str(file),), range(3, 4), log=log).run()
    with log.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {
        tuple(row[key] for key in ("scheduler", "processes", "seed", "process")) for row in rows
    } == {(scheduler, str(file), "3", 'one, "two"')}
    numbers = [name for name, _ in HOST_LOG_DTYPE if name not in {"process", "operation"}]
    assert [[int(row[name]) for name in numbers] for row in rows] == [
        [int(row[name]) for name in numbers] for row in first.run().log
    ]


# Keys of a candidate, whether it is written there or as `workload.KEY`; the others are parameters.
SETTINGS = {"policy", "alpha", "aging", "read_limit", "bundle_pages", "bundle_min", "scheduler"}
SWEEPS: dict[str, dict[str, Any]] = {
    "serial": {"policy": "tsb", "workload": "A", "requests": 300},
    "stb": {"policy": "stb", "workload": "A", "requests": 400},
    "parallel": {"device": "sata-ssd", "service": "parallel", "policy": "fcfs", "workload": "A"},
    "trace": {"trace": "TRACE", "workload_set.volumes": "region", "workload_set.fit": "wrap"},
    "disk": {"policy": "sstf", "depth": 4, "requests": 100},
    "host": {"scheduler": "mq-deadline", "processes": "readers3-deep", "seconds": 1.0},
    "host trace": {"scheduler": "none", "trace": "TRACE", "size": "8GiB"},
}  # fmt: skip
SWEPT: dict[str, Any] = {
    "alpha": 0.3, "aging": "every-arrival", "read_limit": "3ms", "bundle_pages": 3,
    "bundle_min": 3, "device": "nvme", "service": "parallel", "buffer_bytes": 1 << 20,
    "device_set.buffer.size": "1MiB", "device_set.flash.channels": 2, "workload": "C",
    "workload_set.read_share": 0.1, "workload_set.name": "B", "workload_set.time_scale": 3.0,
    "requests": 40, "processes": "reader-writers", "seconds": 0.5, "tags": 2, "nr_requests": 3,
    "window": 2, "trace_set": {"time_scale": 2.0}, "device_set.rpm": 5400, "scheduler": "bfq",
    "policy_set.alpha": 0.3, "depth": 9, "policy": "clook",
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("key", SWEPT)
def test_every_key_of_a_sweep_changes_its_figures_or_is_refused(key: str, traces: Path) -> None:
    changes = 0
    others = [each for each in SWEEPS.items() if each[1].get(key) != SWEPT[key]]
    for name, base in others:
        places = {"trace": str(traces / "TRACE")} if "trace" in base else {}
        kind = name if name == "disk" else "host-queue" if "scheduler" in base else "ssd"

        def figures(settings: Mapping[str, Any], kind: str = kind) -> Any:
            own = {k: v for k, v in settings.items() if k in SETTINGS}
            others = {f"workload.{k}": v for k, v in settings.items() if k not in SETTINGS}
            experiment = experiment_of(
                {
                    "kind": "sim", "seed": 1, "stopping": {"blocks": 1},
                    "candidates": [{"label": "c", "settings": own | others}],
                    "workloads": [{"label": "w", "kind": kind}],
                },
                "sweep",
            )  # fmt: skip
            admit(experiment)
            return outcome_of((experiment.workloads[0], experiment.candidates[0]), 1)

        before = figures(base | places)
        try:
            after = figures(base | places | {key: SWEPT[key]})
        except SpecError:
            continue
        # No page of this trace is touched twice.
        same = ("trace", "buffer_bytes"), ("trace", "device_set.buffer.size")
        assert after != before or (name, key) in same, (name, key)
        changes += 1
    assert changes or key == "workload_set.name"


COMPARED = {
    "--buffer": "1MiB", "--seeds": "3", "--seed": "5", "--requests": "150", "--warm-up": "40ms",
    "--set": "queue.depth=2", "--policies": "fcfs,s", "--workloads": "B", "--depth": "3",
    "--metric": "mean_write_ms", "--service": "parallel", "--tags": "2", "--trace": "TRACE:spc",
}  # fmt: skip


@pytest.mark.sampled(2)
def test_every_option_of_a_comparison_changes_it_or_is_refused(traces: Path) -> None:
    base = {"--device": "ncq2014", "--policies": "fcfs,tsb", "--workloads": "A"}
    base |= {"--requests": "200", "--seeds": "2"}
    folders = itertools.count()

    def figures_of(*more: str) -> Any:
        options = {**base, **dict([more] if more else [])}
        words = [word for pair in options.items() for word in pair]
        out = str(traces / f"out{next(folders)}")
        result = invoke(compare, [*words, "--json", "--out", out])
        if result.exit_code and isinstance(result.exception, SpecError):
            return None
        answer = json.loads(result.stdout)
        return answer["candidates"], answer["rows"], answer["bound"]

    before = figures_of()
    assert before == figures_of()
    refused = set()
    for option, value in COMPARED.items():
        after = figures_of(option, str(traces / value) if option == "--trace" else value)
        assert after != before, option
        refused |= {option} if after is None else set()
    assert refused == {"--depth", "--tags", "--trace"}
