"""Fuzz the Python importers by seeded mutation: `python fuzz/importers.py [FORMAT] SECONDS [SEED]`.

Every input must be imported or refused with a SpecError; anything else is a crash, whose input is
kept. Resident memory must stay within 512 MiB.
"""

import random
import resource
import struct
import sys
import tempfile
import time
from pathlib import Path

from schedlab.errors import SchedlabError
from schedlab.store.importers import csv, dmesg, fio, fio_job, hdparm, iozone
from schedlab.store.importers import time as shell_time
from schedlab.store.importers.imported import Options

RESIDENT_KIB_MAX = 512 << 10


def biff(*cells):
    """A BIFF2 file of numbers and labels."""
    parts = [struct.pack("<HHHH", 9, 4, 2, 16)]
    for row, column, value in cells:
        place = struct.pack("<HH3s", row, column, b"\0\0\0")
        if isinstance(value, str):
            kind, body = 4, place + bytes([len(value)]) + value.encode()
        else:
            kind, body = 3, place + struct.pack("<d", value)
        parts.append(struct.pack("<HH", kind, len(body)) + body)
    return b"".join([*parts, struct.pack("<HH", 10, 0)])


FIO = (
    b'{"jobs": [{"jobname": "j", "usr_cpu": 1.5, "sys_cpu": 2, "read": {"bw_bytes": 4096, "iops":'
    b' 1.0, "runtime": 1000, "lat_ns": {"mean": 3.5, "max": 9, "N": 2, "percentile": {"99.000000":'
    b' 8}, "bins": {"100": 1, "129": 2}}}, "write": {"iops": 0}}]}'
)
TABLE = (
    b"kB reclen write rewrite read reread read write read rewrite read\n"
    b" 65536 64 1000 1100 2000\n 65536 128 1200.5 1300\n\niozone test complete.\n"
)
THROUGHPUT = (
    b"Record Size 8 kB\nChildren see throughput for  1 initial writers \t= 61447.99 kB/sec\n"
    b"iozone test complete.\n"
)
REPORT = b'Excel output is below:\n\n"Writer report"\n "4" "8"\n"64" 100 200\n"128" 0 7\n'
CELLS = biff((0, 0, "cmd"), (2, 0, "Writer report"), (3, 1, 4.0), (4, 0, 64.0), (4, 1, 12.5))
HDPARM = b" Timing cached reads:   25994 MB in  2.00 seconds = 12997.05 MB/sec\n"
TIME = b"real\t0m6.95s\nuser\t0m6.78s\nsys\t0m2.92s\n6.78s user 2.92s system 139% cpu 6.95 total\n"
JOB = (
    b"; a comment\n[global]\nioengine=io_uring\niodepth=32\ndirect=1\nsize=1g\n"
    b"[reader]\nfilename=/dev/null\nrw=randread\nbs=4k\nruntime=2s\ntime_based\nnumjobs=2\n"
    b"[writer]\ndirectory=/tmp\nrw=randrw\nrwmixread=70\nbs=64k\nfsync=0\nrate_iops=100\n"
)
KERNEL_LOG = (
    b"[ 1.5] usb 1-1: new device\n[71725.470964] [Pid: 4129], CPUBurst: 100214270, rt_priority:10\n"
    b"[71725.571178] [Pid: 4130], CPUburst: 99214270, rt_priority:10\n"
)
COLUMNS = csv.Columns(("who",), "speed", unit="KiB/s", block="n")

TARGETS = {
    "csv": ([b"who,speed,n\na,1.5,1\nb,2,1\n"], lambda f: csv.read(f, COLUMNS, Options())),
    "iozone": ([TABLE, THROUGHPUT, REPORT, CELLS], lambda f: iozone.read([("a", f)], Options())),
    "fio": ([FIO, b"note\n" + FIO], lambda f: fio.read([("a", f)], Options())),
    "hdparm": ([HDPARM], lambda f: hdparm.read([("a", f)], Options())),
    "fio-job": ([JOB], fio_job.read),
    "dmesg": ([KERNEL_LOG], lambda f: dmesg.read([("a", f)], Options())),
    "time": ([TIME], lambda f: shell_time.read([("a", f)], "w", Options())),
}
TOKENS = [
    b"-1", b"0", b"1e999", b"NaN", b"Infinity", b"null", b"{}", b"[", b'"', b",", b"\n", b"\0",
    b"9" * 400, b"\xff", b"\t", b"_", "٣".encode(), b"\xef\xbb\xbf", b"true",
]  # fmt: skip


def mutate(rng, corpus):
    """A valid input with a few changes."""
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.randint(1, 5)):
        at = rng.randint(0, len(data))
        what = rng.randrange(6)
        if what == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif what == 1:
            del data[at:]
        elif what == 2:
            data[at:at] = rng.choice(TOKENS)
        elif what == 3:
            del data[at : at + rng.randrange(32)]
        elif what == 4:
            data[at:at] = data[at : at + rng.randrange(64)] * rng.randint(1, 30)
        else:
            data[at:at] = rng.randbytes(rng.randrange(32))
    return bytes(data[: 1 << 16])


def fuzz(name, seconds, seed, folder):
    """Fuzz one importer; a sentence about what was done, or an exception."""
    corpus, read = TARGETS[name]
    corpus = list(corpus)
    rng = random.Random(seed)
    file = folder / "input"
    tried = accepted = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = mutate(rng, corpus)
        file.write_bytes(data)
        tried += 1
        try:
            read(file)
        except SchedlabError:
            continue
        except BaseException:
            kept = Path(f"crash-{name}-{seed}-{tried}")
            kept.write_bytes(data)
            print(f"{name}: crash at input {tried} of seed {seed}, kept as {kept}")
            raise
        accepted += 1
        if len(corpus) < 200:
            corpus.append(data)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if peak_kib > RESIDENT_KIB_MAX:
        raise MemoryError(f"{name}: {peak_kib} KiB")
    return f"{name}: {tried} inputs in {seconds} s, {accepted} accepted, peak {peak_kib >> 10} MiB"


def main():
    """Fuzz what the arguments name."""
    arguments = sys.argv[1:]
    names = [arguments.pop(0)] if arguments and arguments[0] in TARGETS else list(TARGETS)
    seconds = float(arguments[0]) if arguments else 10.0
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            print(fuzz(name, seconds, seed, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
