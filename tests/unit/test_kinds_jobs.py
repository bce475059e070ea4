"""What each kind of I/O workload asks of the load engine, and what it makes of the answer.

The engine is replaced by one that keeps the jobs and answers with figures that are chosen so that a
person can work out the metrics. Its real answers are in tests/host/test_kinds*.py.
"""

from pathlib import Path

import pytest
from load_engine import (
    BINS,
    ENDLESS,
    IN_ORDER,
    MIB,
    ONCE_EACH,
    READ,
    TARGET,
    WRITE,
    group,
    process,
    side,
    work,
)

from schedlab.kinds.actors import Actors
from schedlab.kinds.cached_reads import CachedReads
from schedlab.kinds.copy_beside_desktop import CopyBesideDesktop
from schedlab.kinds.database import Database
from schedlab.kinds.device_queue import DeviceQueue
from schedlab.kinds.file_test import FileTest
from schedlab.kinds.newcomer import Newcomer, first_requests
from schedlab.kinds.random_reads import RandomReads
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.kinds.readers_together import ReadersTogether
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.kinds.throttled_reads import ThrottledReads
from schedlab.kinds.weights import Weights


def test_a_newcomer_beside_writers(engine):
    responses = [[n, 1000 * us] for n, us in enumerate((9, 1, 7, 3, 5, 2, 8, 100))]
    engine.answers(
        group("newcomer", responses=responses, reads=side(7, 3584, bins=BINS)),
        group("writers", elapsed_ns=1_500_000_000, writes=side(5, 300), reads=side(1, 7)),
    )
    kind = Newcomer(requests=7, record_bytes=512, writers=3, writer_record_bytes=8192,
                    lead_seconds=0.25, limit_seconds=1.5, span_bytes=41 * MIB)  # fmt: skip
    outcome = kind.measure(TARGET, "w", seed=5)
    # Quarters of 41 MiB in whole MiB; 40 requests of three writers are 14 of each.
    assert engine.jobs[0]["groups"] == [
        process("newcomer", 0, work(ENDLESS, READ, 512, 10 * MIB, 1, 5), ends_job=True, requests=7,
                start_after_ms=250),
        process("writers", 10, work(ONCE_EACH, WRITE, 8192, 30 * MIB, 14, 6), workers=3),
    ]  # fmt: skip
    assert engine.window == (1.75, 0.0, True, "sdx")
    assert outcome.metrics == {
        "newcomer_latency_ns_mean": 5000.0, "newcomer_latency_ns_p50": 5000.0,
        "newcomer_latency_ns_p90": 9000.0, "write_bytes_per_s": 200.0,
    }  # fmt: skip
    assert outcome.bounds == {}
    assert outcome.histograms == {"latency_ns": BINS}
    assert (outcome.properties["load_depth"], outcome.properties["requests"]) == (42, 7)


def test_a_newcomer_alone_and_one_on_the_writers_region(engine):
    alone = Newcomer(requests=1, writers=0, writer_depth=3)
    engine.answers(group("newcomer", responses=[[0, 77]]))
    outcome = alone.measure(TARGET, "w", seed=1)
    (only,) = engine.jobs[0]["groups"]
    assert (only["name"], only["workload"]["span"]) == ("newcomer", 40 * MIB)
    assert set(outcome.metrics.values()) == {77.0} and "write_bytes_per_s" not in outcome.metrics
    assert "load_depth" not in outcome.properties
    shared = Newcomer(requests=1, writers=2, writer_depth=3, shared_region=True)
    engine.answers(group("newcomer", responses=[[0, 77]]), group("writers"))
    shared.measure(TARGET, "w", seed=1)
    places = [(g["offset"], g["workload"]["span"]) for g in engine.jobs[1]["groups"]]
    assert places == [(0, 80 * MIB)] * 2
    assert engine.jobs[1]["groups"][1]["workload"]["arrivals"]["depth"] == 3


@pytest.mark.parametrize(
    ("served_us", "pending_ms", "mean_ns", "p50_ns", "p90_ns"),
    [
        ((1000, 2000, 3000), 500, 126.5e6, 2e6, 500e6),
        ((), 100, 2e9, 2e9, 2e9),
        ((), 3000, 3e9, 3e9, 3e9),
    ],
)
def test_first_requests_that_were_cut_short(served_us, pending_ms, mean_ns, p50_ns, p90_ns):
    """The one that waits counts with its age, or with the window where nothing was served."""
    responses = [[0, 1000 * us] for us in served_us]
    one = group("newcomer", responses=responses, oldest_pending_ns=pending_ms * 1_000_000)
    metrics, bounds = first_requests(Actors({"groups": [one]}), 7)
    assert list(metrics.values()) == [mean_ns, p50_ns, p90_ns]
    assert bounds == dict.fromkeys(metrics, "at-least")


def test_a_steady_reader_beside_writers(engine):
    engine.answers(
        group("reader", reads=side(40, 1000, bins=BINS), unissued=4),
        group("writers", elapsed_ns=1_500_000_000, writes=side(5, 300), reads=side(1, 7)),
    )
    kind = ReaderBesideWriters(seconds=0.5, ramp_seconds=0.75, rate_per_s=300, record_bytes=512,
                               writers=3, writer_record_bytes=8192)  # fmt: skip
    outcome = kind.measure(TARGET, "w", seed=5)
    read = work(ENDLESS, READ, 512, 20 * MIB, 1, 5)
    read["arrivals"] = {"kind": "poisson", "rate_per_s": 300.0}
    assert engine.jobs[0]["groups"] == [
        process("reader", 0, read, prime="read"),
        process("writers", 20, work(ONCE_EACH, WRITE, 8192, 60 * MIB, 14, 6), workers=3),
    ]
    assert engine.window == (0.5, 0.75, True, "sdx")
    assert outcome.metrics == {
        "reader_latency_ns_mean": 1625.0, "reader_latency_ns_p50": 1100.0,
        "read_bytes_per_s": 500.0, "write_bytes_per_s": 200.0,
    }  # fmt: skip
    facts = outcome.properties
    assert (facts["load_depth"], facts["unissued"], facts["rate_per_s"]) == (42, 4, 300.0)
    assert facts["arrivals"] == "open loop, Poisson"
    assert outcome.histograms == {"latency_ns": BINS}


@pytest.mark.parametrize(
    ("primed", "shared", "prime", "span_mib"),
    [(True, False, "read", 128), (False, False, "none", 150), (True, True, "read", 128)],
)
def test_a_steady_reader_alone_reads_its_region_first(engine, primed, shared, prime, span_mib):
    """At most 128 MiB. Nothing was read, so the rate and the latency are bounds."""
    target = ResolvedTarget(Path("/t"), 300 * MIB, None, 512, True, Path("/t"), 300 * MIB)
    engine.answers(group("reader", oldest_pending_ns=7))
    kind = ReaderBesideWriters(primed=primed, shared_region=shared, writers=0, record_bytes=512)
    outcome = kind.measure(target, "w", seed=5)
    (only,) = engine.jobs[0]["groups"]
    assert (only["prime"], only["workload"]["span"]) == (prime, span_mib * MIB)
    assert engine.window[3] is None
    assert (outcome.metrics["read_bytes_per_s"], outcome.bounds["read_bytes_per_s"]) == (
        256.0, "at-most",
    )  # fmt: skip
    assert outcome.metrics["reader_latency_ns_p99"] == 2e9
    assert outcome.bounds["reader_latency_ns_p99"] == "at-least"
    assert "write_bytes_per_s" not in outcome.metrics


READERS = {
    "reads": side(40, 6000, bins=BINS), "cpu_user_ns": 300, "cpu_system_ns": 1000,
    "workers": [{"bytes": 4500}, {"bytes": 1500}], "oldest_pending_ns": 9,
}  # fmt: skip
# 6000² / (2 · (4500² + 1500²)) = 0.8
OF_READERS = {
    "throughput_bytes_per_s": 3000.0, "iops": 20.0, "fairness_jain": 0.8, "latency_ns_mean": 1625.0,
    "latency_ns_p50": 1100.0, "cpu_per_request_ns": 32.5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "expected", "window", "load"),
    [
        (
            RandomReads(seconds=0.5, ramp_seconds=0.25, readers=3, record_bytes=512, depth=0,
                        span_bytes=5 * MIB),
            process("readers", 0, work(ENDLESS, READ, 512, 5 * MIB, 14, 5), workers=3),
            (0.5, 0.25, True, "sdx"), 42,
        ),
        (
            DeviceQueue(seconds=0.5, readers=3, depth=5, span_bytes=3 * MIB + 7),
            process("readers", 0, work(ENDLESS, READ, 4096, 3 * MIB, 5, 5), workers=3),
            (0.5, 0.1, True, "sdx"), 15,
        ),
        (
            ReadersTogether(seconds=0.5, ramp_seconds=0.25, readers=3, record_bytes=512, depth=5,
                            span_bytes=5 * MIB),
            process("readers", 0, work(IN_ORDER, READ, 512, 5 * MIB, 5, 5), workers=3),
            (0.5, 0.25, True, "sdx"), 15,
        ),
        (
            ThrottledReads(seconds=0.5, ramp_seconds=0.25, record_bytes=512, depth=5,
                           span_bytes=5 * MIB),
            process("readers", 0, work(ENDLESS, READ, 512, 5 * MIB, 5, 5), workers=1,
                        cgroup="/g/limited"),
            (0.5, 0.25, True, "sdx"), 5,
        ),
        (
            CachedReads(seconds=0.5, cached_bytes=7 * MIB + 9, record_bytes=512),
            process("readers", 0, work(ENDLESS, READ, 512, 7 * MIB + 9, 1, 5), engine="psync",
                    direct=False, prime="read"),
            (0.5, 0.0, True, "sdx"), 0,
        ),
    ],
)  # fmt: skip
def test_equal_readers(engine, kind, expected, window, load):
    engine.answers(group("readers", **READERS))
    outcome = kind.measure(TARGET, "w", seed=5)
    assert engine.jobs[0]["groups"] == [expected]
    assert engine.window == window
    assert outcome.metrics == OF_READERS
    assert (outcome.bounds, outcome.gates) == ({}, ())
    assert outcome.properties.get("load_depth", 0) == load
    assert (outcome.properties["processes"], outcome.properties["slowest_bytes_per_s"]) == (2, 750)
    assert outcome.histograms == {"latency_ns": BINS}


def test_readers_that_read_nothing_are_bounds(engine):
    workers = [{"bytes": 0}, {"bytes": 0}]
    engine.answers(group("readers", workers=workers, oldest_pending_ns=7))
    outcome = RandomReads(record_bytes=512).measure(TARGET, "w", seed=1)
    assert outcome.metrics == {
        "throughput_bytes_per_s": 256.0, "iops": 0.5, "latency_ns_mean": 7.0,
    }  # fmt: skip
    assert outcome.bounds == {
        "throughput_bytes_per_s": "at-most", "iops": "at-most", "latency_ns_mean": "at-least",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("alone", "reads_mean", "text"),
    [(True, 0.1, ""), (True, 0.26, "0.3 reads were at the device"), (False, 5.0, "")],
)
def test_reads_that_missed_the_cache_fail_a_gate(engine, alone, reads_mean, text):
    target = ResolvedTarget(Path("/t"), 4 * MIB, "sdx", 512, alone, Path("/t"), 4 * MIB)
    inflight = {"mean": 2.5, "max": 4, "reads_mean": reads_mean}
    engine.answers(group("readers", **READERS), inflight=inflight)
    outcome = CachedReads().measure(target, "w", seed=1)
    assert [gate.gate for gate in outcome.gates] == ["not-cached"] * bool(text)
    assert all(text in gate.detail for gate in outcome.gates)
    assert outcome.properties["claimed_bytes"] is None
    assert (outcome.properties["in_driver_mean"], outcome.properties["in_driver_max"]) == (2.5, 4)
    assert set(outcome.histograms) == {"latency_ns"}
    assert engine.jobs[0]["groups"][0]["workload"]["span"] == 4 * MIB


@pytest.mark.parametrize(
    ("options", "settings", "asked"),
    [
        ({"favoured_weight": 300}, ({"cgroup": "/g/favoured"}, {"cgroup": "/g/other"}), 0.75),
        (
            {"priority": "rt-be"},
            ({"ioprio": {"class": "rt", "level": 4}}, {"ioprio": {"class": "be", "level": 4}}), 1.0,
        ),
        (
            {"priority": "be0-be7"},
            ({"ioprio": {"class": "be", "level": 0}}, {"ioprio": {"class": "be", "level": 7}}), 1.0,
        ),
        (
            {"priority": "be-idle"},
            ({"ioprio": {"class": "be", "level": 4}}, {"ioprio": {"class": "idle", "level": 0}}),
            1.0,
        ),
    ],
)  # fmt: skip
def test_two_groups_with_weights_or_priorities(engine, options, settings, asked):
    engine.answers(
        group("favoured", reads=side(40, 6000, bins=BINS)), group("other", reads=side(9, 4000))
    )
    kind = Weights(seconds=0.5, ramp_seconds=0.25, readers=3, record_bytes=512, **options)
    outcome = kind.measure(TARGET, "w", seed=5)
    # 40 requests of six processes are 7 of each.
    assert engine.jobs[0]["groups"] == [
        process("favoured", 0, work(ENDLESS, READ, 512, 40 * MIB, 7, 5), workers=3, **settings[0]),
        process("other", 40, work(ENDLESS, READ, 512, 40 * MIB, 7, 6), workers=3, **settings[1]),
    ]
    assert engine.window == (0.5, 0.25, True, "sdx")
    assert outcome.metrics == pytest.approx({
        "favoured_latency_ns_mean": 1625.0, "favoured_latency_ns_p50": 1100.0,
        "throughput_bytes_per_s": 5000.0, "share_fulfilment": 0.6 / asked,
    })  # fmt: skip
    facts = outcome.properties
    assert (facts["share_asked"], facts["share_reached"], facts["load_depth"]) == (asked, 0.6, 42)
    assert outcome.histograms == {"latency_ns": BINS}


@pytest.mark.parametrize(
    ("favoured", "other", "fulfilment", "reached"),
    [(9000, 1000, 0.75 / 0.9, 0.9), (0, 1000, 1e-6 / 0.75, 0.0), (0, 0, 0.5 / 0.75, 0.5)],
)
def test_a_share_that_is_missed_on_either_side(engine, favoured, other, fulfilment, reached):
    engine.answers(group("favoured", reads=side(1, favoured)), group("other", reads=side(1, other)))
    outcome = Weights(favoured_weight=300).measure(TARGET, "w", seed=1)
    assert outcome.metrics["share_fulfilment"] == pytest.approx(fulfilment, rel=1e-9)
    assert outcome.properties["share_reached"] == reached
    assert ("throughput_bytes_per_s" in outcome.metrics) == bool(favoured + other)


def test_a_copy_beside_a_desktop(engine):
    engine.answers(
        group("newcomer", responses=[[0, 77]], reads=side(1, 1, bins=BINS)),
        group("source", reads=side(1, 9)),
        group("copy", elapsed_ns=1_500_000_000, writes=side(5, 300), reads=side(1, 7)),
    )
    kind = CopyBesideDesktop(requests=1, record_bytes=512, copy_record_bytes=8192,
                             lead_seconds=0.25, limit_seconds=1.5)  # fmt: skip
    outcome = kind.measure(TARGET, "w", seed=5)
    buffered = {"engine": "psync", "direct": False, "at_end": "drop"}
    assert engine.jobs[0]["groups"] == [
        process("newcomer", 0, work(ENDLESS, READ, 512, 20 * MIB, 1, 5), ends_job=True, requests=1,
                start_after_ms=250),
        process("source", 20, work(IN_ORDER, READ, 8192, 50 * MIB, 1, 6), cold=True, **buffered),
        process("copy", 70, work(IN_ORDER, WRITE, 8192, 10 * MIB, 1, 6), **buffered),
    ]  # fmt: skip
    assert engine.window == (1.75, 0.0, True, "sdx")
    assert outcome.metrics["copy_bytes_per_s"] == 200.0
    assert outcome.metrics["newcomer_latency_ns_p90"] == 77.0
    assert (outcome.properties["claimed_bytes"], outcome.properties["requests"]) == (None, 1)
    assert outcome.histograms == {"latency_ns": BINS}


def clients(count, **fields):
    """The clients of a database that committed so often in 2 s."""
    bins = BINS if count else []
    return group(
        "clients", transactions={"count": count, "per_s": 5.0}, writes=side(count, 50, bins=bins),
        reads=side(2 * count, 7, bins=bins), device_bytes_read=3, device_bytes_written=4, **fields,
    )  # fmt: skip


def test_clients_of_a_database(engine):
    engine.answers(clients(10))
    kind = Database(seconds=0.5, ramp_seconds=0.25, clients=3, reads=2, page_bytes=512,
                    log_record_bytes=1024)  # fmt: skip
    outcome = kind.measure(TARGET, "w", seed=5)
    log = {"record": 1024, "reads": 2, "path": "/t", "offset": 70 * MIB, "span": 10 * MIB}
    expected = process("clients", 0, work(ENDLESS, READ, 512, 70 * MIB, 1, 5), workers=3, log=log)
    assert engine.jobs[0]["groups"] == [{**expected, "engine": "psync", "layout": "shared"}]
    assert engine.window == (0.5, 0.25, True, "sdx")
    assert outcome.metrics == {
        "transactions_per_s": 5.0, "latency_ns_mean": 1625.0, "commit_latency_ns_mean": 1625.0,
        "commit_latency_ns_p50": 1100.0,
    }  # fmt: skip
    assert outcome.bounds == {}
    assert outcome.properties["claimed_bytes"] == [3, 4]
    assert outcome.properties["log"] == "a region of the device"
    assert outcome.histograms == {"latency_ns": BINS}


def test_a_database_on_files_and_one_without_a_commit(engine, tmp_path):
    engine.answers(clients(0, oldest_pending_ns=1))
    (tmp_path / "log").write_text("of the run")
    target = ResolvedTarget(Path("/t"), 80 * MIB, "s", 512, True, Path("/t"), 80 * MIB, tmp_path)
    outcome = Database(reads=3).measure(target, "w", seed=5)
    log = {"record": 4096, "reads": 3, "path": str(tmp_path / "log")}
    assert engine.jobs[0]["groups"][0]["log"] == log
    assert (outcome.properties["log"], outcome.properties["claimed_bytes"]) == ("a file", None)
    assert list(tmp_path.iterdir()) == []
    names = [f"commit_latency_ns_{q}" for q in ("mean", "p50", "p90", "p99", "p99_9", "p99_99")]
    assert outcome.metrics == {"transactions_per_s": 0.5, **dict.fromkeys(names, 2e9)}
    assert outcome.bounds == {
        "transactions_per_s": "at-most", **dict.fromkeys(names, "at-least"),
    }  # fmt: skip


def engine_group(**fields):
    """A group of 41 reads, 6001 bytes, 2 s."""
    return group(
        "w", reads=side(41, 6001, bins=BINS), cpu_user_ns=100_000_000, cpu_system_ns=400_000_000,
        device_bytes_read=7000, device_bytes_written=11, **fields,
    )  # fmt: skip


OF_A_TEST = {"throughput_bytes_per_s": 3000.5, "iops": 20.5, "cpu_s": 0.5, "elapsed_s": 2.0,
             "latency_ns_p50": 1100.0}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "order", "direction", "more"),
    [
        ({"test": "rewrite"}, IN_ORDER, WRITE, {"prime": "write"}),
        ({"test": "read"}, IN_ORDER, READ, {}),
        ({"test": "read", "direct": False}, IN_ORDER, READ, {"cold": True, "at_end": "stop"}),
        ({"test": "re-read", "direct": False}, IN_ORDER, READ, {"prime": "read", "at_end": "stop"}),
        ({"test": "random-read"}, ONCE_EACH, READ, {}),
        ({"test": "random-write", "direct": False}, ONCE_EACH, WRITE, {"at_end": "stop"}),
        ({"test": "reverse-read"}, {"kind": "reverse"}, READ, {}),
        ({"test": "record-rewrite"}, {"kind": "same"}, WRITE, {}),
        ({"test": "stride-read"}, {"kind": "stride", "records": 17}, READ, {}),
        ({"test": "mixed"}, ONCE_EACH, {"kind": "mixed", "read_percent": 50}, {}),
    ],
)
def test_the_file_tests(engine, options, order, direction, more):
    engine.answers(engine_group())
    kind = FileTest(record_bytes=512, engine="io_uring", depth=5, workers=3, sync="dsync",
                    seconds=0.5, **options)  # fmt: skip
    outcome = kind.measure(TARGET, "w", seed=5)
    direct = options.get("direct", True)
    assert engine.jobs[0]["groups"] == [
        {"name": "w", "path": "/t", "workers": 3, "engine": "io_uring", "direct": direct,
         "sync": "dsync", "workload": work(order, direction, 512, 80 * MIB, 5, 5), **more}
    ]  # fmt: skip
    assert engine.window == (0.5, 0.0, False, None)
    assert outcome.metrics == OF_A_TEST
    assert outcome.properties["claimed_bytes"] == ([7000, 11] if direct else None)
    assert outcome.properties["cpu_share"] == 0.25
    assert outcome.properties.get("claimed_cold_bytes") == (7000 if "cold" in more else None)
    assert kind.writes() == (direction is not READ)


def test_figures_of_a_file_test_that_was_primed_or_did_nothing(engine):
    primed = {"discarded": None, "refused": None, "primed_bytes": 500}
    engine.answers(engine_group(prepared=primed, writes=side(0, 0, errors=2, short=3)))
    read = FileTest(test="re-read", seconds=0).measure(TARGET, "w", seed=1)
    assert engine.window == (None, 0.0, False, None)
    assert read.properties["claimed_bytes"] == [7500, 11]
    assert (read.properties["errors"], read.properties["short"]) == (2, 3)
    engine.answers(group("w", writes=side(8, 64), prepared=primed))
    written = FileTest(test="rewrite").measure(TARGET, "w", seed=1)
    assert written.properties["claimed_bytes"] == [0, 500]
    assert written.metrics["throughput_bytes_per_s"] == 32.0
    engine.answers(group("w"))
    idle = FileTest(test="read").measure(TARGET, "w", seed=1)
    assert (idle.metrics["iops"], idle.bounds) == (0.5, {"iops": "at-most"})
    assert idle.properties["cpu_share"] == 0.0
    for failed in (group("w", reads=side(errors=1)), group("w", elapsed_ns=0)):
        engine.answers(failed)
        outcome = FileTest(test="read").measure(TARGET, "w", seed=1)
        assert "iops" not in outcome.metrics and outcome.bounds == {}
    assert outcome.properties["cpu_share"] is None


@pytest.mark.parametrize(("span_mib", "record"), [(3, MIB), (2.5, 512)])
def test_a_first_write_of_a_region_that_takes_a_discard(engine, span_mib, record):
    """It is filled again by whole MiB where that leaves nothing out."""
    span = int(span_mib * MIB)
    discarded = {"discarded": True, "refused": None, "primed_bytes": 0}
    engine.answers(engine_group(prepared=discarded))
    engine.answers(group("fill", device_bytes_written=900))
    kind = FileTest(test="write", span_bytes=span, record_bytes=512, seconds=0.5, workers=2,
                    engine="io_uring", depth=3, sync="sync")  # fmt: skip
    outcome = kind.measure(TARGET, "w", seed=5)
    first, fill = engine.jobs
    usual = {"path": "/t", "workers": 2, "engine": "io_uring", "direct": True, "sync": "sync"}
    write = work(IN_ORDER, WRITE, 512, span, 3, 5)
    assert first["groups"] == [
        {**usual, "name": "w", "workload": write, "discard": True, "at_end": "stop"}
    ]
    assert fill["groups"] == [
        {**usual, "name": "fill", "workers": 1, "engine": "psync", "sync": "none",
         "workload": {**write, "record": record}}
    ]  # fmt: skip
    assert (first["seconds"], fill["seconds"]) == (0.5, None)
    assert outcome.properties["claimed_bytes"] == [7000, 911]
    assert outcome.metrics == OF_A_TEST and "test_done" not in outcome.properties


def test_a_first_write_without_discard_and_one_of_a_file(engine, tmp_path):
    refused = {"discarded": False, "refused": "EOPNOTSUPP", "primed_bytes": 0}
    engine.answers(engine_group(prepared=refused))
    outcome = FileTest(test="write", seconds=0).measure(TARGET, "w", seed=1)
    assert engine.window[0] is None
    assert outcome.properties["test_done"] == "rewrite"
    assert outcome.properties["test_done_because"] == "EOPNOTSUPP"
    assert outcome.properties["claimed_bytes"] == [7000, 11]
    engine.answers(engine_group())
    target = ResolvedTarget(Path("/t"), 80 * MIB, None, 512, True, Path("/t"), 80 * MIB, tmp_path)
    (tmp_path / "first-write").write_text("of the run")
    kind = FileTest(test="write", span_bytes=10_000, record_bytes=4096, seconds=0.5, direct=False)
    outcome = kind.measure(target, "w", seed=1)
    (only,) = engine.jobs[1]["groups"]
    assert (only["path"], only["file"]) == (str(tmp_path / "first-write"), "fresh")
    assert (only["workload"]["span"], only["at_end"]) == (8192, "stop")
    assert engine.jobs[1]["seconds"] == 0.5
    assert outcome.properties["claimed_bytes"] is None
    assert list(tmp_path.iterdir()) == []
