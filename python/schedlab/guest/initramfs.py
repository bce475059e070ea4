"""The first root of a guest, as the archive that a kernel unpacks: busybox and modules.

Its bytes depend on nothing but its content: another time of change in it would be another boot.
Source: Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from schedlab.errors import HostError
from schedlab.guest.kernels import Kernel
from schedlab.package import PACKAGE

INIT = PACKAGE / "guest" / "init"
_DIRECTORIES = ("bin", "proc", "sys", "dev", "lower", "upper", "root", "modules", "boot")
# In this order, each with its parameters; those that a kernel lacks, or has built in, are omitted.
_MODULES = {
    **dict.fromkeys(("nfit", "nd_pmem", "crc32c_generic", "ext4", "overlay"), ""),
    **dict.fromkeys(("loop", "fuse", "bfq", "kyber-iosched", "mq-deadline"), ""),
    "null_blk": "nr_devices=0",
}
_FILE, _PROGRAM, _DIRECTORY = 0o644, 0o755, 0o755


def initramfs(kernel: Kernel) -> bytes:
    """The archive; HostError without a static busybox."""
    if not (busybox := shutil.which("busybox")):
        raise HostError("busybox is not installed", "apt install busybox-static")
    modules = kernel.with_dependencies(_MODULES)
    options = {name.replace("-", "_"): words for name, words in _MODULES.items()}
    order = "".join(f"{name} {options.get(name, '')}".strip() + "\n" for name in modules)
    programs = {"bin/busybox": Path(busybox).read_bytes(), "init": INIT.read_bytes()}
    files = {
        **{f"modules/{name}.ko": content for name, content in modules.items()},
        f"boot/config-{kernel.release}": "\n".join(map("=".join, kernel.options.items())).encode(),
        "modules/order": order.encode(),
    }
    entries: list[tuple[str, int, bytes]] = [
        (name, stat.S_IFDIR | _DIRECTORY, b"") for name in _DIRECTORIES
    ]
    entries += [(name, stat.S_IFREG | _PROGRAM, content) for name, content in programs.items()]
    entries += [(name, stat.S_IFREG | _FILE, content) for name, content in files.items()]
    return archive(entries)


def archive(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """A `newc` archive of (path, mode, content), all of root and of the time 0."""
    parts = []
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        links = 2 if stat.S_ISDIR(mode) else 1
        text = name.encode() + b"\0"
        fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(text), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + text
        parts += [head, bytes(-len(head) % 4), content, bytes(-len(content) % 4)]
    return b"".join(parts)
