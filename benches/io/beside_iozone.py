"""IOzone's seven tests by our engine beside IOzone itself, written to IOZONE.md.

Run from the repository as root, with an IOzone binary (Debian: iozone3, in non-free):

    PYTHONPATH=python python benches/io/beside_iozone.py --iozone /usr/bin/iozone

Both write and read files with O_DIRECT on an ext4 file system on a loop device on tmpfs, in turns:
once as fast as they can, where the CPU is the limit, once under a cgroup limit of 200 MiB/s, where
the device is.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from side_by_side import limited, loop_device, tmpfs_file

from schedlab.host import scratch
from schedlab.kinds import file_access
from schedlab.kinds.engine import run_groups, work

TESTS = (
    "write", "rewrite", "read", "re-read", "random-read", "random-write", "reverse-read",
)  # fmt: skip
DEVICE_BYTES = 2 << 30
LIMIT_BYTES_PER_S = 200 << 20
RESULTS = Path(__file__).with_name("IOZONE.md")
Rates = dict[str, float]


def iozone(program: str, folder: Path, record_kib: int, size_mib: int) -> Rates:
    """MiB/s by test, as IOzone measures them."""
    tests = ("-i0", "-i1", "-i2", "-i3")
    command = [program, "-I", "-s", f"{size_mib}m", "-r", f"{record_kib}k", *tests, "-f", "theirs"]
    result = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    rows = [line.split() for line in result.stdout.splitlines()]
    row = next(row for row in rows if len(row) >= 9 and all(part.isdigit() for part in row))
    return {test: int(kib) / 1024 for test, kib in zip(TESTS, row[2:9], strict=True)}


def ours(folder: Path, record_kib: int, size_mib: int) -> Rates:
    """MiB/s by test, of one pass of the engine each."""
    file, rates = folder / "ours", {}
    file.unlink(missing_ok=True)
    scratch.fill(file, size_mib << 20)
    for test in TESTS:
        order, direction, _ = file_access.TESTS[test]
        load = work(order, direction, record_kib << 10, 1, span=size_mib << 20)
        group = {"name": test, "path": str(file), "engine": "psync", "direct": True}
        (result,) = run_groups([group | {"workload": load}], None).groups
        moved = result.reads.bytes + result.writes.bytes
        rates[test] = moved / 2**20 / result.elapsed_ns * 1e9
    return rates


def version(program: str) -> str:
    result = subprocess.run([program, "-v"], check=False, capture_output=True, text=True)
    match = re.search(r"Revision: (\S+)", result.stdout)
    return match[1] if match else "of unknown version"


@contextlib.contextmanager
def mounted(device: str) -> Iterator[Path]:
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", device, folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def table(program: str, folder: Path, record_kib: int, size_mib: int, rounds: int) -> list[str]:
    """Markdown rows: medians with their ranges, and the ratio within the rounds."""
    pairs: list[tuple[Rates, Rates]] = []
    for number in range(rounds):
        if number % 2:
            mine = ours(folder, record_kib, size_mib)
            pairs.append((mine, iozone(program, folder, record_kib, size_mib)))
        else:
            theirs = iozone(program, folder, record_kib, size_mib)
            pairs.append((ours(folder, record_kib, size_mib), theirs))
    rows = ["| test | ours, MiB/s | IOzone, MiB/s | ratio |", "|---|---|---|---|"]
    for test in TESTS:
        sides = [[pair[side][test] for pair in pairs] for side in (0, 1)]
        ratios = [mine / theirs for mine, theirs in zip(*sides, strict=True)]
        spread = [f"{statistics.median(s):,.0f} ({min(s):,.0f}–{max(s):,.0f})" for s in sides]
        middle = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        rows.append(f"| {test} | {spread[0]} | {spread[1]} | {middle} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iozone", default="iozone", help="the program")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    lines = ["# Our engine beside IOzone", "", "Written by `beside_iozone.py`; rounds in turns."]
    lines += [
        "",
        f"IOzone {version(chosen.iozone)}, Linux {os.uname().release}, {os.cpu_count()} CPUs",
    ]
    with tmpfs_file(DEVICE_BYTES) as file, loop_device(file) as device, mounted(device) as folder:
        with limited(device, rbps=LIMIT_BYTES_PER_S, wbps=LIMIT_BYTES_PER_S):
            lines += ["", "## The device is the limit (200 MiB/s, 768 MiB, records of 64 KiB)", ""]
            lines += table(chosen.iozone, folder, 64, 768, chosen.rounds)
        lines += ["", "The limit gives back what was not used before a test began:"]
        lines += ["a test can be a little faster."]
        for record_kib in (64, 1024):
            lines += ["", f"## The CPU is the limit (256 MiB, records of {record_kib} KiB)", ""]
            lines += table(chosen.iozone, folder, record_kib, 256, chosen.rounds)
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
