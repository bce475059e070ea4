"""fio jobs that reach outside of their target, tried against the check of options, and without it:
then the kernel alone holds them. 0 sectors of another device, 0 files outside."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from test_confinement import tree, written

from schedlab.errors import SpecError
from schedlab.kinds.fio_job import FioJob
from schedlab.run import launch
from schedlab.run.confinement import HeldDevice, Wall
from schedlab.run.launch import WorkGroup

DATA = Path(__file__).parents[1] / "data" / "hostile-fio-jobs.toml"
HOSTILE = tomllib.loads(DATA.read_text(encoding="utf-8"))
# Accepted, because fio reads no option in them that would reach outside.
HARMLESS = {"log in the name"}
# Some that do their harm anywhere, of every kind.
HARMFUL = ("absolute filename", "indented filename", "filename of a device", "up and away",
           "a later global", "directory", "format of names", "opendir", "read_iolog",
           "redirected replay", "write_bw_log", "filedelete", "exec_prerun", "engine libaio",
           "comment in the middle", "two sections of one name")  # fmt: skip

pytestmark = [
    pytest.mark.usefixtures("root_with_loop"),
    pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio"),
]


class Case:
    """A job file in a directory of its own, beside what it reaches for."""

    def __init__(self, home: Path, name: str, victim: str) -> None:
        self.victim, self.outside, self.target = victim, home / "outside", home / "target"
        here = home / "jobs"
        for directory in (self.outside, self.target, here):
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
        environment = {"PLACE": str(self.outside), "PLACE_OF_DEVICE": victim}
        self.kind = FioJob(job_file=str(self.job), environment=environment)
        self.before = self.state()

    def state(self) -> tuple[object, ...]:
        setting = Path("/proc/sys/vm/dirty_ratio").read_text()
        return tree(self.outside.parent / "outside"), written(self.victim), setting

    def run(self, held: str) -> None:
        """fio itself, as a measurement starts it."""
        wall = Wall(HeldDevice.at(Path(held)))
        group = WorkGroup(None, "test", wall)
        device = wall.device_path(self.kind)
        tokens = {"dir": self.target, "device": device, "run": "1", "seed": "1"}
        order = launch.launch_of(self.kind, "", tokens, group, timeout_s=20)
        try:
            launch.run(order, group)
        finally:
            group.end()


@pytest.fixture
def victim(new_loop: Callable[..., str]) -> str:
    device = new_loop()
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    return device


@pytest.mark.parametrize("name", HOSTILE["jobs"])
def test_the_check_refuses_it_and_reading_it_changes_nothing(
    name: str, tmp_path: Path, victim: str
) -> None:
    case = Case(tmp_path, name, victim)
    if name in HARMLESS:
        case.kind.check("w")
    else:
        with pytest.raises(SpecError) as caught:
            case.kind.check("w")
        assert caught.value.hint
    assert case.state() == case.before


@pytest.mark.parametrize("name", HOSTILE["jobs"])
def test_without_the_check_the_kernel_holds_it(
    name: str, tmp_path: Path, victim: str, new_loop: Callable[..., str]
) -> None:
    case = Case(tmp_path, name, victim)
    case.run(new_loop())
    assert case.state() == case.before


def test_jobs_do_harm_where_nothing_holds_them(tmp_path: Path, victim: str) -> None:
    """The tests above can fail."""
    for number, name in enumerate(HARMFUL):
        home = tmp_path / str(number)
        home.mkdir()
        case = Case(home, name, victim)
        environment = {**os.environ, **case.kind.environment}
        subprocess.run(
            case.kind.command(), cwd=case.target, env=environment, check=False, timeout=20,
            capture_output=True,
        )  # fmt: skip
        assert case.state() != case.before, name
