"""`schedlab fleet`: what its front makes of the events of Ansible, of archives and of answers."""

import subprocess
import sys
import tarfile

import pytest
from click.testing import CliRunner
from test_fleet import fleet_of

from schedlab.app.fleet import fleet
from schedlab.app.fleet.merge import merge
from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.nouns import Stopping, Target
from schedlab.store.folder import Folder


def event(kind, host, role="measure", **result):
    data = {"host": host, "role": role, "task": f"{role} : Wait", "res": result}
    return {"event": f"runner_{kind}", "event_data": data}


def test_each_host_has_a_line_for_what_it_does_and_the_reason_why_it_ended():
    hosts, lines = {}, []
    error = "ended 2\nerror: /mnt: is full\nhint: free space"
    for each in [
        event("on_start", "a", "install"), event("on_start", "b", "install"),
        event("on_start", "a"),
        event("retry", "a", stdout="runs 0 0", cmd=[]),
        event("retry", "a", stdout="runs 3 12", cmd=[]), event("retry", "a", stdout="runs 3 12"),
        event("on_unreachable", "b", msg="Task failed: no\nroute"), event("on_start", "b"),
        event("on_failed", "a", stdout=error, cmd=[], msg="non-zero return code"),
        event("on_failed", "c", stdout="died 4 12", cmd=[]),
        {"event": "verbose", "event_data": {}},
    ]:  # fmt: skip
        fleet.note(hosts, each, lambda *line: lines.append(line))
    assert lines == [
        ("a", "installing"), ("b", "installing"), ("a", "measuring"), ("a", "3 of 12 runs"),
        ("b", "not reached: no route"), ("a", "failed: /mnt: is full"),
        ("c", "failed: the measurement was killed, or the machine restarted, after 4 of 12 runs"),
    ]  # fmt: skip
    assert all(state.failed for state in hosts.values()) and hosts["a"].output == error


def archive_of(folder, path):
    with tarfile.open(path, "w:gz") as packed:
        packed.add(folder, "result")
    return path


def test_an_edited_folder_is_refused_and_leaves_the_last_one(tmp_path):
    (folder,) = fleet_of(tmp_path, [2.0])
    home = fleet.unpacked(archive_of(folder, tmp_path / "a.tar.gz"), tmp_path / "home")
    runs = (folder / "runs.jsonl").read_text()
    assert (home / "runs.jsonl").read_text() == runs
    (folder / "runs.jsonl").write_text(runs.replace("1002", "1003"))
    with pytest.raises(SpecError):
        fleet.unpacked(archive_of(folder, tmp_path / "b.tar.gz"), tmp_path / "home")
    assert (home / "runs.jsonl").read_text() == runs


def test_every_host_that_is_missing_is_named_and_counts_as_planned(tmp_path, monkeypatch):
    """Two that failed and two whose archives are refused, beside two that came home."""
    (tmp_path / "fleet.toml").touch()
    archives = tmp_path / "out" / "archives"
    archives.mkdir(parents=True)
    for number, folder in enumerate(fleet_of(tmp_path, [2.0, 2.0])):
        archive_of(folder, archives / f"h{number}.tar.gz")
    (archives / "c.tar.gz").write_text("no archive")
    states = {name: fleet.HostState() for name in ("h0", "c", "h1", "d")}
    states |= {name: fleet.HostState(f"failed: {name}", failed=True) for name in ("a", "b")}
    monkeypatch.setattr(fleet, "play", lambda *_: dict(states))
    words = ["fleet", "run", str(tmp_path / "fleet.toml"), "-i", "x", "--out",
             str(tmp_path / "out")]  # fmt: skip
    done = CliRunner().invoke(cli, words)
    lines = [line for line in done.output.splitlines() if line.startswith("missing: ")]
    assert [line.split(":")[1].strip() for line in lines] == ["a", "b", "c", "d"]
    assert lines[1] == "missing: b: failed: b" and ": refused: " in lines[2]
    assert done.exit_code == 1 and "hint: when they are well again: schedlab fleet" in done.output
    record = Folder.open(tmp_path / "out" / "answer").record()
    assert set(record.host["hosts"]) == {"h0", "h1"}
    assert record.plan.ends == (6 * record.plan.blocks // 2,)


def test_each_machine_gets_what_the_answer_of_its_kind_says(tmp_path):
    """A gains, but one of it is the opposite and one never had bfq; B is not settled."""
    factors = [2.0, 2.02, 1.98, 2.01, 2.0, 2.03, 1.99, None, 0.5, 3.0, 1.0]
    models = [*"AAAAAAAA", *"BBB"]
    target = Target("device", path="/dev/sda")
    paths = fleet_of(tmp_path, factors, models, target=target)
    merged = tmp_path / "all"
    merge(paths, merged, hosts=True)
    chosen, left = fleet.settings(merged)
    assert chosen == {f"h{n}": {"setting": "bfq", "device": "sda"} for n in range(7)}
    assert left["h7"] == "bfq was not measured there" and left["h9"].startswith("keep none")
    single = fleet_of(tmp_path / "single", [2.0])[0]
    with pytest.raises(SpecError, match="not of several machines"):
        fleet.settings(single)


def test_every_kind_has_an_answer_of_its_own(tmp_path):
    """All together keep none; two kinds of three gain."""
    models, gains = [*"AAAABBBBCCCC"], {"A": 2.0, "B": 1.9, "C": 0.5}
    factors = [gains[model] * (1 + number % 3 / 100) for number, model in enumerate(models)]
    paths = fleet_of(tmp_path, factors, models, target=Target("device", path="/dev/sda"))
    merge(paths, tmp_path / "all", hosts=True)
    chosen, left = fleet.settings(tmp_path / "all")
    assert sorted(chosen) == sorted(f"h{n}" for n in range(8))
    assert left == {f"h{n}": "keep none" for n in range(8, 12)}


def test_a_machine_that_is_the_opposite_is_left_alone(tmp_path):
    paths = fleet_of(tmp_path, [2.0, 2.05] * 11 + [0.97], stopping=Stopping(blocks=2))
    merged = tmp_path / "all"
    merge(paths, merged, hosts=True)
    chosen, left = fleet.settings(merged)
    assert len(chosen) == 22 and left == {"h22": "none is proven better than bfq there"}


def test_without_ansible_it_says_what_to_install(tmp_path):
    (tmp_path / "fleet.toml").touch()
    hidden = "import sys; sys.modules['ansible_runner'] = None; import schedlab.cli as c; c.main()"
    words = ["fleet", "run", "fleet.toml", "-i", "inventory"]
    done = subprocess.run([sys.executable, "-c", hidden, *words], cwd=tmp_path,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2
    assert "error: a fleet needs ansible_runner, which is not installed" in done.stderr
    assert "hint: pip install ansible-core ansible-runner" in done.stderr


def test_an_inventory_without_hosts_and_a_missing_one_are_errors(tmp_path):
    (tmp_path / "empty.ini").touch()
    for name, message in (("empty.ini", "Ansible did nothing"), ("none.ini", "no such inventory")):
        done = CliRunner().invoke(cli, ["fleet", "status", "-i", str(tmp_path / name)])
        assert message in str(done.exception), done.output
