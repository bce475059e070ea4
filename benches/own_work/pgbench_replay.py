"""How like its recording the replay of pgbench is: the figures of the rehearsal, several times.

    python benches/own_work/pgbench_replay.py [REPLAYS] [SECONDS] [CLIENTS]

A PostgreSQL server on ext4 on a loop device, `pgbench -c CLIENTS` for the time of the recording
under none. Needs root, Debian's postgresql and mkfs.ext4; nothing of it is in the tests.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from schedlab.app.admit import admit
from schedlab.app.compare.comparison import Place
from schedlab.app.compare.own_work import comparison_of
from schedlab.host.safety.control import Control
from schedlab.nouns import Stopping, Workload
from schedlab.nouns.quantities import parse_size
from schedlab.run.io.io import open_session

SCALE = 30
DEVICE = "3G"


def as_postgres(*words, **options):
    command = ["runuser", "-u", "postgres", "--", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)


@contextmanager
def server(work):
    """A server that listens on a socket in its directory, on a file system of its own."""
    tools = max(Path("/usr/lib/postgresql").glob("*/bin"))
    image, mount = work / "disk.img", work / "mount"
    subprocess.run(["truncate", "-s", DEVICE, image], check=True)
    loop = ["losetup", "-f", "--show", "--direct-io=on", str(image)]
    device = subprocess.check_output(loop, text=True).strip()
    try:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        mount.mkdir()
        subprocess.run(["mount", device, mount], check=True)
        data = mount / "data"
        data.mkdir()
        shutil.chown(data, "postgres", "postgres")
        as_postgres(tools / "initdb", "-D", data)
        # Less memory than the tables have, so that they are read, too; a checkpoint inside.
        settings = ("shared_buffers=32MB", "checkpoint_timeout=30s", "listen_addresses=",
                    f"unix_socket_directories={data}")  # fmt: skip
        options = " ".join(f"-c {each}" for each in settings)
        as_postgres(tools / "pg_ctl", "-w", "-D", data, "-l", data / "log", "-o", options, "start")
        try:
            yield device, data
        finally:
            as_postgres(tools / "pg_ctl", "-w", "-D", data, "-m", "immediate", "stop")
            subprocess.run(["umount", mount], check=True)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def fidelity(trace, seconds, directory):
    """The rows of one rehearsal on a temporary device."""
    place = Place(scratch_bytes=parse_size(DEVICE), scratch_directory=directory)
    work = Workload("load", "trace-replay", "read_latency_ns_mean",
                    {"trace": str(trace), "seconds": seconds})  # fmt: skip
    asked = comparison_of(
        place, work, schedulers="none", seed=1, stopping=Stopping(blocks=1), aa_arm=False
    )
    with Control() as control, open_session(admit(asked), control, print) as session:
        return session.fidelity["load"]["rows"]


def main(replays, seconds, clients):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        work = Path(directory)
        work.chmod(0o755)
        os.environ["SCHEDLAB_STATE_DIR"] = str(work / "state")
        trace, schedlab = work / "load.trace", [sys.executable, "-m", "schedlab"]
        with server(work) as (device, data):
            as_postgres("createdb", "-h", data, "bench")
            as_postgres("pgbench", "-h", data, "-q", "-i", "-s", SCALE, "bench", stderr=-3)
            load = ["runuser", "-u", "postgres", "--", "pgbench", "-h", str(data), "-c", clients,
                    "-T", str(int(seconds) + 8), "bench"]  # fmt: skip
            with subprocess.Popen(load, stdout=subprocess.PIPE, stderr=-3, text=True) as running:
                time.sleep(4)
                record = ["trace", "io", device, "--seconds", seconds, "--out", str(trace)]
                subprocess.run([*schedlab, *record], check=True, stdout=subprocess.DEVNULL)
                print(*re.findall(r"tps = .*", running.communicate()[0]))
        subprocess.run([*schedlab, "trace", "stats", trace], check=True)
        found = {}
        for _ in range(int(replays)):
            for row in fidelity(trace, float(seconds), directory):
                key = (row["metric"], row["recorded"])
                found.setdefault(key, []).append(row["replayed"])
    for (name, recorded), values in found.items():
        changes = sorted(100 * (value / recorded - 1) for value in values)
        print(f"{name}: recorded {recorded:.4g}; {statistics.median(changes):+.0f} % "
              f"({changes[0]:+.0f} to {changes[-1]:+.0f})")  # fmt: skip


if __name__ == "__main__":
    main(*(*sys.argv[1:], *("5", "20", "4")[len(sys.argv) - 1 :]))
