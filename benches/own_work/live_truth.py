"""`schedlab live` on a real device where the truth is known: a limit set by the scheduler's name.

    python benches/own_work/live_truth.py [EXPERIMENTS]

A reader, one request at a time, is limited to so many requests a second under none, and to fewer
under bfq: ratios 1.0, 1.1 and 2.0 in turn, 12 blocks of periods of 1 s. Needs root.
"""

import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from live_load import throttled_reader

from schedlab.app.admit import admit
from schedlab.app.live import live
from schedlab.app.measure import measure
from schedlab.design.candidates import parse_candidates
from schedlab.run.admitted import Permission

RATE = 220


def experiment(device, group, ratio, folder):
    """(low, estimate, upper end) of the ratio of bfq's latency to that of none."""
    limits = dict.fromkeys(("none", "kyber", "mq-deadline"), RATE) | {"bfq": round(RATE / ratio)}
    asked = live.LiveRequest(Path(device), parse_candidates("none,bfq"), 1.0, 36.0, wash_out_s=0.1)
    with throttled_reader(device, group, limits):
        prepared = live.prepared(asked, lambda line: None)
        admitted = admit(prepared, Permission(in_use=True))
        result = measure.measure(admitted, measure.create(admitted, folder))
    row = result.answer.rows[0]
    none, bfq = (result.answer.cells[row.name][name] for name in ("none", "bfq"))
    # The ratio is above 1 where bfq is behind, below 1 where none is.
    low = math.exp(bfq.low) if bfq.low else math.exp(-none.up)
    return low, math.exp(bfq.loss - none.loss), math.exp(bfq.up)


def main(experiments):
    work = Path(tempfile.mkdtemp(dir="/var/tmp"))
    os.environ["SCHEDLAB_STATE_DIR"] = str(work / "state")
    root = next(p for p in (Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")) if p.exists())
    group, image = root / f"schedlab-bench-{os.getpid()}", work / "disk.img"
    group.mkdir()
    image.write_bytes(os.urandom(64 << 20))
    loop = ["losetup", "-f", "--show", "--direct-io=on", str(image)]
    device = subprocess.check_output(loop, text=True).strip()
    covered = 0
    try:
        for n in range(experiments):
            ratio = (1.0, 1.1, 2.0)[n % 3]
            low, found, high = experiment(device, group, ratio, work / str(n))
            covered += low <= ratio <= high
            print(f"truth {ratio}: {found:.3f} ({low:.3f} to {high:.3f})", flush=True)
        print(f"{covered} of {experiments} intervals have the truth")
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
        group.rmdir()
        shutil.rmtree(work)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
