"""The tour's wheels, installed into an environment of its own, and the settings of its scenes."""

import fcntl
import os
import subprocess
import sys
import sysconfig
import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path

import pytest
from fleet_hosts import fleet_hosts
from loops import loop_device
from printed import ROOT
from shell import Shell

NOT_IN_THE_WHEEL = ("__pycache__", ".so", ".pyc", "pyproject.toml")
# Programs of other packages that schedlab starts.
PROGRAMS = ("ansible*",)
SIZE_BYTES = 256 << 20
DATA = ROOT / "tests" / "data"


def wheels() -> list[Path]:
    """Both wheels of these sources, that of the core first: those of `dist/`, or new ones."""
    for _ in range(2):
        found = sorted((ROOT / "dist").glob("schedlab*.whl"))
        if len(found) == 2 and are_of_sources(found):
            return found
        subprocess.run([ROOT / "packaging" / "wheel", "quick"], check=True)
    raise AssertionError("dist/ has no wheels of these sources")


def are_of_sources(paths: list[Path]) -> bool:
    """Whether they hold the Python files and the documents as they are now, and no older Rust."""
    packed = {}
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            packed |= {each.filename: each.CRC for each in archive.infolist()}
    sources = {}
    for root in ("python", "docs", "ansible"):
        for file in (ROOT / root).rglob("*"):
            if file.is_file() and not any(part in str(file) for part in NOT_IN_THE_WHEEL):
                within = file.relative_to(ROOT / root)
                name = within if root == "python" else Path("schedlab") / root / within
                sources[str(name)] = zlib.crc32(file.read_bytes())
    packages = ("schedlab/", "schedlab_sim/")
    packed = {name: crc for name, crc in packed.items()
              if name.startswith(packages) and not name.endswith(".so")}  # fmt: skip
    built = min(path.stat().st_mtime for path in paths)
    rust = [*(ROOT / "crates").rglob("*.rs"), *(ROOT / "crates").rglob("*.toml")]
    return packed == sources and all(file.stat().st_mtime < built for file in rust)


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """(the directory of the environment, the wheel of the core): made once for all processes."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    place = shared / "tour"
    with (shared / "tour.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        paths = wheels()
        if not place.exists():
            _install(paths, place)
    return place, paths[0]


def _install(paths, place):
    """An environment with these wheels alone; other packages are those of this Python."""
    place.mkdir(mode=0o755)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", place / "venv" / "bin" / "python"]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*pip, "install", *options, *paths], check=True)
    (site,) = (place / "venv").glob("lib/python3*/site-packages")
    subprocess.run([sys.executable, "-m", "compileall", "-q", site], check=True)
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for pattern in PROGRAMS:
        for program in Path(sys.executable).parent.glob(pattern):
            (place / "venv" / "bin" / program.name).symlink_to(program)
    sudo = place / "venv" / "bin" / "sudo"
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)


@pytest.fixture
def place(tmp_path):
    """A directory for a shell: it works in `work`, which is empty at first."""
    tmp_path.chmod(0o755)
    for name in ("work", "output"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    return tmp_path


@pytest.fixture
def names(installed, place):
    """What the words of a table in braces stand for; a setting adds its own."""
    (site,) = (installed[0] / "venv").glob("lib/python3*/site-packages")
    docs = site / "schedlab" / "docs"
    return {"wheel": str(installed[1]), "data": str(DATA), "docs": str(docs)}


@pytest.fixture
def need(installed, place, names):
    """A function that makes one of the settings of a scene; all end with the test."""
    with ExitStack() as stack:

        def make(setting):
            if setting == "device":
                path = stack.enter_context(loop_device(place / "disk", SIZE_BYTES))
                Path(f"/sys/block/{Path(path).name}/queue/scheduler").write_text("none")
                names["loop"], names["short"] = path, Path(path).name
            elif setting == "fleet":
                names.update(stack.enter_context(fleet_hosts(place, installed[0] / "venv" / "bin")))
            else:
                raise ValueError(f"no setting {setting}")

        yield make


@pytest.fixture
def start(installed, place, need):
    """A function that starts a shell: a plain one, or root's."""
    shells = []

    def begin(is_plain):
        program = installed[0] / "venv" / "bin"
        environment = {
            "PATH": f"{program}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(place / "work"),
            "LANG": "C.UTF-8", "COLUMNS": "100",
        }  # fmt: skip
        if not is_plain:
            environment["HOME"] = "/srv/home"  # Sockets of ssh have a short path.
            environment["SCHEDLAB_STATE_DIR"] = str(place / "state")
            environment["SCHEDLAB_VAR_DIR"] = str(place / "var")
        packages = Path(sysconfig.get_path("purelib"))
        reach = [Path(sys.base_prefix), packages, installed[0], place, DATA]
        shells.append(Shell(place, environment, reach if is_plain else None))
        return shells[-1]

    yield begin
    for each in shells:
        each.close()
