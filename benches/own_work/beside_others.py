"""Our figures beside hyperfine's and `perf bench sched`'s, measured alternately.

    python benches/own_work/beside_others.py [ROUNDS]

Prints the median and the range of each, and the ratio of the medians.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from schedlab import _core
from schedlab.run import launch

COMMAND = ["/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done"]
LOOPS = 30_000
SENDERS, MESSAGES = 20, 100


def our_elapsed_ms():
    """Elapsed time of the command by our launcher."""
    group = launch.WorkGroup(None, "bench")
    order = launch.Launch(COMMAND, Path("/"), {"PATH": "/usr/bin:/bin"})
    return launch.run(order, group).elapsed_s * 1e3


def hyperfine_ms():
    """The same by hyperfine, one run, without a shell."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        line = f"{COMMAND[0]} {COMMAND[1]} '{COMMAND[2]}'"
        options = ["-N", "--runs", "2", "--style", "none", "--export-json", out.name]
        # A session of its own, as ours has one: autogroup shares the CPUs among sessions.
        subprocess.run(
            ["hyperfine", *options, line], check=True, capture_output=True, start_new_session=True
        )
        times = json.loads(Path(out.name).read_text())["results"][0]["times"]
        return statistics.median(times) * 1e3


def mix_s(role, tasks):
    """Elapsed time of a finite mix."""
    job = {
        "groups": [{"name": "work", "role": role, "tasks": tasks}],
        "ramp_ns": 0,
        "window_ns": 60 * 10**9,
        "spin_ns_per_1000": 500.0,
        "seed": 1,
    }
    mix = _core.CpuMix(json.dumps(job))
    mix.start()
    while not mix.wait(0.1):
        pass
    return json.loads(mix.finish())["groups"][0]["elapsed_ns"] / 1e9


def our_pipe_s():
    """Round trips of a byte between two processes."""
    return mix_s({"kind": "pipe", "rounds": LOOPS}, 1)


def perf_pipe_s():
    """`perf bench sched pipe`: the same."""
    return perf_s("pipe", "-l", str(LOOPS))


def our_messaging_s():
    """Senders to receivers over socket pairs."""
    role = {"kind": "messaging", "rounds": MESSAGES, "bytes": 100, "sockets": True}
    return mix_s(role, SENDERS)


def perf_messaging_s():
    """`perf bench sched messaging`, one group of processes: the same."""
    return perf_s("messaging", "-g", "1", "-l", str(MESSAGES))


def perf_s(*arguments):
    """Total time that perf bench prints."""
    done = subprocess.run(
        ["perf", "bench", "sched", *arguments], capture_output=True, text=True, check=True
    )
    return float(re.search(r"Total time: ([0-9.]+)", done.stdout)[1])


def main():
    """Alternate, then print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    pairs = {
        "command [ms]: ours / hyperfine": (our_elapsed_ms, hyperfine_ms),
        "pipe [s]: ours / perf bench": (our_pipe_s, perf_pipe_s),
        "messaging [s]: ours / perf bench": (our_messaging_s, perf_messaging_s),
    }
    for name, both in pairs.items():
        rows = [tuple(one() for one in both) for _ in range(rounds)]
        texts = []
        for values in zip(*rows, strict=True):
            median = statistics.median(values)
            texts.append(f"{median:.4g} ({min(values):.4g} to {max(values):.4g})")
        medians = [statistics.median(values) for values in zip(*rows, strict=True)]
        print(f"{name}: {' / '.join(texts)}; ratio {medians[0] / medians[1]:.2f}")


if __name__ == "__main__":
    main()
