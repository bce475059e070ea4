"""The content of a block device: signatures, and data without a known signature.

A device counts as empty under three conditions. libblkid finds nothing on it. It finds nothing at
the places where a file system would begin if its partition table were lost. All sampled blocks
are zero or are what a session of ours left there (`remember`). Everything is read through a
descriptor, so that the device that was checked is the device that is written to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.nouns.reading import read_text

BLOCK_BYTES = 4096
START_BYTES = 32 << 20
END_BYTES = 4 << 20
SAMPLES = 1000
# Where partitions begin: 63 sectors (DOS), 64 KiB, 1 MiB (today), 2, 4, 8, 16 MiB (LUKS, LVM).
PARTITION_STARTS_BYTES = (63 * 512, 64 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20)
_CHUNK_BYTES = 1 << 20
_SECTORS_BYTES = (512, 4096)
_BLKID_NOTHING, _BLKID_FOUND = 2, 0


def signatures(descriptor: int, size_bytes: int) -> list[str]:
    """Names by libblkid on an open device, at its start and where partitions usually begin."""
    program = shutil.which("blkid", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if program is None:
        return ["blkid is missing, so schedlab cannot check whether the device is empty"]
    findings = _probe(program, descriptor, 0)
    if findings:
        return findings
    for offset in (o for o in PARTITION_STARTS_BYTES if o < size_bytes):
        if not _is_zero(os.pread(descriptor, 256 << 10, offset)):
            findings += [
                f"{each} at {_place(offset)}" for each in _probe(program, descriptor, offset)
            ]
    return findings + _backup_table(descriptor, size_bytes)


def _probe(program: str, descriptor: int, offset_bytes: int) -> list[str]:
    """Findings of one `blkid -p`; it exits 2 for nothing and also for an unreadable device."""
    device = f"/proc/self/fd/{descriptor}"
    command = [program, "-p", "-o", "export", "-O", str(offset_bytes), device]
    probe = subprocess.run(
        command, capture_output=True, text=True, check=False, pass_fds=[descriptor]
    )
    if probe.returncode == _BLKID_NOTHING and not probe.stdout.strip():
        return []
    if probe.returncode not in (_BLKID_FOUND, _BLKID_NOTHING):
        return [f"content that blkid cannot identify ({probe.stderr.strip() or 'ambivalent'})"]
    keys = dict(line.split("=", 1) for line in probe.stdout.splitlines() if "=" in line)
    findings = []
    if "PTTYPE" in keys:
        findings.append(f"a {keys['PTTYPE']} partition table")
    if "TYPE" in keys:
        findings.append(f"a {keys['TYPE']} signature ({keys.get('USAGE', 'unknown')})")
    if "PART_ENTRY_SCHEME" in keys and not findings:
        return []  # an empty partition: only its place in the parent's table is known
    return findings or ["content that blkid detects but does not identify"]


def _backup_table(descriptor: int, size_bytes: int) -> list[str]:
    """The second header of a GPT, in the last sector, where the first was overwritten."""
    for sector in _SECTORS_BYTES:
        if size_bytes >= sector and os.pread(descriptor, 8, size_bytes - sector) == b"EFI PART":
            return ["the backup of a gpt partition table (in the last sector)"]
    return []


def places(size_bytes: int) -> Iterator[tuple[int, int]]:
    """(offset, length) of all that is looked at: the start, the end, and blocks in between.

    Half of the samples lie where a MiB begins, as partitions and extents do, half anywhere; the
    same for every device of that size, so that a digest can be compared later.
    """
    last = max(START_BYTES, size_bytes - END_BYTES)
    for begin, end in ((0, min(START_BYTES, size_bytes)), (last, size_bytes)):
        for offset in range(begin, end, _CHUNK_BYTES):
            yield offset, min(_CHUNK_BYTES, end - offset)
    if last <= START_BYTES:
        return
    rng = random.Random(size_bytes)
    blocks = range(START_BYTES // BLOCK_BYTES, last // BLOCK_BYTES)
    aligned = blocks[:: (1 << 20) // BLOCK_BYTES]
    chosen = {
        number
        for population in (aligned, blocks)
        for number in rng.sample(population, min(SAMPLES // 2, len(population)))
    }
    for number in sorted(chosen):
        yield number * BLOCK_BYTES, BLOCK_BYTES


def unknown_data(descriptor: int, size_bytes: int, known_digest: str = "") -> str:
    """Where sampled blocks hold data, in words; empty when all are zero or as we left them."""
    first, used, seen = -1, 0, 0
    digest = hashlib.sha256()
    try:
        for offset, length in places(size_bytes):
            data = os.pread(descriptor, length, offset)
            digest.update(data)
            seen += 1
            if not _is_zero(data):
                used += 1
                first = offset if first < 0 else first
    finally:
        _forget_pages(descriptor)
    if not used or digest.hexdigest() == known_digest:
        return ""
    start = os.pread(descriptor, BLOCK_BYTES, first)
    at = next((i for i, byte in enumerate(start) if byte), 0)
    text = re.search(rb"[\x20-\x7e]{4,40}", start[at:])
    sample = f", starting with {text.group().decode()!r}" if text else ""
    return (
        f"data of unknown origin ({used} of {seen} sampled places are not zero, "
        f"the first at {_place(first + at)}{sample})"
    )


def remember(directory: Path, key: str, descriptor: int, size_bytes: int) -> None:
    """Note what we leave on a device, so that the next session knows it as ours. OSError as is."""
    digest = hashlib.sha256()
    try:
        for offset, length in places(size_bytes):
            digest.update(os.pread(descriptor, length, offset))
    finally:
        _forget_pages(descriptor)
    file = _note_of(directory, key)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}")
    content = {"schema": 1, "size_bytes": size_bytes, "digest": digest.hexdigest()}
    temporary.write_text(json.dumps(content) + "\n", encoding="ascii")
    temporary.replace(file)


def remembered(directory: Path, key: str, size_bytes: int) -> str:
    """The digest of what we left on a device, or nothing."""
    with contextlib.suppress(SpecError, ValueError, AttributeError):
        note = json.loads(read_text(_note_of(directory, key), ""))
        if note.get("size_bytes") == size_bytes:
            return str(note.get("digest", ""))
    return ""


def _note_of(directory: Path, key: str) -> Path:
    return directory / "written" / (hashlib.sha256(key.encode()).hexdigest()[:32] + ".json")


def _is_zero(data: bytes) -> bool:
    return not data.strip(b"\0")


def _place(offset_bytes: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if offset_bytes and offset_bytes % size == 0:
            return f"{offset_bytes // size} {unit}"
    return f"byte {offset_bytes}"


def _forget_pages(descriptor: int) -> None:
    """A measurement that follows must not find our samples in the page cache."""
    with contextlib.suppress(OSError):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
