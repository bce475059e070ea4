"""What confinement adds to the start of a program, alternated with `--unconfined`.

    sudo python benches/own_work/wall.py [ROUNDS]

A start is from the order to the exec, as the launcher sees it, and to the end of /bin/true. Each
round starts every kind once, in a random order. Prints medians, the quarters, and the median of
the differences to the unconfined start of the same round. Exit 1 when a difference is above the
bound of 2 ms. Without root it says what the kernel could not hold.
"""

import json
import os
import pwd
import random
import statistics
import sys
import time
from pathlib import Path

from schedlab import _core
from schedlab.kinds.command import Command
from schedlab.kinds.fio_job import FioJob
from schedlab.run.command.confinement import Wall

BOUND_MS = 2.0
KINDS = {
    "unconfined": Command(argv=("true",), confine="nothing"),
    "devices (a command)": Command(argv=("true",)),
    "files (--confine, --fio)": FioJob(),
    "files, as nobody": FioJob(user="nobody"),
}


def start_ms(order, user):
    """Milliseconds of one start and end of /bin/true under an order of confinement."""
    streams = [os.open(os.devnull, os.O_RDWR)] * 3
    words = {"program": "/bin/true", "argv": ["true"], "environment": [], "directory": "/",
             "streams": streams, "confinement": order, "kept": True}  # fmt: skip
    if user and os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        words["user"] = {"uid": entry.pw_uid, "gid": entry.pw_gid, "groups": []}
    began = time.perf_counter()
    child = _core.Launched(json.dumps(words))
    child.wait(10.0)
    took_ms = (time.perf_counter() - began) * 1e3
    child.end()
    os.close(streams[0])
    return took_ms


def mounts():
    """How many mounts there are: each gets its attributes set."""
    return len(Path("/proc/self/mountinfo").read_text().splitlines())


def main(rounds):
    """Measure and print; the exit code."""
    wall = Wall()
    if wall.missing:
        print(f"nothing to measure: {wall.missing}")
        return 0
    orders = {name: wall.order(kind, Path("/tmp")) for name, kind in KINDS.items()}
    times = {name: [] for name in orders}
    if os.geteuid() == 0:  # others' programs would add their own waits for a CPU
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    rng = random.Random(1)
    for _ in range(rounds):
        for name in rng.sample(list(orders), len(orders)):
            times[name].append(start_ms(orders[name], KINDS[name].user))
    print(f"{rounds} rounds, user {os.geteuid()}, {mounts()} mounts")
    worst_ms = 0.0
    for name, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        differences = [mine - bare for mine, bare in zip(values, times["unconfined"], strict=True)]
        added_ms = statistics.median(differences)
        worst_ms = max(worst_ms, added_ms)
        print(f"{name}: {middle:.2f} ms ({low:.2f} to {high:.2f}), adds {added_ms:.2f} ms")
    return int(worst_ms > BOUND_MS)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
