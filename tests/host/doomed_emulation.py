"""A session with an emulated device, a mounted file system and writers on it, to be killed.

`doomed_emulation.py`: prints `ready` once everything runs, and then runs until it is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from schedlab.host.emulated.emulated import Emulation
from schedlab.host.safety.control import Control

# The owner hands the directory over, so that it never writes below the mount.
WRITER = """
import os, sys
where = int(sys.argv[1])
for number in range(1 << 30):
    file = os.open(str(number % 50), os.O_WRONLY | os.O_CREAT, dir_fd=where)
    os.write(file, os.urandom(200_000))
    os.fsync(file)
    os.close(file)
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
    opened = os.open(where, os.O_DIRECTORY)
    subprocess.Popen([sys.executable, "-c", WRITER, str(opened)], pass_fds=[opened], **quiet)
    os.close(opened)
    for _ in range(3):
        subprocess.Popen([sys.executable, "-c", READER, device.path], **quiet)
    print("ready", flush=True)
    while True:
        time.sleep(1)
