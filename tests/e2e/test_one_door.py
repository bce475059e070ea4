"""Every way to start measuring passes the same door: what it refuses is refused everywhere.

Doors × states of a device × reading and writing workloads: without consent nothing is written.
"""

import hashlib
import itertools
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import schedlab
from schedlab.app.admit import admit
from schedlab.app.files import experiment_of, read_experiment
from schedlab.app.measure import create
from schedlab.cli import cli
from schedlab.errors import SchedlabError, SpecError
from schedlab.run.admitted import Permission
from schedlab.store.folder import Folder

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists(),
    reason="needs root and loop devices",
)
MIB = 1 << 20


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def document(**changes):
    """An experiment on a small temporary device, as a file holds it."""
    return {
        "title": "t",
        "seed": 1,
        "target": {"kind": "scratch", "size_bytes": "8M"},
        "candidates": ["none", "bfq"],
        "workloads": [
            {
                "label": "w",
                "kind": "file-test",
                "metric": "iops",
                "parameters": {"test": "read", "record_bytes": "64k", "seconds": "20ms"},
            }
        ],
        "stopping": {"blocks": 1},
        **changes,
    }


def work(kind="file-test", metric="iops", label="w", **parameters):
    return {"label": label, "kind": kind, "metric": metric, "parameters": parameters}


def written(tmp_path, data, name="e.toml"):
    import tomli_w

    file = tmp_path / name
    file.write_text(tomli_w.dumps(data))
    return file


def call(*words):
    """(exit code, output) of the command line; anything but a SchedlabError is a traceback."""
    result = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    if result.exception is None:
        return result.return_value or 0, result.output
    if isinstance(result.exception, SchedlabError):
        hint = result.exception.hint
        assert hint or result.exception.exit_code == 130
        return result.exception.exit_code, f"{result.exception}\nhint: {hint}\n{result.output}"
    raise result.exception


BAD = {
    "misspelt parameter": ({"workloads": [work(test="read", secondz=3.0)]}, "seconds"),
    "parameter of the wrong type": ({"workloads": [work(test="read", depth="deep")]}, "depth"),
    "parameter out of range": ({"workloads": [work(test="read", depth=0)]}, "depth"),
    "unknown test": ({"workloads": [work(test="reed")]}, "'read'"),
    "unknown kind": ({"workloads": [work(kind="file-tst")]}, "'file-test'"),
    "kind of another experiment": ({"workloads": [work(kind="ssd")]}, "'sim'"),
    "unknown metric": ({"workloads": [work(metric="speed", test="read")]}, "speed"),
    "metric of another kind": ({"workloads": [work(metric="startup_s", test="read")]}, "startup_s"),
    "no workload": ({"workloads": []}, "no workload"),
    "two workloads of one label": ({"workloads": [work(test="read"), work(test="read")]}, "'w'"),
    "two candidates of one label": (
        {"candidates": [{"label": "a", "settings": {"scheduler": "none"}}] * 2},
        "'a'",
    ),
    "control character in a label": (
        {"workloads": [work(label="w\x1b[2J", test="read")]},
        "U+001B",
    ),
    "empty label": ({"workloads": [work(label=" ", test="read")]}, "label"),
    "wrong baseline": ({"baseline": "nobody"}, "nobody"),
    "no candidate": ({"candidates": []}, "no candidate"),
    "unknown scheduler": ({"candidates": ["none", "bqf"]}, "bfq"),
    "setting that is a path": (
        {"candidates": [{"label": "a", "settings": {"scheduler": "none", "../../x": 1}}]},
        "../../x",
    ),
    "newer schema": ({"schema": 99}, "99"),
    "unknown key": ({"surprise": 1}, "surprise"),
    "unknown target": ({"target": {"kind": "tape"}}, "tape"),
    "target too small": ({"target": {"kind": "scratch", "size_bytes": "4k"}}, "size_bytes"),
    "no space": ({"target": {"kind": "scratch", "size_bytes": "900T"}}, "free"),
    "key of another target": (
        {"target": {"kind": "scratch", "size_bytes": "8M", "switch": ["sda"]}},
        "switch",
    ),
    "record larger than the target": (
        {"workloads": [work(test="read", record_bytes="64M")]},
        "64 MiB",
    ),
    "no blocks": ({"stopping": {"blocks": 0}}, "blocks"),
    "margin": ({"margin": 0.0}, "margin"),
    "no such device": ({"target": {"kind": "device", "path": "/dev/nothing"}}, "/dev/nothing"),
    "no such directory": (
        {"target": {"kind": "directory", "path": "/nowhere", "size_bytes": "8M"}},
        "/nowhere",
    ),
    "depth without io_uring": ({"workloads": [work(test="read", depth=4)]}, "io_uring"),
    "program that is not there": (
        {"workloads": [work(kind="startup", metric="startup_s", program="no-such-program")]},
        "no-such-program",
    ),
}


@needs_root
@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("door", ["run", "dry-run", "api"])
def test_bad_experiments_are_one_error_at_every_door(tmp_path, door, case):
    change, named = BAD[case]
    file = written(tmp_path, document(**change))
    if door == "api":
        with pytest.raises(SchedlabError) as caught:
            schedlab.run(file, out=tmp_path / "r", permission=Permission(trust=True))
        code, text = caught.value.exit_code, f"{caught.value} {caught.value.hint}"
    else:
        extra = ["--dry-run"] if door == "dry-run" else []
        code, text = call("run", file, "--trust", "--out", "r", *extra)
    assert code == 2
    assert named in text
    assert not (tmp_path / "r").exists()


def test_a_directory_sets_no_scheduler_unless_its_queue_is_named(tmp_path):
    target = {"kind": "directory", "path": str(tmp_path), "size_bytes": "8M"}
    code, text = call("run", written(tmp_path, document(target=target)), "--trust")
    assert code == 2
    assert "no scheduler would be set" in text
    assert "--switch" in text


def test_a_file_may_not_start_programs_or_use_devices_without_a_yes(tmp_path):
    startup = work(kind="startup", metric="startup_s", program="true")
    target = {"kind": "directory", "path": str(tmp_path), "size_bytes": "8M"}
    data = document(workloads=[startup], candidates=["as-is"], target=target)
    code, text = call("run", written(tmp_path, data), "--dry-run")
    assert code == 2
    assert "run true" in text
    assert "--trust" in text
    code, text = call("run", written(tmp_path, data), "--dry-run", "--trust")
    assert code == 0, text
    assert "true" in text


KINDS_OF_FILES = {
    "cpu": {
        "kind": "cpu",
        "target": {"kind": "none"},
        "candidates": [
            {"label": f"{ms} ms", "settings": {"policy": "rr", "slice_ms": ms, "effective_ms": ms}}
            for ms in (4, 100)
        ],
        "workloads": [work("calculation", "calculations_per_cpu_s", processes=2, seconds="100ms")],
    },
    "sim": {
        "kind": "sim",
        "target": {"kind": "none"},
        "candidates": [{"label": name, "settings": {"policy": name}} for name in ("fcfs", "tsb")],
        "workloads": [work("ssd", "mean_read_ms", requests=100)],
    },
    "io": {},
}


@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_a_dry_run_shows_every_kind_and_measures_nothing(tmp_path, kind):
    if kind == "io" and os.geteuid():
        pytest.skip("a temporary device needs root")
    code, text = call("run", written(tmp_path, document(**KINDS_OF_FILES[kind])), "--dry-run")
    assert code == 0, text
    assert "first block, in its order" in text
    assert not (tmp_path / "results").exists()


def blank(image):
    pass


def ext4(image):
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", image], check=True)


def random_data(image):
    image.write_bytes(os.urandom(16 * MIB))


STATES = {"blank": blank, "ext4": ext4, "random data": random_data, "mounted": ext4}


@pytest.fixture
def device(tmp_path, request):
    image = tmp_path / "image"
    image.write_bytes(b"\0" * (16 * MIB))
    STATES[request.param](image)
    command = ["/usr/sbin/losetup", "--find", "--show", image]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    mounted = tmp_path / "mounted"
    if request.param == "mounted":
        mounted.mkdir()
        subprocess.run(["mount", "-o", "ro", made, mounted], check=True)
    yield made, image
    if mounted.exists():
        subprocess.run(["umount", mounted], check=True)
    subprocess.run(["/usr/sbin/losetup", "--detach", made], check=True)


def door_of_run(data, tmp_path):
    return call("run", written(tmp_path, data), "--trust", "--out", "r")


def door_of_api(data, tmp_path):
    try:
        schedlab.run(
            experiment_of(data, "e.toml"), out=tmp_path / "r", permission=Permission(trust=True)
        )
    except SchedlabError as error:
        return error.exit_code, f"{error} {error.hint}"
    return 0, ""


def stored(data, tmp_path):
    """A result folder that asks for the experiment, made without passing the door."""
    harmless = document(**KINDS_OF_FILES["sim"])
    folder = create(admit(experiment_of(harmless, "e.toml"), Permission()), tmp_path / "old")
    from schedlab.design.plan import make_plan

    experiment = experiment_of(data, "e.toml")
    host = folder.host
    path = tmp_path / "stored"
    Folder.create(path, experiment, make_plan(experiment), host)
    return path


def door_of_resume(data, tmp_path):
    return call("run", "--resume", stored(data, tmp_path))


def door_of_reproduce(data, tmp_path):
    return call("reproduce", stored(data, tmp_path), "--trust", "--out", "r")


def door_of_io_run(data, tmp_path):
    given = data["workloads"][0]["parameters"]
    test = "randwrite" if "write" in given["test"] else "read"
    path = data["target"]["path"]
    return call("io", "run", "--test", test, "--file", path, "--seconds", "20ms", "--overwrite")


DOORS = (door_of_run, door_of_api, door_of_resume, door_of_reproduce, door_of_io_run)
CASES = [
    (door, state, test, destroy)
    for door, state, test, destroy in itertools.product(
        DOORS, STATES, ("read", "write"), (False, True)
    )
]


@needs_root
@pytest.mark.parametrize(
    ("door", "device", "test", "destroy"),
    CASES,
    ids=[f"{d.__name__}-{s}-{t}-destroy={x}" for d, s, t, x in CASES],
    indirect=["device"],
)
def test_no_door_writes_to_a_device_without_consent(tmp_path, door, device, test, destroy):
    """`destroy_data = true` in a file asks for consent; it is none."""
    path, image = device
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    target = {"kind": "device", "path": path, "destroy_data": destroy}
    parameters = {"test": test, "record_bytes": "64k", "seconds": "20ms"}
    data = document(target=target, workloads=[work(**parameters)], candidates=["none", "bfq"])
    code, text = door(data, tmp_path)
    os.sync()
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before
    if test == "write":
        assert code == 2, text
        assert "--destroy-data" in text
    elif door is not door_of_io_run:
        assert code in (0, 2), text


@needs_root
@pytest.mark.parametrize("device", ["blank"], indirect=True)
def test_with_consent_a_blank_device_is_measured(tmp_path, device):
    path, image = device
    target = {"kind": "device", "path": path, "destroy_data": True}
    data = document(
        target=target,
        workloads=[work(test="write", record_bytes="64k", seconds="20ms")],
    )
    file = written(tmp_path, data)
    code, text = call("run", file, "--trust", "--destroy-data", path, "--out", "r")
    assert code == 0, text
    assert any(image.read_bytes())
    other = tmp_path / "other"
    other.write_bytes(b"\0" * MIB)
    with pytest.raises(SpecError, match="have not agreed"):
        admit(read_experiment(file), Permission(trust=True))
