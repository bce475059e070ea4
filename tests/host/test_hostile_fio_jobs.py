"""fio jobs that reach outside of their target, tried against the check of options, and without it:
then the kernel alone holds them. 0 sectors of another device, 0 files outside."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from device_states import EXT4, mounted, written
from loops import loop_device
from test_confinement import tree

from schedlab.errors import SpecError
from schedlab.kinds.fio_job import FioJob
from schedlab.run.command import launch
from schedlab.run.command.confinement import HeldDevice, Wall
from schedlab.run.command.launch import WorkGroup

DATA = Path(__file__).parents[1] / "data" / "hostile-fio-jobs.toml"
HOSTILE = tomllib.loads(DATA.read_text(encoding="utf-8"))
# Some that do their harm anywhere, of every kind.
HARMFUL = ("absolute filename", "indented filename", "filename of a device", "up and away",
           "a later global", "directory", "format of names", "opendir", "read_iolog",
           "redirected replay", "write_bw_log", "filedelete", "exec_prerun", "engine libaio",
           "comment in the middle", "two sections of one name", "section of a device",
           "section that goes up", "section in a format")  # fmt: skip

pytestmark = [
    pytest.mark.usefixtures("root_with_loop"),
    pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio"),
]


@dataclass(frozen=True)
class Devices:
    """What a job may reach for: two file systems, one of them mounted; and the target's device."""

    mounted: str
    place: Path
    unmounted: str
    held: str

    def state(self):
        return written(self.mounted), written(self.unmounted), tree(self.place)


@pytest.fixture(scope="module")
def devices(root_with_loop, tmp_path_factory):
    home = tmp_path_factory.mktemp("devices")
    with ExitStack() as stack:
        loops = [stack.enter_context(loop_device(home / f"{number}.img")) for number in range(3)]
        EXT4(loops[1])
        place = stack.enter_context(mounted(loops[0], home))
        (place / "precious").write_bytes(b"p" * 65536)
        # Reading it must write nothing either, and the first sync after a mount does.
        subprocess.run(["mount", "-o", "remount,noatime", place], check=True)
        os.sync()
        yield Devices(loops[0], place, loops[1], loops[2])


class Case:
    """A job file in a directory of its own, beside what it reaches for."""

    def __init__(self, home, name, devices, victim):
        self.devices, self.outside, self.target = devices, home / "outside", home / "target"
        here = home / "jobs"
        for directory in (home, self.outside, self.target, here):
            directory.mkdir()
        (self.outside / "precious").write_bytes(b"p" * 65536)
        number = Path(victim).stat().st_rdev
        words = {"OUTSIDE": str(self.outside), "VICTIM": victim, "HERE": str(here),
                 "NODE": f"{os.major(number)} {os.minor(number)}"}  # fmt: skip
        (home / "elsewhere.fio").write_text(f"filename={self.outside}/new\n")
        for file, text in {**HOSTILE["files"], "job.fio": HOSTILE["jobs"][name]}.items():
            filled = re.sub("OUTSIDE|VICTIM|HERE|NODE", lambda match: words[match[0]], text)
            (here / file).write_bytes(filled.encode())
        self.job = here / "job.fio"
        environment = {"PLACE": str(self.outside), "PLACE_OF_DEVICE": victim,
                       "TWO_LINES": f"inside\n:{self.outside}/new"}  # fmt: skip
        self.kind = FioJob(job_file=str(self.job), environment=environment)
        self.before = self.state()

    def state(self):
        setting = Path("/proc/sys/fs/lease-break-time").read_text()
        return tree(self.outside), setting, *self.devices.state()

    def run(self, held):
        """fio itself, as a measurement starts it; without a device the target is a directory."""
        wall = Wall(HeldDevice.at(Path(held)) if held else None)
        assert not wall.missing
        group = WorkGroup(None, "test", wall)
        device = wall.device_path(self.kind)
        tokens = {"dir": self.target, "device": device, "run": "1", "seed": "1"}
        order = launch.launch_of(self.kind, "", tokens, group, timeout_s=20)
        try:
            launch.run(order, group)
        finally:
            group.end()


def cases(home, name, devices):
    """The job with each file system as what it reaches for; one case where it names neither."""
    names_device = re.search("VICTIM|NODE|PLACE_OF_DEVICE|HERE|/dev", HOSTILE["jobs"][name])
    victims = (devices.unmounted, devices.mounted) if names_device else (devices.mounted,)
    for victim in victims:
        yield Case(home / Path(victim).name, name, devices, victim)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", HOSTILE["jobs"])
def test_the_check_refuses_it_and_reading_it_changes_nothing(name, tmp_path, devices):
    for case in cases(tmp_path, name, devices):
        with pytest.raises(SpecError) as caught:
            case.kind.check("w")
        assert caught.value.hint
        assert case.state() == case.before


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", HOSTILE["jobs"])
def test_without_the_check_the_kernel_holds_it(name, tmp_path, devices):
    """Whether the target is a device or a directory on the file system of the victims' files."""
    for number, held in enumerate((devices.held, "")):
        home = tmp_path / str(number)
        home.mkdir()
        *_, case = itertools.islice(cases(home, name, devices), number + 1)
        case.run(held)
        assert case.state() == case.before, (held, case.devices)


@pytest.mark.sampled(3)
def test_jobs_do_harm_where_nothing_holds_them(tmp_path, devices):
    """The tests above can fail. (fio itself spares a mounted device unless the job insists.)"""
    for name in HARMFUL:
        home = tmp_path / name.replace(" ", "-")
        home.mkdir()
        case = next(cases(home, name, devices))
        environment = {**os.environ, **case.kind.environment}
        subprocess.run(
            case.kind.command(), cwd=case.target, env=environment, check=False, timeout=20,
            capture_output=True,
        )  # fmt: skip
        assert case.state() != case.before, name
