"""A session that is killed at a chosen step; the kill tests run it as a separate process.

`doomed_owner.py DEVICE DIRECTORY WHO STEP`: a step is a line of schedlab/host that is executed.
At step STEP it sends SIGKILL to the owner (itself), the guardian, or both. Step 0 kills no process
and prints how many steps there are.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from schedlab import host
from schedlab.host.safety.control import Control

HOST = str(Path(host.__file__).parent)
device, directory, who, when = sys.argv[1:]
steps: list[int] = [0]
control = Control()


def work() -> None:
    with control:
        scratch = control.scratch(1 << 20, directory)
        control.set_scheduler(device, "bfq", {"low_latency": 0, "nr_requests": 40})
        control.write_knob(f"/sys/block/{Path(device).name}/queue/read_ahead_kb", 32)
        control.set_scheduler(scratch.path, "mq-deadline", {"fifo_batch": 2})
        control.directory(directory)
        control.cgroup("doomed")
        control.check()
        control.set_scheduler(device, "mq-deadline", {"wbt_lat_usec": 0, "fifo_batch": 3})


def strike() -> None:
    guardian = getattr(control, "_guardian", None)
    if who in ("guardian", "both") and guardian and guardian.process_id:
        with contextlib.suppress(ProcessLookupError):  # it has just been let go
            os.kill(guardian.process_id, signal.SIGKILL)
    if who in ("owner", "both"):
        os.kill(os.getpid(), signal.SIGKILL)


def trace(frame: FrameType, event: str, argument: Any) -> Any:
    if not frame.f_code.co_filename.startswith(HOST):
        return None
    if event == "line":
        steps[0] += 1
        if steps[0] == int(when):
            strike()
    return trace


sys.settrace(trace)
work()
sys.settrace(None)
print(steps[0])
