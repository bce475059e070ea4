"""The write gate: a device is opened for writing only with a consent, which only a user gives.

    with consent_to("/dev/sdb") as consent:   # from the command line or a prompt, never from a file
        work(consent.target)                  # /proc/PID/fd/N: no swap of /dev/sdb redirects it

`consent_to` opens the device exclusively first and looks second, through that descriptor, and
keeps it until the end: mkfs, mount, swapon and LVM fail meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import final

from schedlab.errors import HostError, as_root
from schedlab.host import content, devices
from schedlab.host.safety import journal
from schedlab.host.settings import knobs
from schedlab.nouns.reading import opened

_MADE_HERE = object()
LOCK_WAIT_S = 2.0


@dataclass(frozen=True)
class Identity:
    """The identity of a device; texts are empty where the device has none.

    `sequence` is the kernel's `diskseq`: it is new whenever a medium or a backing file is.
    """

    number: str
    size_bytes: int
    serial: str = ""
    wwid: str = ""
    uuid: str = ""
    sequence: str = ""

    @property
    def lasting_key(self) -> str:
        """The identity over reboots, for notes about this device."""
        named = "/".join((self.serial, self.wwid, self.uuid)).strip("/")
        return f"{named or self.number}:{self.size_bytes}"


@final
class Consent:
    """Leave to write to one device, from `consent_to` alone; holds it until it is closed.

    `path` is what the user typed, `target` what an engine must open: it leads to the device that
    was looked at, also from child processes, even if `path` is another device by then.
    """

    def __init__(self, path: str, descriptor: int, identity: Identity, made_by: object) -> None:
        if made_by is not _MADE_HERE:
            raise TypeError("a Consent is made by consent_to() only")
        self.path = path
        self.identity = identity
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int:
        """The exclusive descriptor; HostError after closing."""
        if self._descriptor < 0:
            raise HostError(f"your consent to write to {self.path} has ended")
        return self._descriptor

    @property
    def target(self) -> str:
        """The path under which this device, and no other, is opened for writing."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    @property
    def name(self) -> str:
        """The kernel's name of the device or partition."""
        return _entry(self.identity.number).name

    def covers(self, path: str | Path) -> bool:
        """Whether `path` is the device of this consent."""
        return self._descriptor >= 0 and _number_of(path) == self.identity.number

    def close(self) -> None:
        """Give the device back. Others may use it from now on."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):  # not of one that `__init__` refused
            self.close()

    def __enter__(self) -> Consent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def consent_to(device: str | Path, *, allow_unknown_data: bool = False) -> Consent:
    """Hold a device for writing, with a user's consent; HostError with every objection.

    `allow_unknown_data` is a second, stronger yes: to data that no signature announces. It does
    not help against a file system, a partition table or anybody who uses the device.
    """
    reasons, descriptor = _examine(device, allow_unknown_data)
    if reasons:
        raise refusal(str(device), reasons)
    return Consent(str(device), descriptor, identity_of(descriptor), _MADE_HERE)


def objections(device: str | Path, *, allow_unknown_data: bool = False) -> tuple[str, ...]:
    """Why writing to a device is impossible now; empty when there is no objection."""
    reasons, descriptor = _examine(device, allow_unknown_data)
    if descriptor >= 0:
        os.close(descriptor)
    return tuple(reasons)


def identity_of(descriptor: int) -> Identity:
    """The identity of an open block device."""
    number = os.fstat(descriptor).st_rdev
    text = f"{os.major(number)}:{os.minor(number)}"
    entry = _entry(text)
    disk = entry.parent if (entry / "partition").exists() else entry

    def first(*names: str) -> str:
        return next((value for name in names if (value := devices.text_of(disk / name))), "")

    part = devices.text_of(entry / "partition")
    return Identity(
        number=text,
        size_bytes=os.lseek(descriptor, 0, os.SEEK_END),
        serial=" ".join(filter(None, (first("serial", "device/serial"), part))),
        wwid=first("wwid", "device/wwid"),
        uuid=first("uuid", "dm/uuid", "md/uuid"),
        sequence=first("diskseq"),
    )


def _examine(device: str | Path, allow_unknown_data: bool) -> tuple[list[str], int]:
    """(objections, exclusive descriptor or -1 where there are objections)."""
    path = Path(device) if "/" in str(device) else knobs.device_file(str(device))
    if not path.exists():
        return ["it does not exist"], -1
    if not path.is_block_device():
        return ["it is not a block device"], -1
    entry = _entry(_number_of(path) or "")
    reasons = devices.reasons_in_use(entry)
    try:
        descriptor = hold(path)
    except OSError as error:
        # Seen all the same, so that the user learns every reason at once.
        reasons += [f"it holds {each}" for each in _named_content(path)]
        if error.errno == errno.EWOULDBLOCK:
            reasons.append("another process has locked it (flock)")
        elif error.errno == errno.EBUSY:
            reasons += [] if reasons else ["the kernel is using it (RAID, swap or a mapping)"]
        else:
            reasons.append(f"it cannot be opened ({error.strerror})")
        return reasons, -1
    try:
        reasons += _content(descriptor, allow_unknown_data, bool(reasons))
    except OSError as error:
        reasons.append(f"it cannot be read ({error.strerror})")
    except BaseException:
        os.close(descriptor)
        raise
    if reasons:
        os.close(descriptor)
        return reasons, -1
    return [], descriptor


def hold(path: str | Path) -> int:
    """A descriptor that has a device for itself, and an exclusive lock of it; OSError otherwise.

    The engine writes to no device without both (crates/load/src/io/permit.rs); udev leaves a locked
    device alone, also its scheduler, and is waited for while it looks at the device. Reading is
    enough to hold it: a writer opens `/proc/PID/fd/N`.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK or time.monotonic() > deadline:
                os.close(descriptor)
                raise
        time.sleep(0.01)


def _content(descriptor: int, allow_unknown_data: bool, in_use: bool) -> list[str]:
    identity = identity_of(descriptor)
    if not identity.size_bytes:
        return ["it has no medium (size 0)"]
    findings = content.signatures(descriptor, identity.size_bytes)
    if not findings and not in_use and not allow_unknown_data:
        known = content.remembered(
            journal.lasting_directory(), identity.lasting_key, identity.size_bytes
        )
        unknown = content.unknown_data(descriptor, identity.size_bytes, known)
        findings = [unknown] if unknown else []
    return [f"it holds {each}" for each in findings]


def _named_content(path: Path) -> list[str]:
    with contextlib.suppress(OSError), opened(path) as descriptor:
        return content.signatures(descriptor, os.lseek(descriptor, 0, os.SEEK_END))
    return []


def refusal(device: str, reasons: Sequence[str]) -> HostError:
    """The error that names every objection, with the hint that fits them."""
    hint = "use an empty device, --scratch SIZE, or --directory DIR"
    if os.geteuid() != 0:
        hint = as_root("--directory DIR", "sudo, with an empty device or --scratch SIZE")
    if all("data of unknown origin" in reason for reason in reasons):
        hint = (
            f"--allow-unknown-data if you do not need the data on {device}; "
            f"`blkdiscard -z {device}` empties it"
        )
    elif all(reason.startswith("it holds") for reason in reasons):
        hint = f"if you do not need it: wipefs -a {device}; otherwise --scratch SIZE"
    return HostError(f"Refusing to write to {device}: {'; '.join(reasons)}.", hint)


def _number_of(path: str | Path) -> str | None:
    """`major:minor` of a block device; None for anything else."""
    with contextlib.suppress(OSError):
        status = os.stat(path)  # noqa: PTH116
        if stat.S_ISBLK(status.st_mode):
            return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return None


def _entry(number: str) -> Path:
    """The sysfs directory of a device number."""
    link = knobs.NUMBERS / number
    return link.resolve() if link.exists() else knobs.CLASS_BLOCK / "(gone)"
