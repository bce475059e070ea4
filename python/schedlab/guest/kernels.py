"""Kernels that can be booted: those of this machine, Debian's packages, and the user's own.

kernels.find("6.12")             # the newest one of that version
kernels.find("bzImage")          # a file; its modules are looked for beside it
kernels.get("6.1")               # download a package, without root
"""

from __future__ import annotations

import lzma
import math
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, SpecError
from schedlab.guest.cache import cache, making
from schedlab.nouns.reading import open_regular

# Documentation/arch/x86/boot.rst: the magic number, and where the offset of the version is.
_MAGIC_AT, _MAGIC, _VERSION_AT, _SETUP_AT = 0x202, b"HdrS", 0x20E, 0x200
_HEADER_BYTES = 1 << 16
_PARTS = ("linux-base-", "linux-binary-", "linux-modules-")
_PACKAGE = re.compile(r"linux-image-(\d[^-]*(?:-\d+)?)-amd64")
# Where Debian has kernels that are newer than its release (sources.list(5)).
_SUITES, _KEYRING = (
    "stable stable-backports",
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
)
# What a kernel offers -> the option that gives it, built in or as a module.
OFFERS = {
    "mq-deadline": "CONFIG_MQ_IOSCHED_DEADLINE",
    "kyber": "CONFIG_MQ_IOSCHED_KYBER",
    "bfq": "CONFIG_IOSCHED_BFQ",
    "sched_ext": "CONFIG_SCHED_CLASS_EXT",
    "BPF": "CONFIG_DEBUG_INFO_BTF",
    "io.cost": "CONFIG_BLK_CGROUP_IOCOST",
    "zoned": "CONFIG_BLK_DEV_ZONED",
    "uclamp": "CONFIG_UCLAMP_TASK",
}
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
# Without these there is neither a root nor an emulated device.
_NEEDED = (
    "CONFIG_EXT4_FS",
    "CONFIG_OVERLAY_FS",
    "CONFIG_BLK_DEV_PMEM",
    "CONFIG_ACPI_NFIT",
    "CONFIG_DEVPORT",
)


@dataclass(frozen=True)
class Kernel:
    """A bootable kernel: its image, the directory of its modules, and its build options.

    `options` is empty where no config file is beside the image.
    """

    release: str
    image: Path
    modules: Path | None
    options: Mapping[str, str]

    @property
    def offers(self) -> tuple[str, ...]:
        """The names of `OFFERS` that its options give; empty where they are not known."""
        return tuple(name for name, option in OFFERS.items() if self._has(option))

    def has(self, offer: str) -> bool:
        """Whether it gives one of `OFFERS`, or may where its options are not known."""
        return not self.options or offer in self.offers

    @property
    def schedulers(self) -> tuple[str, ...]:
        """I/O schedulers; all where its options are not known."""
        known = self.offers if self.options else SCHEDULERS
        return tuple(name for name in SCHEDULERS if name == "none" or name in known)

    def quantum_ms(self, requested_ms: float) -> float:
        """The quantum of SCHED_RR that a request becomes: whole ticks, rounded up
        (msecs_to_jiffies in include/linux/jiffies.h); as requested where they are not known."""
        ticks_per_s = int(self.options.get("CONFIG_HZ") or 1000)
        return max(1, math.ceil(requested_ms * ticks_per_s / 1000)) * 1000 / ticks_per_s

    @property
    def lacks(self) -> tuple[str, ...]:
        """Options without which it cannot be booted here."""
        return tuple(each for each in _NEEDED if self.options and not self._has(each))

    def as_json(self) -> dict[str, Any]:
        """Release, path and what it offers."""
        about = {"release": self.release, "image": str(self.image), "offers": self.offers}
        return {**about, "options_known": bool(self.options), "lacks": self.lacks}

    def _has(self, option: str) -> bool:
        return self.options.get(option) in ("y", "m")

    @cached_property
    def _module_files(self) -> dict[str, Path]:
        paths = sorted(self.modules.rglob("*.ko*")) if self.modules else []
        return {path.name.split(".ko")[0].replace("-", "_"): path for path in paths}

    def module(self, name: str) -> bytes | None:
        """The content of a module, uncompressed; None where it is built in, or does not exist."""
        path = self._module_files.get(name.replace("-", "_"))
        if path is None:
            return None
        if path.suffix == ".xz":
            return lzma.decompress(path.read_bytes())
        if path.suffix in (".zst", ".gz"):
            program = {".zst": "zstd", ".gz": "gzip"}[path.suffix]
            return _output(program, "-dc", str(path))
        return path.read_bytes()

    def with_dependencies(self, names: Iterable[str]) -> dict[str, bytes]:
        """Those modules and what they need, in the order in which they can be loaded."""
        found: dict[str, bytes] = {}
        known: set[str] = set()

        def need(name: str) -> None:
            name = name.replace("-", "_")
            if name in known:
                return
            known.add(name)
            if (content := self.module(name)) is None:
                return
            for other in _depends(content):
                need(other)
            found[name] = content

        for name in names:
            need(name)
        return found


def _depends(module: bytes) -> list[str]:
    """Other modules that its section `.modinfo` names (include/linux/module.h)."""
    # The end of a line is the beginning of the next, which may be of the same name.
    fields = re.findall(rb"(?:^|\0)depends=([^\0]*)(?=\0)", module)
    soft = re.findall(rb"(?:^|\0)softdep=([^\0]*)(?=\0)", module)
    names = [name for field in fields for name in field.decode().split(",")]
    names += [word for field in soft for word in field.decode().split() if not word.endswith(":")]
    return [name for name in names if name]


def release_of(image: Path) -> str:
    """The release that a bzImage names in its header; SpecError for another file."""
    with open_regular(image, "name a kernel: `schedlab kernel list`") as file:
        head = file.read(_HEADER_BYTES)
    start = int.from_bytes(head[_VERSION_AT : _VERSION_AT + 2], "little") + _SETUP_AT
    words = head[start:].partition(b"\0")[0].decode("ascii", "replace").split()
    if head[_MAGIC_AT : _MAGIC_AT + 4] != _MAGIC or not words:
        raise SpecError(
            f"{image}: is not a kernel that can be booted (no bzImage of x86)",
            "name arch/x86/boot/bzImage of a built kernel, or a file /boot/vmlinuz-…",
        )
    return words[0]


def kernel_of(image: Path) -> Kernel:
    """A bzImage with the modules and options that are beside it, or in their usual place."""
    release = release_of(image)
    above = image.resolve().parents
    places = [root / "lib/modules" / release for root in (*above[:5], Path("/"))]
    places += [root / "usr/lib/modules" / release for root in above[:5]]
    modules = next((place for place in places if place.is_dir()), None)
    configs = [image.parent / f"config-{release}", *(root / ".config" for root in above[:4])]
    if modules:
        configs.append(modules / "config")
    return Kernel(release, image, modules, _options(configs))


def _options(paths: Iterable[Path]) -> dict[str, str]:
    for path in paths:
        if path.is_file() and os.access(path, os.R_OK):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            pairs = (line.partition("=") for line in lines if line.startswith("CONFIG_"))
            return {name: value.strip('"') for name, _, value in pairs}
    return {}


def every(boot: Path = Path("/boot")) -> list[Kernel]:
    """Those of this machine and those in the cache, oldest first; unreadable ones are omitted."""
    images = [*boot.glob("vmlinuz-*"), *cache("kernels").glob("*/boot/vmlinuz-*")]
    images += cache("kernels").glob("*/usr/lib/modules/*/vmlinuz")
    return sorted(_readable(images), key=lambda kernel: version_key(kernel.release))


def _readable(images: Iterable[Path]) -> Iterator[Kernel]:
    for image in images:
        if os.access(image, os.R_OK):
            try:
                yield kernel_of(image)
            except SpecError:
                continue


def version_key(release: str) -> list[int]:
    """For sorting releases: the numbers in it."""
    return [int(number) for number in re.findall(r"\d+", release)]


def find(name: str) -> Kernel:
    """The kernel of that file, or the newest one of that version; `running` is this machine's.

    SpecError that says how to get one.
    """
    if "/" in name or Path(name).is_file():
        return kernel_of(Path(name).absolute())  # qemu has a directory of its own
    wanted = platform.release() if name == "running" else name
    fitting = [kernel for kernel in every() if is_of(kernel.release, wanted)]
    if not fitting:
        known = ", ".join(kernel.release for kernel in every()) or "none"
        how = "name its bzImage" if name == "running" else f"schedlab kernel get {name}"
        raise SpecError(f"no kernel {wanted} is here (here: {known})", how)
    return fitting[-1]


def is_of(release: str, wanted: str) -> bool:
    """Whether a release is of a version: 6.12.117+deb12-amd64 is of 6.12, and of 6.12.117."""
    return release == wanted or (release.startswith(wanted) and not release[len(wanted)].isalnum())


def get(version: str) -> Kernel:
    """Download Debian's newest package of a version into the cache; needs no root.

    SpecError for what is no version, HostError where apt-get or the package is missing.
    """
    if not re.fullmatch(r"\d+(\.\d+)+[\w.+~-]*", version):
        raise SpecError(f"{version!r:.80} is no version of Linux", "schedlab kernel get 6.12")
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if not shutil.which(tool):
            raise HostError(f"{tool} is not on this machine", "name a bzImage: --kernel FILE")
    home = cache("kernels")
    with making(home), tempfile.TemporaryDirectory(dir=home, prefix=".") as place:
        package, own = _package_of(version)
        names = [package, *_parts_of(package, own)]
        _apt(["apt-get", *own, "download", *names], cwd=Path(place))
        root = Path(place) / "root"
        for archive in sorted(Path(place).glob("*.deb")):
            _output("dpkg-deb", "-x", str(archive), str(root))
        target = home / package.removeprefix("linux-image-")
        shutil.rmtree(target, ignore_errors=True)
        root.rename(target)
    return find(target.name)


def _own_lists(parts: Path | None = None) -> list[str]:
    """Options of apt for package lists of our own, fetched now: /var/lib/apt may be old or empty,
    and only root may renew it. `parts` stands for /etc/apt/sources.list.d."""
    home = cache("apt") / ("suites" if parts else "usual")
    (home / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (home / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir::State::Lists={home / 'lists'}", "-o", f"Dir::Cache={home}"]
    options += ["-o", f"Dir::Etc::SourceParts={parts}"] if parts else []
    _apt(["apt-get", *options, "-q", "update"])
    return options


def _package_of(version: str) -> tuple[str, list[str]]:
    """The newest package of a version, and the options of apt with which it is found: that of
    this machine's sources, else of Debian's later suites."""
    known: set[str] = set()
    for parts in (None, _later_suites):
        place = parts() if parts else None
        if parts and place is None:
            continue
        own = _own_lists(place)
        names = _apt(["apt-cache", *own, "pkgnames", "linux-image-"]).split()
        releases = [match[1] for name in names if (match := _PACKAGE.fullmatch(name))]
        if fitting := [each for each in releases if is_of(each, version)]:
            return f"linux-image-{max(fitting, key=version_key)}-amd64", own
        known |= {".".join(each.split(".")[:2]) for each in releases}
    there = ", ".join(sorted(known, key=version_key)) or "none"
    raise HostError(
        f"no package has Linux {version} (there are {there})",
        "add the suite that has it to the sources of apt, or name a bzImage: --kernel FILE",
    )


def _later_suites() -> Path | None:
    """A directory of sources with Debian's suites of later kernels; None on another system."""
    rows = _apt(["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)"])
    archives = [line.split() for line in rows.splitlines() if line.startswith("Debian Debian ")]
    if not archives or not _KEYRING.is_file():
        return None
    place = cache("apt") / "sources"
    place.mkdir(exist_ok=True)
    text = f"Types: deb\nURIs: {archives[0][2]}\nSuites: {_SUITES}\nComponents: main\n"
    (place / "later.sources").write_text(f"{text}Signed-By: {_KEYRING}\n", encoding="utf-8")
    return place


def _parts_of(package: str, own: list[str]) -> list[str]:
    """From 6.19 on the files of an image are in packages of their own."""
    text = _apt(["apt-cache", *own, "depends", "--important", package])
    words = [line.split()[-1] for line in text.splitlines() if "Depends:" in line]
    return [name for name in words if name.startswith(_PARTS)]


def _apt(command: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, check=False, capture_output=True, text=True,
        # Its user _apt must be able to write to the temporary directory.
        env={"TMPDIR": "/var/tmp", **os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise HostError(
            f"{command[0]}: {errors[0].removeprefix('E: ') if errors else 'failed'}",
            "check the network and the sources of apt, or name a bzImage: --kernel FILE",
        )
    return done.stdout


def _output(*command: str) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True).stdout
    except FileNotFoundError as error:
        raise HostError(f"{command[0]} is not installed", f"apt install {command[0]}") from error
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise HostError(f"{' '.join(command[:2])}: {' '.join(message)}", "") from error
