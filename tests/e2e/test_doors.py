"""Doors × states of a device × kinds of work, by whole commands: 0 sectors on what is not ours.

Some doors ask for the device itself, with the user's consent: its state refuses it. Others work on
a target of their own and reach for the device: the kernel holds them, and the check of fio's jobs
besides.
"""

import os
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from calls import call
from device_states import EXT4, STATES, is_swapped_to, over_a_mounted_device, written
from loops import loop_device, needs_root
from test_one_door import CONSENTING, experiment_on, own_state

from schedlab.kinds import fio_reading

__all__ = ["own_state"]
RACE = "link that flips"
FOREIGN = {
    **{name: state for name, (state, _) in STATES.items()},
    "over a mounted device": over_a_mounted_device,
}
pytestmark = [needs_root, pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")]


@contextmanager
def flipping(link, ours, foreign):
    """A link that leads to two devices by turns, as fast as it can."""
    ended = threading.Event()
    link.symlink_to(ours)

    def flip():
        while not ended.is_set():
            for device in (foreign, ours):
                new = link.with_suffix(".new")
                new.symlink_to(device)
                new.replace(link)
                ended.wait(0.001)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def foreign_device(state, directory):
    """(the path that is typed, the device that nobody may write to)."""
    with loop_device(directory / "foreign.img") as device:
        if state == RACE:
            EXT4(device)
            link = directory / "link"
            with loop_device(directory / "ours.img") as ours, flipping(link, ours, device):
                yield str(link), device
        else:
            with FOREIGN[state](device, directory) as other:
                yield other if isinstance(other, str) else device, device


def harm(path):
    """A shell line that writes to a device by its path, by a node and through its starter."""
    number = Path(path).stat().st_rdev
    node = f"mknod node b {os.major(number)} {os.minor(number)}"
    write = "dd if=/dev/urandom bs=64k count=1 conv=notrunc oflag=direct of="
    opened = f"for f in /proc/$PPID/fd/*; do test -b $f && {write}$f; done"
    rest = f"{write}/proc/$PPID/root{path}; blkdiscard -f {path}"
    return f"{write}{path}; {node}; {write}node; {opened}; {rest}; true"


def job_file(path, filename):
    path.write_text(f"[j]\nrw=write\nbs=64k\nsize=64k\ndirect=1\nfilename={filename}\n")
    return path


SHORT = ("--schedulers", "none", "--blocks", 1, "--no-aa")
OWN = ("--ignore-exit", "--rehearse")
IO = ("compare", "--anyway")


def ask(*held):
    """A command on the device, which the user names."""
    return lambda path, here: call(
        "compare", "--device", path, "--destroy-data", path, *SHORT, *held, "--out", here / "r",
        "--", "sh", "-c", "dd if=/dev/zero of=@device@ bs=64k count=1 oflag=direct",
    )  # fmt: skip


def ask_fio(path, here):
    job = job_file(here / "job.fio", "${SCHEDLAB_DEVICE}")
    return call("compare", "--device", path, "--destroy-data", path, *SHORT, "--fio", job,
                "--out", here / "r")  # fmt: skip


def ask_by(door):
    """A door of built-in work."""
    return lambda path, here: door(
        experiment_on(path, "write", destroy=True), here, "--destroy-data", path
    )


def reach(*target, command=(*IO, *SHORT), phase=""):
    """A command on a target of its own that writes to the device."""

    def door(path, here):
        (here / "place").mkdir()
        named = [str(here / "place") if word == "PLACE" else word for word in target]
        setup = ("--setup", harm(path)) if phase else ()
        line = "true" if phase else harm(path)
        return call(*command, *named, *OWN, *setup, "--", "sh", "-c", line)

    return door


def reach_fio(path, here):
    job = job_file(here / "job.fio", path)
    return call("compare", "--scratch", "16M", *SHORT, "--fio", job, "--rehearse", "--anyway")


def reach_fio_unchecked(path, here):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fio_reading, "check", lambda *words: None)
        return reach_fio(path, here)


ASKING = {
    "ask: a command": ask(), "ask: a command, --confine": ask("--confine"),
    "ask: a command, --unconfined": ask("--unconfined"), "ask: fio": ask_fio,
    **{f"ask: {door.__name__[8:]}": ask_by(door) for door in CONSENTING},
}  # fmt: skip
AS_IS = (*IO, "--schedulers", "as-is", *SHORT[2:])
CPU = ("cpu", "compare", "--policies", "other", "--blocks", 1, "--no-aa")
REACHING = {
    "reach: from a temporary device": reach("--scratch", "16M"),
    "reach: from one with a file system": reach("--scratch", "32M", "--fs", "ext4"),
    "reach: --confine": reach("--scratch", "16M", "--confine"),
    "reach: from a directory": reach("--directory", "PLACE", command=AS_IS),
    "reach: a setup": reach("--scratch", "16M", phase="setup"),
    "reach: under CPU policies": reach("--directory", "PLACE", command=CPU),
    "reach: fio": reach_fio, "reach: fio without the check": reach_fio_unchecked,
}  # fmt: skip
DOORS = {**ASKING, **REACHING}
EVERY = [
    (state, door)
    for state in (*FOREIGN, RACE)
    for door in DOORS
    if not (state == "blank" and door in ASKING)  # that is what a consent allows
]


@pytest.mark.sampled(23)
@pytest.mark.parametrize(("state", "door"), EVERY)
def test_no_sector_of_a_foreign_device_is_written(tmp_path, state, door):
    with foreign_device(state, tmp_path) as (path, device):
        before = written(device)
        code, text = DOORS[door](path, tmp_path)
        assert written(device) == before or is_swapped_to(device), text
        if state != RACE:
            assert code in ((2,) if door in ASKING or door == "reach: fio" else (0, 2)), text


def test_the_same_line_does_write_where_nothing_holds_it(tmp_path):
    """The test above can fail."""
    with foreign_device("ext4", tmp_path) as (path, device):
        before = written(device)
        code, text = reach("--scratch", "16M", "--unconfined")(path, tmp_path)
        assert code == 0, text
        assert written(device) > before
