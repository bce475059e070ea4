"""What each kind of I/O workload makes of an answer of the load engine in which no two groups,
ways, workers, bins or times are alike, and none is in order: all of its outcome, of groups that
were served and of groups that starved."""

import json
from dataclasses import asdict, replace

import pytest
from load_engine import TARGET, group, side

from schedlab.kinds import processes
from schedlab.kinds.cached_reads import CachedReads
from schedlab.kinds.calls import Calls
from schedlab.kinds.copy_beside_desktop import CopyBesideDesktop
from schedlab.kinds.database import Database
from schedlab.kinds.device_queue import DeviceQueue
from schedlab.kinds.device_timings import DeviceTimings
from schedlab.kinds.file_test import FileTest
from schedlab.kinds.newcomer import Newcomer
from schedlab.kinds.random_reads import RandomReads
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.kinds.readers_together import ReadersTogether
from schedlab.kinds.throttled_reads import ThrottledReads
from schedlab.kinds.weights import Weights

TABLES = (
    {"name": "scan", "count": 2, "record": "64k", "depth": 3, "read_share": 0.25},
    {"name": "web", "pattern": "random", "record": "4k", "depth": 9, "ioprio": "rt:2"},
    {"name": "log", "record": "8k", "depth": 2, "read_share": 0.0, "start": "250ms", "weight": 300},
    {"name": "db", "count": 3, "pattern": "random", "record": "16k", "depth": 5},
)
KINDS = {
    "processes": processes.Processes(processes=TABLES),
    "weights": Weights(readers=3),
    "newcomer": Newcomer(writers=3, requests=5),
    "reader beside writers": ReaderBesideWriters(writers=3),
    "readers together": ReadersTogether(readers=4),
    "random reads": RandomReads(),
    "throttled reads": ThrottledReads(),
    "cached reads": CachedReads(),
    "device queue": DeviceQueue(),
    "database": Database(clients=3),
    "copy beside desktop": CopyBesideDesktop(),
    "mixed": FileTest(test="mixed", workers=3),
    "rewrite": FileTest(test="rewrite", workers=2),
    "re-read": FileTest(test="re-read", workers=2),
    "calls": Calls(block_bytes=4096, calls=30),
    "buffered": DeviceTimings(timing="buffered"),
}


def way(n, at, served):
    """The reads or writes of a group; those that starved completed nothing."""
    if not served:
        return side(errors=at)
    bins = [[1000 * n, 1100 * n, 300 * n], [5000 * n, 5500 * n, 40 + n], [9000 * n, 9900 * n, 2]]
    made = side(100 * n, 4096 * n * (11 + at), bins=bins, errors=at, short=2 * at + 1)
    made["latency"]["mean"] = 1000.0 * n + at
    return made


def answer(text, *_):
    """The group `at` was measured at another time, and for another time, than the others."""
    groups = []
    for at, asked in enumerate(json.loads(text)["groups"]):
        n = (7, 3, 11, 5, 2, 13, 4)[at]
        does, served = asked["workload"]["direction"]["kind"], answer.served(at)
        rows = [[100 * t, n + t, n * t + 1, 1000 * n + t] for t in range(5, 9)] if served else []
        ways = {f"{name}s": way(n + extra, at, served and does in (name, "mixed"))
                for name, extra in (("read", 0), ("write", 1))}  # fmt: skip
        groups.append(group(
            asked["name"], **ways, elapsed_ns=(2000 + 250 * n) * 10**6, cpu_user_ns=n * 10**8,
            cpu_system_ns=n * 10**7, unissued=at, unanswered=(at + 1) % 3,
            oldest_pending_ns=n * 10**9,
            responses=[[k, 1000 * (k * 7 % 5 + n)] for k in range(6 if served else 2)],
            transactions={"count": n * served, "per_s": n / 2.0},
            prepared={"discarded": None, "refused": None, "primed_bytes": 1000 * n},
            device_bytes_read=10 * n, device_bytes_written=n + 1,
            load_generator_bottleneck=at == 1,
            workers=[{"bytes": (k * 5 + 3) % 7 * 1000 * n} for k in range(asked.get("workers", 1))],
            series={"bin_ms": 100, "window_ms": [700.0 - 100 * at % 300, 2500.0 + at],
                    "reads": rows if does != "write" else [],
                    "writes": rows if does != "read" else [],
                    "latencies": [[100 * t, n, n + t, t] for t in (1, 2)] if served else []},
        ))  # fmt: skip
    inflight = {"mean": 3.5, "max": 9, "reads_mean": 2.5}
    return json.dumps({"groups": groups, "elapsed_ns": 3 * 10**9, "inflight": inflight})


@pytest.mark.parametrize("name", KINDS)
def test_an_outcome_has_all_groups_of_its_run(name, golden, monkeypatch, tmp_path):
    monkeypatch.setattr("schedlab._core.run_io_job", answer)
    kind, said = KINDS[name], []
    target = replace(TARGET, path=tmp_path / "data", raw_path=tmp_path / "raw",
                     groups={**TARGET.groups, "log": "/g/log"})  # fmt: skip
    for title, served in (("all served", lambda at: True), ("the first starved", bool),
                          ("the second starved", lambda at: at != 1),
                          ("all starved", lambda at: False)):  # fmt: skip
        monkeypatch.setattr(answer, "served", served, raising=False)
        try:
            made = asdict(kind.measure(target, "w", 5))
        except Exception as error:
            made = {"error": repr(error)}
        said.append(f"== {title}")
        said += [f"{part}.{key}: {json.dumps(value)}" for part, of in made.items()
                 for key, value in (of.items() if isinstance(of, dict) else [("", of)])
                 if value not in ((), [], "")]  # fmt: skip
    golden(f"whole/kinds/{name.replace(' ', '-')}.txt", "\n".join(said).replace(str(tmp_path), ""))
