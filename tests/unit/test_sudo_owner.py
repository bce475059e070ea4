"""With sudo, results belong to the user who called it, where the directory is that user's."""

import os

import pytest
from calls import run

from schedlab.store import files

USER, GROUP = 12_345, 23_456
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as sudo does")


@pytest.fixture(autouse=True)
def sudo(monkeypatch):
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(GROUP))


def owners(place):
    return {(path.lstat().st_uid, path.lstat().st_gid) for path in place.rglob("*")}


@pytest.mark.parametrize("owner", [USER, 0, USER + 1])
def test_everything_that_commands_write_is_the_users_in_the_users_directory(
    tmp_path, monkeypatch, owner
):
    place = tmp_path / "home"
    place.mkdir()
    os.chown(place, owner, 7)
    monkeypatch.chdir(place)
    run("init", "file.toml")
    rows = "scheduler,test,repetition,value\n" + "".join(
        f"{name},read,{n},{n + 1}.{len(name)}\n" for name in ("none", "bfq") for n in range(6)
    )
    (tmp_path / "rows.csv").write_text(rows)
    columns = "--candidate scheduler --workload test --value value --unit s --block repetition"
    run("import", "csv", tmp_path / "rows.csv", *columns.split(), "--lower-is-better", "--out",
        "new/deeper/result")  # fmt: skip
    run("report", "new/deeper/result", "--html", "page.html")
    run("sim", "compare", "--workloads", "A", "--requests", 50, "--seeds", 2, "--out", "sweeps/one")
    run("sim", "run", "--requests", 50, "--seeds", 1, "--log", "requests.csv")
    run("sim", "run", "--scheduler", "bfq", "--seconds", 0.1, "--seeds", 1, "--gantt", "a.svg")
    assert len(list(place.rglob("*"))) > 16
    assert owners(place) == {(USER, GROUP) if owner == USER else (0, 0)}


def test_a_file_that_was_there_keeps_its_owner(tmp_path):
    os.chown(tmp_path, USER, GROUP)
    (tmp_path / "lines").write_text("")
    files.append_line(tmp_path / "lines", "x")
    files.append_line(tmp_path / "new", "x")
    (tmp_path / "there").mkdir()
    files.make_beneath(tmp_path, "there")
    files.make_directory(tmp_path / "there")
    uids = {path.name: path.stat().st_uid for path in tmp_path.iterdir()}
    assert uids == {"lines": 0, "new": USER, "there": 0}
