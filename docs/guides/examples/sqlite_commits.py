"""Small SQLite transactions, each on the disk before the next, while backups are written.

    python3 sqlite_commits.py SECONDS [BACKUPS]

Prints `tps` (transactions per second) and `commit_p99` of the time from BEGIN to the end of COMMIT.
Everything is in the working directory. A backup is a process of its own that writes a file again
and again through the page cache and syncs it at the end, as `cp` and `sync` would.
"""

import multiprocessing
import os
import pathlib
import random
import sqlite3
import sys
import time

ROWS = 20_000
PAYLOAD = 400
BACKUP_BYTES = 64 << 20


def backup(over, number):
    """Write a file of 64 MiB in a loop, synced at its end, until told to stop."""
    chunk = os.urandom(1 << 20)
    while not over.is_set():
        with pathlib.Path(f"backup{number}.db").open("wb", buffering=0) as copy:
            for _ in range(BACKUP_BYTES >> 20):
                copy.write(chunk)
                if over.is_set():
                    return
            os.fsync(copy.fileno())


def opened():
    """The database, filled once; commits reach the disk (synchronous=FULL)."""
    database = sqlite3.connect("bench.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, n INT, note BLOB)")
    if database.execute("SELECT count(*) FROM item").fetchone()[0] == 0:
        rows = ((number, 0, os.urandom(PAYLOAD)) for number in range(ROWS))
        database.execute("BEGIN")
        database.executemany("INSERT INTO item VALUES (?, ?, ?)", rows)
        database.execute("COMMIT")
    return database


def main():
    """Fill, start the backups, commit for the time that was asked for, print."""
    seconds, rng = float(sys.argv[1]), random.Random(int(os.environ.get("SCHEDLAB_SEED", "1")))
    database, over = opened(), multiprocessing.Event()
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    neighbours = [multiprocessing.Process(target=backup, args=(over, n)) for n in range(count)]
    for neighbour in neighbours:
        neighbour.start()
    times, began = [], time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        database.execute("BEGIN IMMEDIATE")
        for _ in range(4):
            database.execute("UPDATE item SET n = n + 1 WHERE id = ?", (rng.randrange(ROWS),))
        database.execute("COMMIT")
        times.append(time.monotonic() - now)
    elapsed = time.monotonic() - began
    over.set()
    for neighbour in neighbours:
        neighbour.join()
    times.sort()
    print(f"tps = {len(times) / elapsed:.1f}")
    print(f"commit_p99 = {times[int(len(times) * 0.99)] * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
