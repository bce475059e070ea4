"""What each kind of I/O workload makes of an answer of the load engine in which no two groups,
ways, workers, bins or times are alike, and none is in order: all of its outcome, of groups that
were served and of groups that starved."""

import json
from dataclasses import asdict, replace

import pytest
from load_engine import TARGET, group, side
from msgspec import structs
from recordings import READ, WRITE, Recorded, recording

from schedlab.errors import SpecError
from schedlab.kinds import processes
from schedlab.kinds.cached_reads import CachedReads
from schedlab.kinds.calls import Calls
from schedlab.kinds.copy_beside_desktop import CopyBesideDesktop
from schedlab.kinds.cpu_fork_storm import ForkStorm
from schedlab.kinds.cpu_groups import Groups
from schedlab.kinds.cpu_messaging import Messaging, Pipe
from schedlab.kinds.cpu_mixed import MixedWork
from schedlab.kinds.cpu_wakeup import Wakeup
from schedlab.kinds.database import Database
from schedlab.kinds.device_queue import DeviceQueue
from schedlab.kinds.device_timings import DeviceTimings
from schedlab.kinds.file_access import FileTest
from schedlab.kinds.newcomer import Newcomer
from schedlab.kinds.random_reads import RandomReads
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.kinds.readers_together import ReadersTogether
from schedlab.kinds.throttled_reads import ThrottledReads
from schedlab.kinds.trace_replay import TraceReplay
from schedlab.kinds.weights import Weights
from schedlab.nouns.load_result import CrewResult, TaskResult, TasksResult

TABLES = (
    {"name": "scan", "count": 2, "record": "64k", "depth": 3, "read_share": 0.25},
    {"name": "web", "pattern": "random", "record": "4k", "depth": 9, "ioprio": "rt:2"},
    {"name": "log", "record": "8k", "depth": 2, "read_share": 0.0, "start": "250ms", "weight": 300},
    {"name": "db", "count": 3, "pattern": "random", "record": "16k", "depth": 5},
)
KINDS = {
    "processes": processes.Processes(processes=TABLES),
    "replay": TraceReplay(cgroups=True, fit="wrap"),
    "open replay": TraceReplay(timing="open", fit="wrap"),
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


def recorded(path):
    """Five tasks of three programs: what each does, how often, and in which control group."""
    tasks = (("db", READ, 30, 4), ("cp", WRITE, 9, 2), ("db", WRITE, 11, 7), ("log", READ, 4, 2),
             ("cp", READ, 20, 1))  # fmt: skip
    requests = [
        Recorded(37 * at + 1000 * k, 37 * at + 1000 * k + 200 + 90 * at, (64 * at + k) * 4096,
                 4096 << at % 3, way, thread=at + 1, command=command, cgroup=group)
        for at, (command, way, count, group) in enumerate(tasks) for k in range(count)
    ]  # fmt: skip
    return str(recording(path, requests, "bfq"))


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
    groups, answer.asked = [], json.loads(text)["groups"]
    for at, asked in enumerate(answer.asked):
        n = (7, 3, 11, 5, 2, 13, 4)[at]
        does, served = asked["workload"]["direction"]["kind"], answer.served(at)
        rows = [[100 * t, n + t, n * t + 1, 1000 * n + t] for t in range(5, 9)] if served else []
        ways = {f"{name}s": way(n + extra, at + extra, served and does in (name, "mixed"))
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
            start_lag={"bins": [[10**6 * n, 2 * 10**6 * n, 900]]},
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
    kind, said = KINDS[name], [f"writes {KINDS[name].writes()}"]
    if "replay" in name:
        kind = structs.replace(kind, trace=recorded(tmp_path / "x.trace"))
        said += [*kind.notes("w"), str(kind.groups()), *kind.own_metrics()]
        said += [f"recorded {metric}: {value}" for metric, value in kind.figures().items()]
    groups = {name: f"/g/{name}" for name in ("log", *(f"replay-{at}" for at in range(9)))}
    target = replace(TARGET, path=tmp_path / "data", raw_path=tmp_path / "raw",
                     groups={**TARGET.groups, **groups})  # fmt: skip
    for title, served in (("all served", lambda at: True), ("the first starved", bool),
                          ("the second starved", lambda at: at != 1),
                          ("all starved", lambda at: False)):  # fmt: skip
        monkeypatch.setattr(answer, "served", served, raising=False)
        try:
            made = asdict(kind.measure(target, "w", 5))
        except Exception as error:
            made = {"error": repr(error)}
        said += [f"asked: {json.dumps(each)}" for each in answer.asked] if served(0) else []
        said.append(f"== {title}")
        said += [f"{part}.{key}: {json.dumps(value)}" for part, of in made.items()
                 for key, value in (of.items() if isinstance(of, dict) else [("", of)])
                 if value not in ((), [], "")]  # fmt: skip
    golden(f"whole/kinds/{name.replace(' ', '-')}.txt", "\n".join(said).replace(str(tmp_path), ""))


def test_any_process_may_be_one_that_is_only_simulated():
    odd = {"name": "slow", "think": "1ms"}
    for at in range(3):
        several = (*TABLES[:at], odd, *TABLES[at:])
        with pytest.raises(SpecError, match="think of slow is only simulated"):
            processes.Processes(processes=several).check("w")


CPU_KINDS = (ForkStorm(load=3), Groups(weights=(100, 300, 50)), Messaging(load=3),
             MixedWork(load=3), Pipe(load=3), Wakeup(load=3))  # fmt: skip


def test_an_outcome_has_all_tasks_of_a_mix(golden):
    said = []
    for kind in CPU_KINDS:
        roles = kind.task_groups(3)
        for title, ended in (("ended", True), ("cut short", False)):
            groups = []
            for at, role in enumerate(roles):
                n = (7, 3, 11, 5, 2, 13, 4)[at]
                rows = [[1000 * n, 1000 * n + 99, 100 * n], [9000 * n, 9900 * n, 20 + at]]
                groups.append(TasksResult(
                    role.name, units=100 * n, unfinished=at * (not ended), response=rows,
                    wakeup=[[low // 2, high // 2, count + 1] for low, high, count in rows],
                    elapsed_ns=n * 10**9 if ended else None, cpu_ns=n * n * 10**8,
                    tasks=[TaskResult(k, n + k, k, (n + k * 3 % 4) * 10**8) for k in range(3)],
                ))  # fmt: skip
            made = kind.outcome(CrewResult(3 * 10**9, groups))
            said += [f"== {kind.kind}, {title}", *map(str, roles)]
            said += [f"{part}: {value}" for part, value in asdict(made).items() if value]
    golden("whole/kinds/cpu.txt", "\n".join(said))
