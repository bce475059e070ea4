"""Every way to start measuring passes the same door: what it refuses is refused everywhere.

Doors × states of a device × reading and writing workloads: without consent nothing is written.
"""

import os

import pytest
from calls import call
from device_states import STATES, digest
from loops import loop_device, needs_root

import schedlab
from schedlab.app.admit import admit
from schedlab.app.measure.files import experiment_of, read_experiment
from schedlab.app.measure.measure import create
from schedlab.design.plan import make_plan
from schedlab.errors import SchedlabError, SpecError
from schedlab.run.admitted import Permission
from schedlab.store.folder import Folder

MIB = 1 << 20


@pytest.fixture(autouse=True)
def own_state(tmp_path, state, monkeypatch):
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
        "control characters",
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


def run_by_api(experiment, tmp_path):
    try:
        schedlab.run(experiment, out=tmp_path / "r", permission=Permission(trust=True))
    except SchedlabError as error:
        return error.exit_code, f"{error} {error.hint}"
    return 0, ""


@pytest.mark.sampled(3)
@needs_root
@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("door", ["run", "dry-run", "api"])
def test_bad_experiments_are_one_error_at_every_door(tmp_path, door, case):
    change, named = BAD[case]
    file = written(tmp_path, document(**change))
    if door == "api":
        code, text = run_by_api(file, tmp_path)
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


@pytest.fixture(scope="module")
def device(request, tmp_path_factory):
    """A loop device in one of `STATES`, the same one for every door."""
    directory = tmp_path_factory.mktemp("device")
    with loop_device(directory / "disk.img") as path, STATES[request.param][0](path, directory):
        yield path


def experiment_on(device, test, *, destroy=False, candidates=("none",)):
    """A short file test on a device, as a file holds it."""
    return document(
        target={"kind": "device", "path": device, "destroy_data": destroy},
        workloads=[work(test=test, record_bytes="64k", seconds="20ms")],
        candidates=list(candidates),
    )


def door_of_run(data, tmp_path, *consent):
    return call("run", written(tmp_path, data), "--trust", "--out", tmp_path / "r", *consent)


def door_of_api(data, tmp_path):
    return run_by_api(experiment_of(data, "e.toml"), tmp_path)


def stored(data, tmp_path):
    """A result folder that asks for the experiment, made without passing the door."""
    harmless = document(**KINDS_OF_FILES["sim"])
    first = tmp_path / "harmless"
    if not first.exists():
        create(admit(experiment_of(harmless, "e.toml"), Permission()), first)
    experiment = experiment_of(data, "e.toml")
    path = tmp_path / "stored"
    Folder.create(path, experiment, make_plan(experiment), Folder.open(first).host)
    return path


def door_of_resume(data, tmp_path, *consent):
    return call("run", "--resume", stored(data, tmp_path), "--trust", *consent)


def door_of_compare_resume(data, tmp_path):
    return call("compare", "--resume", stored(data, tmp_path), "--trust")


def door_of_reproduce(data, tmp_path, *consent):
    return call("reproduce", stored(data, tmp_path), "--trust", "--out", tmp_path / "r", *consent)


def of_options(data):
    """(device, test) of an experiment, for doors that take options."""
    return data["target"]["path"], data["workloads"][0]["parameters"]["test"]


def door_of_compare(data, tmp_path, *consent):
    path, test = of_options(data)
    load = ("--tests", test, "--records", "64k", "--seconds", "20ms")
    size = ("--schedulers", "none", "--blocks", 1, "--no-aa", "--out", tmp_path / "r")
    return call("compare", "--device", path, *load, *size, *consent)


def door_of_tune(data, tmp_path, *consent):
    path, test = of_options(data)
    load = ("--tests", test, "--records", "64k", "--seconds", "20ms", "--budget", "1s")
    return call("tune", "--device", path, *load, "--dry-run", *consent)


def door_of_io_sweep(data, tmp_path, *consent):
    path, test = of_options(data)
    size = ("--block-sizes", "64k", "--modes", "sync", "--calls", 4, "--blocks", 1)
    return call("io", "sweep", "--device", path, "--direction", test, *size, "--out",
                tmp_path / "r", *consent)  # fmt: skip


def door_of_lab(data, tmp_path, *consent):
    path, test = of_options(data)
    lab = "iozone-schedulers" if test == "write" else "device-timings"
    extra = ("--schedulers", "none", "--blocks", 1) if test == "write" else ("--dry-run",)
    return call("lab", "run", lab, "--device", path, "--out", tmp_path / "r", *extra, *consent)


DOORS = (
    door_of_run, door_of_api, door_of_resume, door_of_compare_resume, door_of_reproduce,
    door_of_compare, door_of_tune, door_of_io_sweep, door_of_lab,
)  # fmt: skip
CONSENTING = tuple(
    door for door in DOORS if door not in (door_of_api, door_of_compare_resume)
)  # fmt: skip


def by_name(doors):
    return pytest.mark.parametrize("door", doors, ids=[door.__name__[8:] for door in doors])


# Every state at one door, every door at some states; `test_doors.py` tries more, by commands.
TRIED = [
    (state, door)
    for at, door in enumerate(DOORS)
    for number, state in enumerate(STATES)
    if door is door_of_run or state == "blank" or number % len(DOORS) == at
]


@pytest.mark.sampled(3)
@needs_root
@pytest.mark.parametrize(("device", "door"), TRIED, indirect=["device"])
def test_no_door_writes_to_a_device_without_consent(tmp_path, door, device, request):
    """`destroy_data = true` in a file asks for consent; it is none. Reading needs none."""
    state = request.node.callspec.params["device"]
    before = digest(device)
    for destroy in (False, True):
        own = tmp_path / f"write-{destroy}"
        own.mkdir()
        code, text = door(experiment_on(device, "write", destroy=destroy), own)
        assert code == 2, text
        assert "--destroy-data" in text or "--read-only" in text, text
        assert not (own / "r").exists()
    if state in ("blank", "mounted"):
        code, text = door(experiment_on(device, "read"), tmp_path)
        assert code in (0, 2), text
    assert digest(device) == before


# All states are in tests/host/test_consent.py.
REFUSED = [(door_of_run, state) for state in ("mounted", "random", "held", "below-a-loop")]
REFUSED += [(door, "ext4") for door in CONSENTING]


@needs_root
@pytest.mark.parametrize(
    ("door", "device"),
    REFUSED,
    indirect=["device"],
    ids=[f"{d.__name__[8:]}-{s}" for d, s in REFUSED],
)
def test_consent_is_refused_for_a_device_with_content_or_in_use(tmp_path, door, device, request):
    """The user names the device, and every door says the same reason not to write to it."""
    before = digest(device)
    data = experiment_on(device, "write", destroy=True)
    code, text = door(data, tmp_path, "--destroy-data", device)
    assert code == 2, text
    assert f"Refusing to write to {device}: " in text
    assert STATES[request.node.callspec.params["device"]][1] in text
    assert digest(device) == before


@needs_root
@pytest.mark.parametrize("device", ["blank"], indirect=True)
@by_name(CONSENTING)
def test_consent_to_another_device_is_none(tmp_path, door, device):
    """--destroy-data of a second device allows nothing on the first."""
    other = tmp_path / "other.img"
    with loop_device(other) as unasked:
        before = digest(device)
        data = experiment_on(device, "write", destroy=True)
        code, text = door(data, tmp_path, "--destroy-data", unasked)
        assert code == 2, text
        assert "--destroy-data" in text
        assert digest(device) == before
        assert not any(other.read_bytes())


@needs_root
@pytest.mark.parametrize("device", ["blank"], indirect=True)
def test_with_consent_a_blank_device_is_measured(tmp_path, device):
    """And what is left there counts as ours: the next consent needs no second yes."""
    file = written(tmp_path, experiment_on(device, "write", destroy=True))
    before = digest(device)
    for number in (1, 2):
        out = ("--out", tmp_path / f"r{number}")
        code, text = call("run", file, "--trust", "--destroy-data", device, *out)
        assert code == 0, text
        assert digest(device) != before
    with pytest.raises(SpecError, match="have not allowed"):
        admit(read_experiment(file), Permission(trust=True))


@needs_root
@pytest.mark.parametrize("device", ["ext4"], indirect=True)
def test_a_resume_loads_a_device_with_data_only_with_a_yes(tmp_path, device):
    """Also where an earlier command line had said it: a disk may be in use by now."""
    before = digest(device)
    agreed = Permission(trust=True, in_use=True)
    create(admit(experiment_of(experiment_on(device, "read"), "e.toml"), agreed), tmp_path / "r")
    code, text = call("run", "--resume", "r")
    assert (code, "it holds a ext4 signature" in text) == (2, True), text
    assert "--read-only" in text
    code, text = call("run", "--resume", "r", "--trust", "--dry-run")
    assert code == 0, text
    assert digest(device) == before


def test_a_dry_run_of_a_resume_shows_what_is_left_and_measures_nothing(tmp_path):
    file = written(tmp_path, document(**KINDS_OF_FILES["sim"]))
    assert call("run", file, "--out", "r")[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()}
    code, text = call("run", "--resume", "r", "--blocks", 3, "--sessions", 2)
    assert (code, "--sessions would change nothing" in text) == (2, True)
    code, text = call("compare", "--resume", "r", "--seed", 3, "--", "true")
    assert (code, "--seed, command would change nothing" in text) == (2, True)
    code, text = call("run", "--resume", "r", "--blocks", 3, "--dry-run")
    assert code == 0, text
    assert "4 runs in 2 blocks" in text  # a simulation has no A/A arm
    after = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()}
    assert after == before
    assert call("run", "--resume", "r", "--blocks", 3)[0] == 0
    assert len((tmp_path / "r" / "runs.jsonl").read_text().splitlines()) == 6
