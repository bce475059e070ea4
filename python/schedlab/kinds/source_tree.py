"""A tar archive with files and sizes like a source tree; the same seed gives the same bytes."""

from __future__ import annotations

import contextlib
import io
import random
import subprocess
import tarfile
from pathlib import Path

from schedlab.errors import HostError, SpecError

COMPRESSORS = {
    "none": None,
    "gzip": ["gzip", "--no-name", "-6"],
    "xz": ["xz", "-2", "--threads=1"],
    "zstd": ["zstd", "--quiet", "-3"],
}
# Sizes of the files of a Linux source tree are about log-normal: median 5 KiB, mean 14 KiB.
SIZE_LOG_MEAN = 8.5
SIZE_LOG_DEVIATION = 1.4
FILES_PER_DIRECTORY = 16
MTIME = 1_600_000_000


def write_archive(path: Path, size_bytes: int, compressor: str, seed: int) -> int:
    """Write an archive whose files hold about `size_bytes`; how many files it has.

    The text compresses about as source code does. SpecError for an unknown compressor, HostError
    when its program is missing.
    """
    if compressor not in COMPRESSORS:
        raise SpecError(
            f"decompressor {compressor!r} is not known", f"use {', '.join(COMPRESSORS)}"
        )
    command = COMPRESSORS[compressor]
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as out:
            if command is None:
                count = _write_tar(out, size_bytes, seed)
            else:
                count = _write_through(command, out, size_bytes, seed)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _write_through(command: list[str], out: io.BufferedWriter, size_bytes: int, seed: int) -> int:
    try:
        child = subprocess.Popen([*command, "-c"], stdin=subprocess.PIPE, stdout=out)
    except FileNotFoundError as error:
        raise HostError(f"{command[0]} is not installed", f"apt install {command[0]}") from error
    assert child.stdin is not None
    count = 0
    with contextlib.suppress(BrokenPipeError), child.stdin:  # its status says why it ended
        count = _write_tar(child.stdin, size_bytes, seed)
    if child.wait():
        raise HostError(f"{command[0]} exited {child.returncode}", "is the disk full?")
    return count


def _write_tar(out: object, size_bytes: int, seed: int) -> int:
    rng = random.Random(seed)
    words = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz_", k=rng.randint(2, 11)))
        for _ in range(4000)
    ]
    left, count = size_bytes, 0
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.USTAR_FORMAT) as tar:  # type: ignore[call-overload]
        while left > 0:
            size = min(int(rng.lognormvariate(SIZE_LOG_MEAN, SIZE_LOG_DEVIATION)), left)
            place = count // FILES_PER_DIRECTORY
            info = tarfile.TarInfo(f"tree/{place % 32:02d}/{place:05d}/file{count:06d}.c")
            info.size, info.mtime, info.mode = size, MTIME, 0o644
            tar.addfile(info, io.BytesIO(_text(rng, words, size)))
            left -= size
            count += 1
    return count


def _text(rng: random.Random, words: list[str], size: int) -> bytes:
    """Lines of words: repeats like code does."""
    parts: list[str] = []
    length = 0
    while length < size:
        line = (
            "    " * rng.randint(0, 3) + " ".join(rng.choices(words, k=rng.randint(2, 9))) + ";\n"
        )
        parts.append(line)
        length += len(line)
    return "".join(parts).encode()[:size]
