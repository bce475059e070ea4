"""The root image of a guest: this installation, its interpreter and the tools that work needs.

It is an ext4 file system made by `mke2fs -d` without root, kept in the user's cache under a digest
of what is in it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import schedlab
from schedlab.errors import HostError
from schedlab.guest.cache import cache, keep_newest, making, require_space
from schedlab.package import PACKAGE

# Of the guest.
PYTHON, PACKAGES = Path("/opt/python"), Path("/opt/packages")
_DIRECTORIES = (
    *("proc", "sys", "dev", "run", "tmp", "root", "etc", "job", "mnt", "var/tmp", "var/lib"),
    *("usr/bin", "usr/sbin", "usr/lib", "usr/lib64"),
)
# What is never needed there; most of a third is tests.
_OMITTED = shutil.ignore_patterns(
    *("test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo", "site-packages"),
    *("config-3*", "__pycache__", "*.pyi", "*.a", "*.pxd", "dist-packages", "pydoc_data"),
)
_TOOLS = (
    *("sh", "bash", "cat", "cp", "mv", "rm", "ln", "ls", "mkdir", "mount", "umount", "dd", "sync"),
    *("sleep", "true", "false", "echo", "env", "stat", "touch", "chmod", "date", "id", "uname"),
    *("wc", "head", "tail", "sort", "cut", "tr", "tee", "seq", "test", "grep", "sed", "awk", "ldd"),
    *("find", "xargs", "tar", "gzip", "xz", "zstd", "kill", "nice", "ionice", "taskset", "chrt"),
    *("losetup", "blkid", "lsblk", "blockdev", "mke2fs", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"),
    *("dmesg", "timeout", "truncate", "fallocate", "fio", "hdparm", "iozone", "unshare", "setpriv"),
    *("sysctl", "readlink", "mktemp", "setsid", "ps", "nproc", "cmp", "sha256sum", "md5sum", "ip"),
    *("udevadm", "fusermount3", "fusermount", "swapoff", "swapon", "prlimit"),
)
_FILES = (*("/etc/mke2fs.conf", "/etc/os-release", "/usr/lib/os-release", "/etc/alternatives/awk"),)
# Of no machine: that of its users has names and accounts in them.
_WRITTEN = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "hostname": "schedlab\n",
}
# Where a guest, too, looks for programs.
SEARCHED = "/usr/bin:/usr/sbin:/bin:/sbin"
_LIBRARY = re.compile(r"(/\S+) \(0x")
_BYTES_MAX = 1 << 30
_SPACE = 4  # the tree, with libraries and bytecode, and the image of it
_FREE_SHARE = 1.03
_FIXED = {"PATH": SEARCHED, "LC_ALL": "C", "E2FSPROGS_FAKE_TIME": "1"}
_UUID = "5c4ed1ab-0000-4000-8000-000000000000"


def image() -> Path:
    """The image of this installation, made now when it is not in the cache, which keeps three.

    HostError where a tool is missing or the disk is full.
    """
    digest = digest_of(_sources())
    path = cache("images") / f"{digest[:32]}.img"
    if not path.exists():
        with making(path.parent):
            if not path.exists():  # another process has made it meanwhile
                _make(path)
    keep_newest(path)
    return path


def digest_of(sources: Iterable[tuple[Path, Path]]) -> str:
    """A digest of what would be in the image: every source with its size and time of change."""
    digest = hashlib.sha256(f"{schedlab.__version__} {sys.version} {_OWN}".encode())
    for source, target in sources:
        for path in sorted(_files_of(source)):
            status = path.stat()
            digest.update(f"{target} {path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


_OWN = hashlib.sha256((PACKAGE / "guest/image.py").read_bytes()).hexdigest()


def _files_of(source: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
        return
    for directory, names, files in os.walk(source):
        left_out = _OMITTED(directory, [*names, *files])
        names[:] = [name for name in names if name not in left_out]
        yield from (Path(directory) / name for name in files if name not in left_out)


def files() -> dict[Path, Path]:
    """The single files of this machine that are in the image, its programs, and where there."""
    return {source: target for source, target in _sources() if source.is_file()}


def _sources() -> list[tuple[Path, Path]]:
    """(here, in the guest) of everything but libraries."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    stdlib = Path(sysconfig.get_path("stdlib"))
    sources = [
        (Path(sys.executable).resolve(), PYTHON / "bin" / "python3"),
        (stdlib, PYTHON / "lib" / version),
        *(pair for name in ("schedlab", "schedlab_sim") for pair in _own(name)),
    ]
    for name in _distributions():
        sources += _content(metadata.distribution(name))
    for tool in _TOOLS:
        if found := shutil.which(tool, path=SEARCHED):
            sources.append((Path(found).resolve(), _merged(found)))
    for file in _FILES:
        if Path(file).exists():
            sources.append((Path(file).resolve(), Path(file)))
    return sources


def _own(name: str) -> list[tuple[Path, Path]]:
    """A package of ours, if it is installed: its directory, the libraries of its wheel, and its
    entry points, which an editable installation has elsewhere."""
    if not _is_installed(name):
        return []
    places = [PACKAGE.with_name(each) for each in (name, f"{name}.libs")]
    own = metadata.distribution(name)
    files = [file for file in own.files or () if str(file).endswith("/entry_points.txt")]
    return [
        *((place, PACKAGES / place.name) for place in places if place.is_dir()),
        *((Path(str(own.locate_file(file))), PACKAGES / file) for file in files),
    ]


def _merged(path: str | Path) -> Path:
    """The path in the guest, where /bin, /sbin and /lib are links to /usr."""
    text = str(path)
    return Path(f"/usr{text}" if text.startswith(("/bin/", "/sbin/", "/lib")) else text)


def _distributions() -> list[str]:
    """The run-time packages of schedlab, with theirs: no extras."""
    waiting, found = ["schedlab"], set[str]()
    while waiting:
        for text in metadata.distribution(waiting.pop()).requires or ():
            name = re.split(r"[^\w.-]", text, maxsplit=1)[0].lower().replace("_", "-")
            if ";" in text and "extra" in text.partition(";")[2]:
                continue
            if name not in found and _is_installed(name):
                found.add(name)
                waiting.append(name)
    return sorted(found)


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _content(distribution: metadata.Distribution) -> list[tuple[Path, Path]]:
    """The top directories and modules of a package, with its own libraries and its metadata."""
    tops = {Path(file).parts[0] for file in distribution.files or ()} - {".."}
    places = {top: Path(str(distribution.locate_file(top))) for top in tops}
    return [
        (place, PACKAGES / top)
        for top, place in sorted(places.items())
        if place.exists() and top not in ("bin", "__pycache__")
    ]


def _make(path: Path) -> None:
    """Lay out a tree, then make a file system of it that is as large as it must be."""
    for tool in ("mke2fs", "ldd"):
        if not shutil.which(tool, path=SEARCHED):
            raise HostError(f"{tool} is not installed", "apt install e2fsprogs libc-bin")
    content = sum(file.stat().st_size for source, _ in _sources() for file in _files_of(source))
    require_space(path.parent, _SPACE * content, "making a guest's root", "XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as place:
        tree = Path(place) / "root"
        _lay_out(tree)
        used = sum(max(f.lstat().st_size, 1) + 4095 >> 12 << 12 for f in tree.rglob("*"))
        size = (int(used * _FREE_SHARE) + (16 << 20)) >> 21 << 21  # nvdimm takes whole 2 MiB
        if used > _BYTES_MAX:
            raise HostError(f"the installation has {used >> 20} MiB", "install it by itself")
        new = Path(place) / "new.img"
        command = [
            *("mke2fs", "-q", "-t", "ext4", "-d", str(tree), "-U", _UUID, "-m", "0"),
            *("-O", "^has_journal,^resize_inode,^metadata_csum,^64bit", "-I", "128", "-b", "4096"),
            *("-E", f"hash_seed={_UUID},root_owner=0:0,lazy_itable_init=0", str(new)),
            f"{size >> 10}k",
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=_FIXED)
        if done.returncode:
            lines = done.stderr.strip().splitlines()[-1:]
            raise HostError(f"mke2fs: {''.join(lines)}", f"free space in {path.parent}")
        _set_times(new, tree)
        new.rename(path)


def _set_times(new: Path, tree: Path) -> None:
    """Fix the times of change and access, so that the same files are the same image."""
    names = [f"/{path.relative_to(tree)}" for path in sorted(tree.rglob("*"))]
    lines = "".join(
        f'set_inode_field "{name}" {field} @1\n'
        for name in ("/", *names)
        for field in ("ctime", "atime")
    )
    command = ["debugfs", "-w", "-f", "-", str(new)]
    subprocess.run(command, check=True, input=lines.encode(), capture_output=True, env=_FIXED)


def _lay_out(tree: Path) -> None:
    for name in _DIRECTORIES:
        (tree / name).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / name).symlink_to(f"usr/{name}")
    for source, target in _sources():
        _copy(source, tree / str(target).lstrip("/"))
    libraries = sorted(_libraries(tree))
    for library in libraries:
        _copy(Path(library).resolve(), tree / str(_merged(library)).lstrip("/"))
    _index(tree, {str(_merged(library).parent) for library in libraries})
    for name, text in _WRITTEN.items():
        (tree / "etc" / name).write_text(text, encoding="ascii")
    _compile(tree)
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (1, 1), follow_symlinks=False)


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=_OMITTED)
    else:
        shutil.copyfile(source, target)
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _libraries(tree: Path) -> set[str]:
    """Shared libraries of everything that was copied, as the loader of this machine finds them."""
    binaries = [source for source, _ in _sources() if _is_elf(source)]
    for source, _ in _sources():
        if source.is_dir():
            binaries += [path for path in _files_of(source) if _is_elf(path)]
    own = tuple(f"{source}/" for source, _ in _sources() if source.is_dir())
    found = libraries_of(map(str, binaries))
    return {path for path in found if not path.startswith(own) and "/../" not in path}


def _index(tree: Path, directories: set[str]) -> None:
    """The loader's cache of the libraries that are there: that of this machine changes with every
    library that is installed here, and the guest with it."""
    command = ["ldconfig", "-X", "-r", str(tree), *sorted(directories)]
    subprocess.run(command, check=False, capture_output=True, env=_FIXED)
    shutil.rmtree(tree / "var/cache", ignore_errors=True)  # It holds times of this machine.


def libraries_of(programs: Iterable[str]) -> set[str]:
    """The shared libraries of programs, as the loader of this machine finds them."""
    every, found = list(programs), set[str]()
    for start in range(0, len(every), 100):
        command = ["ldd", *every[start : start + 100]]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        found.update(match[1] for match in _LIBRARY.finditer(done.stdout))
    return found


def _is_elf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _compile(tree: Path) -> None:
    """Bytecode that is valid whatever the times of the files are."""
    places = [str(tree / str(place).lstrip("/")) for place in (PYTHON / "lib", PACKAGES)]
    command = [
        *(sys.executable, "-m", "compileall", "-q", "-f", "-s", str(tree), "-p", "/"),
        *("--invalidation-mode", "unchecked-hash", *places),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    subprocess.run(command, check=False, capture_output=True, env=environment)
