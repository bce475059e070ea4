"""Every line that is printed after Next works as printed: it is run, with --dry-run."""

import random
import shlex
from dataclasses import replace

import pytest
from click.testing import CliRunner
from loops import loop_device, needs_root

from schedlab.cli import cli
from schedlab.design.plan import make_plan
from schedlab.host.queues import queues_below
from schedlab.host.safety import origin
from schedlab.nouns import AA_SUFFIX, Candidate, Experiment, Run, Stopping, Target, Workload
from schedlab.report import steps
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.result import Result
from schedlab.store.folder import Folder

# What is measured of each candidate, and the noise, so that each code comes up.
OF_CODE = {
    "best": ({"none": 1.0, "mq-deadline": 2.0}, 0.01, 6),
    "same": ({"none": 1.0, "mq-deadline": 1.0}, 0.002, 6),
    "keep": ({"none": 1.0, "mq-deadline": 1.0}, 0.1, 6),
    "for-now": ({"none": 1.0, "mq-deadline": 1.9}, 0.25, 4),
    "one-run": ({"none": 1.0, "mq-deadline": 1.5}, 0.1, 1),
    "unbounded": ({"none": 1.0, "mq-deadline": 9.0}, 2.0, 2),
}


def result(path, code, measured=99, **changes):
    """A folder whose answer has this code, of so many blocks of its plan."""
    speed, noise, blocks = OF_CODE[code]
    usual = Experiment(
        title="t", kind="io", target=Target("scratch", size_bytes=32 << 20), baseline="none",
        candidates=tuple(Candidate(name, {"scheduler": name}) for name in speed), seed=1,
        workloads=(Workload("w", "file-test", "iops", {"test": "read", "record_bytes": 65536}),),
        stopping=Stopping(blocks=blocks),
    )  # fmt: skip
    asked = replace(usual, **changes)
    for seed in range(60):
        folder = Folder.create(
            path / str(seed), asked, make_plan(asked), {"devices": {}}, seal_of=origin.seal_of
        )
        rng = random.Random(seed)
        for cell in folder.plan.cells:
            if cell.block >= measured:
                break
            name = cell.candidate.removesuffix(AA_SUFFIX)
            value = 1000 * list(speed.values())[list(_names(asked)).index(name)]
            about = (cell.block, cell.position, "w", cell.candidate, cell.seed, 1, "ok", "", 0.1)
            metrics = {asked.workloads[0].metric: value * rng.lognormvariate(0, noise)}
            folder.append(Run(*about, metrics))
        made = Result(Folder.open(folder.path))
        if made.answer.code == code:
            return made
    raise AssertionError(f"no seed gives {code}")


def _names(asked):
    return tuple(candidate.label for candidate in asked.candidates)


def printed_command(of):
    """What is after Next; "" for nothing to run."""
    step = steps.next_step(View(of.record, of.answer, Texts("en"), of.folder.path))
    return step.command if step else ""


def works(command):
    """The command runs as it was printed; measuring is left out."""
    program, *words = shlex.split(command)
    assert program == "schedlab"
    ran = CliRunner().invoke(cli, [*words, "--dry-run"])
    assert ran.exit_code == 0, f"{command}\n{ran.output}{ran.stderr}"


@pytest.fixture(autouse=True)
def own_state(monkeypatch, state, tmp_path):
    monkeypatch.chdir(tmp_path)


@needs_root
@pytest.mark.parametrize("code", ["keep", "for-now", "one-run", "unbounded"])
def test_an_open_answer_is_extended(code, tmp_path):
    command = printed_command(result(tmp_path, code))
    assert " --resume " in command
    works(command)


@needs_root
@pytest.mark.parametrize("stopping", [Stopping(blocks=6), Stopping("until-decided", 40)])
def test_an_interrupted_experiment_goes_on_to_its_end(stopping, tmp_path):
    """Another number of blocks would be a second end, at a stricter level."""
    of = result(tmp_path, "keep", measured=4, stopping=stopping)
    command = printed_command(of)
    assert command == f"schedlab compare --resume {of.folder.path}"
    works(command)


@pytest.fixture
def device(tmp_path):
    with loop_device(tmp_path / "image") as path:
        yield path


@needs_root
@pytest.mark.parametrize("measured", [4, 99])
def test_a_live_load_is_resumed_by_live(measured, tmp_path, device):
    load = Workload("w", "live-load", "read_latency_ns_mean", {"seconds": 1.0})
    target = Target("device", path=device)
    of = result(tmp_path, "keep", measured, workloads=(load,), target=target)
    command = printed_command(of)
    assert command.startswith("schedlab live --resume ") and ("--blocks" in command) == (
        measured == 99
    )
    works(command)


@needs_root
def test_an_open_answer_of_a_rule_that_stops_early_starts_again(tmp_path):
    command = printed_command(result(tmp_path, "keep", stopping=Stopping("until-decided", 6)))
    assert command.startswith("schedlab run ") and "--blocks" in command
    works(command)


def test_simulated_runs_are_added(tmp_path):
    for seeds in (1, 2):
        out = tmp_path / str(seeds)
        words = ["--policies", "fcfs,s", "--workloads", "A", "--requests", "300"]
        ran = CliRunner().invoke(
            cli, ["sim", "compare", *words, "--seeds", str(seeds), "--out", str(out)]
        )
        assert ran.exit_code == 0, ran.output
        if command := printed_command(Result.load(out)):
            works(command)
    assert command or seeds == 2


@needs_root
@pytest.mark.parametrize("code", ["best", "same"])
def test_what_a_temporary_device_showed_leads_to_ones_own(code, tmp_path):
    of = result(tmp_path, code)
    command = printed_command(of)
    again = f"schedlab run {of.folder.path} --directory"
    assert command == f"{again} DIR --switch sdX"  # The host named no disk.
    (disk,) = queues_below(tmp_path).queues
    named = View(replace(of.record, host={"devices": {disk: {}}}), of.answer, Texts("en"),
                 of.folder.path)  # fmt: skip
    step = steps.next_step(named)
    assert step and step.command == f"{again} . --switch {disk}"
    works(step.command)
    refused = CliRunner().invoke(cli, ["run", str(of.folder.path), "--switch", disk, "--dry-run"])
    assert refused.exit_code and "--directory" in str(refused.exception)


def test_imports_name_no_command(tmp_path):
    for code in OF_CODE:
        of = result(tmp_path / code, code, kind="import", target=Target("none"), aa_arm=False)
        assert printed_command(of) == ""


@needs_root
def test_the_best_of_a_real_device_is_applied(tmp_path, device):
    target = Target("device", path=device)
    of = result(tmp_path, "best", target=target)
    command = printed_command(of)
    assert command == f"schedlab apply mq-deadline {device}"
    works(command)
