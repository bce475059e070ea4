"""Whether `schedlab live` puts the setting back: when a guard trips, and wherever it is killed.

    python benches/own_work/live_guard.py [TRIPS] [KILLS]

On a loop device with an ext4 that fio writes, and verifies, all the time. Under bfq a limit of the
disk below makes the load so slow that the guard trips after a second; the bench polls the setting
every 2 ms. In half of the TRIPS the owner is killed by SIGKILL before. KILLS strike as the n-th
system call begins, n at random up to what a whole run has of it. Needs root, fio and strace.
"""

import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from live_load import throttled_reader

from schedlab.app.admit import admit
from schedlab.app.measure import measure
from schedlab.host.settings import knobs
from schedlab.kinds.live_load import LiveLoad
from schedlab.nouns import Candidate, Experiment, Stopping, Target, Workload
from schedlab.run.admitted import Permission

GUARD_S = 1.0
CALLS = ("write", "fsync", "openat", "unlink", "ioctl", "bpf", "clock_nanosleep", "close")
WAIT_S = 30.0


@contextmanager
def device(work):
    """A loop device with ext4, and fio that writes and verifies a file on it."""
    image, mount, report = work / "disk.img", work / "mount", work / "fio.txt"
    with image.open("wb") as file:
        for _ in range(128):
            file.write(os.urandom(1 << 20))
    loop = ["losetup", "-f", "--show", "--direct-io=on", str(image)]
    name = subprocess.check_output(loop, text=True).strip()
    subprocess.run(["mkfs.ext4", "-q", name], check=True)
    mount.mkdir()
    subprocess.run(["mount", name, mount], check=True)
    fio = subprocess.Popen(
        ["fio", "--name=load", f"--directory={mount}", "--size=16m", "--rw=randwrite", "--bs=4k",
         "--verify=crc32c", "--verify_backlog=256", "--verify_fatal=1", "--verify_state_save=0",
         "--direct=1", "--rate_iops=100", "--time_based", "--runtime=36000", f"--output={report}"],
    )  # fmt: skip
    try:
        yield name
    finally:
        alive = fio.poll() is None
        fio.send_signal(signal.SIGINT)
        fio.wait()
        print(
            f"the load ran to the end: {alive}; {re.search('err= *[0-9]+', report.read_text())[0]}"
        )
        subprocess.run(["umount", mount], check=True)
        subprocess.run(["fsck.ext4", "-nf", name], check=True, capture_output=True)
        subprocess.run(["losetup", "-d", name], check=True)


def folder_of(device, where, blocks, guards):
    """A result folder whose plan is not begun; `live --resume` needs no pilot."""
    parameters = {"seconds": 1.9, "wash_out_s": 0.1, "guards": list(guards)}
    asked = Experiment(
        title="guard", kind="io", target=Target("device", device, 128 << 20), baseline="none",
        candidates=tuple(Candidate(name, {"scheduler": name}) for name in ("none", "bfq")),
        workloads=(Workload("load", LiveLoad.kind, "read_latency_ns_mean", parameters),),
        seed=random.getrandbits(31), stopping=Stopping("fixed", blocks),
    )  # fmt: skip
    measure.create(admit(asked, Permission(in_use=True)), where)
    return where


def live(folder):
    return [sys.executable, "-m", "schedlab", "live", "--resume", str(folder)]


def until(file, is_so, seconds=WAIT_S):
    """The moment from which the scheduler is so; None if it never is."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        if is_so(knobs.read_value(file)):
            return now
        time.sleep(0.002)
    return None


def trip(name, where, is_killed):
    """Seconds from the trip, or from the kill before it, until the setting was back."""
    file = knobs.scheduler_file(name)
    command = live(folder_of(name, where, 3, [f"read p99 > 60ms for {GUARD_S:g}s"]))
    owner = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    began = until(file, lambda s: s == "bfq")
    if is_killed:
        time.sleep(random.uniform(0, 0.9 * GUARD_S))
        owner.kill()
        began = time.monotonic()
    back = until(file, lambda s: s != "bfq")
    errors = owner.communicate()[1]
    assert until(file, lambda s: s == "none") is not None, "the setting is lost"
    assert owner.returncode == (-signal.SIGKILL if is_killed else 1), errors
    return back - began - (0 if is_killed else GUARD_S)


def counted_calls(name, where):
    """How many of each system call a whole run has in its main thread."""
    out = where.with_suffix(".strace")
    command = live(folder_of(name, where, 1, []))
    subprocess.run(["strace", "-c", "-o", out, "-e", f"trace={','.join(CALLS)}", *command],
                   check=True, capture_output=True)  # fmt: skip
    rows = (line.split() for line in out.read_text().splitlines())
    return {row[-1]: int(row[3]) for row in rows if row and row[-1] in CALLS}


def kill_at(name, where, call, number):
    """Whether the run was killed there; AssertionError where a setting is lost."""
    queue = knobs.queue_of(name)
    before = knobs.snapshot(queue)
    command = live(folder_of(name, where, 1, []))
    at = f"inject={call}:signal=SIGKILL:when={number}"
    traced = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", at, *command]
    ended = subprocess.run(traced, check=False, capture_output=True)
    end = time.monotonic() + WAIT_S
    while knobs.snapshot(queue) != before:
        assert time.monotonic() < end, f"lost: {call} {number}: {knobs.snapshot(queue)}"
        time.sleep(0.01)
    return ended.returncode != 0


def main(trips, kills):
    work = Path(tempfile.mkdtemp(dir="/var/tmp"))
    os.environ["SCHEDLAB_STATE_DIR"] = str(work / "state")
    group = Path("/sys/fs/cgroup/blkio" if Path("/sys/fs/cgroup/blkio").exists()
                 else "/sys/fs/cgroup") / f"schedlab-bench-{os.getpid()}"  # fmt: skip
    group.mkdir()
    limits = {"none": 200, "mq-deadline": 200, "kyber": 200}
    try:
        with device(work) as name:
            with throttled_reader(name, group, limits | {"bfq": 10}):
                for is_killed in (False, True) if trips > 1 else ():
                    times = [trip(name, work / f"{is_killed}-{n}", is_killed)
                             for n in range(trips // 2)]  # fmt: skip
                    print(
                        f"{'killed' if is_killed else 'tripped'} {len(times)} times: back after "
                        f"{statistics.median(times):.3f} s (median), {max(times):.3f} s at most"
                    )
            with throttled_reader(name, group, limits | {"bfq": 200}):
                counts = counted_calls(name, work / "whole")
                struck = 0
                for n in range(kills):
                    call = random.choice([c for c in CALLS if counts.get(c)])
                    number = random.randint(max(1, counts[call] // 2), counts[call])
                    struck += kill_at(name, work / f"kill-{n}", call, number)
                print(
                    f"{struck} of {kills} runs killed at a system call, 0 settings lost; {counts}"
                )
    finally:
        group.rmdir()
        shutil.rmtree(work)


if __name__ == "__main__":
    main(*(int(text) for text in (*sys.argv[1:], 50, 100)[:2]))
