"""Copies into a directory whose program put other things in their place."""

import os
from pathlib import Path

import pytest

from schedlab.errors import SpecError
from schedlab.kinds.command import Command
from schedlab.run.command.command_runs import CommandRuns
from schedlab.run.command.confinement import Wall
from schedlab.store.copying import copy_into


@pytest.fixture
def source(tmp_path):
    tree = tmp_path / "from" / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "file").write_text("copied")
    (tree / "link").symlink_to("below/file")
    (tree / "below" / "file").chmod(0o640)
    os.utime(tree / "below" / "file", ns=(1, 2))
    return tree


@pytest.fixture
def outside(tmp_path):
    place = tmp_path / "outside"
    (place / "below").mkdir(parents=True)
    (place / "precious").write_text("precious")
    return place


def in_the_way(kind: str, at: Path, outside: Path) -> None:
    if kind == "directory":
        (at / "sub").mkdir(parents=True)
        (at / "sub" / "link").symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(at)
    elif kind != "nothing":
        at.symlink_to(outside / {"to a file": "precious", "to a directory": ""}.get(kind, "none"))


WAYS = ("nothing", "directory", "pipe", "to a file", "to a directory", "to nothing")


@pytest.mark.parametrize("name", ["tree", "tree/below/file"])
@pytest.mark.parametrize("kind", WAYS)
def test_a_copy_replaces_what_a_program_put_there_and_follows_no_link(
    tmp_path, source, outside, kind, name
):
    (home := tmp_path / "home").mkdir()
    what = source.parent / name
    in_the_way(kind, home / what.name, outside)
    copy_into(home, what)
    file = home / what.name / "below" / "file" if name == "tree" else home / what.name
    about = file.lstat()
    assert (file.read_text(), about.st_mode & 0o777, about.st_mtime_ns) == ("copied", 0o640, 2)
    assert name != "tree" or str((home / "tree" / "link").readlink()) == "below/file"
    assert (outside / "precious").read_text() == "precious"
    assert sorted(path.name for path in outside.rglob("*")) == ["below", "precious"]


def test_what_would_never_end_is_not_copied(tmp_path, source):
    os.mkfifo(source / "below" / "pipe")
    (home := tmp_path / "home").mkdir()
    with pytest.raises(SpecError, match="pipe: is not a regular file"):
        copy_into(home, source)


def test_the_places_of_every_program_are_resolved_before_the_first_one_starts(tmp_path, outside):
    (place := tmp_path / "place").mkdir()
    (file := tmp_path / "input").write_text("")
    kinds = [
        Command(argv=("true",)),
        Command(argv=("true",), confine="files", writable=(str(place),), stdin=str(file)),
    ]
    wall = Wall()
    CommandRuns(None, wall, kinds)
    for path in (place, file):  # as the first one may do
        path.rename(path.with_name("moved"))
        path.symlink_to(outside)
        assert wall.place(str(path)) == str(path)
        path.with_name("moved").rename(tmp_path / f"moved-{path.name}")
