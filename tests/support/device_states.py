"""Every state that a block device may be in, made for real on a loop device of a test."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from schedlab.host.safety import owned

MIB = 1 << 20
BLKFLSBUF = 0x1261  # include/uapi/linux/fs.h
SIZE = 16 * MIB
MBR_ENTRY = struct.pack("<B3sB3sII", 0, b"\0\0\0", 0x83, b"\0\0\0", 2048, 8192)


def at(offset: int, content: bytes) -> Callable[[str], None]:
    def write(device: str) -> None:
        with Path(device).open("r+b") as file:
            file.seek(offset)
            file.write(content)

    return write


def run(*command: str) -> Callable[[str], None]:
    def make(device: str) -> None:
        program = shutil.which(command[0], path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        assert program, f"{command[0]} belongs to util-linux or e2fsprogs"
        subprocess.run([program, *command[1:], device], check=True, capture_output=True)

    return make


def md_superblock(offset: int = 4096) -> bytes:
    """Linux software RAID, version 1.2 (include/uapi/linux/raid/md_p.h), checksum included."""
    block = bytearray(256)
    struct.pack_into("<4I16s32s", block, 0, 0xA92B4EFC, 1, 0, 0, b"u" * 16, b"host:0")
    struct.pack_into("<Q", block, 128, 2048)
    struct.pack_into("<Q", block, 144, offset // 512)
    total = sum(struct.unpack("<64I", bytes(block)))
    struct.pack_into("<I", block, 216, (total & 0xFFFFFFFF) + (total >> 32))
    return bytes(block)


@contextmanager
def mounted(device: str, where: Path) -> Iterator[Path]:
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0")(device)
    place = where / owned.new_name("mount")
    place.mkdir()
    owned.mount(device, place, "ext4")
    try:
        yield place
    finally:
        owned.remove_mount(str(place))


@contextmanager
def read_only(device: str) -> Iterator[None]:
    run("blockdev", "--setro")(device)
    try:
        yield
    finally:
        run("blockdev", "--setrw")(device)


@contextmanager
def claimed(device: str) -> Iterator[None]:
    descriptor = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def swapping(device: str) -> Iterator[None]:
    run("mkswap")(device)
    run("swapon")(device)
    try:
        yield
    finally:
        run("swapoff")(device)


def backing_of(device: str) -> Path:
    name = Path(device).name
    return Path(Path(f"/sys/block/{name}/loop/backing_file").read_text(encoding="utf-8").strip())


def flush(device: str) -> None:
    """Write back what is dirty of it alone, and of a file system on it, wherever it is mounted."""
    with Path(device).open("rb") as opened:
        fcntl.ioctl(opened, BLKFLSBUF, 0)


def digest(device: str) -> str:
    """Of all that is on the medium, the device's own page cache included.

    Of swap space in use only the first page: the kernel writes to the others when it likes.
    """
    flush(device)
    content = backing_of(device).read_bytes()
    if f"{device} " in Path("/proc/swaps").read_text(encoding="utf-8"):
        content = content[:4096]
    return hashlib.sha256(content).hexdigest()


def is_swapped_to(device: str) -> bool:
    """Whether the kernel has put pages there, as it may at any time while it is swap space."""
    swaps = [line.split() for line in Path("/proc/swaps").read_text(encoding="utf-8").splitlines()]
    return any(row[0] == device and row[3] != "0" for row in swaps)


def written(device: str) -> tuple[int, int]:
    """(sectors written, sectors discarded), after everything dirty has been written back."""
    flush(device)
    fields = Path(f"/sys/block/{Path(device).name}/stat").read_text().split()
    return int(fields[6]), int(fields[13])


def filesystem(offset: int) -> Callable[[str], None]:
    """An ext4 that begins at `offset`, as after the loss of its partition table."""

    def make(device: str) -> None:
        image = Path(device).with_name(f"schedlab-image-{os.getpid()}")
        image = Path("/tmp") / image.name
        with image.open("wb") as file:
            file.truncate(8 * MIB)
        try:
            run("mkfs.ext4", "-q", "-F")(str(image))
            at(offset, image.read_bytes()[: 8 * MIB])(device)
        finally:
            image.unlink()

    return make


def elsewhere(program: str) -> Callable[[str, Path], AbstractContextManager[None]]:
    """A separate process that has the device open, until the end."""

    @contextmanager
    def hold(device: str, directory: Path) -> Iterator[None]:
        process = subprocess.Popen(
            ["sh", "-c", program, "sh", device, str(directory)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.communicate()  # its end of input

    return hold


@contextmanager
def below_a_loop(device: str, directory: Path) -> Iterator[None]:
    name = subprocess.check_output(["losetup", "-f", "--show", device], text=True).strip()
    try:
        yield
    finally:
        subprocess.run(["losetup", "-d", name], check=True)


@contextmanager
def shared_file(device: str, directory: Path) -> Iterator[None]:
    """A second loop device on the same file, by another path."""
    link = directory / "link.img"
    link.hardlink_to(backing_of(device))
    name = subprocess.check_output(["losetup", "-f", "--show", str(link)], text=True).strip()
    try:
        yield
    finally:
        subprocess.run(["losetup", "-d", name], check=True)


OPENED = elsewhere('exec 3<>"$1"; echo ready; read line')
HIDDEN_MOUNT = elsewhere(
    'exec unshare --mount sh -c \'mount "$1" "$2" && echo ready && read line\' sh "$1" "$2"'
)
EXT4 = run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0")


@contextmanager
def hidden_mount(device: str, directory: Path) -> Iterator[None]:
    EXT4(device)
    where = directory / "hidden"
    where.mkdir()
    with HIDDEN_MOUNT(device, where):
        yield


def prepared(make: Callable[[str], None]) -> Callable[[str, Path], AbstractContextManager[None]]:
    def state(device: str, directory: Path) -> AbstractContextManager[None]:
        make(device)
        return nullcontext()

    return state


def used(use: Callable[[str], AbstractContextManager[None]]):
    return lambda device, directory: use(device)


@contextmanager
def partition_mounted(device: str, directory: Path) -> Iterator[None]:
    """The whole disk is free, its only partition is mounted."""
    at(446, MBR_ENTRY.ljust(64, b"\0") + b"\x55\xaa")(device)
    subprocess.run(["partx", "--add", device], check=True)
    try:
        with mounted(f"{device}p1", directory):
            yield
    finally:
        without_partitions(device)


def without_partitions(device: str) -> None:
    """Remove them, when no other test that lists devices holds this one for a moment."""
    for _ in range(100):
        if not subprocess.run(["partx", "--delete", device], check=False).returncode:
            return
        time.sleep(0.1)
    raise AssertionError(f"{device} is held")


@contextmanager
def mapped(device: str, directory: Path) -> Iterator[None]:
    """A device-mapper target on it, as LVM and LUKS make them."""
    name = f"schedlab-{Path(device).name}"
    table = f"0 {SIZE // 512} linear {device} 0"
    result = subprocess.run(
        ["dmsetup", "create", name, "--table", table], capture_output=True, check=False
    )
    if result.returncode:
        pytest.skip(f"this kernel has no device mapper: {result.stderr.decode().splitlines()[0]}")
    try:
        yield
    finally:
        subprocess.run(["dmsetup", "remove", "--retry", name], check=True)


@contextmanager
def over_a_mounted_device(device: str, directory: Path) -> Iterator[str]:
    """A loop device whose "file" is a mounted device: the state is that of the upper one."""
    with mounted(device, directory):
        upper = subprocess.check_output(["losetup", "-f", "--show", device], text=True).strip()
        try:
            yield upper
        finally:
            subprocess.run(["losetup", "-d", upper], check=True)


def lvm_label() -> bytes:
    """A physical volume of LVM2 in its second sector, with the checksum that belongs to it."""
    label = bytearray(512)
    struct.pack_into("<8sQII8s32s", label, 0, b"LABELONE", 1, 0, 32, b"LVM2 001", b"u" * 32)
    checksum = zlib.crc32(label[20:], 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    struct.pack_into("<I", label, 16, checksum)
    return bytes(label)


LUKS = struct.pack(
    ">6sH32s32s32sII20s32sI40s", b"LUKS\xba\xbe", 1, b"aes", b"xts-plain64", b"sha256", 4096, 64,
    b"d", b"s", 1000, b"00000000-0000-0000-0000-000000000000",
)  # fmt: skip

# name -> (state, what the refusal says; "" where a plain consent is enough)
STATES = {
    "blank": (prepared(lambda device: None), ""),
    "ext4": (prepared(EXT4), "a ext4 signature"),
    "table": (
        prepared(at(446, MBR_ENTRY.ljust(64, b"\0") + b"\x55\xaa")),
        "a dos partition table",
    ),
    "backup-gpt": (
        prepared(at(SIZE - 512, b"EFI PART" + bytes(504))),
        "the backup of a gpt partition table",
    ),
    "ext4-at-1-MiB": (prepared(filesystem(MIB)), "a ext4 signature (filesystem) at 1 MiB"),
    "ext4-at-63-sectors": (prepared(filesystem(63 * 512)), "a ext4 signature"),
    "ext4-at-3-MiB": (prepared(filesystem(3 * MIB)), "data of unknown origin"),
    "raid-1.0": (
        prepared(at(SIZE - 8192, md_superblock(SIZE - 8192))),
        "a linux_raid_member signature",
    ),
    "raid-1.2": (prepared(at(4096, md_superblock())), "a linux_raid_member signature"),
    "random": (prepared(at(5 * MIB, os.urandom(4096))), "data of unknown origin"),
    "one-byte": (prepared(at(SIZE - 1, b"x")), "data of unknown origin"),
    "lvm": (prepared(at(512, lvm_label())), "a LVM2_member signature"),
    "luks": (prepared(at(0, LUKS)), "a crypto_LUKS signature"),
    "swap-signature": (prepared(run("mkswap")), "a swap signature"),
    "mounted": (mounted, "it is mounted on"),
    "mounted-elsewhere": (hidden_mount, "in the mount namespace of process"),
    "partition-mounted": (partition_mounted, "it has partition loop"),
    "mapped": (mapped, "it is held by dm-"),
    "held": (used(claimed), "the kernel is using it"),
    "swap": (used(swapping), "it is swap space in use"),
    "read-only": (used(read_only), "it is read-only"),
    "opened": (OPENED, "(sh) has it open"),
    "shared-file": (shared_file, "its file is behind loop"),
    "below-a-loop": (below_a_loop, "it is below loop"),
}
