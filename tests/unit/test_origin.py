"""What another user or machine made is resumed at no door without --trust."""

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from calls import call

from schedlab.app import admit as admission
from schedlab.app.admit import admit
from schedlab.app.fleet import boots
from schedlab.app.measure import measure
from schedlab.app.measure.files import experiment_of
from schedlab.app.tune import tune
from schedlab.design.boots import BootKind, plan_boots
from schedlab.errors import SpecError
from schedlab.host.safety import origin
from schedlab.kinds import command
from schedlab.nouns import to_json
from schedlab.nouns.checked_line import decode, encode, seal, unseal
from schedlab.run.admitted import Permission
from schedlab.run.cpu import cpu_policy
from schedlab.store.folder import Folder
from schedlab.tune.search import Match
from schedlab.tune.space import SchedulerSpace, Space, Tunable

MINE = Permission(trust=False)
DOCUMENT = {
    "kind": "cpu", "seed": 1, "candidates": ["other"], "stopping": {"blocks": 1},
    "workloads": [{"label": "w", "kind": "cpu-command", "metric": "elapsed_s",
                   "parameters": {"argv": ["true"]}}],
}  # fmt: skip
DOORS = [
    ("run",), ("run", "--blocks", 3), ("compare",), ("compare", "--budget", "9s"), ("live",),
    ("cpu", "compare"), ("cpu", "sweep"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_state(tmp_path, state, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path):
    """One that this user made, whose program was allowed."""
    admitted = admit(experiment_of(DOCUMENT, "e.toml"), Permission())
    return measure.create(admitted, tmp_path / "r")


def elsewhere(monkeypatch, tmp_path):
    """From now on this is another machine, or another user."""
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "other state"))


def changed(folder, old, new):
    """The experiment with something replaced, and a checksum that is right again."""
    file = folder.path / "experiment.toml"
    text = unseal(file.read_bytes()).decode()
    assert old in text
    file.write_text(seal(text.replace(old, new)))


def resumed(door, path, *words):
    return call(*door, "--resume", path, "--dry-run", *words)


@pytest.mark.parametrize("door", DOORS)
def test_no_door_resumes_a_folder_from_elsewhere_without_trust(folder, door, monkeypatch, tmp_path):
    code, text = resumed(door, folder.path)
    assert code == 0, text
    elsewhere(monkeypatch, tmp_path)
    for path in (folder.path, Path("r"), Path("link")):
        if path == Path("link"):
            path.symlink_to("r")
        code, text = resumed(door, path)
        assert (code, f"{path}: comes from elsewhere" in text) == (2, True), text
        assert "--trust" in text
    code, text = resumed(door, folder.path, "--trust")
    assert (code, "true" in text) == (0, True), text


@pytest.mark.parametrize("door", DOORS)
def test_a_change_of_ones_own_folder_makes_it_one_from_elsewhere(folder, door):
    changed(folder, '"true"', '"false"')
    code, text = resumed(door, folder.path)
    assert (code, "comes from elsewhere" in text) == (2, True), text


@pytest.mark.parametrize("door", DOORS)
def test_no_door_resumes_with_another_program(door, monkeypatch, tmp_path):
    """Its second half would be another measurement, whoever changed the program."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    argv = ["nice", "-n", "1", str(program)]
    document = {
        **DOCUMENT,
        "workloads": [{**DOCUMENT["workloads"][0], "parameters": {"argv": argv}}],
    }
    made = measure.create(admit(experiment_of(document, "e.toml"), Permission()), tmp_path / "p")
    assert resumed(door, made.path)[0] == 0
    program.write_text("#!/bin/sh\nexit 0\n")
    for words in ((), ("--trust",)):
        code, text = resumed(door, made.path, *words)
        assert (code, f"{program}: not as it was" in text) == (2, True), text
    assert "start a new experiment without --resume" in text
    # Measured again, it is a new experiment: with the program that is there now.
    again = replace(made.record().experiment, seed=2)
    new = measure.create(admit(again, Permission()), tmp_path / "new")
    assert resumed(door, new.path)[0] == 0


def test_a_file_from_elsewhere_loads_no_scheduler_without_trust(monkeypatch, tmp_path):
    """Its program runs with the rights of schedlab, and nothing confines it."""
    monkeypatch.setattr(cpu_policy, "refuse_ext", lambda root: None)
    loader = tmp_path / "loader"
    loader.write_text("#!/bin/sh\n")
    loader.chmod(0o755)
    settings = {"policy": "ext", "ext": str(loader), "ext_args": "--fast"}
    work = {"label": "w", "kind": "pipe", "metric": "elapsed_s"}
    document = {**DOCUMENT, "candidates": ["other", {"label": "x", "settings": settings}],
                "workloads": [work]}  # fmt: skip
    asked = experiment_of(document, "e.toml")
    with pytest.raises(SpecError, match=f"wants to run {loader} --fast"):
        admit(asked, MINE)
    admitted = admit(asked, Permission())
    assert admitted.experiment.digests.keys() == {str(loader)}


def test_a_file_from_elsewhere_has_no_other_file_read_without_trust(monkeypatch, tmp_path):
    """It could name a whole disk: `copy_in = "/usr"`."""
    read = []
    for module in (admission, command):
        monkeypatch.setattr(module, "sha256_of", lambda path: read.append(str(path)) or "x")
    parameters = {"argv": ["true"], "copy_in": "/usr", "copy_in_sha256": "0"}
    work = {**DOCUMENT["workloads"][0], "kind": "command", "parameters": parameters}
    place = {"kind": "directory", "path": str(tmp_path), "size_bytes": "8M"}
    document = {**DOCUMENT, "kind": "io", "candidates": ["as-is"], "workloads": [work]}
    asked = experiment_of({**document, "aa_arm": False, "target": place}, "e.toml")
    with pytest.raises(SpecError, match="wants to run"):
        admit(asked, MINE)
    assert not read
    admit(asked, Permission())
    assert {"/usr", shutil.which("true")} == set(read)


def test_neither_a_copied_seal_nor_none_nor_that_of_another_text_is_ours(folder, tmp_path):
    first = (folder.path / "experiment.toml").read_text()
    own = next(line for line in first.splitlines() if line.startswith("# seal "))
    other = experiment_of({**DOCUMENT, "seed": 2}, "e.toml")
    for line in (own, "", "# seal ", f"{own}0", own.upper().replace("# SEAL", "# seal")):
        folder.write_experiment(other)
        file = folder.path / "experiment.toml"
        file.write_text(seal(unseal(file.read_bytes()).decode() + f"{line}\n"))
        with pytest.raises(SpecError, match="comes from elsewhere"):
            measure.admitted_rest(folder, None, None, MINE)
    folder.write_experiment(other, origin.seal_of)
    assert measure.admitted_rest(folder, None, None, MINE)


def test_it_moves_and_is_extended_and_stays_ones_own(folder, tmp_path):
    moved = folder.path.rename(tmp_path / "moved")
    measure.budget.extend(Folder(moved), measure.admitted_rest(Folder(moved), 3, None, MINE)[1])
    assert resumed(("run",), moved)[0] == 0
    # A result that is put together from others was allowed by nobody.
    record = Folder(moved).record()
    joined = Folder.create(tmp_path / "joined", record.experiment, record.plan, record.host)
    assert resumed(("run",), joined.path)[0] == 2


def test_the_api_trusts_as_the_command_line(folder, monkeypatch, tmp_path):
    elsewhere(monkeypatch, tmp_path)
    with pytest.raises(SpecError, match="comes from elsewhere"):
        measure.resume(folder.path)


def test_a_secret_that_others_could_know_is_replaced(folder, state):
    file = state / "lasting/secret"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()
    for spoil in (
        lambda: file.chmod(0o640), lambda: file.write_bytes(b"short"),
        lambda: file.write_bytes(before * 2),
        lambda: (file.unlink(), file.symlink_to("/dev/zero")),
        lambda: (file.unlink(), os.mkfifo(file, 0o600)),
        *([lambda: os.chown(file, 65534, 65534)] if not os.geteuid() else []),
    ):  # fmt: skip
        spoil()
        assert resumed(("run",), folder.path)[0] == 2
        assert origin.is_ours("text", origin.seal_of("text"))
        assert file.read_bytes() != before and len(file.read_bytes()) == origin.SECRET_BYTES
    assert sorted(path.name for path in file.parent.iterdir()) == ["secret"]
    file.unlink()
    file.mkdir()  # no place for it: nothing is sealed, and nothing is ours
    assert origin.seal_of("text") == "" and not origin.is_ours("text", "")


def space(*names):
    return Space((SchedulerSpace("as-is", tuple(Tunable(name, 1, 9) for name in names)),))


@pytest.fixture
def tuning(tmp_path):
    pytest.importorskip("optuna")
    (tmp_path / "d").mkdir()
    base = experiment_of({
        "seed": 1, "candidates": [{"label": "as-is", "settings": {"scheduler": "as-is"}}],
        "target": {"kind": "directory", "path": str(tmp_path / "d"), "size_bytes": "8M"},
        "workloads": [{"label": "w", "kind": "command", "metric": "elapsed_s",
                       "parameters": {"argv": ["true"]}}],
        "aa_arm": False,
    }, "e.toml")  # fmt: skip
    question = tune.TuningRequest(space("workload.depth"))
    return tune.start(base, question, tmp_path / "t", Permission())[0]


def test_a_search_is_resumed_where_it_was_made(tuning, monkeypatch, tmp_path):
    path = tuning.path
    assert tune.load(path, MINE)[1].permission.trust
    assert resumed(("tune",), path)[0] == 0
    question = (path / "tune.json").read_text()
    changed_question = {**json.loads(question), "space": to_json(space("sysctl.vm.swappiness"))}
    (path / "tune.json").write_text(json.dumps(changed_question))
    assert "comes from elsewhere" in resumed(("tune",), path)[1]
    (path / "tune.json").write_text(question)
    assert tune.load(path, MINE)
    # A second experiment, which the end of the search would measure, is one, too.
    shutil.copytree(path / "search", path / "verdict")
    assert tune.load(path, MINE)
    changed(Folder(path / "verdict"), '"true"', '"false"')
    assert "comes from elsewhere" in resumed(("tune",), path)[1]
    shutil.rmtree(path / "verdict")
    elsewhere(monkeypatch, tmp_path)
    assert "comes from elsewhere" in resumed(("tune",), path)[1]
    assert resumed(("tune",), path, "--trust")[0] == 0


def test_a_search_is_resumed_with_its_programs(tuning, monkeypatch, tmp_path):
    (tmp_path / "true").write_text("#!/bin/sh\n")
    (tmp_path / "true").chmod(0o755)
    shutil.copytree(tuning.path / "search", tuning.path / "verdict")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    code, text = resumed(("tune",), tuning.path)
    assert (code, f"{tmp_path / 'true'}: not as it was" in text) == (2, True), text


def test_a_search_tries_only_what_is_in_its_space(tuning):
    settings = {"scheduler": "as-is", "sysctl.kernel.core_pattern": "|/bin/sh"}
    tuning.lines.append({**vars(Match(0, 1, 0, settings, has_aa=False)), "spent_s": 1.0})
    with pytest.raises(
        SpecError, match=r"line 1: 'sysctl.kernel.core_pattern' is not in the space"
    ):
        tune.load(tuning.path, MINE)


def test_a_search_has_tried_the_tunables_of_every_scheduler(tuning):
    second = SchedulerSpace("bfq", (Tunable("slice_idle", 0, 9),))
    both = replace(tuning.question.space, schedulers=(*tuning.question.space.schedulers, second))
    asked = replace(tuning, question=replace(tuning.question, space=both))
    tried = Match(0, 1, 0, {"scheduler": "bfq", "slice_idle": 2}, has_aa=False)
    tune._check_searched(asked, tried, "line 1")
    with pytest.raises(SpecError, match="'slice_idle' is not in the space"):
        tune._check_searched(tuning, tried, "line 1")


def test_boots_from_elsewhere_run_nothing_without_trust(monkeypatch, tmp_path):
    """Their plan names a program that sets the next boot, beside those of the experiment."""
    line = "touch ran; cat"
    plan = plan_boots(
        experiment_of(DOCUMENT, "e.toml"), [BootKind("a", "1"), BootKind("b", "2")], 2, "", line
    )
    monkeypatch.setattr(boots, "running", lambda: ("1", ""))
    monkeypatch.chdir(tmp_path)
    boots.create(tmp_path / "b", plan, Permission())
    (tmp_path / "ran").unlink()  # by who made the plan, to see that it works
    for more in ((), ("--boots", 9)):
        elsewhere(monkeypatch, tmp_path)
        code, text = call("boots", "next", "b", *more)
        assert (code, "comes from elsewhere" in text) == (2, True), text
    file = tmp_path / "b/boots.json"
    record = decode(file.read_bytes().removesuffix(b"\n"))
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    assert boots.Boots(tmp_path / "b").is_ours
    file.write_text(encode({**record, "command": "touch ran"}) + "\n")
    code, text = call("boots", "next", "b")
    assert (code, "comes from elsewhere" in text) == (2, True), text
    assert not (tmp_path / "ran").exists()


def test_the_next_boot_measures_the_same_programs(monkeypatch, tmp_path):
    kinds = [BootKind("a", "1"), BootKind("b", "2")]
    monkeypatch.setattr(boots, "running", lambda: ("1", ""))
    plan = plan_boots(experiment_of(DOCUMENT, "e.toml"), kinds, 2, "", "true")
    made = boots.create(tmp_path / "b", plan, Permission())
    (tmp_path / "true").write_text("#!/bin/sh\n")
    (tmp_path / "true").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(SpecError, match="true: not as it was"):
        made._measure(0, Permission(), measure.SILENT)
    assert made.events == boots.Boots(tmp_path / "b").events and not made.done
