"""What each kind of I/O workload asks of the load engine, and what it makes of the answer.

The engine is replaced by one that keeps the jobs and answers with figures that are chosen so that a
person can work out the metrics. Its real answers are in tests/host/test_kinds*.py.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from load_engine import BINS, MIB, TARGET, group, side

from schedlab.kinds.cached_reads import CachedReads
from schedlab.kinds.calls import MODES, Calls
from schedlab.kinds.copy_beside_desktop import CopyBesideDesktop
from schedlab.kinds.database import Database
from schedlab.kinds.device_queue import DeviceQueue
from schedlab.kinds.device_timings import DeviceTimings
from schedlab.kinds.file_access import TESTS, FileTest
from schedlab.kinds.newcomer import Newcomer
from schedlab.kinds.random_reads import RandomReads
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.kinds.readers_together import ReadersTogether
from schedlab.kinds.throttled_reads import ThrottledReads
from schedlab.kinds.weights import Weights

WRITERS = group("writers", elapsed_ns=1_500_000_000, writes=side(5, 300), reads=side(1, 7))
# Shares of 3 to 1: Jain's index is 0.8.
READERS = group(
    "readers", reads=side(40, 6000, bins=BINS), cpu_user_ns=300, cpu_system_ns=1000,
    workers=[{"bytes": 4500}, {"bytes": 1500}], oldest_pending_ns=9,
)  # fmt: skip
IDLE = group("readers", workers=[{"bytes": 0}, {"bytes": 0}], oldest_pending_ns=7)
ONLY = {"size_bytes": 4 * MIB, "raw_size_bytes": 4 * MIB}
# 41 reads of 6001 bytes in 2 s.
TESTED = {
    "reads": side(41, 6001, bins=BINS), "cpu_user_ns": 100_000_000, "cpu_system_ns": 400_000_000,
    "device_bytes_read": 7000, "device_bytes_written": 11,
}  # fmt: skip
FILES = {"directory": Path(), "device": None}


def served(*times_us, name="newcomer", **fields):
    """A group of which requests had these response times."""
    responses = [[n, round(1000 * us)] for n, us in enumerate(times_us)]
    return group(name, responses=responses, **fields)


def shared(favoured, other):
    """Two groups that read so many bytes."""
    return [group("favoured", reads=side(1, favoured)), group("other", reads=side(1, other))]


def clients(count, **fields):
    """The clients of a database that committed so often in 2 s."""
    bins = BINS if count else []
    return group(
        "clients", transactions={"count": count, "per_s": 5.0}, writes=side(count, 50, bins=bins),
        reads=side(2 * count, 7, bins=bins), device_bytes_read=3, device_bytes_written=4, **fields,
    )  # fmt: skip


def prepared(primed_bytes=0, discarded=None, refused=None):
    """How the engine prepared the region of a test."""
    return {"discarded": discarded, "refused": refused, "primed_bytes": primed_bytes}


def of_test(test, *answers, target=None, **options):
    """A file test: the engine's answers, and what is not usual."""
    usual = {"record_bytes": 512, "seconds": 0.5}
    return FileTest(test=test, **usual | options), [[each] for each in answers], target or {}


# Twenty tags of the driver: a load of 40 requests. A part of 80 MiB, or of what is said, is in
# whole MiB. Of each case: the kind, the groups of each answer, and what is other of the target.
USUAL = {"seconds": 0.5, "record_bytes": 512}
RAMP = {**USUAL, "ramp_seconds": 0.25}
BESIDE = {"record_bytes": 512, "writers": 3, "writer_record_bytes": 8192}
CASES = {
    "newcomer": [
        (
            Newcomer(requests=7, limit_seconds=1.5, span_bytes=41 * MIB, **BESIDE),
            [[served(9, 1, 7, 3, 5, 2, 8, 100, reads=side(7, 3584, bins=BINS)), WRITERS]], {},
        ),
        (Newcomer(requests=1, writers=0, writer_depth=3), [[served(0.077)]], {}),
        (Newcomer(requests=1, writer_depth=3, shared_region=True), [[served(0.077), WRITERS]], {}),
        *(
            (Newcomer(requests=7, writers=0), [[served(*us, oldest_pending_ns=ms * 1_000_000)]], {})
            for us, ms in (((1000, 2000, 3000), 500), ((), 100), ((), 3000))
        ),
    ],
    "reader-beside-writers": [
        (
            ReaderBesideWriters(seconds=0.5, ramp_seconds=0.75, rate_per_s=300, **BESIDE),
            [[group("reader", reads=side(40, 1000, bins=BINS), unissued=4), WRITERS]], {},
        ),
        *(
            (
                ReaderBesideWriters(writers=0, record_bytes=512, **options),
                [[group("reader", oldest_pending_ns=7)]], {"size_bytes": 300 * MIB, "device": None},
            )
            for options in ({}, {"primed": False}, {"shared_region": True})
        ),
    ],
    "equal-readers": [
        (kind, [[READERS]], {})
        for kind in (
            RandomReads(readers=3, depth=0, span_bytes=5 * MIB, **RAMP),
            DeviceQueue(seconds=0.5, readers=3, depth=5, span_bytes=3 * MIB + 7),
            ReadersTogether(readers=3, depth=5, span_bytes=5 * MIB, **RAMP),
            ThrottledReads(depth=5, span_bytes=5 * MIB, **RAMP),
        )
    ] + [(RandomReads(record_bytes=512), [[IDLE]], {})],
    "cached-reads": [
        (CachedReads(cached_bytes=7 * MIB + 9, **USUAL), [[READERS]], {}),
        *(
            (CachedReads(), [[READERS, {"mean": 2.5, "max": 4, "reads_mean": mean}]],
             {**ONLY, "counts_alone": alone})
            for alone, mean in ((True, 0.1), (True, 0.26), (False, 5.0))
        ),
    ],
    "weights": [
        *(
            (
                Weights(readers=3, **options, **RAMP),
                [[group("favoured", reads=side(40, 6000, bins=BINS)),
                  group("other", reads=side(9, 4000))]], {},
            )
            for options in ({"favoured_weight": 300}, {"priority": "rt-be"},
                            {"priority": "be0-be7"}, {"priority": "be-idle"})
        ),
        *((Weights(favoured_weight=300), [shared(*of)], {})
          for of in ((9000, 1000), (0, 1000), (0, 0))),
    ],
    "copy-beside-desktop": [
        (
            CopyBesideDesktop(requests=1, record_bytes=512, copy_record_bytes=8192,
                              lead_seconds=0.25, limit_seconds=1.5),
            [[served(0.077, reads=side(1, 1, bins=BINS)), group("source", reads=side(1, 9)),
              {**WRITERS, "name": "copy"}]], {},
        ),
    ],
    "database": [
        (
            Database(seconds=0.5, ramp_seconds=0.25, clients=3, reads=2, page_bytes=512,
                     log_record_bytes=1024), [[clients(10)]], {},
        ),
        (Database(reads=3), [[clients(0, oldest_pending_ns=1)]], FILES),
    ],
    "file-test": [
        *(
            of_test(test, group("w", **TESTED), engine="io_uring", depth=5, workers=3, sync="dsync",
                   direct=direct)
            for test in TESTS if test != "write" for direct in (True, False)
        ),
        of_test("re-read", group("w", **TESTED, prepared=prepared(500),
                                writes=side(0, 0, errors=2, short=3)), seconds=0),
        of_test("rewrite", group("w", writes=side(8, 64), prepared=prepared(500))),
        *(of_test("read", each)
          for each in (group("w"), group("w", reads=side(errors=1)), group("w", elapsed_ns=0))),
        # A region that takes a discard is filled again, by whole MiB where that leaves nothing out.
        *(
            of_test("write", group("w", **TESTED, prepared=prepared(discarded=True)),
                   group("fill", device_bytes_written=900), span_bytes=int(span_mib * MIB),
                   workers=2, engine="io_uring", depth=3, sync="sync")
            for span_mib in (3, 2.5)
        ),
        of_test("write", group("w", **TESTED, prepared=prepared(0, False, "EINVAL")), seconds=0),
        of_test("write", group("w", **TESTED), target=FILES, span_bytes=10_000, record_bytes=4096,
               direct=False),
    ],
    "calls": [
        (
            Calls(block_bytes=300, mode=mode, calls=8, direction="read"),
            [[group("calls", reads=side(errors=2), writes=side(errors=3), cpu_user_ns=100_000_000,
                    cpu_system_ns=400_000_000)]], {},
        )
        for mode in MODES
    ],
    "device-timings": [
        (
            DeviceTimings(**options),
            [[group("w", reads=side(4, 3000), device_bytes_read=4000, device_bytes_written=5)]], {},
        )
        for options in (
            {"timing": "cached"}, {"timing": "cached", "seconds": 1.5}, {"timing": "buffered"},
            {"timing": "buffered", "direct": True},
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_kind_asks_for_and_makes_of_the_answer(name, engine, golden, tmp_path, monkeypatch):
    """Without files of its own that are left."""
    monkeypatch.chdir(tmp_path)
    lines = []
    for kind, answers, changes in CASES[name]:
        for groups in answers:
            seen = {"inflight": groups[-1]} if "name" not in groups[-1] else {}
            engine.answers(*(each for each in groups if "name" in each), **seen)
        for own in ("log", "first-write"):
            Path(own).touch()
        outcome = asdict(kind.measure(replace(TARGET, **changes), "w", seed=5))
        left = sorted(path.name for path in tmp_path.iterdir())
        lines += ["", f"{kind!r}, {'writes' if kind.writes() else 'reads'}, leaves {left}"]
        for job in engine.jobs:
            groups = job.pop("groups")
            lines += [f"asks {json.dumps(job)}", *(f"  {json.dumps(each)}" for each in groups)]
        lines += [f"{part}: {json.dumps(of)}" for part, of in outcome.items() if of]
        engine.jobs.clear()
    golden(f"jobs/{name}.txt", "\n".join(lines))
