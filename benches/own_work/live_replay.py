"""Whether a live load and the replay of its recording recommend the same scheduler, on 6 loads.

    python benches/own_work/live_replay.py [PERIOD_S] [LOAD …]

Each load runs on a loop device. It is recorded (`trace io`), measured under itself (`live`), and
replayed on a temporary device (`compare --trace`). Printed are the sentence of `schedlab diff`,
and beside it bfq's figure over that of none in both, with paired 95 % intervals computed here: the
sentence is right where it says what these do. Needs root, fio and mkfs.ext4.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from live_load import throttled_reader

from schedlab.analyse.quantiles import half_width

ROOT = Path(__file__).parents[2]
MARGIN = math.log(1.02)
DEVICE_BYTES = 256 << 20
SQLITE = ROOT / "docs" / "guides" / "examples" / "sqlite_commits.py"
LIMITS = {"none": 200, "kyber": 200, "mq-deadline": 200, "bfq": 100}


@contextmanager
def fio(directory, *jobs):
    """fio until the end; each job is a text of options."""
    common = ["--direct=1", "--time_based", "--runtime=3600", "--ioengine=libaio", "--size=64m"]
    words = [word for n, job in enumerate(jobs) for word in (f"--name=job{n}", *job.split())]
    where = [f"--directory={directory}"] if directory.is_dir() else [f"--filename={directory}"]
    with subprocess.Popen(["fio", *common, *where, *words], stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def sqlite(directory):
    """Commits beside one backup."""
    command = [sys.executable, str(SQLITE), "3600", "1"]
    with subprocess.Popen(command, cwd=directory, start_new_session=True) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, 9)


LOADS = {
    "random readers": lambda dev, mnt: fio(dev, "--rw=randread --bs=4k --iodepth=4 --numjobs=2"),
    "reader beside writers": lambda dev, mnt: fio(
        dev, "--rw=randread --bs=4k --iodepth=1",
        "--rw=write --bs=64k --iodepth=64 --numjobs=2",
    ),
    "sync writer": lambda dev, mnt: fio(mnt, "--rw=write --bs=4k --ioengine=psync --fsync=1"),
    "sequential beside random reader": lambda dev, mnt: fio(
        dev, "--rw=read --bs=256k --iodepth=8", "--rw=randread --bs=4k --iodepth=1"
    ),
    "reader that bfq's name throttles": lambda dev, mnt: throttled_reader(
        str(dev), cgroup(), LIMITS
    ),
    "sqlite beside a backup": lambda dev, mnt: sqlite(mnt),
}  # fmt: skip

# What decides; else the mean latency of what a load does most.
METRICS = {"reader beside writers": "read_latency_ns_mean"}


def cgroup():
    """A group with limits of I/O, which goes with the bench."""
    root = next(p for p in (Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")) if p.exists())
    group = root / f"schedlab-bench-{os.getpid()}"
    group.mkdir(exist_ok=True)
    return group


def schedlab(*words, ok=(0,)):
    command = [sys.executable, "-m", "schedlab", *map(str, words)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode in ok, f"{command}\n{ended.stderr}"
    return ended.stdout


@contextmanager
def device(work, with_files):
    """A filled loop device, with ext4 where a load needs files: (device, mount)."""
    image, mount = work / "disk.img", work / "mount"
    with image.open("wb") as file:
        for _ in range(DEVICE_BYTES >> 20):
            file.write(os.urandom(1 << 20))
    loop = ["losetup", "-f", "--show", "--direct-io=on", str(image)]
    name = subprocess.check_output(loop, text=True).strip()
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["losetup", "-d", name], check=True)
        if with_files:
            subprocess.run(["mkfs.ext4", "-q", name], check=True)
            mount.mkdir()
            subprocess.run(["mount", name, mount], check=True)
            stack.callback(subprocess.run, ["umount", "-l", mount], check=True)
        yield Path(name), mount


def interval(folder, metric):
    """(low, estimate, high) of ln(bfq / none) over the blocks of a result."""
    values = {}
    for line in (folder / "runs.jsonl").read_text().splitlines():
        run = json.loads(line)
        if run["status"] == "ok" and metric in run["metrics"]:
            values[run["block"], run["candidate"]] = math.log(run["metrics"][metric])
    pairs = [values[b, "bfq"] - values[b, "none"] for b, c in values
             if c == "bfq" and (b, "none") in values]  # fmt: skip
    mean, half = statistics.fmean(pairs), half_width(pairs)
    return mean - half, mean, mean + half


def winners(low, high):
    """What may be taken by an interval of a latency; empty where it decides nothing."""
    if low > -MARGIN and high < MARGIN:
        return {"none", "bfq"}
    return {"none"} if low > 0 else {"bfq"} if high < 0 else set()


def expected(*intervals):
    """The code that the intervals call for."""
    live, replayed = (winners(low, high) for low, _, high in intervals)
    if live & replayed:
        return "agree"
    return "disagree" if live and replayed else "open"


def shown(low, mean, high):
    return f"{math.exp(mean):.2f} ({math.exp(low):.2f} to {math.exp(high):.2f})"


def main(period_s, names):
    right = 0
    for name in names:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            work = Path(directory)
            os.environ["SCHEDLAB_STATE_DIR"] = str(work / "state")
            live, replay, trace = work / "live", work / "replay", work / "load.trace"
            metric = METRICS.get(name)
            needs_files = name in ("sync writer", "sqlite beside a backup")
            with device(work, needs_files) as (dev, mount), LOADS[name](dev, mount):
                subprocess.run(["sleep", "3"], check=True)  # it fills what it needs
                schedlab("trace", "io", dev, "--seconds", "4", "--out", trace)
                schedlab(
                    "live", dev, "--schedulers", "none,bfq", "--every", f"{period_s}s",
                    "--for", f"{36 * period_s}s", "--wash-out", f"{100 * period_s:.0f}ms",
                    "--yes", "--out", live, *(("--deciding", metric) if metric else ()),
                )  # fmt: skip
            schedlab(
                "compare", "--trace", trace, "--scratch", "256M", "--schedulers", "none,bfq",
                "--blocks", "12", "--seconds", "1", "--out", replay,
                *(("--metric", metric) if metric else ()),
            )  # fmt: skip
            found = json.loads(schedlab("diff", live, replay, "--json", "--fail-on", "never"))
            lines = schedlab("diff", live, replay, "--fail-on", "never").splitlines()
            both = [interval(folder, found["metric"]) for folder in (live, replay)]
            is_right = expected(*both) == found["agreement"]
            right += is_right
            print(f"{name}: {found['metric']}\n  " + "\n  ".join(lines[: lines.index("")]))
            print(f"  bfq / none: live {shown(*both[0])}, replay {shown(*both[1])}; {is_right=}",
                  flush=True)  # fmt: skip
    cgroup().rmdir()
    print(f"{right} of {len(names)} sentences say what the intervals do")


if __name__ == "__main__":
    words = sys.argv[1:]
    main(float(words[0]) if words else 2.0, words[1:] or list(LOADS))
