"""Our figures beside those of hyperfine, fio, `perf bench sched` and cyclictest, alternately.

    sudo python benches/own_work/beside_others.py [ROUNDS]

Prints the median and the range of each, the ratio of the medians, and whether the ranges overlap.
A program that is not installed is omitted with a word.
"""

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from schedlab import _core
from schedlab.kinds.cpu_mix import quantiles
from schedlab.kinds.fio_job import FioJob
from schedlab.run.command import launch

COMMAND = ["/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done"]
LOOPS = 200_000
# So many that the ends of 40 processes, which perf counts and we do not, are little of it.
SENDERS, MESSAGES = 20, 1000


def our_elapsed_ms():
    """Elapsed time of the command by our launcher: the median of two runs."""
    group = launch.WorkGroup(None, "bench")
    order = launch.Launch(COMMAND, Path("/"), {"PATH": "/usr/bin:/bin"})
    return statistics.median(launch.run(order, group).elapsed_s for _ in range(2)) * 1e3


def hyperfine_ms():
    """The same by hyperfine, without a shell."""
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
    """Elapsed time of a finite crew."""
    job = {
        "groups": [{"name": "work", "role": role, "tasks": tasks}],
        "window_ns": 60 * 10**9,
    }
    crew = _core.CpuCrew(json.dumps(job))
    crew.start()
    while not crew.wait(0.1):
        pass
    return json.loads(crew.finish())["groups"][0]["elapsed_ns"] / 1e9


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
    result = subprocess.run(
        ["perf", "bench", "sched", *arguments], capture_output=True, text=True, check=True
    )
    return float(re.search(r"Total time: ([0-9.]+)", result.stdout)[1])


FIO_JOB = """[reader]
rw=randread
bs=4k
size=64m
ioengine=io_uring
iodepth=8
direct=1
runtime=2
time_based
"""


def our_fio_iops(place):
    """A fio job as a workload: started by us, its numbers read by us."""
    kind = FioJob(job_file=str(place / "job.fio"))
    order = launch.Launch(kind.command(), place, {"PATH": "/usr/bin:/bin"})
    ended = launch.run(order, launch.WorkGroup(None, "bench"))
    return kind.values_of(ended.stdout)[0]["reader.read.iops"]


def fio_iops(place):
    """The same job by fio alone; the number that it prints for people."""
    result = subprocess.run(
        ["fio", "--output-format=terse", "--terse-version=3", place / "job.fio"],
        cwd=place, capture_output=True, text=True, check=True, start_new_session=True,
    )  # fmt: skip
    return float(result.stdout.splitlines()[-1].split(";")[7])


PERIOD_US, CYCLES = 2_000, 1_000


def our_wakeup_us():
    """Median lateness of a periodic FIFO task."""
    window_ns = PERIOD_US * 1000 * CYCLES
    role = {"kind": "periodic", "period_ns": PERIOD_US * 1000, "work_ns": 1}
    scheduling = {"policy": "fifo", "nice": 0, "priority": 20}
    group = {"name": "work", "role": role, "tasks": 1, "scheduling": scheduling}
    job = {"groups": [group], "window_ns": window_ns, "cpus": [0]}
    crew = _core.CpuCrew(json.dumps(job))
    crew.start()
    while not crew.wait(0.5):
        pass
    rows = json.loads(crew.finish())["groups"][0]["response"]
    return quantiles(rows, "late")[0]["late_ns_p50"] / 1e3


def cyclictest_us():
    """`cyclictest`, one FIFO thread on the same CPU: the median of its histogram."""
    # Without --laptop it forbids the CPU to sleep, which a work of ours does not.
    words = ["cyclictest", "--laptop", "-q", "-m", "-p", "20", "-a", "0", "-t", "1"]
    words += ["-i", str(PERIOD_US), "-l", str(CYCLES), "-h", "5000"]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    rows = re.findall(r"^(\d{6}) (\d+)$", result.stdout, re.MULTILINE)
    latencies = [int(us) for us, count in rows for _ in range(int(count))]
    return float(statistics.median(latencies))


def pairs_in(place):
    """Name -> (our measurement, the other's), of programs that are installed."""
    (place / "job.fio").write_text(FIO_JOB)
    pairs = {
        "command [ms]: ours / hyperfine": (our_elapsed_ms, hyperfine_ms),
        "job [IOPS]: ours / fio": (lambda: our_fio_iops(place), lambda: fio_iops(place)),
        "pipe [s]: ours / perf bench": (our_pipe_s, perf_pipe_s),
        "messaging [s]: ours / perf bench": (our_messaging_s, perf_messaging_s),
        "FIFO wake-up, median [us]: ours / cyclictest": (our_wakeup_us, cyclictest_us),
    }
    for name in list(pairs):
        program = name.rpartition("/ ")[2].split()[0]
        if shutil.which(program) is None:
            print(f"{name}: {program} is not installed")
            del pairs[name]
    return pairs


def main():
    """Alternate, then print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        for name, both in pairs_in(Path(place)).items():
            rows = [tuple(one() for one in both) for _ in range(rounds)]
            columns = list(zip(*rows, strict=True))
            ours, theirs = (
                f"{statistics.median(each):.4g} ({min(each):.4g} to {max(each):.4g})"
                for each in columns
            )
            medians = [statistics.median(each) for each in columns]
            overlap = max(map(min, columns)) <= min(map(max, columns))
            print(
                f"{name}: {ours} / {theirs}; ratio {medians[0] / medians[1]:.2f}, ranges "
                f"{'overlap' if overlap else 'DO NOT OVERLAP'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
