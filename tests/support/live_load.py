"""A load whose latency is known under each scheduler: a reader that the disk below is limited for.

    with throttled_reader(device, cgroup, {"none": 200, "bfq": 100}):
        ...  # one request at a time, which takes 1/200 s under none and 1/100 s under bfq

A thread of the test sets the limit by the name of the scheduler in force.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from schedlab.host import devices
from schedlab.host.settings import knobs

READER = """
import mmap, os, random, sys
open(sys.argv[2] + "/cgroup.procs", "w").write(str(os.getpid()))
descriptor = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer, pages = mmap.mmap(-1, 4096), os.lseek(descriptor, 0, os.SEEK_END) // 4096
while True:
    os.preadv(descriptor, [buffer], 4096 * random.randrange(pages))
"""


@contextmanager
def throttled_reader(
    device: str, cgroup: Path, limits: Mapping[str, int]
) -> Iterator[subprocess.Popen[bytes]]:
    """Read from a filled loop device in another process, so many times a second at most; yields
    that process.
    """
    backing = Path(knobs.SYS_BLOCK / Path(device).name / "loop" / "backing_file").read_text()
    disks = devices.disks_below(Path(backing.strip()).parent)
    if len(disks) != 1:
        pytest.skip("needs one disk below the files of tests")
    numbers = (knobs.SYS_BLOCK / disks[0] / "dev").read_text().strip()
    forms = {"blkio.throttle.read_iops_device": "{} {}", "io.max": "{} riops={}"}
    file = next((name for name in forms if (cgroup / name).exists()), None)
    if file is None:
        pytest.skip("this cgroup has no limits of I/O")
    over = threading.Event()

    def limit() -> None:
        last = ""
        while not over.is_set():
            now = knobs.read_value(knobs.scheduler_file(device))
            if now != last:
                (cgroup / file).write_text(forms[file].format(numbers, limits[now]))
                last = now
            over.wait(0.005)

    setter = threading.Thread(target=limit)
    setter.start()
    reader = subprocess.Popen([sys.executable, "-c", READER, device, str(cgroup)])
    try:
        yield reader
    finally:
        reader.kill()
        reader.wait()
        over.set()
        setter.join()
