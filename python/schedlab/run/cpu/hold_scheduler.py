"""`python -m schedlab.run.cpu.hold_scheduler FILE`: load a CPU scheduler from a compiled BPF object
(sched_ext), and hold it until SIGINT or SIGTERM.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path


def main(file: Path) -> int:
    """The exit status; the reason on standard error where the scheduler cannot be loaded."""
    from schedlab import _core

    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        scheduler = _core.CpuScheduler(str(file))
    except OSError as error:
        sys.stderr.write(f"{file}: {error}\n")
        return 1
    signal.sigwait(ends)
    scheduler.unload()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
