"""Experiments, commands and fio on emulated devices, and what happens when the server dies.

VERIFY_SECONDS=60 in the environment lets fio write and verify for a minute.
"""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from processes import ended, started, with_words

from schedlab.app.compare.comparison import Place, target_of
from schedlab.app.measure.labs import LabChanges, lab_experiment, lab_named
from schedlab.app.targets import resolve
from schedlab.errors import SpecError
from schedlab.host.emulated import emulated_removal
from schedlab.host.emulated.emulated import Emulation
from schedlab.host.safety import owned
from schedlab.host.safety.control import Control
from schedlab.kinds import typed
from schedlab.run.admitted import Permission

MIB = 1 << 20
VERIFY_S = int(os.environ.get("VERIFY_SECONDS", "1"))


@pytest.fixture(autouse=True)
def nothing_is_left(root_with_loop, needs_fuse, state):
    yield
    assert str(state) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert emulated_removal.servers(state) == []


def runs_of(folder):
    lines = (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    return [run for run in records if "emulated" in run.get("properties", {})]


@pytest.mark.skipif(not shutil.which("fio"), reason="needs fio")
@pytest.mark.parametrize("scheduler", ["none", "bfq"])
def test_what_fio_wrote_is_what_fio_reads(state, tmp_path, scheduler):
    with Control() as control:
        device = control.emulated(Emulation("disk7200", size_bytes=64 * MIB, queue_depth=32))
        control.set_scheduler(device.path, scheduler)
        job = f"""
            [global]
            filename={device.path}
            direct=1
            ioengine=libaio
            iodepth=16
            bsrange=4k-256k
            verify=crc32c
            verify_fatal=1
            verify_state_save=0
            time_based=1
            runtime={VERIFY_S}
            [check]
            rw=randwrite
            verify_backlog=64
        """
        (tmp_path / "verify.fio").write_text(
            "\n".join(line.strip() for line in job.strip().splitlines())
        )
        result = subprocess.run(
            ["fio", "--output-format=json", tmp_path / "verify.fio"],
            capture_output=True, text=True, check=False, cwd=tmp_path, timeout=VERIFY_S + 60,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
        (job_report,) = json.loads(result.stdout[result.stdout.index("{") :])["jobs"]
        account = device.account()
    assert job_report["error"] == 0
    assert job_report["write"]["total_ios"] > 0
    assert job_report["read"]["total_ios"] > 0
    assert account["errors"] == 0


def compared(tmp_path, *work):
    """What a comparison on a model of 4 commands printed, and its runs."""
    code, out, err = ended(
        "compare", "--model", "disk7200", "--size", "64M", "--queue-depth", "4",
        "--schedulers", "none,bfq", "--blocks", "1", "--out", tmp_path / "result", *work,
    )  # fmt: skip
    assert code == 0, err
    runs = runs_of(tmp_path / "result")
    assert len(runs) >= 2
    return out + err, runs


@pytest.mark.sampled(3)
def test_a_command_is_compared_on_a_model(state, tmp_path):
    write = "dd if=/dev/zero of=@dir@/x bs=64k count=20 oflag=direct"
    output, runs = compared(tmp_path, "--", "sh", "-c", write)
    assert "Emulated device" in output
    for run in runs:
        assert run["properties"]["emulated"]["written_bytes"] >= 20 * 65536
        assert run["properties"]["driver_tags"] == 4
    described = [run["properties"].get("emulated_device", {}).get("model") for run in runs]
    # In every run until one is not discarded.
    kept = next(at for at, run in enumerate(runs) if run["status"] == "ok")
    assert described == ["disk7200"] * (kept + 1) + [None] * (len(runs) - kept - 1)


@pytest.mark.sampled(3)
@pytest.mark.skipif(not shutil.which("fio"), reason="needs fio")
def test_a_fio_job_is_compared_on_a_model(state, tmp_path):
    job = tmp_path / "reads.fio"
    job.write_text("[r]\nrw=randread\nbs=4k\nsize=8m\ndirect=1\nnumber_ios=40\n")
    _, runs = compared(tmp_path, "--fio", job)
    assert all(run["properties"]["emulated"]["reads"] >= 40 for run in runs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_dies_ends_the_experiment_with_the_reason(state, tmp_path, way):
    model = tmp_path / "fixed.toml"
    model.write_text("model = 'fixed'\nservice = '4ms'\nservers = 1\nsize = '64m'\n")
    process = started(
        "compare", "--model", model, "--size", "64M", "--schedulers", "none,bfq",
        "--workloads", "random-reads", "--blocks", "40", "--out", tmp_path / "result",
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    file = tmp_path / "result/runs.jsonl"
    assert owned.wait_until(lambda: file.exists() and file.stat().st_size > 0, 60.0)
    (server,) = with_words(emulated_removal.SERVER_MODULE, f"{state}/")
    os.kill(server, way)
    output, _ = process.communicate(timeout=60)
    assert process.returncode not in (0, None), output
    assert "the server of the emulated device" in output
    assert "--resume" in output


def test_what_belongs_to_a_model_is_refused_elsewhere():
    for place in (Place(queue_depth=4), Place(dilate=2.0)):
        with pytest.raises(SpecError, match="emulated device"):
            target_of(place)
    lab = lab_named("ncq-depth")
    small = lab_experiment(lab, "small", LabChanges(Place(model="disk5400", size_bytes=64 * MIB)))
    assert (small.target.kind, small.target.model) == ("emulated", "disk5400")
    assert small.target.size_bytes == 64 * MIB
    elsewhere = lab_experiment(lab, "small", LabChanges(Place(scratch_bytes=64 * MIB)))
    kinds = [typed(work) for work in elsewhere.workloads]
    with pytest.raises(SpecError, match="only on a model"):
        resolve(elsewhere, kinds, Permission())


@pytest.mark.parametrize(
    "name", ["iozone-schedulers", "device-timings", "bfq-tunables", "interference", "ncq-depth"]
)
def test_labs_accept_a_model_its_depth_and_its_dilation(name):
    place = Place(model="disk5400", queue_depth=4, dilate=2.0)
    lab = lab_named(name)
    target = lab_experiment(lab, "small", LabChanges(place)).target
    assert (target.kind, target.model) == ("emulated", "disk5400")
    assert (target.queue_depth, target.dilate) == (4, 2.0)
    own = lab_experiment(lab, "small").target
    assert target.size_bytes == own.size_bytes
