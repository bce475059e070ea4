"""A session with an emulated device, a mounted file system and writers on it, to be killed.

`doomed_emulation.py`: prints `ready` once everything runs, and then goes on until it is killed.
"""

from __future__ import annotations

import subprocess
import sys
import time

from schedlab.host.control import Control
from schedlab.host.emulated import Emulation

WRITER = """
import os, sys
for number in range(1 << 30):
    with open(f"{sys.argv[1]}/{number % 50}", "wb") as file:
        file.write(os.urandom(200_000))
        file.flush()
        os.fsync(file.fileno())
"""
READER = """
import mmap, os, random, sys
device = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
while True:
    os.preadv(device, [page], random.randrange(16000) * 4096)
"""

with Control() as control:
    device = control.emulated(Emulation("disk7200", size_bytes=64 << 20, queue_depth=4))
    control.set_scheduler(device.path, "mq-deadline")
    where = control.filesystem(device)
    quiet = {"stderr": subprocess.DEVNULL}
    subprocess.Popen([sys.executable, "-c", WRITER, str(where)], **quiet)
    for _ in range(3):
        subprocess.Popen([sys.executable, "-c", READER, device.path], **quiet)
    print("ready", flush=True)
    while True:
        time.sleep(1)
